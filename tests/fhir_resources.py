"""FHIR resources of an invented patient, a report of hers, and what it refers to."""

import base64

from pathveil.corpus.messages.fhir import read_resource

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


def cases_of(*resources: dict) -> list[str]:
    return [read_resource(bundle(one, LAB, PRESENTED), key=KEY, registry=None)[0].case_id for one in resources]
