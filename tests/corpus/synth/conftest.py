"""A synthetic corpus that the tests of its makers share."""

import polars as pl
import pytest

from corpus.synth.made import REPORTS
from pathveil.corpus.synth import SynthSettings, synthesise


@pytest.fixture(scope="session")
def made() -> tuple[pl.DataFrame, pl.DataFrame]:
    return next(iter(synthesise(SynthSettings(reports=REPORTS, seed=7))))
