"""JSON, TOML and bytes of a bounded size and depth; what is printed obeys nobody."""

import contextlib
import json
import os
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.untrusted import Refused, bounds, parse_json, parse_toml, printable, read_bytes
from pathveil.untrusted.text import are_utf8, is_utf8

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=40,
)


@given(VALUES)
def test_json_says_what_it_says(value):
    """Brackets and quotation marks within texts count for nothing."""
    text = json.dumps(value)
    assert parse_json(text) == parse_json(text.encode()) == value


@pytest.mark.parametrize("depth", [bounds.DEPTH, bounds.DEPTH + 1])
def test_depth_is_counted_outside_of_texts(depth):
    many = json.dumps(["[{" * 200 + '\\"' + "[" * 200] * 70)  # more brackets than levels, all within texts
    assert parse_json(many)
    text = "[" * depth + "]" * depth
    if depth == bounds.DEPTH:
        parse_json(text)
    else:
        with pytest.raises(Refused, match="nested more than 64 levels deep"):
            parse_json(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"NaN", "none"), (b"[Infinity]", "none"), (b"[-1e999]", "none"), (b'{"a": 1, "a": 2}', "twice"),
        (b"{", "JSON"), (b"\xff", "UTF-8"), (b"9" * 5000, "JSON"),
        (b"[[],[" + b"[]," * 2_000_000 + b"[]]]", "more than"),
        (b'{"a":' * 100_000, "deep"), (b'["' + b"[" * 200, "JSON"), (b"", "JSON"),
        (rb'{"\uD83D": 1}', "half"), (rb'["a\uDe00"]', "half"),
    ],
)  # fmt: skip
def test_json_that_is_not_taken(text, why):
    with pytest.raises(Refused, match=why):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a = nan", "none"), (b"a = -inf", "none"), (b"a = 1e999", "none"), (b"a = " + b"[" * 5000, "deep"),
        (b"a." * 200_000 + b"b = 1", "32 parts"), (b"'a' . " * 400 + b"b = 1", "32 parts"), (b"a = b", "line 1"),
        (b"\xff", "UTF-8"), (b"a = 1\n" * 200_000, "larger"), (b"a = {b = " * 100, "deep"),
        (b"a = 1\na = 2", "Cannot overwrite"),
    ],
)  # fmt: skip
def test_toml_that_is_not_taken(text, why):
    with pytest.raises(Refused, match=why):
        parse_toml(text)


@pytest.mark.parametrize(
    "piece", [b"A", b"a.", b'"', b"'", b"[", b"a = 1 # ", b".", b" ", b"\\", b'"a".', b"\n", b"a=[\n"]
)
def test_no_text_takes_longer_than_its_length_allows(piece):
    """A word of a million letters once took hours: each of them began a search of its own."""
    for parse in (parse_toml, parse_json):
        began = time.process_time()
        with contextlib.suppress(Refused):
            parse(b"a = 1\n" + piece * (200_000 // len(piece)))
        assert time.process_time() - began < 5


def test_toml_says_what_it_says():
    text = (
        b'a = "[[[' + b"[" * 100 + b'"\n# ' + b"[" * 100 + b"\nb = '''\n" + b"{" * 100 + b"'''\n[c.d]\ne = [1.5, 2]\r\n"
    )
    assert parse_toml(text)["c"] == {"d": {"e": [1.5, 2]}}


def test_a_pipe_is_not_waited_for_and_a_large_file_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="is no file"):
        read_bytes(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Refused, match="is larger than the 1,000 bytes"):
        read_bytes(tmp_path / "sparse", most=1_000)


@given(st.text())
def test_what_is_printed_obeys_nobody(text):
    shown = printable(text)
    assert len(shown) == len(text) == len(shown.encode().decode())
    assert not any(
        letter != "\n" and letter != "\t" and not letter.isprintable() and ord(letter) < 160 for letter in shown
    )


def test_escapes_and_turned_writing_are_replaced():
    assert printable("a\x1b]0;x\x07b\x9b2Jc\u202ed\ud800\n\t") == "a�]0;x�b�2Jc�d�\n\t"


@given(st.lists(st.text("aä€𝄞\ud800", max_size=4)), st.binary(max_size=3), st.lists(st.integers(0, 60), max_size=4))
def test_pieces_are_utf8_where_python_says_so(texts, wrong, cuts):
    content = "".join(texts).encode("utf-8", "surrogatepass")
    content = content[:7] + wrong + content[7:]
    pieces = [content[start:end] for start, end in pairwise([0, *sorted(cuts), len(content)])]
    expected = content.decode(errors="ignore").encode() == content
    assert is_utf8(content) is expected
    assert are_utf8(pieces) is expected
