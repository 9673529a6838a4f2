"""Test cases by share or by date: the newest of every registry, no case on both sides, or a sentence why not."""

import datetime
import json

import numpy as np
import polars as pl
import pytest

from pathveil.corpus.split import assign
from pathveil.errors import CorpusError, UsageError
from pathveil.federation import run as federation
from pathveil.studies import combined, distribution, study_file
from pathveil.studies.combined import CombinedSettings
from pathveil.studies.distribution import DistributionSettings
from pathveil.studies.held_out import HeldOutSettings
from pathveil.studies.scheduler import run_in_folder
from pathveil.studies.study_corpus import encode_corpus, load_encoded, read_study_corpus
from pathveil.studies.vocabulary import VocabularySettings, folds_of


def dated(path, out, **columns):
    """The small corpus with what is given as further columns."""
    pl.read_parquet(path).with_columns(**columns).write_parquet(out)
    return out


@pytest.fixture(scope="module")
def by_day(small_corpus, tmp_path_factory):
    """Reports of one day after the other from 2014 on, every ninth without a date."""
    days = [datetime.date(2014, 1, 1) + datetime.timedelta(days=5 * number // 2) for number in range(360)]
    column = pl.Series([None if number % 9 == 0 else day for number, day in enumerate(days)])
    return dated(small_corpus, tmp_path_factory.mktemp("dated") / "corpus.parquet", date=column)


@pytest.mark.parametrize("day", ["2015", "2015-06-03"])
def test_the_newest_cases_are_those_of_corpus_split(by_day, day):
    _, corpus = read_study_corpus(by_day)
    rows = HeldOutSettings(test_from=day).unseen(corpus, seed=1)
    held = np.concatenate(list(rows.values()))
    frame = pl.read_parquet(by_day)
    parts = assign(frame.lazy(), seed=1, validation=0.0, test_from=day)
    wanted = frame.join(parts.filter(pl.col("part") == "test"), on="case_id", how="semi")["report_id"]
    assert set(frame["report_id"][np.sort(held).tolist()]) == set(wanted)
    assert not np.isin(np.delete(corpus.cases, held), corpus.cases[held]).any()
    for number, own in rows.items():
        assert len(own) and (corpus.registries[own] == number).all()
    again = HeldOutSettings(test_from=day).unseen(corpus, seed=2)
    assert all((rows[number] == again[number]).all() for number in rows)  # whatever the seed


def test_a_folder_for_a_gpu_node_carries_the_days(by_day, small_corpus, tmp_path):
    encode_corpus(by_day, tmp_path / "encoded")
    _, corpus = load_encoded(tmp_path / "encoded")
    np.testing.assert_array_equal(corpus.days, read_study_corpus(by_day)[1].days)
    rows = np.array([3, 9, 5])
    taken = corpus.take(rows).days
    assert taken is not None and taken.tolist() == [corpus.days[row].item() for row in rows] and taken[1].item() is None
    (tmp_path / "encoded" / "days.npy").unlink()  # a folder of an earlier version
    with pytest.raises(CorpusError, match="test_from needs a column 'date' or 'year'"):
        HeldOutSettings(test_from="2015").unseen(load_encoded(tmp_path / "encoded")[1], seed=1)


def test_the_vocabulary_studys_folds_hold_out_the_newest(by_day):
    _, corpus = read_study_corpus(by_day)
    for fold in folds_of(corpus, VocabularySettings(test_from="2015")):
        training, unseen = corpus.days[fold.training], corpus.days[fold.unseen]
        assert not (training >= np.datetime64("2015-01-01")).any()
        assert set(corpus.cases[fold.training]).isdisjoint(corpus.cases[fold.unseen])
        assert (unseen >= np.datetime64("2015-01-01")).any()


@pytest.fixture
def trained(monkeypatch):
    """What each mode was trained and tested on, as (days of training, days of testing) of the cases."""
    seen = []

    def run(reports, *, unseen, **options):
        held = np.concatenate(list(unseen.values()))
        seen.append((np.delete(reports.days, held), reports.days[held]))
        return federation.run(reports, unseen=unseen, **options)

    monkeypatch.setattr(distribution, "run", run)
    monkeypatch.setattr(combined, "run", run)
    return seen


QUICK = {"dim": 8, "filters": 4, "epochs": 1, "optimiser": "adam"}
NEW_YEAR = np.datetime64("2015-01-01")


def test_the_distribution_study_tests_on_the_newest(by_day, trained, tmp_path):
    settings = DistributionSettings(modes=("single", "centralized"), seeds=(1, 2), test_from="2015", training=QUICK)
    result = run_in_folder(distribution.DistributionStudy(by_day, settings, out=tmp_path / "run")).to_dict()
    for before, after in trained:
        assert not (before >= NEW_YEAR).any() and (after >= NEW_YEAR).any()
    rows = {(row["registry"], row["mode"], row["seed"]): row["documents"] for row in result["scores"]}
    for registry, mode, seed in rows:
        assert rows[registry, mode, seed] == rows[registry, "single", 1]  # the same cases for every seed
    (below,) = [finding for finding in result["findings"] if finding["id"] == "B1"]
    assert below["evidence"]["comparisons"][0]["units"] == 3  # registries, not registries times seeds
    trained.clear()
    rehearsal = settings.model_copy(update={"rehearsal": True, "modes": ("single",)})
    run_in_folder(distribution.DistributionStudy(by_day, rehearsal, out=tmp_path / "rehearsal"))
    for before, after in trained:
        assert not (before >= NEW_YEAR).any() and not (after >= NEW_YEAR).any() and len(after)


def test_the_combined_study_tests_on_the_newest(by_day, trained, tmp_path):
    settings = CombinedSettings(modes=("centralized",), strategies=("B",), test_from="2015", training=QUICK)
    run_in_folder(combined.CombinedStudy(by_day, settings, out=tmp_path / "run"))
    ((before, after),) = trained
    assert not (before >= NEW_YEAR).any() and (after >= NEW_YEAR).any()


def test_the_command_takes_a_day(pathveil, by_day, small_corpus, tmp_path):
    options = ["--mode", "single", "--epochs", "1", "--filters", "4", "--set", "dim=8"]
    done = pathveil("federate", "run", by_day, "--out", tmp_path / "run", *options, "--test-from", "2015")
    assert done.returncode == 0, done.stderr
    for corpus, day, said in (
        (by_day, "soon", "--test-from soon is no date"),
        (small_corpus, "2015", "the corpus has"),
    ):
        done = pathveil("federate", "run", corpus, "--out", tmp_path / day, *options, "--test-from", day)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_a_registry_that_joins_can_be_tested_on_its_newest_cases(pathveil, by_day, tmp_path):
    quick = ["--epochs", "1", "--set", "dim=8"]
    pooled = ["--group", "A=R1", "--group", "B=R2", "--filters", "4"]
    done = pathveil("federate", "run", by_day, "--out", tmp_path / "run", *pooled, *quick)
    assert done.returncode == 0, done.stderr
    joining = ["federate", "join", tmp_path / "run", by_day, "--registry", "R3", *quick]
    for day, said in (("soon", "--test-from soon is no date"), ("2030", "no case has a report on or after 2030")):
        done = pathveil(*joining, "--test-from", day, "--out", tmp_path / "joined")
        assert done.returncode == 2 and said in done.stderr and not (tmp_path / "joined").exists()
    done = pathveil(*joining, "--test-from", "2015", "--out", tmp_path / "joined", "--json")
    assert done.returncode == 0, done.stderr
    _, corpus = read_study_corpus(by_day)
    held = HeldOutSettings(test_from="2015").unseen(corpus, seed=1)[corpus.registry_names.index("R3")]
    wanted = len(np.unique(corpus.cases[held[np.asarray(corpus.labels["site"])[held] >= 0]]))
    assert {row["cases"] for row in json.loads(done.stdout)["scores"] if row["task"] == "site"} == {wanted}
    assert wanted != len(np.unique(corpus.cases[corpus.registries == 2])) // 5


def test_what_cannot_be_is_one_sentence(small_corpus, by_day, tmp_path):
    with pytest.raises(CorpusError, match="test_from needs a column 'date' or 'year'; the corpus has neither"):
        HeldOutSettings(test_from="2015").unseen(read_study_corpus(small_corpus)[1], seed=1)
    with pytest.raises(CorpusError, match="no case has a report on or after 2030"):
        HeldOutSettings(test_from="2030").unseen(read_study_corpus(by_day)[1], seed=1)
    years = dated(small_corpus, tmp_path / "years.parquet", year=pl.Series([2014 + n // 180 for n in range(360)]))
    corpus = read_study_corpus(years)[1]
    assert sum(map(len, HeldOutSettings(test_from="2015").unseen(corpus, seed=1).values())) == 180
    with pytest.raises(UsageError, match="the corpus has years only; expected a year such as 2015"):
        HeldOutSettings(test_from="2015-06-01").unseen(corpus, seed=1)
    late = [datetime.date(2015 if registry == "R2" else 2014, 1, 2) for registry in pl.read_parquet(years)["registry"]]
    uneven = dated(small_corpus, tmp_path / "uneven.parquet", date=pl.Series(late))
    with pytest.raises(CorpusError, match="test_from 2015: registry R1 has no case on or after that day"):
        HeldOutSettings(test_from="2015").unseen(read_study_corpus(uneven)[1], seed=1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("test_from = 2015", None),
        ("test_from = 2015-06-01", None),
        ('test_from = "yesterday"', "'vocabulary.test_from': yesterday is no date; expected 2016-01-01"),
        ('test_from = "2015"\ntest_share = 0.3', "'test_share' and 'test_from' exclude each other"),
    ],
)
def test_it_is_a_setting_of_a_study_file(tmp_path, lines, message):
    path = tmp_path / "study.toml"
    path.write_text(f'name = "x"\n[corpus]\npath = "c.parquet"\n[vocabulary]\n{lines}\n')
    if message is None:
        settings = study_file.read(path).vocabulary
        assert settings is not None and settings.parts["test_from"].startswith("2015")
    else:
        with pytest.raises(UsageError, match=message):
            study_file.read(path)
