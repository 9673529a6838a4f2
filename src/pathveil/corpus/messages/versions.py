"""Which of a report's versions stands: laboratories send reports preliminary, final, corrected, amended and withdrawn.

Versions are messages of one laboratory about one patient under one report number and kind of report. In the order in
which they were issued, a later one takes the place of the earlier ones: a final one of a preliminary one, a corrected
or appended one of a final one, and a final one of another whose sections it has all. What holds only a supplement, or
lacks the diagnosis that the earlier one has, is an addition: both are kept. A withdrawal takes all before it away.
Of versions issued at one time, a correction counts as later than a final one, and that than a preliminary one. What is
sent again word for word says nothing new, and counts from when it was first sent. So the order in which messages come
decides nothing.

Nothing is decided while messages are read, since a correction may come in the last file: of each report some fifty
bytes are kept, and a version that does not stand is taken out of what was read.

>>> versions = Versions()
>>> for number, state in enumerate((PRELIMINARY, FINAL, CORRECTED), start=1):
...     versions.add(Version(key=7, state=state, issued=20160502, sent=0, sections=4, length=100), number)
>>> settled = versions.settle()
>>> [settled.replaced.holds(number) for number in (1, 2, 3)]
[True, True, False]
"""

import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pathveil.corpus.messages.sections import SECTIONS
from pathveil.corpus.seen import Seen

PRELIMINARY, FINAL, APPENDED, CORRECTED, WITHDRAWN = range(5)
RENEWED = -1  # withdrawn in one message with what takes its place, and so before all of that time
ALL = -1  # sections of a report whose text is not divided
LONGEST = (1 << 31) - 1
MOST = 200  # versions of one report; what has more is no number of one, and comparing them all would take hours


class Version(NamedTuple):
    """One version of a report, as far as it is compared with others."""

    key: int  # a hash of laboratory, patient, report number and kind: what all versions share
    state: int
    issued: int  # when, as a number that grows with time; 0 where it is not said
    sent: int
    sections: int  # bits, one for each heading
    length: int  # of the text
    content: int = 0  # the hash of the report's id: what is sent twice has one; a withdrawal has none


@dataclass
class Settled:
    """The reports that do not stand, by the hashes of their ids."""

    replaced: Seen = field(default_factory=Seen)
    withdrawn: Seen = field(default_factory=Seen)

    def holds(self, report: int) -> bool:
        return self.replaced.holds(report) or self.withdrawn.holds(report)


class Versions:
    """All versions that were met."""

    def __init__(self) -> None:
        self.columns = [array(kind) for kind in "qbqqqiQ"]  # those of a Version
        self.masked = array("i")  # in how many places its text named the patient

    def add(self, version: Version, report: int = 0, masked: int = 0) -> None:
        """Note a version and the hash of its report's id; a withdrawal is no report."""
        key, state, issued, sent, sections, length, _ = version
        values = (key, state, issued, sent, sections, min(length, LONGEST), report)
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        self.masked.append(masked)

    def masked_of(self, settled: Settled) -> list[int]:
        """In how many places each report that does not stand named its patient."""
        contents, first = np.unique(np.frombuffer(self.columns[-1], np.uint64), return_index=True)
        numbered = zip(contents.tolist(), first.tolist(), strict=True)
        return [self.masked[place] for number, place in numbered if number and settled.holds(number)]

    def settle(self) -> Settled | None:
        """Decide which stand; none where all do."""
        keys = np.frombuffer(self.columns[0], np.int64)
        order = np.argsort(keys, kind="stable")
        same = keys[order][1:] == keys[order][:-1]
        settled = Settled()
        for start, end in runs_of(same):
            versions = as_first_sent(
                Version(*(column[place] for column in self.columns)) for place in order[start:end].tolist()
            )
            if len(versions) > MOST:
                continue
            replaced, withdrawn = outdated(versions)
            for number in replaced:
                settled.replaced.add(versions[number].content)
            for number in withdrawn:
                settled.withdrawn.add(versions[number].content)
        return settled if len(settled.replaced) + len(settled.withdrawn) else None


