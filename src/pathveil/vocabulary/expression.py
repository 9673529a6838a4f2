"""Which words to keep, said in one sentence: ``registries >= 3 and cases >= 5 then top 10000 by mutual-information``.

    sentence   = step { "then" step }                    each step works on the words the one before it left
    step       = "top" N "by" measure | condition        the N highest; ties go to the word that sorts first
    condition  = part { "or" part }        part = item { "and" item }
    item       = measure (">=" | ">" | "<=" | "<" | "=") number | "in lexicon" | "not" item | "(" condition ")"
    measure    = "occurrences" | "reports" | "cases" | "registries" | "mutual-information"

Occurrences, reports and cases are summed over the registries; ``registries`` is how many of them have the word.

>>> sentence = parse("registries>=2 and not cases < 3 then top 2 by occurrences")
>>> str(sentence)
'registries >= 2 and not cases < 3 then top 2 by occurrences'
>>> measures = {"registries": [1, 2, 2, 3], "cases": [9, 9, 2, 5], "occurrences": [9, 8, 7, 6]}
>>> sentence.keep(lambda name: np.array(measures[name]), words=4).tolist()
[False, True, False, True]
"""

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pathveil.errors import VocabularyError

MEASURES = ("occurrences", "reports", "cases", "registries", "mutual-information")
LEXICON = "in lexicon"  # asked for as a measure: 1 where the word is in the lexicon
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq}
_PIECE = re.compile(r"\s*(>=|<=|[<>=()]|[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?|[a-z-]+|\S)", re.IGNORECASE)

Measured = Callable[[str], np.ndarray]  # a measure's name → its value for every word


@dataclass(frozen=True)
class Compared:
    measure: str
    sign: str
    number: float

    def holds(self, measured: Measured) -> np.ndarray:
        return _COMPARE[self.sign](measured(self.measure), self.number)

    def __str__(self) -> str:
        number = int(self.number) if self.number == int(self.number) else self.number
        return f"{self.measure} {self.sign} {number}"


@dataclass(frozen=True)
class InLexicon:
    def holds(self, measured: Measured) -> np.ndarray:
        return measured(LEXICON) > 0

    def __str__(self) -> str:
        return LEXICON


@dataclass(frozen=True)
class Not:
    item: "Condition"

    def holds(self, measured: Measured) -> np.ndarray:
        return ~self.item.holds(measured)

    def __str__(self) -> str:
        return f"not ({self.item})" if isinstance(self.item, Joined) else f"not {self.item}"


@dataclass(frozen=True)
class Joined:
    word: str  # "and" or "or"
    items: tuple["Condition", ...]

    def holds(self, measured: Measured) -> np.ndarray:
        join = np.logical_and if self.word == "and" else np.logical_or
        return join.reduce([item.holds(measured) for item in self.items])

    def __str__(self) -> str:
        return f" {self.word} ".join(f"({item})" if isinstance(item, Joined) else str(item) for item in self.items)


Condition = Compared | InLexicon | Not | Joined


@dataclass(frozen=True)
class Top:
    number: int
    measure: str

    def __str__(self) -> str:
        return f"top {self.number} by {self.measure}"


@dataclass(frozen=True)
class Sentence:
    steps: tuple[Condition | Top, ...]

    def keep(self, measured: Measured, *, words: int) -> np.ndarray:
        """Which of the words are kept: (words,) bool."""
        kept = np.ones(words, bool)
        for number, step in enumerate(self.steps):
            left = np.flatnonzero(kept)
            if isinstance(step, Top):
                if step.number > len(left):
                    where = f"'{Sentence(self.steps[:number])}' leaves" if number else "the reports have"
                    raise VocabularyError(
                        f"'{step}' asks for {step.number:,} words but {where} {len(left):,}; ask for at most that many"
                    )
                # Words are in sorted order, so a stable sort gives ties to the word that comes first.
                best = np.argsort(-measured(step.measure)[left], kind="stable")[: step.number]
                kept = np.zeros(words, bool)
                kept[left[best]] = True
            else:
                kept &= step.holds(measured)
            if not kept.any():
                raise VocabularyError(
                    f"no word is left after '{Sentence(self.steps[: number + 1])}' (there were {len(left):,}); "
                    "lower what it asks for"
                )
        return kept

    @property
    def comparisons(self) -> Iterator[Compared]:
        """Every comparison in it, however deep."""
        waiting: list[Condition | Top] = list(self.steps)
        while waiting:
            item = waiting.pop()
            if isinstance(item, Compared):
                yield item
            elif isinstance(item, Not):
                waiting.append(item.item)
            elif isinstance(item, Joined):
                waiting.extend(item.items)

    def uses(self, measure: str) -> bool:
        return any(item.measure == measure for item in self.comparisons) or any(
            isinstance(step, Top) and step.measure == measure for step in self.steps
        )

    def __str__(self) -> str:
        return " then ".join(map(str, self.steps))


def parse(text: str) -> Sentence:
    """Read a sentence; a mistake is an error that shows its place."""
    return _Reader(text).sentence()


class _Reader:
    def __init__(self, text: str):
        self.text = text
        self.pieces = [(match.group(1).lower(), match.start(1)) for match in _PIECE.finditer(text)]
        self.at = 0

    def peek(self) -> str:
        return self.pieces[self.at][0] if self.at < len(self.pieces) else ""

    def take(self, *expected: str) -> str:
        piece = self.peek()
        if piece not in expected:
            self.fail(" or ".join(f"'{word}'" for word in expected))
        self.at += 1
        return piece

    def fail(self, expected: str) -> None:
        place = self.pieces[self.at][1] if self.at < len(self.pieces) else len(self.text)
        found = f"'{self.peek()}'" if self.peek() else "its end"
        raise VocabularyError(
            f"'{self.text}': expected {expected} at character {place + 1}, found {found}; "
            "an example is 'registries >= 3 and cases >= 5 then top 10000 by mutual-information'"
        )

    def number(self, what: str) -> float:
        try:
            number = float(self.peek())
        except ValueError:
            self.fail(what)
        self.at += 1
        return number

    def sentence(self) -> Sentence:
        steps = [self.step()]
        while self.peek() == "then":
            self.at += 1
            steps.append(self.step())
        if self.peek():
            self.fail("'and', 'or', 'then' or the end")
        return Sentence(tuple(steps))

    def step(self) -> Condition | Top:
        if self.peek() != "top":
            return self.condition()
        self.at += 1
        number = self.number("a number of words")
        if number < 1 or number != int(number):
            self.at -= 1
            self.fail("a whole number of words")
        self.take("by")
        return Top(int(number), self.take(*MEASURES))

    def condition(self) -> Condition:
        return self.joined("or", lambda: self.joined("and", self.item))

    def joined(self, word: str, read: Callable[[], Condition]) -> Condition:
        items = [read()]
        while self.peek() == word:
            self.at += 1
            items.append(read())
        return items[0] if len(items) == 1 else Joined(word, tuple(items))

    def item(self) -> Condition:
        if self.peek() == "not":
            self.at += 1
            return Not(self.item())
        if self.peek() == "(":
            self.at += 1
            inside = self.condition()
            self.take(")")
            return inside
        if self.peek() == "in":
            self.at += 1
            self.take("lexicon")
            return InLexicon()
        measure = self.take(*MEASURES, "in", "not", "(")
        return Compared(measure, self.take(*_COMPARE), self.number("a number"))
