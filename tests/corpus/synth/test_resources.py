"""The generator's word lists: read from the package, without remarks, taken apart by block."""

from importlib.resources import files

import pytest

from pathveil.corpus.synth.resources import blocks, lines, options

NAMES = sorted(path.name for path in (files("pathveil.corpus.synth") / "data").iterdir() if path.name.endswith(".txt"))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_remarks_is_left_out(name):
    text = (files("pathveil.corpus.synth") / "data" / name).read_text(encoding="utf-8")
    kept = lines(name)
    assert kept and not [line for line in kept if line.startswith("#") or not line.strip()]
    assert [line for line in text.split("\n") if line and line[0] != "#"] == kept
    if kept[0].startswith("@"):
        found = blocks(name)
        assert sum(len(inside) for _, _, inside in found) + len(found) == len(kept)


def test_a_block_has_its_name_the_words_after_it_and_its_lines():
    found = {name: inside for name, _, inside in blocks("people.txt")}
    assert {"female", "male", "surnames"} <= set(found) and all(found.values())
    assert not [line for inside in found.values() for line in inside if line.startswith("@")]


def test_a_line_of_options():
    assert options("breast: left; right; both") == ("breast", ["left", "right", "both"])
    assert options("colon: one, or more") == ("colon", ["one, or more"])
