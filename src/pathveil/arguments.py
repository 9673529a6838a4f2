"""What callers give as names or numbers, taken the same way by every function; a mistake is one sentence.

Several names may be given as one string, as on the command line: Python would read it letter by letter.

>>> [names_given(tasks, "tasks") for tasks in ("site, histology", "site", ("site",), None)]
[['site', 'histology'], ['site'], ['site'], None]
>>> check_number(2, "accuracy", least=0.5, most=1)
Traceback (most recent call last):
pathveil.errors.UsageError: accuracy: expected a number from 0.5 to 1; got 2
>>> check_whole_number(0, "workers", least=1)
Traceback (most recent call last):
pathveil.errors.UsageError: workers: expected a whole number, 1 or more; got 0
"""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, overload

from pathveil.errors import UsageError, short


@overload
def names_given(given: str | Iterable[str], what: str, *, commas: bool = True) -> list[str]: ...
@overload
def names_given(given: None, what: str, *, commas: bool = True) -> None: ...
@overload
def names_given(given: str | Iterable[str] | None, what: str, *, commas: bool = True) -> list[str] | None: ...
def names_given(given: Any, what: str, *, commas: bool = True) -> list[str] | None:
    """Several names as a list, from a string of them or from any that are given one by one; none stays none.

    ``commas`` divide a string, unless the names themselves may hold some; ``what`` is what the caller calls them.
    """
    if given is None:
        return None
    if isinstance(given, str):
        found = [name.strip() for name in (given.split(",") if commas else [given]) if name.strip()]
        if not found:
            raise UsageError(f"{what} names nothing; expected names with commas between them, as in site,histology")
        return found
    found = list(given) if isinstance(given, Iterable) else [given]
    for name in found:
        if not isinstance(name, str):
            raise UsageError(f"{what}: expected names; got {type(name).__name__}")
    return found


def check_whole_number(value: Any, what: str, *, least: int) -> None:
    """Refuse what is no whole number, or is below the least."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise UsageError(f"{what}: expected a whole number, {least} or more; got {_told(value)}")


def check_number(value: Any, what: str, *, least: float, most: float) -> None:
    """Refuse what is no number, or lies outside its bounds."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= float(value) <= most:
        raise UsageError(f"{what}: expected a number from {least:g} to {most:g}; got {_told(value)}")


def _told(value: Any) -> str:
    """A number as it was given, of anything else its kind."""
    return short(str(value)) if value is None or isinstance(value, Real) else f"a {type(value).__name__}"
