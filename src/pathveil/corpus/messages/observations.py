"""What OBX and SPM say, put together as the sections of a report.

Laboratories repeat OBX, number them anew under each SPM, send a line of text in each, cut documents (RTF, files in
base64) over several of them, and send whole sections twice.

>>> texts = ["A. Left:", "Invasive ductal carcinoma, grade 2.", "B. Right:", "Invasive ductal carcinoma, grade 2."]
>>> lines = [("", str(number), text) for number, text in enumerate(texts * 2)]
>>> without_repeats(lines[:4]) == without_repeats(lines) == texts
True
"""

import base64
import re
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter

from pathveil.corpus.messages.hl7 import Delimiters, Segment, components_of, decode_text, unescape
from pathveil.corpus.messages.markup import PAGE, RTF, are_cut, join_rtf
from pathveil.corpus.messages.sections import WHOLE, heading_for, tidy

LONG = 30  # characters of a line; shorter ones may well recur ("Benign.")
CODED = ("CE", "CWE", "CNE")
MEASURED = ("NM", "SN")
PLAIN = ("TX", "FT", "ST", "")
OBX_FIELDS, MISSING = itemgetter(1, 2, 3, 4, 5, 6, 11), [""] * 12
NULL = '""'  # HL7's word for: there is nothing
COUNT = re.compile(r"[<>=~]{0,2} ?[0-9]+(?:[.,][0-9]+)?")
# Types of OBX-5 that are no text: people, places and numbers of them, and attached files.
NO_TEXT = ("XCN", "XPN", "XAD", "XTN", "XON", "CX", "CN", "PN", "PPN", "AD", "TN", "PL", "EI", "HD", "ED", "RP")
RTF_IN_HL7 = re.compile(r"[\s\ufeff]*\{.{1,3}rtf")  # the backslash may be escaped
TEXTS = {"TEXT", "TXT", "PLAIN", "TX", "FT", "X-PLAIN"}  # what type and subtype of a file say that is text
# How RTF begins, as it is and in base64, and so do PDF, pages, and files in a ZIP.
BEGINNINGS = (RTF, "e1xydG", "JVBERi", "PCFET", "PGh0bW", "UEsDB", "<")
# Such a file in base64 where a text is said to be, behind what ED says of files or without that; and more of it.
FILE = re.compile(rf"(?:\S{{0,60}}(?i:base64).)?(?:{'|'.join(BEGINNINGS[1:-1])})[A-Za-z0-9+/]{{20}}")
MORE = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}|[A-Za-z0-9+/]+={1,2}")
BINARY = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
UNREAD = "holds its text in a form that is not read (PDF or an image)"
UNDECODED = "holds an attached file that cannot be decoded"
REMOVED = ("D", "W", "X")  # OBX-11: deleted, posted as wrong, or not to be had
STATES = frozenset("ABCDFINOPRSUVWX")  # OBX-11, which every OBX has
SHORT = 10  # characters of a unit, range or flag (OBX-6 to 10)
MOST_BARS = 200  # in a line of text


Sections = dict[str, dict[str, list[str]]]  # heading: part: texts
Line = tuple[str, str, str]  # the specimen, OBX-1 (or what else tells where it stood), and the text


@dataclass
class Draft:
    """A report being read: its OBRs and the sections met so far."""

    order: Segment | None = None  # the first of those with its number that was not cancelled
    told: set[str] = field(default_factory=set)  # the statuses of all of them (OBR-25)
    is_cancelled: bool = False  # the order we are in
    specimen: str = ""  # SPM-1 of the block we are in
    collected: str = ""  # SPM-17
    heading: str = "COMMENT"  # where a note goes: the section it follows
    lines: dict[str, dict[str, list[Line]]] = field(default_factory=dict)  # heading: part: lines, in order
    attached: list["Attached"] = field(default_factory=list)
    is_attached: bool = False  # some of the text is from a file
    unread: str = ""  # why a file that was attached counts for nothing
    rtf: "OpenRtf | None" = None  # a document that goes on in the next OBX
    source: list[str] = field(default_factory=list)  # the segments as sent
    states: set[str] = field(default_factory=set)  # OBX-11
    observed: bool = False  # an OBX had text; without one, what SPM and OBR say is no report
    held: int = 0  # characters in OBX

    def add(self, heading: str, part: str, text: str, number: str) -> None:
        if text and not text.isspace():
            try:
                self.lines[heading][part].append((self.specimen, number, text))
            except KeyError:
                self.lines.setdefault(heading, {})[part] = [(self.specimen, number, text)]


