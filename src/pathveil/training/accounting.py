"""How much a noised training run gives away about one case: ε for a δ, by opacus's accountants.

A run takes steps; each step draws every case with the same chance (the sampling rate), bounds what a case adds, and
adds Gaussian noise whose standard deviation is ``noise`` times that bound. What all steps together give away is
composed from Rényi divergences (``rdp``: Mironov 2017; Mironov, Talwar & Zhang 2019) or numerically, closer to the
exact value and slower to work out (``prv``: Gopi, Lee & Wutschitz 2021). Both are upper bounds.

>>> round(spent_epsilon(noise=1.0, sampling_rate=0.01, steps=1000, delta=1e-5), 2)
2.1
>>> spent_epsilon(noise=0.0, sampling_rate=0.01, steps=1000, delta=1e-5)
inf
>>> found = needed_noise(epsilon=2.0, sampling_rate=0.01, steps=1000, delta=1e-5)
>>> spent_epsilon(noise=found, sampling_rate=0.01, steps=1000, delta=1e-5) <= 2.0
True
"""

import math
import warnings
from functools import lru_cache
from typing import Any

from pathveil.errors import MissingExtraError, UsageError
from pathveil.results import Part
from pathveil.training.defences import DPSettings
from pathveil.training.settings import TrainingSettings


class Privacy(Part):
    """What a run promises: whether a case was among those trained on changes the chance of any model by a factor of at
    most exp(ε), but for a chance of δ."""

    epsilon: float | None  # None: no noise, no promise
    delta: float
    unit: str = "case"
    noise: float  # standard deviation, in units of clip
    clip: float  # largest norm of what a case adds
    steps: int
    sampling_rate: float  # chance of a case to be in a step's batch
    embeddings: str  # trained or frozen
    accountant: str


def privacy_of(settings: TrainingSettings, *, cases: int) -> Privacy:
    """What training on so many cases will promise; known before it starts.

    >>> from pathveil.training.settings import TrainingSettings
    >>> settings = TrainingSettings(patience=None, epochs=10, batch_size=100, defence=DPSettings(noise=1.0))
    >>> promise = privacy_of(settings, cases=950)
    >>> promise.steps, round(promise.sampling_rate, 4), round(promise.epsilon, 1)
    (100, 0.1053, 8.3)
    """
    defence = settings.defence
    assert isinstance(defence, DPSettings), "only for differentially private training"
    if defence.delta * cases >= 1:
        raise UsageError(
            f"delta must be below 1 ÷ the number of training cases ({cases:,}), or giving a whole case away would be "
            f"within the promise; got {defence.delta:g}"
        )
    run: dict[str, Any] = {
        "sampling_rate": min(1.0, settings.batch_size / cases),
        "steps": settings.epochs * max(1, math.ceil(cases / settings.batch_size)),
        "delta": defence.delta,
        "accountant": defence.accountant,
    }
    amount = defence.noise if defence.epsilon is None else needed_noise(epsilon=defence.epsilon, **run)
    assert amount is not None
    epsilon = spent_epsilon(noise=amount, **run) if amount else None
    return Privacy(epsilon=epsilon, noise=amount, clip=defence.clip, embeddings=defence.embeddings, **run)


def spent_epsilon(*, noise: float, sampling_rate: float, steps: int, delta: float, accountant: str = "rdp") -> float:
    """The ε of a run at δ; infinite without noise."""
    if not noise:
        return float("inf")
    _opacus()
    from opacus.accountants import create_accountant

    ledger: Any = create_accountant(accountant)
    ledger.history = [(noise, sampling_rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a wider range of orders might give a smaller bound
        return float(ledger.get_epsilon(delta=delta))


@lru_cache(maxsize=256)
def needed_noise(*, epsilon: float, sampling_rate: float, steps: int, delta: float, accountant: str = "rdp") -> float:
    """The least noise, to about one part in a hundred of ε, with which a run stays within ε."""
    _opacus()
    from opacus.accountants.utils import get_noise_multiplier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(
                get_noise_multiplier(
                    target_epsilon=epsilon,
                    target_delta=delta,
                    sample_rate=sampling_rate,
                    steps=steps,
                    epsilon_tolerance=epsilon / 100,
                    accountant=accountant,
                )
            )
        except ValueError:
            raise UsageError(
                f"no noise gives an epsilon of {epsilon:g} for a delta of {delta:g}; ask for a larger epsilon"
            ) from None


def _opacus() -> None:
    try:
        import opacus  # noqa: F401
    except ImportError:
        raise MissingExtraError(package="opacus", extra="dp", purpose="accounting for noise") from None
