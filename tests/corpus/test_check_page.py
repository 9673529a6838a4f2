"""The page of a check: fits a terminal, shows counts and no text."""

import io

import pytest
from rich.console import Console

from corpus.good_corpus import LONG, SECRET, corpus
from pathveil.corpus.check import check
from pathveil.corpus.check_page import bar, page, periods


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


def test_bars_and_periods():
    assert bar(4, 4, width=3) == "███" and bar(1, 10_000, width=3) == "▏"
    assert periods({}, rows=8) == []
    assert periods({"2001": 3}, rows=8) == [("2001", 3)]
    years = {str(year): 1 for year in range(1980, 2016)}
    rows = periods(years, rows=8)
    assert len(rows) <= 8 and sum(count for _, count in rows) == 36 and rows[0][0] == "1980–1984"


def test_a_corpus_without_labels_is_not_called_good():
    assert "Nothing to warn of" in repr(check(corpus())) and "! no report has a label" in repr(
        check(corpus().drop("site"))
    )
