"""A site: its words to tags through every key holder, its tags to the hub, and the hub's answer to a vocabulary.

Only words held by at least m of the site's cases go, the commonest first where there are more than the cap. They are
put in random order and mixed with dummies up to a size on the ladder; a dummy is a random point and a random tag, which
nobody but the site can tell from a word. All of it is drawn once and kept, so that a site killed at any moment goes on
with the same points. A key holder's answer counts only with its proof, against the key that the agreement pins.

The vocabulary has a place for every word that passed anywhere. The site knows the words at its own places; the others
hold "agreed word N", which no report can contain (a token has no space), until sites publish them to each other.

>>> from pathveil.agreement.agreement import Agreement
>>> from pathveil.agreement.offer import made_up_offers
>>> (hub, *holders), _ = made_up_offers("hub", "a", "b")
>>> terms = Agreement.propose(sites=["R1", "R2", "R3"], hub=hub, holders=holders, batch=4)
>>> site = Site(terms, "R1", {"carcinoma": 40, "left": 12, "smith": 1})
>>> site.words, site.batches, len(site.points(0))
(2, 1, 128)
"""

import hashlib
import json
import random
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from pathveil.agreement import oprf
from pathveil.agreement.agreement import Agreement, padded_batches
from pathveil.agreement.hub import HEADER, NOT_PASSED, TAG
from pathveil.agreement.keyholder import split, split_answer
from pathveil.agreement.store import Store
from pathveil.errors import AgreementError, UsageError, VocabularyError
from pathveil.untrusted import parse_json
from pathveil.vocabulary.counts import WordCounts
from pathveil.vocabulary.words import Vocabulary

TABLES = """
CREATE TABLE entry (place INTEGER PRIMARY KEY, word TEXT, blind BLOB, tag BLOB);
CREATE INDEX by_tag ON entry (tag)
"""
UNNAMED = "agreed word {}"


def cases_of(counts: WordCounts) -> dict[str, int]:
    """A site's words and how many of its cases hold each, whatever registries its reports name."""
    return {word: int(held) for word, held in zip(counts.words, counts.cases.sum(axis=0), strict=True)}


def eligible(counts: Mapping[str, int], agreement: Agreement) -> list[str]:
    """The words a site may submit: in at least m cases, the cap's number at most, most cases first."""
    enough = [word for word, cases in counts.items() if cases >= agreement.min_cases and _is_text(word)]
    return sorted(enough, key=lambda word: (-counts[word], word))[: agreement.cap]


def _is_text(word: str) -> bool:
    """Whether a word can be written as UTF-8 and is of a length the RFC allows; broken characters cannot."""
    return 0 < len(word.encode(errors="replace")) < 65_536 and not any("\ud800" <= c <= "\udfff" for c in word)


