"""FHIR R4: reports in bundles, alone and one a line, by every way that text is held; and what is skipped."""

import base64
import copy
import datetime
import gc
import io
import json
import os
import random
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus import read
from pathveil.corpus.fhir import read_resource, read_resources
from pathveil.corpus.fhir_index import Beside
from pathveil.corpus.hl7 import UnusableMessage
from pathveil.corpus.intake import ImportResult, import_corpus
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


OTHER = PATIENT | {"identifier": [{"value": "777123", "system": "urn:b"}], "name": [{"family": "Burger"}]}  # same id
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


SIDES = '<ListItem title="Right"/><ListItem title="Left" selected="true"/>'
FORM = f'<FormDesign formTitle="ADRENAL GLAND"><Question title="Side of McMuffin">{SIDES}</Question></FormDesign>'
FILLED_IN = [{"contentType": "application/xml", "data": encoded(FORM)}]
ROLE = {
    "resourceType": "PractitionerRole", "id": "pathologist", "practitioner": {"reference": "Practitioner/7"},
    "organization": {"reference": "Organization/lab"},
}  # fmt: skip


def test_a_filled_in_form_is_read_where_no_observation_says_it():
    here = [*OBSERVATIONS, observation(5, "1", "Side", valueCodeableConcept={"text": "Right"})]
    elsewhere = report(presentedForm=FILLED_IN, result=[{"reference": "Observation/o5"}], text={"div": "Status final"})
    resources = bundle(PATIENT, LAB, elsewhere)
    (found,) = read_resource(resources, key=KEY, registry=None)
    assert found.text == "SYNOPTIC REPORT\nADRENAL GLAND\nSide of [patient]: Left"
    assert read_fhir(resources)[0].text == found.text
    (found,) = read_resource(bundle(PATIENT, LAB, elsewhere, *here), key=KEY, registry=None)
    assert found.text == "SYNOPTIC REPORT\nSide: Right"
    page = [{"contentType": "application/xml", "data": encoded(f"<html><p>{TEXT}</p></html>")}, *FILLED_IN]
    (found,) = read_resource(bundle(PATIENT, LAB, report(presentedForm=page)), key=KEY, registry=None)
    assert found.text.startswith("FINAL DIAGNOSIS\nLeft breast of [patient]") and "ADRENAL" not in found.text


def test_a_performer_in_a_role_names_the_organisation_it_works_for(tmp_path):
    told = report(conclusion="Ductal carcinoma.", performer=[{"reference": "PractitionerRole/pathologist"}])
    (found,) = read_resource(bundle(PATIENT, LAB, ROLE, told), key=KEY, registry=None)
    assert found.registry == "NORTH LAB"
    named = ROLE | {"organization": {"display": "SOUTH LAB"}}
    interpreted = told | {"performer": [{"reference": "Practitioner/7"}], "resultsInterpreter": told["performer"]}
    (found,) = read_resource(bundle(PATIENT, named, interpreted), key=KEY, registry=None)
    assert found.registry == "SOUTH LAB"
    for resource in (told, PATIENT, LAB, ROLE):
        (tmp_path / f"{resource['resourceType']}.ndjson").write_text(json.dumps(resource))
    assert import_corpus(tmp_path, out=tmp_path.parent / "export.parquet", key=KEY).registries == {"NORTH LAB": 1}


def test_an_answer_that_was_chosen_is_an_item_however_long():
    size = "Greatest dimension of the largest invasive focus, in millimetres, as it was measured under the microscope"
    items = [observation(1, "1", "Tumor size (Note E)", valueCodeableConcept={"text": size})]
    told = report(result=[{"reference": "Observation/o1"}])
    (found,) = read_resource(bundle(PATIENT, LAB, told, *items), key=KEY, registry=None)
    assert found.text == f"SYNOPTIC REPORT\nTumor size (Note E): {size}"


