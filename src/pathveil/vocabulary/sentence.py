"""Choose words by a sentence: ``registries >= 3 and cases >= 5 then top 10000 by mutual-information``.

``then`` separates steps; each works on the words that the step before it leaves. A step is one of two:

    top N by MEASURE     the N highest; ties go to the word that sorts first
    a condition          measures compared (>=, >, <=, <, =) with numbers, "in lexicon", and, or, not, parentheses

Occurrences, reports and cases are summed over the registries; ``registries`` counts those that have the word. Python's
own parser reads a condition; anything else in its tree is refused. Nothing here needs polars, so that studies choose
words on machines that have only an encoded corpus.

>>> sentence = Sentence.parse("Registries>=2 and not cases < 3 then top 2 by occurrences")
>>> str(sentence)
'registries >= 2 and not cases < 3 then top 2 by occurrences'
>>> measures = {"registries": [1, 2, 2, 3], "cases": [9, 9, 2, 5], "occurrences": [9, 8, 7, 6]}
>>> sentence.apply(lambda name: np.array(measures[name]), words=4).tolist()
[False, True, False, True]
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from pathveil.errors import VocabularyError

MEASURES = ("occurrences", "reports", "cases", "registries", "mutual-information")
LEXICON = "in lexicon"  # a measure that is 1 where the word is in the lexicon
EXAMPLE = "an example is 'registries >= 3 and cases >= 5 then top 10000 by mutual-information'"
SIGNS: dict[type[ast.cmpop], tuple[str, Callable[[np.ndarray, float], np.ndarray]]] = {
    ast.GtE: (">=", operator.ge),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.Lt: ("<", operator.lt),
    ast.Eq: ("=", operator.eq),
}
TOP = re.compile(r"top ([0-9.e]+) by (\S+)")

Measured = Callable[[str], np.ndarray]  # a measure's name → its value for every word


@dataclass(frozen=True)
class Comparison:
    """A measure compared with a number."""

    measure: str
    operator: type[ast.cmpop]
    number: float

    @property
    def sign(self) -> str:
        return SIGNS[self.operator][0]

    def __str__(self) -> str:
        return f"{self.measure} {self.sign} {int(self.number) if self.number == int(self.number) else self.number}"


@dataclass(frozen=True)
class Top:
    """The words with the highest values of a measure."""

    number: int
    measure: str

    def __str__(self) -> str:
        return f"top {self.number} by {self.measure}"


@dataclass(frozen=True)
class Sentence:
    """Steps that choose words, one after another."""

    steps: tuple[Top | ast.expr, ...]

    @classmethod
    def parse(cls, text: str) -> "Sentence":
        """Parse a sentence; its fault is one sentence with an example."""
        try:
            steps = re.split(r"\bthen\b", " ".join(text.lower().split()))
            return cls(tuple(map(parse_step, map(str.strip, steps))))
        except VocabularyError as fault:
            raise VocabularyError(f"'{text}': {fault}; {EXAMPLE}") from None

    def apply(self, measured: Measured, *, words: int) -> np.ndarray:
        """Mark the words that the sentence chooses: (words,) bool."""
        chosen = np.ones(words, bool)
        for number, step in enumerate(self.steps):
            left = np.flatnonzero(chosen)
            if isinstance(step, Top):
                if step.number > len(left):
                    where = f"'{Sentence(self.steps[:number])}' leaves" if number else "the reports have"
                    raise VocabularyError(
                        f"'{step}' asks for {step.number:,} words but {where} {len(left):,}; ask for at most that many"
                    )
                # Words are in sorted order, so a stable sort gives ties to the word that comes first.
                best = np.argsort(-measured(step.measure)[left], kind="stable")[: step.number]
                chosen = np.zeros(words, bool)
                chosen[left[best]] = True
            else:
                chosen &= evaluate(step, measured)
            if not chosen.any():
                raise VocabularyError(
                    f"no word is left after '{Sentence(self.steps[: number + 1])}' (there were {len(left):,}); "
                    "lower what it asks for"
                )
        return chosen

    @property
    def comparisons(self) -> Iterator[Comparison]:
        """All comparisons, however deep."""
        for step in self.steps:
            if not isinstance(step, Top):
                yield from (parse_comparison(node) for node in ast.walk(step) if isinstance(node, ast.Compare))

    def uses(self, measure: str) -> bool:
        """Return true if a step depends on a measure."""
        tops = {step.measure for step in self.steps if isinstance(step, Top)}
        return measure in tops | {one.measure for one in self.comparisons}

    def __str__(self) -> str:
        return " then ".join(str(step) if isinstance(step, Top) else format_condition(step) for step in self.steps)


def parse_step(text: str) -> Top | ast.expr:
    """Parse one step, which is in lower case."""
    if text == "top" or text.startswith("top "):
        return parse_top(text)
    text = re.sub(r"\bin lexicon\b", "in_lexicon", text.replace("mutual-information", "mutual_information"))
    if strange := re.search(r"[^\w\s.<>=()-]", text):
        raise VocabularyError(f"'{strange[0]}' has no meaning here")
    try:
        condition = ast.parse(re.sub(r"(?<![<>=])=(?!=)", "==", text), mode="eval").body
        check_condition(condition)
    except SyntaxError as fault:
        rest = (fault.text or "")[max((fault.offset or 1) - 1, 0) :].strip()
        raise VocabularyError(f"cannot be read from '{rest}' on" if rest else "has a step without an end") from None
    except (ValueError, RecursionError, MemoryError):
        raise VocabularyError("is nested too deep, or has a number of too many digits") from None
    return condition


def parse_top(text: str) -> Top:
    """Parse "top N by MEASURE"."""
    match = TOP.fullmatch(text)
    if not match:
        raise VocabularyError(f"expected 'top N by MEASURE', found '{text}'")
    try:
        number = float(match[1])
    except ValueError:
        number = 0.0
    if number < 1 or number != int(number):
        raise VocabularyError(f"expected a whole number of words, found '{match[1]}'")
    return Top(int(number), find_measure(match[2]))


def find_measure(name: str) -> str:
    """Check a measure's name; an unknown one is an error with the nearest name."""
    if name.replace("_", "-") in MEASURES:
        return name.replace("_", "-")
    nearest = get_close_matches(name, MEASURES, n=1)
    hint = f"the nearest is '{nearest[0]}'" if nearest else f"there are {', '.join(MEASURES)}"
    raise VocabularyError(f"there is no measure '{name}'; {hint}")


