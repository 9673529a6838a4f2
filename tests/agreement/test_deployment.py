"""A deployment as registries would run it: hub, two key holders and three sites as processes of their own, over HTTPS.

Between sites and servers stand recorders that end TLS and begin it anew, so what is searched for planted words is
everything that is said, not its encryption. Hub and one site are killed under way and started again.
"""

import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from agreement.traces import traces
from conftest import free_port
from pathveil.agreement.agreement import Agreement, write_tokens
from pathveil.agreement.client import trust_only
from pathveil.agreement.offer import Offer, make_offer
from pathveil.cli import main
from pathveil.vocabulary import Vocabulary

SITES = ("R1", "R2", "R3")
SERVERS = ("hub", "north", "south")
COMMON = "invasive ductal carcinoma of the left breast with zebrowskakova margins".split()  # a surname all sites have


class Recorder:
    """A proxy that writes down all that passes."""

    def __init__(self, upstream: int):
        self.upstream = upstream
        self.seen: list[bytes] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]

    def start(self, folder, name: str) -> None:
        """With the server's own certificate and key: sites would believe no other."""
        self.inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.inward.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        self.outward = trust_only(Offer.load(folder / f"{name}.offer.json"))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.pair, args=(connection,), daemon=True).start()

    def pair(self, connection):
        try:
            near = self.inward.wrap_socket(connection, server_side=True)
            far = self.outward.wrap_socket(
                socket.create_connection(("localhost", self.upstream)), server_hostname="localhost"
            )
        except OSError:
            connection.close()
            return
        # One thread for both directions: a TLS socket may not be read and written by two at once.
        other = {near: far, far: near}
        near.setblocking(False)
        far.setblocking(False)
        try:
            while True:
                ready = [one for one in other if one.pending()] or select.select([near, far], [], [])[0]
                for source in ready:
                    try:
                        data = source.recv(1 << 16)
                    except ssl.SSLWantReadError:
                        continue
                    if not data:
                        return
                    self.seen.append(data)
                    other[source].settimeout(300)
                    other[source].sendall(data)
                    other[source].setblocking(False)
        except OSError:
            return
        finally:
            near.close()
            far.close()


class Processes:
    """The command line, started, killed and waited for; their output goes to files."""

    def __init__(self, folder):
        self.folder = folder
        self.running: dict[str, subprocess.Popen] = {}
        self.logs: list = []

    def start(self, name: str, *arguments: object) -> None:
        log = self.folder / f"{name}-{len(self.logs)}.log"
        self.logs.append(log)
        command = [sys.executable, "-m", "pathveil", "vocab", "agree", *map(str, arguments)]
        environment = os.environ | {"PATHVEIL_CACHE": str(self.folder / f"{name}-cache")}
        with log.open("wb") as file:
            self.running[name] = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)

    def text(self, name: str) -> str:
        return "".join(log.read_text() for log in self.logs if log.name.startswith(f"{name}-"))

    def until(self, name: str, sentence: str) -> None:
        end = time.monotonic() + 600
        while sentence not in self.text(name):
            assert self.running[name].poll() is None and time.monotonic() < end, self.text(name)
            time.sleep(0.05)

    def until_served(self, name: str, port: int) -> None:
        """Until someone answers at the port: a site gives up on a server that is not there for a quarter minute."""
        while True:
            assert self.running[name].poll() is None, self.text(name)
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                time.sleep(0.05)

    def kill(self, name: str) -> None:
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()

    def finish(self, name: str) -> str:
        code = self.running[name].wait(timeout=900)
        assert code == 0, self.text(name)
        return self.text(name)


@pytest.fixture
def processes(tmp_path):
    made = Processes(tmp_path)
    yield made
    for process in made.running.values():
        if process.poll() is None:
            process.kill()
            process.wait()


def write_corpus(path, number: int) -> None:
    texts = [
        f"{' '.join(COMMON)} only{number}word mcplantedson{number} case{case}of{number}detail" for case in range(6)
    ]
    pl.DataFrame(
        {
            "report_id": [f"{number}-{case}" for case in range(6)],
            "case_id": [f"{number}-{case}" for case in range(6)],
            "registry": "X",
            "text": texts,
        }
    ).write_parquet(path)


