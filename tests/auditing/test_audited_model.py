"""Which model an audit is about, in the bundle's own numbers."""

from dataclasses import replace

from auditing.made import SMALL
from pathveil import api
from pathveil.auditing.audited_model import describe_model
from pathveil.bundle.train import train_model


def test_it_says_what_the_bundle_says(tmp_path):
    api.synth(60, registries=2, seed=1, out=tmp_path / "a.parquet")
    model = train_model(tmp_path / "a.parquet", SMALL.changed(epochs=1), preset="small", out=tmp_path / "colon")
    found = describe_model(model)
    assert found.name == "colon" and found.model_sha256 == model.model_sha256 and found.written[:2] == "20"
    assert found.reports == 60 and found.cases == model.provenance["cases"] and found.defence is None
    assert "60 reports" in str(found) and "2 registries (R1 and R2)" in str(found) and "no defence" in str(found)
    defended = {**model.provenance, "settings": {**model.provenance["settings"], "defence": {"kind": "teachers"}}}
    unsaved = describe_model(replace(model, folder=None, provenance=defended))
    assert unsaved.name == unsaved.written == "" and "defence teachers" in str(unsaved)