def runs_of(same: np.ndarray) -> Iterable[tuple[int, int]]:
    """Where neighbours are the same: first place and the one behind the last, of each run.

    >>> list(runs_of(np.array([False, True, True, False, True])))
    [(1, 4), (4, 6)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    return ((start, end + 1) for start, end in edges.reshape(-1, 2).tolist())


def as_first_sent(versions: Iterable[Version]) -> list[Version]:
    """Each report once, with the earliest time that it was sent at, and all withdrawals."""
    withdrawals: list[Version] = []
    reports: dict[int, Version] = {}
    for one in versions:
        if one.state in (WITHDRAWN, RENEWED):
            withdrawals.append(one)
            continue
        last = reports.get(one.content, one)
        times = [min(filter(None, pair), default=0) for pair in ((last.issued, one.issued), (last.sent, one.sent))]
        reports[one.content] = last._replace(issued=times[0], sent=times[1])
    return [*reports.values(), *withdrawals]


def outdated(versions: list[Version]) -> tuple[list[int], list[int]]:
    """The numbers of those that were replaced, and of those that were withdrawn.

    They count in the order in which they were issued, and sent, where all say so; of one time, a preliminary one
    before a final one, that before a correction, that before a withdrawal; and else the shorter before the longer.
    """
    is_issued, is_sent = all(one.issued for one in versions), all(one.sent for one in versions)

    def when(number: int) -> tuple[int, ...]:
        one = versions[number]
        times = one.issued if is_issued else 0, one.sent if is_sent else 0
        return *times, one.state, one.length, one.sections, one.content

    standing: list[int] = []
    replaced: list[int] = []
    withdrawn: list[int] = []
    for number in sorted(range(len(versions)), key=when):
        new = versions[number]
        if new.state in (WITHDRAWN, RENEWED):
            withdrawn += standing
            standing = []
            continue
        earlier = [versions[one] for one in standing]
        if new.state == PRELIMINARY and not is_supplement(new) and any(is_finished(one) for one in earlier):
            replaced.append(number)
            continue
        gone = [one for one in standing if replaces(new, versions[one])]
        replaced += gone
        standing = [one for one in standing if one not in gone] + [number]
    return replaced, withdrawn


def replaces(new: Version, old: Version) -> bool:
    """Whether a version says all that an earlier one says, as far as can be told."""
    if is_supplement(old):
        return old.state == PRELIMINARY if is_supplement(new) else bool(new.sections & BITS["SUPPLEMENTAL REPORT"])
    if is_supplement(new) or (old.sections & ~new.sections & BITS["FINAL DIAGNOSIS"]):
        return False
    if old.state == PRELIMINARY or new.state == CORRECTED:
        return True
    if new.state == APPENDED:
        return new.length >= old.length  # else it holds the addition alone
    return not old.sections & ~new.sections


def is_finished(version: Version) -> bool:
    return version.state != PRELIMINARY and not is_supplement(version)


def is_supplement(version: Version) -> bool:
    """Whether a version holds nothing but a supplement, and what may stand beside one."""
    return bool(version.sections & BITS["SUPPLEMENTAL REPORT"]) and not version.sections & ~BESIDE


BITS = {heading: 1 << number for number, heading in enumerate(SECTIONS)}
BESIDE = sum(BITS[heading] for heading in ("SUPPLEMENTAL REPORT", "COMMENT", "NATURE OF SPECIMEN", "CLINICAL HISTORY"))


SHARED = 62 - len(BITS)


def bits_of(headings: Iterable[str]) -> int:
    """Sections as bits, the same in every process; those of other names have two each of the 53 that are left.

    >>> one, other = bits_of(["FLOW CYTOMETRY"]), bits_of(["FISH"])
    >>> one & ~other != 0, one < 1 << 62
    (True, True)
    """
    bits = 0
    for heading in headings:
        bits |= BITS.get(heading) or shared_bits(heading)
    return bits


def shared_bits(heading: str) -> int:
    """Two bits for a name that few others have both of."""
    number = zlib.crc32(heading.encode())
    return (1 << number % SHARED | 1 << number // SHARED % SHARED) << len(BITS)
