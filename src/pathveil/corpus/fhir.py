"""Reports out of FHIR R4: DiagnosticReports alone or in bundles, such as Cancer Pathology Data Sharing's, or a file of
many, one a line (NDJSON).

A report's text is what is presented (plain text or HTML in ``presentedForm``), else its Observations under headings in
one order, as those of HL7 v2 are; its conclusion is the final diagnosis. The Patient goes to ``patient.py`` and nowhere
else. Whatever is missing, of another type or too deep is a reason to skip a resource, never to quote it.

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
import contextlib
import datetime
import json
import re
import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, Any

from pathveil.corpus.hl7 import UnusableMessage, decode_text
from pathveil.corpus.naaccr import CODES, Report, Skipped, heading_for, render, tidy
from pathveil.corpus.patient import Mask, case_id, report_id
from pathveil.corpus.tables import UNREADABLE
from pathveil.foreign import Refused, parse_json
from pathveil.foreign.archives import open_bytes

LONGEST = 1 << 28  # bytes of a resource; larger exports come as NDJSON, one resource a line
MARK = b'"resourceType"'
WITHDRAWN = ("entered-in-error", "cancelled")
DEEPEST = 6  # bundles within bundles, observations within observations
WHOLE = 40  # characters of a presented text that is taken for the whole report
PLAIN = ("", "text/plain", "application/text")
MARKUP = ("text/html", "application/xhtml+xml")

# What reports refer to; in a bulk export each kind is a file of its own.
JOINED = ("Patient", "RelatedPerson", "Observation", "Specimen", "Organization")
KIND = re.compile(rb'"resourceType"\s*:\s*"(\w+)"')

Resource = dict[str, Any]


def read_resources(
    file: IO[bytes], *, key: bytes, registry: str | None, beside: "Beside | None" = None
) -> Iterator[list[Report] | Skipped]:
    """Yield for each resource of a file its reports, or why there are none: one a line, or one in all.

    Of resources that reports refer to, those in ``beside`` are found, and are no reports that failed.
    """
    for number, (line, content) in enumerate(split_resources(file), start=1):
        if beside and kind_of(content) in JOINED:
            continue
        try:
            bundle = Index(parse(content), beside)
            yield bundle.usable_reports(key=key, registry=registry, position=number)
        except UnusableMessage as fault:
            yield Skipped(message=number, line=line, reason=str(fault))
        else:
            for reason in bundle.left_out:
                yield Skipped(message=number, line=line, reason=reason, part=True)


def split_resources(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file where the first is a resource by itself, else the whole file, each with its line."""
    first = file.readline(LONGEST + 1)
    if is_whole(first):
        line, content = 1, first
        while content:
            if content.strip():
                yield line, content
            if len(content) > LONGEST:
                return  # the rest of an endless line is no resource either
            line, content = line + 1, file.readline(LONGEST + 1)
    else:
        yield 1, first + file.read(LONGEST + 1 - min(len(first), LONGEST))


def is_whole(line: bytes) -> bool:
    return line.strip().startswith(b"{") and line.strip().endswith(b"}")


def parse(content: bytes) -> Resource:
    if len(content) > LONGEST:
        raise UnusableMessage(f"is larger than {LONGEST >> 20} MB; export NDJSON, one resource a line")
    try:
        found = parse_json(content)
    except Refused as why:
        raise UnusableMessage(str(why)) from None
    if isinstance(found, list):
        raise UnusableMessage("is a list; expected one resource (a bundle of them, or one a line)")
    if not isinstance(found, dict) or not isinstance(found.get("resourceType"), str):
        raise UnusableMessage("is not a FHIR resource")
    return found


def read_resource(
    resource: Resource, *, key: bytes, registry: str | None, position: int = 1, beside: "Beside | None" = None
) -> list[Report]:
    """The reports of a bundle or of a DiagnosticReport, the ``position``-th resource of its file."""
    return Index(resource, beside).usable_reports(key=key, registry=registry, position=position)


