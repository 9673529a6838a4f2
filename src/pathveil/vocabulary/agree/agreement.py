"""What all parties sign up to, and the tokens by which servers know sites.

One file, ``agreement.json``, is handed to everyone; its sha256 goes with every request, so a party holding another
version is refused. Sizes are told only roughly: a site's set is padded with dummies to 1, 2, 3, 4, 6, 8, 12, 16, …
batches.

>>> [padded_batches(batches) for batches in (0, 1, 5, 59, 65)]
[1, 1, 6, 64, 96]
>>> terms = Agreement.propose(
...     sites=["R1", "R2", "R3"], hub="https://hub.example:8440",
...     holders={"north": "https://north.example:8441", "south": "https://south.example:8442"})
>>> terms.threshold, terms.min_cases, terms.quota
(3, 5, 64)
>>> Agreement.propose(sites=["R1", "R2", "R3"], hub="https://hub.example", holders={}, threshold=2)
Traceback (most recent call last):
pathveil.errors.UsageError: threshold 2 is below 3: a site would learn which of its words one single other site holds; \
give allow_small_threshold (--allow-small-k) to accept that
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from pathveil.errors import AgreementError, UsageError, explained
from pathveil.files import write_json, write_text
from pathveil.vocabulary.agree.oprf import MAX_BATCH
from pathveil.vocabulary.agree.results import TokenFiles

FORMAT = "pathveil-agreement/1"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
HUB = "hub"  # the hub's name among the servers


class Agreement(BaseModel):
    """The terms; see ``propose`` for how they are made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["pathveil-agreement/1"] = FORMAT
    id: str  # random, so that two agreements with equal terms differ
    sites: tuple[str, ...]
    holders: dict[str, str]  # name of a key holder: its address; asked in this order
    hub: str  # address
    threshold: int = 3  # k: sites that must hold a word
    min_cases: int = 5  # m: cases of a site that must hold a word before the site submits it
    cap: int = 65_536  # most words a site submits
    batch: int = 1_024  # points or tags a request, always exactly
    expires: datetime  # servers erase everything then, finished or not
    allow_small_threshold: bool = False

    @classmethod
    def propose(
        cls,
        *,
        sites: Iterable[str],
        holders: Mapping[str, str],
        hub: str,
        threshold: int = 3,
        min_cases: int = 5,
        cap: int = 65_536,
        batch: int = 1_024,
        days: float = 7,
        allow_small_threshold: bool = False,
    ) -> "Agreement":
        """New terms with a fresh id, checked."""
        if not 0 < days <= 366:
            raise UsageError(f"an agreement of {days} days is out of range: more than 0 and at most 366")
        terms = cls(
            id=secrets.token_hex(16),
            sites=tuple(sites),
            holders=dict(holders),
            hub=hub,
            threshold=threshold,
            min_cases=min_cases,
            cap=cap,
            batch=batch,
            expires=datetime.now(UTC).replace(microsecond=0) + timedelta(days=days),
            allow_small_threshold=allow_small_threshold,
        )
        terms.check()
        return terms

    def check(self) -> None:
        """Say in one sentence what is wrong with the terms, if anything is."""
        names = [*self.sites, *self.holders]
        if self.threshold < 2:
            raise UsageError(f"threshold {self.threshold} agrees on nothing; a word needs at least 2 sites")
        if self.threshold < 3 and not self.allow_small_threshold:
            raise UsageError(
                f"threshold {self.threshold} is below 3: a site would learn which of its words one single other site "
                "holds; give allow_small_threshold (--allow-small-k) to accept that"
            )
        if self.threshold > len(self.sites):
            raise UsageError(f"threshold {self.threshold} is above the number of sites, {len(self.sites)}")
        if len(self.holders) < 2:
            raise UsageError(
                f"{len(self.holders)} key holders given, at least 2 are needed: one alone could, with the hub, "
                "try every word of a dictionary"
            )
        for name in names:
            if not NAME.fullmatch(name) or name == HUB:
                raise UsageError(
                    f"{name!r} cannot name a site or key holder: letters, digits, '_', '.' or '-', not 'hub'"
                )
        if len(set(names)) != len(names):
            raise UsageError("two parties have the same name; sites and key holders need a name each")
        addresses = [self.hub, *self.holders.values()]
        for address in addresses:
            parts = urlsplit(address)
            if parts.scheme != "https" or not parts.hostname or parts.path not in ("", "/") or parts.query:
                raise UsageError(f"{address!r} is not an address of the form https://host:port")
        if len({urlsplit(address).netloc for address in addresses}) != len(addresses):
            raise UsageError("the hub and the key holders must be different servers, best in different organisations")
        if self.min_cases < 1:
            raise UsageError(f"a minimum of {self.min_cases} cases means nothing; it is at least 1 and 5 by default")
        if not 1 <= self.batch <= MAX_BATCH:
            raise UsageError(f"a batch of {self.batch} is out of range: from 1 to {MAX_BATCH}")
        if self.cap < 1:
            raise UsageError(f"a cap of {self.cap} words a site lets nothing through")

    @property
    def quota(self) -> int:
        """Batches a site may have answered, at most: what its cap needs once padded."""
        return padded_batches(-(-self.cap // self.batch))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self._canonical()).hexdigest()

    def _canonical(self) -> bytes:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()

    def expired(self, now: datetime | None = None) -> bool:
        return (now or datetime.now(UTC)) >= self.expires

    def server(self, name: str) -> str:
        """The address of the hub or of a key holder."""
        return self.hub if name == HUB else self.holders[name]

    def save(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def load(cls, path: Path) -> "Agreement":
        try:
            terms = cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror}); expected an agreement file") from None
        except ValidationError as error:
            raise UsageError(f"{path}: is not an agreement: {explained(error, cls)}") from None
        if terms.expires.tzinfo is None:
            raise UsageError(f"{path}: 'expires' needs a time zone")
        terms.check()
        return terms


def padded_batches(batches: int) -> int:
    """Round up to 1, 2, 3, 4, 6, 8, 12, 16, …: there are so few sizes that a size tells little."""
    step = 1
    while True:
        for size in (step, step + step // 2):
            if size >= batches:
                return size
        step *= 2


def new_tokens(sites: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """A bearer token a site, and what a server keeps of them: their sha256."""
    tokens = {site: secrets.token_urlsafe(32) for site in sites}
    return tokens, {site: token_digest(token) for site, token in tokens.items()}


def write_tokens(agreement: Agreement, server: str, out: Path) -> TokenFiles:
    """Make the tokens by which a server knows its sites: ``tokens.json`` for it, SITE/SERVER.token for each site."""
    if server not in (HUB, *agreement.holders):
        raise UsageError(f"--server {server}: the agreement's servers are {', '.join((HUB, *agreement.holders))}")
    if (out / "tokens.json").exists():
        raise UsageError(f"{out / 'tokens.json'}: is already there; remove it to make new tokens")
    tokens, digests = new_tokens(agreement.sites)
    written = []
    for name, token in tokens.items():
        path = out / name / f"{server}.token"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_text(path, token + "\n", private=True)
        written.append(str(path))
    write_json(out / "tokens.json", digests, private=True)
    return TokenFiles(server=str(out / "tokens.json"), sites=written)


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def site_of_token(token: str, digests: Mapping[str, str]) -> str:
    """The site whose token this is; every digest is compared, so that time tells nothing."""
    given = token_digest(token)
    found = [site for site, digest in digests.items() if hmac.compare_digest(given, digest)]
    if not found:
        raise AgreementError("the token is not one of this server's; ask its operator for the site's token", status=401)
    return found[0]


def load_digests(path: Path, agreement: Agreement) -> dict[str, str]:
    """The token digests a server was given, one for each site of the agreement and for nobody else."""
    try:
        digests = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(f"{path}: is not a file of token digests; 'pathveil vocab agree tokens' writes one") from None
    if not isinstance(digests, dict) or set(digests) != set(agreement.sites):
        raise UsageError(f"{path}: must hold one digest for each of the agreement's {len(agreement.sites)} sites")
    if not all(isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) for digest in digests.values()):
        raise UsageError(f"{path}: a digest is the sha256 of a token, 64 hexadecimal digits")
    return digests
