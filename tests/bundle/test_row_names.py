"""Names of a figure's rows fit, stay apart and keep their ends."""

import re

from pathveil.bundle.row_names import MORE_ROOM, ROOM, draw_rows, shortened, width_of
from pathveil.charts import Mark


def labels(names, ends=()):
    drawn, cut = draw_rows([Mark(name, 0.5, 0.4, 0.6) for name in names], ends=ends, title="rows")
    return re.findall(r'class="label" x="(\d+)"[^>]*>([^<]*)<', drawn), cut


def test_short_names_are_as_they_are():
    found, cut = labels(["North", "South"], [" (1,204)", " (30)"])
    assert found == [(str(ROOM - 8), "North (1,204)"), (str(ROOM - 8), "South (30)")] and cut == ""


def test_long_names_are_cut_in_the_middle_and_said_in_full():
    names = [f"Greater {place} Cancer Registry and Institute" for place in ("California", "Bay Area")] + ["R7"]
    found, cut = labels(names, [" (105)", " (53)", " (9)"])
    texts = [text for _, text in found]
    assert len(set(texts)) == 3 and [text.rpartition(" ")[2] for text in texts] == ["(105)", "(53)", "(9)"]
    assert all(text.startswith("Greater") and width_of(text) < MORE_ROOM for text in texts[:2]) and texts[2] == "R7 (9)"
    assert all(f"is {name}" in cut for name in names[:2]) and "R7" not in cut


def test_names_that_differ_only_in_the_middle_are_numbered():
    names = [f"{'a' * 40}{middle}{'z' * 40}" for middle in "xyx"]
    found = shortened(names, 120)
    assert len(set(found)) == 3 and found[2].endswith(" 3") and all(width_of(one) <= 120 for one in found)
