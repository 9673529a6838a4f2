"""Choose words with noise, so that the list hardly depends on any one case: differentially private set union.

The policy Gaussian method of Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin (2020, "Differentially private set
union", arXiv:2002.09745). Cases come one after another in random order. Each has a budget of 1 in the Euclidean norm
and spends it on those of its words (at most ``most``, drawn at random) that are still below a cutoff, moving them
straight towards it; words that enough cases have paid for cost the next ones nothing. Adding or removing one case then
changes the weights by a norm of at most 1, so Gaussian noise of standard deviation σ hides it, where σ is the least
with which such noise is (ε, δ/2)-private (Balle & Wang 2018). A word is taken if its noised weight exceeds

    ρ = max over t ≤ most of  1/√t + σ Φ⁻¹((1 − δ/2)^(1/t))

which the words that one case alone has, t of them at weights of at most 1/√t, all stay below with a chance of
1 − δ/2. Together (ε, δ) for the whole list; the unit is a case.

>>> round(noise_scale(1.0, 2e-5), 3), round(threshold(1.0, 2e-5, most=1), 3)
(3.731, 16.911)
>>> weights = policy_weights([np.array([0, 1]), np.array([0]), np.array([0, 2])], words=3, cutoff=1.5)
>>> [round(float(weight), 3) for weight in weights]
[1.5, 0.707, 1.0]
"""

import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from pathveil.corpus.schema import Paths
from pathveil.errors import UsageError, VocabularyError
from pathveil.progress import Progress, silent
from pathveil.vocabulary.corpus_counts import remaining_rows
from pathveil.vocabulary.tokens import Tokens, tokens
from pathveil.vocabulary.words import Vocabulary

MOST = 300  # words that a case has a say in
CUTOFF = 5.0  # standard deviations of noise above the threshold at which a word needs no more weight: the authors' α


@lru_cache
def noise_scale(epsilon: float, delta: float) -> float:
    """Compute σ for a change of norm 1 that is hidden up to (ε, δ/2): the analytic Gaussian mechanism."""

    def excess(sigma: float) -> float:
        shift = epsilon * sigma
        least = norm.cdf(0.5 / sigma - shift) - np.exp(epsilon + norm.logcdf(-0.5 / sigma - shift))
        return least - delta / 2

    return float(brentq(excess, 1e-3, 1e5, xtol=1e-9))


@lru_cache
def threshold(epsilon: float, delta: float, *, most: int) -> float:
    """Compute ρ, the noised weight that a word must exceed."""
    alone = np.arange(1, most + 1)  # words of one case that no other case has
    chance = -np.expm1(np.log1p(-delta / 2) / alone)  # 1 − (1 − δ/2)^(1/t)
    return float((1 / np.sqrt(alone) + noise_scale(epsilon, delta) * norm.isf(chance)).max())


def policy_weights(
    cases: Iterable[np.ndarray], *, words: int, cutoff: float, progress: Progress = silent, total: int = 0
) -> np.ndarray:
    """Compute the weights (words,) after each case, given as its distinct words, has spent its budget."""
    weights = np.zeros(words)
    for number, case in enumerate(cases):
        gap = np.maximum(cutoff - weights[case], 0.0)
        weights[case] += gap / max(float(np.linalg.norm(gap)), 1.0)
        if number % 1000 == 0:
            progress("choosing words", number, total)
    return weights


def select_words_privately(
    corpus: Paths,
    *,
    epsilon: float,
    delta: float = 1e-5,
    leave_out: Sequence[str] = (),
    without: Paths | None = None,
    progress: Progress = silent,
) -> Vocabulary:
    """Choose words privately from files of reports, without some registries and cases."""
    for path in [corpus] if isinstance(corpus, str | Path) else corpus:
        if Path(path).suffix == ".npz":
            raise UsageError(f"{path}: words are chosen with noise from reports, a case at a time, not from counts")
    store = tokens(corpus, progress=progress)
    for name in leave_out:
        if name not in store.registry_names:
            there = ", ".join(store.registry_names)
            raise UsageError(f"there is no registry '{name}' to leave out; there are {there}")
    rows, _ = remaining_rows(store, leave_out=leave_out, without=without)
    return select_privately(store, epsilon=epsilon, delta=delta, rows=rows, progress=progress)


def select_privately(
    store: Tokens,
    *,
    epsilon: float,
    delta: float = 1e-5,
    most: int = MOST,
    rows: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress = silent,
) -> Vocabulary:
    """Choose words privately from a token store, or from some ``rows`` of it.

    Without ``rng`` noise and order come from the operating system: who can repeat them can undo them. For the same
    reason the vocabulary has the number of cases, but neither the hash of the corpus nor its number of words.
    """
    if not 0 < epsilon < np.inf or not 0 < delta < 1:
        raise VocabularyError("choosing words with noise needs an epsilon above 0 and a delta between 0 and 1")
    rng = rng or np.random.Generator(np.random.Philox(key=secrets.randbits(128)))
    cases = words_of_cases(store, np.arange(store.documents) if rows is None else rows)
    if delta * len(cases) >= 1:
        raise VocabularyError(
            f"delta must be below 1 ÷ the number of cases ({len(cases):,}), or giving a whole case away would be "
            f"within the promise; got {delta:g}"
        )
    sigma, least = noise_scale(epsilon, delta), threshold(epsilon, delta, most=most)
    order = rng.permutation(len(cases))
    sampled = (
        case if len(case) <= most else rng.choice(case, most, replace=False) for case in (cases[n] for n in order)
    )
    cutoff = least + CUTOFF * sigma
    weights = policy_weights(sampled, words=len(store.words), cutoff=cutoff, progress=progress, total=len(cases))
    passed = np.flatnonzero(weights + sigma * rng.standard_normal(len(weights)) * (weights > 0) > least)
    if not len(passed):
        raise VocabularyError(
            f"no word is held by enough of the {len(cases):,} cases to pass with an epsilon of {epsilon:g}; take a "
            "larger epsilon, or more cases"
        )
    return Vocabulary.from_words(
        (store.words[number] for number in passed),
        method=f"private set union, epsilon {epsilon:g}, delta {delta:g}",
        parameters={
            "epsilon": epsilon,
            "delta": delta,
            "unit": "case",
            "words_a_case": most,
            "mechanism": "policy Gaussian",
        },
        source={"registries": list(store.registry_names), "cases": len(cases)},
    )


def words_of_cases(store: Tokens, rows: np.ndarray) -> Sequence[np.ndarray]:
    """List the distinct words of each case."""
    _, case = np.unique(np.asarray(store.cases)[rows], return_inverse=True)
    lengths = np.diff(store.offsets)[rows]
    starts = np.asarray(store.offsets)[rows]
    places = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    pairs = np.unique(np.repeat(case, lengths) * len(store.words) + np.asarray(store.ids)[places])
    bounds = np.searchsorted(pairs, np.arange(1, case.max(initial=-1) + 1) * len(store.words))
    return np.split(pairs % max(len(store.words), 1), bounds)
