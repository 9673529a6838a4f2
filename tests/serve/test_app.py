"""The API, asked as clients ask it."""

import base64
import json
import logging

import numpy as np
import pytest
from starlette.testclient import TestClient

from bundle.conftest import reports
from pathveil.serve.app import make_app
from pathveil.serve.coding import Answerer, Asked, propose_case
from pathveil.serve.sent import Sent
from serve.conftest import BEARER, service_of

TEXT = "Final diagnosis: invasive ductal carcinoma of the left breast, nottingham grade 2."
ORU = (
    "MSH|^~\\&|LAB|NORTH|||20200101||ORU^R01|M1|P|2.5.1\rPID|1||77^^^^MR||Quillfeather^Zebedee||19500101\r"
    "OBR|1||S-20-1|11529-5^Surgical pathology^LN|||20200102\rOBX|1|TX|22637-3^final diagnosis^LN||"
    "Quillfeather: lobular carcinoma of the right breast\r"
)


def code(client, content, kind="application/json", **options):
    body = json.dumps(content) if kind.endswith("json") else content
    return client.post(
        "/v1/code", content=body, headers=BEARER | {"content-type": kind} | options.pop("headers", {}), params=options
    )


def test_codes_are_those_of_the_model(client, model):
    frame = reports(20, seed=9)
    sent = [{"report_id": str(n), "text": text} for n, text in enumerate(frame["text"])]
    answer = code(client, {"reports": sent}).json()
    expected = model.predict(frame["text"].to_list())
    assert answer["model"] == model.model_sha256
    for got, wanted in zip(answer["results"], expected.results, strict=True):
        for task, found in wanted.codes.items():
            told = got["codes"][task]
            assert (told["code"], told["abstained"]) == (found.code, found.abstained)
            assert told["probability"] == pytest.approx(found.probability, abs=1e-4)
            ranked = [told["probability"], *(other["probability"] for other in told["alternatives"])]
            assert len(ranked) == min(3, len(model.labels[task]))
            assert found.lifted or ranked == sorted(ranked, reverse=True)
            assert len({told["code"], *(other["code"] for other in told["alternatives"])}) == len(ranked)
    assert answer["results"][0]["codes"]["behavior"]["term"] == "malignant"


def test_places_lie_in_the_text_as_sent(client, model):
    found = code(client, {"text": TEXT}, explain=4).json()["results"][0]
    expected = model.explain(TEXT, top=4)
    for task, reasons in expected.tasks.items():
        places = found["codes"][task]["places"]
        assert [(place["start"], place["end"]) for place in places] == [(p.start, p.end) for p in reasons.places]
    assert "text" not in found


def test_a_text_in_rtf_is_coded_as_plain_text(client):
    rtf = rf"{{\rtf1\ansi{{\fonttbl{{\f0 Prostate;}}}}{TEXT}}}"
    expected = code(client, {"text": TEXT}, explain=2).json()["results"][0]
    found = [
        code(client, body, kind, explain=2).json()["results"][0]
        for body, kind in (({"text": rtf}, "application/json"), (f"<p>{TEXT}</p>", "text/plain"))
    ]
    for one in found:
        assert one["codes"] == expected["codes"] and one["text"] == TEXT  # in which the places lie


def test_answers_by_case_are_those_of_predict(client, model):
    frame = reports(12, seed=4)
    sent = frame.select("report_id", "case_id", "text").to_dicts()
    results = code(client, {"reports": sent}, by_case="true").json()["results"]
    expected = model.predict(frame, by_case=True).results
    assert [result["report_ids"] for result in results] == [list(one.report_ids) for one in expected]
    for got, wanted in zip(results, expected, strict=True):
        assert {t: c["code"] for t, c in got["codes"].items()} == {t: c.code for t, c in wanted.codes.items()}


def test_reports_without_a_case_id_are_cases_of_their_own(client):
    sent = [{"report_id": "1", "text": TEXT}, {"report_id": "1", "text": TEXT}]
    results = code(client, {"reports": sent}, by_case="true").json()["results"]
    assert [result["report_ids"] for result in results] == [["1"], ["1"]]


