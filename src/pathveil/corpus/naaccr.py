"""Reports out of NAACCR Volume V messages (HL7 v2, ORU^R01), the way pathology reaches a registry.

A report is an OBR and the OBX under it: repeated, renumbered under each SPM, sent twice, in parts (OBX-4) or under
wrong codes; ORC and PV1 may be absent. Its text is OBX-5 (and notes) under headings in one fixed order: what a coder
reads first stands first, and so survives the clipping of long reports. OBR-3, OBR-4 and OBR-7 are kept as columns. PID
and NK1 go to ``patient.py`` and nowhere else.

>>> message = rb'''MSH|^~\\&||LAB|||||ORU^R01
... PID|1||00466144^^^^MR||McMuffin^Candy||19570706
... OBR|1||S-97-1|11529-5^Surgical pathology^LN|||199707251630
... OBX|1|TX|22634-0^gross^LN||One core, 3 \\T\\ 4 mm.
... OBX|2|FT|22637-3^final diagnosis^LN||Candy McMuffin:\\.br\\ductal carcinoma'''
>>> (report,) = read_message(message, key=b"secret", registry=None)
>>> report.registry, report.date, report.kind, report.number
('LAB', datetime.date(1997, 7, 25), '11529-5', 'S-97-1')
>>> print(report.text)
FINAL DIAGNOSIS
[patient]:
ductal carcinoma
<BLANKLINE>
GROSS DESCRIPTION
One core, 3 & 4 mm.
"""

import datetime
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import IO, Any

from pathveil.corpus.hl7 import (
    Delimiters,
    Segment,
    UnusableMessage,
    components_of,
    split_messages,
    split_segments,
    unescape,
)
from pathveil.corpus.patient import Mask, case_id, report_id

# Headings in the order in which sections are put, with their LOINC codes.
SECTIONS = {
    "NATURE OF SPECIMEN": ("22633-2",),
    "CLINICAL HISTORY": ("22636-5", "10164-2"),
    "FINAL DIAGNOSIS": ("22637-3", "34574-4"),
    "COMMENT": ("22638-1",),
    "SYNOPTIC REPORT": ("60568-3",),
    "MICROSCOPIC DESCRIPTION": ("22635-7",),
    "GROSS DESCRIPTION": ("22634-0",),
    "OTHER": (),  # where sections of any other name stand, in order of appearance
    "SUPPLEMENTAL REPORT": ("22639-9", "35265-8"),
}
CODES = {code: heading for heading, codes in SECTIONS.items() for code in codes}
# What a section's name says where its code is unknown; the first that fits ("clinical diagnosis" is history).
HINTS = (
    (r"supplement|addend|amend", "SUPPLEMENTAL REPORT"),
    (r"synoptic|checklist", "SYNOPTIC REPORT"),
    (r"\bmicro", "MICROSCOPIC DESCRIPTION"),
    (r"\bgross|macroscop", "GROSS DESCRIPTION"),
    (r"history|clinical|\bhx\b|operative", "CLINICAL HISTORY"),
    (r"diagnosis|\bdx\b|impression", "FINAL DIAGNOSIS"),
    (r"specimen|site of origin", "NATURE OF SPECIMEN"),
    (r"comment|\bnotes?\b", "COMMENT"),
)
CODED = ("CE", "CWE", "CNE")
MEASURED = ("NM", "SN")
PLAIN = ("TX", "FT", "ST", "")
OBX_FIELDS, MISSING = itemgetter(1, 2, 3, 4, 5, 11), [""] * 12
# Types of OBX-5 that are no text: people, places and numbers of them, and attached files.
NO_TEXT = ("XCN", "XPN", "XAD", "XTN", "XON", "CX", "CN", "PN", "PPN", "AD", "TN", "PL", "EI", "HD", "ED", "RP")
INVISIBLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufeff]")
WITHDRAWN = ("D", "W")  # OBX-11: deleted, or posted as wrong
# What the fields of PID and NK1 say of a person.
PATIENT = dict.fromkeys((2, 3, 4, 18, 19, 20, 21), "number") | dict.fromkeys((5, 6, 9), "name")
PATIENT |= {7: "birth", 11: "address", 13: "phone", 14: "phone"}
KIN = {2: "name", 4: "address", 5: "phone", 6: "phone"}


