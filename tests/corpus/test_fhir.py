"""FHIR R4: reports in bundles, alone and one a line, by every way that text is held; and what is skipped."""

import base64
import copy
import datetime
import gc
import io
import json
import tempfile

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus import read
from pathveil.corpus.fhir import read_resource, read_resources
from pathveil.corpus.hl7 import UnusableMessage
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.naaccr import Skipped
from pathveil.corpus.opening import detect_format
from pathveil.errors import CorpusError
from pathveil.serve.fhir import read_fhir

KEY = b"a secret of the registry"
TEXT = "FINAL DIAGNOSIS\nLeft breast of Candy McMuffin, born 7/6/1957, MRN 00466144:\ncarcinoma, grade 2."


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PATIENT = {
    "resourceType": "Patient", "id": "p1", "birthDate": "1957-07-06",
    "identifier": [{"value": "999-99-9999", "system": "http://hl7.org/fhir/sid/us-ssn"},
                   {"value": "00466144", "system": "urn:hospital", "type": {"coding": [{"code": "MR"}]}}],
    "name": [{"family": "McMuffin", "given": ["Candy", "Q"]}],
    "address": [{"line": ["12 Zebrowska Street"]}], "telecom": [{"system": "phone", "value": "217-555-0134"}],
    "contact": [{"name": {"family": "Kovalenkova", "given": ["Olha"]}}],
}  # fmt: skip


def observation(number: int, code: str, name: str, **value) -> dict:
    coded = {"coding": [{"system": "http://loinc.org", "code": code, "display": name}]}
    return {"resourceType": "Observation", "id": f"o{number}", "status": "final", "code": coded, **value}


def report(**change) -> dict:
    return {
        "resourceType": "DiagnosticReport", "id": "r1", "status": "final", "subject": {"reference": "Patient/p1"},
        "identifier": [{"value": "S16-0431"}], "code": {"coding": [{"code": "11526-1"}]},
        "effectiveDateTime": "2016-05-02T10:00:00Z", "performer": [{"reference": "Organization/lab"}], **change,
    }  # fmt: skip


def bundle(*resources: dict) -> dict:
    entries = [{"fullUrl": f"https://lab.example/{r['resourceType']}/{r['id']}", "resource": r} for r in resources]
    return {"resourceType": "Bundle", "type": "collection", "id": "b1", "entry": entries}


LAB = {"resourceType": "Organization", "id": "lab", "name": "NORTH LAB"}
PRESENTED = report(presentedForm=[{"contentType": "text/plain", "data": encoded(TEXT)}])
OBSERVED = report(
    specimen=[{"reference": "Specimen/s1"}], conclusion="Invasive ductal carcinoma.",
    result=[{"reference": f"Observation/o{number}"} for number in (1, 2, 3)],
)  # fmt: skip
OBSERVATIONS = (
    observation(1, "22634-0", "Gross", valueString="One core,\n3 mm, of Candy."),
    observation(2, "60573-3", "Group", hasMember=[{"reference": "Observation/o4"}, {"reference": "Observation/o2"}]),
    observation(3, "1", "Withdrawn", status="entered-in-error", valueString="wrong patient"),
    observation(4, "44648-4", "Grade", valueCodeableConcept={"text": "Grade 2"}, note=[{"text": "A note."}],
                component=[{"code": {"text": "Mitoses"}, "valueQuantity": {"value": 3, "unit": "/mm2"}}]),
    {"resourceType": "Specimen", "id": "s1", "type": {"text": "core"}, "collection": {"bodySite": {"text": "breast"}}},
)  # fmt: skip


def test_a_bundle_with_a_presented_text():
    (found,) = read_resource(bundle(PATIENT, LAB, PRESENTED), key=KEY, registry=None)
    assert (found.registry, found.number, found.kind) == ("NORTH LAB", "S16-0431", "11526-1")
    assert (found.date, found.year, found.message_id) == (datetime.date(2016, 5, 2), 2016, "b1")
    assert found.text == ("FINAL DIAGNOSIS\nLeft breast of [patient], born [date], MRN [number]:\ncarcinoma, grade 2.")
    assert found.masked == 3


