"""An audit as a result: the same in memory and on disk, its schema made from its type, broken files refused."""

import json
from importlib.resources import files

import jsonschema
import polars as pl
import pytest

from auditing.made import audit_of_predictions
from pathveil.auditing.evidence import SuppressedRow, TooFew
from pathveil.auditing.result import Audit, read_audit, schema, write_audit
from pathveil.errors import UsageError


@pytest.fixture(scope="module")
def audit():
    found = audit_of_predictions()
    small = SuppressedRow(
        protocol="matched", attack="loss", task="site", unit="report", bucket="< 5", shadows=0, label_only=False,
        decides=True, suppressed=TooFew.NON_MEMBERS,
    )  # fmt: skip
    return found.model_copy(update={"evidence": (*found.evidence, small)})


def test_what_is_written_is_read_back(audit, tmp_path):
    write_audit(audit, tmp_path / "audit")
    assert sorted(path.name for path in (tmp_path / "audit").iterdir()) == ["audit.html", "audit.json"]
    assert read_audit(tmp_path / "audit") == read_audit(tmp_path / "audit" / "audit.json") == audit
    content = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert content == json.loads(audit.to_json())
    assert {"format", "kind", "verdict", "appetite", "data", "controls", "rows", "curves", "spread"} < content.keys()


def test_the_shipped_schema_is_the_types_and_holds_for_an_audit(audit):
    shipped = json.loads((files("pathveil.auditing") / "audit.schema.json").read_text(encoding="utf-8"))
    assert shipped == schema()  # else: pathveil audit --show-schema > src/pathveil/auditing/audit.schema.json
    jsonschema.Draft202012Validator.check_schema(shipped)
    jsonschema.validate(audit.to_dict(), shipped)
    spoiled = audit.to_dict() | {"verdict": {"answer": "perhaps"}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spoiled, shipped)


def test_the_frame_has_a_row_for_each_measured_cell(audit):
    frame = audit.to_frame()
    assert isinstance(frame, pl.DataFrame) and frame.height == len(audit.measured) < len(audit.evidence)
    best = max(audit.measured, key=lambda row: row.auc.value)
    assert frame["auc"].max() == best.auc.value and "tpr_at_0.01_high" in frame.columns
    assert repr(audit).startswith(audit.verdict.sentence) and audit.verdict.sentence.split()[0] in audit._repr_html_()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content | {"format": "pathveil-audit/0"}, "expected the format pathveil-audit/1"),
        (lambda content: {"rows": []}, "expected the format pathveil-audit/1"),
        (lambda content: content | {"verdict": None}, "is not a whole audit: 'verdict'"),
        (lambda content: {key: value for key, value in content.items() if key != "data"}, "'data': is missing"),
        (lambda content: content | {"kind": "MARIGOLD"}, "is not a whole audit: 'kind'"),
    ],
)
def test_a_broken_audit_is_refused_in_one_sentence(audit, tmp_path, change, said):
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(change(audit.to_dict())))
    with pytest.raises(UsageError, match=said) as caught:
        read_audit(path)
    assert "\n" not in str(caught.value) and "MARIGOLD" not in str(caught.value)


def test_a_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / "audit.json").write_text("{")
    with pytest.raises(UsageError, match=r"audit\.json: cannot be read as JSON"):
        read_audit(tmp_path)


def test_an_audit_without_descriptions_of_its_attacks_is_read(audit, tmp_path):
    """As they were before attacks of one's own could be given."""
    before = {key: value for key, value in audit.to_dict().items() if key != "attacks"}
    (tmp_path / "audit.json").write_text(json.dumps(before))
    assert read_audit(tmp_path).attacks == {} and isinstance(read_audit(tmp_path), Audit)
