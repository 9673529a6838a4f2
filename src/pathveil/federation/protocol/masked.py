"""Masked answers: a site's end, which hides its part of a sum, and the hub's, which reads the sum and nothing else.

When a run begins each site offers a session key, signed by its kit; the hub passes all offers on with its first
question, and sites that find them in order have masks (``masking``). From then on what a site answers is three arrays
of bytes: its masked ``update``, its masked ``facts``, and ``tags``, by which the hub sees that every pair of sites used
the same key and round. It adds the first two up and reads the sum.

A round needs every site's answer; there is no opening it without one. A site that is lost, or whose answer cannot be
used, stops the run. When it goes on, all processes are new and have new keys, so that the repeated round has fresh
masks.

Masks depend on the question too, so that only sites which were asked the same have masks that cancel: a hub that has
all but one site answer with nothing reads noise, and not that site's part.

What the hub cannot see in a sum, the site's own gate looks at before masking: that values are finite and of the right
shapes. It clips them to the range that the hub told. A site that leaves its gate out can put in any numbers it likes;
but sums go round at the end of their bits, so no number of a sum is larger than as many ranges as there are sites (to
the next power of two), and one that honest sites could not have made together is refused.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pathveil.errors import FederationError
from pathveil.federation import wire
from pathveil.federation.fixed_point import LARGEST, SMALLEST
from pathveil.federation.identity import Identity, Trust, verified
from pathveil.federation.masking import TAG, Masks, SessionKey
from pathveil.federation.protocol.course import Course, Exchange, documents_in
from pathveil.federation.protocol.message import Message
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.sums import Contribution, Sums, Total

ASKED = ("round", "do", "epoch", "turns", "counts", "ranges")  # that an answer depends on, beside parameters
OFFER = ("key", "signature", "certificate")  # what a site says about its key, beside its session


def byte_manifest(plan: Plan, sums: Sums, kind: str, moving: wire.Manifest) -> wire.Manifest:
    """The arrays of bytes of a masked answer to a kind of question."""
    numbers, facts = sums.shape(kind, moving)
    shapes = {"update": (numbers * sums.numbers.bytes,), "facts": (facts * sums.facts.bytes,)}
    return shapes | {"tags": (len(plan.sites), TAG)}


class SiteMasks:
    """A site's masks in one process of a run; ``identity`` signs, and where there is none, keys are not checked."""

    def __init__(self, plan: Plan, name: str, *, session: str, identity: Identity | None):
        self.plan, self.name, self.session, self.identity = plan, name, session, identity
        self.sums, self.key = Sums.of(plan.settings, sites=len(plan.sites), reuse=True), SessionKey()
        self.masks: Masks | None = None

    def offer(self) -> dict[str, str]:
        """This process's key, for the others."""
        public = self.key.public
        if self.identity is None:
            return {"key": public.hex()}
        return self.identity.signed(public, run=self.plan.run, session=self.session, name=self.name)

    def agree(self, offers: Any) -> None:
        """Take the keys of all sites of the plan, once: the hub cannot show others later."""
        if self.masks is not None:
            raise wire.PlanError("the hub shows the sites' keys a second time; refused")
        if not isinstance(offers, dict) or sorted(offers) != sorted(self.plan.sites):
            raise wire.PlanError("the hub does not show a key of every site of the plan; refused")
        try:
            public = {name: public_key(offers[name], self.plan, name, self.identity) for name in self.plan.sites}
        except FederationError as error:
            raise wire.PlanError(f"the hub shows a key that cannot be believed: {error}") from None
        self.masks = Masks(self.name, self.key, public, run=self.plan.run)

    def bind(self, question: Message) -> None:
        """Let the masks depend on what this site is asked; sites that are asked other things have others."""
        if self.masks is None:
            raise wire.PlanError("the hub asks for an answer before it has shown the sites' keys; refused")
        self.masks.bind(int(question.facts["round"]), parts_of(question))

    def exponents(self, told: Any, moving: wire.Manifest) -> Mapping[str, int]:
        """The ranges that the hub tells, if they are those of this round's arrays."""
        if not isinstance(told, dict) or told.keys() != moving.keys():
            raise wire.PlanError("the hub does not tell the range of every array of the round; refused")
        if not all(type(exponent) is int and SMALLEST <= exponent <= LARGEST for exponent in told.values()):
            raise wire.PlanError(
                f"the hub tells ranges that are not 2 to the power of {SMALLEST} to {LARGEST}; refused"
            )
        return told

    def arrays(self, part: Contribution, number: int) -> dict[str, np.ndarray]:
        """A round's answer as it leaves: bytes that are random to everyone but the sum. The part is used up."""
        if self.masks is None:
            raise wire.PlanError("the hub asks for an answer before it has shown the sites' keys; refused")
        tags = np.zeros((len(self.plan.sites), TAG), np.uint8)
        for place, other in enumerate(self.plan.sites):
            if other != self.name:
                tags[place] = np.frombuffer(self.masks.tag(other, number), np.uint8)
        sent = {"tags": tags}
        for name, numbers, form in (("update", part.update, self.sums.numbers), ("facts", part.facts, self.sums.facts)):
            words = self.masks.masked(form.words(numbers), form, number=number, part=name)
            sent[name] = form.packed(words)
        return sent


