"""A key holder: multiplies blinded points by its key, proves that it did, counts, and forgets.

It sees uniformly random points and never a word or a tag. Its key is made with its offer, serves the one agreement that
pins its public key, and is erased when every site is done or the agreement expires. What it must get right besides is
arithmetic: each site has a quota of batches; each batch has exactly the agreed number of distinct elements, none the
identity; a batch belongs to one site and one number for good. The same batch under the same number is answered again,
because an answer can be lost on the way, and that tells the site nothing new.

>>> from pathveil.agreement import oprf
>>> from pathveil.agreement.agreement import Agreement
>>> from pathveil.agreement.offer import made_up_offers
>>> (hub, *holders), secrets = made_up_offers("hub", "a", "b")
>>> terms = Agreement.propose(sites=["R1", "R2", "R3"], hub=hub, holders=holders, batch=2, cap=2)
>>> holder = KeyHolder(terms, "a", secret=secrets["a"])
>>> sent = oprf.random_point() + oprf.random_point()
>>> proof, points = split_answer(holder.answer("R1", 0, sent), terms.batch)
>>> oprf.verify(holder.public_key, split(sent), points, proof)
True
>>> holder.answer("R1", 1, oprf.random_point() * 2)
Traceback (most recent call last):
pathveil.errors.AgreementError: site R1 asked for batch 1, but its quota is 1 batches of 2
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from pathveil.agreement import oprf
from pathveil.agreement.agreement import Agreement
from pathveil.agreement.expiry import Expiry, Now, running_seconds, utc_now
from pathveil.agreement.offer import KEY_FILE
from pathveil.agreement.store import Store, erase_file
from pathveil.errors import AgreementError, UsageError

TABLES = """
CREATE TABLE answered (site TEXT, number INTEGER, digest TEXT UNIQUE, times INTEGER, PRIMARY KEY (site, number));
CREATE TABLE done (site TEXT PRIMARY KEY)
"""
ERASED = "the key is erased"
MAX_TIMES = 10  # answers to one batch: enough for any bad line, too few to keep a server busy


def split(points: bytes) -> list[bytes]:
    return [points[start : start + oprf.POINT] for start in range(0, len(points), oprf.POINT)]


def split_answer(answer: bytes, batch: int) -> tuple[bytes, list[bytes]]:
    """A key holder's answer as its proof and its points; a list of the wrong length for bytes of the wrong length."""
    return answer[: oprf.PROOF], split(answer[oprf.PROOF : oprf.PROOF + (batch + 1) * oprf.POINT])


