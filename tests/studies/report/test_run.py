"""A study in Python: from a dictionary, settings or a file, with words of one's own beside the papers'."""

import json
import shutil

import pytest

from pathveil.errors import PathveilError, UsageError
from pathveil.studies.report.run import run_study
from pathveil.studies.study_file import read, settings_of
from pathveil.vocabulary.words import Vocabulary
from studies.conftest import PLANTED

MODEL = {"dim": 8, "filters": 4, "epochs": 1}
SITES = Vocabulary(("breast", "prostate", "lung", "nowhere"), "the sites, by hand")


def frequent(measures):
    """The words that most training reports hold."""
    often = measures("reports").argsort()[::-1][:4]
    return [measures.counts.words[number] for number in often]


@pytest.fixture(scope="module")
def study(small_corpus, tmp_path_factory):
    SITES.save(tmp_path_factory.mktemp("words") / "sites.json")
    section = {"strategies": ["B"], "shadows": 2, "counts": [1], "folds": ["R1"], "training": MODEL}
    return {"name": "mine", "corpus": {"path": str(small_corpus)}, "vocabulary": section}


def test_own_words_stand_beside_the_papers(study, one_thread):
    result = run_study(study, vocabularies={"sites": SITES, "frequent": frequent})
    try:
        rows = {row.strategy: row for row in result.studies.vocabulary.vocabularies}
        assert list(rows) == ["B", "sites", "frequent"]
        assert rows["sites"].sha256 == SITES.sha256 and rows["sites"].size == 4
        assert rows["frequent"].size == 4 and rows["frequent"].method.startswith("own choice frequent, sha256 ")
        assert {one.name for one in result.studies.vocabulary.recommendation.candidates} == set(rows)
        assert "frequent" in result.report_path.read_text()
        assert read(result.folder / "study.toml") == settings_of(study, place="study")
        # Nothing is trained again, with the same words and function.
        cells = sorted(path.name for path in (result.folder / "vocabulary" / "cells").iterdir())
        own = {"frequent": frequent, "sites": SITES}
        again = run_study(result.folder / "study.toml", out=result.folder, vocabularies=own)
        assert again.findings == result.findings
        assert sorted(path.name for path in (result.folder / "vocabulary" / "cells").iterdir()) == cells
    finally:
        shutil.rmtree(result.folder)


def test_a_repeated_study_says_what_holds_here_and_what_would_decide_it(study, tmp_path, one_thread):
    words = study["vocabulary"] | {"strategies": ["B", "I2"], "folds": ["R1", "R2"], "repeats": 2}
    arms = {"each": {"mode": "adversarial", "private_every": 1}}
    modes = {"modes": ["single", "adversarial"], "seeds": [1, 2], "arms": arms, "training": MODEL}
    result = run_study(study | {"vocabulary": words, "distribution": modes}, out=tmp_path / "run")
    found = {finding.id: finding for finding in result.findings}
    chosen = result.studies.vocabulary.vocabularies
    assert [(row.repeat, row.fold, row.strategy) for row in chosen[::2]] == [
        (repeat, fold, "B") for repeat in (1, 2) for fold in ("R1", "R2")
    ]
    for id, units in (("A3", 2), ("A6", 2), ("B3", 3)):
        compared = found[id].evidence.comparisons[0]
        assert compared.units == units and compared.spread.repeats == 2
        assert compared.these.low <= compared.difference <= compared.these.high and compared.these.cases == 180
        assert {row.reports for row in compared.needed} == {1, 3, 10}
    [micro, macro] = result.studies.distribution.arms
    assert micro.compared == "micro F1, each − adversarial" and macro.units == 3
    page = result.report_path.read_text()
    assert "would decide it" in page and "at these registries" in page and PLANTED not in page


def test_own_words_in_a_study_file(study, tmp_path, one_thread):
    SITES.save(tmp_path / "sites.json")
    modes = {
        "modes": ["centralized"],
        "strategies": ["B"],
        "training": MODEL,
        "own": {"s": str(tmp_path / "sites.json")},
    }
    content = {"name": "mine", "corpus": study["corpus"], "combined": modes}
    result = run_study(settings_of(content, place="study"), out=str(tmp_path / "run"))
    assert [(point.strategy, point.size) for point in result.studies.combined.points][1] == ("s", 4)
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result.to_dict()
    assert result.report_path == tmp_path / "run" / "report.html"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary": {"own": {"B": "sites.json"}}}, "study: 'corpus': is missing"),
        ({"corpus": {"reports": 90}, "vocabulary": {"own": {"x": "none.json"}}}, "'own': none.json"),
        ({"corpus": {"reports": 90}, "vocabulary": {"shadow": 2}}, "did you mean 'shadows'?"),
    ],
)
def test_mistakes_are_one_sentence(change, message, tmp_path):
    with pytest.raises(PathveilError) as error:
        run_study({"name": "x"} | change, out=tmp_path / "run")
    assert message in str(error.value) and not (tmp_path / "run").exists()


def test_a_name_that_is_taken_or_a_folder_that_is_something_else_is_refused(study, tmp_path):
    with pytest.raises(UsageError, match="'own': 'B' is the name of another vocabulary"):
        run_study(study, out=tmp_path / "run", vocabularies={"B": SITES})
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is no run to go on with; choose a new folder"):
        run_study(study, out=tmp_path)
