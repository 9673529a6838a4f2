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
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, NamedTuple

from pathveil.corpus.messages.hl7 import Segment, UnusableMessage, components_of, split_messages, split_segments
from pathveil.corpus.messages.observations import (
    REMOVED,
    UNDECODED,
    Draft,
    Sections,
    add_observation,
    close_rtf,
    enter_specimen,
    sections_of,
    value_of,
)
from pathveil.corpus.messages.patient import Mask, case_id, phone_number, report_id
from pathveil.corpus.messages.sections import render
from pathveil.corpus.messages.versions import CORRECTED, FINAL, PRELIMINARY, WITHDRAWN, Version, bits_of
from pathveil.corpus.schema import LONGEST_REGISTRY
from pathveil.untrusted import Refused

STAMP = re.compile(r"(?a)(\d{4,14})(?:\.(\d{1,3})\d*)?([-+]\d{4})?")
EPOCH = datetime.date(1970, 1, 1).toordinal()
CHANGED, PENDING = ("C", "A"), ("P", "I", "S", "R", "O")  # OBX-11: a correction; not yet final
UNFINISHED = (*PENDING, "A", "M", "N")  # OBR-25: there A are some of the results, and M a correction that is not final
UNSIGNED = ("DI", "DO", "IN", "IP", "PA")  # TXA-17 of a document that nobody has signed yet
NO_PATIENT = "holds a report that has no PID with a number, or with a name and birth date, so it belongs to no case"
NO_SENDER = "has a text in the place of its sender's name (MSH-4); --registry says whose its reports are"
WITHDRAWS = "withdraws its report (OBR-25 X, or OBX-11 D, W or X)"
# Types of numbers in PID-3: of a patient; of a visit or an account.
RECORDS, VISITS = ("MR", "MRN", "PI", "PT", "EPI"), ("VN", "AN")
# Numbers that systems write where they have none, beside zeros, nines and words (UNKNOWN, NONE, TEST, …).
PLACEHOLDERS, FEWEST_NINES = {"111111111", "12345678", "123456789", "1234567890"}, 5
# What fields say of people: the patient, kin, who pays, who is insured.
PATIENT = dict.fromkeys((2, 3, 4, 18, 19, 20, 21), "number") | dict.fromkeys((5, 6, 9), "name")
PATIENT |= {7: "birth", 11: "address", 13: "phone", 14: "phone"}
KIN = {2: "name", 4: "address", 5: "phone", 6: "phone", 16: "birth"}
KIN |= {30: "name", 31: "phone", 32: "address", 33: "number", 37: "number"}
PAYER = {2: "number", 3: "name", 5: "address", 6: "phone", 7: "phone", 8: "birth", 12: "number", 19: "number"}
INSURED = {16: "name", 18: "birth", 19: "address", 36: "number", 49: "number"}
PEOPLE = {"PID": PATIENT, "NK1": KIN, "GT1": PAYER, "IN1": INSURED}


@dataclass(frozen=True)
class Skipped:
    """A message that was left out: its number in the file, the line where it starts, and why."""

    message: int
    line: int
    reason: str
    part: bool = False  # of a message whose other reports were read
    withdraws: tuple[Version, ...] = ()  # reports that were sent before


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
    version: Version | None = None  # where it has a number under which others may come
    placeholder: bool = False  # whether one stands in the place of the patient's number


def read_messages(file: IO[bytes], *, key: bytes, registry: str | None) -> Iterator[list[Report] | Skipped]:
    """Yield for each message of a file its reports, or why there are none."""
    for number, (line, message) in enumerate(split_messages(file), start=1):
        try:
            found = read_versions(message, key=key, registry=registry, position=number)
        except UnusableMessage as fault:
            yield Skipped(message=number, line=line, reason=str(fault))
            continue
        reports, withdrawn = found.reports, tuple(filter(None, found.withdrawn))
        if withdrawn or not reports:  # before the reports: what it withdraws was sent earlier
            yield Skipped(message=number, line=line, reason=WITHDRAWS, part=bool(reports), withdraws=withdrawn)
        for reason in found.left_out:
            yield Skipped(message=number, line=line, reason=reason, part=True)
        if reports:
            yield reports


def read_message(message: bytes, *, key: bytes, registry: str | None, position: int = 1) -> list[Report]:
    """The reports of one message, the ``position``-th of its file: one for each report number in its OBRs.

    One of which a part cannot be read is refused: its sender is to hear of it.
    """
    found = read_versions(message, key=key, registry=registry, position=position)
    if found.left_out or not found.reports:
        raise UnusableMessage(found.left_out[0] if found.left_out else WITHDRAWS)
    return found.reports


