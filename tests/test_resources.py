"""Lists that come along: read from their package, without remarks, taken apart by block."""

from importlib.resources import files

import pytest

from pathveil.resources import blocks, lines, options

LISTS = sorted(
    (package, path.name)
    for package in ("corpus.synth", "icdo")
    for path in (files(f"pathveil.{package}") / "data").iterdir()
    if path.name.endswith(".txt")
)


@pytest.mark.parametrize(("package", "name"), LISTS)
def test_nothing_but_remarks_is_left_out(package, name):
    text = (files(f"pathveil.{package}") / "data" / name).read_text(encoding="utf-8")
    read = lines(package, name)
    assert read and not [line for line in read if line.startswith("#") or not line.strip()]
    assert [line for line in text.split("\n") if line and line[0] != "#"] == read
    if read[0].startswith("@"):
        found = blocks(package, name)
        assert sum(len(inside) for _, _, inside in found) + len(found) == len(read)


def test_a_block_has_its_name_the_words_after_it_and_its_lines():
    found = {name: inside for name, _, inside in blocks("corpus.synth", "people.txt")}
    assert {"female", "male", "surnames"} <= set(found) and all(found.values())
    assert not [line for inside in found.values() for line in inside if line.startswith("@")]


def test_a_line_of_options():
    assert options("breast: left; right; both") == ("breast", ["left", "right", "both"])
    assert options("colon: one, or more") == ("colon", ["one, or more"])
