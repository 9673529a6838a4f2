"""Heads on features that stand still find what an encoder knows of its members, and nothing where it knows nothing."""

import numpy as np

from federation.test_run import corpus
from pathveil.federation.heads import confidence_of, fresh_head, public_confidence


def test_an_encoder_that_knows_its_members_gives_them_away_under_any_head():
    """Members' features say their labels louder than others' do: a public head cannot but show it; equally loud, there
    is nothing to show."""
    rng = np.random.default_rng(0)
    reports, others = corpus(documents=300, registries=2), corpus(documents=300, registries=2)
    signal = np.eye(4)[reports.labels["site"]]
    seen = signal + rng.normal(0, 0.1, signal.shape)
    for loud, low, high in ((0.5, 0.9, 1.0), (1.0, 0.4, 0.6)):
        unseen = loud * signal + rng.normal(0, 0.1, signal.shape)
        found = public_confidence(seen, reports, unseen, others, seed=1)
        assert len(found.values) == 600 and found.member.sum() == 300
        positive, negative = found.values[found.member], found.values[~found.member]
        assert low <= (positive[:, None] > negative).mean() <= high


def test_confidence_is_the_log_probability_of_all_labels_that_a_report_has():
    reports = corpus(documents=3)
    logits = np.log([[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4]])
    reports.labels["site"][:] = [0, -1, 3]
    np.testing.assert_allclose(confidence_of({"site": logits}, reports), np.log([0.7, 1.0, 0.4]))


def test_a_fresh_head_reads_what_features_say_and_no_more():
    reports = corpus(documents=400)
    told = np.eye(4)[reports.labels["site"]].astype(np.float32)
    silent = np.random.default_rng(0).normal(size=told.shape)
    half = np.arange(200)
    parts = reports.take(half), reports.take(half + 200)
    for features, low, high in ((told, 0.99, 1.0), (silent, 0.1, 0.4)):
        found = fresh_head(features[:200], parts[0], features[200:], parts[1], seed=1)
        assert low <= found["site"]["micro"] <= high
