"""The OpenAPI document: what the API takes and gives, from the very classes that check and make it."""

from typing import Any

from pydantic.json_schema import models_json_schema

from pathveil import __version__
from pathveil.serve.bodies import FHIR, HL7, JSON, TEXT, CodeRequest
from pathveil.serve.coding import CodeResponse
from pathveil.serve.settings import ServeSettings

SENTENCES = {
    "400": "The body cannot be read.",
    "401": "There is no token, or an unknown one.",
    "404": "There is no such page.",
    "408": "The body did not come in time.",
    "413": "The body, a report or the number of reports is too large.",
    "415": "The type of the content is not taken.",
    "422": "The body is not as described here.",
    "429": "Too many requests in a minute.",
    "503": "Too many requests are waiting.",
}


def document(settings: ServeSettings, *, with_queue: bool) -> dict[str, Any]:
    """The whole document; the queue is in it where the service keeps one."""
    _, definitions = models_json_schema(
        [(CodeRequest, "validation"), (CodeResponse, "serialization")], ref_template="#/components/schemas/{model}"
    )
    schemas = definitions["$defs"]
    schemas["CodeRequest"]["properties"]["reports"]["maxItems"] = settings.most_reports
    schemas["Error"] = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
    schemas["Model"] = {"type": "object", "required": ["model_sha256", "tasks", "detail"], "additionalProperties": True}
    schemas["Queued"] = {
        "type": "object",
        "required": ["received", "new"],
        "properties": {"received": {"type": "integer"}, "new": {"type": "integer"}},
    }
    paths: dict[str, Any] = {
        "/healthz": {"get": operation("The process is up.", {"200": text_answer("ok")}, open_to_all=True)},
        "/readyz": {
            "get": operation(
                "The model answers.",
                {"200": text_answer("ready"), "503": text_answer("not ready yet")},
                open_to_all=True,
            )
        },
        "/metrics": {"get": operation("Counts and times for Prometheus.", {"200": text_answer("The metrics.")})},
        "/v1/model": {"get": operation("The model that answers.", {"200": json_answer("Model", "The model.")})},
        "/v1/code": {"post": coding(settings)},
    }
    if with_queue:
        queued = operation(
            "Put reports into the queue.", {"202": json_answer("Queued", "They are stored.")}, faults=True
        )
        paths["/v1/queue"] = {"post": queued | {"requestBody": bodies()}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pathveil",
            "version": __version__,
            "description": "Codes of cancer pathology reports, with what the model is sure of.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def coding(settings: ServeSettings) -> dict[str, Any]:
    answers = {
        "description": "Codes of every report, in the order sent.",
        "content": {
            JSON: {"schema": {"$ref": "#/components/schemas/CodeResponse"}},
            FHIR: {"schema": {"type": "object"}},
        },
    }
    options = [
        {
            "name": "explain",
            "in": "query",
            "description": "How many places of the text to show for each code.",
            "schema": {"type": "integer", "minimum": 0, "maximum": settings.most_places, "default": 0},
        },
        {
            "name": "by_case",
            "in": "query",
            "description": "One answer a case from all its reports of this request.",
            "schema": {"type": "string", "enum": ["true", "false"], "default": "false"},
        },
    ]
    made = operation("Code reports.", {"200": answers}, faults=True)
    return made | {"parameters": options, "requestBody": bodies()}


def bodies() -> dict[str, Any]:
    reports = {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("CodeRequest", "ReportIn")]}
    return {
        "required": True,
        "content": {
            JSON: {"schema": reports},
            TEXT: {"schema": {"type": "string"}},
            FHIR: {"schema": {"type": "object", "required": ["resourceType"]}},
            **{kind: {"schema": {"type": "string"}} for kind in HL7},
        },
    }


def operation(
    summary: str, answers: dict[str, Any], *, faults: bool = False, open_to_all: bool = False
) -> dict[str, Any]:
    refused = ["400", "408", "413", "415", "422", "429", "503"] if faults else []
    refused += [] if open_to_all else ["401", "429"]
    found = {status: json_answer("Error", SENTENCES[status]) for status in refused}
    made: dict[str, Any] = {"summary": summary, "responses": found | answers}
    return made if open_to_all else made | {"security": [{"token": []}]}


def json_answer(name: str, description: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{name}"}
    return {"description": description, "content": {JSON: {"schema": schema}}}


def text_answer(description: str) -> dict[str, Any]:
    return {"description": description, "content": {TEXT: {"schema": {"type": "string"}}}}
