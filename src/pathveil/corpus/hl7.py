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
from typing import IO

LONGEST = 1 << 26  # bytes of a message; past it the file is something else
BREAK = re.compile(rb"<[cC][rR]>(?:\r\n|\r|\n)?|\r\n|\r|\n|\x0b|\x1c")
# "MSH-2 intact" is a sentence of many colon reports, so a header needs a bar or a whole MSH-2.
HEADER = re.compile(rb"\s*(?:\xef\xbb\xbf)?MSH(?:\||([^\w\s])[^\w\s]{2,5}\1)")
WRAPPER = re.compile(rb"\s*(?:\xef\xbb\xbf)?(?:FHS|BHS|BTS|FTS)[^\w\s]")


@dataclass(frozen=True)
class Delimiters:
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

    def __getitem__(self, number: int) -> str:
        place = number - 1 if self.name == "MSH" else number  # MSH-1 is the field separator itself
        return self.fields[place].strip() if place < len(self.fields) else ""

    def parts(self, number: int) -> list[str]:
        """The components of a field's first repetition."""
        first = self[number].partition(self.marks.repetition)[0]
        return [unescape(part, self.marks).strip() for part in first.split(self.marks.component)]

    def repetitions(self, number: int) -> list[str]:
        return self[number].split(self.marks.repetition)

    def first(self, number: int) -> str:
        marks = self.marks
        first = self[number].partition(marks.repetition)[0].partition(marks.component)[0]
        return unescape(first, marks).strip()


class UnusableMessage(Exception):
    """Raised for a message that gives no report; it says what is wrong and never quotes the message."""


def split_messages(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the line where each message starts, and its bytes; batch envelopes are skipped."""
    pieces: list[bytes] = []
    start = size = 0
    for line, opens, piece in split_lines(file):
        wrapper = WRAPPER.match(piece)
        if pieces and (opens or wrapper or HEADER.match(piece)):
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


def split_lines(file: IO[bytes]) -> Iterator[tuple[int, bool, bytes]]:
    """Yield for each line that is not blank its number, whether an MLLP frame opens there, and its bytes."""
    rest, line, opens = b"", 1, False
    head = file.read(1 << 20)
    wide = codecs.getincrementaldecoder("utf-16")("replace") if head[:2] in (b"\xff\xfe", b"\xfe\xff") else None
    while head or rest:
        chunk = wide.decode(head).encode() if wide else head
        more = file.read(1 << 20) if head else b""
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
    lines = decode_text(message).lstrip("\ufeff \t\n").split("\n")
    marks = delimiters_of(lines[0])
    opening = opening_of(marks.field)
    raw: list[tuple[str, list[str]]] = []
    for line in lines:
        if found := opening.match(line):
            raw.append(((found[1] or "").upper(), [line.strip()]))
        else:
            raw[-1][1].append(line)
    return [Segment(name=name, fields="\n".join(lines).split(marks.field), marks=marks) for name, lines in raw]


@cache
def opening_of(separator: str) -> re.Pattern[str]:
    """How a segment begins. A name and a separator open one, whatever the name. So does any line with a separator near
    its start and more behind it: if that is a PID with a damaged name, taking it for the text before it would let the
    patient in."""
    bar = re.escape(separator)
    return re.compile(rf"\s*([A-Za-z][A-Za-z0-9]{{1,3}}){bar}|()[^{bar}]{{0,5}}{bar}(?:[^{bar}]*{bar}){{2}}")


def decode_text(message: bytes) -> str:
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        return message.decode("cp1252", errors="replace")


def delimiters_of(header: str) -> Delimiters:
    """What MSH-1 and MSH-2 say; the usual ones for any that are missing, doubled or letters."""
    given, usual = header[4:].split(header[3])[0], Delimiters(field=header[3])
    marks = [mark for mark in given if not mark.isalnum() and not mark.isspace()]
    if len({header[3], *marks[:4]}) < 5:
        return usual
    return Delimiters(header[3], *marks[:4])


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
