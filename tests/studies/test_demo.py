"""The demo, smaller still: it leaves a bundle, results and a report, and says something a person can read."""

import json
import re

import pytest

from pathveil.bundle import Model
from pathveil.errors import UsageError
from pathveil.studies import demo
from pathveil.studies.demo_release import DemoRelease
from pathveil.studies.study_file import read
from pathveil.training.workers import ThisProcess
from studies.test_study_file import uncommented

TINY = """
name = "tiny"
[corpus]
reports = 240
registries = 3
classes = { sites = 6, subsites = 12, histologies = 12 }
[vocabulary]
strategies = ["B", "MI50"]
sizes = [50]
tasks = ["site"]
shadows = 2
counts = [1]
[vocabulary.training]
dim = 8
filters = 4
epochs = 2
[distribution]
modes = ["single", "centralized", "adversarial"]
tasks = ["site"]
[distribution.training]
dim = 8
filters = 4
epochs = 2
"""


@pytest.fixture(scope="module", autouse=True)
def quiet(one_thread):
    """Tiny models need no threads."""


def test_demo_trains_explains_and_studies(tmp_path, monkeypatch):
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.setattr(demo, "STUDY", tmp_path / "tiny.toml")
    monkeypatch.setattr(demo, "EPOCHS", 2)
    kept = DemoRelease(sentence="Fail: x.", page="page", released=None, refusals=["it failed"], would_change=["less"])
    monkeypatch.setattr(demo, "audit_and_release", lambda *_, **__: kept)  # tested by itself
    # Beside others, who do the studies, the model is trained while they run.
    result = demo.run(tmp_path / "demo", crew=Others())
    assert json.loads((tmp_path / "demo" / "result.json").read_text()) == result.study.to_dict()
    assert Model.load(tmp_path / "demo" / "model").model_sha256 == result.model.scores.model_sha256
    text = str(result)
    assert (
        "\n".join(kept.lines()) in text
        and "pathveil serve" in text.splitlines()[-1]
        and "May it leave? Fail: x." in text
        and "  - it failed" in text
    )
    for task in ("site", "subsite", "laterality", "histology", "behavior"):
        assert f"  {task}" in text and result.model.explained[task].places
    stages = set()
    again = demo.run(tmp_path / "demo", progress=lambda stage, *_: stages.add(stage))  # goes on with what is there
    assert again.model.scores == result.model.scores and "training" in stages

    def fail(*_):
        raise UsageError("no room")

    monkeypatch.setattr(demo, "train_and_explain", fail)
    with pytest.raises(UsageError, match="no room"):
        demo.run(tmp_path / "demo", crew=Others())


def test_a_folder_that_holds_something_else_is_left_as_it_is(tmp_path):
    for place, file, text in (
        ("mine", "model/weights", "a model of my own"),
        ("study", "study.toml", 'name = "of my own"'),
    ):
        path = tmp_path / place / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
        with pytest.raises(UsageError, match="choose a new folder"):
            demo.run(tmp_path / place)
        assert [one for one in (tmp_path / place).rglob("*") if one.is_file()] == [path] and path.read_text() == text
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="file: is there already"):
        demo.run(tmp_path / "file")


class Others:
    """A crew that is not this process, as far as anybody can tell."""

    def __init__(self):
        self.own = ThisProcess()

    def __getattr__(self, name):
        return getattr(self.own, name)


def test_the_demos_study_file_explains_every_setting():
    """Each setting of each section is in the file, set or commented out, with a word on what it does."""
    text = demo.STUDY.read_text()
    with_settings = read(demo.STUDY)
    for section in ("corpus", "vocabulary", "distribution", "combined"):
        part = text.split(f"\n[{section}]\n")[1].split("\n[")[0]
        for name in type(getattr(with_settings, section)).model_fields:
            if name != "training":
                assert re.search(rf"^(# )?{name} = ", part, re.M), f"{section}.{name}"
    assert not uncommented(text)