@pytest.mark.parametrize(
    "url", ["Binary/b1", "https://lab.example/Binary/b1", "https://lab.example/Binary/b1/_history/2"]
)
def test_a_text_that_a_report_leads_to_is_read_where_it_is_here(tmp_path, url):
    binary = {"resourceType": "Binary", "id": "b1", "contentType": "text/html", "data": encoded(f"<p>{TEXT}</p>")}
    form = [{"contentType": "text/html", "url": url}, {"contentType": "application/pdf", "url": "Binary/b2"}]
    leading = report(presentedForm=form)
    (found,) = read_resource(bundle(PATIENT, LAB, leading, binary), key=KEY, registry=None)
    assert found.text.startswith("FINAL DIAGNOSIS\nLeft breast of [patient]") and "Candy" not in found.text
    untyped = report(presentedForm=[{"url": url}])
    assert read_resource(bundle(PATIENT, LAB, untyped, binary), key=KEY, registry=None)[0].text == found.text
    for resource in (PATIENT, LAB, leading, binary):  # a bulk export
        (tmp_path / f"{resource['resourceType']}.ndjson").write_text(json.dumps(resource) + "\n")
    result = import_corpus(tmp_path, out=tmp_path / "out" / "corpus.parquet", key=KEY)
    assert result.hl7 and (result.reports, result.hl7.skipped) == (1, [])
    with pytest.raises(UnusableMessage, match="leads to its text elsewhere"):
        read_resource(bundle(PATIENT, LAB, leading), key=KEY, registry=None)


def test_a_code_that_is_words_alone_is_these_words():
    side = observation(1, "", "Side", valueCodeableConcept={"coding": [{"display": "Right"}]})
    (found,) = read_resource(bundle(OBSERVED, PATIENT, LAB, side), key=KEY, registry=None)
    assert "SYNOPTIC REPORT\nSide: Right" in found.text


def test_observations_that_are_not_here_are_told(tmp_path):
    (tmp_path / "b.json").write_text(json.dumps(bundle(PATIENT, LAB, OBSERVED, OBSERVATIONS[0])))
    result = import_corpus(tmp_path / "b.json", out=tmp_path / "c.parquet", key=KEY)
    reason = "refers to 2 Observations not here; the report was read without what they say"
    assert result.reports == 1 and [one.reason for one in result.hl7.skipped] == [reason]
    (tmp_path / "p.json").write_text(json.dumps(bundle(PATIENT, LAB, {**OBSERVED, **PRESENTED})))
    assert import_corpus(tmp_path / "p.json", out=tmp_path / "c.parquet", key=KEY).hl7.skipped_total == 0


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (bundle(PATIENT, LAB, report(result=OBSERVED["result"], text={"div": "<p>Status: final</p>"})), "are not here"),
        (bundle(PATIENT, LAB, report(presentedForm=[{"contentType": "text/xml", "data": encoded("<a/>")}])), "no form"),
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
    result = import_corpus([tmp_path], out=tmp_path / "new" / "out.parquet", key=KEY)
    assert (result.reports, result.cases, result.registries) == (2, 1, {"NORTH LAB": 2})
    assert result.hl7 is not None and (result.hl7.messages, result.hl7.repeated, result.hl7.skipped_total) == (4, 1, 1)
    assert [(one.message, one.line, one.reason) for one in result.hl7.skipped] == [(4, 4, "cannot be read as JSON")]
    corpus = read(tmp_path / "reports.ndjson")
    assert len(corpus) == 2 and corpus.to_frame()["date"].to_list() == [datetime.date(2016, 5, 2)] * 2
    written = (tmp_path / "new" / "out.parquet").read_bytes() + result.to_json().encode()
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
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
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


def test_other_kinds_of_resources_are_told_once_and_hide_no_report_that_failed(tmp_path):
    """Exports have practitioners and visits by the thousand; a hundred of them stood for all that was skipped."""
    others = [
        {"resourceType": kind, "id": str(number)} for number in range(150) for kind in ("Practitioner", "Encounter")
    ]
    failed = report(id="r2", presentedForm=[{"contentType": "application/pdf", "data": "JVBERi0="}])
    files = {"A": others, "B": [report(conclusion="Carcinoma."), failed], "Patient": [PATIENT], "Organization": [LAB]}
    _, result = exported(tmp_path / "export", **files)
    assert (result.reports, result.hl7.messages, result.hl7.skipped_total) == (1, 4, 3)
    assert [(one.message, one.reason) for one in result.hl7.skipped] == [
        (1, "holds no DiagnosticReport; others of its kind in this file are passed over"),
        (2, "holds no DiagnosticReport; others of its kind in this file are passed over"),
        (2, "holds its text in a form that is not read (PDF or an image)"),
    ]


