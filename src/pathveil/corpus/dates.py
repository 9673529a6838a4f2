"""Written dates: find the format of a table's column, bring it into ISO form, and find a day in running text.

05/02/2016 is two days, depending on who reads it. In a column, some day past the twelfth shows which comes first; a
column without one is refused unless its format is given.

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
# By their first three letters, in English and as German systems write the others.
MONTHS = dict(zip("jan feb mar apr may jun jul aug sep oct nov dec".split(), range(1, 13), strict=True))
MONTHS |= {"mär": 3, "mrz": 3, "mae": 3, "mai": 5, "okt": 10, "dez": 12}
PARTS = {"yyyy": r"(\d{4})", "yy": r"(\d{2})", "mmm": MONTH, "mm": r"(\d{1,2})", "dd": r"(\d{1,2})"}
BEHIND = PARTS | {"mm": r"(\d{2})", "dd": r"(\d{2})", "yyyy": r"((?:19|20)\d{2})"}  # with nothing between them
NO_DATES, FEW = 0.1, 3  # the share of values that may be no day at all; of few values, how many
TOKEN = re.compile("yyyy|yy|mmm|mm|dd")
EXAMPLES = "dd/mm/yyyy, mm/dd/yyyy, dd.mm.yyyy, dd-mmm-yyyy"
NAMES = "|".join(MONTHS).replace("ä", "[äÄ]")
# Every way in which reports write a date: 1957-07-06, 1957/7/6, 19570706, 7/6/57, 07 06 1957, July 6th, 1957,
# 6-JUL-1957, 6th of July 1957, 6. Juli 1957; a time may follow.
WRITTEN_DATE = re.compile(
    r"(?ai)(?<!\d)(?:(\d{4})(?:[-/.]?(\d{2})[-/.]?(\d{2})|\s?[-/.]\s?(\d{1,2})\s?[-/.]\s?(\d{1,2}))"
    r"|(\d{1,2})\s?[-/.]\s?(\d{1,2})\s?[-/.]\s?(\d{4}|\d{2})|(\d{1,2})\s(\d{1,2})\s(\d{4})"
    rf"|({NAMES})[a-z]{{0,7}}\.?[\s-]+(\d{{1,2}})(?:st|nd|rd|th)?,?[\s-]+['’]?(\d{{4}}|\d{{2}})"
    rf"|(\d{{1,2}})(?:st|nd|rd|th|\.)?[\s-]*(?:of\s)?({NAMES})[a-z]{{0,7}}\.?,?[\s-]*['’]?(\d{{4}}|\d{{2}}))(?:(?!\w)|(?=T\d))"
)


def check_format(text: str) -> str:
    """Refuse a format that does not name a day, a month and a year once each."""
    form = text.strip().lower()
    parts = sorted(part[0] for part in TOKEN.findall(form))
    if parts != ["d", "m", "y"] or re.search(r"[a-z\d]", TOKEN.sub("", form)):
        raise UsageError(f"--dates {text[:40]} is no format of dates; expected for example {EXAMPLES}")
    return form


def find_format(values: Iterable[str | None]) -> str | None:
    """Find the one format of a column, ISO's dates aside; return None if there are several or none.

    A few values that are no day in any format (14/15/2016, "unknown") do not matter: the import lists their rows.
    """
    return only_format(possible_formats(values))


def only_format(possible: Counter[frozenset[str]]) -> str | None:
    """Return the one format that fits, given how many values fit each set of formats; None without one."""
    if not possible.total():
        return ISO
    days = list(filter(None, possible))
    if not days or possible[frozenset()] > max(NO_DATES * possible.total(), FEW):
        return None
    fitting = frozenset.intersection(*days)
    return next(iter(fitting)) if len(fitting) == 1 else None


def possible_formats(values: Iterable[str | None]) -> Counter[frozenset[str]]:
    """Count the sets of formats that values fit, ISO's dates and blanks aside."""
    filled = (value for value in values if value and value.strip())
    return Counter(
        frozenset(formats_of(value)) for value in filled if TOGETHER.fullmatch(value) or not ISO_DATE.fullmatch(value)
    )


def mixed_formats(values: Iterable[str | None]) -> list[str]:
    """List the formats that a column mixes, where no single one fits its dates; else none.

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
    """List the formats in which a value is a day; two-digit years are not guessed.

    >>> sorted(formats_of("05.02.2016")), formats_of("2016/5/2"), formats_of("02-May-2016"), formats_of("05/02/16")
    (['dd.mm.yyyy', 'mm.dd.yyyy'], {'yyyy/mm/dd'}, {'dd-mmm-yyyy'}, set())
    >>> formats_of("17022016"), formats_of("17. März 2016"), formats_of("20160217")
    ({'ddmmyyyy'}, {'dd. mmm yyyy'}, set())
    """
    if match := NAMED.fullmatch(value):
        return {f"dd{match[1]}mmm{match[3]}yyyy"} if match[2].lower() in MONTHS else set()
    if match := NAMED_FIRST.fullmatch(value):
        return {f"mmm dd{match[2]} yyyy"} if match[1].lower() in MONTHS else set()
    if match := TOGETHER.fullmatch(value):
        first, mark, second = match[1], "", match[2]
    elif match := NUMERIC.fullmatch(value):
        first, mark, second, third = match.groups()
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
    """Bring text of a format into the form 2016-05-02; other text stays, for the schema to judge."""
    import polars as pl

    pattern, order = pattern_of(form)
    groups = {part[0]: column.str.extract(pattern, place) for place, part in enumerate(order, start=1)}
    if "mmm" in order:
        numbers = {month: f"{number:02}" for month, number in MONTHS.items()}
        # A batch at a time: as an expression, a replacement needs the whole frame in memory.
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
    """Return the regular expression of a format, and the order of its parts.

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


def possible_days(date: re.Match[str]) -> set[str]:
    """List the days, as YYYYMMDD, that a written date can mean: day and month in either order, in either century.

    >>> sorted(possible_days(WRITTEN_DATE.search("born 7/6/57")))
    ['19570607', '19570706', '20570607', '20570706']
    >>> sorted(possible_days(WRITTEN_DATE.search("6. Juli 1957")))
    ['19570607', '19570706']
    """
    parts = [part for part in date.groups() if part is not None]
    one, other, year = (MONTHS.get(part.lower()) or int(part) for part in parts)
    if date[1] is not None:
        return {f"{one}{other:02}{year:02}"}
    years = {year} if len(parts[2]) == 4 else {1900 + year, 2000 + year}
    return {f"{y}{a:02}{b:02}" for y in years for a, b in ((one, other), (other, one))}


def may_contain_day(squeezed: str, day: str) -> bool:
    """Return true if text without signs and blanks can contain a day, YYYYMMDD: a quick look before dates are searched.

    >>> [may_contain_day(text, "19570706") for text in ("born7657", "july6th1957", "5of12nodes")]
    [True, True, False]
    """
    months, days = {str(int(day[4:6])), day[4:6]}, {str(int(day[6:8])), day[6:8]}
    for year in (day[:4], day[2:4]):
        if year not in squeezed:
            continue
        if any(number == int(day[4:6]) and name in squeezed for name, number in MONTHS.items()):
            return True
        for month in months:
            for one in days:
                if any(text in squeezed for text in (month + one + year, one + month + year, year + month + one)):
                    return True
    return False
