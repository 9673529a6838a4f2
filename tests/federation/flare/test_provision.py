"""Kits: names are checked, a site can be added, and a site's policy lets nothing in but our own class."""

import json
import socket
import stat
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

from pathveil.errors import FederationError, UsageError
from pathveil.federation.flare import processes
from pathveil.federation.flare.provision import provision
from pathveil.federation.flare.submit import wait_for_sites
from pathveil.vocabulary.words import Vocabulary

GIVEN = {"sites": ["north", "south"], "hub": "hub.example.org:8443", "admin": "lead@example.org"}


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    return provision(**GIVEN, out=tmp_path_factory.mktemp("kits")).kits


def test_kits_have_what_each_needs_and_not_more(tmp_path):
    kits = provision(**GIVEN, out=tmp_path).kits
    assert set(kits) == {"hub", "north", "south", "lead@example.org"}
    for name, kit in kits.items():
        files = {str(path.relative_to(kit)) for path in kit.rglob("*") if path.is_file()}
        own = "server" if name == "hub" else "client"
        assert {"README.md", f"startup/{own}.key", f"startup/{own}.crt", "startup/rootCA.pem"} <= files
        assert not any(file.endswith((".sh", ".default", ".sample", ".ipynb")) for file in files)
        assert stat.S_IMODE(kit.stat().st_mode) == 0o700
        assert stat.S_IMODE((kit / "startup" / f"{own}.key").stat().st_mode) == 0o600
        assert "hub.example.org, port 8443" in (kit / "README.md").read_text()
    keys = {(kit / "startup").glob("*.key").__next__().read_text() for kit in kits.values()}
    assert len(keys) == 4
    elsewhere = [path for path in (tmp_path / "authority").rglob("*.key")]
    assert not elsewhere and stat.S_IMODE((tmp_path / "authority").stat().st_mode) == 0o700


def test_a_site_takes_no_code_no_shell_and_keeps_its_logs(tmp_path):
    local = provision(**GIVEN, out=tmp_path).kits["north"] / "local"
    resources = json.loads((local / "resources.json").read_text())
    assert resources["class_allow_list"] == ["pathveil.federation.flare.executor.SiteExecutor"]
    assert resources["class_list_enforcement_mode"] == "enforce" and resources["allow_log_streaming"] is False
    rights = json.loads((local / "authorization.json").read_text())["permissions"]
    assert set(rights) == {"project_admin"}
    assert all(rights["project_admin"][right] == "none" for right in ("byoc", "shell_commands", "operate"))


def test_a_site_is_added_and_keys_handed_over_stay(tmp_path):
    before = (provision(**GIVEN, out=tmp_path).kits["north"] / "startup" / "client.key").read_text()
    kits = provision(**GIVEN | {"sites": ["north", "south", "west"]}, out=tmp_path).kits
    assert (kits["north"] / "startup" / "client.key").read_text() == before
    roots = {(kit / "startup" / "rootCA.pem").read_text() for kit in kits.values()}
    assert "west" in kits and len(roots) == 1


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("hub", ["other.example.org:8443", "hub.example.org:8002", "hub.example.org"])
def test_kits_of_one_hub_are_not_mixed_with_another(tmp_path, hub):
    provision(**GIVEN, out=tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(UsageError, match=r"are for the hub at hub\.example\.org:8443, not "):
        provision(**GIVEN | {"hub": hub, "sites": ["north", "south", "west"]}, out=tmp_path)
    assert files_of(tmp_path) == before
    (tmp_path / "project.yml").write_text("participants: 3")
    with pytest.raises(UsageError, match="is not as 'federate provision' left it"):
        provision(**GIVEN, out=tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sites": ["north"]}, "at least 2 sites"),
        ({"sites": ["north", "North"]}, "given twice"),
        ({"sites": ["north", "so uth"]}, "is not a name"),
        ({"sites": ["north", "../x"]}, "is not a name"),
        ({"sites": ["north", "hub"]}, "choose another name"),
        ({"hub": "hub_example"}, "is not a host name"),
        ({"hub": "hub.example.org:99999"}, "is not a port"),
        ({"admin": "lead"}, "is not a mail address"),
    ],
)
def test_bad_names_are_one_sentence_and_nothing_is_written(change, sentence, tmp_path):
    with pytest.raises(UsageError, match=sentence):
        provision(**GIVEN | change, out=tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


def test_a_kit_of_another_kind_is_refused(inside, tmp_path, kits):
    for command in (["hub", kits["north"]], ["site", kits["hub"], "--corpus", "x", "--vocab", "y"]):
        ended = inside("federate", *command)
        assert ended.returncode == 2 and "is not the kit of a" in ended.stderr
        assert "until ctrl-C" not in ended.stderr
    ended = inside("federate", "site", kits["north"], "--corpus", tmp_path / "no.parquet", "--vocab", "y")
    assert ended.returncode == 2 and "is not there" in ended.stderr and "until ctrl-C" not in ended.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--registry", "R9"], "--registry: the corpus has no registry 'R9'; it has A, B"),
        (["--device", "cuda"], "this machine has no GPU"),
        (["--device", "tpu"], "--device: 'tpu' is not one of auto, cpu, cuda"),
        (["--vocab", "classes.json"], "classes.json"),
        (["--corpus", "words.json"], "words.json"),
    ],
)
def test_a_site_says_what_is_wrong_before_it_waits_for_the_hub(inside, tmp_path, monkeypatch, kits, options, sentence):
    monkeypatch.chdir(tmp_path)
    rows = "report_id,case_id,registry,text\n1,1,A,words\n2,2,B,words\n"
    (tmp_path / "reports.csv").write_text(rows)
    Vocabulary(("a", "b", "c"), "by hand").save(tmp_path / "words.json")
    (tmp_path / "classes.json").write_text('{"site": ["C50", "C18"]}')
    own = {"--corpus": "reports.csv", "--vocab": "words.json"} | dict([options])
    call = ["federate", "site", kits["north"], *(part for option in own.items() for part in option)]
    if sentence.startswith("this machine has no GPU") and torch.cuda.is_available():
        sentence, call[-2:] = "--device: 'tpu' is not one of auto, cpu, cuda", ["--device", "tpu"]
    ended = inside(*call)
    assert ended.returncode == 2 and sentence in ended.stderr and "until ctrl-C" not in ended.stderr


