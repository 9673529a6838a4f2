"""Figures as SVG: well-formed, escaped, values where they belong."""

from xml.etree import ElementTree

from pathveil.charts import Mark, Series, curves, intervals, key


def test_figures_are_well_formed_and_escaped():
    line = Series('a<b>&"', (0.0, 0.5, 1.0), (1.0, 0.75, 0.5), colour=1)
    for chart in (
        curves([line], title='t"<', x_title="x", y_title="y", bottom=0.5, diagonal=True, limit=0.9),
        intervals([Mark("c<d", 0.3, 0.2, 0.4), Mark("none", None, 0.0, 0.1)], limit=0.2, chance=0.1),
        key(line),
    ):
        assert ElementTree.fromstring(chart).tag == "svg"


def test_a_curve_runs_where_its_values_are():
    drawn = curves([Series("site", (0.0, 1.0), (1.0, 0.5))], title="", x_title="", y_title="", bottom=0.5)
    (path,) = (one for one in ElementTree.fromstring(drawn).iter("path") if "line" in one.get("class", ""))
    assert path.get("d") == "M52.0 10.0L418.0 270.0"  # from the top left corner of the frame to its bottom right


def test_an_axis_has_round_numbers():
    for bottom, marks in ((0.0, 6), (0.2, 5), (0.6, 5), (0.8, 5)):
        drawn = curves([Series("site", (0.0, 1.0), (1.0, bottom))], title="", x_title="", y_title="", bottom=bottom)
        texts = [one for one in ElementTree.fromstring(drawn).iter("text") if one.get("text-anchor") == "end"]
        numbers = [int(one.text.split()[0]) for one in texts]
        assert len(numbers) == marks and not [number for number in numbers if number % 5]
