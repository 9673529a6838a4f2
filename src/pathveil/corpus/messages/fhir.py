"""Reports out of FHIR R4: DiagnosticReports alone or in bundles, such as Cancer Pathology Data Sharing's, or a file of
many, one a line (NDJSON).

A report's text is what is presented (plain text, HTML or RTF in ``presentedForm``), else its Observations under
headings in one order, as those of HL7 v2 are, or a filled-in form; its conclusion is the final diagnosis. The Patient
goes to ``patient.py`` and nowhere else. Whatever is missing, of another type or too deep is a reason to skip a
resource, never to quote it.

>>> import json
>>> report = {"resourceType": "DiagnosticReport", "conclusion": "Ductal carcinoma of Ms. McMuffin.",
...           "code": {"coding": [{"code": "11526-1"}]}, "effectiveDateTime": "1997-07-25T16:30:00Z",
...           "identifier": [{"value": "S-97-1"}], "subject": {"reference": "#p"}, "performer": [{"display": "LAB"}],
...           "contained": [{"resourceType": "Patient", "id": "p", "identifier": [{"value": "00466144"}],
...                          "name": [{"family": "McMuffin", "given": ["Candy"]}]}]}
>>> (found,) = read_resource(report, key=b"secret", registry=None)
>>> found.registry, found.date, found.kind, found.number, found.text
('LAB', datetime.date(1997, 7, 25), '11526-1', 'S-97-1', 'FINAL DIAGNOSIS\\nDuctal carcinoma of Ms. [patient].')
"""

import base64
import binascii
import datetime
import json
import re
from collections.abc import Iterator
from typing import IO

from pathveil.corpus.messages.fhir_index import (
    DEEPEST,
    JOINED,
    Beside,
    Index,
    Resource,
    Unclear,
    age_of,
    codes_of,
    is_joined,
    kind_at_start,
    last_two,
    moment_of,
    object_of,
    objects_of,
    parse,
    split_resources,
    text_of,
    words_of,
)
from pathveil.corpus.messages.fhir_index import gather_beside as gather_beside
from pathveil.corpus.messages.fhir_patient import has_placeholder, identity_of, mask_of
from pathveil.corpus.messages.hl7 import UnusableMessage, decode_text
from pathveil.corpus.messages.markup import PAGE, RTF, plain_text, without_tags
from pathveil.corpus.messages.naaccr import Report, Skipped, told_apart
from pathveil.corpus.messages.observations import UNREAD
from pathveil.corpus.messages.patient import Mask, case_id, report_id
from pathveil.corpus.messages.sdc_form import NO_FORM, text_of_form
from pathveil.corpus.messages.sections import CODES, WHOLE, heading_for, render, tidy
from pathveil.corpus.messages.versions import ALL, APPENDED, CORRECTED, FINAL, PRELIMINARY, Version, bits_of
from pathveil.corpus.messages.versions import WITHDRAWN as WITHDRAWN_VERSION
from pathveil.formatting import counted
from pathveil.untrusted import Refused

MARK = b'"resourceType"'
REPORTED = ("DiagnosticReport", "Bundle")
NO_REPORT = "holds no DiagnosticReport"
WITHDRAWN = ("entered-in-error", "cancelled")
STATES = {"registered": PRELIMINARY, "partial": PRELIMINARY, "preliminary": PRELIMINARY, "appended": APPENDED}
STATES |= {"amended": CORRECTED, "corrected": CORRECTED} | dict.fromkeys(WITHDRAWN, WITHDRAWN_VERSION)
SPECIMEN = "NATURE OF SPECIMEN"
COUNTED, LATEST = 20, (1 << 43) - 1  # bits for the count of versions, and a time in the year 2248
COMPARED = ("<", "<=", ">=", ">")
UNIT = re.compile(r"[A-Za-z%/]{1,9}[0-9]?")  # a code that is read as a unit is written: mm, mm2, %
PLAIN = ("", "text/plain", "application/text")
MARKUP = ("text/html", "application/xhtml+xml")
XML = ("application/xml", "text/xml")  # a page or a form
RICH = ("application/rtf", "text/rtf", "text/richtext", "application/msword")  # under the last some send RTF
# How files begin that are no text: PDF, images, archives and documents of Word.
BINARY = re.compile(rb"\s*%PDF|\x89PNG|\xff\xd8\xff|GIF8|II\*\0|MM\0\*|PK\x03\x04|\x1f\x8b|\xd0\xcf\x11\xe0")
WIDE = (b"\xff\xfe", b"\xfe\xff")


