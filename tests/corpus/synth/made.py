"""Synthetic corpora for the tests of their makers."""

import polars as pl

from pathveil.corpus.synth import SynthSettings, synthesise

REPORTS = 1_500


def frames(chunk: int, **options) -> tuple[pl.DataFrame, pl.DataFrame]:
    pairs = list(synthesise(SynthSettings(**options), chunk=chunk))
    return pl.concat(reports for reports, _ in pairs), pl.concat(truth for _, truth in pairs)
