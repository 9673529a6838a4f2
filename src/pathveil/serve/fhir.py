"""FHIR R4 in and out: DiagnosticReports to texts, codes to Observations with ICD-O-3's code system.

A DiagnosticReport's text is made as ``corpus import`` makes it (``corpus/fhir.py``), so that a model reads here what
it was trained on. Its subject's reference is the case, where it means one patient.

>>> (report,) = read_fhir({"resourceType": "DiagnosticReport", "id": "d1", "status": "final",
...                        "subject": {"reference": "Patient/7"}, "conclusion": "Ductal carcinoma, left breast."})
>>> report.report_id, report.case_id, report.text
('d1', 'Patient/7', 'FINAL DIAGNOSIS\\nDuctal carcinoma, left breast.')
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from pathveil.corpus.messages.fhir import Index, Reader, Resource, readers_of
from pathveil.corpus.messages.fhir_index import object_of, text_of, without_history
from pathveil.serve.faults import Fault
from pathveil.serve.sent import Sent

ICDO3 = "http://terminology.hl7.org/CodeSystem/icd-o-3"
LOINC, SNOMED = "http://loinc.org", "http://snomed.info/sct"
ABSENT = "http://terminology.hl7.org/CodeSystem/data-absent-reason"
SIDES = {"left": ("7771000", "Left"), "right": ("24028007", "Right"), "bilateral": ("51440002", "Right and left")}
LONGEST_NAME = 200


def read_fhir(content: Any) -> list[Sent]:
    """The reports of a DiagnosticReport or of a Bundle."""
    if not isinstance(content, dict) or content.get("resourceType") not in ("DiagnosticReport", "Bundle"):
        raise Fault(422, "expected a FHIR DiagnosticReport or a Bundle of them")
    known = Index(content)
    if not known.reports:
        raise Fault(422, "the Bundle holds no DiagnosticReport")
    readers = readers_of(known)
    meant: dict[str, set[tuple[str, ...] | None]] = {}  # patients
    for reader in readers:
        meant.setdefault(case_of(reader.resource), set()).add(reader.identity())
    shared = {case for case, patients in meant.items() if len(patients) > 1}
    return [read_report(reader, number=number, shared=shared) for number, reader in enumerate(readers, start=1)]


def case_of(report: Resource) -> str:
    return without_history(text_of(object_of(report, "subject"), "reference"))


def read_report(reader: Reader, *, number: int, shared: Set[str]) -> Sent:
    """A report under its own names: answers go back to who sent it. ``shared`` are cases that are several patients'."""
    resource, case = reader.resource, case_of(reader.resource)
    text, _ = reader.masked_text()
    if not text:
        raise Fault(422, f"DiagnosticReport {number} {reader.why}")
    date, _ = reader.date()
    return Sent(
        report_id=(text_of(resource, "id") or reader.number() or str(number))[:LONGEST_NAME],
        case_id=(case[:LONGEST_NAME] or None) if case not in shared else None,
        registry=None,
        date=date.isoformat() if date else None,
        text=text,
        number=reader.number(),
        rewritten=True,
    )


def to_bundle(results: Sequence[Mapping[str, Any]], *, model: str) -> dict[str, Any]:
    """Answers as a FHIR Bundle of Observations: primary site, histology with behavior, and laterality."""
    return {
        "resourceType": "Bundle",
        "type": "collection",
        "entry": [{"resource": one} for result in results for one in observations(result, model=model)],
    }


def observations(result: Mapping[str, Any], *, model: str) -> Iterator[dict[str, Any]]:
    """An answer's Observations. What the model abstains from has no value but the reason for its absence, so that no
    receiver takes a guess for a code; the guess stands in a note."""
    codes = result["codes"]
    place = codes.get("subsite") or codes.get("site")
    if place:
        yield observation(result, "21855-2", "Primary site Cancer", [place], ICDO3, place["code"], model=model)
    if "histology" in codes:
        parts = [codes["histology"], *([codes["behavior"]] if "behavior" in codes else [])]
        code = "/".join(part["code"] for part in parts)
        yield observation(result, "59847-4", "Histology and Behavior ICD-O-3 Cancer", parts, ICDO3, code, model=model)
    if "laterality" in codes:
        side = codes["laterality"]
        system, code = (SNOMED, SIDES[side["code"]][0]) if side["code"] in SIDES else ("", side["code"])
        yield observation(result, "", "Laterality", [side], system, code, model=model)


def observation(
    result: Mapping[str, Any],
    loinc: str,
    name: str,
    parts: Sequence[Mapping[str, Any]],
    system: str,
    code: str,
    *,
    model: str,
) -> dict[str, Any]:
    named: dict[str, Any] = {"text": name}
    if loinc:
        named["coding"] = [{"system": LOINC, "code": loinc, "display": name}]
    value: dict[str, Any] = {"text": parts[0].get("term") or code}
    if system:
        value["coding"] = [{"system": system, "code": code}]
    made: dict[str, Any] = {
        "resourceType": "Observation",
        "status": "preliminary",  # until a person has looked at it
        "code": named,
        "derivedFrom": [{"identifier": {"value": name}} for name in result["report_ids"] or [result["report_id"]]],
        "device": {"identifier": {"system": "urn:pathveil:bundle", "value": model}},
    }
    if result.get("case_id"):
        made["subject"] = {"identifier": {"value": result["case_id"]}}
    if any(part["abstained"] for part in parts):
        made["dataAbsentReason"] = {"coding": [{"system": ABSENT, "code": "unknown"}], "text": "left to a person"}
        made["note"] = [{"text": f"The model's guess, not sure enough to be taken: {code}"}]
    else:
        made["valueCodeableConcept"] = value
    return made
