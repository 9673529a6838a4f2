"""Expressions tried at a place of many texts, compiled: what ``re`` finds there, ten times as fast.

``re`` takes a microsecond to be called and to answer, and a report has a dozen places where an expression is to be
tried. So the expressions are made into a program of a few kinds of steps, and one compiled loop, ``match``, goes
through it as ``re`` does: alternatives in their order, repeats as long as they can be, back to the last choice where
nothing fits. It knows what the expressions of ``expressions.py`` use, and refuses others when they are translated.

A character is a byte here (``CLASSES``): those beyond ASCII count only as what an expression can tell apart.

>>> machine = program([re.compile(r"(?P<day>[0-9]{1,2}(?P<d>[/-])[0-9]{1,2}(?P=d)(?:[0-9]{4}|[0-9]{2}))(?![0-9])")])
>>> text = np.frombuffer(b"on 3/12/2008, 3/12-2008\\n", np.uint8)
>>> match(text, machine, 0, 0, 9, 23), match(text, machine, 0, 14, 15, 23)
(12, -1)
"""

import importlib
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from pathveil.text.identifiers.bytes_at_once import at, borrow, compiled, kept

parser: Any = importlib.import_module("re._parser")

# What stands for characters beyond ASCII: signs, an apostrophe, four that are ASCII where case is ignored, letters of
# other scripts, and of names in Latin script.
CLASSES = {128: "–", 129: "’", 130: "ſ", 131: "\u212a", 132: "ı", 133: "İ", 134: "λ", 135: "é"}
_CHARACTERS = [chr(byte) if byte < 128 else CLASSES.get(byte, "–") for byte in range(256)]
_LINE = np.arange(256) == ord("\n")
_WORD = np.array([character.isalnum() or character == "_" for character in _CHARACTERS])

# Steps, and how many numbers each has: the step itself and what it is told.
SET, SPAN, CHOOSE, JUMP, NOT, NOT_BOTH, BEHIND, BORDER, END, SAVE, BACK, SAME, KIND, FLAG, COMMIT, FOUND = range(16)
EXPRESSIONS = 24  # at most; where they begin in a machine, and by which characters
# What a match leaves: which of an expression's named forms it is, where its part of interest begins, whether it has
# what ``_FLAGS`` name, where it begins; and, while matching, a character to be met again and a place to go back to.
FORM, PART, FLAGGED, START, _AGAIN, _AHEAD = range(6)
FORMS: Sequence[str] = "iso day dots named time phone social accession uuid address barcode".split()
_SAVED = {"name": PART, "number": PART, "i": _AGAIN, "d": _AGAIN}
_FLAGS = ("seconds", "half")


@cache
def _bytes_for(letter: str, *, is_folded: bool) -> np.ndarray:
    """The bytes of the characters that a character in an expression stands for."""
    if is_folded and letter.isalpha():
        return np.array([re.fullmatch(letter, character, re.IGNORECASE) is not None for character in _CHARACTERS])
    return np.array([character == letter for character in _CHARACTERS])


