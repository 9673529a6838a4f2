"""The hub: counts at how many sites each tag was seen, and tells each site which of its own reached the threshold.

A site first binds itself to its whole set (the sha256 of its tags in ascending order), then sends them in batches; once
bound, it can repeat but not change. Nothing is answered before every site is complete, so no site can choose its words
by what it learned. A tag that passed gets its rank among the tags that passed, which is the word's place in the common
vocabulary: sites share ids for words that some of them cannot name.

>>> import numpy as np
>>> tags = [np.array([[0, 7], [0, 9]], ">u8"), np.array([[0, 7], [1, 0]], ">u8"), np.array([[0, 7], [0, 9]], ">u8")]
>>> passed, histogram = count(tags, threshold=2)
>>> passed.tolist(), histogram
([[0, 7], [0, 9]], {1: 1, 2: 1, 3: 1})
>>> ranks_of(tags[1], passed).tolist()   # the first tag is word 0, the second did not pass
[0, 4294967295]
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pathveil.agreement.agreement import Agreement, padded_batches
from pathveil.agreement.expiry import Expiry, Now, running_seconds, utc_now
from pathveil.agreement.results import HubCounts
from pathveil.agreement.store import Store
from pathveil.errors import AgreementError
from pathveil.untrusted import parse_json

TAG = 16  # bytes of the function's output that are kept: two words of the same tag in 10⁷ have probability 10⁻²⁵
NOT_PASSED = 0xFFFFFFFF
HEADER = 4 + 32  # of a result: how many tags passed, sha256 of these in order

TABLES = """
CREATE TABLE submission (site TEXT PRIMARY KEY, commitment TEXT, batches INTEGER, complete INTEGER);
CREATE TABLE tags (site TEXT, number INTEGER, body BLOB, PRIMARY KEY (site, number));
CREATE TABLE received (site TEXT PRIMARY KEY);
CREATE TABLE passed (body BLOB)
"""


def as_array(tags: bytes) -> np.ndarray:
    """(tags, 2) big-endian halves, so that comparing rows is comparing bytes."""
    return np.frombuffer(tags, ">u8").reshape(-1, 2)


def ascending(tags: np.ndarray) -> bool:
    """Whether each tag is above the one before; so none is there twice."""
    high, low = tags[:, 0], tags[:, 1]
    return bool(np.all((high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))))


def count(sets: Sequence[np.ndarray], *, threshold: int) -> tuple[np.ndarray, dict[int, int]]:
    """The tags in at least ``threshold`` of the sets, ascending, and how many tags are in 1, 2, 3, … sets."""
    together = np.concatenate(sets)  # (tags of all sites, 2)
    together = together[np.lexsort((together[:, 1], together[:, 0]))]
    starts = np.flatnonzero(np.r_[True, np.any(together[1:] != together[:-1], axis=1)])
    times = np.diff(np.r_[starts, len(together)])
    histogram = {number: int(np.sum(times == number)) for number in range(1, len(sets) + 1)}
    return together[starts[times >= threshold]].astype(">u8"), histogram


def ranks_of(tags: np.ndarray, passed: np.ndarray) -> np.ndarray:
    """For each tag its rank among those that passed, or NOT_PASSED."""
    found = np.full(len(tags), NOT_PASSED, np.uint32)
    rank = {row.tobytes(): number for number, row in enumerate(passed)}
    for number, row in enumerate(tags):
        found[number] = rank.get(row.tobytes(), NOT_PASSED)
    return found


class Hub:
    """The sets as they come in, and the answers."""

    def __init__(
        self,
        agreement: Agreement,
        *,
        folder: Path | None = None,
        now: Now = utc_now,
        running: Callable[[], float] = running_seconds,
    ):
        self.agreement = agreement
        self.expiry = Expiry(agreement.expires, now=now, running=running)
        self.store = Store(folder, agreement=agreement, role="hub", tables=TABLES)
        if self.finished:  # killed between the last word and the erasing
            self.erase()

    def begin(self, site: str, *, commitment: str, batches: int) -> list[int]:
        """Bind a site to its set; answers which batches are still to come."""
        self._open(site)
        if batches != padded_batches(batches) or not 1 <= batches <= self.agreement.quota:
            raise AgreementError(
                f"site {site} announced {batches} batches; sets are padded to 1, 2, 3, 4, 6, 8, … batches, "
                f"{self.agreement.quota} at most",
                status=429,
            )
        with self.store.transaction() as database:
            before = self.store.rows("SELECT commitment, batches FROM submission WHERE site = ?", site)
            if before and before[0] != (commitment, batches):
                raise AgreementError(f"site {site} has bound itself to another set of words; a set cannot change")
            database.execute("INSERT OR IGNORE INTO submission VALUES (?, ?, ?, 0)", (site, commitment, batches))
        there = {number for (number,) in self.store.rows("SELECT number FROM tags WHERE site = ?", site)}
        return [] if self._complete(site) else [number for number in range(batches) if number not in there]

    def put(self, site: str, number: int, body: bytes) -> None:
        """One batch of a site's tags."""
        with self.store.lock:
            self._open(site)
            if not self._keep(site, number, body):
                raise AgreementError(
                    f"the tags of site {site} are not those it bound itself to, each once and in ascending order; "
                    "they are dropped",
                    status=422,
                )

    def _keep(self, site: str, number: int, body: bytes) -> bool:
        """Store a batch; False where it completes a set that is not the one announced, which is dropped."""
        batch = self.agreement.batch
        announced = self.store.rows("SELECT commitment, batches, complete FROM submission WHERE site = ?", site)
        if not announced:
            raise AgreementError(f"site {site} must first bind itself to its set")
        commitment, batches, complete = announced[0]
        if not 0 <= number < batches:
            raise AgreementError(f"site {site} announced {batches} batches and sent batch {number}", status=429)
        if len(body) != batch * TAG:
            raise AgreementError(
                f"batch {number} of site {site} has {len(body)} bytes; a batch is {batch} tags of {TAG}",
                status=413 if len(body) > batch * TAG else 400,
            )
        before = self.store.rows("SELECT body FROM tags WHERE site = ? AND number = ?", site, number)
        if before and before[0][0] == body:
            return True  # its answer was lost on the way
        if before or complete:
            raise AgreementError(f"site {site} sent another batch {number} before; a set of words cannot change")
        with self.store.transaction() as database:
            database.execute("INSERT INTO tags VALUES (?, ?, ?)", (site, number, body))
            rows = self.store.rows("SELECT body FROM tags WHERE site = ? ORDER BY number", site)
            if len(rows) < batches:
                return True
            whole = b"".join(body for (body,) in rows)
            if ascending(as_array(whole)) and hashlib.sha256(whole).hexdigest() == commitment:
                database.execute("UPDATE submission SET complete = 1 WHERE site = ?", (site,))
                self._count(database)
                return True
            database.execute("DELETE FROM tags WHERE site = ?", (site,))
            return False

    def _count(self, database) -> None:
        """Once the last set is complete: which tags passed."""
        if self.waiting_for:
            return
        passed, histogram = count(
            [self._tags(site) for site in self.agreement.sites], threshold=self.agreement.threshold
        )
        database.execute("INSERT INTO passed VALUES (?)", (passed.tobytes(),))
        self.store.set_value("histogram", json.dumps(histogram))

    def result(self, site: str) -> bytes | None:
        """How many words passed, their order's sha256, and a place for each tag of the site; None until all are in."""
        self._open(site)
        if not self._complete(site):
            raise AgreementError(f"site {site} has not sent its whole set; it is answered when it has")
        passed = self.store.rows("SELECT body FROM passed")
        if not passed:
            return None
        body: bytes = passed[0][0]
        found = ranks_of(self._tags(site), as_array(body))
        total = len(body) // TAG
        return total.to_bytes(4, "little") + hashlib.sha256(body).digest() + found.astype("<u4").tobytes()

    def received(self, site: str) -> None:
        """A site has its answer on disk; when all have, the tags are erased."""
        if site not in self.agreement.sites:
            raise AgreementError("no such site in this agreement", status=403)
        with self.store.lock:
            if self.finished:
                return
            if not self.store.rows("SELECT 1 FROM passed"):
                raise AgreementError(f"site {site} cannot have received what is not there yet")
            with self.store.transaction() as database:
                database.execute("INSERT OR IGNORE INTO received VALUES (?)", (site,))
            if self.finished:
                self.erase()

    def _tags(self, site: str) -> np.ndarray:
        rows = self.store.rows("SELECT body FROM tags WHERE site = ? ORDER BY number", site)
        return as_array(b"".join(body for (body,) in rows))

    def _complete(self, site: str) -> bool:
        return bool(self.store.rows("SELECT 1 FROM submission WHERE site = ? AND complete = 1", site))

    def _open(self, site: str) -> None:
        if site not in self.agreement.sites:
            raise AgreementError("no such site in this agreement", status=403)
        if self.expired:
            if self.finished:
                self.erase()
            raise AgreementError(f"the agreement is over: {self.expiry.sentence()}; nothing is answered", status=410)
        if self.finished:
            raise AgreementError("the agreement is over; the hub has erased its tags", status=410)

    @property
    def waiting_for(self) -> list[str]:
        """The sites whose set is not complete."""
        return [site for site in self.agreement.sites if not self._complete(site)]

    @property
    def finished(self) -> bool:
        received = {site for (site,) in self.store.rows("SELECT site FROM received")}
        return received == set(self.agreement.sites) or self.expiry.certain

    @property
    def expired(self) -> bool:
        """Whether the clock says so. A person decides whether it is right, unless this server ran past the end."""
        return self.expiry.passed

    def erase(self) -> None:
        with self.store.transaction() as database:
            database.execute("DELETE FROM tags")
            database.execute("DELETE FROM passed")

    def counts(self) -> HubCounts:
        """What the operator may keep."""
        sizes = self.store.rows("SELECT site, batches FROM submission ORDER BY site")
        histogram = parse_json(self.store.value("histogram") or "{}")
        return HubCounts(
            agreement=self.agreement.id,
            threshold=self.agreement.threshold,
            padded_sizes={site: batches * self.agreement.batch for site, batches in sizes},
            tags_at_sites={int(number): tags for number, tags in histogram.items()},
            passed=sum(tags for number, tags in histogram.items() if int(number) >= self.agreement.threshold),
        )
