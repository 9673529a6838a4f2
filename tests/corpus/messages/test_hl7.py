"""HL7's syntax: framing, delimiters, escapes; and that no bytes at all make it fall over."""

import io
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.messages import hl7
from pathveil.corpus.messages.hl7 import (
    Delimiters,
    UnusableMessage,
    delimiters_of,
    split_by_line,
    split_messages,
    split_segments,
    unescape,
)

ONE = b"MSH|^~\\&||LAB|||||ORU^R01"
USUAL = Delimiters()


def names(message: bytes) -> list[str]:
    return [segment.name for segment in split_segments(message)]


@pytest.mark.parametrize("end", ["\r", "\n", "&#xD;", "&#13;&#10;\n"])
def test_a_message_that_was_taken_out_of_xml_as_it_stood_there(end):
    text = "MSH|^~\\&|A&B|LAB|||||ORU^R01\nOBX|1|TX|22637-3||3 \\T\\ 4 mm, < 5 & > 2"
    written = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", end)
    ((_, message),) = split_messages(io.BytesIO(written.encode()))
    header, obx = split_segments(message)
    assert (header[3], unescape(obx[5], obx.marks)) == ("A&B", "3 & 4 mm, < 5 & > 2")
    assert split_segments(text.replace("< 5", "&lt; 5").encode())[1][5].endswith("&lt; 5 & > 2")  # nothing says so


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n", b"<CR>", b"<CR>\n", b"<cr>\r\n", b"\r\r\n"])
def test_segments_end_in_every_known_way(end):
    content = end.join([ONE, b"PID|1", b"OBX|1|TX", ONE, b"PID|2", b""])
    first, second = (message for _, message in split_messages(io.BytesIO(content)))
    assert names(first) == ["MSH", "PID", "OBX"]
    assert names(second) == ["MSH", "PID"]


def test_mllp_frames_and_batch_envelopes():
    framed = b"\x0b" + ONE + b"\rPID|1\r\x1c\r\x0b" + ONE + b"\rPID|2\r\x1c\r"
    batch = b"FHS|^~\\&|x\rBHS|^~\\&|x\r" + ONE + b"\rPID|1\rBTS|1\rFTS|1\r"
    assert [names(message) for _, message in split_messages(io.BytesIO(framed))] == [["MSH", "PID"]] * 2
    assert [names(message) for _, message in split_messages(io.BytesIO(batch))] == [["MSH", "PID"]]


def test_a_frame_without_header_is_a_message_of_its_own():
    content = b"\x0b" + ONE + b"\rPID|1\x1c\r\x0bgarbage\x1c\r\x0b" + ONE + b"\x1c\r"
    found = list(split_messages(io.BytesIO(content)))
    assert len(found) == 3
    with pytest.raises(UnusableMessage, match="does not begin with MSH"):
        split_segments(found[1][1])


def test_lines_are_counted_where_messages_start():
    content = ONE + b"\r\nPID|1\r\n\r\n" + ONE + b"\r\nPID|2\r\nOBX|1\r\n" + ONE
    assert [line for line, _ in split_messages(io.BytesIO(content))] == [1, 4, 7]


def test_chunks_do_not_show():
    """However the reads fall, also between CR and LF or inside ``<CR>``, the messages are the same."""

    class Slow(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 7))

    content = b"\x0b" + ONE + b"<CR>\r\nPID|1\r\nOBX|1|TX|||text\nmore\r\n\x1c\r\n" + ONE + b"\r\n"
    assert list(split_messages(Slow(content))) == list(split_messages(io.BytesIO(content)))


def test_a_byte_order_mark_before_bytes_that_are_no_utf8_is_none_of_them():
    first, obx = split_segments(b"\r\n\xef\xbb\xbf" + ONE + b"\nOBX|1|TX|||Pr\xe4parat")
    assert (first.name, obx[5]) == ("MSH", "Pr\xe4parat")


