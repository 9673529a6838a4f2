"""The vocabulary study's units of work: what shadows learn from, and what is kept of a model's answers."""

import numpy as np
from scipy.special import log_softmax

from audit.made import encoded
from pathveil.audit.shokri import attack_features
from pathveil.study.membership import Fold, _answers, shadow_documents

CORPUS = encoded(120, registries=3, reports_a_case=2)
ROWS = np.arange(CORPUS.documents)
FOREIGN = np.flatnonzero(CORPUS.registries == 2)
FOLD = Fold("R3", training=ROWS[CORPUS.registries == 0], unseen=ROWS[CORPUS.registries == 1], foreign=FOREIGN)


def test_a_shadow_learns_half_of_the_attackers_cases_each_whole():
    halves = [shadow_documents(CORPUS, FOLD, number, seed=3) for number in range(20)]
    for half in halves:
        assert np.isin(half, FOREIGN).all()
        assert set(CORPUS.cases[half]).isdisjoint(CORPUS.cases[np.setdiff1d(FOREIGN, half)])
        assert abs(len(half) - len(FOREIGN) / 2) <= 2
    assert len({tuple(half) for half in halves}) == 20
    assert np.array_equal(halves[5], shadow_documents(CORPUS, FOLD, 5, seed=3))
    counts = np.bincount(np.concatenate(halves), minlength=CORPUS.documents)[FOREIGN]
    assert counts.min() > 2 and counts.max() < 18  # each document is in some and out of some


def test_of_answers_is_kept_what_attacks_read():
    rng = np.random.default_rng(0)
    logits = {task: rng.normal(size=(120, len(names))) for task, names in CORPUS.classes.items()}
    kept = _answers(CORPUS, ROWS, logits, "site", FOREIGN)
    assert set(kept) == {"own-site", "own-side", "features"} and {array.dtype for array in kept.values()} == {
        np.dtype(np.float32)
    }
    said = log_softmax(logits["site"], axis=1)
    labels = CORPUS.labels["site"]
    np.testing.assert_allclose(kept["own-site"], said[ROWS, labels], rtol=1e-6)
    expected = attack_features(np.exp(said[FOREIGN]), labels[FOREIGN])
    np.testing.assert_allclose(kept["features"], expected, rtol=1e-6)
    np.testing.assert_allclose(kept["features"][:, 0], np.exp(said)[FOREIGN, labels[FOREIGN]], rtol=1e-5)
