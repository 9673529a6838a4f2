"""How things stand, from kits and folders; and the units and the container call what there is."""

import json
import shlex
import socket
from pathlib import Path

import pytest
import torch
import typer

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

from typer.testing import CliRunner

from pathveil.cli import app
from pathveil.errors import UsageError
from pathveil.federation.flare import status as module
from pathveil.federation.flare.provision import provision
from pathveil.federation.flare.status import RunState, Status, status
from pathveil.training import checkpoint

DEPLOY = Path(__file__).parents[3] / "deploy"


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    with socket.socket() as taken:  # a port that nobody listens on
        taken.bind(("127.0.0.1", 0))
        hub = f"localhost:{taken.getsockname()[1]}"
    return provision(sites=["north", "south"], hub=hub, admin="lead@example.org", out=tmp_path_factory.mktemp("k")).kits


def test_a_sites_folder_tells_its_runs(kits):
    run = kits["north"] / "runs" / "ab12"
    run.mkdir(parents=True)
    for number in (7, 12):
        (run / f"state-{number}.safetensors").write_bytes(b"")
    (run / "updates.json").write_text(json.dumps({"updates": 15}))
    found = status(kits["north"])
    assert (found.kind, found.name, found.reachable) == ("site", "north", False) and found.certificate_days > 300
    assert found.runs == [RunState(run="ab12", saved=12, updates=15)]
    assert "run ab12: saved at round 12" in str(found) and "its port does not answer" in str(found)
    (run / "model").mkdir()
    (run / "model" / "scores.json").write_text("{}")
    (run / "model" / "plan.json").write_text('{"mode": "strong"}')
    (run / "updates.json").write_text("half of")  # is being written
    assert status(kits["north"]).runs[0].in_a_line() == "ab12 (strong): finished"


def test_the_hubs_folder_tells_its_runs_and_whether_it_listens(kits):
    run = kits["hub"] / "runs" / "cd34"
    run.mkdir(parents=True)
    tensors = {"w": torch.zeros(1)}
    checkpoint.save(run / "hub.safetensors", tensors, fingerprint="cd34", content={"round": 9})
    found = status(kits["hub"])
    assert found.name == "hub" and found.runs == [RunState(run="cd34", saved=9)] and not found.reachable
    host, _, port = found.hub.rpartition(":")
    with socket.create_server(("127.0.0.1", int(port))):
        assert status(kits["hub"]).reachable
        ended = CliRunner().invoke(app, ["federate", "status", str(kits["hub"]), "--metrics"])
        assert ended.exit_code == 0 and 'pathveil_hub_reachable{kind="hub",name="hub"} 1' in ended.output
    assert host == "localhost"


def test_an_administrator_is_told_of_all_sites(kits, monkeypatch):
    running = [RunState(run="ef56", round=3, rounds=20, refused=1)]
    monkeypatch.setattr(module, "answers", lambda host, port: True)
    monkeypatch.setattr(module, "asked", lambda kit, wait: {"sites": {"north": 2.5}, "runs": running})
    found = status(kits["lead@example.org"])
    assert "connected: north (2 s ago)" in str(found) and "run ef56: round 3 of 20, 1 refusal" in str(found)
    told = found.metrics()
    assert 'pathveil_site_heard_seconds{kind="administrator",name="lead@example.org",site="north"} 2.5' in told
    assert 'pathveil_run_refused_total{kind="administrator",name="lead@example.org",run="ef56"} 1' in told


def test_a_hub_that_is_not_there_or_a_certificate_that_ended_is_exit_code_3(kits):
    ended = CliRunner().invoke(app, ["federate", "status", str(kits["south"]), "--json"])
    assert ended.exit_code == 3 and json.loads(ended.stdout)["reachable"] is False
    over = Status(kit="k", kind="site", name="n", hub="h:1", certificate_days=-2)
    assert "certificate: has ended" in str(over) and "no run yet" in str(over)


def test_labels_of_metrics_cannot_break_out_of_their_quotes():
    odd = Status(kit="k", kind="site", name='a"b\\c\n', hub="h:1", certificate_days=1)
    assert 'name="a\\"b\\\\c\\n"' in odd.metrics()


def test_a_folder_that_is_no_kit_gets_a_sentence(kits, tmp_path):
    with pytest.raises(UsageError, match="is not a kit"):
        status(tmp_path)
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "fed_client.json").write_text("[]")
    with pytest.raises(UsageError, match="is not as it was made"):
        status(tmp_path)


def calls() -> list[list[str]]:
    """The commands of the units and of the container's examples, from 'federate' on."""
    found = []
    for path in DEPLOY.glob("*.service"):
        (line,) = [line for line in path.read_text().splitlines() if line.startswith("ExecStart=")]
        words = shlex.split(line.removeprefix("ExecStart=").replace(";", " ; ").replace("'", " "))
        found.append(words[words.index("federate") + 1 :])
    container = (DEPLOY / "Containerfile").read_text().replace("\\\n#", "")
    lines = [line for line in container.splitlines() if line.startswith("#   podman run")]
    found += [shlex.split(line)[shlex.split(line).index("pathveil") + 1 :] for line in lines]
    return found


def test_units_and_container_call_commands_and_options_that_there_are():
    known = typer.main.get_command(app).commands["federate"].commands
    assert len(calls()) == 5
    for name, *words in calls():
        options = {option for parameter in known[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, name