class KeyHolder:
    """One key, its counts, and when it is over."""

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        *,
        folder: Path | None = None,
        secret: bytes | None = None,  # of a simulation; else the folder's key file is read
        now: Now = utc_now,
        running: Callable[[], float] = running_seconds,
    ):
        if name not in agreement.holders:
            raise AgreementError(f"{name!r} is not one of the agreement's key holders")
        self.agreement, self.name = agreement, name
        self.expiry = Expiry(agreement.expires, now=now, running=running)
        self.public_key = bytes.fromhex(agreement.holders[name].public_key or "")
        self.store = Store(folder, agreement=agreement, role=f"key holder {name}", tables=TABLES)
        self.key_file = None if folder is None else folder / KEY_FILE
        self._secret: bytes | None = None
        if self.finished or self.store.value(ERASED):  # killed between the last word and the erasing
            self.erase()
            return
        try:
            self._secret = self._own_key(secret)
        except UsageError:
            self.store.close()
            raise

    def _own_key(self, secret: bytes | None) -> bytes:
        """The secret key, which must belong to the public key that the agreement pins."""
        if secret is None and self.key_file is not None:
            try:
                secret = self.key_file.read_bytes()
            except OSError:
                raise UsageError(
                    f"{self.key_file.parent}: holds no key of a key holder; give the folder in which the offer of "
                    f"{self.name} was made"
                ) from None
        if secret is None or len(secret) != oprf.SCALAR or oprf.public_of(secret) != self.public_key:
            raise UsageError(
                f"the key of {self.name} is not the one that the agreement pins; give the folder in which its offer "
                "was made, or have the agreement proposed anew"
            )
        return secret

    def answer(self, site: str, number: int, sent: bytes) -> bytes:
        """The proof and the multiplied points, in the order sent."""
        secret = self._open(site)
        batch = self.agreement.batch
        if not 0 <= number < self.agreement.quota:
            raise AgreementError(
                f"site {site} asked for batch {number}, but its quota is {self.agreement.quota} batches of {batch}",
                status=429,
            )
        if len(sent) != batch * oprf.POINT:
            raise AgreementError(
                f"batch {number} of site {site} has {len(sent)} bytes; a batch is {batch} points of {oprf.POINT}",
                status=413 if len(sent) > batch * oprf.POINT else 400,
            )
        points = split(sent)
        if not all(map(oprf.is_element, points)):
            raise AgreementError(
                f"batch {number} of site {site} holds bytes that are no element of ristretto255, or the identity",
                status=422,
            )
        if len(set(points)) != batch:
            raise AgreementError(f"batch {number} of site {site} holds a point twice", status=422)
        self._count(site, number, hashlib.sha256(sent).hexdigest())
        multiplied = [oprf.multiply(secret, point) for point in points]
        return oprf.prove(secret, self.public_key, points, multiplied) + b"".join(multiplied)

    def _count(self, site: str, number: int, digest: str) -> None:
        """Charge a batch to a site, before it is answered; what was charged stays charged, whatever happens then."""
        with self.store.transaction() as database:
            seen = self.store.rows("SELECT site, number, times FROM answered WHERE digest = ?", digest)
            if seen and seen[0][:2] != (site, number):
                raise AgreementError(f"batch {number} of site {site} repeats a batch that was answered before")
            if seen and seen[0][2] >= MAX_TIMES:
                raise AgreementError(
                    f"batch {number} of site {site} was answered {MAX_TIMES} times already", status=429
                )
            if seen:
                database.execute("UPDATE answered SET times = times + 1 WHERE digest = ?", (digest,))
                return
            if self.store.rows("SELECT 1 FROM answered WHERE site = ? AND number = ?", site, number):
                raise AgreementError(
                    f"site {site} sent another batch {number} before; a set of words cannot change once it is sent"
                )
            database.execute("INSERT INTO answered VALUES (?, ?, ?, 1)", (site, number, digest))

    def done(self, site: str) -> None:
        """A site has all it needs; when all have, the key is erased."""
        if site not in self.agreement.sites:
            raise AgreementError("no such site in this agreement", status=403)
        with self.store.lock:
            if self.finished:
                return
            with self.store.transaction() as database:
                database.execute("INSERT OR IGNORE INTO done VALUES (?)", (site,))
            if self.finished:
                self.erase()

    def _open(self, site: str) -> bytes:
        if site not in self.agreement.sites:
            raise AgreementError("no such site in this agreement", status=403)
        if self.expired:
            if self.finished:
                self.erase()
            raise AgreementError(f"the agreement is over: {self.expiry.sentence()}; nothing is answered", status=410)
        if self.store.rows("SELECT 1 FROM done WHERE site = ?", site):
            raise AgreementError(f"site {site} has said that it is done; it is answered no more", status=410)
        if self._secret is None:
            raise AgreementError("the key of this agreement is erased; nothing is answered any more", status=410)
        return self._secret

    @property
    def waiting_for(self) -> list[str]:
        done = {site for (site,) in self.store.rows("SELECT site FROM done")}
        return [site for site in self.agreement.sites if site not in done]

    @property
    def finished(self) -> bool:
        return not self.waiting_for or self.expiry.certain

    @property
    def expired(self) -> bool:
        """Whether the clock says so. A person decides whether it is right, unless this server ran past the end."""
        return self.expiry.passed

    def erase(self) -> None:
        """Forget the key, in memory (as far as Python lets go of it) and on disk."""
        with self.store.lock:
            self._secret = None
            self.store.set_value(ERASED, "yes")  # before: a kill in between is then taken up
            if self.key_file is not None:
                erase_file(self.key_file)