@dataclass
class Attached:
    """A file in one OBX or several (ED): where it belongs, what it is, and its content as it was sent."""

    heading: str
    part: str
    kinds: frozenset[str]
    encoding: str
    pieces: list[str]

    def goes_on(self, other: "Attached") -> bool:
        """Whether the file of the next OBX is more of this one."""
        if (self.heading, self.kinds, self.encoding) != (other.heading, other.kinds, other.encoding):
            return False
        last, new = self.pieces[-1], other.pieces[0]
        if new.startswith(BEGINNINGS):
            return False
        if self.pieces[0].startswith(BEGINNINGS[:2]):
            return True
        # Base64 that is padded is at its end, as is a piece that is shorter than what follows.
        return self.encoding == "base64" and not last.endswith("=") and (len(last) % 4 != 0 or len(last) >= len(new))

    def text(self) -> str | None:
        """The text of the file, none where it is no text; what cannot be decoded is a ``ValueError``."""
        content = "".join(self.pieces).encode()
        if self.encoding == "base64":
            content = b"".join(map(from_base64, re.findall(rb"[^=]+", content)))
        elif self.encoding == "hex":
            content = bytes.fromhex(content.decode())
        text = decode_text(content)
        is_text = text.lstrip("\ufeff \t\r\n").startswith(RTF) or PAGE.match(text) or self.kinds & TEXTS
        return text if text.strip() and is_text and not BINARY.search(text[:1_000]) else None


@dataclass
class OpenRtf:
    """RTF that was begun and not closed: its lines may stand in an OBX each, numbered as parts (OBX-4) or not."""

    heading: str
    part: str
    number: str
    marks: Delimiters
    pieces: list[str] = field(default_factory=list)  # as sent
    braces: int = 0  # still open

    def document(self) -> str:
        """All of it; what was cut within an escape of HL7 is whole before that is undone."""
        if are_cut(self.pieces):
            return rtf_of("".join(self.pieces), self.marks)
        return join_rtf([rtf_of(piece, self.marks) for piece in self.pieces])


def add_observation(draft: Draft, obx: Segment) -> None:
    """Put one OBX under its heading, unless it is no text or was withdrawn."""
    if draft.is_cancelled:
        return
    # Most of a message is OBX: its fields are taken at once, and the usual ones need little care.
    fields, marks = obx.fields, obx.marks
    if len(fields) > len(MISSING) and fields[11] not in STATES and fields[2].strip() in PLAIN:
        obx.fields = fields = with_bars_in_text(fields, marks.field)
    fields = fields if len(fields) >= len(MISSING) else [*fields, *MISSING]
    number, kind, name, part, value, unit, state = OBX_FIELDS(fields)
    if state not in draft.states:
        draft.states.add(state := state.strip().upper())
    if state in REMOVED:
        return
    if kind not in PLAIN and (kind := kind.strip().upper()) in NO_TEXT:
        if kind == "ED":
            note_attached(draft, obx)
        return
    draft.heading = heading = heading_of_field(name, marks)
    if kind in PLAIN and " " not in value[:SHORT] and is_file(draft, value.strip()):
        note_attached(draft, obx)
        return
    if kind in PLAIN and (draft.rtf or ("{" in value and RTF_IN_HL7.match(value))):
        add_rtf(draft, obx)
        return
    if kind in PLAIN and marks.repetition not in value and marks.escape not in value and "\\" not in value:
        text = value.strip()
    else:
        text = value_of(obx, 5, kind)
    if text == NULL:
        return
    if unit and kind in PLAIN and COUNT.fullmatch(text):
        text = f"{text} {obx.first(6)}"
    part = (part and obx.first(4)[:10]) or draft.specimen
    if not draft.observed:
        draft.observed = bool(tidy(text))
    draft.held += len(text)
    draft.add(heading, part, text, number)


