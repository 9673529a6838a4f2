"""A study file: read with its mistakes named, run as a whole, reported on one page, silent about people."""

import copy
import itertools
import json
import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from pydantic import ValidationError

from conftest import ROOT
from pathveil.errors import CorpusError, PathveilError, UsageError
from pathveil.progress import silent
from pathveil.studies import distribution, study_file, vocabulary
from pathveil.studies.answer import answer
from pathveil.studies.report import page
from pathveil.studies.result import StudyResult, fault_of, read_run
from pathveil.studies.scheduler import WORK, run_in_folder
from studies.conftest import PLANTED

TRAINING = "dim = 8\nfilters = 4\nepochs = 2\n"
STUDY = """
name = "small"
[corpus]
path = "{corpus}"
[vocabulary]
strategies = ["B", "I2", "MI5"]
sizes = [5]
shadows = 3
counts = [1, 2]
edges = [20, 60]
[vocabulary.training]
{training}
[distribution]
modes = ["single", "centralized", "adversarial"]
[distribution.training]
{training}
optimiser = "adam"
[combined]
modes = ["centralized"]
strategies = ["B", "I3"]
[combined.training]
{training}
optimiser = "adam"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory, small_corpus):
    out = tmp_path_factory.mktemp("study")
    (out / "study-file.toml").write_text(STUDY.format(corpus=small_corpus, training=TRAINING))
    result = study_file.run(out / "study-file.toml", out=out / "run")
    page.write(result, out / "run" / "report.html")
    return out / "run", result


def test_studies_that_come_with_pathveil_are_found_by_name():
    shipped = study_file.shipped_studies()
    assert {"demo", "standard", "vocabulary-paper", "distribution-paper"} <= set(shipped)
    assert study_file.read(Path("standard")) == study_file.read(shipped["standard"])
    with pytest.raises(UsageError, match=r"nowhere\.toml"):  # a file's name is a file's, and no other is taken for it
        study_file.read(Path("nowhere.toml"))


def test_all_findings_are_judged(run):
    out, result = run
    wanted = [f"A{n}" for n in range(1, 8)] + [f"B{n}" for n in range(1, 6)]
    assert [finding.id for finding in result.findings] == wanted
    assert json.loads((out / "result.json").read_text()) == result.to_dict()


def test_the_result_keeps_to_its_schema(run):
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema: pip install 'pathveil[dev]'")
    schema = StudyResult.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    result = json.loads((run[0] / "result.json").read_text())
    validator.validate(result)
    for spoil in (
        lambda r: r["studies"]["vocabulary"]["table1"][0].update(accuracy=1.2),
        lambda r: r["studies"]["vocabulary"]["table1"][0].pop("auc"),
        lambda r: r["studies"]["distribution"]["classes"][0].update(support=3),
        lambda r: r["studies"]["distribution"]["traffic"][0].update(seconds=1.0),
        lambda r: r["studies"]["combined"]["points"][0].pop("front"),
        lambda r: r["findings"][0].update(holds="yes"),
        lambda r: r["studies"].update(other={}),
    ):
        spoilt = copy.deepcopy(result)
        spoil(spoilt)
        assert not validator.is_valid(spoilt) and fault_of(json.dumps(spoilt), StudyResult)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda r: r.pop("findings"), "'findings' is missing"),
        (lambda r: r["studies"]["vocabulary"].pop("recommendation"), "'studies.vocabulary.recommendation' is missing"),
        (lambda r: r["studies"]["combined"]["points"][1].pop("front"), "'studies.combined.points.1.front' is missing"),
        (
            lambda r: r["studies"]["distribution"]["probe"][0].update(norm="3"),
            "probe.0.norm': input should be a valid n",
        ),
        (lambda r: r["findings"][0].update(holds="yes"), "'findings.0.holds': input should be a valid boolean"),
        (lambda r: r["studies"]["vocabulary"].update(warnings=["raise epochs"]), "'studies.vocabulary.warnings.0'"),
        (lambda r: r["studies"].update(other={}), "'studies.other' is unknown"),
        (lambda r: r["studies"]["vocabulary"]["table1"][0].update(attack="per-class"), "vocabulary.table1.0.attack'"),
    ],
)
def test_a_result_of_another_version_is_refused(run, tmp_path, spoil, message):
    whole = json.loads((run[0] / "result.json").read_text())
    assert read_run(run[0] / "result.json").to_dict() == whole
    spoil(whole)
    (tmp_path / "result.json").write_text(json.dumps(whole))
    with pytest.raises(UsageError) as error:
        read_run(tmp_path / "result.json")
    assert message in str(error.value) and "makes it anew" in str(error.value)


def test_table1_has_the_contracts_columns_and_both_protocols_with_the_control(run):
    rows = [row for row in run[1].to_dict()["studies"]["vocabulary"]["table1"] if "accuracy" in row]
    assert {row["protocol"] for row in rows} == {"matched", "cross-registry", "cross-registry control"}
    columns = "protocol strategy size bucket shadows attack accuracy balanced_accuracy auc tpr_at_fpr ci n_members"
    for row in rows:
        assert set(columns.split()) <= set(row) and 0 <= row["accuracy"] <= 1
    assert {row["shadows"] for row in rows if row["attack"] == "shadow classifiers"} == {1, 2, 3}


def test_a_finished_study_is_not_trained_again(run, monkeypatch):
    out, result = run
    monkeypatch.setattr("pathveil.training.loop.fit", None)
    monkeypatch.setattr("pathveil.studies.combined.run", None)
    monkeypatch.setattr("pathveil.studies.distribution.run", None)
    again = study_file.run(out / "study.toml", out=out)
    assert again == result and again.to_json() == result.to_json()


@pytest.mark.parametrize("content", ["{", "[]", '{"sessions": [{"began": 3}]}', '{"work": "much"}'])
def test_damaged_times_stop_no_study_and_no_report(run, monkeypatch, content):
    """They hold no number of a result, and are written anew."""
    out, result = run
    monkeypatch.setattr("pathveil.training.loop.fit", None)
    (out / "times.json").write_text(content)
    page.write(result, out / "report.html")
    assert study_file.run(out / "study.toml", out=out) == result
    times = json.loads((out / "times.json").read_text())
    assert len(times["sessions"]) == 1 and times["work"]


def test_a_damaged_recipe_makes_the_synthetic_corpus_again(tmp_path):
    settings = study_file.CorpusSettings(reports=20, registries=2)
    corpus = study_file.prepared_corpus(settings, tmp_path, silent)
    before = corpus.read_bytes()
    (tmp_path / study_file.RECIPE).write_text("{")
    with study_file.new_corpus(settings, tmp_path, silent):
        pass
    assert corpus.read_bytes() == before and study_file.is_made_for(settings, tmp_path)


def test_the_report_is_one_file_that_answers_first(run):
    text = (run[0] / "report.html").read_text()
    assert not re.search(r'(src|href)="https?://', text)
    assert text.index('id="answer"') < text.index('id="findings"') < text.index('id="vocabulary"')
    for finding in run[1].findings:
        assert f'data-id="{finding.id}"' in text


def test_the_report_is_written_again_without_the_cells(run, pathveil, tmp_path):
    out, result = run
    for name in ("result.json", "times.json"):
        (tmp_path / name).write_bytes((out / name).read_bytes())
    done = pathveil("study", "report", tmp_path, "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == result.to_dict()
    page.write(result, out / "report.html")  # the run may have had another session since
    assert (tmp_path / "report.html").read_bytes() == (out / "report.html").read_bytes()
    done = pathveil("study", "report", tmp_path)
    assert done.stdout.splitlines()[:3] == answer(result)[:3]
    assert f"Report: {tmp_path / 'report.html'}" in done.stdout


def test_no_artefact_names_a_person(run):
    for path in run[0].rglob("*"):
        if path.is_file():
            assert PLANTED.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("shadows = 3", "shadow = 3"), "'vocabulary.shadow': there is no such setting; did you mean 'shadows'?"),
        (
            ("[distribution]", "[distributoin]"),
            "there is no such setting; did you mean 'distribution'?",
        ),
        (("sizes = [5]", 'sizes = ["five"]'), "vocabulary.sizes.0"),
        (('name = "small"', "name = small"), "is not TOML"),
        (("[corpus]", "[corpus]\nreports = 50"), "give either 'path'"),
        (('["single", "centralized", "adversarial"]', '["singel"]'), "'singel' is not a mode"),
        (('modes = ["centralized"]', 'modes = ["centralised"]'), "did you mean 'centralized'?"),
        (
            ("[vocabulary.training]\n", "[vocabulary.training]\nepoch = 3\n"),
            "'vocabulary.training': 'epoch': there is no such",
        ),
        (("[combined.training]\n", "[combined.training]\nfilter = 3\n"), "did you mean 'filters'?"),
        (("[distribution.training]\n", "[distribution.training]\ndropout = 2\n"), "'distribution.training': 'dropout'"),
        (("[vocabulary.training]\n", "[vocabulary.training]\nmembers = 5\n"), "a study trains the papers' network"),
        (
            ("counts = [1, 2]", "counts = [1, 50]"),
            "'vocabulary': 'counts' asks for an attack with 50 shadows, of 'shadows' = 3",
        ),
        (('path = "reports.parquet"', "reports = 50\nclasses = { site = 3 }"), "did you mean 'sites'?"),
        (('name = "small"', 'nam = "small"'), "'nam': there is no such setting; did you mean 'name'? (and 1 more)"),
        (("shadows = 3", 'shadows = "3"'), "'vocabulary.shadows': Input should be a valid integer"),
        (("shadows = 3", "shadows = 3\nseed = -1"), "'vocabulary.seed': Input should be greater than or equal to 0"),
        (("shadows = 3", "shadows = 3\ntasks = []"), "'vocabulary.tasks': is empty; name at least one"),
        (("shadows = 3", 'shadows = 3\nfolds = ["R1", "R1"]'), "'vocabulary.folds': 'R1' is there twice"),
        (('["B", "I2", "MI5"]', "[]"), "'vocabulary.strategies': is empty"),
        (('["B", "I2", "MI5"]', '["B", "B"]'), "'vocabulary.strategies': 'B' is there twice"),
        (("sizes = [5]", "sizes = [0]"), "'vocabulary.sizes.0': Input should be greater than 0"),
        (("counts = [1, 2]", "counts = [2, 2]"), "'vocabulary.counts': 2 is there twice"),
        (("edges = [20, 60]", "edges = [60, 20]"), "'vocabulary.edges': each must be larger than the one before it"),
        (('["single", "centralized", "adversarial"]', "[]"), "'modes' is empty and there are no 'arms'"),
        (('modes = ["centralized"]', "modes = []"), "'combined.modes': is empty"),
        (("[distribution]\n", "[distribution]\nseeds = []\n"), "'distribution.seeds': is empty"),
        (("[distribution]\n", "[distribution]\nseeds = [1, 1]\n"), "'distribution.seeds': 1 is there twice"),
        (("[distribution]\n", "[distribution]\ntolerated = 0.4\n"), "'distribution.tolerated': Input should be"),
        (("[distribution]\n", '[distribution]\nrehearsal = "yes"\n'), "'distribution.rehearsal': Input should be a"),
        (("[distribution]\n", '[distribution]\ngroups = { A = [], B = ["R1"] }\n'), "'A' is empty"),
        (
            ("[distribution]\n", '[distribution]\narms = { x = { mode = "strong", adversry = 1 } }\n'),
            "arm 'x': 'adversry': there is no such setting; did you mean 'adversary'?",
        ),
        (("[distribution]\n", '[distribution]\narms = { x = { mode = "srong" } }\n'), "did you mean 'strong'?"),
        (("[combined.training]\n", '[combined.training]\nbatch_size = "x"\n'), "'combined.training': 'batch_size'"),
        (("[corpus]\npath = ", "corpus = "), "'corpus': expected a table of settings"),
    ],
)
def test_mistakes_in_a_study_file_are_named(tmp_path, change, message):
    file = tmp_path / "study.toml"
    file.write_text(STUDY.format(corpus="reports.parquet", training=TRAINING).replace(*change))
    with pytest.raises(UsageError) as error:
        study_file.read(file)
    assert message in str(error.value) and str(error.value).startswith(str(file))


def test_a_missing_corpus_or_file_is_one_sentence(pathveil, tmp_path):
    done = pathveil("study", "run", tmp_path / "no.toml", "--out", tmp_path / "run")
    assert done.returncode == 2 and "cannot be read" in done.stderr
    file = tmp_path / "study.toml"
    file.write_text('name = "x"\n[corpus]\npath = "nowhere.parquet"\n[distribution]\n')
    done = pathveil("study", "run", file, "--out", tmp_path / "run")
    assert done.returncode == 2 and "nowhere.parquet is not there" in done.stderr
    assert not (tmp_path / "run").exists()
    file.write_text("")
    done = pathveil("study", "run", file, "--out", tmp_path / "run")
    assert done.returncode == 2 and "'name': is missing (and 1 more)" in done.stderr
    done = pathveil("study", "report", tmp_path)
    assert done.returncode == 2 and "there is no finished result" in done.stderr
    (tmp_path / "result.json").write_text("[]")
    done = pathveil("study", "report", tmp_path)
    assert done.returncode == 2 and "expected a JSON object" in done.stderr and not (tmp_path / "report.html").exists()


def test_a_file_without_a_study_is_refused(pathveil, tmp_path):
    (tmp_path / "none.toml").write_text('name = "x"\n[corpus]\nreports = 100\n')
    done = pathveil("study", "run", tmp_path / "none.toml", "--out", tmp_path / "new" / "run")
    assert done.returncode == 2 and "none.toml: it has no study; give at least one of [vocabulary]" in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("[vocabulary]", '[vocabulary]\ntasks = ["site", "sit"]'),
            "[vocabulary]: 'tasks': there is no task column 'sit'",
        ),
        (('"I2", "MI5"', '"I9"'), "[vocabulary]: 'strategies': 'I9' is neither a vocabulary here"),
        (('["B", "I3"]', '["I8"]'), "[combined]: 'strategies': 'I8' is neither"),
        (("[vocabulary]", '[vocabulary]\nfolds = ["R7"]'), "[vocabulary]: 'folds': there is no registry 'R7'"),
        (("[distribution]", '[distribution]\ngroups = { A = ["R8"] }'), "[distribution]: 'groups': 'A' names registry"),
        (("[distribution]", '[distribution]\nvocabulary = "no.json"'), "[distribution]: 'vocabulary': no.json"),
        (
            ("[combined]", "[combined]\ntest_share = 0.05"),
            "[combined]: it needs a registry with at least 10 labelled cases to test on, and none has more than",
        ),
    ],
)
def test_what_the_corpus_does_not_allow_leaves_nothing_behind(tmp_path, change, message):
    """On a synthetic corpus, which is made for the judgement and not kept."""
    text = STUDY.format(corpus="", training=TRAINING).replace('path = ""', "reports = 200\nregistries = 3")
    (tmp_path / "study.toml").write_text(text.replace(*change))
    with pytest.raises(PathveilError) as error:
        study_file.run(tmp_path / "study.toml", out=tmp_path / "run")
    assert str(error.value).startswith(f"{tmp_path / 'study.toml'}: ") and message in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_a_registry_too_small_for_the_attacker_is_refused_before_anything_is_kept(tmp_path):
    few = 'name = "few"\n[corpus]\nreports = 20\nregistries = 7\n[vocabulary]\nfolds = ["R3"]\nstrategies = ["B"]\n'
    (tmp_path / "few.toml").write_text(few)
    with pytest.raises(UsageError, match=r"few.toml: \[vocabulary\]: registry R3 has .* need at least 4"):
        study_file.run(tmp_path / "few.toml", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_refused_change_leaves_the_run_as_it_was(tmp_path):
    (tmp_path / "run").mkdir()
    settings = study_file.CorpusSettings(reports=60, registries=3)
    study_file.prepared_corpus(settings, tmp_path / "run", silent)
    (tmp_path / "run" / "study.toml").write_text("as it was")
    before = contents(tmp_path / "run")
    text = STUDY.format(corpus="", training=TRAINING).replace('path = ""', "reports = 80\nregistries = 3")
    (tmp_path / "study.toml").write_text(text.replace('"MI5"', '"I9"'))
    with pytest.raises(UsageError, match="'I9' is neither"):
        study_file.run(tmp_path / "study.toml", out=tmp_path / "run")
    assert {path: what for path, what in contents(tmp_path / "run").items() if path.name != "lock"} == before


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_study_is_held_against_its_type(small_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "pathveil.studies.distribution.distribution_findings", lambda *_, **__: {"adversarial": [{"id": "B1"}]}
    )
    settings = distribution.DistributionSettings(modes=("single",), training={"dim": 4, "filters": 2, "epochs": 1})
    with pytest.raises(ValidationError, match=r"findings\.0\.claim"):
        run_in_folder(distribution.DistributionStudy(small_corpus, settings, out=tmp_path))
    assert not (tmp_path / "result.json").exists()


def test_a_result_is_a_table_and_a_paragraph(run):
    result = run[1]
    frame = result.to_frame()
    assert set(frame["study"]) == {"vocabulary", "distribution", "combined"}
    words = frame.filter(pl.col("study") == "vocabulary")
    assert dict(zip(words["name"], words["verdict"], strict=True)) == result.studies.vocabulary.recommendation.verdicts
    assert str(result).splitlines()[:3] == answer(result) and str(result.report_path) in str(result)
    assert result.report_path == run[0] / "report.html"
    assert result.studies.distribution.to_frame().height == len(result.studies.distribution.scores)


def test_models_that_were_best_at_the_last_epoch_are_told(run):
    """Two epochs are not enough for anything."""
    studies = run[1].to_dict()["studies"]
    places = studies["vocabulary"]["vocabularies"]
    assert [place["at_cap"] for place in places] == [place["epoch"] == 2 for place in places]
    assert [place["shadows_at_cap"] for place in places] == [place["shadow_epochs"].count(2) for place in places]
    capped = sum(place["at_cap"] for place in places)
    told = "9 targets were best at the last epoch allowed, and might have learnt more: raise epochs"
    assert capped and studies["vocabulary"]["warnings"][0] == {"kind": "last epoch", "text": f"{capped} of {told}"}
    for row in (*studies["distribution"]["traffic"], *studies["combined"]["points"]):
        assert row["at_cap"] == [epoch == 2 for epoch in row["epoch"]]
    assert all(warning["kind"] == "last epoch" for warning in studies["distribution"]["warnings"])


def test_epochs_that_were_meant_are_no_warning():
    settings = vocabulary.VocabularySettings(fixed_epochs=3)
    assert settings.of_models.patience is None
    fixed = distribution.config_of("single", distribution.with_fixed_epochs({}, 3))
    assert distribution.at_cap(fixed, [3]) == [False]


def test_progress_is_one_figure_for_all_studies(run, tmp_path):
    """A finished run: every study's cells are counted from the beginning on."""
    seen = []
    study_file.run(run[0] / "study.toml", out=run[0], progress=lambda *told: seen.append(told))
    cells = [(done, total) for stage, done, total in seen if stage == study_file.CELLS]
    assert len(cells) == 3 and set(cells) == {(50, 50)}  # 9 places of a target, 3 shadows and an attack; 3 modes; 2
    work = [(done, total) for stage, done, total in seen if stage == WORK]
    assert len(set(work)) == 1 and work[0][0] == work[0][1] > 0