def test_hl7_messages_are_read_without_the_patient(client):
    first, second = code(client, ORU + ORU.replace("S-20-1", "S-20-2"), "application/hl7-v2", explain=3).json()[
        "results"
    ]
    assert (first["report_number"], second["report_number"]) == ("S-20-1", "S-20-2")
    assert first["case_id"] == second["case_id"] and "77" not in first["case_id"]
    assert first["text"] == "FINAL DIAGNOSIS\n[patient]: lobular carcinoma of the right breast"


def test_fhir_comes_in_and_goes_out(client, model):
    data = base64.b64encode(TEXT.encode()).decode()
    report = {
        "resourceType": "DiagnosticReport",
        "id": "d7",
        "status": "final",
        "subject": {"reference": "Patient/7"},
        "presentedForm": [{"contentType": "text/plain", "data": data}],
    }
    other = {
        "resourceType": "DiagnosticReport",
        "id": "d8",
        "result": [{"reference": "Observation/o1"}],
        "conclusion": "See below.",
    }
    seen = {"resourceType": "Observation", "id": "o1", "valueString": "prostate, adenocarcinoma, gleason 3+4=7"}
    bundle = {"resourceType": "Bundle", "entry": [{"resource": one} for one in (report, other, seen)]}
    fhir = "application/fhir+json"
    plain = code(client, bundle, fhir).json()["results"]
    assert [one["report_id"] for one in plain] == ["d7", "d8"] and plain[0]["case_id"] == "Patient/7"
    assert plain[0]["codes"]["site"]["code"] == model.predict([TEXT]).results[0].codes["site"].code
    answer = code(client, bundle, fhir, headers={"accept": fhir})
    assert answer.headers["content-type"] == fhir
    resources = [entry["resource"] for entry in answer.json()["entry"]]
    assert len(resources) == 6 and {one["resourceType"] for one in resources} == {"Observation"}
    for one in resources:
        assert ("valueCodeableConcept" in one) != ("dataAbsentReason" in one)
        for coding in one.get("valueCodeableConcept", {}).get("coding", []):
            assert coding["system"] in ("http://terminology.hl7.org/CodeSystem/icd-o-3", "http://snomed.info/sct")


@pytest.mark.parametrize(
    ("kind", "body", "status", "sentence"),
    [
        ("application/json", "{", 400, "the body of 1 byte is not JSON"),
        ("application/json", "[" * 100_000, 400, "is not JSON"),
        ("application/json", "{}", 422, "'reports': is missing"),
        ("application/json", '{"reports": [{"text": "a", "txt": "b"}]}', 422, "did you mean 'text'?"),
        (
            "application/json",
            '{"reports": [{"text": "a", "Muster Erika": 1}]}',
            422,
            "'reports.0': a field of it is not",
        ),
        (
            "application/json",
            '{"Muster Erika": [{"text": "a"}]}',
            422,
            "describes it: a field of it is not known (and 1",
        ),
        ("application/json", "[1]", 422, "expected an object with fields"),
        ("application/json", '{"reports": []}', 422, "'reports'"),
        ("application/x-evil", "a", 415, "this type of content is not taken"),
        ("text/plain", b"\xff", 400, "the text is not UTF-8"),
        ("application/hl7-v2", "nothing", 422, "message 1 (line 1) does not begin with MSH"),
        ("application/fhir+json", '{"resourceType": "Patient"}', 422, "expected a FHIR DiagnosticReport"),
        (
            "application/fhir+json",
            '{"resourceType": "Bundle", "entry": [7, {"resource": 7}]}',
            422,
            "no DiagnosticReport",
        ),
        (
            "application/fhir+json",
            '{"resourceType": "DiagnosticReport", "status": "entered-in-error", "conclusion": "wrong patient"}',
            422,
            "DiagnosticReport 1 is marked as cancelled or entered in error",
        ),
    ],
)
def test_a_body_that_cannot_be_used_gets_one_sentence(client, kind, body, status, sentence):
    answer = client.post("/v1/code", content=body, headers=BEARER | {"content-type": kind})
    assert (answer.status_code, sentence in answer.json()["error"]) == (status, True), answer.text
    assert "Muster" not in answer.text  # nothing that was sent, names of fields among it


