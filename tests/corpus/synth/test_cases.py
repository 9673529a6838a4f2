"""Cases: labels that agree, several reports, people who are themselves."""

import polars as pl

from pathveil.icdo.lists import LATERALITIES, code_lists


def test_labels_agree_with_each_other(made):
    _, names, terms, paired, plausible = code_lists()
    for row in made[0].select("site", "subsite", "histology", "behavior", "laterality").iter_rows(named=True):
        if row["subsite"]:
            assert row["subsite"] in names and row["site"] in (None, row["subsite"][:3])
        if row["histology"] and row["behavior"]:
            assert f"{row['histology']}/{row['behavior']}" in terms
            if row["subsite"]:
                assert f"{row['histology']}/{row['behavior']}" in plausible[row["subsite"]]
        if row["subsite"] and row["laterality"]:
            assert row["laterality"] in LATERALITIES
            assert (row["laterality"] == "not_paired") == (row["subsite"] not in paired)
        if row["subsite"] == "C34.2":
            assert row["laterality"] in (None, "right")


def test_a_case_keeps_its_registry_and_labels_and_comes_in_several_reports(made):
    reports = made[0]
    by_case = reports.group_by("case_id").agg(pl.col("registry", "site", "histology").n_unique(), pl.len())
    assert by_case["registry"].max() == by_case["site"].max() == by_case["histology"].max() == 1
    assert by_case["len"].max() > 2 and by_case["len"].min() == 1
    assert reports["report_id"].is_unique().all() and reports["registry"].n_unique() == 7
    assert reports["text"].null_count() == 0 and reports["text"].str.len_chars().min() > 100
    days = reports.with_columns(days=(pl.col("date") - pl.col("diagnosis_date")).dt.total_days())
    assert days["days"].min() >= 0 and (days["days"] > 10).any() and reports["date"].dt.year().n_unique() > 10
    for task in ("subsite", "laterality", "histology", "behavior"):
        assert 0 < reports[task].null_count() < 0.06 * reports.height
