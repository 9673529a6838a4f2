"""What goes wrong in a federation, over the real wire: lies, losses and strangers.

One deployment serves all tests here: a hub and three sites, separate processes, real certificates. A site that tampers
with what it sends is refused and named; killed processes, a second process of a site, other words and foreign, expired
or revoked certificates are met; a hub that asks for other work than was agreed on gets no answer.
"""

import json
import re
import subprocess
import time

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

from safetensors.numpy import load_file

from federation.flare import rogue, wire_search
from federation.flare.deployment import (
    ALL,
    EXACT,
    FLOATS,
    OF_TWO,
    ROGUE,
    SITES,
    SMALL,
    STRONG,
    assert_embedded,
    expired,
    frames,
    greeted,
    messages,
    plan_of,
    reports_of,
    secrets_of_run,
)
from pathveil.federation.flare.duplicate_guard import ALIVE
from pathveil.federation.flare.provision import provision, revoke
from pathveil.federation.flare.revocation import take_list
from pathveil.federation.protocol.message import read
from pathveil.vocabulary.words import Vocabulary

pytestmark = pytest.mark.usefixtures("one_thread")


def test_only_a_valid_certificate_of_this_federation_is_spoken_with(deployment, tmp_path):
    own, port = deployment.kit("north") / "startup", deployment.port
    root = own / "rootCA.pem"
    assert greeted(port, root, own / "client.crt", own / "client.key")
    assert not greeted(port, root, None, None)
    made = provision(sites=list(SITES), hub=f"localhost:{port}", admin="lead@example.org", out=tmp_path / "other")
    other = made.kits
    foreign = other["north"] / "startup"
    assert not greeted(port, root, foreign / "client.crt", foreign / "client.key")
    certificate, key = expired(deployment.folder / "kits" / "authority", deployment.kit("north"), tmp_path / "old.crt")
    assert not greeted(port, root, certificate, key)
    # And a site does not speak with a hub of another federation.
    assert not greeted(port, foreign / "rootCA.pem", own / "client.crt", own / "client.key")


def test_a_kit_of_another_federation_gets_a_sentence(deployment, tmp_path, pathveil):
    other = provision(
        sites=list(SITES), hub=f"localhost:{deployment.port}", admin="a@b.org", out=tmp_path / "other"
    ).kits
    agreed = ["--vocab", deployment.words, "--classes", deployment.classes, "--wait", 1, "--attempts", 1]
    sites = ["--site", "north", "--site", "south"]
    ended = pathveil("federate", "submit", other["a@b.org"], *sites, *agreed, "--out", tmp_path / "run")
    assert ended.returncode == 2 and "the hub could not be reached" in ended.stderr and not (tmp_path / "run").exists()


def test_a_site_with_other_words_stops_the_run_with_a_sentence(deployment, pathveil):
    other = deployment.folder / "other-words.json"
    known = Vocabulary.load(deployment.words)
    Vocabulary(known.words[1:], known.method).save(other)
    out = deployment.folder / "other"
    sites = [part for site in SITES for part in ("--site", site)]
    agreed = ["--vocab", other, "--classes", deployment.classes, *SMALL, "--epochs", 1]
    ended = pathveil("federate", "submit", deployment.admin, *sites, *agreed, "--out", out, "--json")
    assert ended.returncode == 2 and not out.exists() and not ended.stdout
    assert re.search("pathveil: (north|south): its vocabulary is not the one the run agreed on", ended.stderr)


def test_a_site_that_tampers_is_refused_and_named_and_training_goes_on(deployment, tmp_path):
    out = deployment.folder / "tampered"
    deployment.submit(out, *STRONG, *OF_TWO, *FLOATS, sites=["north", ROGUE])
    said = deployment.ended("tampered")
    result, plan = json.loads((out / "history.json").read_text()), plan_of(out)
    assert result["finished"] and result["rounds"] == 16 and result["resumed_at"] == -1
    assert len(result["refused"]) == len(rogue.REFUSED)
    for line, fault in zip(result["refused"], rogue.REFUSED.values(), strict=True):
        assert line.startswith(f"{ROGUE}: ") and fault in line
        assert f"refused: {line}" in said and f"refused: {line}" in deployment.log("hub").read_text()
    # The result is that of a training in which those updates were left out.
    given = {"secrets": secrets_of_run(deployment, plan), "tamper": {ROGUE: rogue.tampered}}
    rounds, held = wire_search.replay(plan, reports_of(deployment, plan), tmp_path, **given)
    assert len(rounds.course.history.refused) == len(result["refused"])
    expected = rounds.course.arrays(rounds.exchanges[-1])
    for name, array in load_file(out / "parameters.safetensors").items():
        np.testing.assert_allclose(array, expected[name], atol=1e-5, err_msg=name)
    # In round 6 the rogue sent its private part and features of its reports: the recorder has them, the search says so.
    found = wire_search.leaks(wire_search.Recorded(b"".join(frames(deployment, ROGUE))), held[ROGUE])
    assert found == {"private parameters", "shared features"}