def test_what_reports_refer_to_lies_in_a_file_without_a_name(tmp_path, monkeypatch):
    """A process that is killed leaves no patient on disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    links = Path("/proc/self/fd")

    def opened() -> set[str]:
        there = [os.readlink(link) for link in links.iterdir() if link.is_symlink()] if links.is_dir() else []
        return {name for name in there if name.startswith("/") and not name.startswith("/proc/")}

    before, beside = opened(), Beside()
    for number in range(60):  # more than is held in memory
        beside.add(PATIENT | {"id": f"p{number}", "photo": [{"data": random.Random(number).randbytes(300_000).hex()}]})
    assert beside.find("Patient/p7").resource["name"] == PATIENT["name"]
    assert list(tmp_path.iterdir()) == []
    assert all(name.endswith("(deleted)") for name in opened() - before)


def exported(folder: Path, **files: list[dict]) -> tuple[list[str], ImportResult]:
    """The texts of an export, a file for each name, and what its import says."""
    folder.mkdir()
    for name, resources in files.items():
        (folder / f"{name}.ndjson").write_text("\n".join(map(json.dumps, resources)) + "\n")
    out = folder.with_suffix(".parquet")
    result = import_corpus([folder], out=out, key=KEY)
    return pl.read_parquet(out)["text"].to_list(), result


def test_all_observations_of_a_bulk_export_are_found(tmp_path):
    items = [observation(number, "1", f"Item {number}", valueString=f"value {number}") for number in range(40)]
    given = report(result=[{"reference": f"Observation/o{number}"} for number in range(40)])
    (text,), _ = exported(tmp_path / "e", Patient=[PATIENT], Organization=[LAB], Observation=items, Report=[given])
    assert text.split("\n")[1:] == [f"Item {number}: value {number}" for number in range(40)]


def test_a_resource_may_say_its_kind_last(tmp_path):
    """Whatever is in a report, or before its kind, it is a report; a patient is one too."""
    alone = report(conclusion="Polyp.", subject={"reference": "#p1"}, contained=[PATIENT, LAB])
    other = report(conclusion="Adenoma of McMuffin.", performer=[{"display": "LAB"}])
    (tmp_path / "one.json").write_text(json.dumps(bundle(PATIENT, LAB, PRESENTED), sort_keys=True))
    (tmp_path / "lines.ndjson").write_text("".join(json.dumps(one, sort_keys=True) + "\n" for one in (alone, other)))
    (tmp_path / "Patient.ndjson").write_text(json.dumps(PATIENT, sort_keys=True))
    result = import_corpus([tmp_path], out=tmp_path / "new" / "c.parquet", registry="North", key=KEY)
    assert (result.reports, result.cases, result.hl7.messages, result.hl7.skipped_total) == (3, 1, 3, 0)
    assert "Adenoma of [patient]." in "".join(pl.read_parquet(tmp_path / "new" / "c.parquet")["text"])


def test_a_damaged_patient_of_an_export_is_named(tmp_path):
    (tmp_path / "Patient.ndjson").write_text(json.dumps(PATIENT) + "\n" + json.dumps(PATIENT)[:-40] + "}\n")
    (tmp_path / "Report.ndjson").write_text(json.dumps(report(conclusion="Polyp.")))
    result = import_corpus([tmp_path], out=tmp_path / "new" / "c.parquet", registry="North", key=KEY)
    assert [(one.line, one.reason) for one in result.hl7.skipped] == [(2, "cannot be read as JSON")]


def cases_of(*resources: dict) -> list[str]:
    return [read_resource(bundle(one, LAB, PRESENTED), key=KEY, registry=None)[0].case_id for one in resources]


def in_bundle(*entries: tuple[str, dict]) -> dict:
    return {"resourceType": "Bundle", "entry": [{"fullUrl": url, "resource": one} for url, one in entries]}


def test_each_bundle_in_a_bundle_has_names_of_its_own():
    header = {"resourceType": "MessageHeader", "source": {"name": "FIRST LAB"}}
    inner = [in_bundle(("", PATIENT), ("", header), ("", report(conclusion="Polyp."))),
             in_bundle(("", OTHER), ("", report(conclusion="Lymphoma.", identifier=[{"value": "S2"}])))]  # fmt: skip
    found = read_resource(in_bundle(("", LAB), *(("", one) for one in inner)), key=KEY, registry=None)
    assert [one.case_id for one in found] == cases_of(PATIENT, OTHER)
    assert [one.registry for one in found] == ["FIRST LAB", "NORTH LAB"]  # the second's stands in the outer bundle
    assert [one.case_id for one in read_fhir(in_bundle(*(("", one) for one in inner)))] == [None, None]
    again = report(conclusion="x", subject={"reference": "Patient/p1/_history/2"})
    same = in_bundle(("", PATIENT), ("", PRESENTED), ("", again))
    assert [one.case_id for one in read_fhir(same)] == ["Patient/p1"] * 2


def test_one_id_on_two_servers_is_two_patients():
    a, b = "http://a.org/fhir/", "http://b.org/fhir/"
    patients = [(a + "Patient/p1", PATIENT), (b + "Patient/p1", OTHER)]

    def read(*given: tuple[str, dict]) -> list[str]:
        return [one.case_id for one in read_resource(in_bundle(*patients, *given), key=KEY, registry="R")]

    whole = [report(conclusion="Polyp.", subject={"reference": f"{server}Patient/p1"}) for server in (b, a)]
    assert read(("", whole[0]), ("", whole[1])) == cases_of(OTHER, PATIENT)
    short = report(conclusion="Polyp.")
    near = [(server + "DiagnosticReport/r1", dict(short)) for server in (a, b)]
    assert read(*near) == cases_of(PATIENT, OTHER)
    elsewhere = report(conclusion="Polyp.", subject={"reference": "http://c.org/Patient/p1"})
    assert read(("", elsewhere))[0] not in cases_of(PATIENT, OTHER)
    with pytest.raises(UnusableMessage, match="refers to Patient by a name under which different ones are here"):
        read(("", short))
    with pytest.raises(UnusableMessage, match="different ones are here"):
        read(("", report(status="entered-in-error")))


def test_exports_of_two_servers_in_one_folder_do_not_mix_patients(tmp_path):
    third = PATIENT | {"id": "p3"}
    told = [report(id=one, conclusion=f"Polyp of {name}.", subject={"reference": f"http://{one}.org/Patient/{id}"},
                   performer=[{"display": "LAB"}])
            for one, name, id in (("a", "McMuffin", "p1"), ("b", "Burger", "p1"), ("c", "Candy", "p3"))]  # fmt: skip
    texts, result = exported(tmp_path / "e", a=[PATIENT, third], b=[OTHER], reports=told)
    assert texts == ["FINAL DIAGNOSIS\nPolyp of [patient]."] and result.hl7.skipped_total == 2
    assert {one.reason.split(";")[0] for one in result.hl7.skipped} == {
        "refers to Patient by a name under which different ones are here"
    }


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old"), ("new", "old", "new")])
@pytest.mark.parametrize(("field", "old", "new"), [("versionId", "9", "10"), ("lastUpdated", "2016-05", "2016-05-02")])
def test_the_newest_version_of_an_observation_counts(tmp_path, order, field, old, new):
    versions = {name: observation(1, "22637-3", "Diagnosis", valueString=f"{name} diagnosis", meta={field: value})
                for name, value in (("old", old), ("new", new))}  # fmt: skip
    given = report(result=[{"reference": "Observation/o1"}], subject={"reference": "Patient/p1/_history/2"})
    files = {f"{place}": [versions[name]] for place, name in enumerate(order)}
    texts, result = exported(tmp_path / "e", Patient=[PATIENT], Organization=[LAB], reports=[given], **files)
    assert texts == ["FINAL DIAGNOSIS\nnew diagnosis"] and result.hl7.skipped_total == 0
    (found,) = read_resource(bundle(PATIENT, LAB, given, *(versions[one] for one in order)), key=KEY, registry=None)
    assert found.text == texts[0] and [found.case_id] == cases_of(PATIENT)


def test_versions_of_a_patient_are_one_person_and_two_that_cannot_be_told_are_none(tmp_path):
    married = PATIENT | {"name": [{"family": "Burger"}], "meta": {"versionId": "2"}}
    given = [report(conclusion="Polyp of Burger.")]
    texts, _ = exported(tmp_path / "e", a=[married], b=[PATIENT], Organization=[LAB], reports=given)
    assert texts == ["FINAL DIAGNOSIS\nPolyp of [patient]."]
    numbered = LAB | {"identifier": [{"value": "05D0642827"}], "meta": {"versionId": "2"}}
    assert read_resource(bundle(PATIENT, LAB, numbered, PRESENTED), key=KEY, registry=None)[0].registry == "NORTH LAB"
    with pytest.raises(UnusableMessage, match="refers to Organization by a name"):
        read_resource(bundle(PATIENT, LAB, numbered | {"name": "SOUTH LAB"}, PRESENTED), key=KEY, registry=None)
    unclear = [observation(1, "22637-3", "Diagnosis", valueString=one) for one in ("this", "that")]
    with pytest.raises(UnusableMessage, match="refers to Observation by a name"):
        read_resource(bundle(PATIENT, LAB, OBSERVED, *unclear), key=KEY, registry=None)


def test_bundles_too_deep_to_look_into_are_named():
    deep = bundle(report(conclusion="x"))
    for _ in range(6):
        deep = bundle(deep)
    given = json.dumps(bundle(PATIENT, LAB, PRESENTED, deep)).encode()
    left, found = read_resources(io.BytesIO(given), key=KEY, registry=None)
    assert isinstance(left, Skipped) and left.reason == "holds Bundles besides within more than 6 others"
    assert isinstance(found, list) and len(found) == 1


@pytest.mark.parametrize("number", ["UNKNOWN", "N/A", "none", "0000"])
def test_a_number_that_stands_for_many_makes_no_versions(tmp_path, number):
    given = [report(id=one, identifier=[{"value": number}], conclusion=one, status="amended") for one in ("r1", "r2")]
    texts, result = exported(tmp_path / "e", Patient=[PATIENT], Organization=[LAB], reports=given)
    assert len(texts) == 2 and result.hl7.replaced == 0
    given += [report(identifier=[{"value": number}, {"value": "S1"}], conclusion=one) for one in ("first", "second")]
    texts, result = exported(tmp_path / "f", Patient=[PATIENT], Organization=[LAB], reports=given)
    assert len(texts) == 3 and result.hl7.replaced == 1 and "second" in texts[2]  # the other number tells them apart


@pytest.mark.parametrize("when", ["2016-05-03T00:00:00Z", "9999-12-31T23:59:59Z", "1969-01-01", ""])
def test_the_count_of_versions_decides_where_their_times_are_the_same(tmp_path, when):
    given = [report(conclusion=f"version {one}", meta={"versionId": one, "lastUpdated": when}, issued="2016-05-02")
             for one in ("9", "10", "8")]  # fmt: skip
    texts, _ = exported(tmp_path / "e", Patient=[PATIENT], Organization=[LAB], reports=given)
    assert texts == ["FINAL DIAGNOSIS\nversion 10"]


def test_names_and_addresses_that_are_written_in_one_are_masked():
    written = {"resourceType": "Patient", "id": "p1", "identifier": [{"value": "00466144"}],
               "name": [{"text": "Mrs. Candy McMuffin"}], "address": [{"text": "495 East Overshoot Drive, Delmar"}],
               "contact": [{"name": {"text": "Olha Kovalenkova"}}]}  # fmt: skip
    told = ("Patient, Mrs. McMuffin (McMuffin, Candy), daughter of Kovalenkova, 495 East Overshoot Drive, Delmar;\n"
            "495 East  Overshoot Drive. Carcinoma, not of Delmar.")  # fmt: skip
    (found,) = read_resource(bundle(written, LAB, report(conclusion=told)), key=KEY, registry=None)
    assert found.text == (
        "FINAL DIAGNOSIS\nPatient, Mrs. [patient] ([patient]), daughter of [patient], [address];\n"
        "[address]. Carcinoma, not of Delmar."
    )


@pytest.mark.parametrize("people", [(), (PATIENT,)])
def test_what_a_report_calls_its_patient_is_masked(people):
    subject = {"reference": "Patient/p1", "display": "Erika Mustermann, female, MRN 4711-0815"}
    given = report(subject=subject, conclusion="Erika Mustermann (47110815), a female patient: carcinoma.")
    (found,) = read_resource(bundle(*people, LAB, given), key=KEY, registry=None)
    assert found.text == "FINAL DIAGNOSIS\n[patient] ([number]), a female patient: carcinoma."
    (sent,) = read_fhir(bundle(*people, given))
    assert sent.text == found.text


def test_numbers_and_addresses_without_their_kind_are_masked():
    """An e-mail without its system, a phone with its extension, the number by which a report names its patient."""
    telecom = [{"value": "candy@zebra.example"}, {"system": "sms", "value": "tel:+1 518-555-0124 ext. 7"}]
    born = [{"url": "http://hl7.org/fhir/StructureDefinition/patient-mothersMaidenName", "valueString": "Everywoman"}]
    text = "candy@zebra.example, (518) 555-0124, mother Everywoman"
    someone = PATIENT | {"telecom": telecom, "extension": born}
    (found,) = read_resource(bundle(someone, LAB, report(conclusion=text)), key=KEY, registry=None)
    assert found.text == "FINAL DIAGNOSIS\n[address], ([number], mother [patient]"
    for subject in ({"identifier": {"value": "00466144"}}, {"reference": "https://x/Patient/00466144/_history/2"}):
        (found,) = read_resource(report(subject=subject, conclusion="MRN 466144"), key=KEY, registry="R")
        assert found.text == "FINAL DIAGNOSIS\nMRN [number]"


@pytest.mark.parametrize("person", [{"reference": "Practitioner/x7"}, {"type": "PractitionerRole"}])
def test_a_pathologist_is_no_registry(person):
    """Exports refer to people who are not in them, by name; registries are named in models and pages."""
    given = report(
        performer=[person | {"display": "Ada Quarbescu, MD"}, {"reference": "Organization/y", "display": "LAB"}]
    )
    (found,) = read_resource(bundle(PATIENT, given | {"conclusion": "Polyp."}), key=KEY, registry=None)
    assert found.registry == "LAB"
    alone = bundle(PATIENT, given | {"conclusion": "Polyp.", "performer": given["performer"][:1]})
    with pytest.raises(UnusableMessage, match="names no sender"):
        read_resource(alone, key=KEY, registry=None)


def test_a_day_that_stands_for_none_is_none():
    given = report(effectiveDateTime="0001-01-01T00:00:00Z", issued="2016-05-04T00:00:00Z", conclusion="Polyp.")
    (found,) = read_resource(bundle(PATIENT, LAB, given), key=KEY, registry=None)
    assert (found.date, found.year) == (datetime.date(2016, 5, 4), 2016)


def test_a_case_goes_by_the_record_number_whatever_stands_before_it():
    """As in HL7: neither a visit's number nor one that was given up makes another case of a patient."""
    record = {"value": "00466144", "system": "urn:hospital"}
    others = [{"value": "V7", "type": {"coding": [{"code": "VN"}]}}, {"value": "9911", "use": "old"}, {"value": "K5"}]
    typed = record | {"type": {"coding": [{"code": "MR"}]}}
    given = ([record], [record, *others], [others[0], record], [others[1], record], [*others, typed])
    assert len(set(cases_of(*(PATIENT | {"identifier": numbers} for numbers in given)))) == 1
    by_name, without = cases_of(PATIENT | {"identifier": others[:1]}, PATIENT | {"identifier": []})
    assert by_name == without