def test_observations_stand_under_their_headings():
    (found,) = read_resource(bundle(OBSERVED, PATIENT, LAB, *OBSERVATIONS), key=KEY, registry="North")
    assert found.registry == "North"
    assert found.text == (
        "NATURE OF SPECIMEN\ncore, breast\n\nFINAL DIAGNOSIS\nInvasive ductal carcinoma.\n\nCOMMENT\nA note.\n\n"
        "SYNOPTIC REPORT\nGrade: Grade 2\nMitoses: 3 /mm2\n\nGROSS DESCRIPTION\nOne core,\n3 mm, of [patient]."
    )


def test_a_page_is_read_without_its_tags():
    page = "<head><style>p {}</style></head><p>Colon &amp; rectum,</p><script>x</script><p>adenoma</p>"
    form = [{"contentType": "text/html; charset=utf-8", "data": encoded(page * 3)}]
    (found,) = read_resource(bundle(PATIENT, LAB, report(presentedForm=form)), key=KEY, registry=None)
    assert found.text.startswith("Colon & rectum,\nadenoma\n") and "<" not in found.text and "x" not in found.text


def test_one_patient_is_one_case_and_a_report_keeps_its_id():
    one = read_resource(bundle(PATIENT, LAB, PRESENTED), key=KEY, registry=None)[0]
    again = read_resource(bundle(LAB, PRESENTED, PATIENT), key=KEY, registry=None)[0]
    other = read_resource(bundle(PATIENT, LAB, OBSERVED, *OBSERVATIONS), key=KEY, registry=None)[0]
    assert one.report_id == again.report_id != other.report_id and one.case_id == other.case_id
    assert (
        read_resource(bundle(PATIENT, LAB, PRESENTED), key=b"another secret!!", registry=None)[0].case_id != one.case_id
    )
    alone = report(presentedForm=PRESENTED["presentedForm"], performer=[{"display": "LAB"}])
    assert read_resource(alone, key=KEY, registry=None)[0].case_id != one.case_id  # known by its reference alone


def test_the_service_reads_what_an_import_reads():
    for resources in ((PATIENT, LAB, PRESENTED), (PATIENT, LAB, OBSERVED, *OBSERVATIONS)):
        (imported,) = read_resource(bundle(*resources), key=KEY, registry=None)
        (sent,) = read_fhir(bundle(*resources))
        assert (sent.text, sent.number) == (imported.text, imported.number) and sent.date == "2016-05-02"
        assert (sent.report_id, sent.case_id) == ("r1", "Patient/p1") and "McMuffin" not in sent.text


def test_the_narrative_is_read_where_there_is_nothing_else():
    told = report(text={"status": "generated", "div": "<div><p>Left breast.</p><p>Carcinoma.</p></div>"})
    (found,) = read_resource(bundle(PATIENT, LAB, told), key=KEY, registry=None)
    assert found.text == "Left breast.\nCarcinoma."
    (found,) = read_resource(bundle(PATIENT, LAB, told | {"conclusion": "Ductal."}), key=KEY, registry=None)
    assert found.text == "FINAL DIAGNOSIS\nDuctal."


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (bundle(PATIENT), "holds no DiagnosticReport"),
        (PATIENT, "holds no DiagnosticReport"),
        (bundle(PATIENT, LAB, report()), "holds no report text"),
        (bundle(PATIENT, LAB, report(status="entered-in-error", conclusion="x")), "entered in error"),
        (bundle(LAB, report(conclusion="x", subject={})), "names no patient"),
        (bundle(PATIENT, report(conclusion="x", performer=[])), "names no sender"),
        (bundle(PATIENT, LAB, report(presentedForm=[{"contentType": "application/pdf", "data": "JVBE"}])), "not read"),
        (bundle(PATIENT, LAB, report(presentedForm=[{"contentType": "text/plain", "url": "https://x"}])), "elsewhere"),
        (bundle(PATIENT, LAB, report(presentedForm=[{"contentType": "text/plain", "data": "?"}])), "not base64"),
    ],
)
def test_what_gives_no_report_says_why(resource, reason):
    with pytest.raises(UnusableMessage, match=reason):
        read_resource(resource, key=KEY, registry=None)