class Found(NamedTuple):
    """What a message holds."""

    reports: list[Report]
    withdrawn: list[Version | None]  # sent before; none where no number tells which
    left_out: list[str]  # why, of each part that cannot be read beside others


def read_versions(message: bytes, *, key: bytes, registry: str | None, position: int) -> Found:
    """The reports of one message, and those sent before that it withdraws; one without either is unusable."""
    segments = split_segments(message)
    header = segments[0]
    groups = group_by_patient(segments)
    mask = mask_of(segment for segment in segments if segment.name in PEOPLE)
    facility = next((part for part in header.parts(4) if part), "")
    if not (registry or facility):
        raise UnusableMessage("names no sender (MSH-4), and no registry was given")
    if not registry and (len(facility) > LONGEST_REGISTRY or "\n" in facility):
        raise UnusableMessage(NO_SENDER)
    found = Found([], [], [])
    for patient, drafts in groups:
        for draft in drafts:
            sections = sections_of(draft)
            text, masked = mask(text_of(sections))
            state = state_of(draft)
            if state != WITHDRAWN and (not draft.observed or not text):
                continue
            identity = identity_of(patient, facility)
            if identity is None:
                found.left_out.append(NO_PATIENT)
                continue
            if draft.unread == UNDECODED and not draft.is_attached:  # else the text is there in another form
                found.left_out.append(UNDECODED)
            order = draft.order
            number = number_of(order) if order else None
            kind = next((part for part in order.parts(4) if part), None) if order else None
            version = None
            if order and number and told_apart(number):
                version = Version(
                    key=hash((facility, identity, number, kind)),
                    state=state,
                    issued=moment_of(order.first(22)),
                    sent=moment_of(header.first(7)),
                    sections=bits_of(sections),
                    length=len(text),
                )
            if state == WITHDRAWN:
                found.withdrawn.append(version)
                continue
            date, year = date_of(draft)
            found.reports.append(
                Report(
                    # Of the segments as sent: a message sent twice is one report, a corrected one is another.
                    report_id=report_id(key, facility, *identity, *draft.source),
                    case_id=case_id(key, *identity),
                    registry=registry or facility,
                    date=date,
                    year=year,
                    text=text,
                    number=number,
                    kind=mask(kind)[0] if kind and " " in kind else kind,  # some send words in place of a code
                    masked=masked,
                    message_id=header.first(10) or None,
                    position=position,
                    version=version,
                    placeholder=has_placeholder(patient),
                )
            )
    if not found.reports and not found.withdrawn:
        if found.left_out:
            raise UnusableMessage(found.left_out[0])
        unread = [draft.unread for _, drafts in groups for draft in drafts if draft.unread]
        raise UnusableMessage(unread[0] if unread else "holds no report text (OBX)")
    return found


def state_of(draft: Draft) -> int:
    """What the status of the report (OBR-25) and those of its OBX (OBX-11) say that it is.

    Of several orders with its number, those that were cancelled say nothing, unless all were.
    """
    told, states = draft.told, draft.states
    if told == {"X"} or (states and not draft.observed and states.issubset(REMOVED)):
        return WITHDRAWN
    told = told - {"X", ""}
    if told and told.issubset(UNFINISHED):  # whatever its OBX say: a preliminary report may be corrected too
        return PRELIMINARY
    if "C" in told or not states.isdisjoint(CHANGED):
        return CORRECTED
    return PRELIMINARY if not told and not states.isdisjoint(PENDING) and "F" not in states else FINAL


@lru_cache(maxsize=4_096)  # many are issued and sent in one minute
def moment_of(stamp: str) -> int:
    """A time of HL7 (YYYYMMDDHHMMSS.SSSS+ZZZZ, or as much of it as there is) as milliseconds; 0 for none.

    One without a zone is taken for UTC, since nothing says where the sender is.

    >>> moment_of("20160502103000.5+0100") > moment_of("201605020930") > moment_of("20160502") > moment_of("soon")
    True
    """
    found = STAMP.match(stamp)
    if not found:
        return 0
    digits, thousandths, zone = found.groups()
    try:
        days = datetime.date(int(digits[:4]), int(digits[4:6] or 1), int(digits[6:8] or 1)).toordinal() - EPOCH
    except ValueError:
        return 0
    minutes = (days * 24 + int(digits[8:10] or 0)) * 60 + int(digits[10:12] or 0)
    if zone:
        away = int(zone[1:3]) * 60 + int(zone[3:])
        minutes += away if zone[0] == "-" else -away
    return (minutes * 60 + int(digits[12:14] or 0)) * 1000 + int((thousandths or "").ljust(3, "0"))


