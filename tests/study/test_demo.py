"""The demo, smaller still: it leaves a bundle and a result, and says something a person can read."""

import json

import pytest

from pathveil.bundle import Bundle
from pathveil.study import demo


@pytest.fixture(scope="module", autouse=True)
def quiet(one_thread):
    """Tiny models need no threads."""


def test_demo_trains_scores_and_explains(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "REPORTS", 240)
    monkeypatch.setattr(demo, "EPOCHS", 2)
    stages = set()
    result = demo.run(tmp_path / "demo", progress=lambda stage, *_: stages.add(stage))
    assert json.loads((tmp_path / "demo" / "result.json").read_text()) == result
    assert Bundle.load(tmp_path / "demo" / "model").sha256 == result["model"]["scores"]["bundle"]
    text = demo.describe(result)
    for task in ("site", "subsite", "laterality", "histology", "behavior"):
        assert f"  {task}" in text and result["model"]["explained"][task]["places"]
    assert "training" in stages
    again = demo.run(tmp_path / "demo")  # a second run replaces the first
    assert again["model"]["scores"] == result["model"]["scores"]