def test_a_report_that_is_left_out_beside_others_is_counted_and_named(tmp_path):
    others = [report(status="entered-in-error", conclusion="Zebrowska"), {**OBSERVED, "id": "second"}, report()]
    (tmp_path / "b.json").write_text(json.dumps(bundle(PATIENT, LAB, *others, *OBSERVATIONS), indent=1))
    result = import_corpus(tmp_path / "b.json", out=tmp_path / "c.parquet", key=KEY)
    assert result.reports == 1 and (result.hl7.messages, result.hl7.skipped_total) == (1, 2)
    assert [one.reason for one in result.hl7.skipped] == [
        "holds a DiagnosticReport besides, number 1, which is marked as cancelled or entered in error",
        "holds a DiagnosticReport besides, number 3, which holds no report text",
    ]
    assert "Zebrowska" not in result.summary()
    with pytest.raises(CorpusError, match=r"message 1 \(line 1\) holds a DiagnosticReport besides"):
        import_corpus(tmp_path / "b.json", out=tmp_path / "d.parquet", key=KEY, strict=True)


def test_lines_and_files(tmp_path):
    many = [bundle(PATIENT, LAB, PRESENTED), PATIENT, bundle(PATIENT, LAB, OBSERVED, *OBSERVATIONS)]
    (tmp_path / "reports.ndjson").write_text("\n".join(map(json.dumps, many)) + "\nnot json {}\n\n")
    (tmp_path / "one.json").write_text(json.dumps(many[0], indent=1))
    assert [detect_format(path) for path in sorted(tmp_path.iterdir())] == ["fhir", "fhir"]
    result = import_corpus([tmp_path], out=tmp_path / "out.parquet", key=KEY)
    assert (result.reports, result.cases, result.registries) == (2, 1, {"NORTH LAB": 2})
    assert result.hl7 is not None and (result.hl7.messages, result.hl7.repeated, result.hl7.skipped_total) == (4, 1, 1)
    assert [(one.message, one.line, one.reason) for one in result.hl7.skipped] == [(4, 4, "cannot be read as JSON")]
    corpus = read(tmp_path / "reports.ndjson")
    assert len(corpus) == 2 and corpus.to_frame()["date"].to_list() == [datetime.date(2016, 5, 2)] * 2
    written = (tmp_path / "out.parquet").read_bytes() + result.to_json().encode()
    for planted in (b"McMuffin", b"Candy", b"Kovalenkova", b"Zebrowska", b"00466144"):
        assert planted not in written
    (tmp_path / "table.json").write_text('[{"report_id": "a", "text": "resource"}]')
    assert detect_format(tmp_path / "table.json") == "json"
    with pytest.raises(CorpusError, match="no report could be read"):
        (tmp_path / "none.json").write_text('{"resourceType": "Bundle"}')
        import_corpus([tmp_path / "none.json"], out=tmp_path / "none.parquet")