def test_a_session_is_noted_as_cells_finish(small_corpus, tmp_path):
    text = (
        STUDY.split("[vocabulary]")[0] + '[distribution]\nmodes = ["single", "centralized"]\n[distribution.training]\n'
    )
    (tmp_path / "my.toml").write_text(text.format(corpus=small_corpus) + TRAINING)
    times = tmp_path / "run" / "times.json"

    def stop(stage, done, total):
        if stage == study_file.CELLS and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study_file.run(tmp_path / "my.toml", out=tmp_path / "run", progress=stop)
    (session,) = json.loads(times.read_text())["sessions"]
    assert session["file"] == "my.toml" and session["seconds"] > 0 and session["machine"]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(session["began"])) < timedelta(hours=1)
    study_file.run(tmp_path / "my.toml", out=tmp_path / "run")
    after = json.loads(times.read_text())
    assert after["sessions"][0] == session and len(after["sessions"]) == 2
    assert after["work"][0]["cells"] == 2 and "pathveil" in after["versions"]


def test_a_corpus_without_labels_is_one_sentence(small_corpus, tmp_path):
    pl.read_parquet(small_corpus).select("report_id", "case_id", "registry", "text").write_parquet(
        tmp_path / "c.parquet"
    )
    (tmp_path / "study.toml").write_text(STUDY.format(corpus=tmp_path / "c.parquet", training=TRAINING))
    with pytest.raises(CorpusError, match="has no task column with labels"):
        study_file.run(tmp_path / "study.toml", out=tmp_path / "run")