def kind_of(content: bytes) -> str:
    """The kind of a resource as its bytes say it first, without parsing them."""
    found = KIND.search(content)
    return found[1].decode() if found else ""


class Beside:
    """Resources that reports of the same export refer to, on disk in a private folder that goes with this object.

    They are kept packed in a small database, so that patients of millions of reports take no memory.
    """

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="pathveil-")
        self.database = sqlite3.connect(Path(self.folder.name) / "resources.db", check_same_thread=False)
        self.database.executescript("pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -16000;")
        self.database.execute("create table resources (name text primary key, content blob) without rowid")
        self.database.execute("create table relatives (patient text, name text)")

    def add(self, resource: Resource) -> None:
        name = f"{text_of(resource, 'resourceType')}/{text_of(resource, 'id')}"
        content = zlib.compress(json.dumps(resource).encode(), 1)
        self.database.execute("insert or ignore into resources values (?, ?)", (name, content))
        if text_of(resource, "resourceType") == "RelatedPerson":
            patient = last_two(text_of(object_of(resource, "patient"), "reference"))
            self.database.execute("insert into relatives values (?, ?)", (patient, name))

    def find(self, name: str) -> Resource:
        row = self.database.execute("select content from resources where name = ?", (name,)).fetchone()
        return json.loads(zlib.decompress(row[0])) if row else {}

    def relatives_of(self, patient: str) -> list[Resource]:
        found = self.database.execute("select name from relatives where patient = ? limit 20", (last_two(patient),))
        return [self.find(name) for (name,) in found.fetchall()]


def last_two(reference: str) -> str:
    """``Patient/7`` of a reference, whatever server it names."""
    return "/".join(reference.split("/")[-2:])


def gather_beside(paths: Iterable[Path]) -> Beside | None:
    """The patients, observations and others that stand in files of their own; none where there are none.

    What cannot be read is passed over: reading the reports tells of it.
    """
    beside = None
    for path in paths:
        with contextlib.suppress(*UNREADABLE), open_bytes(path) as file:
            for _, content in split_resources(file):
                if kind_of(content) not in JOINED:
                    continue
                with contextlib.suppress(UnusableMessage):
                    resource = parse(content)
                    beside = beside or Beside()
                    if text_of(resource, "resourceType") in JOINED:
                        beside.add(resource)
    if beside:
        beside.database.execute("create index by_patient on relatives (patient)")
        beside.database.commit()
    return beside


class Index:
    """A bundle's resources by every name that a reference can use."""

    def __init__(self, resource: Resource, beside: "Beside | None" = None):
        self.beside = beside
        self.reports: list[Resource] = []
        self.people: list[Resource] = []  # patients and their relatives
        self.header: Resource = {}
        self.message_id = ""
        self.left_out: list[str] = []  # which reports, and why, where others are usable
        self._named: dict[str, Resource] = {}
        self._enter(resource, "", DEEPEST)

    def _enter(self, resource: Resource, url: str, depth: int) -> None:
        kind, name = text_of(resource, "resourceType"), text_of(resource, "id")
        for reference in filter(None, (url, f"{kind}/{name}" if name else "")):
            self._named.setdefault(reference, resource)
        if kind == "DiagnosticReport":
            self.reports.append(resource)
        elif kind in ("Patient", "RelatedPerson"):
            self.people.append(resource)
        elif kind == "MessageHeader":
            self.header = resource
        elif kind == "Bundle" and depth:
            self.message_id = self.message_id or text_of(object_of(resource, "identifier"), "value") or name
            for entry in objects_of(resource, "entry"):
                self._enter(object_of(entry, "resource"), text_of(entry, "fullUrl"), depth - 1)
        for one in objects_of(resource, "contained"):
            if text_of(one, "id"):
                self._named[f"{id(resource)}#{text_of(one, 'id')}"] = one
            if text_of(one, "resourceType") in ("Patient", "RelatedPerson"):
                self.people.append(one)

    def find(self, reference: Resource, *, within: Resource) -> Resource:
        """What a reference points to; an empty resource where it is not here."""
        name = text_of(reference, "reference")
        if name.startswith("#"):
            return self._named.get(f"{id(within)}{name}", {})
        short = last_two(name)
        found = self._named.get(name) or self._named.get(short)
        return found or (self.beside.find(short) if self.beside and short else {})

    def people_of(self, subject: Resource, *, within: Resource) -> list[Resource]:
        """Whoever may be named in a report's text: all people here, and its patient and relatives elsewhere."""
        if self.beside is None:
            return self.people
        patient = self.find(subject, within=within)
        return [*self.people, patient, *self.beside.relatives_of(text_of(subject, "reference"))]

    def usable_reports(self, *, key: bytes, registry: str | None, position: int) -> list[Report]:
        """The reports; one that cannot be used is left out, and if that leaves none, refused."""
        readers = [Reader(self, one) for one in self.reports]
        found = [reader.report(key=key, registry=registry, position=position) for reader in readers]
        if not any(found):
            raise UnusableMessage(next((reader.why for reader in readers if reader.why), "holds no DiagnosticReport"))
        self.left_out = [
            f"holds a DiagnosticReport besides, number {number:,}, which {reader.why}"
            for number, (reader, report) in enumerate(zip(readers, found, strict=True), start=1)
            if report is None
        ]
        return [report for report in found if report is not None]


