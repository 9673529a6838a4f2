"""Judging a corpus: every warning on a corpus made to earn it, every count against plain Python, no text anywhere."""

import datetime
import io
import json
import random
from collections import Counter

import polars as pl
import pytest
from rich.console import Console

from pathveil.corpus.check import check
from pathveil.corpus.check_page import bar, page, periods
from pathveil.corpus.check_warnings import CorpusWarning
from pathveil.errors import CorpusError

SECRET = "Quastenflosser"
LONG = "received in formalin is a core of tissue from the left breast of the patient"


def corpus(**columns) -> pl.LazyFrame:
    """Forty reports of forty cases with nothing to warn of, but for the columns given."""
    size = 40
    good = {
        "report_id": [f"r{number:02}" for number in range(size)],
        "case_id": [f"c{number}" for number in range(size)],
        "registry": [f"R{number % 2}" for number in range(size)],
        "year": [2010 + number % 4 for number in range(size)],
        "text": [f"{SECRET} {number} {LONG}" for number in range(size)],
        "site": ["C50" if number % 4 < 2 else "C18" for number in range(size)],
    }
    changed = {name: values + good[name][len(values) :] if name in good else values for name, values in columns.items()}
    return pl.LazyFrame(good | changed)


def ids(frame: pl.LazyFrame, **options) -> dict[str, CorpusWarning]:
    result = check(frame, today=datetime.date(2020, 1, 1), **options)
    assert SECRET not in result.to_json()
    return {warning.id: warning for warning in result.warnings}


def test_a_good_corpus_earns_no_warning():
    assert ids(corpus()) == {}


@pytest.mark.parametrize(
    ("columns", "name", "count", "reports"),
    [
        ({"text": [f"Dx: C18.7 {LONG}", f"dx c50.4. {LONG}"]}, "leaked-labels", 2, ["r00", "r01"]),
        ({"text": [f"ductal carcinoma 8500/3 {LONG}"]}, "leaked-labels", 1, ["r00"]),
        ({"case_id": ["c1"]}, "shared-cases", 1, ["r00", "r01"]),
        ({"text": [LONG, "x " * 20, LONG, LONG]}, "repeated-texts", 3, ["r00", "r02", "r03"]),
        ({"text": [f"MRN: 12345 {LONG}", f"518-555-0137 {LONG}"]}, "identifiers", 2, ["r00", "r01"]),
        ({"text": [f"a@b.org {LONG}"]}, "identifiers", 1, ["r00"]),
        ({"text": [f"DOB 07/06/1957 {LONG}", f"SSN 123-45-6789 {LONG}"]}, "identifiers", 2, ["r00", "r01"]),
        ({"year": [None, None]}, "undated", 2, ["r00", "r01"]),
        ({"year": [1900, 2030]}, "odd-years", 2, ["r00", "r01"]),
        ({"date": [datetime.date(2001, 1, 1)] + [None] * 39}, "years-differ", 1, ["r00"]),
        ({"text": ["too short"]}, "short-texts", 1, ["r00"]),
        ({"text": [f"bad \ufffd {LONG}", f"worse \x07 {LONG}"]}, "damaged-texts", 2, ["r00", "r01"]),
        ({"text": [f"{{\\rtf1 {LONG}", f"<br/> {LONG}"]}, "markup", 2, ["r00", "r01"]),
        ({"site": ["C61"] * 4 + ["C34"]}, "rare-classes", 2, []),
        ({"site": ["C50"] * 40}, "constant-task", 40, []),
        ({"site": [None] * 30}, "missing-labels", 30, []),
        ({"site": ["C50", None] * 20}, "registry-without-task", 1, []),
        ({"laterality": pl.Series([None] * 40, dtype=pl.String)}, "empty-task", 40, []),
        ({"site": ["c50"] * 5}, "spelling", 1, []),
        ({"case_id": ["c2"], "site": ["C50", "C50", "C18"]}, "differing-labels", 1, ["r00", "r02"]),
        ({"subsite": ["C18.7"] + ["C50.4", "C50.9", "C18.1", "C18.2"] * 9 + ["C50.4"] * 3}, "subsite-outside-site", 21,
         ["r00", "r02", "r04", "r06", "r08"]),
    ],
)  # fmt: skip
def test_each_warning_on_a_corpus_that_earns_it(columns, name, count, reports):
    warning = ids(corpus(**columns))[name]
    assert (warning.count, warning.reports) == (count, reports), warning


def test_a_text_holding_its_own_label_is_told_apart():
    subsite = ["C50.4" if number % 4 < 2 else "C18.7" for number in range(40)]
    both = [f"c50.4 {LONG}", f"C18.7 {LONG}", f"C18.7 {LONG}"]
    warning = ids(corpus(subsite=subsite, text=both))["leaked-labels"]
    assert warning.count == 3 and warning.reports == ["r00", "r02"] and "in 2 it is" in warning.sentence
    codes = {"histology": ["8500"] * 20 + ["8140"] * 20, "behavior": ["3"] * 20 + ["2"] * 20}
    warning = ids(corpus(text=[f"8500/3 {LONG}", f"8140/3 {LONG}"], **codes))["leaked-labels"]
    assert warning.count == 2 and warning.reports == ["r00"]


def test_numbers_that_are_no_codes():
    fine = ["lot 18500/31", "block C12", "C50 cells", "2/3 nodes", "7500/3", "seen 9/1999", "KC50.41"]
    assert "leaked-labels" not in ids(corpus(text=[f"{text} {LONG}" for text in fine]))