@dataclass(frozen=True)
class Skipped:
    """A message that was left out: its number in the file, the line where it starts, and why."""

    message: int
    line: int
    reason: str
    part: bool = False  # of a message whose other reports were read


@dataclass(frozen=True)
class Report:
    """One report of a message; ``masked`` counts the places where its text named the patient."""

    report_id: str
    case_id: str
    registry: str
    date: datetime.date | None
    year: int | None
    text: str
    number: str | None
    kind: str | None
    masked: int
    message_id: str | None = None  # the sender's (MSH-10)
    position: int = 1  # of the message in its file


@dataclass
class Draft:
    """A report being read: its OBR and the sections met so far."""

    order: Segment | None
    specimen: str = ""  # SPM-1 of the block we are in
    collected: str = ""  # SPM-17
    heading: str = "COMMENT"  # where a note goes: the section it follows
    sections: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # heading: part: texts, in order
    seen: set[tuple[Any, ...]] = field(default_factory=set)
    source: list[str] = field(default_factory=list)  # the segments as sent
    observed: bool = False  # an OBX had text; without one, what SPM and OBR say is no report

    def add(self, heading: str, part: str, text: str) -> None:
        if text and not text.isspace():
            try:
                self.sections[heading][part].append(text)
            except KeyError:
                self.sections.setdefault(heading, {})[part] = [text]


def read_messages(file: IO[bytes], *, key: bytes, registry: str | None) -> Iterator[list[Report] | Skipped]:
    """Yield for each message of a file its reports, or why there are none."""
    for number, (line, message) in enumerate(split_messages(file), start=1):
        try:
            yield read_message(message, key=key, registry=registry, position=number)
        except UnusableMessage as fault:
            yield Skipped(message=number, line=line, reason=str(fault))


def read_message(message: bytes, *, key: bytes, registry: str | None, position: int = 1) -> list[Report]:
    """The reports of one message, the ``position``-th of its file: one for each report number in its OBRs."""
    segments = split_segments(message)
    header = segments[0]
    groups = group_by_patient(segments)
    mask = mask_of(segment for segment in segments if segment.name in ("PID", "NK1"))
    facility = next((part for part in header.parts(4) if part), "")
    registry = registry or facility
    if not registry:
        raise UnusableMessage("names no sender (MSH-4), and no registry was given")
    reports = []
    for patient, drafts in groups:
        for draft in drafts:
            text, masked = mask(render(draft.sections))
            if not draft.observed or not text:
                continue
            identity = identity_of(patient, facility)
            if identity is None:
                raise UnusableMessage(
                    "has no PID with a number, or with a name and birth date, so it belongs to no case"
                )
            date, year = date_of(draft)
            reports.append(
                Report(
                    # Of the segments as sent: a message sent twice is one report, a corrected one is another.
                    report_id=report_id(key, facility, *identity, *draft.source),
                    case_id=case_id(key, *identity),
                    registry=registry,
                    date=date,
                    year=year,
                    text=text,
                    number=number_of(draft),
                    kind=next((part for part in draft.order.parts(4) if part), None) if draft.order else None,
                    masked=masked,
                    message_id=header.first(10) or None,
                    position=position,
                )
            )
    if not reports:
        raise UnusableMessage("holds no report text (OBX)")
    return reports


def group_by_patient(segments: list[Segment]) -> list[tuple[Segment | None, list[Draft]]]:
    """Patients and their reports, in order. A lone PID counts for the whole message, wherever it stands."""
    groups: list[tuple[Segment | None, list[Draft]]] = [(None, [])]
    after = ""  # the segment a note follows
    drafts = groups[-1][1]
    for segment in segments:
        if segment.name == "OBX" and drafts:  # most of them
            draft = drafts[-1]
            add_observation(draft, segment)
            draft.source.append(segment.source)
            after = "OBX"
            continue
        if segment.name == "PID":
            drafts = []
            groups.append((segment, drafts))
        elif segment.name == "OBR":
            number = segment.first(3)
            if not drafts or (number and number != number_of(drafts[-1])):
                drafts.append(Draft(order=segment))
            drafts[-1].specimen = ""
            drafts[-1].heading = "COMMENT"
            drafts[-1].add("CLINICAL HISTORY", "", value_of(segment, 13, "TX"))
        elif segment.name in ("OBX", "SPM"):
            if not drafts:
                drafts.append(Draft(order=None))
            (add_observation if segment.name == "OBX" else enter_specimen)(drafts[-1], segment)
        elif segment.name == "NTE" and after in ("OBR", "OBX", "SPM") and drafts:
            drafts[-1].add(drafts[-1].heading, drafts[-1].specimen, value_of(segment, 3, "TX"))
        after = segment.name if segment.name != "NTE" else after
        if drafts and segment.name in ("OBR", "OBX", "SPM", "NTE"):
            drafts[-1].source.append(segment.source)
    patients = [patient for patient, _ in groups if patient]
    if len(patients) == 1:
        return [(patients[0], drafts) for _, drafts in groups]
    return groups


