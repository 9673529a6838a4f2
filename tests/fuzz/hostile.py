"""Texts made to take long: rows of what expressions begin with, so that each place is a beginning."""

from collections.abc import Callable
from itertools import cycle, islice

ROWS = (
    ":", "#", ": ", "#:", "A", "a", "A'", '\u2019', "1", "1 ", " ", '\n', ' \n', '\t', "*", '"', "| ", ".", ",", "-",
    "/", "+", '\xe9', '\xc9a ', '\xa0', "@", "a@b.", "a.", "1.", "1,111,", "1/", "12/", "1:", "A-", "A1", "AB12-",
    "Aa ", "Aa, ", "A. ", "1 Aa Aa ", 'Aa Aa\n', "AA, ", "Dr. ", "Dr. Aa ", "Mr. A", "Patient: ", "patient:Aa Aa ",
    'name:\n', "by Aa Aa ", "MRN ", "MRN: 12345 ", "Jan ", "JAN 4, 2011 ", "Apt 1, ", "P.O. Box ", "12 Main St ",
    "labeled Aa Aa and ", "CGA-", "deadbeef-", "0A", "x1", "'s", '\n\tPathologist', 'Aa Aa\nPathologist', ", M.D.",
    "van der ", "Dr. van de ", "MRN:::::::::::::::::::::::::::::::::::::::::",
)  # fmt: skip


def row(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def different_names(size: int) -> str:
    """As many names as find space in the first half, each of them again in the second."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [f"Q{a}{b}{c}{d}" for a in letters for b in letters for c in letters for d in letters][: size // 20]
    return row("".join(f"Dr. {name}. " for name in names) + " ".join(names), size)


def with_an_end(unit: str, end: str) -> Callable[[int], str]:
    return lambda size: row(unit, size) + end


TEXTS: dict[str, Callable[[int], str]] = {repr(unit): with_an_end(unit, "") for unit in ROWS}
TEXTS |= {f"{unit!r} and a b": with_an_end(unit, "ab") for unit in ("a.", "A'", "1,111,", "1.", "Aa ")}
TEXTS |= {
    "different names": different_names,
    "a name, then capitals": lambda size: "Dr. Ada Byron. " + row("BYRONA", size),
    "a name, many times": lambda size: "Dr. Ada Byron. " + row("Byron ", size),
    "all of them": lambda size: "".join(islice(cycle(ROWS), size // 4))[:size],
}


def read(text: str) -> None:
    """What is measured: a text to tokens, alone and as one of many."""
    from pathveil.text.bulk import BulkTokenizer, Numbers

    BulkTokenizer(Numbers().__getitem__, identifiers=True).add([text])