class Reader:
    """One DiagnosticReport among the resources it refers to."""

    def __init__(self, index: Index, resource: Resource):
        self.index, self.resource = index, resource
        self.why = ""  # it gives no report
        self.sections: dict[str, dict[str, list[str]]] = {}
        self._seen: set[int] = set()

    def masked_text(self) -> tuple[str, int]:
        """The report's text, and in how many places it named its patient; empty where ``why`` says why."""
        if text_of(self.resource, "status") in WITHDRAWN:
            self.why = "is marked as cancelled or entered in error"
            return "", 0
        mask = mask_of(self.index.people_of(object_of(self.resource, "subject"), within=self.resource))
        text, masked = mask(self._text())
        if not text:
            self.why = self.why or "holds no report text"
        return text, masked

    def report(self, *, key: bytes, registry: str | None, position: int) -> Report | None:
        text, masked = self.masked_text()
        if not text:
            return None
        subject = object_of(self.resource, "subject")
        identity = identity_of(self.index.find(subject, within=self.resource), subject)
        if identity is None:
            self.why = "names no patient, so it belongs to no case"
            return None
        registry = registry or self._sender()
        if not registry:
            self.why = "names no sender, and no registry was given"
            return None
        date, year = self.date()
        return Report(
            report_id=report_id(key, registry, *identity, json.dumps(self.resource, sort_keys=True), text),
            case_id=case_id(key, *identity),
            registry=registry,
            date=date,
            year=year,
            text=text,
            number=self.number(),
            kind=next((code for code, _ in codings_of(object_of(self.resource, "code"))), None),
            masked=masked,
            message_id=self.index.message_id or text_of(self.resource, "id") or None,
            position=position,
        )

    def _text(self) -> str:
        """The presented text where it is the whole report, else observations and conclusion under their headings, else
        the narrative."""
        presented = tidy("\n\n".join(filter(None, map(self._presented, objects_of(self.resource, "presentedForm")))))
        conclusion = tidy(text_of(self.resource, "conclusion"))
        if len(presented) >= WHOLE:
            return presented if conclusion in presented else f"{presented}\n\nFINAL DIAGNOSIS\n{conclusion}"
        for reference in objects_of(self.resource, "specimen"):
            self._add_specimen(self.index.find(reference, within=self.resource))
        self._add("FINAL DIAGNOSIS", conclusion)
        for reference in objects_of(self.resource, "result"):
            self._add_observation(self.index.find(reference, within=self.resource), DEEPEST)
        self._add("OTHER", presented)
        return render(self.sections) or tidy(without_markup(text_of(object_of(self.resource, "text"), "div")))

    def _presented(self, form: Resource) -> str:
        kind = text_of(form, "contentType").partition(";")[0].strip().lower()
        if kind not in (*PLAIN, *MARKUP):
            self.why = self.why or "holds its text in a form that is not read (PDF, RTF or an image)"
            return ""
        if not text_of(form, "data"):
            self.why = self.why or "leads to its text elsewhere instead of holding it"
            return ""
        try:
            text = decode_text(base64.b64decode("".join(text_of(form, "data").split()), validate=True))
        except (binascii.Error, ValueError):
            self.why = self.why or "holds a text that is not base64"
            return ""
        return without_markup(text) if kind in MARKUP else text

    def _add(self, heading: str, text: str) -> None:
        if text.strip():
            lines = self.sections.setdefault(heading, {}).setdefault("", [])
            if text not in lines:
                lines.append(text)

    def _add_specimen(self, specimen: Resource) -> None:
        taken = object_of(specimen, "collection")
        words = [words_of(object_of(specimen, "type")), words_of(object_of(taken, "bodySite"))]
        self._add("NATURE OF SPECIMEN", ", ".join(filter(None, words)))

    def _add_observation(self, observation: Resource, depth: int) -> None:
        """An Observation under its heading; what is no section of its own is an item of the synoptic report."""
        if not observation or not depth or id(observation) in self._seen:
            return
        self._seen.add(id(observation))
        if text_of(observation, "status") not in WITHDRAWN:
            code = object_of(observation, "code")
            name, value = words_of(code), value_of(observation)
            codes = [one for one, _ in codings_of(code)]
            if any(one in CODES for one in codes) or "\n" in value or len(value) > 80:
                self._add(heading_for(codes, [name]), value)
            elif value:
                self._add("SYNOPTIC REPORT", f"{name}: {value}" if name else value)
            for part in objects_of(observation, "component"):
                item = value_of(part)
                self._add("SYNOPTIC REPORT", f"{words_of(object_of(part, 'code'))}: {item}" if item else "")
            for note in objects_of(observation, "note"):
                self._add("COMMENT", text_of(note, "text"))
        for reference in objects_of(observation, "hasMember"):
            self._add_observation(self.index.find(reference, within=self.resource), depth - 1)

    def _sender(self) -> str:
        """Who sent it: the message's source, else the first performer that is an organisation or has a name."""
        named = [text_of(object_of(self.index.header, "source"), "name")]
        for reference in objects_of(self.resource, "performer"):
            performer = self.index.find(reference, within=self.resource)
            if text_of(performer, "resourceType") in ("", "Organization"):
                named += [text_of(performer, "name"), text_of(reference, "display")]
        return next(filter(None, (" ".join(name.split())[:80] for name in named)), "")

    def number(self) -> str | None:
        """The number by which the laboratory knows the report."""
        return next(filter(None, (text_of(one, "value") for one in objects_of(self.resource, "identifier"))), None)

    def date(self) -> tuple[datetime.date | None, int | None]:
        stamps = [text_of(self.resource, "effectiveDateTime")]
        stamps.append(text_of(object_of(self.resource, "effectivePeriod"), "start"))
        for reference in objects_of(self.resource, "specimen"):
            taken = object_of(self.index.find(reference, within=self.resource), "collection")
            stamps.append(text_of(taken, "collectedDateTime"))
        stamps.append(text_of(self.resource, "issued"))
        for stamp in stamps:
            try:
                date = datetime.date.fromisoformat(stamp[:10])
                return date, date.year
            except ValueError:
                continue
        years = [int(stamp[:4]) for stamp in stamps if re.match(r"(?a:(19|20)\d\d)", stamp)]
        return None, next(iter(years), None)


