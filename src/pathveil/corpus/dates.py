"""Dates as tables write them, made into 2016-05-02: a format is told, or found where only one can be meant.

05/02/2016 is two days, depending on who reads it. A column in which some day is past the twelfth says which of them
comes first; one in which none is says nothing, and is refused unless the format is told.

>>> find_format(["05/02/2016", "17/02/2016"]), find_format(["05/02/2016"]), find_format(["2016-05-02", "20160502"])
('dd/mm/yyyy', None, 'yyyy-mm-dd')
>>> import polars as pl
>>> pl.DataFrame({"date": ["17/02/2016 09:30", "2016-05-02", "soon"]}).select(
...     in_iso_form(pl.col("date"), "dd/mm/yyyy"))["date"].to_list()
['2016-02-17', '2016-05-02', 'soon']
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pathveil.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

ISO = "yyyy-mm-dd"
ISO_DATE = re.compile(r"(?a)\s*\d{4}(-\d{2}-\d{2}|\d{4})([T ]?\d{2}.*|\.0)?\s*")
TOGETHER = re.compile(
    r"(?a)\s*(\d{1,2})(\d{2})(19|20)\d{2}(?:\.0|[T :].*)?\s*", re.DOTALL
)  # 17022016; no month is 19 or 20
NUMERIC = re.compile(r"(?a)\s*(\d{1,4})([/.\-])(\d{1,2})\2(\d{1,4})(?:[T ].*)?\s*", re.DOTALL)
MONTH = "([A-Za-zäÄ]{3})[a-zA-Z]*"  # by its first three letters
NAMED = re.compile(rf"(?a)\s*\d{{1,2}}(\. |[ \-./]?){MONTH}( |\1)\d{{4}}(?:[T :].*)?\s*", re.DOTALL)
NAMED_FIRST = re.compile(rf"(?a)\s*{MONTH} \d{{1,2}}(,?) \d{{4}}(?:[T :].*)?\s*", re.DOTALL)  # May 17, 2016
ENGLISH = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS = {name: number for number, name in enumerate(ENGLISH, start=1)}
MONTHS |= {"mär": 3, "mrz": 3, "mae": 3, "mai": 5, "okt": 10, "dez": 12}  # as German systems write the others
PARTS = {"yyyy": r"(\d{4})", "yy": r"(\d{2})", "mmm": MONTH, "mm": r"(\d{1,2})", "dd": r"(\d{1,2})"}
BEHIND = PARTS | {"mm": r"(\d{2})", "dd": r"(\d{2})", "yyyy": r"((?:19|20)\d{2})"}  # with nothing between them
NO_DATES, FEW = 0.1, 3  # the share of values that may be no day at all; of few values, how many
TOKEN = re.compile("yyyy|yy|mmm|mm|dd")
EXAMPLES = "dd/mm/yyyy, mm/dd/yyyy, dd.mm.yyyy, dd-mmm-yyyy"


def check_format(given: str) -> str:
    """Refuse a format that does not name a day, a month and a year once each."""
    form = given.strip().lower()
    parts = sorted(part[0] for part in TOKEN.findall(form))
    if parts != ["d", "m", "y"] or re.search(r"[a-z\d]", TOKEN.sub("", form)):
        raise UsageError(f"--dates {given[:40]} is no format of dates; expected for example {EXAMPLES}")
    return form


def find_format(values: Iterable[str | None]) -> str | None:
    """The one format that these values can be in, ISO's dates aside; none where there are several or it is unknown.

    A few values that are no day in any format (14/15/2016, "unknown") do not matter: their rows are told of as such.
    """
    return only_format(possible_formats(values))


def only_format(possible: Counter[frozenset[str]]) -> str | None:
    """The one format that values can be in of which so many can be in these."""
    if not possible.total():
        return ISO
    days = list(filter(None, possible))
    if not days or possible[frozenset()] > max(NO_DATES * possible.total(), FEW):
        return None
    fitting = frozenset.intersection(*days)
    return next(iter(fitting)) if len(fitting) == 1 else None


def possible_formats(values: Iterable[str | None]) -> Counter[frozenset[str]]:
    """The sets of formats that values can be in, ISO's dates and blanks aside, with how many values have each."""
    given = (value for value in values if value and value.strip())
    return Counter(
        frozenset(formats_of(value)) for value in given if TOGETHER.fullmatch(value) or not ISO_DATE.fullmatch(value)
    )


