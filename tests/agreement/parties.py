"""Small agreements to test with."""

import hashlib
import random

from pathveil.agreement.agreement import Agreement
from pathveil.agreement.hub import TAG
from pathveil.agreement.keyholder import KeyHolder
from pathveil.agreement.offer import made_up_offers

OFFERS, SECRETS = made_up_offers("hub", "north", "south", seed=b"s" * 32)  # certificates that no test can reach
HUB_OFFER, NORTH, SOUTH = OFFERS


def terms(sites=("R1", "R2", "R3"), *, batch=8, cap=64, holders=(NORTH, SOUTH), hub=HUB_OFFER, **options) -> Agreement:
    return Agreement.propose(sites=sites, holders=holders, hub=hub, batch=batch, cap=cap, **options)


def key_holder(agreement, name="north", *, folder=None, **options) -> KeyHolder:
    """A key holder of ``terms()``; in a folder as its offer would have left it."""
    if folder is None:
        return KeyHolder(agreement, name, secret=SECRETS[name], **options)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "state.sqlite").exists():
        (folder / "key").write_bytes(SECRETS[name])
        (folder / "key").chmod(0o600)
    return KeyHolder(agreement, name, folder=folder, **options)


def make_counts(sites=4, words=40, seed=0) -> dict[str, dict[str, int]]:
    """Words that sites share in part, in 1 to 12 cases each."""
    draw = random.Random(seed)
    shared = [f"word{number}" for number in range(words)]
    return {
        f"R{site}": {word: draw.randint(1, 12) for word in draw.sample(shared, words * 2 // 3)}
        for site in range(1, sites + 1)
    }


def plain_intersection(counts, *, threshold, min_cases) -> set[str]:
    """The oracle: words in at least ``min_cases`` cases at each of at least ``threshold`` sites."""
    words = {word for site in counts.values() for word in site}
    return {word for word in words if sum(site.get(word, 0) >= min_cases for site in counts.values()) >= threshold}


def tag_set(numbers, size) -> bytes:
    """A site's tags, made up: given numbers, then dummies, ascending."""
    draw = random.Random(repr(sorted(numbers)))
    tags = [number.to_bytes(TAG, "big") for number in numbers]
    tags += [b"\xff" + draw.randbytes(TAG - 1) for _ in range(size - len(tags))]
    return b"".join(sorted(tags))


def digest(tags: bytes) -> str:
    return hashlib.sha256(tags).hexdigest()
