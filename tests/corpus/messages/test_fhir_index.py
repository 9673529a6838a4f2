"""Resources in files, bundles and exports: which is meant by a reference, which version counts, and what is damaged."""

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

from fhir_resources import (
    KEY,
    LAB,
    OBSERVATIONS,
    OBSERVED,
    OTHER,
    PATIENT,
    PRESENTED,
    bundle,
    cases_of,
    observation,
    report,
)
from pathveil.corpus import read
from pathveil.corpus.intake import ImportResult, import_corpus
from pathveil.corpus.messages.fhir import read_resource, read_resources
from pathveil.corpus.messages.fhir_index import Beside
from pathveil.corpus.messages.hl7 import UnusableMessage
from pathveil.corpus.messages.naaccr import Skipped
from pathveil.corpus.tables.opening import detect_format
from pathveil.errors import CorpusError
from pathveil.serve.fhir import read_fhir


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
    monkeypatch.setattr("pathveil.corpus.messages.fhir_index.LONGEST", 1_000)
    assert "is larger than" in skipped(b'{"resourceType": "Bundle",' + b" " * 5_000 + b"}")
