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

import warnings
from functools import lru_cache
from typing import Any

from pathveil.errors import MissingExtraError, UsageError


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