def value_of(observation: Resource) -> str:
    """An Observation's value as text."""
    if words := words_of(object_of(observation, "valueCodeableConcept")):
        return words
    quantity = object_of(observation, "valueQuantity")
    if isinstance(number := quantity.get("value"), int | float):
        return f"{number:g} {text_of(quantity, 'unit')}".strip()
    for name in ("valueInteger", "valueBoolean"):
        if isinstance(value := observation.get(name), int):
            return str(value)
    return tidy(text_of(observation, "valueString"))


def identity_of(patient: Resource, subject: Resource) -> tuple[str, ...] | None:
    """What tells a patient from others: a number of an authority, else name and birth date, else the reference."""
    given = [*objects_of(patient, "identifier"), object_of(subject, "identifier")]
    for one in sorted(given, key=is_social):
        bare = re.sub(r"[\W_]", "", text_of(one, "value")).upper()
        authority = text_of(object_of(one, "assigner"), "display") or text_of(one, "system")
        # 999-99-9999 and UNKNOWN stand for many people.
        if len(set(bare)) > 1 and any(map(str.isdigit, bare)):
            return ("SS", "", bare) if is_social(one) else ("number", authority.upper(), bare)
    birth = text_of(patient, "birthDate").replace("-", "")[:8]
    for name in objects_of(patient, "name"):
        parts = [text_of(name, "family"), *texts_of(name, "given")[:1]]
        if any(parts) and birth:
            return ("name", *(part.upper() for part in parts), birth)
    reference = text_of(subject, "reference").lstrip("#")
    return ("reference", reference) if reference else None