def test_a_bulk_export_has_patients_in_files_of_their_own(tmp_path, monkeypatch):
    """Each kind of resource is a file; a report's patient, relatives and observations are found in theirs."""
    export = tmp_path / "export"
    export.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    kin = {"resourceType": "RelatedPerson", "id": "k", "patient": {"reference": "Patient/p1"},
           "name": [{"family": "Wintergerst"}]}  # fmt: skip
    other = PATIENT | {"id": "p2", "identifier": [{"value": "777123", "system": "urn:hospital"}],
                       "name": [{"family": "Nobody"}]}  # fmt: skip
    conclusion = "Carcinoma of Candy McMuffin, daughter of Wintergerst; not of Nobody."
    reports = [OBSERVED | {"conclusion": conclusion},
               report(id="r2", subject={"reference": "https://x/Patient/p2"}, conclusion="Benign."),
               report(id="r3", subject={"reference": "Patient/p9"}, conclusion="Polyp.")]  # fmt: skip
    parts = {"Patient": [PATIENT, other], "RelatedPerson": [kin], "Organization": [LAB],
             "DiagnosticReport": reports, "Observation": OBSERVATIONS}  # fmt: skip
    for name, resources in parts.items():
        (export / f"{name}.ndjson").write_text("\n".join(map(json.dumps, resources)))
    result = import_corpus([export], out=tmp_path / "out.parquet", key=KEY)
    assert (result.reports, result.cases) == (3, 3) and result.hl7.skipped_total == 0 and result.hl7.messages == 3
    corpus = pl.read_parquet(tmp_path / "out.parquet")
    first = corpus.row(0, named=True)
    assert first["case_id"] == read_resource(bundle(PATIENT, LAB, PRESENTED), key=KEY, registry=None)[0].case_id
    assert "[patient]" in first["text"] and "Wintergerst" not in first["text"] and "Nobody" in first["text"]
    assert "Grade 2" in first["text"] and "core, breast" in first["text"]
    assert corpus["registry"].to_list() == ["NORTH LAB"] * 3
    gc.collect()
    assert list((tmp_path / "scratch").iterdir()) == []  # patients do not stay on disk
    with pytest.raises(CorpusError, match="holds no DiagnosticReport, only what reports refer to"):
        import_corpus([export / "Patient.ndjson"], out=tmp_path / "none.parquet")
    assert not (tmp_path / "none.parquet").exists()


def skipped(content: bytes) -> str:
    (found,) = read_resources(io.BytesIO(content), key=KEY, registry=None)
    assert isinstance(found, Skipped)
    return found.reason


def test_hostile_files_are_one_sentence(monkeypatch):
    deep = b'{"resourceType": "Bundle", "entry": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert skipped(deep) == "is nested more than 64 levels deep"
    assert skipped(b'{\n"resourceType": 5}') == "is not a FHIR resource"
    assert (
        skipped(b'[{"resourceType": "Bundle"}]') == "is a list; expected one resource (a bundle of them, or one a line)"
    )
    assert "cannot be read as JSON" in skipped(b"\xff\xfe{\n")
    nested = report(conclusion="x", performer=[{"display": "LAB"}])
    for _ in range(15):
        nested = bundle(nested | {"id": "b"})
    assert "DiagnosticReport" in skipped(json.dumps(nested).encode())
    monkeypatch.setattr("pathveil.corpus.fhir.LONGEST", 1_000)
    assert "is larger than" in skipped(b'{"resourceType": "Bundle",' + b" " * 5_000 + b"}")


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("#p"))
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_a_field_holds_there_is_a_report_or_a_reason(data):
    resource = copy.deepcopy(bundle(PATIENT, LAB, data.draw(st.sampled_from([PRESENTED, OBSERVED])), *OBSERVATIONS))
    for _ in range(data.draw(st.integers(1, 3))):
        node = resource
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = data.draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
                node = node[key]
                continue
            node[key] = data.draw(TREES)
            break
    try:
        assert all(one.text and one.case_id for one in read_resource(resource, key=KEY, registry="R"))
    except UnusableMessage as fault:
        assert "carcinoma" not in str(fault) and "McMuffin" not in str(fault)


def test_a_corpus_of_fhir_is_what_one_of_tables_is(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(bundle(PATIENT, LAB, PRESENTED)))
    import_corpus([tmp_path / "one.json"], out=tmp_path / "c.parquet", registry="North", key=KEY)
    frame = pl.read_parquet(tmp_path / "c.parquet")
    assert frame["registry"].to_list() == ["North"] and "report_number" in frame.columns
