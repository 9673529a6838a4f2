"""The paper's attack, all classes at once, against one scikit-learn classifier a class on the same arrays."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from pathveil.auditing import shokri

CLASSES = 5


def answers(seed: int = 0, *, shadows: int = 4, documents: int = 220):
    """Shadow answers that are surer of what was seen; classes from common to nearly absent."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(CLASSES - 1, documents, p=[0.55, 0.25, 0.14, 0.06])
    labels[-1] = CLASSES - 1  # a class of one document has no attack model of its own
    first = rng.random((shadows // 2, documents)) < 0.5
    inside = np.concatenate([first, ~first])
    logits = rng.normal(size=(shadows, documents, CLASSES))
    logits[:, np.arange(documents), labels] += 1.5 + inside
    return softmax(logits, axis=-1), labels, inside


def pooled(seed: int = 0, features: str = "sorted"):
    probabilities, labels, inside = answers(seed)
    return shokri.pooled(shokri.attack_features(probabilities, labels, features=features), labels, inside, shadows=4)


@pytest.mark.parametrize("features", ["sorted", "raw"])
@pytest.mark.parametrize("piece", [50, 4096])
def test_logistic_regression_equals_scikit_learn_class_by_class(features, piece, monkeypatch):
    monkeypatch.setattr(shokri, "SLICE", piece)
    x, labels, member = pooled(features=features)
    attack = shokri.fit(x, labels, member, classes=CLASSES, kind="logistic")
    found = attack.predict(x, labels)
    assert attack.without_model == (4,)
    for label in range(CLASSES):
        rows = labels == label
        # The class nobody can learn from is judged by a classifier of all classes together.
        learn = np.ones(len(labels), bool) if label in attack.without_model else rows
        oracle = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(x[learn], member[learn])
        np.testing.assert_allclose(found[rows], oracle.predict_proba(x[rows])[:, 1], atol=1e-5)


@pytest.mark.parametrize("piece", [50, 4096])
def test_the_perceptron_equals_scikit_learn_class_by_class(piece, monkeypatch):
    monkeypatch.setattr(shokri, "SLICE", piece)
    x, labels, member = pooled()
    attack = shokri.fit(x, labels, member, classes=CLASSES, hidden=6, steps=60, rate=0.02, seed=3)
    found = attack.predict(x, labels)
    first, bias, second, bias_out = (array[0].numpy() for array in shokri.initial_mlp(1, x.shape[1], 6, seed=3))
    for label in range(CLASSES):
        rows = labels == label
        learn = np.ones(len(labels), bool) if label in attack.without_model else rows
        oracle = MLPClassifier(
            (6,),
            alpha=0.0,
            epsilon=1e-12,
            batch_size=int(learn.sum()),
            learning_rate_init=0.02,
            shuffle=False,
            max_iter=1,
            warm_start=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it has not converged, which is meant
            oracle.fit(x[learn], member[learn])
            oracle.coefs_, oracle.intercepts_ = (
                [first.copy(), second.copy()[:, None]],
                [bias.copy(), bias_out.copy()[None]],
            )
            oracle.set_params(max_iter=60, n_iter_no_change=1000).fit(x[learn], member[learn])
        np.testing.assert_allclose(found[rows], oracle.predict_proba(x[rows])[:, 1], atol=1e-5)


def test_the_perceptron_equals_a_loop_over_classes():
    """The same initial weights and one plain torch network a class."""
    import torch

    x, labels, member = pooled(1)
    attack = shokri.fit(x, labels, member, classes=CLASSES, steps=50, seed=1)
    for label in (0, 1, 2):
        rows = labels == label
        inputs, wanted = torch.from_numpy(x[rows]), torch.from_numpy(member[rows].astype(float))
        weights = [array[0].clone().requires_grad_() for array in shokri.initial_mlp(1, x.shape[1], 32, seed=1)]
        optimiser = torch.optim.Adam(weights, lr=0.02)

        def forward(weights=weights, inputs=inputs):
            return torch.relu(inputs @ weights[0] + weights[1]) @ weights[2] + weights[3]

        for _ in range(50):
            optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(forward(), wanted).backward()
            optimiser.step()
        np.testing.assert_allclose(attack.predict(x[rows], labels[rows]), torch.sigmoid(forward()).detach(), atol=1e-7)


def test_sorted_features_hold_the_true_labels_probability_first():
    p = np.array([[0.2, 0.5, 0.3]])
    assert shokri.attack_features(p, np.array([2])).tolist() == [[0.3, 0.5, 0.3, 0.2]]
    assert shokri.attack_features(p, np.array([2]), features="raw").tolist() == p.tolist()
    assert shokri.attack_features(np.full((2, 3, 20), 0.05), np.zeros(3, int)).shape == (2, 3, 1 + shokri.LARGEST)


def test_only_the_first_shadows_and_labelled_documents_are_pooled():
    probabilities, labels, inside = answers()
    labels = labels.copy()
    labels[:10] = -1
    x = shokri.attack_features(probabilities, labels)
    rows, its_labels, member = shokri.pooled(x, labels, inside, shadows=2)
    assert len(rows) == 2 * 210
    np.testing.assert_array_equal(rows[:210], x[0, 10:])
    np.testing.assert_array_equal(member[210:], inside[1, 10:])
    np.testing.assert_array_equal(its_labels[:210], labels[10:])


def test_an_unlabelled_document_gets_no_score_and_an_empty_class_does_no_harm():
    x, labels, member = pooled()
    attack = shokri.fit(x, labels, member, classes=CLASSES + 3, kind="logistic")
    assert set(attack.without_model) >= {5, 6, 7}
    found = attack.predict(x[:4], np.array([-1, 0, 6, -1]))
    assert np.isnan(found).tolist() == [True, False, False, True]


def test_it_finds_members_of_another_model_and_nothing_where_there_is_nothing():
    x, labels, member = pooled()
    probabilities, target_labels, inside = answers(9, shadows=2, documents=1500)
    attack = shokri.fit(x, labels, member, classes=CLASSES)
    scores = attack.predict(shokri.attack_features(probabilities[0], target_labels), target_labels)
    assert ((scores > 0.5) == inside[0]).mean() > 0.57
    unrelated = np.random.default_rng(0).random(1500) < 0.5
    assert abs(((scores > 0.5) == unrelated).mean() - 0.5) < 0.05
