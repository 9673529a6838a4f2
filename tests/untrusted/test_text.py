"""JSON, TOML and bytes of a bounded size and depth; what is printed obeys nobody."""

import contextlib
import io
import json
import os
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.untrusted import Refused, bounds, parse_json, parse_toml, printable, read_bytes
from pathveil.untrusted.text import LineCheck, are_utf8, check_json_lines, is_utf8

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


def test_lines_of_json_are_bounded_before_a_table_is_made():
    for large in (False, True):
        file = io.BytesIO(b'{"a": "\\"b\\": {", "c": 1}\n{"c": ":"}')
        assert check_json_lines(file, large=large)[:3] == (36, 2, 2)
        with pytest.raises(Refused, match="line 2 is nested"):
            check_json_lines(io.BytesIO(b"{}\n" + b'{"a":' * 500 + b"1" + b"}" * 500), large=large)
        with pytest.raises(Refused, match="different names"):
            lines = (b'{"n%d": 1}\n' % number for number in range(bounds.COLUMNS + 1))
            check_json_lines(io.BytesIO(b"".join(lines)), large=large)


@pytest.mark.parametrize("value", [b'"{"', b"7", b"null"])
@pytest.mark.parametrize("large", [False, True])
def test_a_line_with_a_name_twice_is_refused(large, value):
    """polars takes the first value and forgets the other."""
    lines = b'{"id": "1", "text": %b}\n' % value * 3
    assert check_json_lines(io.BytesIO(lines), large=large).rows == 3
    with pytest.raises(Refused, match="line 4 has a name twice in one object"):
        check_json_lines(io.BytesIO(lines + lines[:10] + b', "text": "a", "text": "b"}\n'), large=large)


CELLS = st.recursive(
    st.none() | st.text('aé"\\\n\ud83d', max_size=40) | st.integers() | st.booleans() | st.floats(),
    lambda within: st.lists(within, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), within, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.sampled_from(["id", "text", "a", "né", 'q"']), CELLS | st.text(max_size=99), max_size=4)
TEXTS = st.fixed_dictionaries(
    {"né": st.text('aé"\\\n', max_size=9), "text": st.none() | st.text('a"\n\ud83d', max_size=9)}
)
EXCHANGED = st.tuples(st.integers(-40, 60), st.sampled_from(b'"{}[]\\,:n1u \r\n\x01\xff'))


@given(
    st.lists(st.tuples(OBJECTS, st.booleans(), EXCHANGED), max_size=9)
    | st.lists(st.tuples(TEXTS, st.booleans(), EXCHANGED), max_size=9)
)
@settings(max_examples=250, deadline=None)
def test_a_look_over_lines_of_json_tells_what_python_does(objects):
    """Whatever they hold, and with a byte of some exchanged."""
    lines = []
    for value, is_ascii, (place, byte) in objects:
        line = bytearray(json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "replace"))
        if 0 <= place < len(line):
            line[place] = byte
        lines.append(bytes(line) + b"\n")
    data = b"".join(lines * 2)
    one_by_one = LineCheck()
    for line in io.BytesIO(data):
        one_by_one(line)
    columns = one_by_one.columns
    texts = list(columns) if columns and all(columns.values()) else None
    expected = (len(data), one_by_one.rows, len(one_by_one.names), texts)
    assert check_json_lines(io.BytesIO(data)) == expected
    found = check_json_lines(io.BytesIO(data), large=True)
    assert found._replace(names=expected[2]) == expected  # it may count a name twice that is written in two ways


def test_a_line_among_thousands_alike_is_not_passed_over():
    """What a look that passes over lines alike must see: no text, no JSON, a text where none was, another name."""
    size = 3_000
    for line, texts in (
        (b'{"id": "a", "site": "C50"}\n', ["id", "site"]),
        (b'{"id": "\\\\", "site": "\\u00e9"}\r\n', ["id", "site"]),
        (b'{"id": "a", "site": "b", "new": "c"}\n', ["id", "site", "new"]),
        (b'{"id": 1, "site": "C50"}\n', None),
        (b'{"id": "a\tb", "site": "C50"}\n', None),
        (b'{"id": "a\nb", "site": "C50"}\n', None),
        (b'{"id": "\\x41", "site": "C50"}\n', None),
        (b'{"id": "\\ud83d", "site": "C50"}\n', None),
        (b'{"id": "\\u12g4", "site": "C50"}\n', None),
        (b'{"id": "a\\\\", "site": "C50"}\n'.replace(b'", "s', b'" "s'), None),
        (b'{"id": "\xff", "site": "C50"}\n', None),
    ):
        for alike in (b'{"id": "5\\" nail", "site": null}\n', b'{"id": "5\\" nail", "site": "C61"}\n'):
            data = alike * size + line + alike * size
            found = check_json_lines(io.BytesIO(data))
            assert found == (len(data), 2 * size + line.count(b"\n"), 3 if b"new" in line else 2, texts), line


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
