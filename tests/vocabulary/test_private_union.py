"""Words chosen with noise: the formulas by hand, the bound on one case by property, a lone word by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import norm

from pathveil.errors import VocabularyError
from pathveil.vocabulary.private_union import noise_scale, policy_weights, select_privately, threshold, words_of_cases
from pathveil.vocabulary.tokens import Tokens


def store(texts: list[str], cases: list[int]) -> Tokens:
    words = tuple(sorted({word for text in texts for word in text.split()}))
    ids = [words.index(word) for text in texts for word in text.split()]
    return Tokens(
        words=words,
        ids=np.array(ids, np.int32),
        offsets=np.cumsum([0, *(len(text.split()) for text in texts)]),
        cases=np.array(cases),
        registries=np.zeros(len(texts), np.int32),
        registry_names=("R1",),
        provenance={"corpus_sha256": "secret", "text": "any"},
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-5), (30.0, 1e-3)])
def test_the_noise_is_the_least_that_hides_a_change_of_one(epsilon, delta):
    sigma = noise_scale(epsilon, delta)

    def lost(s):  # δ(ε) of a Gaussian mechanism (Balle & Wang 2018, theorem 8)
        return norm.cdf(0.5 / s - epsilon * s) - np.exp(epsilon) * norm.cdf(-0.5 / s - epsilon * s)

    assert lost(sigma) == pytest.approx(delta / 2, rel=1e-4) and lost(0.99 * sigma) > delta / 2


def test_the_threshold_by_hand():
    sigma = noise_scale(1.0, 0.02)
    one = 1 + sigma * norm.ppf(0.99)
    two = 2**-0.5 + sigma * norm.ppf(0.99**0.5)
    assert threshold(1.0, 0.02, most=1) == pytest.approx(one) and threshold(1.0, 0.02, most=2) == pytest.approx(
        max(one, two)
    )


sets = st.lists(st.sets(st.integers(0, 7), max_size=6), max_size=12)


@given(before=sets, case=st.sets(st.integers(0, 7), max_size=6), after=sets, cutoff=st.floats(0.1, 6))
@hypothesis_settings(max_examples=300, deadline=None)
def test_one_case_moves_all_weights_together_by_at_most_one(before, case, after, cutoff):
    def weights(held):
        return policy_weights([np.array(sorted(one), int) for one in held], words=8, cutoff=cutoff)

    assert np.linalg.norm(weights([*before, case, *after]) - weights([*before, *after])) <= 1 + 1e-9


@pytest.mark.parametrize("lone", [1, 5])
def test_words_of_one_case_alone_pass_with_a_chance_below_delta(lone):
    common = " ".join(f"c{number}" for number in range(3))
    corpus = store([common] * 12 + [common + "".join(f" x{number}" for number in range(lone))], list(range(13)))
    delta, runs = 0.05, 3000
    rng = np.random.default_rng(1)
    passed = kept = 0
    for _ in range(runs):
        try:
            words = select_privately(corpus, epsilon=5.0, delta=delta, most=8, rng=rng).words
        except VocabularyError:
            words = ()
        passed += any(word.startswith("x") for word in words)
        kept += any(word.startswith("c") for word in words)
    # The bound is δ/2 = 2.5 %; four standard errors of 3,000 runs are 1.1 points. Common words do pass.
    assert passed / runs <= 0.025 + 0.0115 and kept / runs > 0.5


def test_reports_of_a_case_count_once():
    corpus = store(["left breast", "breast left left", "colon"], [4, 4, 9])
    assert [held.tolist() for held in words_of_cases(corpus, np.arange(3))] == [[0, 2], [1]]
    assert [held.tolist() for held in words_of_cases(corpus, np.array([2, 1]))] == [[0, 2], [1]]


def test_many_cases_pass_their_words_and_the_file_says_nothing_exact_of_the_corpus():
    corpus = store(["left breast"] * 400 + ["zebra"], list(range(401)))
    vocabulary = select_privately(corpus, epsilon=4.0, delta=1e-4)
    assert vocabulary.words == ("left", "breast")  # in the order of their sha256
    assert vocabulary.source == {"registries": ["R1"], "cases": 401} and "secret" not in repr(vocabulary)
    assert vocabulary.parameters["epsilon"] == 4.0 and vocabulary.parameters["unit"] == "case"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": 0.0}, "epsilon above 0"),
        ({"epsilon": float("nan")}, "epsilon above 0"),
        ({"epsilon": float("inf")}, "epsilon above 0"),
        ({"epsilon": 1.0, "delta": float("nan")}, "delta between 0 and 1"),
        ({"epsilon": 1.0, "delta": 0.5}, "delta must be below 1 ÷ the number of cases"),
        ({"epsilon": 0.01}, "take a larger epsilon"),
    ],
)
def test_mistakes_are_one_sentence(options, said):
    with pytest.raises(VocabularyError, match=said):
        select_privately(store(["left breast"] * 20, list(range(20))), **options)