def add_observation(draft: Draft, obx: Segment) -> None:
    """Put one OBX under its heading, unless it is no text, was withdrawn, or has come before."""
    # Most of a message is OBX: its fields are taken at once, and the usual ones need little care.
    fields, marks = obx.fields, obx.marks
    number, kind, name, part, value, state = OBX_FIELDS(fields if len(fields) >= len(MISSING) else [*fields, *MISSING])
    if kind not in PLAIN and (kind := kind.strip().upper()) in NO_TEXT:
        return
    if state != "F" and state.strip().upper() in WITHDRAWN:
        return
    draft.heading = heading = heading_of_field(name, marks)
    if kind in PLAIN and marks.repetition not in value and marks.escape not in value and "\\" not in value:
        text = value.strip()
    else:
        text = value_of(obx, 5, kind)
    specimen, seen = draft.specimen, draft.seen
    part = (part and obx.first(4)[:10]) or specimen
    # A short line may well recur ("Benign."); under the same number too, or when long, it was sent twice.
    same = (specimen, heading, part, text) if len(text) >= 30 else (specimen, heading, part, text, number.strip())
    if same in seen:
        return
    seen.add(same)
    draft.observed = draft.observed or bool(tidy(text))
    draft.add(heading, part, text)


def enter_specimen(draft: Draft, spm: Segment) -> None:
    """An SPM opens a block of OBX about one specimen; its type, site and description are part of the report."""
    draft.specimen = spm.first(1)[:10]
    draft.heading = "COMMENT"
    draft.collected = draft.collected or spm.first(17)
    words = [value_of(spm, 4, "CWE"), value_of(spm, 8, "CWE"), value_of(spm, 14, "TX")]
    draft.add("NATURE OF SPECIMEN", draft.specimen, ", ".join(word for word in words if word))


@lru_cache(maxsize=4_096)  # a sender has few sections
def heading_of_field(field: str, marks: Delimiters) -> str:
    """The heading of a section (OBX-3): by its LOINC code if we know it, else by a hint in its name, else its name."""
    parts = components_of(field.strip().partition(marks.repetition)[0], marks) + [""] * 5
    return heading_for((parts[0], parts[3]), (parts[1], parts[4], parts[0]))


def heading_for(codes: Iterable[str], names: Iterable[str]) -> str:
    """The heading that codes or, where they are unknown, names of a section stand for."""
    for code in codes:
        if code in CODES:
            return CODES[code]
    name = next((part for part in names if re.search(r"[^\W\d_]{2}", part)), "")
    hinted = next((heading for hint, heading in HINTS if re.search(hint, name.lower())), None)
    return hinted or " ".join(name.upper().split())[:60] or "OTHER"


def value_of(segment: Segment, number: int, kind: str) -> str:
    """A field as text, one repetition a line: the words of a code, the number of a measurement with its unit."""
    marks, values = segment.marks, segment.repetitions(number)
    if kind in CODED:
        coded = [components_of(value, marks) + [""] * 9 for value in values]
        return "\n".join(parts[1] or parts[8] or parts[0] for parts in coded)
    if kind in MEASURED:
        return f"{unescape(''.join(values[0].split(marks.component)), marks)} {segment.first(6)}".strip()
    return "\n".join(unescape(value, marks) for value in values)


