"""Fresh probes find what features tell about the registry, and no more."""

import numpy as np

from pathveil.federation.probe import probe


def test_a_probe_knows_what_the_label_gives_away():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 600)
    registry = np.where(rng.random(600) < 0.8, label, 1 - label)
    found = probe(np.eye(2)[label] + rng.normal(0, 0.01, (600, 2)), registry, cases=np.arange(600), labels=label)
    assert abs(found.linear - 0.8) < 0.05 and abs(found.label - 0.8) < 0.05 and abs(found.chance - 0.5) < 0.06


def test_a_probe_that_also_reads_training_cases_finds_what_few_cases_cannot_show():
    rng = np.random.default_rng(3)
    registry = rng.integers(0, 2, 4400)
    features = rng.normal(size=(4400, 200)) + 0.12 * registry[:, None]  # the best possible probe is right in .80
    unseen, known = slice(0, 400), (features[400:], registry[400:])
    alone = probe(features[unseen], registry[unseen], cases=np.arange(400))
    informed = probe(features[unseen], registry[unseen], cases=np.arange(400), known=known)
    assert informed.linear > alone.linear + 0.03 and 0.72 < informed.linear < 0.88
    assert (informed.chance, informed.documents) == (alone.chance, 400)
