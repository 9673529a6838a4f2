"""FHIR R4: reports in bundles, alone and one a line, by every way that text is held; and what is skipped."""

import base64
import copy
import datetime
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhir_resources import (
    KEY,
    LAB,
    OBSERVATIONS,
    OBSERVED,
    PATIENT,
    PRESENTED,
    TEXT,
    bundle,
    encoded,
    observation,
    report,
)
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.messages.fhir import read_resource
from pathveil.corpus.messages.hl7 import UnusableMessage
from pathveil.errors import CorpusError
from pathveil.serve.fhir import read_fhir


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