def test_a_killed_site_and_a_killed_hub_cost_nothing_but_time(deployment):
    out = deployment.folder / "killed"
    # An epoch takes a tenth of a second: there are many, so that it is not over before it comes to be killed.
    given = ["--epochs", 40, "--save-every", 0.05, "--patience", 8, "--attempts", 8]
    deployment.submit(out, *EXACT, *given, sites=ALL)
    deployment.until("hub", r"epoch 4 of 40")
    deployment.kill("south")
    # It is back before the job is given to the hub again: asked for a site that is not there, FLARE waits ever longer.
    deployment.until("hub", r"stopped: south: not heard of for 8 seconds")
    deployment.site("south")
    deployment.until("killed", r"south: not heard of for 8 seconds; going on from the last saved round")
    deployment.until("hub", r"going on from round [1-9]\d*")
    deployment.until("hub", r"epoch 14 of 40")
    deployment.kill("hub")
    deployment.hub()
    said = deployment.ended("killed")
    assert "the hub could not be reached; going on" in said
    result = json.loads((out / "history.json").read_text())
    assert result["resumed_at"] > 0 and not result["refused"]
    assert_embedded(deployment, out)


def test_a_second_process_of_a_site_is_refused(deployment):
    copy = deployment.folder / "copy"
    subprocess.run(["cp", "-r", deployment.kit("north"), copy], check=True)
    own = ["--corpus", deployment.corpus("north"), "--vocab", deployment.words]
    second = deployment.start("copy", "federate", "site", copy, *own, PATHVEIL_TRIES="99")
    deployment.until("hub", r"refused: a second process asks to be north")
    assert second.wait(1200) == 2
    assert "is another process with this kit at work?" in deployment.log("copy").read_text()
    assert deployment.started["north"].poll() is None


def test_malicious_hub_and_lying_site_get_single_reports_of_nobody(deployment):
    """The last test but one, for the hub is replaced: one site says it has a thousand million documents, and the hub,
    which plays along at first, in round 2 asks the other site for as many steps as it has documents."""
    deployment.kill("south")  # has no part in it; the new hub never sees it, which the last test is glad of
    deployment.malicious_hub()
    out = deployment.folder / "malicious"
    deployment.submit(out, *EXACT, "--name", rogue.LYING, "--epochs", 1, "--attempts", 1, sites=["north", ROGUE])
    assert deployment.started["malicious"].wait(1200) == 2 and not out.exists()
    assert "north: it was asked for something that it did not agree to" in deployment.log("malicious").read_text()
    said = deployment.log("north").read_text()
    assert "in round 2 the hub asks for other work than the plan says" in said
    (agreed,) = [path for path in deployment.kit("north").glob("runs/*/agreed.json") if str(10**9) in path.read_text()]
    own, claimed = json.loads(agreed.read_text())["counts"]
    assert claimed == 10**9
    # Two honest questions were answered before, of as many steps as the bounded claim makes; nothing after them.
    sent = [read(data, sender="north") for frame in frames(deployment, "north") for data in messages(frame)[0]]
    updates = [message for message in sent if message.arrays and message.facts["run"] == agreed.parent.name]
    assert {message.facts["round"] for message in updates} == {0, 1}
    assert json.loads((agreed.parent / "updates.json").read_text())["updates"] == 2
    steps = int(re.search(r"malicious hub: (\d+) steps", deployment.log("hub").read_text())[1])
    assert steps == -(-(own + 3 * own) // 64) < own // 8


def test_a_revoked_site_is_not_let_in_again(deployment):
    """The very last test, for a site is lost: its certificate is put on the authority's list, which the hub gets."""
    if deployment.started["south"].poll() is None:
        deployment.kill("south")
        time.sleep(ALIVE + 1)  # until the hub no longer takes a new process for a second one
    kits = deployment.folder / "kits"
    assert revoke("south", kits=kits) == "south: 1 certificate revoked"
    assert take_list(deployment.kit("hub"), kits / "revoked.pem") == 1
    deployment.site("south", PATHVEIL_TRIES="99")
    deployment.until("hub", r"refused: the certificate of south was revoked")
    assert deployment.started["south"].wait(1200) == 2
    assert deployment.started["north"].poll() is None