def read_resources(
    file: IO[bytes], *, key: bytes, registry: str | None, beside: Beside | None = None
) -> Iterator[list[Report] | Skipped]:
    """Yield for each resource of a file its reports, or why there are none: one a line, or one in all.

    Of resources that reports refer to, those in ``beside`` are found, and are no reports that failed. Nor are those of
    other kinds, of which an export has many: the first of each kind is told, and stands for all.
    """
    others: set[str] = set()  # kinds that are told
    for number, (line, content) in enumerate(split_resources(file), start=1):
        kind = kind_at_start(content)
        if kind in others or (beside and not beside.is_damaged and kind in JOINED):
            continue
        withdrawn: list[Version] = []
        try:
            resource = parse(content)
            if beside and is_joined(resource):
                continue
            if (kind := text_of(resource, "resourceType")) not in REPORTED:
                others.add(kind)
                raise UnusableMessage(f"{NO_REPORT}; others of its kind in this file are passed over")
            bundle = Index(resource, beside)
            reports = usable_reports(bundle, key=key, registry=registry, position=number, withdrawn=withdrawn)
        except UnusableMessage as fault:
            yield Skipped(message=number, line=line, reason=str(fault), withdraws=tuple(withdrawn))
            continue
        for place, reason in enumerate(bundle.left_out):  # before the reports: what it withdraws was sent earlier
            told = () if place else tuple(withdrawn)
            yield Skipped(message=number, line=line, reason=reason, part=True, withdraws=told)
        yield reports


def read_resource(
    resource: Resource, *, key: bytes, registry: str | None, position: int = 1, beside: Beside | None = None
) -> list[Report]:
    """The reports of a bundle or of a DiagnosticReport, the ``position``-th resource of its file."""
    return usable_reports(Index(resource, beside), key=key, registry=registry, position=position, withdrawn=[])


def usable_reports(
    index: Index, *, key: bytes, registry: str | None, position: int, withdrawn: list[Version]
) -> list[Report]:
    """The reports; one that cannot be used is left out, and if that leaves none, refused.

    Those that withdraw what was sent before are added to ``withdrawn``.
    """
    readers = readers_of(index)
    found = [reader.report(key=key, registry=registry, position=position) for reader in readers]
    withdrawn += [version for reader in readers if (version := reader.withdrawal())]
    if not any(found):
        raise UnusableMessage(next((reader.why for reader in readers if reader.why), NO_REPORT))
    index.left_out = [
        f"holds a DiagnosticReport besides, number {number:,}, which {reader.why}"
        for number, (reader, report) in enumerate(zip(readers, found, strict=True), start=1)
        if report is None
    ]
    index.left_out += [
        f"refers to {counted(reader.missing, 'Observation')} not here; the report was read without what they say"
        for reader, report in zip(readers, found, strict=True)
        if report is not None and reader.missing
    ]
    index.left_out += [f"holds Bundles besides within more than {DEEPEST} others"] if index.is_too_deep else []
    return [report for report in found if report is not None]


def readers_of(index: Index) -> "list[Reader]":
    """A reader of each report. Anyone in a bundle may be named in any of its reports, by a mask that is made once."""
    mask = mask_of(index.people)
    return [Reader(index, one, mask) for one in index.reports]