def parts_of(question: Message) -> list[bytes | memoryview]:
    """What all sites are asked alike, as bytes that can be read in one way only: facts, and arrays by their names."""
    arrays = dict(sorted(question.arrays.items()))
    shapes = {name: [str(array.dtype), array.shape] for name, array in arrays.items()}
    told = {name: question.facts.get(name) for name in ASKED}
    head = json.dumps({"facts": told, "arrays": shapes}, sort_keys=True).encode()
    flat = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays.values()]
    return [len(head).to_bytes(8, "little") + head, *flat]


def public_key(offer: Any, plan: Plan, name: str, identity: Identity | None) -> bytes:
    """The key of an offer that the hub shows, checked where there is something to check it by."""
    if not isinstance(offer, dict):
        raise FederationError(f"{name}: its key is not there; refused")
    if identity is not None:
        return verified(offer, run=plan.run, name=name, trust=identity.trust)
    try:
        return bytes.fromhex(offer["key"])
    except (KeyError, TypeError, ValueError):
        raise FederationError(f"{name}: its key is not one; refused") from None


class HubSum:
    """The hub's end: reads sums of masked answers."""

    def __init__(self, plan: Plan, *, trust: Trust | None = None):
        self.plan, self.trust = plan, trust
        self.sums = Sums.of(plan.settings, sites=len(plan.sites))

    def check_offer(self, site: str, hello: Message) -> None:
        """Refuse a key that the others would not believe, by the name of its site."""
        if self.trust is not None:
            verified(hello.facts, run=self.plan.run, name=site, trust=self.trust)

    def offers(self, hellos: Mapping[str, Message]) -> dict[str, dict[str, str]]:
        """All sites' keys, as they are passed on."""
        wanted = ("session", *OFFER)
        return {
            site: {name: hello.facts[name] for name in wanted if name in hello.facts} for site, hello in hellos.items()
        }

    def check(self, site: str, message: Message, kind: str, moving: wire.Manifest) -> None:
        """Refuse arrays that are not a masked answer to this kind of question."""
        manifest = byte_manifest(self.plan, self.sums, kind, moving)
        wire.check(message.arrays, manifest, sender=site, dtype=np.uint8)

    def total(self, course: Course, exchange: Exchange, answers: Sequence[tuple[str, Message]]) -> Total:
        """What the sum of all answers says; where their tags tell that it is none, a sentence with names."""
        self.compare_tags({site: message.arrays["tags"] for site, message in answers})
        added = Contribution(
            self.added([message.arrays["update"] for _, message in answers], "numbers"),
            self.added([message.arrays["facts"] for _, message in answers], "facts"),
        )
        moving = course.moving(exchange)
        exponents = course.exponents(exchange)
        return self.sums.read(exchange.kind, added, moving, exponents, documents=documents_in(course, exchange))

    def added(self, parts: Sequence[np.ndarray], form: str) -> np.ndarray:
        """The sum of masked words modulo 2ᵇ, as whole numbers."""
        kind = getattr(self.sums, form)
        total = kind.unpacked(parts[0])
        for part in parts[1:]:
            total = total + kind.unpacked(part)
        return kind.signed(kind.reduced(total))

    def compare_tags(self, tags: Mapping[str, np.ndarray]) -> None:
        """Every pair must have shown the same; a site that differs from all others is the one to look at."""
        places = {site: place for place, site in enumerate(self.plan.sites)}
        odd = [
            (one, two)
            for one in tags
            for two in tags
            if one < two and (tags[one][places[two]] != tags[two][places[one]]).any()
        ]
        if not odd:
            return
        blamed = [site for site in tags if len(tags) > 2 and all(site in pair for pair in odd)]
        if len(blamed) == 1:
            raise FederationError(f"{blamed[0]}: its masks are of another key or another round than the others'")
        pairs = ", ".join(f"{one} and {two}" for one, two in odd)
        raise FederationError(f"{pairs}: do not have the same masks; one of them used another key or another round's")
