"""Reports out of a request's body: JSON, HL7 v2 or FHIR, by its content type; one report or many.

    application/json                        {"reports": [{"report_id": …, "text": …}, …]}, or one such report
    text/plain                              one report as it is
    application/hl7-v2, x-application/hl7-v2+er7, text/hl7v2
                                            messages, as 'pathveil corpus import' reads them
    application/fhir+json                   a DiagnosticReport, or a Bundle of them

What HL7 and FHIR hold in several fields becomes one text, and RTF or a page becomes plain; ``Sent.rewritten`` says that
the text is not the sender's own, so that an answer with places in it must show the text they are places of.
"""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from pathveil.bundle.incoming import made_plain
from pathveil.corpus.messages.naaccr import Skipped, read_messages
from pathveil.errors import explained
from pathveil.formatting import counted
from pathveil.results import Part
from pathveil.serve.faults import Fault
from pathveil.serve.fhir import read_fhir
from pathveil.serve.incoming import sent_report
from pathveil.serve.sent import Sent
from pathveil.serve.settings import ServeSettings
from pathveil.untrusted import Refused, parse_json

JSON, TEXT, FHIR = "application/json", "text/plain", "application/fhir+json"
HL7 = ("application/hl7-v2", "x-application/hl7-v2+er7", "text/hl7v2")
TYPES = (JSON, TEXT, *HL7, FHIR)

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ReportIn(Part):
    """One report of a request."""

    report_id: Name | None = Field(None, description="The sender's name of the report; given back with its codes.")
    case_id: Name | None = Field(None, description="The case it belongs to, for answers by case.")
    registry: Name | None = Field(None, description="The registry it belongs to, for the queue.")
    date: str | None = Field(None, pattern=r"^\d{4}-\d{2}-\d{2}$", description="The report's day, for the queue.")
    text: str = Field(description="The report's text.")


class CodeRequest(Part):
    """Reports to code."""

    reports: list[ReportIn] = Field(min_length=1)


def read_body(content_type: str, body: bytes, settings: ServeSettings, *, key: bytes) -> list[Sent]:
    """The reports of a body; ``key`` makes the ids of HL7 patients."""
    kind = content_type.partition(";")[0].strip().lower()
    reader = readers(key).get(kind)
    if reader is None:
        raise Fault(415, f"this type of content is not taken; expected {', '.join(TYPES)}")
    reports = reader(body)
    if not reports:
        raise Fault(422, "the body holds no report")
    if len(reports) > settings.most_reports:
        raise Fault(413, f"the body holds {len(reports):,} reports; at most {settings.most_reports:,} are taken")
    if any(len(report.text) > settings.longest_text for report in reports):
        raise Fault(413, f"a report is too long; at most {settings.longest_text:,} characters are taken")
    return reports


def readers(key: bytes) -> dict[str, Callable[[bytes], list[Sent]]]:
    hl7 = {kind: lambda body: read_hl7(body, key=key) for kind in HL7}
    return {JSON: read_json_body, TEXT: read_text, FHIR: lambda body: read_fhir(json_of(body)), **hl7}


def read_json_body(body: bytes) -> list[Sent]:
    content = json_of(body)
    if isinstance(content, dict) and "text" in content:
        content = {"reports": [content]}
    try:
        request = CodeRequest.model_validate(content)
    except ValidationError as error:
        wrong = explained(error, CodeRequest, quoting=False)
        raise Fault(422, f"the request is not as /openapi.json describes it: {wrong}") from None
    reports = []
    for place, report in enumerate(request.reports, start=1):
        name, others = report.report_id, report.model_dump(exclude={"report_id"})
        reports.append(plainly(Sent(report_id=name or str(place), number=name, **others)))  # its only id
    return reports


def read_text(body: bytes) -> list[Sent]:
    try:
        return [plainly(Sent(report_id="1", text=body.decode("utf-8")))]
    except UnicodeDecodeError:
        raise Fault(400, "the text is not UTF-8") from None


def plainly(report: Sent) -> Sent:
    """The report with its text as every table's is read: RTF and pages as plain text."""
    plain = made_plain(report.text)
    return report if plain == report.text else replace(report, text=plain, rewritten=True)


def read_hl7(body: bytes, *, key: bytes) -> list[Sent]:
    reports: list[Sent] = []
    for message in read_messages(io.BytesIO(body), key=key, registry=None):
        if isinstance(message, Skipped):
            raise Fault(422, f"message {message.message} (line {message.line}) {message.reason}")
        reports += map(sent_report, message)
    return reports


def json_of(body: bytes) -> Any:
    try:
        return parse_json(body)
    except Refused:
        raise Fault(400, f"the body of {counted(len(body), 'byte')} is not JSON") from None
