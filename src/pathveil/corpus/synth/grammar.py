"""Sentences from a small grammar, fast enough to write thousands of reports a second.

A rule is a list of ways to say something: ``[a|b|]`` chooses one of the alternatives, ``{slot}`` is filled from the
facts of the case, or from another rule. Text is parsed once into nested tuples; a house's spelling and its habits
(the order of the alternatives, of which the first are used most) are baked in then, so that writing a report only
draws and joins.

>>> import random
>>> rules = compile_rules({"greeting": ["[hello|hello], {name}"]})
>>> said = []
>>> expand(rules["greeting"], {"name": "registry"}, random.Random(1).random, said.append)
>>> "".join(said)
'hello, registry'
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Draw = Callable[[], float]  # random.Random(seed).random: the one method whose sequence Python promises to keep


class Slot:
    """A place that the facts fill in."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name


class Table(tuple):
    """Plain strings that are drawn evenly (numbers, names), where a choice of words has its favourites."""


TOKEN = re.compile(r"[\[\]|]|\{[a-z0-9_.]+\}|[^\[\]|{]+")


def parse(text: str, spell: Callable[[str], str]) -> str | list:
    """One way of saying something: literal strings, slots, and tuples of alternatives."""
    tokens = TOKEN.findall(text)
    pieces, at = parse_until(tokens, 0, (), spell)
    if at != len(tokens):
        raise ValueError(f"unbalanced brackets in a template: {text}")
    return pieces


def parse_until(tokens: Sequence[str], at: int, stop: tuple[str, ...], spell: Callable[[str], str]) -> tuple[Any, int]:
    pieces: list = []
    while at < len(tokens) and tokens[at] not in stop:
        token = tokens[at]
        if token == "[":
            alternatives = []
            while token != "]":
                alternative, at = parse_until(tokens, at + 1, ("|", "]"), spell)
                alternatives.append(alternative)
                token = tokens[at]
            pieces.append(tuple(alternatives))
        elif token[0] == "{":
            pieces.append(Slot(token[1:-1]))
        else:
            pieces.append(spell(token))
        at += 1
    if not pieces:
        return "", at
    return (pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else pieces), at


def settle(choice: Any, draw: Draw) -> Any:
    """The same piece with the order of every alternative shuffled: a house's habits."""
    if isinstance(choice, tuple):
        options = [settle(option, draw) for option in choice]
        for last in range(len(options) - 1, 0, -1):
            other = int(draw() * (last + 1))
            options[last], options[other] = options[other], options[last]
        return tuple(options)
    if isinstance(choice, list):
        return [settle(piece, draw) for piece in choice]
    return choice


def compile_rules(
    rules: Mapping[str, Sequence[str]], *, spell: Callable[[str], str] = str, draw: Draw | None = None
) -> dict[str, tuple]:
    """Rules ready to expand; with ``draw`` each gets habits of its own."""
    compiled = {name: tuple(parse(line, spell) for line in lines) for name, lines in rules.items()}
    return {name: settle(rule, draw) for name, rule in compiled.items()} if draw else compiled


def expand(piece: Any, facts: Mapping[str, Any], draw: Draw, say: Callable[[str], None]) -> None:
    """Write one piece, drawing its alternatives; the earlier ones are the house's favourites."""
    kind = piece.__class__
    if kind is str:
        say(piece)
    elif kind is list:
        for part in piece:
            if part.__class__ is str:
                say(part)
            else:
                expand(part, facts, draw, say)
    elif kind is Slot:
        value = facts[piece.name]
        if value.__class__ is str:
            say(value)
        else:
            expand(value, facts, draw, say)
    elif kind is Table:
        say(piece[int(draw() * len(piece))])
    else:
        lean = draw()
        expand(piece[int(lean * lean * len(piece))], facts, draw, say)


BRITISH = [
    ("tumor", "tumour"), ("esophag", "oesophag"), ("hemat", "haemat"), ("hemorrh", "haemorrh"), ("hemosid", "haemosid"),
    ("hemangio", "haemangio"), ("hemodil", "haemodil"), ("anemia", "anaemia"), ("leukem", "leukaem"),
    ("edema", "oedema"), ("fecal", "faecal"), ("color", "colour"), ("gray", "grey"), ("labeled", "labelled"),
    ("center", "centre"), ("celiac", "coeliac"), ("cecum", "caecum"), ("cecal", "caecal"), ("gynecolog", "gynaecolog"),
    ("gynecomast", "gynaecomast"), ("pediatric", "paediatric"), ("diarrhea", "diarrhoea"), ("fiber", "fibre"),
    ("goiter", "goitre"), ("molding", "moulding"), ("molded", "moulded"), ("keratiniz", "keratinis"),
    ("characteriz", "characteris"), ("localiz", "localis"), ("organiz", "organis"), ("generaliz", "generalis"),
    ("hyaliniz", "hyalinis"), ("finaliz", "finalis"), ("favor", "favour"),
    ("thrombocythemia", "thrombocythaemia"), ("polycythemia", "polycythaemia"), ("macroglobulinemia",
    "macroglobulinaemia"), ("orchiectomy", "orchidectomy"), ("behavior", "behaviour"), ("fetal", "foetal"),
    ("leukocyt", "leucocyt"), ("saucerization", "saucerisation"), ("conization", "conisation"),
    ("virilization", "virilisation"),
]  # fmt: skip
BRITISH_WORDS = re.compile("|".join(american for american, _ in BRITISH), re.IGNORECASE)
BRITISH_FORM = dict(BRITISH)


def british(text: str) -> str:
    """A literal in British spelling.

    >>> british("Tumor of the esophagus, gray")
    'Tumour of the oesophagus, grey'
    """

    def turn(found: re.Match) -> str:
        word = BRITISH_FORM[found[0].lower()]
        return word.capitalize() if found[0][0].isupper() else word

    return BRITISH_WORDS.sub(turn, text)


ARTICLE = re.compile(r"\b([Aa]) (?=[aeioAEIO]|u(?!ni[flqtv]|r[eoi]|te|su|s[eu]))|(?<=[.!?] )[a-z]|(?<=\n)[a-z]")


def tidy(text: str) -> str:
    """'An' where a vowel follows, and a capital where a sentence begins."""
    return ARTICLE.sub(lambda found: f"{found[1]}n " if found[1] else found[0].upper(), text)