def render(sections: dict[str, dict[str, list[str]]]) -> str:
    """The sections under their headings, in one order; parts are named where the specimens are numbered."""
    numbered = [part for part in sections.get("NATURE OF SPECIMEN", {}) if part]
    others = [heading for heading in sections if heading not in SECTIONS or heading == "OTHER"]
    blocks = []
    for place in SECTIONS:
        for heading in others if place == "OTHER" else [place]:
            if heading not in sections:
                continue
            parts = sections[heading]
            texts = ["\n".join(lines) for lines in parts.values()]
            if len(numbered) > 1:
                texts = [with_part_name(part, text, numbered) for part, text in zip(parts, texts, strict=True)]
            body = tidy("\n".join(texts))
            if body:
                blocks.append(f"{heading}\n{body}")
    return "\n\n".join(blocks)


def with_part_name(part: str, text: str, numbered: list[str]) -> str:
    """``Part 2: …``, unless the text says so itself or the part is none of the specimens."""
    if part not in numbered or re.match(rf"(?i)\s*(?:part|specimen)?\s*#?\s*{re.escape(part)}(?!\w)", text):
        return text
    return f"Part {part}: {text}"


def tidy(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    if not text.isascii() or not text.replace("\n", "").isprintable():
        text = INVISIBLE.sub("", text)
    if " \n" in text or text[-1:].isspace() or not text.isascii():
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    return (re.sub(r"\n{3,}", "\n\n", text) if "\n\n\n" in text else text).strip("\n")


def number_of(draft: Draft) -> str | None:
    return (draft.order.first(3) or draft.order.first(2) or None) if draft.order else None


def date_of(draft: Draft) -> tuple[datetime.date | None, int | None]:
    """When the specimen was taken (OBR-7, SPM-17), else received or reported; the year alone where that is all."""
    order = draft.order
    given = [order.first(7) if order else "", draft.collected]
    given += [order.first(14), order.first(22)] if order else []
    for stamp in given:
        if re.match(r"(?a:\d{8})", stamp):
            try:
                date = datetime.date(int(stamp[:4]), int(stamp[4:6]), int(stamp[6:8]))
            except ValueError:
                continue
            return date, date.year
    years = [int(stamp[:4]) for stamp in given if re.match(r"(?a:(19|20)\d\d)", stamp)]
    return None, next(iter(years), None)


def identity_of(pid: Segment | None, facility: str) -> tuple[str, ...] | None:
    """What tells a patient from others: a record number of a facility, else the social security number, else name."""
    if pid is None:
        return None
    social = []
    for value in (*pid.repetitions(3), *pid.repetitions(2), *pid.repetitions(4)):
        if not value:
            continue
        parts = components_of(value, pid.marks) + [""] * 5
        number, authority, kind = parts[0], parts[3].split(pid.marks.subcomponent)[0], parts[4].upper()
        if kind in ("SS", "SSN"):
            social.append(number)
        elif bare := told_apart(number):
            return "number", (authority or facility).upper(), bare
    for number in (*social, pid.first(19)):
        if bare := told_apart(number):
            return "SS", "", bare
    name, birth = pid.parts(5)[:2], pid.first(7)[:8]
    if any(name) and birth:
        return ("name", *(part.upper() for part in name), birth)
    return None


def told_apart(number: str) -> str:
    """A number without signs; none where it stands for many people, as 999-99-9999 and UNKNOWN do."""
    bare = (number if number.isalnum() else re.sub(r"[\W_]", "", number)).upper()
    return bare if len(set(bare)) > 1 and any(map(str.isdigit, bare)) else ""


def mask_of(segments: Iterable[Segment]) -> Mask:
    """A mask of all that these segments say about the patient and the next of kin."""
    names, numbers, births, streets = [], [], [], []
    for segment in segments:
        fields, marks = segment.fields, segment.marks
        for place, kind in (PATIENT if segment.name == "PID" else KIN).items():
            if place >= len(fields) or not fields[place]:
                continue
            for value in filter(None, fields[place].split(marks.repetition)):
                parts = components_of(value, marks)
                if kind == "number":
                    numbers.append(parts[0])
                elif kind == "name":
                    names.append([parts[0].split(marks.subcomponent)[0], *parts[1:3]])
                elif kind == "birth":
                    births.append(parts[0])
                elif kind == "address":
                    streets.append(parts[0].replace(marks.subcomponent, " "))
                else:
                    numbers += [parts[0], "".join(parts[5:7])]
                    streets += parts[3:4]  # an e-mail address
    return Mask(names=names, numbers=numbers, births=births, streets=streets)
