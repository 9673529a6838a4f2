"""Splits: no case in two parts, every report in one, shares and strata kept, dates obeyed, seeds that count."""

import datetime
import json
import os
import random
from collections import Counter, defaultdict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.split import assign, cases_of, split_corpus, write_parts
from pathveil.corpus.tables.files import stream_parquet
from pathveil.errors import CorpusError, UsageError


def reports(cases: int, *, seed: int = 0, registries: int = 3, **extra) -> pl.DataFrame:
    rng = random.Random(seed)
    rows = []
    for case in range(cases):
        registry = f"R{rng.randrange(registries)}"
        site = f"C{int(rng.paretovariate(0.8)) % 30:02}"
        for _ in range(rng.choice([1, 1, 2, 4])):
            date = datetime.date(2010, 1, 1) + datetime.timedelta(days=rng.randrange(3000))
            rows.append(
                {
                    "report_id": f"r{len(rows):05}",
                    "case_id": f"c{case:04}",
                    "registry": registry,
                    "date": rng.choice([None, date, date, date]),
                    "text": f"report {len(rows)}",
                    "site": rng.choice([None, site, site, site]),
                    "laterality": rng.choice(["left", "right"]),
                }
            )
    rng.shuffle(rows)
    return pl.DataFrame(rows)


def parts(frame: pl.DataFrame, **options) -> dict[str, str]:
    table = assign(frame.lazy(), **({"seed": 1} | options))
    assert table["case_id"].is_sorted()
    return dict(table.iter_rows())


@given(
    cases=st.integers(3, 60),
    seed=st.integers(0, 5),
    test=st.floats(0, 0.99),
    validation=st.floats(0, 0.99),
)
@settings(max_examples=60, deadline=None)
def test_every_case_has_one_part_and_the_shares_hold(cases, seed, test, validation):
    frame = reports(cases, seed=seed)
    try:
        found = Counter(parts(frame, seed=seed, test=test, validation=validation).values())
    except CorpusError as error:
        assert "the corpus is too small for these shares" in str(error)
        return
    assert sum(found.values()) == cases
    assert abs(found["test"] - cases * test) < 1
    assert abs(found["validation"] - (cases - found["test"]) * validation) < 1


def test_the_draw_depends_on_cases_and_seed_alone():
    frame = reports(300)
    first = parts(frame)
    assert parts(frame.sample(fraction=1, shuffle=True, seed=5)) == first
    assert parts(frame.with_columns(pl.col("text") + "x")) == first
    assert parts(frame, seed=2) != first
    random.seed(3)
    assert parts(frame) == first


def test_strata_are_divided_evenly():
    frame = reports(2000)
    found = parts(frame, test=0.3, validation=0.25)
    strata = defaultdict(Counter)
    for case, registry, stratum, *_ in cases_of(frame.lazy(), ("site", "laterality")).iter_rows():
        strata[registry, stratum][found[case]] += 1
    assert len(strata) > 50
    for counts in strata.values():
        size = counts.total()
        # A run of neighbours in a list of which every n-th is taken is off by less than one.
        assert abs(counts["test"] - 0.3 * size) < 1
        assert abs(counts["validation"] - 0.25 * (size - counts["test"])) < 1


def test_the_stratum_is_the_rarest_label():
    frame = pl.DataFrame(
        {
            "case_id": ["1", "1", "2", "3", "4"],
            "registry": ["R"] * 5,
            "site": ["C50", None, "C50", "C50", None],
            "laterality": [None, "left", "left", "right", None],
        }
    )
    table = cases_of(frame.lazy(), ("site", "laterality"))
    assert table["stratum"].to_list() == ["laterality left", "laterality left", "laterality right", ""]
    assert cases_of(frame.lazy(), ())["stratum"].to_list() == [""] * 4


@pytest.mark.parametrize("day", ["2015", "2015-01-01", "2016-07-19"])
def test_by_date(day):
    frame = reports(400)
    first = datetime.date.fromisoformat(day if "-" in day else f"{day}-01-01")
    found = parts(frame, test_from=day)
    for case, dates in frame.group_by("case_id").agg(pl.col("date").drop_nulls()).iter_rows():
        assert (found[case] == "test") == any(date >= first for date in dates)
    rest = Counter(part for part in found.values() if part != "test")
    assert abs(rest["validation"] - 0.2 * rest.total()) < 1


def test_by_year():
    frame = reports(200).with_columns(pl.col("date").dt.year().alias("year")).drop("date")
    found = parts(frame, test_from="2016")
    late = set(frame.filter(pl.col("year") >= 2016)["case_id"])
    assert {case for case, part in found.items() if part == "test"} == late
    with pytest.raises(UsageError, match="the corpus has years only; expected a year such as 2016"):
        parts(frame, test_from="2016-03-01")
    both = reports(200).with_columns(pl.when(pl.col("date").is_null()).then(2017).alias("year"))
    late = set(both.filter((pl.col("date") >= datetime.date(2016, 3, 1)) | (pl.col("year") > 2016))["case_id"])
    assert {case for case, part in parts(both, test_from="2016-03-01").items() if part == "test"} == late


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"test": 0.2, "test_from": "2016"}, UsageError, "--test and --test-from exclude each other"),
        ({"test": 1.0}, UsageError, "--test 1 is no share"),
        ({"validation": -0.1}, UsageError, "--validation -0.1 is no share"),
        ({"test_from": "01/02/2016"}, UsageError, "--test-from 01/02/2016 is no date"),
        ({"test_from": "2050"}, CorpusError, "no case has a report on or after 2050"),
        ({"test_from": "1990"}, CorpusError, "none is left for train"),
        ({"tasks": ["sight"]}, CorpusError, "no task column 'sight' .did you mean 'site'"),
    ],
)
def test_bad_options(options, error, match):
    with pytest.raises(error, match=match):
        parts(reports(50).drop_nulls("date"), **options)
    if "2016" in options.values():
        with pytest.raises(CorpusError, match="needs a column 'date' or 'year'"):
            parts(reports(50).drop("date"), test_from="2016")


