"""HL7 v2 as laboratories write it: bytes to messages, messages to segments, fields to plain text.

Tolerant by design, since a registry's messages come from dozens of senders: many messages a file; segments ended by CR,
LF, CRLF or a literal ``<CR>``, in MLLP frames and batch envelopes or not; text broken over lines; any delimiters in
MSH-1 and MSH-2. Nothing here knows what a report is (``naaccr.py`` does), and no fault quotes what it found.

>>> import io
>>> file = io.BytesIO(rb"MSH|^~\\&||LAB<CR>OBX|1|TX|22634-0||3 \\T\\ 4 mm<CR>")
>>> ((line, message),) = split_messages(file)
>>> header, obx = split_segments(message)
>>> header[4], obx.first(3), unescape(obx[5], obx.marks)
('LAB', '22634-0', '3 & 4 mm')
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import IO, NamedTuple

from pathveil.corpus.messages.markup import unescape_entities

LONGEST = 1 << 26  # bytes of a message; past it the file is something else
BREAK = re.compile(rb"<[cC][rR]>(?:\r\n|\r|\n)?|\r\n|\r|\n|\x0b|\x1c")
# "MSH-2 intact" is a sentence of many colon reports, so a header needs a bar or a whole MSH-2.
HEADER = re.compile(rb"\s*(?:\xef\xbb\xbf)?MSH(?:\||([^\w\s])[^\w\s]{2,5}\1)")
WRAPPER = re.compile(rb"\s*(?:\xef\xbb\xbf)?(?:FHS|BHS|BTS|FTS)[^\w\s]")
HEAD_OR_WRAPPER = re.compile(rb"(?:" + HEADER.pattern + rb")|(" + WRAPPER.pattern + rb")")
BARE_HEADER = re.compile(rb"MSH(?:\||([^\w\s])[^\w\s]{2,5}\1)")
CHUNK = 1 << 20  # bytes read at a time
START = 4_096  # bytes in which a header lies
# Names of HL7 table 0211, as Python calls them. What is called Latin-1 is Windows' nearly always, which has all of it.
CHARSETS = {"": "", "ASCII": "", "UNICODE UTF-8": "", "UTF-8": "", "UNICODE": "", "8859/1": "cp1252"}
CHARSETS |= {f"8859/{number}": f"iso8859-{number}" for number in (*range(2, 10), 15)}


class Delimiters(NamedTuple):  # hashed for every OBX, which a tuple does fastest
    field: str = "|"
    component: str = "^"
    repetition: str = "~"
    escape: str = "\\"
    subcomponent: str = "&"


@dataclass(slots=True)  # frozen ones take thrice as long to make, and a message has dozens
class Segment:
    """A segment's name and fields, numbered as HL7 does."""

    name: str
    fields: list[str]
    marks: Delimiters
    source: str  # as it was sent

    def __getitem__(self, number: int) -> str:
        place = number - 1 if self.name == "MSH" else number  # MSH-1 is the field separator itself
        return self.fields[place].strip() if place < len(self.fields) else ""

    def parts(self, number: int) -> list[str]:
        """The components of a field's first repetition."""
        return components_of(self[number].partition(self.marks.repetition)[0], self.marks)

    def repetitions(self, number: int) -> list[str]:
        return self[number].split(self.marks.repetition)

    def first(self, number: int) -> str:
        value, marks = self[number], self.marks
        if not value:
            return value
        return unescape(value.partition(marks.repetition)[0].partition(marks.component)[0], marks).strip()


class UnusableMessage(Exception):
    """Raised for a message that gives no report; it says what is wrong and never quotes the message."""


