"""Attacks on updates find what is there to find, and in a masked message nothing."""

import numpy as np
import pytest

from federation.test_embedded import SMALL, together
from pathveil.federation import leaks
from pathveil.federation.fixed_point import FixedPoint
from pathveil.federation.masking import Masks, SessionKey
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import EMBEDDING, Turn

pytestmark = pytest.mark.usefixtures("one_thread")


def words_of(site, turn: Turn) -> np.ndarray:
    batch = site.read(site.rows(turn), turn).batch
    return np.isin(np.arange(40), batch.ids.numpy())


@pytest.fixture(scope="module")
def round_of_three():
    """Three sites' exact updates of one round, and the words of their batches."""
    sites, shared = together(FederationSettings.strong(**SMALL, hidden=5))
    turn = Turn(epoch=0, step=0, steps=3, epochs=2)
    updates = [{name: array.copy() for name, array in site.gradients(shared, [turn]).items()} for site in sites]
    return sites, shared, turn, updates


def test_an_exact_update_names_the_words_of_its_batch(round_of_three):
    sites, _, turn, updates = round_of_three
    for site, update in zip(sites, updates, strict=True):
        found = leaks.recovered(leaks.touched(update[EMBEDDING]), words_of(site, turn))
        assert found.precision == 1.0 and found.recall > 0.5  # a word that wins no window has no gradient


def test_the_bias_of_a_common_head_tells_labels(round_of_three):
    sites, _, turn, updates = round_of_three
    for site, update in zip(sites, updates, strict=True):
        labels = np.asarray(site.reports.labels["site"])[site.rows(turn)]
        told = leaks.labels_told(update["heads.site.bias"])
        assert leaks.recovered(told, np.bincount(labels[labels >= 0], minlength=3) > 0).precision == 1.0


def test_a_masked_message_is_at_chance_and_the_sum_is_not(round_of_three):
    sites, _, turn, updates = round_of_three
    keys = {site.name: SessionKey() for site in sites}
    public, form = {name: key.public for name, key in keys.items()}, FixedPoint(bits=32, sites=3)
    sent = []
    for site, update in zip(sites, updates, strict=True):
        masks = Masks(site.name, keys[site.name], public, run="ab")
        whole, *_ = form.encoded(update[EMBEDDING].ravel(), exponent=3)
        sent.append(masks.masked(form.words(whole), form, number=0, part="update"))
    # All rows of each message are of one size, whether the site has their words or not; of 3 × 40, chance is rough.
    scores, truth = [], []
    for site, message in zip(sites, sent, strict=True):
        rows = form.signed(message).astype(float).reshape(40, -1)
        assert leaks.touched(rows).all()
        scores.append(np.linalg.norm(rows, axis=1))
        truth.append(words_of(site, turn))
    assert abs(leaks.ranking(np.concatenate(scores), np.concatenate(truth)) - 0.5) < 0.2
    total = form.decoded(form.signed(sum(part.astype(np.uint64) for part in sent)), exponent=3).reshape(40, -1)
    everyone = np.any(truth, axis=0)
    assert leaks.recovered(leaks.touched(total), everyone).precision == 1.0


def test_words_of_one_report_are_found_by_order_and_by_company():
    """Six documents with a word or two of their own in batches of two; four epochs of random order."""
    rng = np.random.default_rng(3)
    owner = np.array([0, 0, 1, 1, 2, 2, 3, 4, 5, 5])
    common = 3  # words that all documents have
    seen, batches = [], []
    for _ in range(4):
        rounds = np.array_split(rng.permutation(6), 3)
        words = np.array([[*(np.isin(owner, rows)), *([True] * common)] for rows in rounds])
        seen.append(words)
        batches.append(rounds)
    truth = np.zeros((6, len(owner) + common), bool)
    truth[owner, np.arange(len(owner))] = True
    found = leaks.assigned(seen, batches, documents=7)
    assert not found[6].any()  # a document that was never trained on
    assert (found[:6, : len(owner)] >= truth[:, : len(owner)]).all() and found[:6, len(owner) :].all()
    groups = leaks.together(np.concatenate(seen))
    assert (groups[len(owner) :] == -1).all()
    pairs = leaks.pairs_recovered(groups, np.concatenate([owner, [-1] * common]))
    assert pairs.recall == 1.0 and pairs.precision >= 0.5 and pairs.there == 4
    # In sums, a word that several sites have comes at other times than its report does.
    mixed = np.concatenate(seen)
    mixed[:, :6] |= rng.random((12, 6)) < 0.5
    assert leaks.pairs_recovered(leaks.together(mixed), np.concatenate([owner, [-1] * common])).recall < 1.0


def test_phrases_are_read_off_a_filters_gradient():
    rng = np.random.default_rng(1)
    embedding, candidates = rng.normal(size=(300, 60)), np.arange(20, 120)
    phrases = [(21, 40, 33), (90, 21, 55), (70, 71, 99)]
    weights = [0.8, -0.5, 0.3]
    gradient = sum(weight * embedding[list(phrase)] for weight, phrase in zip(weights, phrases, strict=True))
    assert sorted(leaks.phrases_told(gradient, embedding, candidates, most=3)) == sorted(phrases)
    # With noise nothing is claimed, nor where nothing is.
    noisy = gradient + rng.normal(size=gradient.shape)
    assert leaks.phrases_told(noisy, embedding, candidates, most=3) == []
    assert leaks.phrases_told(np.zeros((3, 60)), embedding, candidates, most=3) == []


def test_phrases_of_a_batch_of_one_report_are_its_words_in_their_order(round_of_three):
    sites, shared, turn, _ = round_of_three
    site = sites[0]
    longest = int(np.diff(site.reports.offsets)[site.train].argmax())
    row = site.train[longest : longest + 1]
    documents = site.read(row, turn)
    shared.zero_grad(set_to_none=True)
    site.loss(shared, shared.features(documents.batch), documents, turn).backward()
    weight = shared.encoder.convolution.weight.grad.numpy()  # (3 + 4 + 5, filters, dim)
    embedding = shared.encoder.embedding.weight.detach().numpy()
    ids = documents.batch.ids.tolist()
    there = {tuple(ids[at : at + 3]) for at in range(len(ids) - 2)}
    told = [
        phrase
        for number in range(weight.shape[1])
        for phrase in leaks.phrases_told(weight[:3, number], embedding, np.unique(ids), most=1)
    ]
    assert told and set(told) <= there
    shared.zero_grad(set_to_none=True)


def test_adams_drift_is_told_from_a_new_gradient():
    """A word's running mean shrinks along one line; only a new gradient turns it."""
    rng = np.random.default_rng(2)
    mean, change = rng.normal(size=(50, 8)), []
    new = rng.random(50) < 0.3
    for step in range(2):
        mean = 0.9 * mean + 0.1 * rng.normal(size=(50, 8)) * (new[:, None] if step else 1) * 8
        change.append(mean.copy())
    assert (leaks.turned(change[1], change[0]) == new).all()
