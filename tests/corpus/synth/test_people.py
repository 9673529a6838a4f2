"""People: marked where they stand, rare as in life."""

import polars as pl

from pathveil.corpus.synth.people import mark, reveal


def test_marks_come_out_where_they_stood():
    text, spans = reveal(f"a {mark('phone', '555')}{mark('email', 'x@y')} b {mark('detail', '')}c")
    assert text == "a 555x@y b c"
    assert spans == [("phone", 2, 5), ("email", 5, 8), ("detail", 11, 11)]


def test_a_name_belongs_to_few_and_a_physician_to_many(made):
    truth = made[1].with_columns(pl.col("text").str.to_lowercase())
    cases = truth.group_by("kind", "text").agg(pl.col("case_id").n_unique().alias("cases"))
    of = {kind: group["cases"] for (kind,), group in cases.group_by("kind")}
    assert (of["patient_name"] == 1).mean() > 0.8
    assert (of["detail"] == 1).mean() > 0.95
    assert of["record_number"].max() <= 2 and of["physician_name"].max() > 20 and of["laboratory"].max() > 50
