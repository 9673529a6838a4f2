"""A study file: read with its mistakes named, run as a whole, reported on one page, silent about people."""

import copy
import json
import re
import tomllib
from importlib.resources import files

import polars as pl
import pytest

from conftest import ROOT
from pathveil.errors import CorpusError, UsageError
from pathveil.report import page
from pathveil.study import file as study_file
from pathveil.study import result
from study.conftest import PLANTED

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


def test_all_findings_are_judged(run):
    out, result = run
    wanted = [f"A{n}" for n in range(1, 8)] + [f"B{n}" for n in range(1, 6)]
    assert [finding["id"] for finding in result["findings"]] == wanted
    assert json.loads((out / "result.json").read_text())["findings"] == json.loads(json.dumps(result["findings"]))


def test_the_result_keeps_to_its_schema(run):
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema: pip install 'pathveil[dev]'")
    schema = json.loads((files("pathveil.study") / "result.schema.json").read_text())
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
        assert not validator.is_valid(spoilt)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda r: r.pop("findings"), "'findings' is missing"),
        (lambda r: r["studies"]["vocabulary"].pop("recommendation"), "'studies.vocabulary.recommendation' is missing"),
        (lambda r: r["studies"]["combined"]["points"][1].pop("front"), "'studies.combined.points.1.front' is missing"),
        (lambda r: r["studies"]["distribution"]["probe"][0].update(norm="3"), "probe.0.norm' is no number"),
        (lambda r: r["findings"][0].update(holds="yes"), "'findings.0.holds' is no boolean or null"),
        (lambda r: r["studies"].update(other={}), "'studies.other' is unknown"),
    ],
)
def test_a_result_of_another_version_is_refused(run, tmp_path, spoil, message):
    whole = result.read(run[0] / "result.json")
    assert whole == json.loads((run[0] / "result.json").read_text())
    spoil(whole)
    (tmp_path / "result.json").write_text(json.dumps(whole))
    with pytest.raises(UsageError) as error:
        result.read(tmp_path / "result.json")
    assert message in str(error.value) and "makes it anew" in str(error.value)


def test_table1_has_the_contracts_columns_and_both_protocols_with_the_control(run):
    rows = [row for row in run[1]["studies"]["vocabulary"]["table1"] if "accuracy" in row]
    assert {row["protocol"] for row in rows} == {"matched", "cross-registry", "cross-registry control"}
    columns = "protocol strategy size bucket shadows attack accuracy balanced_accuracy auc tpr_at_fpr ci n_members"
    for row in rows:
        assert set(columns.split()) <= set(row) and 0 <= row["accuracy"] <= 1
    assert {row["shadows"] for row in rows if row["attack"] == "per-class"} == {1, 2, 3}


def test_a_finished_study_is_not_trained_again(run, monkeypatch):
    out, result = run
    monkeypatch.setattr("pathveil.training.loop.fit", None)
    monkeypatch.setattr("pathveil.study.combined.run", None)
    monkeypatch.setattr("pathveil.study.distribution.run", None)
    again = study_file.run(out / "study.toml", out=out)
    assert json.dumps(again, sort_keys=True) == json.dumps(result, sort_keys=True)


def test_the_report_is_one_file_that_answers_first(run):
    text = (run[0] / "report.html").read_text()
    assert not re.search(r'(src|href)="https?://', text)
    assert text.index('id="answer"') < text.index('id="findings"') < text.index('id="vocabulary"')
    for finding in run[1]["findings"]:
        assert f'data-id="{finding["id"]}"' in text


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
        (('path = "reports.parquet"', "reports = 50\nclasses = { site = 3 }"), "did you mean 'sites'?"),
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
    file.write_text('name = "x"\n[corpus]\npath = "nowhere.parquet"\n')
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
    assert done.returncode == 2 and "'it' is no object" in done.stderr and not (tmp_path / "report.html").exists()


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
    for section in ("vocabulary", "distribution", "combined"):
        content[section]["training"] |= {"dim": 8, "filters": 4, "epochs": 1}
    (tmp_path / "standard.toml").write_text(as_toml(content))
    options = ["--corpus", small_corpus, "--out", tmp_path / "run", "--workers", "1"]
    done = pathveil("study", "run", tmp_path / "standard.toml", *options)
    assert done.returncode == 0, done.stderr
    assert "Report:" in done.stdout and (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.toml")), ids=lambda path: path.name)
def test_every_study_file_reads_and_says_what_each_setting_is(path):
    study_file.read(path)
    text = path.read_text()
    assert text.startswith("# ")
    for line in text.splitlines():
        value, _, comment = line.partition("#")
        common = r"(seed|tasks|dim|filters|epochs|batch_size|optimiser|learning_rate|registries|minimum|strategies) = "
        if " = " in value and not re.match(common, value):
            assert comment or value.startswith(("name", "groups", "modes", "classes", "sizes", "test_share")), line


def test_the_papers_settings_are_the_papers():
    paper = study_file.read(ROOT / "studies" / "vocabulary-paper.toml")
    settings = paper.vocabulary
    assert settings is not None and paper.corpus.registries == 7
    assert len(settings.strategies or ()) == 10 and settings.sizes == (20_000, 10_000, 5_000, 2_000)
    assert settings.numbers == (1, 10, 20, 40, 60, 80, 100) and settings.edges == (100, 1_000, 10_000)
    assert paper.corpus.classes == {"sites": 70, "subsites": 326, "histologies": 639, "lateralities": 7, "behaviors": 4}
    tcga = study_file.read(ROOT / "studies" / "vocabulary-tcga.toml").vocabulary
    assert tcga is not None and tcga.numbers == settings.numbers and tcga.folds is None and tcga.strategies is None
