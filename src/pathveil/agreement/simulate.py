"""All roles in one process: for tests, for studies, and to see what an agreement would give before making one.

The same objects as in a deployment, without the network between them. A pool of threads works on batches; libsodium
works outside Python's lock, so two threads keep two cores busy.

>>> counts = {"R1": {"left": 9, "smith": 9}, "R2": {"left": 7, "lobe": 5}, "R3": {"left": 5, "lobe": 6},
...           "R4": {"lobe": 8}}
>>> outcome = simulate(counts, threshold=3, batch=4, seed=b"doctest")
>>> sorted(outcome.vocabulary.words)
['left', 'lobe']
>>> sorted(outcome.sites["R1"].words)   # R1 has no 'lobe' and does not learn it
['agreed word 0', 'left']
"""

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from pathveil.agreement.agreement import Agreement
from pathveil.agreement.hub import TAG, Hub
from pathveil.agreement.keyholder import KeyHolder
from pathveil.agreement.offer import HUB, made_up_offers
from pathveil.agreement.results import HubCounts
from pathveil.agreement.site import Site, publish
from pathveil.progress import Progress, silent
from pathveil.vocabulary.counts import WordCounts
from pathveil.vocabulary.words import Vocabulary


@dataclass(frozen=True)
class Outcome:
    """What each party has at the end."""

    vocabulary: Vocabulary  # every word named
    sites: Mapping[str, Vocabulary]  # as each site has it
    left_out: Mapping[str, int]  # words above the cap
    hub: HubCounts


def simulate(
    counts: Mapping[str, Mapping[str, int]],
    *,
    threshold: int = 3,
    min_cases: int = 5,
    cap: int = 65_536,
    batch: int = 1_024,
    allow_small_threshold: bool = False,
    seed: bytes | None = None,
    workers: int = 2,
    progress: Progress = silent,
) -> Outcome:
    """Run an agreement between the sites whose words' case counts are given.

    With a seed the keys, hence the words' order, are the same every time; order of sending, blinds and dummies are
    random regardless, and leave no trace in the result.
    """
    derived = None if seed is None else hashlib.sha256(seed).digest()
    (hub_offer, *offers), secrets = made_up_offers(HUB, "holder-1", "holder-2", seed=derived)
    agreement = Agreement.propose(
        sites=counts,
        holders=offers,
        hub=hub_offer,
        threshold=threshold,
        min_cases=min_cases,
        cap=cap,
        batch=batch,
        allow_small_threshold=allow_small_threshold,
    )
    holders = [KeyHolder(agreement, name, secret=secrets[name]) for name in agreement.holders]
    hub = Hub(agreement)
    sites = [Site(agreement, name, words) for name, words in counts.items()]
    batches = [(site, number) for site in sites for number in site.pending()]

    def tag(task: tuple[Site, int]) -> None:
        site, number = task
        points = site.points(number)
        for holder in holders:
            points = site.check(holder.name, number, points, holder.answer(site.name, number, points))
        site.finish(number, points)

    with ThreadPoolExecutor(workers) as pool:
        for done, _ in enumerate(pool.map(tag, batches), start=1):
            progress("tagging words", done, len(batches))
    for site in sites:
        for holder in holders:
            holder.done(site.name)
        submit(site, hub)
    vocabularies = {}
    for site in sites:
        result = hub.result(site.name)
        assert result is not None  # every site has submitted
        vocabularies[site.name] = site.vocabulary_from(result)
    counted = hub.counts()
    for site in sites:
        hub.received(site.name)
        site.erase()
    return Outcome(
        vocabulary=publish(list(vocabularies.values())),
        sites=vocabularies,
        left_out={site.name: site.left_out for site in sites},
        hub=counted,
    )


def by_registry(counts: WordCounts) -> dict[str, dict[str, int]]:
    """For each registry its words and how many of its cases hold each, as a site would count them."""
    return {
        registry: {counts.words[place]: int(held[place]) for place in np.flatnonzero(held)}
        for registry, held in zip(counts.registry_names, counts.cases, strict=True)
    }


def submit(site: Site, hub: Hub) -> None:
    tags = site.tags()
    size = site.agreement.batch * TAG
    commitment = hashlib.sha256(tags).hexdigest()
    for number in hub.begin(site.name, commitment=commitment, batches=site.batches):
        hub.put(site.name, number, tags[number * size : (number + 1) * size])
