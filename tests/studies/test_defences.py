"""The defences study: ways as they are written, a small one from file to page, and what is read off its rows."""

import json

import numpy as np
import pytest

from pathveil.auditing.worlds import CANARIES, DefenceRow, judge_worlds, make_worlds
from pathveil.errors import UsageError
from pathveil.studies import study_file
from pathveil.studies.answer import answer
from pathveil.studies.defence_choice import points_of, recommend_way
from pathveil.studies.defences import DefencesSettings, DefencesStudy, settings_of_way
from pathveil.studies.plan import plan
from pathveil.studies.report import page
from pathveil.studies.result import StudyResult, fault_of, read_run
from pathveil.studies.study_corpus import read_study_corpus
from pathveil.studies.tables import WayRow
from pathveil.studies.world_models import WorldsDraw
from pathveil.training.defences import DPSettings, TeacherSettings
from studies.conftest import PLANTED

STUDY = """
name = "small"
[corpus]
path = "{corpus}"
[defences]
ways = {{ none = {{}}, taught = {{ preset = "release", teachers = 2, unseen = 1 }} }}
worlds = 4
canaries = 20
[defences.training]
dim = 8
filters = 4
epochs = 3
learning_rate = 0.02
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory, small_corpus):
    out = tmp_path_factory.mktemp("defences")
    (out / "file.toml").write_text(STUDY.format(corpus=small_corpus))
    result = study_file.run(out / "file.toml", out=out / "run")
    page.write(result, out / "run" / "report.html")
    return out, result


def test_a_study_of_defences_goes_from_file_to_page(run):
    out, result = run
    found = result.studies.defences
    assert [(row.way, row.seed, row.worlds) for row in found.table] == [("none", 1, 4), ("taught", 1, 4)]
    assert [point.name for point in found.points] == ["none", "taught"]
    assert set(found.points[0].canaries) == set(CANARIES)
    assert found.points[0].changes == {}
    assert set(found.points[1].changes) == {"auc", "micro", "macro"}
    assert any(point.front for point in found.points)
    text = (out / "run" / "result.json").read_text()
    assert fault_of(text, StudyResult) == ""
    assert read_run(out / "run" / "result.json").to_dict() == result.to_dict()
    told = (out / "run" / "report.html").read_text()
    for words in (
        "A model that may leave the building",
        "mislabelled, with a near-duplicate",
        "Every attack&#39;s AUC",
    ):
        assert words in told
    assert ("recommended" if found.recommendation.within else "leaks least") in told
    assert PLANTED not in told + text
    assert found.recommendation.use in answer(result)[0]
    assert [row["name"] for row in result.rows()] == ["none", "taught"]


def test_what_is_finished_is_not_trained_again(run, monkeypatch):
    out, result = run
    monkeypatch.setattr("pathveil.studies.world_models.answer_worlds", None)
    monkeypatch.setattr("pathveil.studies.world_models.judge_worlds", None)
    assert study_file.run(out / "file.toml", out=out / "run").to_dict() == result.to_dict()


def test_a_finished_study_has_nothing_planned(run):
    out, _ = run
    made = plan(out / "file.toml", out=out / "run")
    assert [(row.kind, row.cells, row.finished, row.left) for row in made.work] == [
        ("none", 1, 1, 0),
        ("attacks", 2, 2, 0),
        ("taught", 1, 1, 0),
    ]


def test_a_study_can_be_planned(run, monkeypatch, rough_calibration):
    monkeypatch.setattr("pathveil.studies.plan.starting", lambda workers: 1.0)
    out, _ = run
    made = plan(out / "file.toml", out=out / "another")
    rows = {row.kind: row for row in made.work}
    assert [rows[kind].left for kind in ("none", "taught", "attacks")] == [1, 1, 2]
    assert all(row.seconds > 0 for row in made.work)
    assert rows["taught"].documents == 2 * rows["none"].documents  # one of two teachers sees a report, and the student
    assert not (out / "another").exists()


def test_units_count_teachers_and_what_they_learn_from(corpus, tmp_path):
    ways = {"none": {}, "taught": {"preset": "release", "teachers": 5, "unseen": 2}}
    study = DefencesStudy(corpus, DefencesSettings(ways=ways, worlds=6, seeds=(1, 2)), out=tmp_path)
    units = [unit for unit in study.units(device="cpu") if unit.kind != "attacks"]
    some = ("1–3", "4–6")  # no more than four worlds a unit
    names = [f"worlds {way}, cases >= 5, seed {seed}, {part}" for seed in (1, 2) for way in ways for part in some]
    assert [unit.name for unit in units] == names
    plain, taught = units[0], units[2]
    assert (plain.models, taught.models) == (3, 18)
    assert plain.documents == 3 * 144  # half of four fifths of 360 reports
    assert taught.documents == 4 * plain.documents  # a report teaches the student and three teachers of five


def test_ways_are_presets_with_changes():
    ways = {"release": "release", "dp": {"preset": "private", "noise": 1.5}, "default": {"preset": "default"}}
    settings = DefencesSettings(ways=ways, training={"filters": 7, "patience": 2})
    release, private, default = (settings.way(name) for name in ways)
    assert isinstance(release.defence, TeacherSettings)
    assert (release.filters, release.patience) == (7, 2)
    assert isinstance(private.defence, DPSettings)
    assert (private.defence.noise, private.defence.epsilon, private.patience) == (1.5, None, None)
    assert (default.members, default.linear, default.smoothing) == (1, False, 0.1)  # of an ensemble one network
    assert settings_of_way("release", {"word_dropout": 0.1}, common={"word_dropout": 0.9}).word_dropout == 0.1


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"ways": {}}, "'ways' is empty"),
        ({"ways": {"x": "realease"}}, "'ways.x': preset realease is not known"),
        ({"ways": {"x": {"word_dropuot": 0.5}}}, "'ways.x': 'word_dropuot': there is no such setting; did you mean"),
        ({"ways": {"x": {"preset": "release", "teacher": 3}}}, "did you mean 'teachers'?"),
        ({"ways": {"x": {"teachers": 3}}}, "'teachers': there is no such setting"),  # 'small' has no teachers
        ({"ways": {"x": {"members": 3}}}, "'ways.x': 'members' is not for a world's model, which is one network"),
        ({"training": {"epoch": 3}}, "did you mean 'epochs'?"),
        ({"canaries": 5}, "at least 20 of each kind"),
        ({"worlds": 2}, "greater than or equal to 4"),
        ({"seeds": [1, 1]}, "1 is there twice"),
    ],
)
def test_a_mistake_is_one_sentence(section, complaint):
    content = {"name": "x", "corpus": {"reports": 100}, "defences": section}
    with pytest.raises(UsageError, match="study: ") as refused:
        study_file.settings_of(content, place="study")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_defence_in_the_vocabulary_study_is_sent_to_its_section():
    content = {"name": "x", "corpus": {"reports": 100}, "vocabulary": {"training": {"defence": {"kind": "teachers"}}}}
    with pytest.raises(UsageError, match=r"'defence' is for \[defences\]"):
        study_file.settings_of(content, place="study")


def test_too_few_cases_are_refused(corpus, tmp_path):
    with pytest.raises(UsageError, match=r"at least 200 cases to train on and has \d+; plant fewer canaries"):
        DefencesStudy(corpus, DefencesSettings(canaries=60), out=tmp_path)
    with pytest.raises(UsageError, match=r"to train on and has \d+; lower 'test_share', or add reports"):
        DefencesStudy(corpus, DefencesSettings(canaries=0, test_share=0.97), out=tmp_path)
    with pytest.raises(UsageError, match="at least 10 cases with a label of 'site' to test on"):
        DefencesStudy(corpus, DefencesSettings(test_share=0.001), out=tmp_path)


def test_every_vocabulary_has_the_same_worlds(corpus):
    _, encoded = read_study_corpus(corpus)
    numbers, size = np.arange(encoded.vocabulary_size, dtype=np.int32), 2 + encoded.vocabulary_size
    one, other = (WorldsDraw(numbers // by + 2, size, 5, 0.2, 20, 3).draw(encoded) for by in (2, 1))
    assert (one.inside == other.inside).all()
    assert (one.canary == other.canary).all()
    assert (one.corpus.labels["site"] == other.corpus.labels["site"]).all()


def made_rows(corpus, *, leaks, right, seed=1):
    """Rows of made-up answers: how much more members' own codes are believed, and how often a code is right."""
    _, encoded = read_study_corpus(corpus)
    worlds = make_worlds(encoded, worlds=8, seed=seed)
    rng, labels = np.random.default_rng(seed), np.asarray(encoded.labels["site"])
    rows = []
    for way in leaks:
        believed = rng.normal(size=worlds.inside.shape) + leaks[way] * worlds.inside
        codes = np.where(rng.random(worlds.inside.shape) < right[way], labels, (labels + 1) % 3)
        kept = [f"{name}{margin} site" for name in ("own", "taught", "second") for margin in ("", " margin")]
        arrays = {name: believed.astype(np.float16) for name in kept}
        row = judge_worlds(worlds, arrays | {"code site": codes.astype(np.int16)}, name=way)
        about = {"way": way, "vocabulary": "B", "words": 10, "seed": seed}
        rows.append(WayRow.model_validate(row.to_dict() | about))
    return rows