class Site:
    """One registry's part in one agreement; made anew or, from its folder, taken up where it stopped."""

    def __init__(self, agreement: Agreement, name: str, counts: Mapping[str, int], *, folder: Path | None = None):
        if name not in agreement.sites:
            raise UsageError(f"{name!r} is not one of the agreement's sites")
        words = eligible(counts, agreement)
        if not words:
            raise VocabularyError(
                f"no word of site {name} is held by {agreement.min_cases} cases; there is nothing to agree on"
            )
        self.agreement, self.name = agreement, name
        self.left_out = sum(cases >= agreement.min_cases for cases in counts.values()) - len(words)
        self.store = Store(folder, agreement=agreement, role=f"site {name}", tables=TABLES)
        digest = hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()
        if self.store.value("words") is None:
            self._draw(words, digest)
        elif self.store.value("words") != digest:
            self.store.close()
            raise UsageError(
                f"{folder}: site {name} began this agreement with another set of words, and a set cannot change; "
                "give the same counts, or start a new agreement"
            )
        self.words = len(words)
        self.batches = padded_batches(-(-self.words // agreement.batch))

    def _draw(self, words: Sequence[str], digest: str) -> None:
        """Order, blinds and dummies, once and for all."""
        size = padded_batches(-(-len(words) // self.agreement.batch)) * self.agreement.batch
        entries: list[tuple[str | None, bytes, bytes | None]] = [(word, oprf.random_scalar(), None) for word in words]
        # A dummy's "blind" is the random point it is sent as.
        entries += [(None, oprf.random_point(), secrets.token_bytes(TAG)) for _ in range(size - len(words))]
        random.SystemRandom().shuffle(entries)
        with self.store.transaction() as database:
            database.executemany(
                "INSERT INTO entry VALUES (?, ?, ?, ?)", ((place, *entry) for place, entry in enumerate(entries))
            )
            self.store.set_value("words", digest)

    def _entries(self, number: int) -> list[tuple[str | None, bytes]]:
        first = number * self.agreement.batch
        return self.store.rows(
            "SELECT word, blind FROM entry WHERE place >= ? AND place < ? ORDER BY place",
            first,
            first + self.agreement.batch,
        )

    def pending(self) -> list[int]:
        """The batches that have no tags yet."""
        done = {int(number) for number in parse_json(self.store.value("tagged") or "[]")}
        return [number for number in range(self.batches) if number not in done]

    def points(self, number: int) -> bytes:
        """A batch for the first key holder: r·H(word) for words, what was drawn for dummies."""
        return b"".join(
            blind if word is None else oprf.blind(word.encode(), scalar=blind)[1]
            for word, blind in self._entries(number)
        )

    def check(self, holder: str, number: int, sent: bytes, answer: bytes) -> bytes:
        """The points of a key holder's answer, once its proof holds."""
        proof, points = split_answer(answer, self.agreement.batch)
        public = bytes.fromhex(self.agreement.holders[holder].public_key or "")
        if not oprf.verify(public, split(sent), points, proof):
            raise AgreementError(
                f"key holder {holder} answered batch {number} wrongly: its proof does not hold under the key that the "
                "agreement pins; nothing was sent to "
                "the hub, and the agreement cannot be finished with this key holder"
            )
        return b"".join(points)

    def finish(self, number: int, points: bytes) -> None:
        """Take the blinds off what the last key holder answered, and keep the tags."""
        first = number * self.agreement.batch
        tags = [
            (oprf.finalize(word.encode(), oprf.unblind(blind, point))[:TAG], first + position)
            for position, ((word, blind), point) in enumerate(zip(self._entries(number), split(points), strict=True))
            if word is not None
        ]
        with self.store.transaction() as database:
            database.executemany("UPDATE entry SET tag = ? WHERE place = ?", tags)
            done = {*parse_json(self.store.value("tagged") or "[]"), number}
            self.store.set_value("tagged", json.dumps(sorted(done)))

    def tags(self) -> bytes:
        """All tags, dummies' too, ascending: in an order that says nothing about the words'."""
        if self.pending():
            raise AgreementError(f"site {self.name} has no tags yet for {len(self.pending())} of its batches")
        return b"".join(tag for (tag,) in self.store.rows("SELECT tag FROM entry ORDER BY tag"))

    def vocabulary_from(self, result: bytes) -> Vocabulary:
        """The hub's answer as a vocabulary."""
        places = result[HEADER:]
        total = int.from_bytes(result[:4], "little")
        rows = self.store.rows("SELECT word FROM entry ORDER BY tag")
        if len(result) < HEADER or len(places) != 4 * len(rows):
            raise AgreementError("the hub's answer has the wrong length; ask again, or tell its operator")
        words = [UNNAMED.format(place) for place in range(total)]
        named = 0
        for position, (word,) in enumerate(rows):
            place = int.from_bytes(places[4 * position : 4 * position + 4], "little")
            if place == NOT_PASSED:
                continue
            if place >= total or word is None:
                raise AgreementError("the hub's answer is wrong: it passes a dummy, or a place that does not exist")
            words[place] = word
            named += 1
        terms = self.agreement
        return Vocabulary(
            words=tuple(words),
            method=f"agreed privately: at {terms.threshold} sites or more, in {terms.min_cases} cases or more at each",
            parameters={"threshold": terms.threshold, "min_cases": terms.min_cases, "cap": terms.cap},
            source={
                "agreement": terms.id,
                "id_space": result[4:HEADER].hex(),
                "site": self.name,
                "sites": len(terms.sites),
                "public_keys": {name: holder.public_key for name, holder in terms.holders.items()},
                "named": named,
            },
        )

    def erase(self) -> None:
        """Forget blinds, tags and order; the vocabulary is all that is left."""
        self.store.erase()


def publish(vocabularies: Sequence[Vocabulary]) -> Vocabulary:
    """Several sites' vocabularies of one agreement as one in which every place has its word.

    An explicit second step: whoever does it sees every word that passed, each held by at least k sites.
    """
    if not vocabularies:
        raise UsageError("give the vocabulary of at least one site")
    first = vocabularies[0]
    names: dict[int, str] = {}
    seen = [0] * len(first.words)
    for vocabulary in vocabularies:
        if "id_space" not in vocabulary.source or vocabulary.source["id_space"] != first.source.get("id_space"):
            raise VocabularyError("these vocabularies are not of one agreement: their id spaces differ")
        for place, word in enumerate(vocabulary.words):
            if word == UNNAMED.format(place):
                continue
            if names.setdefault(place, word) != word:
                raise VocabularyError(f"two sites have different words at place {place}; one of the files is wrong")
            seen[place] += 1
    missing = len(seen) - len(names)
    if missing:
        raise VocabularyError(
            f"{missing} of {len(seen)} agreed words are named by none of the {len(vocabularies)} files; "
            "give the vocabularies of more sites"
        )
    sites = sorted({str(vocabulary.source.get("site")) for vocabulary in vocabularies})
    if len(sites) == first.source.get("sites") and seen and min(seen) < first.parameters["threshold"]:
        raise VocabularyError("a word is named by fewer sites than agreed, though all are here; a file was altered")
    kept = ("agreement", "id_space", "sites", "public_keys")
    return Vocabulary(
        words=tuple(names[place] for place in range(len(seen))),
        method=first.method,
        parameters=first.parameters,
        source={**{key: first.source[key] for key in kept}, "published_by": sites},
    )
