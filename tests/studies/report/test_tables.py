"""Tables in a browser: tabs by mouse and keyboard, sorting there and back, CSV files of plain numbers."""

import csv
import io
import json

import pytest

from pathveil.studies.report.page import render
from pathveil.studies.report.tables import Cell, Section, Table, count, number, with_interval
from pathveil.studies.result import StudyResult
from pathveil.studies.rows import Estimate
from pathveil.studies.tables import CombinedResult
from studies.report.conftest import cells


@pytest.fixture
def table(shown, monkeypatch):
    """A page with a single table of everything that cells can be."""

    def half(value: float = 0.5) -> Estimate:
        return Estimate(value=value, low=0.4, high=0.6)

    rows = [
        [Cell("all", order=0), count(2503), with_interval(half()), number(0.25), "I10"],
        [Cell("≥ 100", order=3), count(900), Cell("suppressed (few)", None), number(None), "B"],
        [Cell("< 25", order=1), count(10_000), with_interval(half(0.55)), number(-0.5), ""],
        [Cell("25 to 99", order=2), count(80), with_interval(half(0.1)), number(0.1), "I2"],
    ]
    heads = ["bucket", "words", "AUC (95 %)", "gain", "name"]
    section = Section("combined", "Title", "Text", tables=[Table("one", "A table", heads, rows, note="A note.")])
    monkeypatch.setattr("pathveil.studies.report.combined.section", lambda study: section)
    study = CombinedResult(
        study="combined",
        settings={"seed": 1, "tolerated": 0.6, "minimum": 5},
        provenance={"corpus_sha256": "0" * 64, "reports": 1, "registries": {}, "text": ""},
        points=[],
        recommendation={"sentence": "Use it.", "steps": []},
        findings=[],
        warnings=[],
    )
    return shown(render(StudyResult.of_one(study)))


def test_tabs_show_one_table_at_a_time(opened):
    tabs = opened.locator("[role=tablist]").first
    first, second = tabs.locator("[role=tab]").nth(0), tabs.locator("[role=tab]").nth(1)
    panels = [opened.locator(f"#{tab.get_attribute('aria-controls')}") for tab in (first, second)]
    assert panels[0].is_visible() and not panels[1].is_visible()
    second.click()
    assert panels[1].is_visible() and not panels[0].is_visible()
    assert second.get_attribute("aria-selected") == "true" and first.get_attribute("aria-selected") == "false"


def test_arrow_keys_move_between_tabs(opened):
    tabs = opened.locator("[role=tablist]").first.locator("[role=tab]")
    last = tabs.count() - 1
    tabs.nth(0).focus()
    for key, place in (("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", last), ("ArrowRight", 0), ("End", last)):
        opened.keyboard.press(key)
        assert opened.evaluate("document.activeElement.id") == tabs.nth(place).get_attribute("id")
        assert tabs.nth(place).get_attribute("aria-selected") == "true"
        assert opened.locator(f"#{tabs.nth(place).get_attribute('aria-controls')}").is_visible()
    opened.keyboard.press("Home")
    assert tabs.nth(0).get_attribute("tabindex") == "0" and tabs.nth(1).get_attribute("tabindex") == "-1"


@pytest.mark.parametrize(
    ("column", "falling"),
    [
        (0, ["≥ 100", "25 to 99", "< 25", "all"]),
        (1, ["10,000", "2,503", "900", "80"]),
        (2, ["0.550 (0.400, 0.600)", "0.500 (0.400, 0.600)", "0.100 (0.400, 0.600)", "suppressed (few)"]),
        (3, ["0.250", "0.100", "-0.500", "–"]),
        (4, ["I10", "I2", "B", ""]),
    ],
)
def test_a_heading_sorts_down_up_and_back(table, column, falling):
    """Numbers as numbers, buckets in their order, what has no value last; the third click undoes it."""
    heading, before = table.locator("#one th").nth(column), cells(table, "one")
    valued = [value for value in falling if value not in ("", "–", "suppressed (few)")]
    rising = valued[::-1] + falling[len(valued) :]
    for wanted, sort in ((falling, "descending"), (rising, "ascending")):
        heading.click()
        assert [row[column] for row in cells(table, "one")] == wanted and heading.get_attribute("aria-sort") == sort
    heading.press("Enter")
    assert cells(table, "one") == before and heading.get_attribute("aria-sort") is None


def downloaded(tab, table):
    with tab.expect_download() as waiting:
        tab.locator(f'button[data-csv="{table}"]').click()
    assert waiting.value.suggested_filename == f"{table}.csv"
    return list(csv.reader(io.StringIO(waiting.value.path().read_text(encoding="utf-8"))))


def test_a_csv_file_holds_plain_numbers(table):
    assert downloaded(table, "one") == [
        ["bucket", "words", "AUC (95 %)", "AUC (95 %) low", "AUC (95 %) high", "gain", "name"],
        ["all", "2503", "0.5", "0.4", "0.6", "0.25", "I10"],
        ["≥ 100", "900", "", "", "", "", "B"],
        ["< 25", "10000", "0.55", "0.4", "0.6", "-0.5", ""],
        ["25 to 99", "80", "0.1", "0.4", "0.6", "0.1", "I2"],
    ]
    assert table.locator("#panel-one .note").inner_text() == "A note."


def test_a_table_is_copied_as_spreadsheets_take_it(table):
    table.locator('button[data-copy="one"]').click()
    assert table.locator('button[data-copy="one"]').inner_text() == "Copied"
    table.evaluate("document.body.append(Object.assign(document.createElement('textarea'), { id: 'sheet' }))")
    table.locator("#sheet").focus()
    table.keyboard.press("Control+V")
    head, first, second, *_ = table.locator("#sheet").input_value().split("\n")
    assert head.split("\t")[:3] == ["bucket", "words", "AUC (95 %)"]
    assert first.split("\t") == ["all", "2503", "0.5", "0.4", "0.6", "0.25", "I10"]
    assert second.split("\t") == ["≥ 100", "900", "", "", "", "", "B"]


def test_the_results_own_numbers_are_in_the_files(opened, made):
    studies = json.loads((made / "result.json").read_text())["studies"]
    head, *rows = downloaded(opened, "points")
    for row, point in zip(rows, studies["combined"]["points"], strict=True):
        found = dict(zip(head, row, strict=True))
        assert (found["vocabulary"], int(found["words"])) == (point["strategy"], point["size"])
        auc = [float(found[f"attacker's AUC (95 %){end}"]) for end in ("", " low", " high")]
        assert auc == [pytest.approx(point["auc"][end], abs=1e-6) for end in ("value", "low", "high")]
    head, *rows = downloaded(opened, "table1-cross-registry")
    assert [name.split(") ")[1] for name in head[3:6]] == [
        "accuracy",
        "share of all reports",
        "balanced accuracy",
    ]
    assert all(0 <= float(value) <= 1 for row in rows for value in row[2:] if value)


def test_what_cannot_be_measured_says_why(opened, made):
    rows = json.loads((made / "result.json").read_text())["studies"]["distribution"]["membership"]
    note = rows[0]["tpr_at_fpr"]["0.01"]["note"]
    assert "at least 437 are needed" in note and note in opened.locator("#panel-membership .note").inner_text()
