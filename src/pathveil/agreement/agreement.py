"""What all parties sign up to, and the tokens by which servers know sites.

One file, ``agreement.json``, is handed to everyone; its sha256 goes with every request, so a party holding another
version is refused. It names each server by its address, by the one certificate that it shows (another server's
authority vouches for nothing) and, for a key holder, by its public key. People sign it: a party that takes part says
whose signatures, or which sha256, it was told to expect. Sizes are told only roughly: a site's set is padded with
dummies to 1, 2, 3, 4, 6, 8, 12, 16, … batches.

>>> [padded_batches(batches) for batches in (0, 1, 5, 59, 65)]
[1, 1, 6, 64, 96]
>>> from pathveil.agreement.offer import made_up_offers
>>> (hub, *holders), _ = made_up_offers("hub", "north", "south")
>>> terms = Agreement.propose(sites=["R1", "R2", "R3"], hub=hub, holders=holders)
>>> terms.threshold, terms.min_cases, terms.quota
(3, 5, 64)
>>> Agreement.propose(sites=["R1", "R2", "R3"], hub=hub, holders=[], threshold=2)
Traceback (most recent call last):
pathveil.errors.UsageError: threshold 2 is below 3: a site would learn which of its words one single other site holds; \
give allow_small_threshold (--allow-small-k) to accept that
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from pathveil.agreement import oprf
from pathveil.agreement.offer import HUB, NAME, Offer, Pinned, validated
from pathveil.agreement.results import TokenFiles
from pathveil.errors import AgreementError, UsageError
from pathveil.files import write_json, write_text
from pathveil.signatures import PrivateKey, PublicKey, holds, sign_for
from pathveil.untrusted import bounds, parse_json, read_bytes

FORMAT = "pathveil-agreement/2"


class Signature(BaseModel):
    """Someone's signature under the terms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str
    public_key: str  # PublicKey.digits
    signature: str


