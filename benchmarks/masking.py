"""Masks beside the training that they hide: what a round of masked sums costs, of all sites and the hub together.

An exchange of the paper's adversary is trained by as many sites as wanted: the discriminator's round, and one in which
each site takes several local steps on its share of a batch. The second one's updates, which are nearly all that
travels, are turned into whole numbers, masked by every pair's stream (which depends on the question, so that all
parameters are gone through once for each pair), packed, unpacked and added up, as over a network. Both are timed
alternately, with one thread, in CPU seconds: seven sites and an update of 17 MB unless told otherwise. Reports are made
up, as long as those of TCGA. The sum is held against that of the unmasked whole numbers.
"""

import argparse
import time
from typing import Any

import numpy as np

from _timing import alternate
from pathveil.progress import Progress, silent

CLASSES = {"site": 50, "histology": 100}
WORDS_A_REPORT = 600  # the mean of TCGA's


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sites", type=int, default=7, help="(default 7)")
    parser.add_argument("--words", type=int, default=13_000, help="of the vocabulary (default 13000: 17 MB)")
    parser.add_argument("--dim", type=int, default=300, help="of a word vector (default 300)")
    parser.add_argument("--filters", type=int, default=100, help="a window in each encoder (default 100)")
    parser.add_argument("--reports", type=int, default=100, help="of a site (default 100)")
    parser.add_argument("--local-steps", type=int, default=8, help="in the round (default 8)")
    parser.add_argument("--batch-size", type=int, default=64, help="reports a step, over all sites (default 64)")
    parser.add_argument("--bits", type=int, default=32, help="of a number: 16, 24 or 32 (default 32)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each (default 5)")


def made_up(options: argparse.Namespace, number: int):
    """Reports of random words, as long as real ones are."""
    from pathveil.vocabulary.encoded import EncodedCorpus

    rng = np.random.default_rng(number)
    lengths = rng.integers(WORDS_A_REPORT // 2, WORDS_A_REPORT * 3 // 2, options.reports)
    ids = np.minimum(rng.zipf(1.3, lengths.sum()), options.words - 1)
    return EncodedCorpus(
        ids=(2 + ids % (options.words - 2)).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        cases=np.arange(options.reports),
        registries=np.full(options.reports, number, np.int32),
        registry_names=tuple(f"S{place + 1}" for place in range(options.sites)),
        labels={task: rng.integers(0, classes, options.reports) for task, classes in CLASSES.items()},
        classes={task: tuple(map(str, range(classes))) for task, classes in CLASSES.items()},
        vocabulary_size=options.words,
    )


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    import torch

    from pathveil.federation.masking import Masks, SessionKey
    from pathveil.federation.networks import Networks
    from pathveil.federation.protocol.course import SharedPrivate, documents_in, weight_in
    from pathveil.federation.protocol.masked import parts_of
    from pathveil.federation.protocol.message import Message
    from pathveil.federation.protocol.site_work import SharedWork
    from pathveil.federation.settings import FederationSettings
    from pathveil.federation.site import Site
    from pathveil.federation.sums import Contribution, Sums

    torch.set_num_threads(1)
    shape = {"dim": options.dim, "filters": options.filters}
    settings = FederationSettings(
        **shape, bits=options.bits, local_steps=options.local_steps, batch_size=options.batch_size
    )
    names = [f"S{number + 1}" for number in range(options.sites)]
    networks = Networks(settings, options.words, CLASSES, 1)
    course = SharedPrivate(networks.shared(registries=options.sites), settings=settings, sites=options.sites)
    works = []
    for number, name in enumerate(names):
        told = {"name": name, "registry": number, "settings": settings, "seed": 1}
        site = Site(made_up(options, number), private=networks.private(number), **told)
        works.append(SharedWork(site, networks.shared(registries=options.sites)))
    exchanges = course.exchanges([work.documents for work in works])
    judge, exchange = exchanges[:2]  # the discriminator's round, and the encoders'
    arrays, moving, exponents = course.arrays(exchange), course.moving(exchange), course.exponents(exchange)
    sums = Sums.of(settings, sites=options.sites)
    own_sums = [Sums.of(settings, sites=options.sites, reuse=True) for _ in names]
    updates: list = [work.answer(exchange, arrays)[1] for work in works]
    keys = [SessionKey() for _ in names]
    public = {name: key.public for name, key in zip(names, keys, strict=True)}
    masks = [Masks(name, key, public, run="00") for name, key in zip(names, keys, strict=True)]
    weights = [weight_in(exchange, count) for count in course.counts]
    number = 0

    def train() -> None:
        for work in works:
            work.answer(judge, arrays)
            work.answer(exchange, arrays)

    def mask() -> np.ndarray:
        nonlocal number
        number += 1
        packed, told = [], []
        asked = Message({"round": number, "ranges": exponents} | exchange.facts(), arrays)
        for own, of_site, update, documents in zip(masks, own_sums, updates, weights, strict=True):
            own.bind(number, parts_of(asked))
            part = of_site.of_update(update, documents=documents, exponents=exponents)
            words = own.masked(sums.numbers.words(part.update), sums.numbers, number=number, part="update")
            packed.append(sums.numbers.packed(words))
            told.append(part.facts)
        total = sums.numbers.unpacked(packed[0]).copy()
        for data in packed[1:]:
            total += sums.numbers.unpacked(data)
        added = sums.numbers.signed(sums.numbers.reduced(total))
        facts = np.sum(told, axis=0)
        sums.read("round", Contribution(added, facts), moving, exponents, documents=documents_in(course, exchange))
        return added

    plain = sum(
        sums.of_update(update, documents=documents, exponents=exponents).update.astype(np.int64)
        for update, documents in zip(updates, weights, strict=True)
    )
    equal = bool((mask() == plain).all())
    things = {"training": train, "masking": mask}
    seconds = alternate(things, rounds=options.rounds, stage="rounds", progress=progress, clock=time.process_time)
    return {
        "sites": options.sites,
        "bits": options.bits,
        "megabytes": sums.weight(moving) / 1e6,
        "reports": options.reports,
        "local_steps": len(exchange.turns),
        "batch_size": options.batch_size,
        "seconds": seconds,
        "ratio": seconds["masking"] / seconds["training"],
        "equal": equal,
    }


def describe(result: dict[str, Any]) -> str:
    seconds = result["seconds"]
    return (
        f"{result['sites']} sites, {result['megabytes']:.1f} MB each ({result['bits']} bits a number), a round of "
        f"{result['local_steps']} local steps of {result['batch_size']} reports over all sites; median CPU seconds\n"
        f"training {seconds['training']:.2f}, masking and adding up {seconds['masking']:.2f}: "
        f"{result['ratio']:.3f} of a round\n"
        f"the sum {'is' if result['equal'] else 'IS NOT'} the unmasked one, every number"
    )
