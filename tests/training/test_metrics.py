"""Metrics against scikit-learn, and the bootstrap against a slow one written out and against coverage by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from pathveil.training.metrics import evaluate, macro_f1, paired_difference


def make(documents=400, classes=12, cases=None, seed=0, right=0.7):
    rng = np.random.default_rng(seed)
    truth = np.minimum(rng.zipf(1.6, documents) - 1, classes - 1)
    predicted = np.where(rng.random(documents) < right, truth, rng.integers(0, classes, documents))
    return truth, predicted, rng.integers(0, cases or documents, documents)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 5)), min_size=1, max_size=60).filter(
        lambda pairs: any(label >= 0 for label, _ in pairs)
    )
)
def test_values_agree_with_scikit_learn(pairs):
    truth, predicted = np.array(pairs).T
    keep = truth >= 0
    scores = evaluate(truth, predicted, cases=np.arange(len(truth)), resamples=5)
    assert scores.documents == keep.sum()
    assert scores.accuracy.value == pytest.approx(accuracy_score(truth[keep], predicted[keep]))
    assert scores.micro.value == pytest.approx(f1_score(truth[keep], predicted[keep], average="micro"))
    macro = f1_score(truth[keep], predicted[keep], average="macro")
    assert scores.macro.value == pytest.approx(macro) == pytest.approx(macro_f1(truth, predicted))
    labels = [row.label for row in scores.per_class]
    expected = precision_recall_fscore_support(truth[keep], predicted[keep], labels=labels, zero_division=0)
    ours = [[row.precision, row.recall, row.f1.value, row.support] for row in scores.per_class]
    np.testing.assert_allclose(np.array(ours).T, np.array(expected, float), rtol=1e-6)


def test_a_label_never_seen_is_an_error():
    truth = np.array([0, 1, 1, 9])  # 9 is past the model's classes
    scores = evaluate(truth, np.array([0, 1, 1, 1]), cases=np.arange(4), resamples=10)
    assert scores.micro.value == 0.75
    assert scores.macro.value == pytest.approx((1 + 0.8 + 0) / 3)


def slow_resample(truth, predicted, cases, rng, stratified):
    """One resample, the plain way: a list of cases drawn, their documents laid out, scikit-learn on them."""
    groups = {case: np.flatnonzero(cases == case) for case in np.unique(cases)}
    if stratified:
        support = {label: (truth == label).sum() for label in np.unique(truth)}
        stratum = {case: min(truth[rows], key=lambda label: (support[label], label)) for case, rows in groups.items()}
        drawn = []
        for label in set(stratum.values()):
            members = [case for case in groups if stratum[case] == label]
            drawn += list(rng.choice(members, len(members)))
    else:
        drawn = rng.choice(list(groups), len(groups))
    rows = np.concatenate([groups[case] for case in drawn])
    labels = np.unique(np.concatenate([truth, predicted]))
    return f1_score(truth[rows], predicted[rows], labels=labels, average="macro", zero_division=0), (
        truth[rows] == predicted[rows]
    ).mean()


def test_intervals_agree_with_a_plain_bootstrap():
    truth, predicted, cases = make(documents=150, classes=6, cases=60, seed=3)
    scores = evaluate(truth, predicted, cases=cases, resamples=4000, seed=1)
    rng = np.random.default_rng(0)
    micro = [slow_resample(truth, predicted, cases, rng, False)[1] for _ in range(1000)]
    macro = [slow_resample(truth, predicted, cases, rng, True)[0] for _ in range(1000)]
    np.testing.assert_allclose([scores.micro.low, scores.micro.high], np.percentile(micro, [2.5, 97.5]), atol=0.02)
    np.testing.assert_allclose([scores.macro.low, scores.macro.high], np.percentile(macro, [2.5, 97.5]), atol=0.02)


def test_cases_not_documents_are_resampled():
    truth, predicted, _ = make(documents=400)
    alone = evaluate(truth, predicted, cases=np.arange(400)).micro
    # Ten copies of each document of a tenth of the corpus say no more than that tenth.
    few = np.repeat(np.arange(40), 10)
    copied = evaluate(truth[few], predicted[few], cases=few).micro
    once = evaluate(truth[:40], predicted[:40], cases=np.arange(40)).micro
    assert copied.high - copied.low == pytest.approx(once.high - once.low, abs=0.02)
    assert copied.high - copied.low > 2 * (alone.high - alone.low)


def test_micro_interval_covers():
    """A binomial share of 0.8 is inside its 95 % interval in 95 % of worlds: 300 worlds, ± 3.8 points are 3 sigma."""
    covered = 0
    for world in range(300):
        right = np.random.default_rng(world).random(250) < 0.8
        interval = evaluate(
            np.zeros(250, int), np.where(right, 0, 1), cases=np.arange(250), resamples=300, seed=world
        ).micro
        covered += interval.low <= 0.8 <= interval.high
    assert 0.91 <= covered / 300 <= 0.99


def test_macro_interval_holds_its_value_where_a_plain_one_would_not():
    """Fifty classes of two documents, both right or both wrong: every resample within classes has the value itself; a
    plain one loses a seventh of the classes."""
    truth = np.repeat(np.arange(50), 2)
    predicted = np.where(truth % 2 == 0, truth, 99)
    cases = np.arange(100)
    macro = evaluate(truth, predicted, cases=cases, resamples=500).macro
    assert [macro.low, macro.high] == pytest.approx([25 / 51, 25 / 51]) and macro.value == pytest.approx(25 / 51)
    rng = np.random.default_rng(0)
    plain = [slow_resample(truth, predicted, cases, rng, False)[0] for _ in range(100)]
    assert np.mean(plain) < macro.value - 0.05


def test_same_seed_same_interval_and_blocks_do_not_matter(monkeypatch):
    truth, predicted, cases = make()
    first = evaluate(truth, predicted, cases=cases, resamples=50, seed=4)
    monkeypatch.setattr("pathveil.training.metrics.BLOCK_CELLS", 1000)
    assert evaluate(truth, predicted, cases=cases, resamples=50, seed=4) == first
    assert evaluate(truth, predicted, cases=cases, resamples=50, seed=5) != first


def test_paired_difference_is_narrower_than_two_intervals():
    truth, predicted, cases = make(documents=600)
    other = predicted.copy()
    other[:12] = truth[:12]
    difference = paired_difference(truth, other, predicted, cases=cases)
    alone = evaluate(truth, predicted, cases=cases).micro
    assert difference["micro"].value == pytest.approx((other == truth).mean() - (predicted == truth).mean())
    assert difference["macro"].value == pytest.approx(macro_f1(truth, other) - macro_f1(truth, predicted))
    assert difference["micro"].high - difference["micro"].low < 0.5 * (alone.high - alone.low)


def test_no_label_at_all_is_refused():
    with pytest.raises(ValueError, match="no document has a label"):
        evaluate(np.array([-1, -1]), np.array([0, 0]), cases=np.arange(2))