class Reader:
    """One DiagnosticReport among the resources it refers to."""

    def __init__(self, index: Index, resource: Resource, mask: Mask):
        self.index, self.resource = index, resource
        self.mask_here = mask  # of all people in the index
        self.why = ""  # it gives no report
        self.unclear = ""  # what it refers to
        self.missing = 0  # Observations to which it refers and that are not here, where its text is made of them
        self.sections: dict[str, dict[str, list[str]]] = {}
        self._added = 0  # texts, to the sections
        self._seen: set[int] = set()  # Observations, by where they lie in memory: the index holds them

    def masked_text(self) -> tuple[str, int]:
        """The report's text, and in how many places it named its patient; empty where ``why`` says why."""
        if text_of(self.resource, "status") in WITHDRAWN:
            self.why = "is marked as cancelled or entered in error"
            return "", 0
        subject = object_of(self.resource, "subject")
        elsewhere = self.index.people_elsewhere(self._find(subject), subject)
        mask = mask_of(elsewhere, subject)
        try:
            text, masked = self.mask_here(self._text())
            text, more = mask(text)
        except Refused as why:
            self.why = str(why)
            return "", 0
        if self.unclear:
            self.why = self.unclear
            return "", 0
        if not text:
            self.why = self.why or "holds no report text"
        return text, masked + more

    def _find(self, reference: Resource) -> Resource:
        """What the report refers to; nothing where it is not here, or where ``unclear`` says that there are several."""
        try:
            return self.index.find(reference, within=self.resource)
        except Unclear as fault:
            self.unclear = self.unclear or str(fault)
            return {}

    def identity(self) -> tuple[str, ...] | None:
        """What tells its patient from others; none where it names nobody."""
        subject = object_of(self.resource, "subject")
        return identity_of(self._find(subject), subject)

    def has_placeholder(self) -> bool:
        """Whether one stands in the place of the patient's number."""
        subject = object_of(self.resource, "subject")
        return has_placeholder(self._find(subject), subject)

    def withdrawal(self) -> Version | None:
        """What a report that is marked as cancelled or entered in error says of those before it."""
        if text_of(self.resource, "status") not in WITHDRAWN:
            return None
        identity = self.identity()
        version = self.version(identity, "") if identity else None
        self.why = self.unclear or self.why
        return None if self.unclear else version

    def version(self, identity: tuple[str, ...], text: str) -> Version | None:
        """Which version of its report this is; none where it has neither a number that tells it apart nor an id."""
        given = (text_of(one, "value") for one in objects_of(self.resource, "identifier"))
        number = next(filter(told_apart, given), "") or text_of(self.resource, "id")
        if not number:
            return None
        updated, count = age_of(self.resource)
        return Version(
            key=hash((self._sender(), identity, number, self.kind())),
            state=STATES.get(text_of(self.resource, "status"), FINAL),
            issued=moment_of(text_of(self.resource, "issued")) or updated,
            # Both in one number; those that do not say when are before those that do.
            sent=(min(updated, LATEST) << COUNTED) + min(count, (1 << COUNTED) - 1) if updated > 0 else count,
            sections=bits_of(self.sections) if self.sections else ALL,
            length=len(text),
        )

    def kind(self) -> str | None:
        return next(iter(codes_of(object_of(self.resource, "code"))), None)

    def report(self, *, key: bytes, registry: str | None, position: int) -> Report | None:
        text, masked = self.masked_text()
        if not text:
            return None
        identity, sender, (date, year) = self.identity(), self._sender(), self.date()
        registry = registry or sender
        if identity is None:
            self.why = "names no patient, so it belongs to no case"
        elif not registry:
            self.why = "names no sender, and no registry was given (--registry)"
        if self.unclear or identity is None or not registry:
            self.why = self.unclear or self.why
            return None
        return Report(
            report_id=report_id(key, sender, *identity, json.dumps(self.resource, sort_keys=True), text),
            case_id=case_id(key, *identity),
            registry=registry,
            date=date,
            year=year,
            text=text,
            number=self.number(),
            kind=self.kind(),
            masked=masked,
            message_id=self.index.message_id or text_of(self.resource, "id") or None,
            position=position,
            version=self.version(identity, text),
            placeholder=self.has_placeholder(),
        )

    def _text(self) -> str:
        """The presented text where it is the whole report, else observations (or a form, where none says anything) and
        conclusion under their headings, else the narrative."""
        presented = self._presented()
        conclusion = tidy(plain_text(text_of(self.resource, "conclusion")))
        if len(presented) >= WHOLE:
            return presented if conclusion in presented else f"{presented}\n\nFINAL DIAGNOSIS\n{conclusion}"
        for reference in objects_of(self.resource, "specimen"):
            self._add_specimen(self._find(reference))
        self._add("FINAL DIAGNOSIS", conclusion)
        before = self._added
        self._add_observations(self.resource, "result", DEEPEST)
        if self._added == before and (form := self._form()):  # which says what they do
            self._add("SYNOPTIC REPORT", form)
            self.missing = 0
        self._add("OTHER", presented)
        if self.sections.keys() - {SPECIMEN}:
            return render(self.sections)
        narrative = tidy(without_tags(text_of(object_of(self.resource, "text"), "div")))
        if len(narrative) < WHOLE and (self.why or self.missing):  # a line of it for people, such as its status
            self.why = self.why or "refers to Observations that are not here, and says nothing itself"
            return ""
        return "\n\n".join(filter(None, (render(self.sections), narrative)))

    def _forms(self) -> Iterator[Resource]:
        """The presented forms, each with the content of the Binary to which it leads, where that is here."""
        for form in objects_of(self.resource, "presentedForm"):
            binary = {} if text_of(form, "data") else self._find({"reference": text_of(form, "url")})
            yield {**binary, **form, "data": text_of(binary, "data")} if binary else form

    def _form(self) -> str:
        """What is answered in the first form that can be read."""
        for form in self._forms():
            if type_of(form) in XML and (data := self._data(form)):
                try:
                    return text_of_form(data)
                except Refused:
                    self.why = self.why or NO_FORM
        return ""

    def _presented(self) -> str:
        """The text of the presented forms. Of several types each says the same again; several of a type are parts."""
        texts: dict[str, list[str]] = {"plain": [], "page": [], "rtf": []}
        for form in self._forms():
            if text := self._decoded(form):
                is_page = type_of(form) in MARKUP or PAGE.match(text)
                texts["rtf" if text.lstrip().startswith(RTF) else "page" if is_page else "plain"].append(text)
        found = ""
        for kind, parts in texts.items():  # the next where there is none, or no more than "see attached"
            made = map(without_tags if kind == "page" else plain_text, parts)
            text = tidy("\n\n".join(dict.fromkeys(made)))
            if len(text) >= WHOLE:
                return text
            found = found or text
        return found

    def _decoded(self, form: Resource) -> str:
        """What a form holds, with its markup; nothing where that is no text."""
        kind = type_of(form)
        if kind not in (*PLAIN, *MARKUP, *RICH, *XML):
            self.why = self.why or UNREAD
            return ""
        data = self._data(form)
        text = data.decode("utf-16", "replace") if data.startswith(WIDE) else decode_text(data)
        if kind in XML:
            return text if PAGE.match(text) else ""  # else it is a form, if anything
        if BINARY.match(data) or "\0" in text[:99].rstrip("\0") or (kind in RICH and not text.lstrip().startswith(RTF)):
            self.why = self.why or UNREAD
            return ""
        return text

    def _data(self, form: Resource) -> bytes:
        """The bytes that a form holds; none where it holds none that can be read."""
        if not text_of(form, "data"):
            self.why = self.why or "leads to its text elsewhere instead of holding it"
            return b""
        try:
            return base64.b64decode("".join(text_of(form, "data").split()), validate=True)
        except (binascii.Error, ValueError):
            self.why = self.why or "holds a text that is not base64"
            return b""

    def _add(self, heading: str, text: str) -> None:
        if text.strip():
            lines = self.sections.setdefault(heading, {}).setdefault("", [])
            if text not in lines:
                lines.append(text)
                self._added += 1

    def _add_specimen(self, specimen: Resource) -> None:
        taken = object_of(specimen, "collection")
        words = [words_of(object_of(specimen, "type")), words_of(object_of(taken, "bodySite"))]
        self._add(SPECIMEN, ", ".join(filter(None, words)))

    def _add_observations(self, resource: Resource, name: str, depth: int) -> None:
        """The Observations to which a field refers."""
        for reference in objects_of(resource, name):
            observation = self._find(reference)
            self.missing += not observation and bool(text_of(reference, "reference")) and not self.unclear
            self._add_observation(observation, depth)

    def _add_observation(self, observation: Resource, depth: int) -> None:
        """An Observation under its heading; what is no section of its own is an item of the synoptic report."""
        if not observation or not depth or id(observation) in self._seen:
            return
        self._seen.add(id(observation))
        if text_of(observation, "status") not in WITHDRAWN:
            code = object_of(observation, "code")
            name, value = words_of(code), value_of(observation)
            codes = codes_of(code)
            is_told = bool(text_of(observation, "valueString"))  # an answer that was chosen is an item, however long
            if any(one in CODES for one in codes) or (is_told and ("\n" in value or len(value) > 80)):
                self._add(heading_for(codes, [name]), value)
            elif value:
                self._add("SYNOPTIC REPORT", f"{name}: {value}" if name else value)
            for part in objects_of(observation, "component"):
                item = value_of(part)
                self._add("SYNOPTIC REPORT", f"{words_of(object_of(part, 'code'))}: {item}" if item else "")
            for note in objects_of(observation, "note"):
                self._add("COMMENT", text_of(note, "text"))
        self._add_observations(observation, "hasMember", depth - 1)

    def _sender(self) -> str:
        """Who sent it: the message's source, else the first performer with a name that is not known to be a person, or
        the organisation for which that person works."""
        named = [text_of(object_of(self.index.header_of(self.resource), "source"), "name")]
        for reference in (*objects_of(self.resource, "performer"), *objects_of(self.resource, "resultsInterpreter")):
            performer = self._find(reference)
            if text_of(performer, "resourceType") == "PractitionerRole":
                reference = object_of(performer, "organization")
                performer = self._find(reference)
            kind = text_of(performer, "resourceType") or text_of(reference, "type") or kind_in(reference)
            if kind in ("", "Organization"):
                named += [text_of(performer, "name"), text_of(reference, "display")]
        return next(filter(None, (" ".join(name.split())[:80] for name in named)), "")

    def number(self) -> str | None:
        """The number by which the laboratory knows the report."""
        return next(filter(None, (text_of(one, "value") for one in objects_of(self.resource, "identifier"))), None)

    def date(self) -> tuple[datetime.date | None, int | None]:
        stamps = [text_of(self.resource, "effectiveDateTime")]
        stamps.append(text_of(object_of(self.resource, "effectivePeriod"), "start"))
        for reference in objects_of(self.resource, "specimen"):
            taken = object_of(self._find(reference), "collection")
            stamps.append(text_of(taken, "collectedDateTime"))
        stamps.append(text_of(self.resource, "issued"))
        stamps = [stamp for stamp in stamps if re.match(r"(?a:(19|20)\d\d)", stamp)]  # 0001-01-01 is written for none
        for stamp in stamps:
            try:
                date = datetime.date.fromisoformat(stamp[:10])
                return date, date.year
            except ValueError:
                continue
        return None, next((int(stamp[:4]) for stamp in stamps), None)