def test_whoever_has_no_token_gets_nothing(client):
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic " + BEARER["authorization"][7:]}):
        for method, path in (("GET", "/v1/model"), ("GET", "/metrics"), ("POST", "/v1/code")):
            answer = client.request(method, path, headers=headers)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/healthz").text == "ok\n" and client.get("/openapi.json").status_code == 200


def test_limits_are_kept_and_the_service_stays_up(model):
    service = service_of(model, largest_body=500, most_reports=2, longest_text=100, requests_a_minute=7)
    for bucket in (service.asked, service.failed):
        bucket.clock = lambda: 0.0  # a busy machine's clock has no say
    with TestClient(make_app(service)) as client:
        assert code(client, {"text": "a" * 600}).status_code == 413
        assert code(client, iter([b"x" * 400] * 5), "text/plain").status_code == 413  # of unknown length
        assert code(client, {"reports": [{"text": "a"}] * 3}).status_code == 413
        assert code(client, {"text": "a" * 101}).status_code == 413
        assert code(client, {"text": "a"}, explain=21).status_code == 422
        assert [code(client, {"text": "a"}).status_code for _ in range(3)] == [200, 200, 429]
        assert client.get("/healthz").status_code == 200
        assert [client.get("/metrics").status_code for _ in range(32)].count(429) == 2  # guesses of tokens


@pytest.mark.parametrize("detail", ["labels", "bands", "rounded"])
def test_an_answer_tells_no_more_than_its_detail(model, detail):
    with TestClient(make_app(service_of(model, detail=detail))) as client:
        answer = code(client, {"text": TEXT}, explain=5)
    codes = answer.json()["results"][0]["codes"].values()
    if detail == "labels":
        assert "probability" not in answer.text and "weight" not in answer.text
        assert all(found["alternatives"] == [] for found in codes)
    elif detail == "bands":
        assert all(isinstance(found["probability"], str) for found in codes)
    else:
        assert all(found["probability"] == np.round(found["probability"], 1) for found in codes)


def test_nothing_that_was_sent_is_logged_or_measured(client, caplog):
    with caplog.at_level(logging.DEBUG):
        code(client, {"reports": [{"report_id": "Quillfeather-7", "text": "Zebedee Quillfeather " + TEXT}]}, explain=2)
        code(client, {"reports": [{"text": 7, "Quillfeather": "Zebedee"}]})
        metrics = client.get("/metrics", headers=BEARER).text
    assert "lab POST code 200" in caplog.text and 'pathveil_reports_coded_total{door="api"}' in metrics
    for place in (caplog.text, metrics):
        assert "quillfeather" not in place.lower() and "zebedee" not in place.lower()


def test_the_model_is_described_and_headers_are_strict(client, model):
    answer = client.get("/v1/model", headers=BEARER)
    facts = answer.json()
    assert facts["model_sha256"] == model.model_sha256 and set(facts["tasks"]) == set(model.tasks)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for answer in (client.get("/nothing"), client.put("/v1/code")):
        assert answer.status_code in (404, 405) and answer.headers["cache-control"] == "no-store"


def test_a_case_of_several_tumours_is_proposed_as_such(model):
    texts = ["lobular carcinoma of the right breast, upper outer quadrant", "prostate, adenocarcinoma, gleason 3+4=7"]
    sent = [Sent(str(number), text, case_id="1") for number, text in enumerate(texts)]
    tumours = Answerer(model).answer(sent, Asked(by_case=True, places=2))
    case = propose_case(tumours)
    assert [tumour.reports for tumour in case.tumours] == [[0], [1]] and set(case.places) == {0, 1}
    assert [one.codes for one in case.tumours] == [one.codes for one in tumours]
    assert case.note == "The reports seem to tell of 2 tumours." and case.uncertainty == 1
    assert propose_case(tumours[:1]).note is None