def test_the_quieter_way_is_recommended_where_it_keeps_to_the_appetite(corpus):
    right = {"none": 0.9, "quiet": 0.85, "poor": 0.4}
    rows = made_rows(corpus, leaks={"none": 2.0, "quiet": 0.0, "poor": 0.0}, right=right)
    points = points_of(rows)
    none, quiet = points[:2]
    assert none.auc.low > 0.8 > 0.6 > quiet.auc.high
    assert quiet.changes["auc"].high < -0.2
    assert quiet.changes["macro"].value == pytest.approx(quiet.macro.value - none.macro.value, abs=1e-5)
    assert quiet.changes["macro"].low < quiet.changes["macro"].value < quiet.changes["macro"].high
    assert none.front
    assert quiet.rare_auc is None  # no class of this corpus is rare
    found = recommend_way(rows, points, tolerated=0.6)
    assert (found.use, found.within, found.verdicts["none"]) == ("quiet", True, "fail")
    assert "use quiet" in found.sentence
    assert recommend_way(rows, points, tolerated=0.99).use == "none"
    louder = recommend_way(rows[:1], points[:1], tolerated=0.6)
    assert (louder.within, louder.use) == (False, "none")
    assert "No way of training passes" in louder.sentence


def test_seeds_are_put_together_and_figures_of_a_world_add_up(corpus):
    rows = [row for seed in (1, 2) for row in made_rows(corpus, leaks={"a": 1.0}, right={"a": 0.8}, seed=seed)]
    (point,) = points_of(rows)
    assert point.worlds == 16
    assert point.auc.value == pytest.approx(np.mean([row.by_world.auc for row in rows]), abs=1e-6)
    for row in rows:
        assert isinstance(row, DefenceRow)
        assert row.auc.value == pytest.approx(np.mean(row.by_world.auc), abs=1e-4)
        assert row.auc.value == max(one.auc.value for one in row.attacks)
        assert row.micro.value == pytest.approx(np.mean(row.by_world.micro), abs=1e-4)
        assert set(json.loads(row.model_dump_json())["by_world"]["rare_auc"]) == {None}