def text_of(sections: Sections) -> str:
    try:
        return render(sections)
    except Refused as why:
        raise UnusableMessage(str(why)) from None


def group_by_patient(segments: list[Segment]) -> list[tuple[Segment | None, list[Draft]]]:
    """Patients and their reports, in order. A lone PID counts for the whole message, wherever it stands."""
    groups: list[tuple[Segment | None, Orders]] = [(None, Orders())]
    after = ""  # the segment a note follows
    orders, draft, common = groups[-1][1], None, None
    for segment in segments:
        name = segment.name
        if name == "OBX" and draft:  # most of them
            add_observation(draft, segment)
            draft.source.append(segment.source)
            after = "OBX"
            continue
        if name == "PID":
            orders, draft, common = Orders(), None, None
            groups.append((segment, orders))
        elif name == "ORC":
            common = segment
        elif name == "OBR":
            draft = orders.enter(with_numbers(segment, common), draft)
        elif name == "TXA" and draft is None:
            draft = orders.enter(order_of(segment), None)
        elif name in ("OBX", "SPM"):
            draft = draft or orders.begin()
            (add_observation if name == "OBX" else enter_specimen)(draft, segment)
        elif name == "NTE" and after in ("OBR", "OBX", "SPM") and draft and not draft.is_cancelled:
            draft.add(draft.heading, draft.specimen, value_of(segment, 3, "TX"), "")
        after = name if name != "NTE" else after
        if draft and name in ("OBR", "OBX", "SPM", "NTE", "TXA"):
            draft.source.append(segment.source)
    patients = [patient for patient, _ in groups if patient]
    whose = patients[0] if len(patients) == 1 else None
    return [(whose or patient, orders.drafts) for patient, orders in groups]


def with_numbers(order: Segment, common: Segment | None) -> Segment:
    """An OBR with those of its numbers that stand in the ORC before it alone."""
    for place in (2, 3):
        if common and common[place] and not order[place]:
            order.fields += [""] * (place + 1 - len(order.fields))
            order.fields[place] = common[place]
    return order


def order_of(document: Segment) -> Segment:
    """What the header of a document (TXA of MDM messages) says of it, as an OBR says it."""
    fields = ["OBR", *[""] * 25]
    fields[2], fields[3], fields[4], fields[7] = document[14], document[15] or document[12], document[2], document[4]
    fields[25] = "P" if document.first(17) in UNSIGNED else ""
    return Segment("OBR", fields, document.marks, document.source)