def with_bars_in_text(fields: list[str], bar: str) -> list[str]:
    """Fields of an OBX whose text has bars that were not escaped: its status then stands further back than it should.

    >>> with_bars_in_text("OBX|1|TX|22637-3||ER | PR | HER2 positive||||||F".split("|"), "|")[5:]
    ['ER | PR | HER2 positive', '', '', '', '', '', 'F']
    """
    if not fields[6].strip():
        return fields
    for place in range(len(MISSING), min(len(fields), MOST_BARS)):
        more = place - 11  # bars
        is_status = fields[place].strip().upper() in STATES
        if is_status and all(len(one.strip()) <= SHORT for one in fields[6 + more : place]):
            return [*fields[:5], bar.join(fields[5 : 6 + more]), *fields[6 + more :]]
    return fields


def add_rtf(draft: Draft, obx: Segment) -> None:
    """Put a piece of RTF where the document was begun. It is made plain once all of it is there (``render``)."""
    value = obx.fields[5] if len(obx.fields) > 5 else ""
    piece = rtf_of(value, obx.marks)
    if draft.rtf and (draft.heading != draft.rtf.heading or piece.lstrip().startswith(RTF)):
        close_rtf(draft)
    draft.rtf = draft.rtf or OpenRtf(draft.heading, obx.first(4)[:10] or draft.specimen, obx.first(1), obx.marks)
    draft.rtf.pieces.append(value)
    draft.rtf.braces += braces_left_open(piece)
    draft.observed = True
    draft.held += len(piece)
    if draft.rtf.braces <= 0:
        close_rtf(draft)


def close_rtf(draft: Draft) -> None:
    """Make one line of the document, so that nothing in it counts as sent twice but all of it."""
    if draft.rtf:
        draft.add(draft.rtf.heading, draft.rtf.part, draft.rtf.document(), draft.rtf.number)
        draft.rtf = None


def rtf_of(value: str, marks: Delimiters) -> str:
    r"""A field that holds RTF, blanks at its ends too. ``\~``, a blank that does not break, is no repetition there."""
    if marks.repetition in value:
        value = re.sub(rf"(?<!\\){re.escape(marks.repetition)}", "\n", value)
    return unescape(value, marks)


def braces_left_open(rtf: str) -> int:
    return rtf.count("{") - rtf.count("\\{") - rtf.count("}") + rtf.count("\\}")


def is_file(draft: Draft, value: str) -> bool:
    """Whether a field that is called a text holds a file in base64, or goes on with one."""
    is_more = draft.attached and draft.attached[-1].heading == draft.heading
    return bool(FILE.match(value) or (is_more and MORE.fullmatch(value)))


def note_attached(draft: Draft, obx: Segment) -> None:
    """Note an attached file, or a piece of one: ED is source, type, subtype, encoding and content; some send that
    alone."""
    marks = obx.marks
    _, kind, subtype, encoding, data, *_ = [*obx.repetitions(5)[0].split(marks.component, 4), *[""] * 5]
    encoding, data = encoding.strip().lower(), unescape(data, marks)
    kinds = frozenset((kind.strip().upper(), subtype.strip().upper()))
    if marks.component not in obx[5] and is_file(draft, obx[5]):
        encoding, data = "base64", unescape(obx[5].replace(marks.repetition, ""), marks)
        kinds = draft.attached[-1].kinds if draft.attached and not FILE.match(data) else kinds
    file = Attached(
        heading=heading_of_field(obx[3], marks),
        part=obx.first(4)[:10] or draft.specimen,
        kinds=kinds,
        encoding=encoding,
        pieces=["".join(data.split()) if encoding == "base64" else data],
    )
    if draft.attached and draft.attached[-1].goes_on(file):
        draft.attached[-1].pieces += file.pieces
    else:
        draft.attached.append(file)


