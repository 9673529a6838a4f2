"""Training together equals training centrally, and every way of running it gives the same numbers."""

import math
import sys
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from pathveil.federation import embedded
from pathveil.federation.heads import features_of
from pathveil.federation.hub import schedule
from pathveil.federation.losses import orthogonality
from pathveil.federation.plain import PlainSite, train_alone
from pathveil.federation.protocol import course
from pathveil.federation.protocol.course import SharedPrivate
from pathveil.federation.protocol.site_work import SharedWork
from pathveil.federation.settings import FederationSettings
from pathveil.federation.shares import steps_of
from pathveil.federation.site import Site, Turn
from pathveil.model import TokenBatch
from pathveil.model.shared_private import Private, Shared
from pathveil.vocabulary.encoded import EncodedCorpus

SHAPE = {"vocabulary_size": 40, "classes": {"site": 3, "side": 2}, "dim": 6, "filters": 4, "kernel": "reference"}
SMALL = {"dim": 6, "filters": 4, "epochs": 2, "batch_size": 12}


def reports(documents: int, seed: int) -> EncodedCorpus:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 15, documents)
    return EncodedCorpus(
        ids=rng.integers(2, 40, lengths.sum()).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        cases=np.arange(documents) // 2,
        registries=np.full(documents, seed),
        registry_names=("R0", "R1", "R2"),
        labels={"site": rng.integers(0, 3, documents), "side": rng.integers(-1, 2, documents)},
        classes={"site": ("a", "b", "c"), "side": ("l", "r")},
        vocabulary_size=40,
    )


def together(settings: FederationSettings, *, sites: int = 3, sparse: bool = True) -> tuple[list[Site], Shared]:
    shared = Shared(
        registries=sites, hidden=settings.hidden, common_heads=settings.common_heads, seed=7, sparse=sparse, **SHAPE
    )
    members = [
        Site(
            reports(20 + 8 * number, number),
            name=f"R{number}",
            registry=number,
            private=Private(seed=number, sparse=sparse, **SHAPE),
            settings=settings,
            seed=5,
        )
        for number in range(sites)
    ]
    return members, shared


