"""A site's loss, its steps and what it sends, against autograd and optimisers' rules."""

import numpy as np
import pytest
import torch

from federation.test_embedded import SMALL, together
from pathveil.federation import embedded
from pathveil.federation.hub import Hub, schedule
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import Turn, dropout_numbers
from pathveil.model import TokenBatch
from pathveil.model.mtcnn import drop


def test_a_private_part_moves_along_the_mean_of_what_it_gathered():
    """Two turns' gradients, both taken where the private part stood, against autograd and Adadelta's rule."""
    settings = FederationSettings(**SMALL, private_every=2)
    sites, shared = together(settings)
    site = sites[0]
    turns = [Turn(epoch=0, step=step, steps=3, epochs=1) for step in (0, 1)]
    before = {name: p.detach().clone() for name, p in site.private.named_parameters()}
    wanted = dict.fromkeys(before, 0)
    for turn in turns:
        documents = site.read(site.rows(turn), turn)
        loss = site.loss(shared, shared.features(documents.batch), documents, turn)
        for name, gradient in zip(before, torch.autograd.grad(loss, site.private.parameters()), strict=True):
            wanted[name] = wanted[name] + gradient.to_dense() / 2
    for turn in turns:
        assert all(torch.equal(p, before[name]) for name, p in site.private.named_parameters())
        site.gradients(shared, [turn])
    for name, parameter in site.private.named_parameters():
        square = 0.1 * wanted[name] ** 2  # Adadelta's first step: both running means start at nothing
        step = torch.sqrt(torch.tensor(1e-6)) / torch.sqrt(square + 1e-6) * wanted[name]
        torch.testing.assert_close(parameter.detach(), before[name] - step, rtol=1e-4, atol=1e-7)


def test_reversal_and_alternation_push_the_encoder_the_same_way():
    gradients = []
    for alternating in (False, True):
        settings = FederationSettings(**SMALL, alternating=alternating)
        sites, shared = together(settings)
        turn = next(turns[-1] for turns in schedule(settings, 3) if not turns[-1].discriminator_only)
        site = sites[1]
        documents = site.read(site.rows(turn), turn)
        features = shared.features(documents.batch)
        site.loss(shared, features, documents, turn).backward()
        gradients.append({name: p.grad for name, p in shared.named_parameters()})
    for name in gradients[0]:
        if name.startswith("discriminator."):
            assert gradients[1][name] is None  # held still while the encoder answers
        else:
            torch.testing.assert_close(gradients[0][name].to_dense(), gradients[1][name].to_dense())


def test_in_local_steps_the_discriminator_stands_still_and_moves_in_rounds_on_the_same_documents():
    settings = FederationSettings.strong(**SMALL, local_steps=2, discriminator_steps=2, hidden=5)
    sites, shared = together(settings)
    first, second, third, *_ = schedule(settings, 4)
    assert [turn.step for turn in first] == [turn.step for turn in third] == [0, 1]
    assert all(turn.discriminator_only for turn in (*first, *second)) and not third[0].discriminator_only
    sites[0].update(shared, second)
    before = {name: p.detach().clone() for name, p in shared.discriminator.named_parameters()}
    change = sites[0].update(shared, third)
    assert all(array.any() and not name.startswith("discriminator.") for name, array in change.items())
    assert all(torch.equal(p, before[name]) for name, p in shared.discriminator.named_parameters())
    parts = [sites[0].gradients(shared, [turn]) for turn in first]
    sizes = [len(sites[0].rows(turn)) for turn in first]
    for name, gradient in sites[0].update(shared, first).items():
        mean = sum(size * part[name] for size, part in zip(sizes, parts, strict=True)) / sum(sizes)
        np.testing.assert_allclose(gradient, mean, atol=1e-6)


def test_orthogonality_over_positions_moves_both_encoders_and_needs_dense_gradients():
    settings = FederationSettings(**SMALL, positions=True, orthogonality=1.0)
    with pytest.raises(ValueError, match="sparse=False"):
        together(settings)
    gradients = []
    for weight in (1.0, 0.0):
        settings = FederationSettings(**SMALL, positions=True, orthogonality=weight, dropout=0.0)
        sites, shared = together(settings, sparse=False)
        turn = Turn(epoch=0, step=0, steps=3, epochs=1)
        documents = sites[0].read(sites[0].rows(turn), turn)
        sites[0].loss(shared, shared.features(documents.batch), documents, turn).backward()
        gradients.append([shared.encoder.embedding.weight.grad, sites[0].private.encoder.convolution.weight.grad])
    assert all((one - other).abs().max() > 1e-6 for one, other in zip(*gradients, strict=True))
    embedded.train(sites, shared, settings=settings)