def test_a_number_is_a_record_number_also_where_words_say_so():
    numbers = [{"value": "E4007", "type": {"text": "EPIC"}}, {"value": "00466144", "type": {"text": "MRN"}}]
    (found,) = read_resource(bundle(PATIENT | {"identifier": numbers}, LAB, PRESENTED), key=KEY, registry=None)
    (alone,) = read_resource(bundle(PATIENT | {"identifier": numbers[1:]}, LAB, PRESENTED), key=KEY, registry=None)
    assert found.case_id == alone.case_id


def test_a_name_of_very_many_words_takes_no_time():
    """Each word is looked for beside each other one."""
    name = {"family": "McMuffin", "given": ["Candy"] + [f"Given{number}" for number in range(20_000)]}
    crowd = PATIENT | {"name": [name, {"text": " ".join(name["given"])}]}
    (found,) = read_resource(bundle(crowd, LAB, report(conclusion="Candy McMuffin: polyp")), key=KEY, registry=None)
    assert found.text == "FINAL DIAGNOSIS\n[patient]: polyp"


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ({"value": 1, "comparator": "<", "unit": "mm"}, "<1 mm"),
        ({"value": 2.0, "comparator": ">=", "unit": "cm"}, ">=2 cm"),
        ({"value": 3, "comparator": "Candy", "unit": "mm"}, "3 mm"),
        ({"value": 1234567.5, "unit": "IU"}, "1234567.5 IU"),
        ({"value": 0.1}, "0.1"),
        ({"value": 10**310, "unit": "mm"}, f"1{'0' * 310} mm"),
    ],
)
def test_quantities_are_written_as_they_are(quantity, text):
    given = report(result=[{"reference": "Observation/o1"}])
    item = observation(1, "1", "Margin", valueQuantity=quantity)
    (found,) = read_resource(bundle(PATIENT, LAB, given, item), key=KEY, registry=None)
    assert " ".join(found.text.split("\n")[-1].removeprefix("Margin: ").split()) == text