def is_social(identifier: Resource) -> bool:
    codes = [code.upper() for code, _ in codings_of(object_of(identifier, "type"))]
    return "SS" in codes or "us-ssn" in text_of(identifier, "system")


def mask_of(people: list[Resource]) -> Mask:
    """A mask of all that these resources say about the patient and relatives."""
    names, numbers, births, streets = [], [], [], []
    for person in people:
        births.append(text_of(person, "birthDate").replace("-", ""))
        numbers += [text_of(one, "value") for one in objects_of(person, "identifier")]
        for one in (person, *objects_of(person, "contact")):
            called = [*objects_of(one, "name"), object_of(one, "name")]  # of a contact it is no list
            names += [[text_of(name, "family"), *texts_of(name, "given")] for name in called]
            for place in (*objects_of(one, "address"), object_of(one, "address")):
                streets += texts_of(place, "line")
            for line in objects_of(one, "telecom"):
                (streets if text_of(line, "system") == "email" else numbers).append(text_of(line, "value"))
    return Mask(names=names, numbers=numbers, births=births, streets=streets)


def words_of(concept: Resource) -> str:
    """A CodeableConcept in words."""
    shown = (display for _, display in codings_of(concept) if display)
    return " ".join((text_of(concept, "text") or next(shown, "")).split())


def codings_of(concept: Resource) -> list[tuple[str, str]]:
    """The codes of a CodeableConcept, each with what it displays."""
    found = objects_of(concept, "coding")
    return [(text_of(one, "code"), text_of(one, "display")) for one in found if text_of(one, "code")]


def text_of(resource: Resource, name: str) -> str:
    value = resource.get(name)
    return value if isinstance(value, str) else ""


def texts_of(resource: Resource, name: str) -> list[str]:
    value = resource.get(name)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def object_of(resource: Resource, name: str) -> Resource:
    value = resource.get(name)
    return value if isinstance(value, dict) else {}


def objects_of(resource: Resource, name: str) -> list[Resource]:
    value = resource.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class _Text(HTMLParser):
    """The text of a page, its blocks on lines of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden += tag in ("script", "style", "head")
        if tag in ("p", "div", "br", "tr", "li", "table", "h1", "h2", "h3", "h4", "pre"):
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("script", "style", "head") and self.hidden > 0

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.pieces.append(data)


def without_markup(page: str) -> str:
    parser = _Text()
    parser.feed(page)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).split("\n"))
    return "\n".join(filter(None, lines))