def test_added_heads_answer_with_both():
    settings = FederationSettings.strong(**SMALL, added_heads=True)
    sites, shared = together(settings)
    batch = TokenBatch.of([[2, 3, 4, 5], [6, 7, 8]])
    features, own = shared.features(batch), sites[0].private.features(batch)
    for task, scores in sites[0].task_logits(shared, features, own).items():
        both = sites[0].private.logits(features, own)[task] + shared.logits(features)[task]
        torch.testing.assert_close(scores, both)


def test_an_extra_step_of_the_discriminator_sends_nothing_else():
    settings = FederationSettings.strong(**SMALL, discriminator_steps=2)
    sites, shared = together(settings)
    hub = Hub(shared, settings=settings)
    extra, whole = (Turn(epoch=0, step=0, steps=3, epochs=1, discriminator_only=only) for only in (True, False))
    judge = sites[0].gradients(shared, [extra])
    assert {name.split(".")[0] for name in judge} == {"discriminator"}
    everything = sites[1].gradients(shared, [whole])
    for turn, good, bad in ((extra, judge, everything), (whole, everything, judge)):
        (refused,) = hub.combine([("R0", 1, good), ("R1", 1, bad)], turn)
        assert refused.startswith("R1: ")


def test_no_two_documents_share_a_dropout_mask_nor_does_one_in_two_epochs():
    """Neighbouring sites' documents, and a document's epochs, had the same masks where number and row add up alike."""
    settings = FederationSettings(**SMALL)
    sites, _ = together(settings)
    masks = set()
    for site in sites:
        for epoch in (0, 1):
            for step in range(3):
                turn = Turn(epoch=epoch, step=step, steps=3, epochs=2)
                documents = site.read(site.rows(turn), turn)
                masks |= {
                    tuple(row) for row in drop(torch.ones(len(documents.noise), 64), 0.5, documents.noise).tolist()
                }
    assert len(masks) == 2 * sum(site.documents for site in sites)


def test_a_documents_dropout_depends_on_secret_epoch_and_row_alone():
    rows = np.arange(6)
    numbers = dropout_numbers(rows, secret=[1, 2], epoch=3)
    assert torch.equal(numbers[[4, 1]], dropout_numbers(rows[[4, 1]], secret=[1, 2], epoch=3))
    for other in ({"secret": [2, 2]}, {"secret": [1, 1]}, {"epoch": 2}):
        changed = dropout_numbers(rows, **{"secret": [1, 2], "epoch": 3} | other)
        assert not set(changed.tolist()) & set(numbers.tolist())


def test_without_a_secret_batches_follow_from_the_seed_and_with_one_from_it_alone():
    settings = FederationSettings(**SMALL)
    turn = Turn(epoch=1, step=0, steps=3, epochs=2)
    sites = [together(settings)[0][0] for _ in range(4)]
    sites[1].secret, sites[2].secret, sites[3].secret = [9] * 8, [9] * 8, [8] * 8
    sites[2].seed = 77
    rows = [site.rows(turn).tolist() for site in sites]
    assert rows[1] == rows[2] and len({tuple(one) for one in rows}) == 3
    for site in sites:
        assert sorted(np.concatenate([site.rows(each) for each in turn.gathered(3)])) == sorted(site.train)


def test_a_batch_is_filled_up_to_the_smallest_and_weighs_as_its_share():
    """Many steps of few documents: every batch has enough cases, every document still comes up, and the hub's mean is
    that of the shares."""
    settings = FederationSettings(**SMALL, smallest_batch=6)
    site = together(settings)[0][0]
    steps = len(site.train)
    batches = [site.rows(Turn(epoch=0, step=step, steps=steps, epochs=1)) for step in range(steps)]
    assert all(len(np.unique(site.reports.cases[rows])) >= 6 for rows in batches)
    assert sorted(rows[0] for rows in batches) == sorted(site.train)
    assert all(len(set(rows.tolist())) == len(rows) for rows in batches)
