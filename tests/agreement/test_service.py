"""Key holders and hub over real TLS on loopback: the protocol's way through, every refusal, and what leaves a trace."""

import asyncio
import http.client
import json
import logging
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from agreement.parties import digest, key_holder, make_counts, plain_intersection, tag_set, terms
from agreement.traces import traces
from pathveil import gate
from pathveil.agreement import client, oprf, service
from pathveil.agreement.agreement import HUB, new_tokens
from pathveil.agreement.certificates import make_certificate
from pathveil.agreement.client import Server, already_done, read_tokens, take_part, trust_only
from pathveil.agreement.hub import TAG, Hub
from pathveil.agreement.keyholder import KeyHolder
from pathveil.agreement.offer import Offer, make_offer
from pathveil.agreement.service import hub_app, keyholder_app, make_agreement_server, serve
from pathveil.agreement.site import Site
from pathveil.errors import AgreementError, UsageError
from pathveil.gate import Gate
from pathveil.vocabulary import Vocabulary


class Deployment:
    """Hub and two key holders, each a TLS server in a thread, with everything said to and by them recorded."""

    def __init__(self, folder, *, sites=("R1", "R2", "R3"), **options):
        self.folder = folder
        self.wire: list[bytes] = []
        self.servers: dict = {}
        self.clients: list[Server] = []
        gates = {name: Gate(("127.0.0.1", 0)) for name in (HUB, "north", "south")}
        offers = {}
        for name, door in gates.items():
            make_offer(folder / name, name, address=f"https://localhost:{door.getsockname()[1]}")
            offers[name] = Offer.load(folder / name / f"{name}.offer.json")
        self.agreement = terms(sites, hub=offers[HUB], holders=[offers["north"], offers["south"]], **options)
        self.tokens = {site: {} for site in sites}
        self.roles = {name: KeyHolder(self.agreement, name, folder=folder / name) for name in ("north", "south")}
        self.roles[HUB] = Hub(self.agreement, folder=folder / HUB)
        for name, door in gates.items():
            tokens, digests = new_tokens(sites)
            for site in sites:
                self.tokens[site][name] = tokens[site]
            app = (hub_app if name == HUB else keyholder_app)(self.roles[name], digests)
            server = make_agreement_server(
                self.recorded(app),
                host="localhost",
                port=0,
                certificate=folder / name / f"{name}.pem",
                key=folder / name / f"{name}.key",
                pinned=self.agreement.server(name),
            )
            server.gate = door
            thread = threading.Thread(target=lambda s=server: asyncio.run(s.serve(sockets=[s.gate])))
            thread.start()
            self.servers[name] = (server, thread)
        while not all(server.started for server, _ in self.servers.values()):
            time.sleep(0.01)

    def place(self, name: str) -> tuple[str, int]:
        """Where a server listens."""
        return self.servers[name][0].gate.getsockname()

    def recorded(self, app):
        """Everything inside TLS, both ways: what someone with the servers' keys could read off the wire."""

        async def middle(scope, receive, send):
            if scope["type"] != "http":
                return await app(scope, receive, send)
            self.wire.append(repr((scope.get("path"), scope.get("query_string"), scope.get("headers"))).encode())

            async def hear():
                message = await receive()
                self.wire.append(message.get("body", b""))
                return message

            async def say(message):
                self.wire.append(message.get("body", b""))
                await send(message)

            await app(scope, hear, say)

        return middle

    def server(self, site: str, name: str, *, token: str | None = None) -> Server:
        token = self.tokens[site][name] if token is None else token
        self.clients.append(Server(self.agreement, name, token=token))
        return self.clients[-1]

    def take_part(self, site: str, counts, **options) -> Vocabulary:
        out = self.folder / f"{site}.json"
        made = Site(self.agreement, site, counts, folder=self.folder / site)
        return take_part(made, out=out, tokens=self.tokens[site], poll=0.05, **options)

    def stop(self):
        for one in self.clients:
            one.close()
        for server, thread in self.servers.values():
            server.should_exit = True
            thread.join()
        for server, _ in self.servers.values():
            server.gate.close()
        for role in self.roles.values():
            role.store.close()