class Agreement(BaseModel):
    """The terms; see ``propose`` for how they are made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["pathveil-agreement/2"] = FORMAT
    id: str  # random, so that two agreements with equal terms differ
    sites: tuple[str, ...]
    holders: dict[str, Pinned]  # by name; asked in this order
    hub: Pinned
    threshold: int = 3  # k: sites that must hold a word
    min_cases: int = 5  # m: cases of a site that must hold a word before the site submits it
    cap: int = 65_536  # most words a site submits
    batch: int = 1_024  # points or tags a request, always exactly
    expires: datetime  # servers erase everything then, finished or not
    allow_small_threshold: bool = False
    signatures: tuple[Signature, ...] = ()  # under all of the above

    @classmethod
    def propose(
        cls,
        *,
        sites: Iterable[str],
        holders: Iterable[Offer],
        hub: Offer,
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
        offered = list(holders)
        if len({offer.name for offer in offered}) != len(offered):
            raise UsageError("two key holders have the same name; each server makes its offer under a name of its own")
        if hub.name != HUB:
            raise UsageError(f"the offer of {hub.name!r} is a key holder's; the hub offers under the name 'hub'")
        terms = cls(
            id=secrets.token_hex(16),
            sites=tuple(sites),
            holders={offer.name: offer.pinned() for offer in offered},
            hub=hub.pinned(),
            threshold=threshold,
            min_cases=min_cases,
            cap=cap,
            batch=batch,
            expires=datetime.now(UTC).replace(microsecond=0) + timedelta(days=days),
            allow_small_threshold=allow_small_threshold,
        )
        terms.check()
        from pathveil.agreement.certificates import check_lasts

        for name in terms.servers:
            check_lasts(name, terms.server(name).certificate, terms.expires)
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
                    f"{name[:40]!r} cannot name a site or key holder: letters, digits, '_', '.' or '-', not 'hub'"
                )
        if len(set(names)) != len(names):
            raise UsageError("two parties have the same name; sites and key holders need a name each")
        self._check_servers()
        if self.min_cases < 1:
            raise UsageError(f"a minimum of {self.min_cases} cases means nothing; it is at least 1 and 5 by default")
        if not 1 <= self.batch <= oprf.MAX_BATCH:
            raise UsageError(f"a batch of {self.batch} is out of range: from 1 to {oprf.MAX_BATCH}")
        if self.cap < 1:
            raise UsageError(f"a cap of {self.cap} words a site lets nothing through")

    def _check_servers(self) -> None:
        for name in self.servers:
            self.server(name).check(name)
        pinned = [self.server(name) for name in self.servers]
        if len({urlsplit(server.address).netloc for server in pinned}) != len(pinned):
            raise UsageError("the hub and the key holders must be different servers, best in different organisations")
        if len({server.der for server in pinned}) != len(pinned):
            raise UsageError("two servers show the same certificate; who runs one could pass for the other")
        if len({server.public_key for server in self.holders.values()}) != len(self.holders):
            raise UsageError("two key holders have the same public key, which is one key in two hands")

    @property
    def servers(self) -> tuple[str, ...]:
        """The hub and the key holders, by name."""
        return (HUB, *self.holders)

    @property
    def quota(self) -> int:
        """Batches a site may have answered, at most: what its cap needs once padded."""
        return padded_batches(-(-self.cap // self.batch))

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self._canonical()).hexdigest()

    def _canonical(self) -> bytes:
        terms = self.model_dump(mode="json", exclude={"signatures"})
        return json.dumps(terms, sort_keys=True, separators=(",", ":")).encode()

    def signed(self, *, by: str, key: PrivateKey) -> "Agreement":
        """The same terms with one signature more; signing again with the same key changes nothing."""
        if not NAME.fullmatch(by):
            raise UsageError(f"{by!r} cannot name a signer: letters, digits, '_', '.' or '-'")
        public = key.public.digits
        others = tuple(one for one in self.signatures if one.public_key != public)
        made = Signature(by=by, public_key=public, signature=sign_for(self._canonical(), purpose="agreement", key=key))
        return self.model_copy(update={"signatures": (*others, made)})

    def expect(self, *, sha256: str | None = None, signers: Sequence[PublicKey] = ()) -> None:
        """Refuse terms that are not those a party was told of: by sha256, or by public keys that must have signed.

        The file comes through others' hands, and it says whom to trust: so it is believed only for something that came
        another way.
        """
        if sha256 is None and not signers:
            raise UsageError(
                "say how you know this agreement: by its sha256 as others read it out to you (--sha256), or by the "
                "public key of someone who signed it (--signed-by)"
            )
        if sha256 is not None and not hmac.compare_digest(sha256.strip().lower().encode(), self.sha256.encode()):
            raise UsageError("the agreement's sha256 is another one than you were told; somebody has other terms")
        signed = {
            one.public_key
            for one in self.signatures
            if holds(one.signature, self._canonical(), purpose="agreement", public_key=one.public_key)
        }
        missing = [key for key in signers if key.digits not in signed]
        if missing:
            raise UsageError(
                f"the agreement is not signed with the key {missing[0].sha256[:16]}…, or was changed since; do not "
                "use it"
            )

    def server(self, name: str) -> Pinned:
        """The hub or a key holder."""
        return self.hub if name == HUB else self.holders[name]

    def save(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def load(cls, path: Path) -> "Agreement":
        terms = validated(cls, path, "an agreement")
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
    if server not in agreement.servers:
        raise UsageError(f"--server {server}: the agreement's servers are {', '.join(agreement.servers)}")
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
        digests = parse_json(read_bytes(path, most=bounds.SMALL_BYTES))
    except (OSError, ValueError):
        raise UsageError(f"{path}: is not a file of token digests; 'pathveil vocab agree tokens' writes one") from None
    if not isinstance(digests, dict) or set(digests) != set(agreement.sites):
        raise UsageError(f"{path}: must hold one digest for each of the agreement's {len(agreement.sites)} sites")
    if not all(isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) for digest in digests.values()):
        raise UsageError(f"{path}: a digest is the sha256 of a token, 64 hexadecimal digits")
    return digests