def test_a_deployment_of_separate_processes(tmp_path, processes, pathveil):
    upstream: dict[str, int] = {}
    while len(set(upstream.values())) < 3:
        upstream = {name: free_port() for name in SERVERS}
    recorders = {name: Recorder(upstream[name]) for name in SERVERS}
    for name in SERVERS:
        made = ["--name", name, "--address", f"https://localhost:{recorders[name].port}", "--out", tmp_path / name]
        done = pathveil("vocab", "agree", "offer", *made)
        assert done.returncode == 0, done.stderr
        recorders[name].start(tmp_path / name, name)
    agreement = tmp_path / "agreement.json"
    options = ["--batch", 16, "--cap", 64, "--out", agreement]
    options += [part for site in SITES for part in ("--site", site)]
    offers = {name: tmp_path / name / f"{name}.offer.json" for name in SERVERS}
    options += ["--hub", offers["hub"], "--holder", offers["north"], "--holder", offers["south"]]
    done = pathveil("vocab", "agree", "propose", *options, "--json")
    assert done.returncode == 0, done.stderr
    sha256 = json.loads(done.stdout)["sha256"]
    assert pathveil("vocab", "agree", "signer", "--out", tmp_path / "officer").returncode == 0
    signing = ["sign", agreement, "--key", tmp_path / "officer.key", "--name", "officer", "--offer", offers["north"]]
    done = pathveil("vocab", "agree", *signing, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["sha256"] == sha256, done.stderr
    for name in SERVERS:
        done = pathveil("vocab", "agree", "tokens", agreement, "--server", name, "--out", tmp_path / f"{name}-tokens")
        assert done.returncode == 0, done.stderr
        for site in SITES:
            (tmp_path / f"{site}-tokens").mkdir(exist_ok=True)
            (tmp_path / f"{name}-tokens" / site / f"{name}.token").rename(tmp_path / f"{site}-tokens" / f"{name}.token")

    def serve(name):
        command = ["hub", agreement] if name == "hub" else ["keyholder", agreement, "--name", name]
        command += ["--tokens", tmp_path / f"{name}-tokens" / "tokens.json", "--state", tmp_path / name]
        command += ["--certificate", tmp_path / name / f"{name}.pem", "--key", tmp_path / name / f"{name}.key"]
        command += ["--signed-by", tmp_path / "officer.pub"]
        processes.start(name, *command, "--listen", "127.0.0.1", "--port", upstream[name], "--json")

    def serve_all(*names):
        for name in names:
            serve(name)
        for name in names:
            processes.until_served(name, upstream[name])

    def take_part(site):
        command = ["site", agreement, "--name", site, "--corpus", tmp_path / f"{site}.parquet"]
        command += ["--tokens", tmp_path / f"{site}-tokens", "--state", tmp_path / f"{site}-state"]
        command += ["--sha256", sha256]
        processes.start(site, *command, "--out", tmp_path / f"{site}.json", "--json")

    for number, site in enumerate(SITES):
        write_corpus(tmp_path / f"{site}.parquet", number)
    serve_all(*SERVERS)
    take_part("R1")
    processes.until("hub", "site R1: batch 0 of tags is here")
    processes.kill("hub")
    processes.kill("R1")
    serve_all("hub")
    take_part("R1")
    take_part("R2")
    take_part("R3")

    results = {site: json.loads(processes.finish(site)[processes.text(site).index("{") :]) for site in SITES}
    assert {result["agreed"] for result in results.values()} == {len(COMMON)}
    vocabularies = [Vocabulary.load(tmp_path / f"{site}.json") for site in SITES]
    assert {frozenset(vocabulary.words) for vocabulary in vocabularies} == {frozenset(COMMON)}
    assert len({vocabulary.words for vocabulary in vocabularies}) == 1  # k is all sites: one order, one sha256
    for name in SERVERS:
        assert '"missing": []' in processes.finish(name)
    assert not any((tmp_path / name / "key").exists() for name in SERVERS)
    assert all(list((tmp_path / f"{site}-state").iterdir()) == [] for site in SITES)

    planted = {*COMMON, "zebrowskakova"} | {f"only{n}word" for n in range(3)} | {f"mcplantedson{n}" for n in range(3)}
    planted |= {f"case{case}of{n}detail" for case in range(6) for n in range(3)}
    states = [path.read_bytes() for name in SERVERS for path in (tmp_path / name).iterdir()]
    wire = [data for recorder in recorders.values() for data in recorder.seen]
    assert any(b"POST /v1/" in data for data in wire) and sum(map(len, wire)) > 10_000
    assert traces(planted, [*wire, *states, *(log.read_bytes() for log in processes.logs)]) == []
    for recorder in recorders.values():
        recorder.listening.close()


@pytest.fixture
def agree(monkeypatch, capsys):
    """``pathveil vocab agree …`` in this process: its exit code, what it printed and what it complained of."""

    def call(*arguments) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pathveil", "vocab", "agree", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return call


def test_bad_usage_is_one_sentence(tmp_path, agree):
    def refused(*arguments) -> str:
        code, _, complaint = agree(*arguments)
        assert code == 2, complaint
        return complaint

    for name in ("hub", "a", "b"):
        make_offer(tmp_path / name, name, address=f"https://{name}.example")
    offers = {name: tmp_path / name / f"{name}.offer.json" for name in ("hub", "a", "b")}
    base = ["propose", "--site", "R1", "--site", "R2", "--site", "R3", "--hub", offers["hub"]]
    base += ["--holder", offers["a"], "--holder", offers["b"], "--out", tmp_path / "a.json"]
    assert "below 3" in refused(*base, "--k", 2)
    assert "same name" in refused(*base, "--holder", offers["a"])
    assert not (tmp_path / "a.json").exists()
    code, _, complaint = agree(*base, "--k", 2, "--allow-small-k")
    assert code == 0 and "warning: with k = 2" in complaint
    assert "servers are hub, a, b" in refused("tokens", tmp_path / "a.json", "--server", "c", "--out", tmp_path)
    assert "cannot be read" in refused("tokens", tmp_path / "none.json", "--server", "a", "--out", tmp_path)
    assert "not a vocabulary" in refused("publish", tmp_path / "a.json", "--out", tmp_path / "v.json")

    # The agreement is over by the clock: a key holder does not erase before it was asked.
    terms = Agreement.load(tmp_path / "a.json").model_copy(update={"expires": datetime.now(UTC) - timedelta(days=1)})
    terms.save(tmp_path / "a.json")
    write_tokens(terms, "a", tmp_path / "tokens")
    holder = ["keyholder", tmp_path / "a.json", "--name", "a", "--tokens", tmp_path / "tokens" / "tokens.json"]
    holder += ["--certificate", tmp_path / "a" / "a.pem", "--key", tmp_path / "a" / "a.key", "--state", tmp_path / "a"]
    assert "say how you know this agreement" in refused(*holder)
    assert "another one than you were told" in refused(*holder, "--sha256", "0" * 64)
    assert "nothing was erased" in refused(*holder, "--sha256", terms.sha256) and (tmp_path / "a" / "key").exists()
    code, printed, _ = agree(*holder, "--sha256", terms.sha256, "--erase-expired")
    assert code == 0 and "expired with 3 sites missing" in printed
    assert not (tmp_path / "a" / "key").exists()
    changed = json.loads(offers["a"].read_text()) | {"address": "https://elsewhere.example"}
    offers["a"].write_text(json.dumps(changed))
    assert agree("signer", "--out", tmp_path / "me")[0] == 0
    signing = ["sign", tmp_path / "a.json", "--key", tmp_path / "me.key", "--name", "me", "--offer", offers["a"]]
    assert "nothing was signed" in refused(*signing) and Agreement.load(tmp_path / "a.json").signatures == ()