@pytest.fixture
def deployment(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "PATIENCE", (0.01, 0.02))
    made = []

    def make(**options):
        made.append(Deployment(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def in_threads(calls) -> list:
    results: list = [None] * len(calls)

    def run(number, call):
        try:
            results[number] = call()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def refused(server: Server, method: str, path: str, body: bytes = b"") -> AgreementError:
    with pytest.raises(AgreementError) as error:
        server.call(method, path, body)
    return error.value


def test_the_way_through_and_that_nothing_leaks(deployment, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    counts = make_counts(3, 30, 5)
    for number, site in enumerate(counts.values()):
        site["zebrowskakova"] = 40  # a surname that every site has in many cases: passes, and still is shown to nobody
        site[f"mcplantedson{number}"] = 30  # one that a single site has
        site["once"] = 1
    parts = deployment(min_cases=3)
    found = in_threads([lambda s=site: parts.take_part(s, counts[s]) for site in counts])
    expected = plain_intersection(counts, threshold=3, min_cases=3)
    assert [set(vocabulary.words) for vocabulary in found] == [expected] * 3
    assert "zebrowskakova" in expected
    assert parts.roles["north"].finished and parts.roles["south"].finished and parts.roles[HUB].finished
    assert Vocabulary.load(tmp_path / "R2.json") == found[1]
    assert [list((tmp_path / site).iterdir()) for site in counts] == [[], [], []]  # blinds and order are gone
    kept = [path for name in (HUB, "north", "south") for path in (tmp_path / name).iterdir()]
    log = caplog.text.encode()
    assert b"batch 0 answered" in log and b"the key is erased" in log and b"tags are erased" in log
    words = {word for site in counts.values() for word in site}
    assert traces(words, [*parts.wire, log, *(path.read_bytes() for path in kept)]) == []
    assert sum(map(len, parts.wire)) > 10_000
    assert not (tmp_path / "north" / "key").exists()
    for token in (token for tokens in parts.tokens.values() for token in tokens.values()):
        assert token.encode() not in log
        assert not any(token.encode() in path.read_bytes() for path in kept)


def test_a_wrong_token(deployment, caplog):
    parts = deployment()
    for wrong in ("", "wrong", parts.tokens["R1"][HUB]):  # another server's token is none here
        error = refused(
            parts.server("R1", "north", token=wrong),
            "POST",
            "points/0",
            b"".join(oprf.random_point() for _ in range(8)),
        )
        assert error.status == 401 and "the token is not one of this server's" in str(error)
    assert refused(parts.server("R1", HUB, token="x"), "GET", "result").status == 401
    assert "refused (401)" in caplog.text and "wrong" not in caplog.text


def test_another_agreement(deployment):
    parts = deployment()
    other = parts.agreement.model_copy(update={"min_cases": 1})
    server = Server(other, "north", token=parts.tokens["R1"]["north"])
    assert "another agreement" in str(refused(server, "POST", "done"))


def test_bad_points_and_replays(deployment):
    parts = deployment()
    north = parts.server("R1", "north")
    batch = b"".join(oprf.random_point() for _ in range(8))
    topped = batch[-32:-1] + bytes([batch[-1] | 0x80])
    for bad in (bytes(32), b"\xff" * 32, bytes(31) + b"\x80", topped):  # identity, no point, each with its highest bit
        assert refused(north, "POST", "points/0", batch[:-32] + bad).status == 422
    status, answer = north.call("POST", "points/0", batch)
    assert status == 200 and len(answer) == oprf.PROOF + len(batch)
    assert "repeats a batch" in str(refused(north, "POST", "points/1", batch))
    assert "repeats a batch" in str(refused(parts.server("R2", "north"), "POST", "points/0", batch))
    assert refused(north, "POST", "points/99", batch).status == 429
    assert refused(north, "POST", "points/0", batch[:-1]).status == 400
    assert refused(north, "POST", "points/-1", batch).status == 404
    for wrong in ("one", "9" * 5_000, "1.5", "-0", "٣"):
        assert refused(north, "POST", f"points/{quote(wrong)}", batch).status == 404
    assert refused(north, "GET", "points/0").status == 405


def test_oversized_bodies_are_not_taken_in(deployment):
    parts = deployment()
    port = parts.place("north")[1]
    trust = trust_only(parts.agreement.server("north"))
    head = {"authorization": f"Bearer {parts.tokens['R1']['north']}"}
    path = f"/v1/{parts.agreement.sha256}/points/0"

    def chunks():
        for _ in range(1_000):
            yield bytes(1_000)

    for body, chunked in ((bytes(10_000_000), False), (chunks(), True)):
        connection = http.client.HTTPSConnection("localhost", port, context=trust, timeout=300)
        try:
            connection.request("POST", path, body=body, headers=head, encode_chunked=chunked)
        except OSError:
            pass  # the server has answered and closed before all was sent
        response = connection.getresponse()
        assert response.status == 413 and b"too large" in response.read()
    assert refused(parts.server("R1", HUB), "POST", "set", b"{" + b" " * 10_000).status == 413
    assert refused(parts.server("R1", "north"), "POST", "points/0", bytes(9 * 32)).status == 413


def test_a_set_is_announced_properly(deployment):
    hub = deployment().server("R1", HUB)
    right = {"commitment": "0" * 64, "batches": 1}
    for wrong in (b"", b"[]", b"{}", b"\xff", b"[" * 4_000, *(json.dumps(right | change).encode() for change in (
        {"commitment": "x"}, {"commitment": 5}, {"batches": "1"}, {"keys": {}},
   ))):  # fmt: skip
        assert refused(hub, "POST", "set", wrong).status == 400
    assert json.loads(hub.call("POST", "set", json.dumps(right).encode())[1]) == {"missing": [0]}


def test_a_changed_set_at_the_hub(deployment):
    parts = deployment()
    hub = parts.server("R1", HUB)
    tags = tag_set({1, 2}, 8)
    right = {"commitment": digest(tags), "batches": 1}
    hub.call("POST", "set", json.dumps(right).encode())
    hub.call("POST", "tags/0", tags)
    hub.call("POST", "tags/0", tags)
    assert "cannot change" in str(refused(hub, "POST", "tags/0", tag_set({1, 3}, 8)))
    assert "another set" in str(refused(hub, "POST", "set", json.dumps(right | {"commitment": "1" * 64}).encode()))
    assert refused(hub, "POST", "tags/0", bytes(9 * TAG)).status == 413
    assert hub.call("GET", "result")[0] == 202


def test_a_key_holder_that_answers_wrongly_stops_the_site(deployment, monkeypatch):
    parts = deployment()
    other = oprf.random_scalar()
    monkeypatch.setattr(
        parts.roles["south"], "answer",
        lambda site, number, sent: bytes(64) + b"".join(
            oprf.multiply(other, sent[at : at + 32]) for at in range(0, len(sent), 32)
        ),
    )  # fmt: skip
    with pytest.raises(AgreementError, match="key holder south answered batch 0 wrongly"):
        parts.take_part("R1", {"left": 9})
    assert parts.roles[HUB].waiting_for == ["R1", "R2", "R3"]
    assert not (parts.folder / "R1.json").exists()


def test_an_interrupted_site_is_started_again(deployment, monkeypatch):
    counts = make_counts(3, 60, 8)
    parts = deployment()
    calls = []
    finish = Site.finish

    def killed(self, number, points):
        calls.append(number)
        if len(calls) == 2:
            raise KeyboardInterrupt
        finish(self, number, points)

    monkeypatch.setattr(Site, "finish", killed)
    site = Site(parts.agreement, "R1", counts["R1"], folder=parts.folder / "R1")
    with pytest.raises(KeyboardInterrupt):
        take_part(site, out=parts.folder / "R1.json", tokens=parts.tokens["R1"], workers=1)
    site.store.close()
    monkeypatch.setattr(Site, "finish", finish)
    found = in_threads([lambda s=site: parts.take_part(s, counts[s]) for site in counts])
    expected = plain_intersection(counts, threshold=3, min_cases=5)
    assert [set(vocabulary.words) for vocabulary in found] == [expected] * 3
    assert parts.roles["north"].store.rows("SELECT SUM(times) > COUNT(*) FROM answered WHERE site = 'R1'") == [(1,)]


def test_a_site_killed_after_writing_its_vocabulary_only_clears_up(deployment):
    parts = deployment()
    folder, out = parts.folder / "R1", parts.folder / "R1.json"
    Site(parts.agreement, "R1", {"left": 9}, folder=folder).store.close()
    rest = {"folder": folder, "tokens": parts.tokens["R1"]}
    assert already_done(parts.agreement, "R1", out=out, **rest) is None
    source = {"agreement": parts.agreement.id, "site": "R1"}
    Vocabulary(words=("left",), method="agreed", source=source).save(out)
    (folder / "state.sqlite").write_bytes(b"")  # killed while it was erased
    with pytest.raises(UsageError, match="not of this agreement"):
        already_done(parts.agreement, "R2", out=out, **rest)
    with pytest.raises(AgreementError, match="cannot have received"):  # the hub knows better
        already_done(parts.agreement, "R1", out=out, **rest)
    parts.roles[HUB].store.database.execute("INSERT INTO passed VALUES (x'')")
    found = already_done(parts.agreement, "R1", out=out, **rest)
    assert found is not None and found.words == ("left",) and list(folder.iterdir()) == []


def test_the_first_site_cannot_have_a_key_holder_blamed(deployment):
    """It used to name the keys it claimed to have seen; sites after it, who had seen the true ones, were refused."""
    parts = deployment()
    counts = make_counts(3, 30, 5)
    lying = {"commitment": "0" * 64, "batches": 1, "keys": {"north": "a" * 64, "south": "b" * 64}}
    error = refused(parts.server("R1", HUB), "POST", "set", json.dumps(lying).encode())
    assert error.status == 400 and "by nothing else" in str(error)
    found = in_threads([lambda s=site: parts.take_part(s, counts[s]) for site in counts])
    assert [set(one.words) for one in found] == [plain_intersection(counts, threshold=3, min_cases=5)] * 3


def test_a_server_is_known_by_its_own_certificate_alone(deployment, monkeypatch):
    """Who runs the hub redirects what is meant for north to a server with the hub's certificate, which is good for the
    same host and pinned in the same agreement; or has an authority's certificate that signed another."""
    parts = deployment()
    away = parts.agreement.holders["north"].model_copy(update={"address": parts.agreement.hub.address})
    redirected = parts.agreement.model_copy(update={"holders": {**parts.agreement.holders, "north": away}})
    server = Server(redirected, "north", token="secret-token")
    error = refused(server, "POST", "done")
    assert "north at" in str(error) and "is not trusted" in str(error) and "secret-token" not in str(error)
    assert parts.wire == []  # the token never left
    both = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # as if the pinned certificate had signed the hub's
    both.load_verify_locations(cadata=parts.agreement.hub.certificate)
    monkeypatch.setattr(client, "trust_only", lambda _: both)
    error = refused(Server(redirected, "north", token="secret-token"), "POST", "done")
    assert "another certificate than the agreement pins" in str(error) and parts.wire == []


@pytest.mark.parametrize(
    ("hosts", "now", "reason"),
    [
        (["localhost"], datetime.now(UTC) - timedelta(days=200), "expired"),
        (["elsewhere.example"], None, "mismatch"),
    ],
)
def test_an_expired_or_misplaced_certificate(tmp_path, hosts, now, reason):
    make_certificate(tmp_path, "north", hosts=hosts, now=now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "north.pem", tmp_path / "north.key")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept():
            with pytest.raises(OSError):
                context.wrap_socket(listening.accept()[0], server_side=True)

        thread = threading.Thread(target=accept)
        thread.start()
        agreement = terms()
        bad = {"address": f"https://localhost:{listening.getsockname()[1]}"}
        bad["certificate"] = (tmp_path / "north.pem").read_text()
        pinned = agreement.holders["north"].model_copy(update=bad)
        agreement = agreement.model_copy(update={"holders": {**agreement.holders, "north": pinned}})
        error = refused(Server(agreement, "north", token="t"), "POST", "done")
        thread.join()
    assert "is not trusted" in str(error) and reason in str(error).lower()


def test_a_thousand_connections_without_a_token_leave_sites_served(deployment):
    """All from the sites' own address: bare ones, idle ones inside TLS, and ones that send half a header."""
    parts = deployment()
    counts = make_counts(3, 30, 5)
    held = []
    try:
        for number in range(1_000):
            name = (HUB, "north", "south")[number % 3]
            one = socket.create_connection(parts.place(name))
            held.append(one)
            if number % 20 == 0:
                held[-1] = trust_only(parts.agreement.server(name)).wrap_socket(one, server_hostname="localhost")
            if number % 40 == 0:
                held[-1].sendall(b"POST /v1/x/points/0 HTTP/1.1\r\nhost: x\r\nauthorization: Bea")
        found = in_threads([lambda s=site: parts.take_part(s, counts[s]) for site in counts])
        assert [set(one.words) for one in found] == [plain_intersection(counts, threshold=3, min_cases=5)] * 3
        assert all(server.gate.unknown <= gate.AN_ADDRESS for server, _ in parts.servers.values())
    finally:
        for one in held:
            one.close()


def test_whoever_shows_no_token_in_time_is_closed(deployment, monkeypatch):
    parts = deployment()
    monkeypatch.setattr(gate, "SHOW", 0.3)
    monkeypatch.setattr(service, "BODY", 0.3)
    bare = socket.create_connection(parts.place("north"))
    slow = trust_only(parts.agreement.server("north")).wrap_socket(
        socket.create_connection(parts.place("north")), server_hostname="localhost"
    )
    slow.sendall(b"POST /v1/x")
    for one in (bare, slow):
        one.settimeout(20)
        with one:
            assert one.recv(1) == b""  # the server has closed it
    known = trust_only(parts.agreement.server("north")).wrap_socket(
        socket.create_connection(parts.place("north")), server_hostname="localhost"
    )
    head = f"POST /v1/{parts.agreement.sha256}/points/0 HTTP/1.1\r\nhost: x\r\ncontent-length: 256\r\n"
    known.sendall(f"{head}authorization: Bearer {parts.tokens['R1']['north']}\r\n\r\n".encode() + b"half a body")
    with known:
        known.settimeout(20)
        assert b" 408 " in known.recv(1_000)


def test_files_a_server_cannot_use(tmp_path):
    make_certificate(tmp_path, "a", hosts=["localhost"])
    make_certificate(tmp_path, "b", hosts=["localhost"])
    app = keyholder_app(key_holder(terms()), {})
    with pytest.raises(UsageError, match="no such file"):
        make_agreement_server(app, host="localhost", port=0, certificate=tmp_path / "none", key=tmp_path / "a.key")
    with pytest.raises(UsageError, match="not a certificate and its key"):
        make_agreement_server(app, host="localhost", port=0, certificate=tmp_path / "a.pem", key=tmp_path / "b.key")
    with pytest.raises(UsageError, match="is already there"):
        make_certificate(tmp_path, "a", hosts=["localhost"])
    with pytest.raises(UsageError, match="at least one host"):
        make_certificate(tmp_path, "c", hosts=[])
    with pytest.raises(UsageError, match="not the certificate that the agreement has"):
        make_agreement_server(
            app, host="localhost", port=0, certificate=tmp_path / "a.pem", key=tmp_path / "a.key", pinned=terms().hub
        )
    for content in (None, "", "two words and more than twenty letters", "ünicode-token-of-twenty-letters"):
        if content is not None:
            (tmp_path / "hub.token").write_text(content)
        with pytest.raises(UsageError, match=r"hub\.token: no token there"):
            read_tokens(tmp_path, terms())
    assert (tmp_path / "a.key").stat().st_mode & 0o077 == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = make_agreement_server(
            app, host="127.0.0.1", port=taken.getsockname()[1], certificate=tmp_path / "a.pem", key=tmp_path / "a.key"
        )
        with pytest.raises(UsageError, match="cannot listen"):
            serve(server, finished=lambda: False)


def test_a_defect_shows_nothing_of_the_request(deployment, caplog, monkeypatch):
    parts = deployment()

    def broken(site, number, sent):
        raise RuntimeError(f"zebrowskakova {sent!r}")

    monkeypatch.setattr(parts.roles["north"], "answer", broken)
    with pytest.raises(AgreementError, match="cannot be reached \\(status 500\\)"):
        parts.server("R1", "north").call("POST", "points/0", bytes(8 * 32))
    assert "RuntimeError" in caplog.text and "zebrowskakova" not in caplog.text
