"""Numbers and lists in sentences, the same way everywhere.

>>> counted(1, "report"), counted(1200, "case"), counted(2, "registry", "registries")
('1 report', '1,200 cases', '2 registries')
>>> listed(["site", "subsite", "histology"]), listed(["site"])
('site, subsite and histology', 'site')
"""

from collections.abc import Iterable


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """How many there are of something."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Iterable[str]) -> str:
    """Names as a phrase; none gives an empty one."""
    *most, last = list(names) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def width_of(names: Iterable[str], *, least: int = 12) -> int:
    """How wide a column of names must be, with two blanks behind the longest.

    >>> width_of(["site", "histology"]), width_of(["tumour_grade"])
    (12, 14)
    """
    return max([least, *(len(name) + 2 for name in names)])


def duration(seconds: float) -> str:
    """How long something takes, as precisely as a person wants to know.

    >>> duration(0), duration(42), duration(400), duration(9_000), duration(900_000)
    ('–', '42 s', '6.7 min', '2.5 h', '250 h')
    """
    if seconds <= 0:
        return "–"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 36_000 else f"{seconds / 3600:,.0f} h"


def percent(share: float) -> str:
    """A share of a whole; one decimal where it is small or nearly all, and 100 % is all of it.

    >>> percent(0.042), percent(0.42), percent(0.9952), percent(0.9999), percent(1.0)
    ('4.2 %', '42 %', '99.5 %', '99.9 %', '100 %')
    """
    if 0.99 < share < 1:
        return f"{min(100 * share, 99.9):.1f} %"
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def whole_percent(share: float) -> str:
    """Rounded down: 100% is all of them.

    >>> whole_percent(399 / 400), whole_percent(0.29)
    ('99%', '29%')
    """
    return f"{int(100 * share + 1e-9)}%"