def add_attached(draft: Draft) -> None:
    """Put the texts of attached files under their headings, or note why there is none."""
    for file in draft.attached:
        try:
            text = file.text()
        except ValueError:
            draft.unread = UNDECODED
            continue
        if text is None:
            draft.unread = draft.unread or UNREAD
            continue
        draft.observed = draft.is_attached = True
        draft.add(file.heading, file.part, text, "ED")


def from_base64(content: bytes) -> bytes:
    return base64.b64decode(content + b"=" * (-len(content) % 4), validate=True)


def enter_specimen(draft: Draft, spm: Segment) -> None:
    """An SPM opens a block of OBX about one specimen; its type, site and description are part of the report."""
    if draft.is_cancelled:
        return
    close_rtf(draft)
    draft.specimen = spm.first(1)[:10]
    draft.heading = "COMMENT"
    draft.collected = draft.collected or spm.first(17)
    words = [value_of(spm, 4, "CWE"), value_of(spm, 8, "CWE"), value_of(spm, 14, "TX")]
    draft.add("NATURE OF SPECIMEN", draft.specimen, ", ".join(word for word in words if word), "SPM")


@lru_cache(maxsize=4_096)  # a sender has few sections
def heading_of_field(field: str, marks: Delimiters) -> str:
    """The heading of a section (OBX-3): by its LOINC code if we know it, else by a hint in its name, else its name."""
    parts = components_of(field.strip().partition(marks.repetition)[0], marks) + [""] * 5
    return heading_for((parts[0], parts[3]), (parts[1], parts[4], parts[0]))


def value_of(segment: Segment, number: int, kind: str) -> str:
    """A field as text, one repetition a line: the words of a code, the number of a measurement with its unit."""
    marks, values = segment.marks, segment.repetitions(number)
    if kind in CODED:
        coded = [components_of(value, marks) + [""] * 9 for value in values]
        return "\n".join(parts[1] or parts[8] or parts[0] for parts in coded)
    if kind in MEASURED:
        return f"{unescape(''.join(values[0].split(marks.component)), marks)} {segment.first(6)}".strip()
    return "\n".join(unescape(value, marks) for value in values)


def sections_of(draft: Draft) -> Sections:
    """The texts of a report; what is attached counts where the OBX hold next to none, and else says the same again."""
    close_rtf(draft)
    if draft.held < WHOLE:
        add_attached(draft)
    return {
        heading: {part: without_repeats(lines) for part, lines in parts.items()}
        for heading, parts in draft.lines.items()
    }


def without_repeats(lines: list[Line]) -> list[str]:
    """The texts of a section without what was sent twice: an OBX, or all of the section under new numbers.

    A line that recurs is none of these: two specimens may have one diagnosis.
    """
    texts = [line[2] for line in lines]
    if len(texts) == 1 or len(set(texts)) == len(texts):  # nearly always
        return texts
    kept: list[Line] = []
    for line in lines:
        specimen, number, text = line
        last = kept[-1] if kept else None
        if last and (last[0], last[2]) == (specimen, text) and (len(text) >= LONG or (number and number == last[1])):
            continue
        kept.append(line)
    meant: dict[tuple[str, str], set[str]] = {}
    for specimen, number, text in kept:
        meant.setdefault((specimen, number), set()).add(text)
    # Numbers tell what came twice where each stands for one text; some senders begin again, or number all alike.
    if all(len(told) == 1 for (_, number), told in meant.items() if number):
        kept = list({line if line[1] else place: line for place, line in enumerate(kept)}.values())
    return without_second_run([(specimen, text) for specimen, _, text in kept])


def without_second_run(lines: list[tuple[str, str]]) -> list[str]:
    """The texts without the runs that say what stands before them again, from the first line on."""
    first = next((place for place, (_, text) in enumerate(lines) if len(text) >= LONG), len(lines))
    again = [place - first for place in range(first + 1, len(lines)) if lines[place] == lines[first]]
    for size in again[:20]:  # each is compared with all before it
        end = size
        while lines[end : end + size] == lines[:size]:
            end += size
        if end > size:
            lines = lines[:size] + lines[end:]
            break
    return [text for _, text in lines]
