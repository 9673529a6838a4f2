"""The vocabulary study's units of work: what shadows learn from, and what is kept of a model's answers."""

from dataclasses import replace

import numpy as np
import torch
from scipy.special import log_softmax

from auditing.made import encoded
from pathveil.auditing.shokri import attack_features
from pathveil.studies.membership import Fold, read_by_attacks, shadow_job

CORPUS = encoded(120, registries=3, reports_a_case=2)
ROWS = np.arange(CORPUS.documents)
FOREIGN = np.flatnonzero(CORPUS.registries == 2)
FOLD = Fold("R3", training=ROWS[CORPUS.registries == 0], unseen=ROWS[CORPUS.registries == 1], foreign=FOREIGN)


def test_a_shadow_learns_half_of_the_attackers_cases_each_whole():
    halves = [shadow_job(CORPUS, FOLD, number, seed=3).rows for number in range(20)]
    for half in halves:
        assert np.isin(half, FOREIGN).all()
        assert set(CORPUS.cases[half]).isdisjoint(CORPUS.cases[np.setdiff1d(FOREIGN, half)])
        assert abs(len(half) - len(FOREIGN) / 2) <= 2
    assert len({tuple(half) for half in halves}) == 20
    assert np.array_equal(halves[5], shadow_job(CORPUS, FOLD, 5, seed=3).rows)
    counts = np.bincount(np.concatenate(halves), minlength=CORPUS.documents)[FOREIGN]
    assert counts.min() > 2 and counts.max() < 18  # each document is in some and out of some


def test_of_answers_is_kept_what_attacks_read():
    rng = np.random.default_rng(0)
    logits = {task: rng.normal(size=(120, len(names))) for task, names in CORPUS.classes.items()}
    found = read_by_attacks(CORPUS, "site", ROWS, {task: torch.from_numpy(values) for task, values in logits.items()})
    kept = {name: tensor.numpy() for name, tensor in found.items()}
    assert set(kept) == {"own-site", "own-side", "features"} and {array.dtype for array in kept.values()} == {
        np.dtype(np.float32)
    }
    said = log_softmax(logits["site"], axis=1)
    labels = CORPUS.labels["site"]
    np.testing.assert_allclose(kept["own-site"], said[ROWS, labels], rtol=1e-6)
    np.testing.assert_allclose(kept["features"], attack_features(np.exp(said), labels), rtol=1e-6)
    np.testing.assert_allclose(kept["features"][:, 0], np.exp(said)[ROWS, labels], rtol=1e-5)


def test_a_document_without_a_label_has_no_probability_of_its_own():
    unlabelled = replace(CORPUS, labels=CORPUS.labels | {"site": np.full(120, -1)})
    logits = {"site": torch.from_numpy(np.random.default_rng(1).normal(size=(5, len(CORPUS.classes["site"]))))}
    kept = read_by_attacks(unlabelled, "site", ROWS[:5], logits)
    assert torch.isnan(kept["own-site"]).all()
    expected = attack_features(np.exp(log_softmax(logits["site"].numpy(), axis=1)), np.full(5, -1))
    np.testing.assert_allclose(kept["features"], expected, rtol=1e-6)