LONG = "Invasive ductal carcinoma, grade 2, left breast."
PDF = b"%PDF-1.4\n1 0 obj <</Filter/FlateDecode>> stream\n" + bytes(range(128, 256))


def presented(*forms: tuple[str | None, str | bytes]) -> str:
    given = [({"contentType": kind} if kind is not None else {})
             | {"data": base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()}
             for kind, text in forms]  # fmt: skip
    (found,) = read_resource(bundle(PATIENT, LAB, report(presentedForm=given)), key=KEY, registry=None)
    return found.text


def test_forms_of_several_types_say_the_same_and_those_of_one_are_parts():
    plain, page, rich = ("text/plain", LONG), ("text/html", f"<p>{LONG}</p>"), ("text/rtf", "{\\rtf1 " + LONG + "}")
    for forms in ([plain, page, rich], [rich, page, plain], [page, rich], [rich], [plain, plain]):
        assert presented(*forms) == LONG
    assert presented(plain, (None, page[1])) == presented(plain, ("", rich[1])) == LONG  # told by what they hold
    assert presented(plain, page, ("text/plain", "Addendum.")) == f"{LONG}\n\nAddendum."
    assert presented(("text/plain", "See page."), page) == LONG
    assert presented(plain, ("text/rtf", "{\\rtf1" + "{" * 100_000)) == LONG  # what is not needed is not looked at