SETTINGS = {
    "paper": FederationSettings(**SMALL),
    "strong": FederationSettings.strong(**SMALL, discriminator_steps=3, hidden=5),
    "added": FederationSettings.strong(**SMALL, discriminator_steps=2, hidden=5, added_heads=True, keep_from=0.5),
    "alternating": FederationSettings(**SMALL, alternating=True, discriminator_steps=2, optimiser="adam"),
    "at once": FederationSettings(**SMALL, private_every=1, scale="raw", orthogonality=1e-4),
    "by twos": FederationSettings(**SMALL, private_every=2, optimiser="adam", scale="sum"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_joint_training_equals_training_by_messages(name):
    settings = SETTINGS[name]
    results, traffic = [], []
    for joint in (True, False):
        sites, shared = together(settings)
        hub, history = embedded.train(sites, shared, settings=settings, joint=joint)
        results.append((hub.arrays(), [site.best for site in sites], history.validation_loss))
        traffic.append((history.rounds, history.sent, history.received))
    (shared1, private1, losses1), (shared2, private2, losses2) = results
    assert traffic[0] == traffic[1]  # what the quick way says would have travelled did travel
    np.testing.assert_allclose(losses1, losses2, rtol=1e-5)
    for key in shared1:
        np.testing.assert_allclose(shared1[key], shared2[key], atol=2e-5, err_msg=key)
    for one, two in zip(private1, private2, strict=True):
        for key in one:
            np.testing.assert_allclose(one[key], two[key], atol=2e-5, err_msg=key)


def test_messages_equal_central_adversarial_training_step_by_step():
    """The oracle is written out here: one graph over all registries, PyTorch's own Adadelta, no hub and no site."""
    settings = FederationSettings(**SMALL, dropout=0.0, private_every=1)
    sites, shared = together(settings)
    together_course = SharedPrivate(shared, settings=settings, sites=len(sites))
    works = [SharedWork(site, deepcopy(shared)) for site in sites]
    central, _ = together(settings)
    everything = together(settings)[1]
    modules = [everything, *(site.private for site in central)]
    for module in modules:
        module.encoder.sparse = False
    optimiser = torch.optim.Adadelta([p for m in modules for p in m.parameters()], lr=1.0, rho=0.9, eps=1e-6)
    for exchange in together_course.exchanges([site.documents for site in sites]):
        if exchange.kind != "round":
            continue
        together_course.take(exchange, embedded.ask_each(together_course, works, exchange))
        turns = exchange.turns
        optimiser.zero_grad()
        sizes = [len(site.rows(turns[0])) for site in central]
        for site, size in zip(central, sizes, strict=True):
            taken = site.reports.take(site.rows(turns[0]))
            batch = TokenBatch(ids=taken.ids, offsets=taken.offsets)
            s, h = everything.features(batch), site.private.features(batch)
            share = size / sum(sizes)
            scores = site.private.logits(s, h)
            losses = []
            for task, values in scores.items():
                label = torch.from_numpy(taken.labels[task].astype(np.int64))
                if (label >= 0).any():
                    losses.append(torch.nn.functional.cross_entropy(values, label, ignore_index=-1))
            registry = torch.full((size,), site.registry)
            own = sum(losses) / len(losses) + settings.orthogonality * orthogonality(s, h)
            against = torch.nn.functional.cross_entropy(everything.discriminate(s), registry)
            # Gradients by hand: the private part of its own loss, the encoder of −λ times the discriminator's loss.
            for parameter, gradient in zip(
                site.private.parameters(),
                torch.autograd.grad(own, site.private.parameters(), retain_graph=True),
                strict=True,
            ):
                parameter.grad = gradient
            encoder = list(everything.encoder.parameters())
            push = torch.autograd.grad(own - settings.adversary * against, encoder, retain_graph=True)
            judge = list(everything.discriminator.parameters())
            for parameter, gradient in zip(
                [*encoder, *judge], [*push, *torch.autograd.grad(against, judge)], strict=True
            ):
                parameter.grad = share * gradient + (parameter.grad if parameter.grad is not None else 0)
        optimiser.step()
    for name, parameter in everything.named_parameters():
        np.testing.assert_allclose(together_course.hub.arrays()[name], parameter.detach(), atol=5e-5, err_msg=name)
    for ours, theirs in zip(sites, central, strict=True):
        for (name, mine), other in zip(ours.private.named_parameters(), theirs.private.parameters(), strict=True):
            np.testing.assert_allclose(mine.detach(), other.detach(), atol=5e-5, err_msg=name)


def test_nothing_is_read_from_a_device_without_being_fetched(monkeypatch):
    """On a GPU a tensor has to be brought over first; here ``numpy`` refuses what ``cpu`` did not give."""
    fetch, array = torch.Tensor.cpu, torch.Tensor.numpy

    def cpu(tensor):
        copied = fetch(tensor).clone()
        copied.fetched = True
        return copied

    def numpy(tensor, **options):
        caller = sys._getframe(1).f_globals["__name__"]
        assert not caller.startswith("pathveil.federation") or hasattr(tensor, "fetched"), caller
        return array(tensor, **options)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    monkeypatch.setattr(torch.Tensor, "numpy", numpy)
    with pytest.raises(AssertionError, match="federation"):
        eval("tensor.numpy()", {"__name__": "pathveil.federation.x", "tensor": torch.ones(1)})
    for changes in ({}, {"local_steps": 2}):
        settings = FederationSettings(**SMALL, **changes)
        sites, shared = together(settings, sparse=False)
        assert not sites[0].optimiser.lazy
        for joint in (True, False):
            embedded.train(sites, shared, settings=settings, joint=joint)
        sites[0].logits(shared, sites[0].reports)
    pool = PlainSite(reports(30, 0), settings=settings, seed=1, registry=0)
    train_alone(pool, stage="")
    features_of(pool.model, reports(5, 1))


def test_local_steps_are_an_approximation_that_still_trains():
    settings = FederationSettings(**SMALL, local_steps=4)
    sites, shared = together(settings)
    before = {name: p.detach().clone() for name, p in shared.named_parameters()}
    hub, history = embedded.train(sites, shared, settings=settings)
    exchanges = 2 * -(-steps_of([s.documents for s in sites], 12) // 4)
    assert history.rounds == 2 * exchanges  # before each of them one of the discriminator's
    assert all((hub.arrays()[name] != before[name].numpy()).any() for name in before)


def test_features_are_made_once_while_the_encoder_stands_still(monkeypatch):
    """The discriminator's rounds read the same features: made once, to the same numbers as made in every round."""
    settings = FederationSettings.strong(**SMALL, local_steps=2, discriminator_steps=4, hidden=5)
    passes, losses, arrays = [], [], []
    for forget in (False, True):
        if forget:
            rounds = list(schedule(settings, steps_of([site.documents for site in together(settings)[0]], 12)))
            anew = [[replace(turn, again=False) for turn in turns] for turns in rounds]
            monkeypatch.setattr(course, "schedule", lambda *_, anew=anew: anew)
        sites, shared = together(settings)
        count, features = [0], Shared.features

        def counted(self, batch, count=count, features=features):
            count[0] += 1
            return features(self, batch)

        with monkeypatch.context() as patch:
            patch.setattr(Shared, "features", counted)
            hub, history = embedded.train(sites, shared, settings=settings, joint=False)
        passes.append(count[0])
        losses.append(history.validation_loss)
        arrays.append(hub.arrays())
    assert passes[0] < passes[1] and losses[0] == losses[1]
    assert all((arrays[0][name] == arrays[1][name]).all() for name in arrays[0])


@pytest.mark.parametrize("joint", [True, False])
def test_the_yardstick_is_taken_once_an_epoch(monkeypatch, joint):
    settings = FederationSettings.strong(**SMALL, hidden=5)
    sites, shared = together(settings)
    taken = []
    monkeypatch.setattr(shared, "calibrate", lambda *, seed: taken.append(seed))
    embedded.train(sites, shared, settings=settings, joint=joint)
    assert taken == list(range(settings.epochs))


def test_a_falling_learning_rate_is_that_of_the_encoders_and_not_of_the_discriminator():
    settings = FederationSettings.strong(**SMALL)
    sites, shared = together(settings)
    hub, _ = embedded.train(sites, shared, settings=settings)
    steps = steps_of([site.documents for site in sites], settings.batch_size)
    last = Turn(epoch=settings.epochs - 1, step=steps - 1, steps=steps, epochs=settings.epochs)
    left = 1e-3 * (1 + math.cos(math.pi * last.done)) / 2
    assert hub.optimiser.encoder.learning_rate == pytest.approx(left)
    assert sites[0].optimiser.learning_rate == pytest.approx(left)
    assert hub.optimiser.discriminator.learning_rate == 1e-3