def test_the_files(tmp_path):
    frame = reports(300)
    frame.write_parquet(tmp_path / "c.parquet")
    out = tmp_path / "split"
    result = split_corpus(tmp_path / "c.parquet", out=out, seed=4)
    assert sorted(os.listdir(out)) == ["split.json", "test.parquet", "train.parquet", "validation.parquet"]
    read = {part: pl.read_parquet(out / f"{part}.parquet") for part in ("train", "validation", "test")}
    assert pl.concat(read.values()).sort("report_id").equals(frame.sort("report_id"))
    cases = [set(table["case_id"]) for table in read.values()]
    assert sum(map(len, cases)) == len(set.union(*cases)) == 300
    for part, table in read.items():
        counts = result.to_dict()["parts"][part]
        assert counts["reports"] == table.height and counts["cases"] == table["case_id"].n_unique()
        assert counts["registries"] == dict(sorted(Counter(table["registry"]).items()))
        assert counts["classes"]["site"] == table["site"].drop_nulls().n_unique()
        assert table["report_id"].to_list() == [name for name in frame["report_id"] if name in set(table["report_id"])]
    assert result.untrained["site"] == len(set(read["test"]["site"]) - set(read["train"]["site"]) - {None})
    assert json.loads((out / "split.json").read_text()) == result.to_dict()


def test_a_split_overwrites_nothing(tmp_path):
    reports(60).write_parquet(tmp_path / "c.parquet")
    result = split_corpus(tmp_path / "c.parquet", out=tmp_path / "s", seed=1, validation=0)
    assert sorted(os.listdir(tmp_path / "s")) == ["split.json", "test.parquet", "train.parquet"]
    assert list(result.parts) == ["train", "test"]
    before = (tmp_path / "s" / "train.parquet").read_bytes()
    with pytest.raises(UsageError, match="is there already; choose another name"):
        split_corpus(tmp_path / "c.parquet", out=tmp_path / "s", seed=2)
    assert (tmp_path / "s" / "train.parquet").read_bytes() == before


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written to; choose another folder"):
        split_corpus(tmp_path / "none.parquet", out=tmp_path / "file" / "s", seed=1)


def test_two_splits_at_once_do_not_mix_their_parts(tmp_path, monkeypatch):
    """The second begins while the first writes; it had found the folder new."""
    reports(40).write_parquet(tmp_path / "c.parquet")

    def write_other_first(*arguments, **options):
        monkeypatch.undo()
        monkeypatch.setattr("pathveil.corpus.split.check_new", lambda _: None)
        with pytest.raises(UsageError, match=r"split\.json: another process is writing it, or has"):
            split_corpus(tmp_path / "c.parquet", out=tmp_path / "s", seed=2)
        write_parts(*arguments, **options)

    monkeypatch.setattr("pathveil.corpus.split.write_parts", write_other_first)
    result = split_corpus(tmp_path / "c.parquet", out=tmp_path / "s", seed=1)
    assert json.loads((tmp_path / "s" / "split.json").read_text())["seed"] == result.seed == 1
    assert pl.read_parquet(tmp_path / "s" / "test.parquet").height == result.parts["test"].reports


def test_relevance_comes_first(tmp_path):
    frame = reports(120).with_columns(pl.col("date").min().over("case_id").alias("diagnosis"))
    frame.write_parquet(tmp_path / "c.parquet")
    result = split_corpus(tmp_path / "c.parquet", out=tmp_path / "s", seed=1, relevant_to=["diagnosis"], days=10)
    near = frame.filter((pl.col("date") - pl.col("diagnosis")).dt.total_days() <= 10)
    assert result.relevance.kept == near.height == sum(part.reports for part in result.parts.values())
    kept = pl.concat(pl.read_parquet(tmp_path / "s" / f"{part}.parquet") for part in result.parts)
    assert set(kept["report_id"]) == set(near["report_id"])


def test_nothing_is_left_of_a_split_that_fails(tmp_path, monkeypatch):
    reports(60).write_parquet(tmp_path / "c.parquet")

    def fail_at_the_last(frame, part, path):
        stream_parquet(frame, part, path)
        if path.name == "test.parquet":
            raise CorpusError("no")

    monkeypatch.setattr("pathveil.corpus.split.stream_parquet", fail_at_the_last)
    with pytest.raises(CorpusError):
        split_corpus(tmp_path / "c.parquet", out=tmp_path / "s", seed=1)
    assert os.listdir(tmp_path / "s") == []


def test_the_command(tcga, tmp_path, pathveil):
    done = pathveil("corpus", "split", tcga, "--test-from", "2012", "--seed", "3", "--out", tmp_path / "s")
    assert done.returncode == 0, done.stderr
    assert "6,453 reports of 6,453 cases" in done.stdout and "46 cases without any date" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.replace(str(tmp_path), "").split("\n"))
    again = pathveil("corpus", "split", tcga, "--test-from", "2012", "--seed", "3", "--out", tmp_path / "t", "--json")
    assert json.loads(again.stdout)["parts"] == json.loads((tmp_path / "s" / "split.json").read_text())["parts"]
    for name in ("train", "validation", "test"):
        assert pl.read_parquet(tmp_path / "s" / f"{name}.parquet").equals(
            pl.read_parquet(tmp_path / "t" / f"{name}.parquet")
        )
