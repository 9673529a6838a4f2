"""FHIR resources out of files, and what refers to what: within a Bundle, and across the files of an export.

Nothing here knows what a report is (``fhir.py`` does), and no fault quotes what it found.

>>> patient = {"resourceType": "Patient", "id": "p1"}
>>> report = {"resourceType": "DiagnosticReport", "id": "r1", "subject": {"reference": "Patient/p1"}}
>>> index = Index({"resourceType": "Bundle", "entry": [{"resource": patient}, {"resource": report}]})
>>> index.find(report["subject"], within=report) is patient
True
"""

import contextlib
import datetime
import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from pathveil.corpus.messages.hl7 import UnusableMessage
from pathveil.corpus.messages.naaccr import patient_number
from pathveil.corpus.tables.files import UNREADABLE
from pathveil.untrusted import Refused, parse_json
from pathveil.untrusted.archives import open_bytes

LONGEST = 1 << 28  # bytes of a resource; larger exports come as NDJSON, one resource a line
DEEPEST = 6  # bundles within bundles, observations within observations

# What reports refer to; in a bulk export each kind is a file of its own.
JOINED = ("Patient", "RelatedPerson", "Observation", "Specimen", "Organization", "PractitionerRole", "Binary")
BLANK = b"\xef\xbb\xbf \t\r\n"  # with the mark of UTF-8, which may stand before the first line
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?')
KIND_FIRST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"resourceType"\s*:\s*"(\w+)"')
JOINED_SOMEWHERE = re.compile(rb'"resourceType"\s*:\s*"(?:%b)"' % "|".join(JOINED).encode())

Resource = dict[str, Any]


