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
    """A place that the facts fill in; written with a capital it begins a sentence."""

    __slots__ = ("capital", "name")

    def __init__(self, name: str):
        self.name, self.capital = name.lower(), name[0].isupper()


class Table(tuple):
    """Plain strings that are drawn evenly (numbers, names), where a choice of words has its favourites."""


class Deck:
    """Alternatives dealt in turn, so that a report does not say the same thing twice while there is another."""

    __slots__ = ("at", "options")

    def __init__(self, options: Sequence[Any], at: int):
        self.options, self.at = options, at

    def deal(self) -> Any:
        self.at = (self.at + 1) % len(self.options)
        return self.options[self.at]


TOKEN = re.compile(r"[\[\]|]|\{[A-Za-z0-9_.]+\}|[^\[\]|{]+")


def parse(text: str, spell: Callable[[str], str]) -> str | list:
    """One way of saying something: literal strings, slots, and tuples of alternatives."""
    if text.count("[") != text.count("]"):
        raise ValueError(f"unbalanced brackets in a template: {text}")
    return parse_until(TOKEN.findall(text), 0, (), spell)[0]


def parse_until(tokens: Sequence[str], at: int, stop: tuple[str, ...], spell: Callable[[str], str]) -> tuple[Any, int]:
    """The pieces up to a token of ``stop``, and where that is."""
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


def shuffle_alternatives(choice: Any, draw: Draw) -> Any:
    """The same piece with the order of every alternative shuffled: a house's habits."""
    if isinstance(choice, tuple):
        options = [shuffle_alternatives(option, draw) for option in choice]
        for last in range(len(options) - 1, 0, -1):
            other = int(draw() * (last + 1))
            options[last], options[other] = options[other], options[last]
        return tuple(options)
    if isinstance(choice, list):
        return [shuffle_alternatives(piece, draw) for piece in choice]
    return choice


def compile_rules(
    rules: Mapping[str, Sequence[str]], *, spell: Callable[[str], str] = str, draw: Draw | None = None
) -> dict[str, tuple]:
    """Rules ready to expand; with ``draw`` each gets habits of its own."""
    compiled = {name: tuple(parse(line, spell) for line in lines) for name, lines in rules.items()}
    return {name: shuffle_alternatives(rule, draw) for name, rule in compiled.items()} if draw else compiled


def expand(piece: Any, facts: Mapping[str, Any], draw: Draw, say: Callable[[str], None]) -> None:
    """Write one piece, drawing its alternatives; the earlier ones are the house's favourites."""
    for part in piece if piece.__class__ is list else (piece,):
        if part.__class__ is str:  # first, since most are
            say(part)
            continue
        capital = part.__class__ is Slot and part.capital
        while True:
            kind = part.__class__
            if kind is str:
                say(part[:1].upper() + part[1:] if capital else part)
                break
            if kind is Slot:
                part = facts[part.name]
            elif kind is tuple:
                lean = draw()
                part = part[int(lean * lean * len(part))]
            elif kind is Table:
                part = part[int(draw() * len(part))]
            elif kind is Deck:
                part = part.deal()
            else:
                if capital:
                    said: list[str] = []
                    expand(part, facts, draw, said.append)
                    text = "".join(said)
                    say(text[:1].upper() + text[1:])
                else:
                    expand(part, facts, draw, say)
                break


ARTICLES = [(f" a {vowel}", f" an {vowel}") for vowel in ("a", "e", "i", "o", "ul", "unr", "unu", "unc", "und", "unp")]


def articles(text: str) -> str:
    """'An' where a vowel follows. Plain replacing is five times as fast as one expression that knows every exception.

    >>> articles("with a ulcerated mass in a uterus")
    'with an ulcerated mass in a uterus'
    """
    for wrong, right in ARTICLES:
        if wrong in text:
            text = text.replace(wrong, right)
    return text