def split_messages(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the line where each message starts, and its bytes, a segment a line; batch envelopes are skipped.

    Most files are messages and line ends alone, and are cut at their headers. From where one is anything else on, it is
    read line by line, which takes half as long again.
    """
    rest, line = b"", 1
    while chunk := file.read(CHUNK):
        data = rest + chunk
        if len(data) > 8 * CHUNK or not HEADER.match(data[:16]) or is_unusual(data):
            yield from split_by_line(file, head=data, first=line)
            return
        starts = list(headers_of(data))
        for start, end in pairwise(starts):
            message = data[start:end]
            yield line, in_lines(message)
            line += message.count(b"\n") + message.count(b"\r") - message.count(b"\r\n")
        rest = data[starts[-1] :]
    if rest:
        yield line, in_lines(rest)


def is_unusual(data: bytes) -> bool:
    """Whether a file must be read line by line: frames, breaks spelt out, wrappers, a byte order mark."""
    if not data.isascii() and b"\xef\xbb\xbf" in data:
        return True
    if b"<" in data and any(mark in data for mark in (b"<CR>", b"<cr>", b"<Cr>", b"<cR>")):
        return True
    return any(mark in data for mark in (b"\x0b", b"\x1c", b"FHS", b"BHS", b"BTS", b"FTS"))


def headers_of(data: bytes) -> Iterator[int]:
    """Where messages begin in bytes that begin with one: at a header, or at blanks before it, on a line of its own."""
    for found in BARE_HEADER.finditer(data):
        start = found.start()
        while start and data[start - 1] in b" \t\f":
            start -= 1
        if not start or data[start - 1] in b"\r\n":
            yield start


def in_lines(message: bytes) -> bytes:
    """A message's segments on lines that are not blank, ended by LF."""
    # Of a message past the limit just so much is kept that reading it can say so.
    lines = message[: LONGEST + 1].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"\n".join(filter(bytes.strip, lines))


def split_by_line(file: IO[bytes], *, head: bytes = b"", first: int = 1) -> Iterator[tuple[int, bytes]]:
    """The messages of a file in which anything may stand, from its line ``first`` on; ``head`` was read already."""
    pieces: list[bytes] = []
    start = size = 0
    for line, opens, piece in split_lines(file, head=head, line=first):
        begins = HEAD_OR_WRAPPER.match(piece)
        wrapper = begins is not None and begins[2] is not None
        if pieces and (opens or begins):
            yield start, b"\n".join(pieces)
            pieces = []
        if not wrapper:
            start, size = (start, size) if pieces else (line, 0)
            # Of a message past the limit just so much is kept that reading it can say so.
            if size <= LONGEST:
                pieces.append(piece[: LONGEST + 1])
            size += len(piece)
    if pieces:
        yield start, b"\n".join(pieces)


def split_lines(file: IO[bytes], *, head: bytes, line: int) -> Iterator[tuple[int, bool, bytes]]:
    """Yield for each line that is not blank its number, whether an MLLP frame opens there, and its bytes."""
    rest, opens = b"", False
    head = head or file.read(CHUNK)
    wide = codecs.getincrementaldecoder("utf-16")("replace") if head[:2] in (b"\xff\xfe", b"\xfe\xff") else None
    while head or rest:
        chunk = wide.decode(head).encode() if wide else head
        more = file.read(CHUNK) if head else b""
        data, place = rest + chunk, 0
        for found in BREAK.finditer(data, max(len(rest) - 6, 0)):  # but for a break begun, there is none in the rest
            # A break at the very end may go on in the next chunk (CR, then LF).
            if more and found.end() == len(data):
                break
            if (piece := data[place : found.start()]).strip():
                yield line, opens, piece
                opens = False
            opens = opens or found[0] == b"\x0b"
            line += found[0][-1:] in b"\r\n"
            place = found.end()
        rest, head = data[place:], more
        if rest.strip() and (not more or len(rest) > LONGEST):
            yield line, opens, rest[: LONGEST + 1]
            opens = False
        rest = rest if more and len(rest) <= LONGEST else b""


def split_segments(message: bytes) -> list[Segment]:
    """Split a message into segments; text that was broken over lines goes back into its segment."""
    if not HEADER.match(message):
        raise UnusableMessage("does not begin with MSH")
    if len(message) > LONGEST:
        raise UnusableMessage(f"is longer than {LONGEST >> 20} MB")
    text = decode_message(message.lstrip().removeprefix(codecs.BOM_UTF8)).lstrip("\ufeff \t\n")
    if text.startswith("&amp;", 7):  # in MSH-2: taken out of XML as it stood there
        text = "\n".join(filter(str.strip, unescape_entities(text).splitlines()))
    lines = text.split("\n")
    marks = delimiters_of(lines[0])
    if f"\nADD{marks.field}" in text:
        lines = with_additions(lines, marks.field)
    opening, closing, usual = opening_of(marks.field), closing_of(marks.field), usual_openings(marks.field)
    names, sources, broken = [], [], {}
    for line in lines:
        if name := usual.get(line[:4]):
            names.append(name)
            sources.append(line.rstrip())
        elif names[-1:] == ["OBX"] and sources[-1].count(marks.field) == 5 and closing.match(line):
            broken.setdefault(len(sources) - 1, []).append(line)
        elif found := opening.match(line):
            names.append((found[1] or "").upper())
            sources.append(line.strip())
        else:
            broken.setdefault(len(sources) - 1, []).append(line)
    for place, more in broken.items():
        sources[place] = "\n".join([sources[place], *more])
    field = marks.field
    return [Segment(name, source.split(field), marks, source) for name, source in zip(names, sources, strict=True)]


def with_additions(lines: list[str], separator: str) -> list[str]:
    """Lines with what an ADD segment adds to the last field of the one before it.

    Some put it behind a whole OBX; there it can only be more of the text, OBX-5.

    >>> with_additions(["OBX|1|TX|||one ", "ADD|two||||||F", "OBX|2|TX|||a ||||||F", "ADD|b"], "|")
    ['OBX|1|TX|||one two||||||F', 'OBX|2|TX|||a b||||||F']
    """
    joined: list[list[str]] = []  # segments, each with what is added behind it
    for line in lines:
        if joined and line.startswith(f"ADD{separator}"):
            joined[-1].append(line[len("ADD") + 1 :])
        else:
            joined.append([line])
    whole = []
    for line, *added in joined:
        fields = line.split(separator)
        if added and fields[0] == "OBX" and len(fields) > 6 and not any(separator in more for more in added):
            whole.append(separator.join([*fields[:5], "".join([fields[5], *added]), *fields[6:]]))
        else:
            whole.append("".join([line, *added]))
    return whole


@cache
def usual_openings(separator: str) -> dict[str, str]:
    """How the segments of nearly all messages begin, and their names."""
    return {name + separator: name for name in ("MSH", "PID", "NK1", "PV1", "ORC", "OBR", "OBX", "NTE", "SPM")}


@cache
def opening_of(separator: str) -> re.Pattern[str]:
    """How a segment begins. A name and a separator open one, whatever the name. So does any line with a separator near
    its start and more behind it: if that is a PID with a damaged name, taking it for the text before it would let the
    patient in."""
    bar = re.escape(separator)
    return re.compile(rf"\s*([A-Za-z][A-Za-z0-9]{{1,3}}){bar}|()[^{bar}]{{0,5}}{bar}(?:[^{bar}]*{bar}){{2}}")


@cache
def closing_of(separator: str) -> re.Pattern[str]:
    """How the last line of a text ends that was broken over lines, if it is short: ``pN0||||||F``, with flags and a
    status behind it as an OBX has them and no other segment."""
    bar = re.escape(separator)
    return re.compile(rf"[^{bar}]{{0,5}}(?:{bar}[A-Z]{{0,2}}){{5}}{bar}[A-Z](?:{bar}|\s*$)")


def decode_text(content: bytes) -> str:
    """Bytes as UTF-8, which no other text is by chance, else as Windows' Latin."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def decode_message(message: bytes) -> str:
    """A message whose bytes are not UTF-8 is in the character set that it tells, if we know that."""
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        return message.decode(charset_of(message) or "cp1252", errors="replace")


def charset_of(message: bytes) -> str | None:
    """What MSH-18 says the bytes of a message are, if they are not UTF-8; none where that is not known.

    >>> [charset_of(rb"MSH|^~\\&" + b"|" * 16 + name) for name in (b"", b"8859/2~8859/1", b"KLINGON")]
    ['', 'iso8859-2', None]
    """
    header = re.split(rb"[\r\n]", message[:START].lstrip(b"\xef\xbb\xbf \t\r\n"), maxsplit=1)[0]
    fields = header.split(header[3:4]) if len(header) > 3 else []
    name = fields[17].partition(b"~")[0].decode("ascii", "replace") if len(fields) > 17 else ""
    return CHARSETS.get(name.strip().upper())


def delimiters_of(header: str) -> Delimiters:
    """What MSH-1 and MSH-2 say; the usual ones for any that are missing, doubled or letters."""
    given, usual = header[4:].split(header[3])[0], Delimiters(field=header[3])
    marks = [mark for mark in given if not mark.isalnum() and not mark.isspace()]
    if len({header[3], *marks[:4]}) < 5:
        return usual
    return Delimiters(header[3], *marks[:4])


def components_of(value: str, marks: Delimiters) -> list[str]:
    """The components of a field, or of one of its repetitions."""
    if marks.escape not in value and "\\" not in value:
        return [part.strip() for part in value.split(marks.component)]
    return [unescape(part, marks).strip() for part in value.split(marks.component)]


def unescape(value: str, marks: Delimiters) -> str:
    """A value without HL7's escapes; formatting commands become line breaks, highlighting goes."""
    if marks.escape not in value and "\\" not in value:
        return value
    named = {"F": marks.field, "S": marks.component, "T": marks.subcomponent, "R": marks.repetition, "E": marks.escape}

    def meaning(found: re.Match[str]) -> str:
        letter, command, digits = found["letter"], found["command"], found["digits"]
        if letter:
            return named.get(letter, "")
        if command:
            return "\n" if command.lower() in ("br", "sp", "ce", "ti") else " "
        return decode_text(bytes.fromhex(digits)) if digits else ""

    value = escape_of(marks.escape).sub(meaning, value)
    return re.sub(r"(?i)\\\.br\\", "\n", value)  # some send it so whatever their MSH-2 says


@cache
def escape_of(escape: str) -> re.Pattern[str]:
    mark = re.escape(escape)
    return re.compile(
        rf"{mark}(?:(?P<letter>[FSTREHN])|\.(?i:(?P<command>br|sp|ce|in|ti|fi|nf|sk))[-+]?\d*"
        rf"|[Xx](?P<digits>(?:[0-9A-Fa-f]{{2}})+)|[CM][0-9A-Fa-f]{{4,6}}|Z\w{{1,4}}){mark}"
    )