def split_resources(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that has a resource on each, else the whole file, each with its line."""
    lines = lines_of(file)
    line, first = next(lines, (1, b""))
    second = next(lines, None) if not is_whole(first) else None
    # A first line that is damaged costs itself alone: JSON over several lines would go on otherwise.
    if is_whole(first) or (second and second[1].lstrip().startswith(b"{") and not goes_on_with_object(first)):
        yield line, first
        yield from [second] if second else []
        yield from lines
    else:
        begun = first + (second[1][: LONGEST + 1 - min(len(first), LONGEST)] if second else b"")
        yield line, begun + file.read(LONGEST + 1 - min(len(begun), LONGEST))


def lines_of(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers."""
    line = 1
    while content := file.readline(LONGEST + 1):
        if content.strip(BLANK):
            yield line, content
        if len(content) > LONGEST:
            return  # the rest of an endless line is no resource either
        line += 1


def is_whole(line: bytes) -> bool:
    return line.lstrip(BLANK).startswith(b"{") and line.rstrip().endswith(b"}")


def goes_on_with_object(line: bytes) -> bool:
    """Whether an object may follow on this line in one JSON text: in a list, or behind a name.

    >>> [goes_on_with_object(line) for line in (b'{"entry": [', b'[{"a": "{"},', b'{"a": ', b'{"a": 1,', b'{"a": "b')]
    [True, True, True, False, False]
    """
    bare = STRING.sub(b"0", line).rstrip()
    if not bare.endswith(b","):
        return bare.endswith((b"[", b":"))
    closed = 0
    for sign in reversed(re.sub(rb"[^\[\]{}]+", b"", bare)):
        closed += (sign in b"]}") - (sign in b"[{")
        if closed < 0:
            return sign in b"["
    return False


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


def kind_at_start(content: bytes) -> str:
    """The kind of a resource, without parsing it, where that is said first, as nearly all do.

    >>> kind_at_start(b'{"resourceType": "Patient"}'), kind_at_start(b'{"contained": [{"resourceType": "Patient"}]}')
    ('Patient', '')
    """
    found = KIND_FIRST.match(content)
    return found[1].decode() if found else ""


def is_joined(resource: Resource) -> bool:
    return text_of(resource, "resourceType") in JOINED


class Beside:
    """Resources that reports of the same export refer to, on disk in a file that has no name.

    They are kept packed in a small database, so that patients of millions of reports take no memory. Its file goes with
    this object and, since nothing leads to it, with the process, however that ends.
    """

    def __init__(self) -> None:
        self.is_damaged = False  # some could not be read, and reading must find and name them
        self.database = sqlite3.connect("", check_same_thread=False)
        self.database.executescript("pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -16000;")
        self.database.execute("create table resources (name text primary key, content blob, state int) without rowid")
        self.database.execute("create table relatives (patient text, content blob)")

    def add(self, resource: Resource) -> None:
        kind, name = text_of(resource, "resourceType"), text_of(resource, "id")
        content = zlib.compress(json.dumps(resource).encode(), 1)
        if kind == "RelatedPerson":  # no report refers to it: all that are said of a patient count
            patient = last_two(text_of(object_of(resource, "patient"), "reference"))
            self.database.execute("insert into relatives values (?, ?)", (patient, content))
        elif name:
            row = (f"{kind}/{name}", content, FINE)
            if not self.database.execute("insert or ignore into resources values (?, ?, ?)", row).rowcount:
                self._join(f"{kind}/{name}", resource, content)

    def _join(self, name: str, resource: Resource, content: bytes) -> None:
        held = self.find(name)
        if held and (found := held.joined_by(resource)) is not held:
            if found.resource is resource:
                self.database.execute("update resources set content = ? where name = ?", (content, name))
            self.database.execute("update resources set state = ? where name = ?", (found.state, name))

    def find(self, name: str) -> "Held | None":
        row = self.database.execute("select content, state from resources where name = ?", (name,)).fetchone()
        return Held(unpacked(row[0]), row[1]) if row else None

    def relatives_of(self, patient: str) -> list[Resource]:
        found = self.database.execute("select content from relatives where patient = ? limit 20", (last_two(patient),))
        return [unpacked(content) for (content,) in found.fetchall()]


def unpacked(content: bytes) -> Resource:
    return json.loads(zlib.decompress(content))


FINE, TIED, OTHERS = range(3)  # TIED: neither of two versions is the newer one; OTHERS: they are two resources


class Held(NamedTuple):
    """What a name stands for: the newest version that was met, and whether it is known to be that.

    >>> first, second = ({"resourceType": "Observation", "id": "o1", "meta": {"versionId": one}} for one in "12")
    >>> Held(second).joined_by(first) == Held(first).joined_by(second) == Held(second, FINE)
    True
    >>> Held(first | {"subject": {"reference": "Patient/1"}}).joined_by(second).state == OTHERS
    True
    """

    resource: Resource
    state: int = FINE

    def joined_by(self, new: Resource) -> "Held":
        old = self.resource
        if new == old:
            return self
        state = OTHERS if self.state == OTHERS or not are_versions(old, new) else FINE
        if age_of(new) > age_of(old):
            return Held(new, state)
        return Held(old, state or (TIED if age_of(new) == age_of(old) else self.state))


def are_versions(one: Resource, other: Resource) -> bool:
    """Whether two resources of one name can be versions of one: servers number theirs from 1, each for itself."""
    mine, theirs = owners_of(one), owners_of(other)
    return not mine.isdisjoint(theirs) or not (mine or theirs)


def owners_of(resource: Resource) -> set[str]:
    """What stays the same in all versions of a resource: whom it is about; of a patient or laboratory, who it is."""
    kind = text_of(resource, "resourceType")
    if kind not in ("Patient", "Organization"):
        subject = object_of(resource, "subject") or object_of(resource, "patient")
        return set(filter(None, [without_history(text_of(subject, "reference"))]))
    birth, found = text_of(resource, "birthDate"), {text_of(resource, "name").upper()}  # a laboratory's is one text
    for one in objects_of(resource, "identifier"):
        if number := patient_number(text_of(one, "value")):
            found.add(f"{text_of(one, 'system')} {number}")
    for name in objects_of(resource, "name"):
        words = [text_of(name, "text"), text_of(name, "family"), *texts_of(name, "given")]
        found |= {" ".join([*words, birth]).upper()} if any(words) else set()
    return (found - {""}) or {f"{birth} {text_of(resource, 'gender')}"}


def age_of(resource: Resource) -> tuple[int, int]:
    """A number that grows with each version of a resource: when it was written, and its count."""
    meta = object_of(resource, "meta")
    version = re.match(r"[0-9]{1,15}(?![0-9])", text_of(meta, "versionId"))
    return moment_of(text_of(meta, "lastUpdated")), int(version[0]) if version else 0


def last_two(reference: str) -> str:
    """``Patient/7`` of a reference, whatever server and version it names."""
    return "/".join(without_history(reference).split("/")[-2:])


def without_history(reference: str) -> str:
    return reference.partition("/_history")[0]


def gather_beside(paths: Iterable[Path]) -> Beside | None:
    """The patients, observations and others that stand in files of their own; none where there are none.

    What cannot be read is passed over: reading the reports tells of it.
    """
    beside, is_damaged = None, False
    for path in paths:
        with contextlib.suppress(*UNREADABLE), open_bytes(path) as file:
            for _, content in split_resources(file):
                kind = kind_at_start(content)
                if kind not in JOINED and (kind or not JOINED_SOMEWHERE.search(content)):
                    continue
                try:
                    resource = parse(content)
                except UnusableMessage:
                    is_damaged = True
                    continue
                if is_joined(resource):
                    beside = beside or Beside()
                    beside.add(resource)
    if beside:
        beside.is_damaged = is_damaged
        beside.database.execute("create index by_patient on relatives (patient)")
        beside.database.commit()
    return beside


class Unclear(UnusableMessage):
    """Raised for a reference that may mean one or another resource."""

    def __init__(self, kind: str):
        super().__init__(
            f"refers to {kind if kind in JOINED else 'a resource'} by a name under which different ones are here; "
            "import what comes from one server by itself"
        )


class Space:
    """The names of one Bundle's resources; what is not in it may be in the Bundle around it."""

    def __init__(self, outer: "Space | None" = None):
        self.outer = outer
        self.header: Resource = {}
        self.named: dict[str, Held] = {}
        self.local: dict[str, Held] = {}  # those of no server

    def add(self, resource: Resource, url: str) -> None:
        name = f"{text_of(resource, 'resourceType')}/{text_of(resource, 'id')}"
        if url:
            put(self.named, url, resource)
        if not name.endswith("/"):
            put(self.named, name, resource)
            if "://" not in url:
                put(self.local, name, resource)

    def outwards(self) -> "Iterator[Space]":
        space: Space | None = self
        while space:
            yield space
            space = space.outer

    def find(self, name: str) -> Held | None:
        return next((space.named[name] for space in self.outwards() if name in space.named), None)

    def find_local(self, name: str) -> Held | None:
        return next((space.local[name] for space in self.outwards() if name in space.local), None)


def put(held: dict[str, Held], name: str, resource: Resource) -> None:
    held[name] = held[name].joined_by(resource) if name in held else Held(resource)


class Index:
    """A bundle's resources by every name that a reference can use."""

    def __init__(self, resource: Resource, beside: Beside | None = None):
        self.beside = beside
        self.reports: list[Resource] = []
        self.people: list[Resource] = []  # patients and their relatives
        self.message_id = ""
        self.left_out: list[str] = []  # which reports, and why, where others are usable
        self.is_too_deep = False  # bundles were not looked into
        self._resource = resource  # held, as what is found elsewhere is: one place in memory is one resource
        self._spaces: dict[int, tuple[Space, str]] = {}  # of each resource, by its place, with its server
        self._everywhere: dict[str, Held] = {}  # by their whole addresses
        self._elsewhere: dict[str, Held | None] = {}
        self._enter(resource, "", Space(), DEEPEST)

    def _enter(self, resource: Resource, url: str, space: Space, depth: int) -> None:
        kind, name = text_of(resource, "resourceType"), text_of(resource, "id")
        server = url.removesuffix(f"{kind}/{name}") if "://" in url else ""
        self._spaces[id(resource)] = space, server if server != url else ""
        space.add(resource, url)
        if url:
            put(self._everywhere, url, resource)
        if kind == "DiagnosticReport":
            self.reports.append(resource)
        elif kind in ("Patient", "RelatedPerson"):
            self.people.append(resource)
        elif kind == "MessageHeader":
            space.header = resource
        elif kind == "Bundle":
            self._enter_entries(resource, space, depth)
        kept = objects_of(resource, "contained")
        self.people += [one for one in kept if text_of(one, "resourceType") in ("Patient", "RelatedPerson")]

    def _enter_entries(self, bundle: Resource, space: Space, depth: int) -> None:
        if not depth:
            self.is_too_deep = True
            return
        self.message_id = self.message_id or text_of(object_of(bundle, "identifier"), "value") or text_of(bundle, "id")
        inner = Space(space)
        for entry in objects_of(bundle, "entry"):
            if resource := object_of(entry, "resource"):
                self._enter(resource, without_history(text_of(entry, "fullUrl")), inner, depth - 1)

    def find(self, reference: Resource, *, within: Resource) -> Resource:
        """What a reference points to; an empty resource where it is not here."""
        name = without_history(text_of(reference, "reference"))
        if name.startswith("#"):
            kept = objects_of(within, "contained")
            return next((one for one in kept if text_of(one, "id") == name[1:]), {})
        if not name:
            return {}
        short, (space, server) = last_two(name), self._spaces[id(within)]
        if "://" in name or name.startswith("urn:"):
            # The same number on another server is another resource.
            held = space.find(name) or self._everywhere.get(name) or space.find_local(short)
        else:
            held = (space.find(server + short) if server else None) or space.find(short)
        held = held or self._find_elsewhere(short)
        if held and held.state != FINE:
            raise Unclear(text_of(held.resource, "resourceType"))
        return held.resource if held else {}

    def _find_elsewhere(self, short: str) -> Held | None:
        if self.beside and short not in self._elsewhere:
            self._elsewhere[short] = self.beside.find(short)
        return self._elsewhere.get(short)

    def header_of(self, resource: Resource) -> Resource:
        """The header of the message that a resource came in."""
        space, _ = self._spaces[id(resource)]
        return next((one.header for one in space.outwards() if one.header), {})

    def people_elsewhere(self, patient: Resource, subject: Resource) -> list[Resource]:
        """Who may be named in a report's text besides all people here: its patient and relatives of an export."""
        if self.beside is None:
            return []
        return [patient, *self.beside.relatives_of(text_of(subject, "reference"))]


def moment_of(stamp: str) -> int:
    """A time of FHIR as milliseconds; 0 for none that can be read.

    >>> moment_of("2016-05-02T12:00:00+02:00") == moment_of("2016-05-02T10:00:00Z") > moment_of("2016-05-02") > 0
    True
    """
    try:
        when = datetime.datetime.fromisoformat(stamp)
        when = when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
        return int(when.timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def words_of(concept: Resource) -> str:
    """A CodeableConcept in words."""
    shown = filter(None, (text_of(one, "display") for one in objects_of(concept, "coding")))
    return " ".join((text_of(concept, "text") or next(shown, "")).split())


def codes_of(concept: Resource) -> list[str]:
    """The codes of a CodeableConcept."""
    return list(filter(None, (text_of(one, "code") for one in objects_of(concept, "coding"))))


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