def test_what_is_no_text_is_not_read_as_one():
    for kind in (None, "", "text/plain", "text/html"):
        for data in (PDF, b"\x89PNG\r\n\x1a\n" + b"x" * 99, b"PK\x03\x04 document", b"abc\0\1\2\3" * 30):
            with pytest.raises(UnusableMessage, match="in a form that is not read"):
                presented((kind, data))
    assert presented((None, PDF), ("text/plain", LONG)) == LONG
    assert presented(("text/plain", LONG.encode("utf-16"))) == presented(("text/plain", LONG + "\0")) == LONG


LINES = [json.dumps(report(conclusion="Polyp, benign.", identifier=[{"value": f"S{number}"}])) for number in (1, 2)]


@pytest.mark.parametrize(
    ("start", "damaged"),
    [
        ("\ufeff", []),
        ("\n \n", []),
        ("\ufeff\n", []),
        (LINES[0][:100] + "\n", [1]),
        (LINES[0][:100] + "\n\n", [1]),
        (LINES[0][: LINES[0].index('"identifier"')] + "\n", [1]),  # behind a comma
        ("no JSON at all\n", [1]),
        (LINES[0] + "\n" + LINES[0][:50] + "\n", [2]),
    ],
)
def test_a_damaged_line_costs_itself_alone(start, damaged):
    given = "\n".join([start + LINES[0], *LINES[1:]]).encode()
    found = list(read_resources(io.BytesIO(given), key=KEY, registry="R"))
    assert [one.line for one in found if isinstance(one, Skipped)] == damaged
    assert [one[0].number for one in found if isinstance(one, list)][-2:] == ["S1", "S2"]


@pytest.mark.parametrize("indent", [0, 1, None])
def test_a_resource_may_go_over_lines(indent):
    given = json.dumps(bundle(PATIENT, LAB, PRESENTED), indent=indent)
    for text in (
        given,
        "\ufeff" + given,
        "\n" + given,
        given.replace('"entry": [', '"entry": [\n').replace(": {", ":\n{"),
    ):
        (found,) = read_resources(io.BytesIO(text.encode()), key=KEY, registry=None)
        assert isinstance(found, list) and found[0].number == "S16-0431"


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
    monkeypatch.setattr("pathveil.corpus.fhir_index.LONGEST", 1_000)
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