def as_toml(content, name=""):
    """Enough of TOML for a study file."""
    plain = {key: value for key, value in content.items() if not isinstance(value, dict)}
    lines = [f"[{name}]"] * bool(name) + [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for key, value in content.items():
        if isinstance(value, dict):
            lines.append(as_toml(value, f"{name}.{key}" if name else key))
    return "\n".join(lines)


def test_a_corpus_can_stand_in_for_the_files(pathveil, small_corpus, tmp_path):
    """The README's third command, on a corpus with one task and three registries, small."""
    content = tomllib.loads((ROOT / "studies" / "standard.toml").read_text())
    content["vocabulary"] |= {"folds": ["R1"], "strategies": ["B", "I2"], "shadows": 2, "counts": [1]}
    content["distribution"] |= {"modes": ["single"], "seeds": [1]}
    content["combined"] |= {"modes": ["centralized"], "strategies": ["B"]}
    content["defences"] |= {"worlds": 4, "seeds": [1], "ways": {"none": {}}}
    for section in ("vocabulary", "distribution", "combined", "defences"):
        content[section]["training"] |= {"dim": 8, "filters": 4, "epochs": 1}
    (tmp_path / "standard.toml").write_text(as_toml(content))
    options = ["--corpus", small_corpus, "--out", tmp_path / "run", "--workers", "1"]
    done = pathveil("study", "run", tmp_path / "standard.toml", *options)
    assert done.returncode == 0, done.stderr
    assert "Report:" in done.stdout and (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.toml")), ids=lambda path: path.name)
def test_every_study_file_reads_and_says_what_each_setting_is(path):
    study_file.read(path)
    assert path.read_text().startswith("# ") and not uncommented(path.read_text())


def uncommented(text):
    """Settings, also those that are commented out, without a word on them on their line or the one above."""
    lines = ["", *text.splitlines()]
    bare = []
    for before, line in itertools.pairwise(lines):
        setting = re.match(r"(# )?([\w-]+) = (.*)", line)
        if setting and "# " not in setting[3] and not re.match(r"# (?![\w-]+ = )", before):
            bare.append(line)
    return bare


def test_a_setting_without_a_word_on_it_is_found():
    text = "# A file.\n\n[corpus]\nreports = 12  # so many\nseed = 1\n# path = 'x'\n# What follows\nclasses = {}\n"
    assert uncommented(text) == ["seed = 1", "# path = 'x'"]


def test_the_papers_settings_are_the_papers():
    paper = study_file.read(ROOT / "studies" / "vocabulary-paper.toml")
    settings = paper.vocabulary
    assert settings is not None and paper.corpus.registries == 7
    assert len(settings.strategies or ()) == 10 and settings.sizes == (20_000, 10_000, 5_000, 2_000)
    assert settings.numbers == (1, 10, 20, 40, 60, 80, 100) and settings.edges == (100, 1_000, 10_000)
    assert paper.corpus.classes == {"sites": 70, "subsites": 326, "histologies": 639, "lateralities": 7, "behaviors": 4}
    tcga = study_file.read(ROOT / "studies" / "vocabulary-tcga.toml").vocabulary
    assert tcga is not None and tcga.numbers == settings.numbers and tcga.folds is None and tcga.strategies is None
