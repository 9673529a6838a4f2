"""FHIR R4 in and out: DiagnosticReports to texts, codes to Observations with ICD-O-3's code system.

A DiagnosticReport's text is its attached plain text or HTML (``presentedForm``), else its conclusion and the
Observations of the same Bundle that it lists as results, else its narrative. Its subject's reference is the case.

>>> (report,) = read_fhir({"resourceType": "DiagnosticReport", "id": "d1", "status": "final",
...                        "subject": {"reference": "Patient/7"}, "conclusion": "Ductal carcinoma, left breast."})
>>> report.report_id, report.case_id, report.text
('d1', 'Patient/7', 'Ductal carcinoma, left breast.')
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

from pathveil.serve.faults import Fault
from pathveil.serve.sent import Sent

ICDO3 = "http://terminology.hl7.org/CodeSystem/icd-o-3"
LOINC, SNOMED = "http://loinc.org", "http://snomed.info/sct"
ABSENT = "http://terminology.hl7.org/CodeSystem/data-absent-reason"
SIDES = {"left": ("7771000", "Left"), "right": ("24028007", "Right"), "bilateral": ("51440002", "Right and left")}
LONGEST_NAME = 200


def read_fhir(content: Any) -> list[Sent]:
    """The reports of a DiagnosticReport or of a Bundle."""
    kind = content.get("resourceType") if isinstance(content, dict) else None
    if kind == "DiagnosticReport":
        return [read_report(content, {}, number=1)]
    if kind != "Bundle":
        raise Fault(422, "expected a FHIR DiagnosticReport or a Bundle of them")
    entries = content.get("entry")
    resources: dict[str, Mapping[str, Any]] = {}
    for entry in entries if isinstance(entries, list) else []:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        if isinstance(resource, dict):
            named = str(entry.get("fullUrl") or f"entry {len(resources)}")
            resources[named] = resource
            resources[f"{resource.get('resourceType')}/{resource.get('id')}"] = resource
    reports = list(
        {id(one): one for one in resources.values() if one.get("resourceType") == "DiagnosticReport"}.values()
    )
    if not reports:
        raise Fault(422, "the Bundle holds no DiagnosticReport")
    return [read_report(report, resources, number=number) for number, report in enumerate(reports, start=1)]


def read_report(report: Mapping[str, Any], resources: Mapping[str, Mapping[str, Any]], *, number: int) -> Sent:
    text = "\n\n".join(filter(None, texts_of(report, resources)))
    if not text.strip():
        raise Fault(422, f"DiagnosticReport {number} has no text: no presentedForm, conclusion, result or narrative")
    day = re.match(r"\d{4}-\d{2}-\d{2}", string(report, "effectiveDateTime") or string(report, "issued"))
    return Sent(
        report_id=(string(report, "id") or identifier_of(report) or str(number))[:LONGEST_NAME],
        case_id=string(report.get("subject"), "reference")[:LONGEST_NAME] or None,
        registry=None,
        date=day[0] if day else None,
        text=text,
        number=identifier_of(report) or None,
        rewritten=True,
    )


def texts_of(report: Mapping[str, Any], resources: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The pieces of a report's text, from the first place that has any."""
    attached = [attachment_text(one) for one in items(report, "presentedForm")]
    if any(attached):
        yield from attached
        return
    found = [string(resources.get(string(one, "reference")), "valueString") for one in items(report, "result")]
    if string(report, "conclusion") or any(found):
        yield string(report, "conclusion")
        yield from found
        return
    yield plain_text(string(report.get("text"), "div"))


def attachment_text(attachment: Mapping[str, Any]) -> str:
    kind = string(attachment, "contentType").partition(";")[0].strip().lower()
    if kind not in ("text/plain", "text/html", "application/xhtml+xml") or not string(attachment, "data"):
        return ""
    try:
        text = base64.b64decode(string(attachment, "data"), validate=True).decode("utf-8")
    except ValueError:  # no base 64, no ASCII, no UTF-8
        raise Fault(422, "a presentedForm is not UTF-8 text in base 64") from None
    return text if kind == "text/plain" else plain_text(text)


class TextAlone(HTMLParser):
    """Keeps the text between tags; a block's end is a line's."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("p", "div", "tr", "li", "h1", "h2", "h3", "h4", "table"):
            self.pieces.append("\n")

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "br":
            self.pieces.append("\n")


def plain_text(markup: str) -> str:
    parser = TextAlone()
    parser.feed(markup)
    parser.close()
    return "".join(parser.pieces).strip()


def items(resource: Any, name: str) -> list[Mapping[str, Any]]:
    found = resource.get(name) if isinstance(resource, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def string(resource: Any, name: str) -> str:
    found = resource.get(name) if isinstance(resource, dict) else None
    return found if isinstance(found, str) else ""


def identifier_of(report: Mapping[str, Any]) -> str:
    return next((string(one, "value") for one in items(report, "identifier") if string(one, "value")), "")


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
