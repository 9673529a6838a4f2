"""Judging a corpus: every count against plain Python, no text anywhere."""

import json
import random
from collections import Counter

import polars as pl
import pytest

from corpus.good_corpus import SECRET, corpus
from pathveil.corpus.check import check
from pathveil.errors import CorpusError


def test_counts_against_plain_python():
    rng = random.Random(7)
    rows = [
        {
            "report_id": f"r{number}",
            "case_id": f"c{rng.randrange(300)}",
            "registry": rng.choice(["A", "B", "C"]),
            "year": rng.choice([None, 1999, 2005, 2016]),
            "text": " ".join(["word"] * rng.randrange(1, 3200)) + f" {number % 450}",
            "site": rng.choice([None, *"CCCCCCCCCDDDEF"]),
            "grade": f"g{int(rng.paretovariate(0.5)) % 60}",
        }
        for number in range(600)
    ]
    result = check(pl.LazyFrame(rows), tasks=["site", "grade"]).to_dict()
    assert result["reports"] == 600 and result["cases"] == len({row["case_id"] for row in rows})
    assert result["years"] == {
        str(year): n for year, n in sorted(Counter(r["year"] for r in rows if r["year"]).items())
    }
    lengths = sorted(len(row["text"].split()) for row in rows)
    assert result["words"]["longest"] == lengths[-1] and result["words"]["clipped"] == sum(n > 1500 for n in lengths)
    assert result["words"]["median"] == (lengths[299] + lengths[300]) // 2
    assert sum(bucket["reports"] for bucket in result["words"]["spread"]) == 600
    for name, row in result["registries"].items():
        mine = [r for r in rows if r["registry"] == name]
        assert row["reports"] == len(mine) and row["cases"] == len({r["case_id"] for r in mine})
        assert row["labelled"] == {"site": sum(r["site"] is not None for r in mine), "grade": len(mine)}
    for task in ("site", "grade"):
        counts = Counter(row[task] for row in rows if row[task])
        about = result["tasks"][task]
        assert (about["classes"], about["labelled"]) == (len(counts), sum(counts.values()))
        assert counts[about["largest"]] == max(counts.values())
        for bucket in about["rarity"]:
            inside = [n for n in counts.values() if bucket["from"] <= n <= (bucket["to"] or n)]
            assert (bucket["classes"], bucket["reports"]) == (len(inside), sum(inside))
    cases = {name: {r["case_id"] for r in rows if r["registry"] == name} for name in "ABC"}
    texts = {name: {r["text"] for r in rows if r["registry"] == name} for name in "ABC"}
    grades = {name: Counter(r["site"] for r in rows if r["registry"] == name and r["site"]) for name in "ABC"}
    for pair in result["overlap"]["pairs"]:
        one, other = pair["registries"]
        assert pair["cases"] == len(cases[one] & cases[other]) and pair["texts"] == len(texts[one] & texts[other])
        shares = [{k: n / grades[name].total() for k, n in grades[name].items()} for name in (one, other)]
        common = sum(min(shares[0].get(k, 0), shares[1].get(k, 0)) for k in "CDEF")
        assert pair["same_mix"] == pytest.approx(common, abs=1e-3)
    for name, only in result["overlap"]["only_here"].items():
        away = {r["grade"] for r in rows if r["registry"] != name}
        assert only["grade"] == len({r["grade"] for r in rows if r["registry"] == name} - away)


def test_the_result_reads_as_the_page_and_as_a_table():
    result = check(corpus(text=["short"], site=["C61"]))
    assert "40 reports · 40 cases · 2 registries" in repr(result) and SECRET not in repr(result)
    assert all(len(line) <= 80 for line in repr(result).splitlines())
    assert result.to_frame()["id"].to_list() == [warning.id for warning in result.warnings] != []


def test_a_corpus_that_breaks_the_schema_is_refused():
    with pytest.raises(CorpusError, match="column 'case_id': 1 report has none"):
        check(corpus(case_id=[None]))


def test_the_command(tcga, pathveil):
    done = pathveil("corpus", "check", tcga)
    assert done.returncode == 0 and "6,453 reports · 6,453 cases · 7 registries" in done.stdout
    assert "task behavior is nearly constant: 3 is 99.6% of its labels" in done.stdout
    result = json.loads(pathveil("corpus", "check", tcga, "--json", "--tasks", "site,histology").stdout)
    assert list(result["tasks"]) == ["site", "histology"] and result["reports"] == 6453
    wrong = pathveil("corpus", "check", tcga, "--tasks", "hystology")
    assert wrong.returncode == 2 and "did you mean 'histology'?" in wrong.stderr


def test_a_label_that_looks_like_no_code_is_not_shown():
    """A column of names that is called site is not for a terminal."""
    frame = pl.DataFrame(
        {"report_id": ["a", "b"], "case_id": ["1", "2"], "registry": ["R"] * 2, "text": ["left", "right"]}
    )
    found = check(frame.with_columns(site=pl.lit(SECRET)).lazy())
    assert SECRET not in found.to_json() + found.summary() and "what looks like no code" in found.summary()


def test_a_corpus_that_changes_while_it_is_read_is_told(tmp_path, monkeypatch):
    frame = pl.DataFrame({"report_id": ["a"], "case_id": ["1"], "registry": ["R"], "text": ["left"]})
    frame.write_parquet(tmp_path / "c.parquet")

    def cut(_, *, source):
        (tmp_path / "c.parquet").write_bytes(b"PAR1")
        return pl.scan_parquet(tmp_path / "c.parquet")

    monkeypatch.setattr("pathveil.corpus.check.validate", cut)
    with pytest.raises(CorpusError, match="changed while it was read"):
        check(pl.scan_parquet(tmp_path / "c.parquet"))