class Orders:
    """The reports of one patient in a message. Orders with one number are of one report, wherever they stand."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._named: dict[tuple[int, str], Draft] = {}  # by OBR-3, and by OBR-2

    def begin(self) -> Draft:
        self.drafts.append(Draft())
        return self.drafts[-1]

    def enter(self, order: Segment, last: Draft | None) -> Draft:
        """The report that an OBR belongs to, ``last`` where it has no number of its own."""
        filler, placer = order.first(3), order.first(2)
        if filler:
            draft = self._named.get((3, filler))
        else:
            draft = self._named.get((2, placer)) if placer else last
            if draft is None and last and not (last.order and last.order.first(2)):
                draft = last  # nothing says that it is another
        draft = draft or self.begin()
        if filler:
            self._named.setdefault((3, filler), draft)
        if placer:
            self._named.setdefault((2, placer), draft)
        enter_order(draft, order)
        return draft


def enter_order(draft: Draft, order: Segment) -> None:
    """An OBR opens a block of OBX; one that was cancelled adds nothing to its report."""
    close_rtf(draft)
    status = order.first(25).upper()
    draft.is_cancelled = status == "X"
    if draft.order is None or (not draft.is_cancelled and draft.told == {"X"}):
        draft.order = order
    draft.told.add(status)
    draft.specimen = ""
    draft.heading = "COMMENT"
    if not draft.is_cancelled:
        draft.add("CLINICAL HISTORY", "", value_of(order, 13, "TX"), "OBR-13")


def number_of(order: Segment) -> str | None:
    return order.first(3) or order.first(2) or None


def date_of(draft: Draft) -> tuple[datetime.date | None, int | None]:
    """When the specimen was taken (OBR-7, SPM-17), else received or reported; the year alone where that is all."""
    order = draft.order
    given = [order.first(7) if order else "", draft.collected]
    given += [order.first(14), order.first(22)] if order else []
    for stamp in given:
        if re.match(r"(?a:(19|20)\d{6})", stamp):  # 00010101 is what a program writes for none
            try:
                date = datetime.date(int(stamp[:4]), int(stamp[4:6]), int(stamp[6:8]))
            except ValueError:
                continue
            return date, date.year
    years = [int(stamp[:4]) for stamp in given if re.match(r"(?a:(19|20)\d\d)", stamp)]
    return None, next(iter(years), None)


def identity_of(pid: Segment | None, facility: str) -> tuple[str, ...] | None:
    """What tells a patient from others: a record number of a facility, else the social security number, else name.

    The number of a visit or an account comes last: a patient has many.
    """
    if pid is None:
        return None
    social, others, visits = [], [], []
    for value in (*pid.repetitions(3), *pid.repetitions(2), *pid.repetitions(4)):
        if not value:
            continue
        parts = components_of(value, pid.marks) + [""] * 5
        # Of an authority's name and its number (&2.16.840.1.113883.3.1&ISO) either may be missing.
        authority = next(filter(None, parts[3].split(pid.marks.subcomponent)), "")
        number, kind = parts[0], parts[4].upper()
        if kind in ("SS", "SSN"):
            social.append(number)
        elif bare := patient_number(number):
            identity = ("number", (authority or facility).upper(), bare)
            if kind in RECORDS:
                return identity
            (visits if kind in VISITS else others).append(identity)
    if others:
        return others[0]
    for number in (*social, pid.first(19)):
        if bare := patient_number(number):
            return "SS", "", bare
    name, birth = pid.parts(5)[:2], pid.first(7)[:8]
    if any(name) and birth:
        return ("name", *(part.upper() for part in name), birth)
    return visits[0] if visits else None


def has_placeholder(pid: Segment | None) -> bool:
    """Whether placeholders alone stand in the place of a patient's numbers; those of visits and accounts are none."""
    if pid is None:
        return False
    values = [components_of(value, pid.marks) + [""] * 5 for place in (3, 2, 4) for value in pid.repetitions(place)]
    return are_placeholders([*(parts[0] for parts in values if parts[4].upper() not in VISITS), pid.first(19)])


def told_apart(number: str) -> str:
    """A report's number without signs; none where many reports may have it: one without a digit, or 0, 1 and 11."""
    bare = without_signs(number)
    return bare if len(set(bare)) > 1 and any(map(str.isdigit, bare)) else ""


def patient_number(number: str) -> str:
    """A patient's number without signs; none where it is a placeholder.

    >>> [patient_number(number) for number in ("00-777", "999-99-9999", "000000000", "UNKNOWN", "123456789", "999")]
    ['00777', '', '', '', '', '999']
    """
    bare = without_signs(number)
    digits = bare.lstrip("0")
    is_nines = len(digits) >= FEWEST_NINES and not digits.strip("9")
    return "" if is_nines or digits in PLACEHOLDERS or not any(map(str.isdigit, digits)) else bare


def are_placeholders(numbers: Iterable[str]) -> bool:
    """Whether there are numbers of a patient, all of them placeholders."""
    numbers = list(filter(None, numbers))
    return bool(numbers) and not any(map(patient_number, numbers))


def without_signs(number: str) -> str:
    return (number if number.isalnum() else re.sub(r"[\W_]", "", number)).upper()


def mask_of(segments: Iterable[Segment]) -> Mask:
    """A mask of all that these segments say about the patient and others."""
    names, numbers, births, streets = [], [], [], []
    for segment in segments:
        fields, marks = segment.fields, segment.marks
        for place, kind in PEOPLE[segment.name].items():
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
                    # The street may be told again in pieces: 12 Elm Road&Elm Road&12.
                    streets += [parts[0].replace(marks.subcomponent, " "), *parts[0].split(marks.subcomponent)]
                else:
                    numbers += [phone_number(parts[0]), "".join(parts[5:7]), *map(phone_number, parts[11:12])]
                    streets += parts[3:4]  # an e-mail address
    return Mask(names=names, numbers=numbers, births=births, streets=streets)