class _Program:
    """Steps and sets of characters of several expressions."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.sets: dict[bytes, int] = {}
        self.is_folded, self.is_by_line, self.names = False, False, dict[int, str]()

    def set_of(self, found: np.ndarray) -> int:
        """Where a set of bytes lies in the machine."""
        packed = np.packbits(found, bitorder="little").tobytes()
        return 2 + 3 * EXPRESSIONS + 8 * self.sets.setdefault(packed, len(self.sets))

    def single(self, node: tuple[Any, Any]) -> np.ndarray | None:
        """The bytes that a node of one character can be; None for any other node."""
        kind, told = str(node[0]), node[1]
        items = [node] if kind == "LITERAL" else told if kind == "IN" else None
        if items is None:
            return None
        found = np.zeros(256, np.bool_)
        for item, value in items:
            if str(item) == "LITERAL":
                found |= _bytes_for(chr(value), is_folded=self.is_folded)
            elif str(item) == "RANGE" and value[1] < 128 and not self.is_folded:
                found[value[0] : value[1] + 1] = True
            elif str(item) == "RANGE" and value[0] >= 0xC0 and not self.is_folded:
                found |= np.array([value[0] <= ord(character) <= value[1] for character in _CHARACTERS])
            elif str(value) == "CATEGORY_WORD":
                found |= _WORD
            else:
                raise ValueError(f"an expression has {item} {value}, which the matcher does not know")
        return found

    def first(self, nodes: Sequence[tuple[Any, Any]]) -> tuple[np.ndarray, bool]:
        """The bytes with which nodes can begin, and whether they can be empty."""
        found = np.zeros(256, np.bool_)
        for node in nodes:
            kind, told = str(node[0]), node[1]
            one = self.single(node)
            if one is not None:
                return found | one, False
            if kind == "MAX_REPEAT":
                begin, empty = self.first(told[2])
                found, empty = found | begin, empty or told[0] == 0
            elif kind == "BRANCH":
                parts = [self.first(part) for part in told[1]]
                found, empty = found | np.any([part[0] for part in parts], axis=0), any(part[1] for part in parts)
            elif kind == "SUBPATTERN":
                begin, empty = self.first(told[3])
                found = found | begin
            elif kind == "GROUPREF":
                return np.ones(256, np.bool_), False
            else:
                empty = True
            if not empty:
                return found, False
        return found, True

    def is_at_border(self, nodes: Sequence[tuple[Any, Any]]) -> bool:
        """Whether nodes begin where a word begins or ends, or with a sign: within a word they need not be tried."""
        kind, told = str(nodes[0][0]), nodes[0][1]
        one = self.single(nodes[0])
        if one is not None:
            return not (one & _WORD).any()
        if kind == "BRANCH":
            return all(part and self.is_at_border(part) for part in told[1])
        return self.is_at_border(told[3]) if kind == "SUBPATTERN" else str(told) in ("AT_BOUNDARY", "AT_BEGINNING")

    def choose(self, nodes: Sequence[tuple[Any, Any]]) -> int:
        """A step that goes on with nodes if they can begin here; returns where to put what comes else."""
        begin, empty = self.first(nodes)
        self.steps += [CHOOSE, self.set_of(begin | empty), 0]
        return len(self.steps) - 1

    def add_all(self, nodes: Sequence[tuple[Any, Any]], *, last: bool) -> None:
        for number, node in enumerate(nodes):
            self.add(node, last=last and number == len(nodes) - 1)

    def add(self, node: tuple[Any, Any], *, last: bool) -> None:
        """The steps of a node; ``last`` where nothing of the expression comes behind it."""
        kind, told = str(node[0]), node[1]
        one = self.single(node)
        if one is not None:
            self.steps += [SET, self.set_of(one)]
        elif kind == "MAX_REPEAT":
            self.add_repeat(*told, last=last)
        elif kind == "BRANCH":
            ends = []
            for number, part in enumerate(told[1]):
                otherwise = self.choose(part)
                self.add_all(part, last=last)
                if number < len(told[1]) - 1:
                    self.steps += [JUMP, 0]
                    ends.append(len(self.steps) - 1)
                    self.steps[otherwise] = len(self.steps)
            for end in ends:
                self.steps[end] = len(self.steps)
        elif kind == "SUBPATTERN":
            name = self.names.get(told[0], "")
            if name in FORMS:
                self.steps += [KIND, FORMS.index(name)]
            if name in _SAVED:
                self.steps += [SAVE, _SAVED[name]]
            self.add_all(told[3], last=last)
            self.steps += [FLAG] if name in _FLAGS else []
        elif kind == "GROUPREF":
            self.steps += [SAME]
        elif kind in ("ASSERT", "ASSERT_NOT"):
            self.add_look(kind, *told)
        elif kind == "AT":
            if str(told) == "AT_BEGINNING" and not self.is_by_line:
                raise ValueError("an expression begins at a text's beginning, which the matcher does not know")
            self.steps += {
                "AT_BOUNDARY": [BORDER, self.set_of(_WORD)],
                "AT_BEGINNING": [BEHIND, self.set_of(_LINE)],  # of a line
                "AT_END": [END],
            }[str(told)]
        else:
            raise ValueError(f"an expression has {kind}, which the matcher does not know")

    def add_repeat(self, least: int, most: Any, nodes: Sequence[tuple[Any, Any]], *, last: bool) -> None:
        one = self.single(nodes[0]) if len(nodes) == 1 else None
        if one is not None:
            self.steps += [SPAN, self.set_of(one), least, min(int(most), 1 << 30)]
            return
        for _ in range(least):
            self.add_all(nodes, last=False)
        if str(most) == "MAXREPEAT":
            if not last:  # a loop forgets choices made before it, so that those to be kept have a bound
                raise ValueError("an expression goes on behind a repeat of many characters")
            begin = len(self.steps)
            self.steps += [COMMIT]
            otherwise = self.choose(nodes)
            self.add_all(nodes, last=False)
            self.steps += [JUMP, begin]
            self.steps[otherwise] = len(self.steps)
            return
        places = []
        for _ in range(int(most) - least):
            places.append(self.choose(nodes))
            self.add_all(nodes, last=False)
        for place in places:
            self.steps[place] = len(self.steps)

    def add_look(self, kind: str, direction: int, nodes: Sequence[tuple[Any, Any]]) -> None:
        one = self.single(nodes[0]) if len(nodes) == 1 else None
        if kind == "ASSERT" and direction < 0 and one is not None:
            self.steps += [BEHIND, self.set_of(one)]
        elif kind == "ASSERT" and direction > 0:
            self.steps += [SAVE, _AHEAD]
            self.add_all(nodes, last=False)
            self.steps += [BACK]
        elif kind == "ASSERT_NOT" and direction > 0 and one is not None:
            self.steps += [NOT, self.set_of(one)]
        elif kind == "ASSERT_NOT" and direction > 0 and len(nodes) == 2:  # the first of two may be missing
            (_, (least, most, (maybe,))), then = nodes
            first, second = self.single(maybe), self.single(then)
            assert (least, most) == (0, 1) and first is not None and second is not None
            self.steps += [NOT, self.set_of(second), NOT_BOTH, self.set_of(first), self.set_of(second)]
        else:
            raise ValueError("an expression looks around in a way that the matcher does not know")


def program(expressions: Sequence[re.Pattern[str]]) -> np.ndarray:
    """A machine for ``match``: where what a match leaves lies and where choices to come back to; where each expression
    begins; with which characters; the characters of words, if it begins beside them; sets of characters; steps; and
    room for the first two. Each thread needs its own."""
    made, begins, firsts, borders = _Program(), [], [], []
    for expression in expressions:
        tree = parser.parse(expression.pattern)
        made.is_folded = bool(expression.flags & re.IGNORECASE)
        made.is_by_line = bool(expression.flags & re.MULTILINE)
        made.names = {number: name for name, number in expression.groupindex.items()}
        begins.append(len(made.steps))
        begin, empty = made.first(list(tree))
        firsts.append(made.set_of(begin | empty))
        borders.append(made.set_of(_WORD) if made.is_at_border(list(tree)) else 0)
        made.add_all(list(tree), last=True)
        made.steps.append(FOUND)
    words = np.frombuffer(b"".join(made.sets), np.int32)
    head = 2 + 3 * EXPRESSIONS
    base = head + words.size
    fill = [0] * (EXPRESSIONS - len(expressions))
    steps, place, choices, most = made.steps, 0, 0, 0
    while place < len(steps):  # places of steps, which are counted from the first one's
        step = steps[place]
        if step in (JUMP, CHOOSE) and (step == JUMP or steps[place + 2]):
            steps[place + 1 + (step == CHOOSE)] += base
        choices = 0 if step == FOUND else choices + (step in (CHOOSE, SPAN))
        most = max(most, choices)
        place += _SIZES[step]
    registers = base + len(steps)
    heads = [registers, registers + 6, *(base + begin for begin in begins), *fill, *firsts, *fill, *borders, *fill]
    return np.array([*heads, *words.tolist(), *steps, *[0] * (6 + 3 * most)], np.int32)


_SIZES = {SET: 2, SPAN: 4, CHOOSE: 3, JUMP: 2, NOT: 2, NOT_BOTH: 3, BEHIND: 2, BORDER: 2, SAVE: 2, KIND: 2}
_SIZES |= dict.fromkeys((END, BACK, SAME, FLAG, COMMIT, FOUND), 1)


@compiled
def has(machine, place, byte):
    """Whether the set at ``place`` of a machine has a byte."""
    return (at(machine, place + np.int64(byte >> np.uint8(5))) >> (byte & np.uint8(31))) & 1 != 0


@kept
def match(data, machine, expression, first, last, end):
    """Where the first match of an expression that begins from ``first`` on and before ``last`` ends, as if the text
    ended at ``end``; -1 where there is none. Where it begins is left in the machine."""
    data, machine = borrow(data), borrow(machine)
    registers, bottom, begin = np.int64(machine[0]), np.int64(machine[1]), np.int64(machine[2 + expression])
    starts, border = machine[2 + EXPRESSIONS + expression], machine[2 + 2 * EXPRESSIONS + expression]
    step, place, top = begin, first, bottom
    machine[registers + START] = first
    machine[registers + FLAGGED] = 0
    while True:
        kind, fits = at(machine, step), True
        if kind == SET:
            fits = place < end and has(machine, at(machine, step + 1), at(data, place))
            place += 1
            step += 2
        elif kind == SPAN:
            least, most = place + at(machine, step + 2), min(end, place + at(machine, step + 3))
            while place < most and has(machine, at(machine, step + 1), at(data, place)):
                place += 1
            fits = place >= least
            step += 4
            if place > least:
                machine[top], machine[top + 1], machine[top + 2] = step, place, least
                top += 3
        elif kind == CHOOSE:
            otherwise = at(machine, step + 2)
            if place < end and not has(machine, at(machine, step + 1), at(data, place)):
                fits, step = otherwise != 0, np.int64(otherwise)
            else:
                if otherwise != 0:
                    machine[top], machine[top + 1], machine[top + 2] = otherwise, place + 1, place
                    top += 3
                step += 3
        elif kind == JUMP:
            step = np.int64(at(machine, step + 1))
        elif kind == NOT:
            fits = place >= end or not has(machine, at(machine, step + 1), at(data, place))
            step += 2
        elif kind == KIND:
            machine[registers + FORM] = at(machine, step + 1)
            step += 2
        elif kind == SAVE:
            machine[registers + at(machine, step + 1)] = place
            step += 2
        elif kind == SAME:
            fits = place < end and at(data, place) == data[machine[registers + _AGAIN]]
            place += 1
            step += 1
        elif kind == FOUND:
            return place
        elif kind == NOT_BOTH:
            fits = place + 1 >= end or not (
                has(machine, at(machine, step + 1), at(data, place))
                and has(machine, at(machine, step + 2), at(data, place + 1))
            )
            step += 3
        elif kind == BEHIND:
            fits = has(machine, at(machine, step + 1), data[place - 1])
            step += 2
        elif kind == BORDER:
            inside = place < end and has(machine, at(machine, step + 1), at(data, place))
            fits = inside != has(machine, at(machine, step + 1), data[place - 1])
            step += 2
        elif kind == END:  # or before the line end that ends the text
            fits = place == end or (place == end - 1 and at(data, place) == 10)
            step += 1
        elif kind == BACK:
            place = np.int64(machine[registers + _AHEAD])
            step += 1
        elif kind == FLAG:
            machine[registers + FLAGGED] = 1
            step += 1
        else:  # COMMIT
            top = bottom
            step += 1
        if not fits:
            if top == bottom:
                first += 1
                while first < last and not (
                    has(machine, starts, at(data, first))
                    and (
                        border == 0
                        or not has(machine, border, at(data, first))
                        or not has(machine, border, data[first - 1])
                    )
                ):
                    first += 1
                if first >= last:
                    return np.int64(-1)
                step, place = begin, first
                machine[registers + START] = first
                continue
            step, place = np.int64(machine[top - 3]), np.int64(machine[top - 2]) - 1
            if place > machine[top - 1]:
                machine[top - 2] = place
            else:
                top -= 3