def kind_in(reference: Resource) -> str:
    """The kind of a resource that a reference says; none where it names it otherwise.

    >>> [kind_in({"reference": one}) for one in ("https://x/Practitioner/7", "Organization/7", "urn:uuid:7", "#7", "")]
    ['Practitioner', 'Organization', '', '', '']
    """
    kind, _, name = last_two(text_of(reference, "reference")).partition("/")
    return kind if name else ""


def type_of(form: Resource) -> str:
    return text_of(form, "contentType").partition(";")[0].strip().lower()


def value_of(observation: Resource) -> str:
    """An Observation's value as text.

    >>> value_of({"valueQuantity": {"value": 1234567.5, "comparator": "<", "unit": "mm"}})
    '<1234567.5 mm'
    >>> value_of({"valueRatio": {"numerator": {"value": 3}, "denominator": {"value": 18}}})
    '3/18'
    >>> value_of({"valueRange": {"low": {"value": 2, "code": "cm"}, "high": {"value": 3, "code": "cm"}}})
    '2 cm - 3 cm'
    """
    if words := words_of(object_of(observation, "valueCodeableConcept")):
        return words
    if quantity := quantity_of(object_of(observation, "valueQuantity")):
        return quantity
    ratio, between = object_of(observation, "valueRatio"), object_of(observation, "valueRange")
    count, total = quantity_of(object_of(ratio, "numerator")), quantity_of(object_of(ratio, "denominator"))
    if count and total:
        return f"{count}/{total}"
    low, high = quantity_of(object_of(between, "low")), quantity_of(object_of(between, "high"))
    if low or high:
        return f"{low} - {high}" if low and high else f">={low}" if low else f"<={high}"
    for name in ("valueInteger", "valueBoolean"):
        if isinstance(value := observation.get(name), int):
            return str(value)
    return tidy(text_of(observation, "valueString"))


def quantity_of(quantity: Resource) -> str:
    if not isinstance(number := quantity.get("value"), int | float):
        return ""
    # A whole number may be larger than any float.
    written = str(number) if isinstance(number, int) else f"{number:.15g}"
    than, code = text_of(quantity, "comparator"), text_of(quantity, "code")
    unit = text_of(quantity, "unit") or (code if UNIT.fullmatch(code) else "")
    return f"{than if than in COMPARED else ''}{written} {unit}".strip()
