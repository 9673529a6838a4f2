"""The service on a port: what its description promises, and what slow, idle and rude clients can do."""

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.request import urlopen

import pytest
import schemathesis
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from schemathesis import checks

from pathveil.agreement.certificates import make_certificate
from pathveil.errors import UsageError
from pathveil.serve.app import make_app
from pathveil.serve.desk import Desk
from pathveil.serve.server import check_place, make_server, serve_behind
from serve.conftest import BEARER, service_of

EXAMPLES = int(os.environ.get("PATHVEIL_API_EXAMPLES", "4"))  # an operation; more by hand
# Long enough for a head that lies there already to be read by a machine that does other things as well.
LIMITS = {"header_seconds": 2.5, "body_seconds": 0.6, "connections_an_address": 40, "requests_a_minute": 100_000}


@contextlib.contextmanager
def serving(model, store, **options):
    """The service on a port, as 'pathveil serve' sets it up."""
    service = service_of(model, **LIMITS, failures_a_minute=100_000)
    service.desk = Desk(store, service.settings, cheap_passwords=True)
    service.desk.accounts.add("anna", "correct horse battery", "coder", by="test")
    server, gate = make_server(make_app(service), service.settings, host="127.0.0.1", port=0, **options)
    thread = threading.Thread(target=lambda: asyncio.run(serve_behind(server, gate)), daemon=True)
    thread.start()
    while not (server.started and service.ready):
        time.sleep(0.05)
    yield gate.getsockname()[1]
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def port(model, tmp_path_factory):
    with serving(model, tmp_path_factory.mktemp("store")) as number:
        yield number


def log_in(connection, **headers):
    """The answer to a log-in, and the cookie it sets."""
    form = "name=anna&password=correct+horse+battery"
    connection.request("POST", "/login", form, {"content-type": "application/x-www-form-urlencoded"} | headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status, answer.headers["set-cookie"]


def closed_within(connection: socket.socket, seconds: float) -> bytes:
    """What comes until the other side ends the connection; fails where it does not."""
    connection.settimeout(seconds)
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def test_what_the_description_promises_holds_for_generated_requests(port):
    """schemathesis: right and wrong bodies, headers and parameters, answers held against the description."""
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
    tried: list[int] = []
    held = [checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance]
    held += [checks.response_schema_conformance]
    for operation in schema.get_all_operations():

        @given(case=operation.ok().as_strategy())
        @hypothesis_settings(max_examples=EXAMPLES, database=None)
        def probe(case):
            answer = case.call_and_validate(headers=BEARER, checks=held)
            tried.append(answer.status_code)

        probe()
    assert len(tried) > 10 and 200 in tried and 202 in tried


def test_idle_and_slow_connections_end(port):
    head = (
        f"POST /v1/code HTTP/1.1\r\nhost: x\r\nauthorization: {BEARER['authorization']}\r\ncontent-type: text/plain\r\n"
    )
    begun = ["", "GET /healthz HT", head, head + "content-length: 900\r\n\r\nabc"]
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in begun for _ in range(5)]
    for number, connection in enumerate(connections):
        connection.sendall(begun[number % len(begun)].encode())
    assert urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10).read() == b"ok\n"  # meanwhile others are answered
    answers = [closed_within(connection, 20) for connection in connections]
    assert sum(b"408" in answer for answer in answers) == 5  # a body that did not come is told so; heads are just cut


def test_a_thousand_connections_leave_honest_calls_answered(port):
    """All from one address, the honest caller's own: bare ones, half a head, and a whole one now and then."""
    url, held = f"http://127.0.0.1:{port}/healthz", []
    try:
        for number in range(1_000):
            held.append(socket.create_connection(("127.0.0.1", port)))
            if number % 10 == 0:
                held[-1].sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n")
            if number % 100 == 50:
                held[-1].sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            if number % 50 == 49:
                assert urlopen(url, timeout=20).read() == b"ok\n"
        assert urlopen(url, timeout=20).read() == b"ok\n"
    finally:
        for one in held:
            one.close()


def test_requests_over_tls_and_behind_a_proxy(port, model, tmp_path):
    key, certificate = make_certificate(tmp_path, "own", hosts=["localhost"])
    context = ssl.create_default_context(cafile=str(certificate))
    with serving(model, tmp_path / "a", certificate=certificate, key=key) as number:
        connection = HTTPSConnection("localhost", number, context=context, timeout=20)
        connection.request("POST", "/v1/code", b"carcinoma", BEARER | {"content-type": "text/plain"})
        answer = connection.getresponse()
        assert answer.status == 200 and b'"site"' in answer.read()
        assert connection.sock.version() in ("TLSv1.2", "TLSv1.3")
        status, cookie = log_in(connection)
        assert status == 303 and "Secure" in cookie
        plain = HTTPConnection("127.0.0.1", number, timeout=20)
        with pytest.raises((HTTPException, OSError)):  # nothing is answered in the clear
            plain.request("GET", "/healthz")
            plain.getresponse()
    said = {"x-forwarded-for": "10.1.2.3", "x-forwarded-proto": "https", "host": "coding.example.org"}
    with serving(model, tmp_path / "b", behind_proxy=True) as number:
        connection = HTTPConnection("127.0.0.1", number, timeout=20)
        assert "Secure" in log_in(connection, **said, origin="https://coding.example.org")[1]
        assert log_in(connection, **said, origin="https://elsewhere.example.org")[0] == 403
        assert "Secure" not in log_in(connection)[1]
    # Without the option nobody's word is taken.
    assert "Secure" not in log_in(HTTPConnection("127.0.0.1", port, timeout=20), **said)[1]


def test_reports_do_not_travel_in_the_clear(tmp_path):
    check_place("127.0.0.1", certificate=None, key=None, behind_proxy=False)
    check_place("0.0.0.0", certificate=None, key=None, behind_proxy=True)
    for host, files in (("0.0.0.0", (None, None)), ("registry.example", (None, None)), ("::1", (tmp_path, None))):
        with pytest.raises(UsageError):
            check_place(host, certificate=files[0], key=files[1], behind_proxy=False)
