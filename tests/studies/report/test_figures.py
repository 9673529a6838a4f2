"""Figures as a browser draws them: nothing hides a label, nought is seen, points on one another are named together."""

import re

import pytest

from pathveil.charts import Series
from pathveil.studies.report import distribution, figures
from pathveil.studies.tables import ClassScore, DistributionResult
from studies.report.conftest import cells

BOXES = """[...document.querySelectorAll(`SELECTOR`)].map(one => {
  const box = one.getBoundingClientRect();
  return [one.textContent.trim(), box.left, box.top, box.right, box.bottom]; })"""


def boxes(tab, selector):
    return [(text, *box) for text, *box in tab.evaluate(BOXES.replace("SELECTOR", selector))]


def test_names_on_the_plane_are_clear_of_the_limit_and_of_points(shown):
    """Points on the limit and to both sides of it, and two nearly on one another."""
    kinds = {
        "baseline": (["B"], [0.641], [0.217], [0.527], [0.741]),
        "intersection": (["I2", "I3"], [0.640, 0.628], [0.218, 0.232], [0.537, 0.518], [0.72, 0.706]),
        "information": (
            ["MI500", "MI300", "MI100"],
            [0.6, 0.607, 0.592],
            [0.407, 0.47, 0.528],
            [0.5, 0.55, 0.509],
            [0.696, 0.66, 0.668],
        ),
    }
    series = [Series(kind, x, y, low, high, names) for kind, (names, x, y, low, high) in kinds.items()]
    titles = {"x_title": "attacker's AUC", "y_title": "macro F1"}
    tab = shown(figures.plane(series, front=[(0.592, 0.528)], limit=(0.6, "tolerated"), **titles))
    (_, left, top, right, bottom), *_ = boxes(tab, "#limit path")
    assert right - left < 3 < bottom - top
    names = [box for box in boxes(tab, "text") if re.match("B|I|MI", box[0])]
    assert [name for name, *_ in names] == ["B, I2", "I3", "MI500", "MI300", "MI100"]
    for _, start, _, end, _ in names:
        assert end < left or start > right
    assert "stroke-dasharray: 4.44" not in tab.content()  # a front of one point is no line
    drawn = boxes(tab, 'g[id^="line2d"] use')
    for name, start, ceiling, end, floor in names:
        for _, x0, y0, x1, y1 in drawn:
            middle = (x0 + x1) / 2, (y0 + y1) / 2
            assert not (start < middle[0] < end and ceiling < middle[1] < floor), name


def test_a_caption_speaks_of_the_front_where_it_is_drawn():
    assert "dashed" in figures.front_caption([(0.5, 0.5), (0.6, 0.6)]) and figures.front_caption([(0.5, 0.5)]) == ""


def test_a_series_without_a_name_is_not_in_the_legend(shown):
    series = [Series("", [0.5, 0.7], [0.6, 0.61], [0.4, 0.6], [0.6, 0.8], ["adversarial", "a longer name"])]
    tab = shown(figures.plane(series, x_title="x", y_title="y", limit=(0.3, "label alone")))
    assert tab.locator("#legend_1 text").all_text_contents() == ["label alone"]
    assert {"adversarial", "a longer name"} <= {text for text, *_ in boxes(tab, "text")}


def test_a_point_under_another_is_seen(shown):
    tab = shown(figures.plane([Series(name, [0.5], [0.5]) for name in "ab"], x_title="x", y_title="y"))
    fills = tab.evaluate("[...document.querySelectorAll('#legend_1 use')].map(one => one.style.fillOpacity)")
    assert fills == ["0", "0"]


@pytest.fixture
def study():
    """Twenty-three classes under two modes: the rarest has an F1 of nought, the one before it was measured once."""
    classes = []
    for place in range(23):
        for mode in ("single", "strong"):
            value = 0.0 if place == 22 else 0.9 - place / 50
            f1 = {"value": value, "low": max(0.0, value - 0.05), "high": value and value + 0.05}
            row = {"mode": mode, "seed": 1, "task": "site", "label": f"C{place:02d}", "samples": 500 - place}
            if (place, mode) != (21, "strong"):
                classes.append(ClassScore(**row, support=100 - place, cases=100 - place, f1=f1))
    return DistributionResult.model_construct(settings={"class_samples": 100}, classes=classes[::-1])


def test_figures_3_and_4_show_the_most_and_least_frequent_classes_and_nought(study, shown):
    (first, most, _), (second, least, caption) = distribution.class_figures(study, ["single", "strong"])
    assert (first, second) == (
        "Figure 3: the most frequent classes, site",
        "Figure 4: the least frequent classes, site",
    )
    for svg, wanted in ((most, range(10)), (least, range(13, 23))):
        tab = shown(svg)
        named = [text for text, *_ in boxes(tab, "text") if text.startswith("C")]
        assert named == [f"C{place:02d} ({500 - place})" for place in wanted]
    # Ten marks of single's, nine of strong's, which has one class less; that of nought stands on the axis.
    axis = boxes(tab, "#patch_3 path")[0][1]
    for number, count in ((0, 10), (1, 9)):
        marks = [(left + right) / 2 for _, left, _, right, _ in boxes(tab, f"#values-{number} use")]
        assert len(marks) == count and marks[-1] == pytest.approx(axis, abs=1.5) and min(marks[:-1]) > axis + 50
    assert "nought" in caption


def test_the_numbers_of_figures_3_and_4_stand_in_a_table(study):
    (table,) = distribution.class_tables(study, ["single", "strong"])
    assert [row[0] for row in table.rows] == [f"C{place:02d}" for place in range(23)]
    assert table.rows[22][1:] == ["478", "78", "0.000 (0.000, 0.000)", "0.000 (0.000, 0.000)"]
    assert table.rows[21][-1] == "–" and "not measured" in table.note
    assert table.columns[3] == ["single, F1 (95 %)", "single, F1 (95 %) low", "single, F1 (95 %) high"]


def test_the_table_of_classes_is_on_the_page(opened):
    assert [row[0] for row in cells(opened, "classes-site")]
