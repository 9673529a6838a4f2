"""What a release says to other tools: CycloneDX's own validator, a YAML reader; markup in names stays text."""

import json

import pytest
import yaml

from pathveil.bundle.release import Override, read_release
from pathveil.bundle.release_documents import (
    bill_of_materials,
    encoder_card,
    exposure_summary,
    hugging_face_card,
    release_card,
)
from pathveil.files import sha256_of_file

HOSTILE = '<script>alert(1)</script>\n---\nlicense: "mine"\n# heading `x`'


@pytest.fixture(scope="module")
def release(released):
    return read_release(released)


@pytest.fixture(scope="module")
def overridden(release):
    reason = Override(reason=HOSTILE, refusals=["there is no audit"])
    return release.model_copy(update={"override": reason, "judgement": None, "form": "labels"})


def test_the_bill_of_materials_is_valid_and_lists_every_file(bundle, released, release, overridden):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    bom = json.loads((released / "bom.cdx.json").read_text())
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    encoder = release.model_copy(update={"form": "encoder"})
    for one in (bom, bill_of_materials(bundle, overridden, {}), bill_of_materials(bundle, encoder, {"a": "00" * 32})):
        assert validator.validate_str(json.dumps(one)) is None
    listed = {part["name"]: part["hashes"][0]["content"] for part in bom["components"] if part["type"] == "file"}
    assert listed.keys() >= {"model.safetensors", "vocabulary.json", "card.md", "audit.json", "release.json"}
    assert all(sha256_of_file(released / name) == digest for name, digest in listed.items())
    component = bom["metadata"]["component"]
    assert component["type"] == "machine-learning-model"
    metrics = component["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert {one["slice"] for one in metrics} == set(bundle.scores)
    assert HOSTILE in json.dumps(bill_of_materials(bundle, overridden, {}), ensure_ascii=False).replace(
        "\\n", "\n"
    ).replace('\\"', '"')


def test_the_front_matter_is_read_by_a_yaml_reader(bundle, released, overridden):
    _, matter, card = (released / "README.md").read_text().split("---\n", 2)
    found = yaml.safe_load(matter)
    assert found["library_name"] == "pathveil" and found["pathveil"]["verdict"] == "pass"
    assert {one["task"]["name"] for one in found["model-index"][0]["results"]} == set(bundle.scores)
    assert card.strip() == (released / "card.md").read_text().strip()
    hostile = hugging_face_card("card", bundle, overridden).split("\n---\n")
    assert len(hostile) == 2 and yaml.safe_load(hostile[0].removeprefix("---"))["pathveil"]["override"] == HOSTILE


def test_a_reason_is_on_the_card_and_no_markup_of_it(bundle, overridden):
    told = release_card(bundle.card, overridden)
    assert "Released against a refusal" in told and "refused because there is no audit" in told
    assert "<script>" not in told and "\n# heading" not in told and "&lt;script&gt;" in told
    assert told.startswith("# Model card\n\n## Release") and "## Use and limits" in told
    assert "codes nothing" in encoder_card(bundle)


def test_exposure_is_told_in_numbers_without_small_ones(bundle, corpus):
    told = exposure_summary(bundle, words="shown", reports=corpus)
    assert told["words"] == len(bundle.words) and told["measured"]["coverage"] > 0.5
    assert told["measured"]["cases_with_a_word_of_their_own"] in (0, "fewer than 10 cases")
    text = json.dumps(told)
    assert not [word for word in bundle.words if len(word) > 4 and f'"{word}"' in text]
    assert exposure_summary(bundle, words="hashed", reports=None)["measured"] is None
