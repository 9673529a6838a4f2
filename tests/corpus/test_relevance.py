"""The relevance rule: against a plain loop, and every way in which dates can be wrong."""

import datetime
import random

import polars as pl
import pytest

from pathveil.corpus.relevance import relevant_reports
from pathveil.errors import CorpusError, UsageError

DAY = datetime.date(2015, 3, 1)


def frame(**columns) -> pl.LazyFrame:
    good = {"report_id": ["a", "b", "c"], "case_id": ["1", "1", "2"], "date": [DAY] * 3, "diagnosis": [DAY, None, DAY]}
    return pl.LazyFrame(good | columns)


def test_ten_days_either_way():
    days = [-11, -10, 0, 10, 11]
    dates = [DAY + datetime.timedelta(days=day) for day in days]
    names = [str(day) for day in days]
    reports = pl.LazyFrame({"report_id": names, "case_id": ["1"] * 5, "date": dates, "diagnosis": [DAY] + [None] * 4})
    kept, counts = relevant_reports(reports, to=["diagnosis"])
    assert kept.collect()["report_id"].to_list() == ["-10", "0", "10"]
    assert counts == {"kept": 3, "outside": 2, "without_date": 0, "without_reference": 0}
    assert relevant_reports(reports, to=["diagnosis"], days=0)[1]["kept"] == 1
    assert kept.collect_schema().names() == reports.collect_schema().names()


def test_against_a_plain_loop():
    rng = random.Random(3)

    def day():
        return rng.choice([None, DAY + datetime.timedelta(days=rng.randrange(40))])

    cases = {f"c{number}": (day(), day()) for number in range(60)}
    rows = []
    for number in range(400):
        case = rng.choice(list(cases))
        diagnosis, surgery = (date if rng.random() < 0.7 else None for date in cases[case])
        rows.append(
            {"report_id": f"r{number}", "case_id": case, "date": day(), "diagnosis": diagnosis, "surgery": surgery}
        )
    reports = pl.LazyFrame(rows, schema_overrides=dict.fromkeys(("date", "diagnosis", "surgery"), pl.Date))
    known = {case: {row[name] for row in rows if row["case_id"] == case for name in ("diagnosis", "surgery")} - {None}
             for case in cases}  # fmt: skip
    expected = [
        row["report_id"] for row in rows
        if row["date"] and any(abs((row["date"] - date).days) <= 10 for date in known[row["case_id"]])
    ]  # fmt: skip
    kept, counts = relevant_reports(reports, to=["diagnosis", "surgery"])
    assert kept.collect()["report_id"].to_list() == expected
    assert counts["kept"] == len(expected) and sum(counts.values()) == 400
    assert counts["without_date"] == sum(row["date"] is None for row in rows)


def test_dates_written_as_text():
    reports = frame(date=["2015-03-01", "20150311", None], diagnosis=["20150301", " ", "2015-03-01T10:00"])
    assert relevant_reports(reports, to=["diagnosis"])[1] == {
        "kept": 2,
        "outside": 0,
        "without_date": 1,
        "without_reference": 0,
    }


@pytest.mark.parametrize(
    ("columns", "to", "match"),
    [
        ({"diagnosis": ["03/01/2015", None, "x"]}, "diagnosis", r"2 dates cannot be read \(reports a, c\)"),
        ({"diagnosis": [DAY, DAY.replace(day=2), DAY]}, "diagnosis", r"1 case with more than one date \(1\)"),
        ({"diagnosis": [1, 2, 3]}, "diagnosis", "column 'diagnosis' holds Int64, expected dates"),
        ({}, "diagnoses", "no column 'diagnoses' of reference dates .did you mean 'diagnosis'"),
    ],
)  # fmt: skip
def test_bad_reference_dates(columns, to, match):
    with pytest.raises(CorpusError, match=match):
        relevant_reports(frame(**columns), to=[to])


def test_a_year_is_not_enough_and_days_are_not_negative():
    with pytest.raises(CorpusError, match="needs a column 'date'"):
        relevant_reports(frame().drop("date").with_columns(year=2015), to=["diagnosis"])
    with pytest.raises(UsageError, match="--days -1 is below 0"):
        relevant_reports(frame(), to=["diagnosis"], days=-1)


def test_reference_dates_may_be_written_otherwise():
    """An import leaves columns that are not ours as they are; day and month must be told apart."""
    columns = {"report_id": ["a", "b"], "case_id": ["1", "2"], "date": ["2016-05-02", "2016-05-20"]}
    frame = pl.LazyFrame({**columns, "surgery": ["01/05/2016", "21/05/2016"]})
    assert relevant_reports(frame, to=["surgery"], days=3)[0].collect()["report_id"].to_list() == ["a", "b"]
    with pytest.raises(CorpusError, match="one format in which day and month can be told apart"):
        relevant_reports(pl.LazyFrame({**columns, "surgery": ["01/05/2016", "02/05/2016"]}), to=["surgery"])
