"""Dates in the formats of tables: told, found where only one fits, and never guessed."""

import datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.corpus.dates import ISO, check_format, find_format, in_iso_form
from pathveil.corpus.schema import parsed_date
from pathveil.errors import UsageError

FORMS = {
    "dd/mm/yyyy": "%d/%m/%Y",
    "mm/dd/yyyy": "%m/%d/%Y",
    "dd.mm.yyyy": "%d.%m.%Y",
    "yyyy/mm/dd": "%Y/%m/%d",
    "dd-mmm-yyyy": "%d-%b-%Y",
    "ddmmmyyyy": "%d%b%Y",
    "mm-dd-yy": "%m-%d-%y",
    "ddmmyyyy": "%d%m%Y",
    "mmddyyyy": "%m%d%Y",
    "dd. mmm yyyy": "%d. %B %Y",
}


def parsed(values: list[str | None], form: str) -> list[str | None]:
    return pl.DataFrame({"date": values}).select(in_iso_form(pl.col("date"), form))["date"].to_list()


@pytest.mark.parametrize("form", FORMS)
@given(day=st.dates(datetime.date(1970, 1, 1), datetime.date(2060, 12, 31)))
def test_a_told_format_reads_what_strftime_writes(form, day):
    assert parsed([day.strftime(FORMS[form])], form) == [day.isoformat()]


@given(days=st.lists(st.dates(datetime.date(1900, 1, 1), datetime.date(2060, 1, 1)), min_size=1, max_size=8))
def test_a_format_is_found_only_where_a_day_is_past_the_twelfth(days):
    expected = "dd/mm/yyyy" if any(day.day > 12 for day in days) else None
    assert find_format(day.strftime("%d/%m/%Y") for day in days) == expected


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["2016-05-02", "20160502", "20160502.0", "20160502093000", None, " "], ISO),
        ([], ISO),
        (["2016-05-02", "17.2.2016"], "dd.mm.yyyy"),
        (["2/17/2016 09:30", "1/1/2016 10:00"], "mm/dd/yyyy"),
        (["17/02/2016", "02/17/2016"], None),
        (["17/02/2016", "17.02.2016"], None),
        (["17/02/16"], None),
        (["17/02/2016", "18/02/2016", "31/31/2016"], "dd/mm/yyyy"),
        (["17/02/2016", *"abcd"], None),
        (["02-May-2016", "17-DEC-2016"], "dd-mmm-yyyy"),
        (["02-Xyz-2016"], None),
        (["May 17, 2016", "Sept 2, 2016 10:11"], "mmm dd, yyyy"),
        (["May 17 2016"], "mmm dd yyyy"),
        (["45/45/2016"], None),
        (["17022016", "01022016", "20160502"], "ddmmyyyy"),
        (["2172016", "02172016 09:30", "99999999"], "mmddyyyy"),
        (["01022016"], None),
        (["17. Dezember 2016", "2. Mai 2016"], "dd. mmm yyyy"),
        (["17-OKT-2016", "02-Mär-2016"], "dd-mmm-yyyy"),
    ],
)
def test_what_is_found(values, found):
    assert find_format(values) == found


def test_what_is_no_day_stays_for_the_schema_to_refuse():
    given = ["31/02/2016", "soon", None, "2016-05-02", " 1/2/2016 ", "1/2/2016T10:00"]
    assert parsed(given, "dd/mm/yyyy") == ["31/02/2016", "soon", None, "2016-05-02", "2016-02-01", "2016-02-01"]


def test_told_formats_are_checked():
    assert check_format(" DD.MM.YYYY ") == "dd.mm.yyyy"
    for wrong in ("dd/mm", "day/month/year", "dd/mm/yyyy hh", "dd/dd/yyyy", "", "%d"):
        with pytest.raises(UsageError, match="is no format of dates"):
            check_format(wrong)


def test_parts_with_nothing_between_them_have_their_width():
    assert parsed(["1042016", "01042016", "20121019", "42016"], "ddmmyyyy") == [
        "2016-04-01", "2016-04-01", "20121019", "42016",
    ]  # fmt: skip
    assert parsed(["03-MRZ-2016", "4-Mai-2016", "05-Dez-2016"], "dd-mmm-yyyy") == [
        "2016-03-03", "2016-05-04", "2016-12-05",
    ]  # fmt: skip


def test_seconds_since_1970_are_no_days():
    values = ["1420070400", "1420070400000", "201605020930", "20160502093000", "20160502093000123", "20160502T09"]
    days = pl.DataFrame({"date": values}).select(parsed_date(pl.col("date")))["date"].to_list()
    assert days == [None, None, *[datetime.date(2016, 5, 2)] * 4]