def check_condition(node: ast.expr) -> None:
    """Refuse a tree with anything but comparisons of measures with numbers, ``in lexicon``, and, or, not."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                check_condition(part)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            check_condition(part)
        case ast.Compare():
            parse_comparison(node)
        case ast.Name(id="in_lexicon"):
            pass
        case ast.Name(id=name):
            raise VocabularyError(f"compare '{find_measure(name)}' with a number")
        case _:
            raise VocabularyError(f"'{ast.unparse(node)}' is no comparison of a measure with a number")


def parse_comparison(node: ast.Compare) -> Comparison:
    """Parse a comparison of a measure, on the left, with a number."""
    match node:
        case ast.Compare(
            left=ast.Name(id=name), ops=[sign], comparators=[ast.Constant(value=int() | float() as number)]
        ):
            if type(sign) in SIGNS:
                return Comparison(find_measure(name), type(sign), float(number))
    raise VocabularyError(f"'{ast.unparse(node)}' does not compare a measure with a number by >=, >, <=, < or =")


def evaluate(node: ast.expr, measured: Measured) -> np.ndarray:
    """Mark the words for which a condition is true: (words,) bool."""
    match node:
        case ast.BoolOp(op=join, values=parts):
            reduce = np.logical_and.reduce if isinstance(join, ast.And) else np.logical_or.reduce
            return reduce([evaluate(part, measured) for part in parts])
        case ast.UnaryOp(operand=part):
            return ~evaluate(part, measured)
        case ast.Compare():
            comparison = parse_comparison(node)
            return SIGNS[comparison.operator][1](measured(comparison.measure), comparison.number)
    return measured(LEXICON) > 0


def format_condition(node: ast.expr, *, inner: bool = False) -> str:
    """Write a condition in its usual form, with parentheses around each inner and/or."""
    match node:
        case ast.BoolOp(op=join, values=parts):
            word = " and " if isinstance(join, ast.And) else " or "
            text = word.join(format_condition(part, inner=True) for part in parts)
            return f"({text})" if inner else text
        case ast.UnaryOp(operand=part):
            return f"not {format_condition(part, inner=True)}"
        case ast.Compare():
            return str(parse_comparison(node))
    return LEXICON