def test_utf16_and_old_encodings():
    text = "MSH|^~\\&||LAB\rOBX|1|TX|||Befund für Zoë".encode()
    wide = "MSH|^~\\&||LAB\rOBX|1|TX|||Befund für Zoë".encode("utf-16")
    old = "MSH|^~\\&||LAB\rOBX|1|TX|||Befund für Zoë".encode("cp1252")
    for content in (text, b"\xef\xbb\xbf" + text, wide, old):
        ((_, message),) = split_messages(io.BytesIO(content))
        assert split_segments(message)[1][5] == "Befund für Zoë"


@pytest.mark.parametrize("charset", ["8859/2", "8859/5", "8859/1", "UNICODE UTF-8", "KLINGON", ""])
def test_bytes_that_are_no_utf8_are_what_msh_18_says(charset):
    """As in a message by MLLP; many senders call UTF-8 something else, and Windows' quotation marks Latin-1."""
    header, text = (
        rb"MSH|^~\&||LAB" + b"|" * 14 + charset.encode(),
        {"8859/2": "płuca", "8859/5": "рак"}.get(charset, "für “Zoë”"),
    )
    told = {"8859/2": "iso8859-2", "8859/5": "iso8859-5"}.get(charset, "cp1252")
    for encoding in (told, "utf-8"):
        ((_, message),) = split_messages(io.BytesIO(header + b"\rOBX|1|TX|||" + text.encode(encoding)))
        assert split_segments(message)[1][5] == text


def test_text_broken_over_lines_returns_to_its_segment():
    _, obx, last = split_segments(ONE + b"\nOBX|1|TX|||line one\nline two||||||F\nOBX|2")
    assert obx[5] == "line one\nline two" and obx[11] == "F" and last.name == "OBX"


def test_a_short_last_line_of_a_broken_text_is_no_segment():
    """``pN0||||||F`` begins as a segment does; a PID with a damaged name still is one, and no text."""
    for last in ("pN0||||||F", "G3.|||N|||F|||2016", "none||||||C"):
        _, obx = split_segments(ONE + b"\nOBX|1|TX|||carcinoma\n" + last.encode())
        assert obx[5] == f"carcinoma\n{last.partition('|')[0]}" and obx[11] in "FC"
    for damaged in ("PIX|1||77^^^H^MR||Doe^Jo||1957|F", "PX|||||DOE^JO||19570706|F", "XYZ||||||F|"):
        segments = split_segments(ONE + b"\nOBX|1|TX|||carcinoma||||||F\n" + damaged.encode())
        assert [one.name for one in segments[1:]] == ["OBX", damaged.partition("|")[0]]


def test_what_an_add_segment_adds_goes_to_the_segment_before_it():
    added = b"\nOBX|1|TX|||first half, \nADD|second \nADD|half||||||F\nOBX|2|TX|||a ||||||F\nADD|b\nPID|1\nADD||7"
    _, first, second, pid = split_segments(ONE + added)
    assert first[5] == "first half, second half" and first[11] == second[11] == "F"
    assert second[5] == "a b" and pid[2] == "7"


def test_a_gene_is_not_a_header():
    """MSH2 and MSH6 are mismatch repair proteins: reports have lines that begin with them."""
    content = ONE + b"\nOBX|1|TX|||Immunostains:\nMSH2 intact\nMSH-6 intact\nMSH (2) lost"
    ((_, message),) = split_messages(io.BytesIO(content))
    assert "MSH-6 intact" in split_segments(message)[1][5]


@pytest.mark.parametrize("line", ["ZPD|1||x|y", "pid|1||x", "PI|1||x|y", "P?D|1||004||Doe^Jo", "|1||004||Doe^Jo"])
def test_a_line_like_a_segment_never_continues_a_text(line):
    segments = split_segments(ONE + b"\nOBX|1|TX|||text\n" + line.encode())
    assert len(segments) == 3 and segments[1][5] == "text"