def mixed_formats(values: Iterable[str | None]) -> list[str]:
    """The formats that a column mixes, where no single one fits its dates; else none.

    >>> mixed_formats(["17/02/2016", "02/18/2016", "03/04/2016"]), mixed_formats(["03/04/2016", "soon"])
    (['dd/mm/yyyy', 'mm/dd/yyyy'], [])
    >>> mixed_formats(["17.02.2016", "03/04/2016"])
    ['dd.mm.yyyy', 'dd/mm/yyyy', 'mm/dd/yyyy']
    """
    possible = [formats for formats in possible_formats(values) if formats]
    if not possible or frozenset.intersection(*possible):
        return []
    return sorted(frozenset.union(*possible))


def formats_of(value: str) -> set[str]:
    """The formats in which a value is a day; two-digit years are not guessed.

    >>> sorted(formats_of("05.02.2016")), formats_of("2016/5/2"), formats_of("02-May-2016"), formats_of("05/02/16")
    (['dd.mm.yyyy', 'mm.dd.yyyy'], {'yyyy/mm/dd'}, {'dd-mmm-yyyy'}, set())
    >>> formats_of("17022016"), formats_of("17. März 2016"), formats_of("20160217")
    ({'ddmmyyyy'}, {'dd. mmm yyyy'}, set())
    """
    if found := NAMED.fullmatch(value):
        return {f"dd{found[1]}mmm{found[3]}yyyy"} if found[2].lower() in MONTHS else set()
    if found := NAMED_FIRST.fullmatch(value):
        return {f"mmm dd{found[2]} yyyy"} if found[1].lower() in MONTHS else set()
    if found := TOGETHER.fullmatch(value):
        first, mark, second = found[1], "", found[2]
    elif found := NUMERIC.fullmatch(value):
        first, mark, second, third = found.groups()
        if len(first) == 4:
            return {f"yyyy{mark}mm{mark}dd"} if int(second) <= 12 else set()
        if len(third) != 4:
            return set()
    else:
        return set()
    forms = set()
    if int(second) <= 12 and int(first) <= 31:
        forms.add(f"dd{mark}mm{mark}yyyy")
    if int(first) <= 12 and int(second) <= 31:
        forms.add(f"mm{mark}dd{mark}yyyy")
    return forms


def in_iso_form(column: "pl.Expr", form: str) -> "pl.Expr":
    """Text in a format as 2016-05-02; what is not in it stays as it is, for the schema to judge."""
    import polars as pl

    pattern, order = pattern_of(form)
    groups = {part[0]: column.str.extract(pattern, place) for place, part in enumerate(order, start=1)}
    if "mmm" in order:
        numbers = {month: f"{number:02}" for month, number in MONTHS.items()}
        # A batch at a time: as an expression, a replacement holds the whole frame in memory.
        groups["m"] = groups["m"].map_batches(
            lambda months: months.str.to_lowercase().replace_strict(numbers, default=None, return_dtype=pl.String),
            return_dtype=pl.String,
            is_elementwise=True,
        )
    if "yy" in order:  # as POSIX has it: 69 is 1969, 68 is 2068
        groups["y"] = pl.when(groups["y"].cast(pl.Int32) >= 69).then(pl.lit("19")).otherwise(pl.lit("20")) + groups["y"]
    text = pl.concat_str(groups["y"], groups["m"].str.zfill(2), groups["d"].str.zfill(2), separator="-")
    day = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.String)
    return pl.when(day.is_null()).then(column).otherwise(day)


def pattern_of(form: str) -> tuple[str, list[str]]:
    """The regular expression of a format, and the order of its parts.

    Of parts with nothing between them only the first may lack its zero, which spreadsheets drop (1022016).

    >>> [re.match(pattern_of(form)[0], "1022016") is not None for form in ("ddmmyyyy", "dd/mm/yyyy")]
    [True, False]
    >>> re.match(pattern_of("ddmmyyyy")[0], "1022016").groups()
    ('1', '02', '2016')
    """
    order = TOKEN.findall(form)
    marks = TOKEN.split(form)
    parts = [
        (PARTS if not place or mark else BEHIND)[part]
        for place, (mark, part) in enumerate(zip(marks, order, strict=False))
    ]
    body = "".join(re.escape(mark) + part for mark, part in zip(marks, parts, strict=False)) + re.escape(marks[-1])
    return rf"(?s)^\s*{body}(?:\.0|[T :].*)?$", order