def test_what_is_wrong_is_said_before_a_training(inside, tmp_path, kits):
    (tmp_path / "file").write_text("not a folder")
    Vocabulary(("a", "b", "c"), "by hand").save(tmp_path / "words.json")
    (tmp_path / "classes.json").write_text('{"site": ["C50", "C18"]}')
    agreed = ["--vocab", tmp_path / "words.json", "--classes", tmp_path / "classes.json", "--wait", 1]
    call = ["federate", "submit", kits["lead@example.org"], "--site", "north", "--site", "south", *agreed]
    ended = inside(*call, "--out", tmp_path / "file" / "run")
    assert ended.returncode == 2 and "file/run: cannot be written to" in ended.stderr
    ended = inside(*call, "--out", tmp_path / "run", "--mode", "strng")
    assert ended.returncode == 2 and "did you mean 'strong'?" in ended.stderr
    ended = inside(*call, "--out", tmp_path)
    assert ended.returncode == 2 and "is no run to go on with; choose a new folder" in ended.stderr
    ended = inside(*call, "--out", tmp_path / "run", "--seed", -1)
    assert ended.returncode == 2 and "--seed" in ended.stderr
    ended = inside(*call, "--out", tmp_path / "run", "--mode", "fedavg", "--local-steps", 3)
    assert ended.returncode == 2 and "--local-steps: fedavg exchanges once an epoch" in ended.stderr
    ended = inside(*call, "--out", tmp_path / "run", "--classes", tmp_path / "words.json")
    assert ended.returncode == 2 and "words.json: does not list labels by task" in ended.stderr
    assert not (tmp_path / "run").exists()


def test_a_hub_that_does_not_answer_is_said_once_and_given_up(tmp_path):
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        hub = f"localhost:{taken.getsockname()[1]}"
        kit = provision(**GIVEN | {"hub": hub}, out=tmp_path / "kits").kits["lead@example.org"]
        Vocabulary(("a", "b", "c"), "by hand").save(tmp_path / "words.json")
        (tmp_path / "classes.json").write_text('{"site": ["C50", "C18"]}')
        agreed = ["--vocab", tmp_path / "words.json", "--classes", tmp_path / "classes.json", "--wait", 1]
        sites = ["--site", "north", "--site", "south"]
        # In a process of its own, for FLARE goes on trying in the background; the first try is of half a second.
        quick = "from pathveil.federation.flare import submit; submit.FIRST_TRY = 0.5"
        call = f"{quick}; from pathveil.cli import main; main()"
        given = map(str, ["federate", "submit", kit, *sites, *agreed, "--out", tmp_path / "run"])
        ended = subprocess.run([sys.executable, "-c", call, *given], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 2
    warned, waiting, gave_up = ended.stderr.splitlines()
    assert "with two sites masks hide nothing from the other" in warned
    assert waiting == f"waiting for the hub at {hub}"
    assert gave_up.startswith(f"pathveil: the hub could not be reached at {hub} for 1 seconds")


def test_a_hub_whose_port_is_taken_says_so_and_ends(inside, tmp_path, monkeypatch):
    """Its server would share the port with whoever listens there, and each would get some of the connections."""
    monkeypatch.setattr(processes, "LETTING_GO", 0.6)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as FLARE's does
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        kit = provision(**GIVEN | {"hub": f"localhost:{port}"}, out=tmp_path / "kits").kits["hub"]
        ended = inside("federate", "hub", kit)
    assert ended.returncode == 2 and f"port {port} is taken; is this hub running already" in ended.stderr
    assert "until ctrl-C" not in ended.stderr


def test_what_waits_for_work_loads_no_networks():
    """A hub, a site and who submits are there for weeks, beside the processes that train."""
    look = "import sys; from pathveil.federation.flare import processes, submit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look]).returncode == 0


def test_who_is_connected_is_told_where_a_site_is_waited_for():
    class Session:
        def get_system_info(self):
            return SimpleNamespace(client_info=[SimpleNamespace(name="south"), SimpleNamespace(name="north")])

    said: list[str] = []
    with pytest.raises(FederationError, match="sooth: not connected"):
        wait_for_sites(Session(), ("north", "sooth"), wait=0.01, note=said.append)
    assert said == ["waiting for sooth to connect (connected: north, south)"]


def test_a_corpus_without_labels_has_no_classes_to_list(inside, tmp_path):
    rows = "report_id,case_id,registry,text\n1,1,A,words\n"
    (tmp_path / "reports.csv").write_text(rows)
    ended = inside("federate", "classes", tmp_path / "reports.csv", "--out", tmp_path / "classes.json")
    assert ended.returncode == 2 and "no task column" in ended.stderr and not (tmp_path / "classes.json").exists()