def test_delimiters():
    assert delimiters_of("MSH|^~\\&|") == USUAL
    assert delimiters_of("MSH|^~\\&#|") == USUAL
    assert delimiters_of("MSH$@*!%$") == Delimiters("$", "@", "*", "!", "%")
    for odd in ("MSH||LAB", "MSH|^~\\\\&|", "MSH|^^^^|", "MSH|^|", "MSH|", "MSH|abcd|"):
        assert delimiters_of(odd) == USUAL
    segment = split_segments(b"MSH$@*!%$$LAB@1\nOBX$1$TX$22634-0@gross$$a!T!b")[1]
    assert segment.parts(3) == ["22634-0", "gross"] and unescape(segment[5], segment.marks) == "a%b"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (r"a\F\b\S\c\T\d\R\e\E\f", "a|b^c&d~e\\f"),
        (r"one\.br\two\.BR\three", "one\ntwo\nthree"),
        (r"one\.sp2\two\.ce\three", "one\ntwo\nthree"),
        (r"\.in+4\indented\.fi\ ", " indented  "),
        (r"\H\bold\N\ plain", "bold plain"),
        (r"\X41\\X0D0A\\XC3A9\ ", "A\r\né "),
        (r"\XE9\ \C2842\\Zab\.", "é ."),
        (r"C:\reports\new", r"C:\reports\new"),
        (r"5\6 \XZZ\ \.zz\ ", r"5\6 \XZZ\ \.zz\ "),
        ("no escapes", "no escapes"),
    ],
)
def test_escapes(given, expected):
    assert unescape(given, USUAL) == expected


def test_br_is_a_break_under_other_escapes():
    assert unescape(r"a\.br\b", Delimiters("|", "^", "~", "!", "&")) == "a\nb"


def test_a_message_too_long_is_broken_not_kept(monkeypatch):
    monkeypatch.setattr(hl7, "LONGEST", 200)
    content = ONE + b"\nOBX|1|TX|||" + b"x" * 150 + b"\n" + b"y" * 5000 + b"\n" + ONE
    (_, first), (_, second) = split_messages(io.BytesIO(content))
    assert len(first) < 500 and names(second) == ["MSH"]
    with pytest.raises(UnusableMessage, match="is longer than"):
        split_segments(first)


@given(st.binary(max_size=400), st.integers(0, 400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_split_without_a_fault(noise, place):
    base = b"\x0b" + ONE + b"\rPID|1||77\rOBX|1|TX|22634-0||a\\.br\\b\r\x1c\r"
    for content in (noise, base[:place] + noise + base[place:]):
        for line, message in split_messages(io.BytesIO(content)):
            assert line >= 1 and message.strip()
            try:
                for segment in split_segments(message):
                    assert unescape(segment[5], segment.marks) is not None
            except UnusableMessage:
                pass


@given(st.text(max_size=200))
def test_plain_never_fails_and_leaves_text_without_marks_alone(text):
    result = unescape(text, USUAL)
    if "\\" not in text:
        assert result == text


@pytest.mark.parametrize("line", [b"goes on\n", b"x" * 4_000_000, b"<CR", b"\\X", b"||||||||"])
def test_time_grows_with_the_length_of_a_message_alone(line):
    """2.4 MB of lines that continue a segment once took 26 seconds: each was copied with all before it."""
    message = b"MSH|^~\\&||LAB\nOBX|1|TX|22634-0||" + line * max(2_000_000 // len(line), 1)
    began = time.process_time()
    for _, found in split_messages(io.BytesIO(message)):
        for segment in split_segments(found):
            unescape(segment[5], segment.marks)
    assert time.process_time() - began < 10


PIECES = [
    b"MSH|^~\\&||LAB",
    b"MSH",
    b"|",
    b"\r",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b"OBX|1|TX|||x",
    b"PID|1",
    b"MSH$@*!%$",
    b"a MSH|",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.integers(1, 40))
@settings(max_examples=300, deadline=None)
def test_cutting_at_headers_is_reading_line_by_line(pieces, size):
    """The quick way and the careful one find the same messages at the same lines, however the reads fall."""

    class Slow(io.BytesIO):
        def read(self, most=-1):
            return super().read(min(most, size))

    content = ONE + b"\r" + b"".join(pieces)
    assert list(split_messages(Slow(content))) == list(split_by_line(io.BytesIO(content)))
