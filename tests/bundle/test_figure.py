"""The training figure is an SVG with a curve for each loss and task of each network."""

from xml.etree import ElementTree

from pathveil.bundle.folder import FIGURE


def test_the_figure_is_svg(folder):
    root = ElementTree.fromstring((folder / FIGURE).read_text())
    lines = root.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * (2 + 5)  # two members: two losses and five tasks each
