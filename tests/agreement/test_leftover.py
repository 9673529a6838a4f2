"""What is left: planted words found by their spans, and counted against plain loops and a real agreement."""

import json

import numpy as np
import polars as pl
import pytest

from pathveil.agreement import leftover
from pathveil.agreement.leftover import measure_leftover
from pathveil.agreement.simulate import by_registry, simulate
from pathveil.corpus.synth import SynthSettings, write_corpus
from pathveil.errors import CorpusError, UsageError
from pathveil.vocabulary.corpus_counts import count_corpus
from pathveil.vocabulary.planted import PlantedWords, planted_words


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    write_corpus(SynthSettings(reports=300, seed=3), out=folder / "corpus.parquet", truth=folder / "truth.parquet")
    return folder / "corpus.parquet", folder / "truth.parquet"


def test_planted_words_by_hand(tmp_path):
    text = "Dr. Smith-Jones saw the left lobe; Smith, 12 Lobe Street"
    start, home = text.index("Smith-Jones"), text.index("12 Lobe")
    spans = [("physician_name", start, start + 11), ("patient_name", 35, 40), ("address", home, len(text))]
    pl.DataFrame(
        {"report_id": ["a", "b"], "case_id": ["a", "b"], "registry": ["X", "X"], "text": [text, "no street here"]}
    ).write_parquet(tmp_path / "c.parquet")
    pl.DataFrame(
        {
            "report_id": "a",
            "kind": [kind for kind, _, _ in spans],
            "start": [begin for _, begin, _ in spans],
            "end": [end for _, _, end in spans],
        }
    ).write_parquet(tmp_path / "t.parquet")
    found = planted_words(tmp_path / "c.parquet", tmp_path / "t.parquet")
    assert found.only == {"address": {"12"}, "patient_name": {"smith"}, "physician_name": {"smith-jones"}}
    assert found.also == {"address": {"lobe", "street"}, "patient_name": set(), "physician_name": set()}


def test_every_cell_against_a_loop():
    draw = np.random.default_rng(0)
    cases = draw.integers(0, 12, (7, 60))
    words = [f"w{number}" for number in range(60)]
    planted = PlantedWords(
        only={"patient_name": frozenset(words[:20]), "address": frozenset(words[10:25])},
        also={"address": frozenset(words[30:33])},
    )
    result = measure_leftover(words, cases, planted).to_dict()
    assert len(result["rows"]) == 60 and result["planted"] == 25
    for row in result["rows"]:
        passed = {
            word for place, word in enumerate(words) if sum(held >= row["m"] for held in cases[:, place]) >= row["k"]
        }
        assert row["words"] == len(passed)
        assert row["personal"] == len(passed & set(words[:25]))
        assert row["by_kind"] == {
            "patient_name": len(passed & set(words[:20])),
            "address": len(passed & set(words[10:25])),
        }
        assert row["also_ordinary"] == len(passed & set(words[30:33]))
        assert row["cases_at_least"] == row["k"] * row["m"]


def test_it_says_what_an_agreement_gives(synthetic):
    corpus, truth = synthetic
    counts = count_corpus(corpus, tasks=())
    planted = planted_words(corpus, truth)
    result = measure_leftover(counts.words, counts.cases, planted).to_dict()
    personal = frozenset().union(*planted.only.values())
    assert result["planted"] == len(personal & set(counts.words)) > 150  # others are hidden before words are counted
    agreed = simulate(by_registry(counts), threshold=4, min_cases=10, batch=64).vocabulary.words
    row = next(row for row in result["rows"] if (row["k"], row["m"]) == (4, 10))
    assert (row["words"], row["personal"]) == (len(agreed), len(personal & set(agreed)))


def test_more_sites_or_more_cases_never_leave_more(synthetic):
    corpus, truth = synthetic
    counts = count_corpus(corpus, tasks=())
    rows = measure_leftover(counts.words, counts.cases, planted_words(corpus, truth)).rows()
    left = {(row["k"], row["m"]): row["personal"] for row in rows}
    assert all(left[k, m] >= left[k + 1, m] for k in range(2, 7) for m in range(1, 11))
    assert all(left[k, m] >= left[k, m + 1] for k in range(2, 8) for m in range(1, 10))
    assert left[2, 1] > left[7, 10]


def test_the_command_writes_numbers_and_no_words(synthetic, tmp_path, pathveil):
    corpus, truth = synthetic
    done = pathveil("vocab", "agree", "leftover", corpus, "--truth", truth, "--out", tmp_path / "left", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert len(result["rows"]) == 60
    markdown = (tmp_path / "left" / "leftover.md").read_text()
    assert f"| 2 | {result['rows'][0]['personal']:,} /" in markdown and "| 7 |" in markdown
    assert (tmp_path / "left" / "leftover.svg").read_text().startswith("<?xml")
    personal = {word for words in planted_words(corpus, truth).only.values() for word in words if len(word) > 5}
    written = done.stdout + done.stderr + markdown + (tmp_path / "left" / "leftover.json").read_text()
    assert not [word for word in personal if word in written]


def test_bad_input(tmp_path, synthetic):
    corpus, _ = synthetic
    for wrong in (corpus, tmp_path / "none.parquet"):
        with pytest.raises(CorpusError, match="is not a truth file"):
            planted_words(corpus, wrong)
    with pytest.raises(UsageError, match="the corpus has 3"):
        measure_leftover(["a"], np.ones((3, 1)), PlantedWords(only={"x": frozenset(["a"])}, also={}))
    assert leftover.THRESHOLDS == range(2, 8) and leftover.MIN_CASES == range(1, 11)