def test_counts_against_plain_python():
    rng = random.Random(7)
    rows = [
        {
            "report_id": f"r{number}",
            "case_id": f"c{rng.randrange(300)}",
            "registry": rng.choice(["A", "B", "C"]),
            "year": rng.choice([None, 1999, 2005, 2016]),
            "text": " ".join(["word"] * rng.randrange(1, 3200)) + f" {number % 450}",
            "site": rng.choice([None, *"CCCCCCCCCDDDEF"]),
            "grade": f"g{int(rng.paretovariate(0.5)) % 60}",
        }
        for number in range(600)
    ]
    result = check(pl.LazyFrame(rows), tasks=["site", "grade"]).to_dict()
    assert result["reports"] == 600 and result["cases"] == len({row["case_id"] for row in rows})
    assert result["years"] == {
        str(year): n for year, n in sorted(Counter(r["year"] for r in rows if r["year"]).items())
    }
    lengths = sorted(len(row["text"].split()) for row in rows)
    assert result["words"]["longest"] == lengths[-1] and result["words"]["clipped"] == sum(n > 1500 for n in lengths)
    assert result["words"]["median"] == (lengths[299] + lengths[300]) // 2
    assert sum(bucket["reports"] for bucket in result["words"]["spread"]) == 600
    for name, row in result["registries"].items():
        mine = [r for r in rows if r["registry"] == name]
        assert row["reports"] == len(mine) and row["cases"] == len({r["case_id"] for r in mine})
        assert row["labelled"] == {"site": sum(r["site"] is not None for r in mine), "grade": len(mine)}
    for task in ("site", "grade"):
        counts = Counter(row[task] for row in rows if row[task])
        about = result["tasks"][task]
        assert (about["classes"], about["labelled"]) == (len(counts), sum(counts.values()))
        assert counts[about["largest"]] == max(counts.values())
        for bucket in about["rarity"]:
            inside = [n for n in counts.values() if bucket["from"] <= n <= (bucket["to"] or n)]
            assert (bucket["classes"], bucket["reports"]) == (len(inside), sum(inside))
    cases = {name: {r["case_id"] for r in rows if r["registry"] == name} for name in "ABC"}
    texts = {name: {r["text"] for r in rows if r["registry"] == name} for name in "ABC"}
    grades = {name: Counter(r["site"] for r in rows if r["registry"] == name and r["site"]) for name in "ABC"}
    for pair in result["overlap"]["pairs"]:
        one, other = pair["registries"]
        assert pair["cases"] == len(cases[one] & cases[other]) and pair["texts"] == len(texts[one] & texts[other])
        shares = [{k: n / grades[name].total() for k, n in grades[name].items()} for name in (one, other)]
        common = sum(min(shares[0].get(k, 0), shares[1].get(k, 0)) for k in "CDEF")
        assert pair["same_mix"] == pytest.approx(common, abs=1e-3)
    for name, only in result["overlap"]["only_here"].items():
        away = {r["grade"] for r in rows if r["registry"] != name}
        assert only["grade"] == len({r["grade"] for r in rows if r["registry"] == name} - away)


@pytest.mark.parametrize("width", [80, 120])
def test_the_page_fits(width):
    many = corpus(text=["short", f"C50.4 {LONG}"], registry=["A registry with a rather long name"] * 5)
    for frame in (corpus(), many, corpus().drop("site", "year"), corpus().head(1)):
        out = io.StringIO()
        result = check(frame)
        Console(file=out, width=width).print(page(result, title="reports.parquet"))
        assert all(len(line) <= width for line in out.getvalue().split("\n"))
        assert SECRET not in out.getvalue() and f"{result.reports} report" in out.getvalue()


def test_many_registries_have_no_matrix():
    out = io.StringIO()
    Console(file=out, width=80).print(page(check(corpus(registry=[f"N{n}" for n in range(40)])), title="x"))
    assert "Overlap" not in out.getvalue() and "N39" in out.getvalue()


def test_the_result_reads_as_the_page_and_as_a_table():
    result = check(corpus(text=["short"], site=["C61"]))
    assert "40 reports · 40 cases · 2 registries" in repr(result) and SECRET not in repr(result)
    assert all(len(line) <= 80 for line in repr(result).splitlines())
    assert result.to_frame()["id"].to_list() == [warning.id for warning in result.warnings] != []


def test_bars_and_periods():
    assert bar(4, 4, width=3) == "███" and bar(1, 10_000, width=3) == "▏"
    assert periods({}, rows=8) == []
    assert periods({"2001": 3}, rows=8) == [("2001", 3)]
    years = {str(year): 1 for year in range(1980, 2016)}
    rows = periods(years, rows=8)
    assert len(rows) <= 8 and sum(count for _, count in rows) == 36 and rows[0][0] == "1980–1984"


def test_a_corpus_that_breaks_the_schema_is_refused():
    with pytest.raises(CorpusError, match="column 'case_id': 1 report has none"):
        check(corpus(case_id=[None]))


def test_the_command(tcga, pathveil):
    done = pathveil("corpus", "check", tcga)
    assert done.returncode == 0 and "6,453 reports · 6,453 cases · 7 registries" in done.stdout
    assert "task behavior is nearly constant: 3 is 99.6% of its labels" in done.stdout
    result = json.loads(pathveil("corpus", "check", tcga, "--json", "--tasks", "site,histology").stdout)
    assert list(result["tasks"]) == ["site", "histology"] and result["reports"] == 6453
    wrong = pathveil("corpus", "check", tcga, "--tasks", "hystology")
    assert wrong.returncode == 2 and "did you mean 'histology'?" in wrong.stderr
