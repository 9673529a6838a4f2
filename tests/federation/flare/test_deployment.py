"""A federation as registries run it: a hub and three sites, separate processes, real certificates, the real wire.

One deployment serves all tests here. It trains to the embedded numbers, as `strong` with the usual local steps and
masks, and without masks as the paper's adversary with one local step; every byte that a site hands to the network was
recorded, is accounted for and searched; masked answers are random bytes, whatever a site trained on;
a site that tampers with what it sends is refused and named; killed processes, a second process of a site and foreign or
expired certificates are met.
"""

import hashlib
import json
import re
import shutil
import subprocess
import time
from base64 import b64encode
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

import nvflare
from safetensors.numpy import load_file
from scipy.stats import chi2_contingency, chisquare

from federation.flare import rogue, wire_search
from federation.flare.deployment import (
    ALL,
    EXACT,
    FLOATS,
    OF_THREE,
    OF_TWO,
    ROGUE,
    SITES,
    SMALL,
    STRONG,
    Deployment,
    byte_counts,
    expired,
    frames,
    greeted,
    messages,
    plan_of,
    quoted,
    reports_of,
    secrets_of,
    secrets_of_run,
)
from pathveil.federation import embedded
from pathveil.federation.flare.duplicate_guard import ALIVE
from pathveil.federation.flare.provision import provision, revoke
from pathveil.federation.flare.revocation import take_list
from pathveil.federation.flare.status import status
from pathveil.federation.protocol.message import SAYS, Message, read, write
from pathveil.federation.release import Release
from pathveil.vocabulary.words import Vocabulary

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, pathveil):
    running = Deployment(tmp_path_factory.mktemp("deployment"))
    folder = running.folder
    whole, truth = folder / "all.parquet", folder / "truth.parquet"
    pathveil("corpus", "synth", "--reports", 160, "--registries", 2, "--seed", 4, "--out", whole, "--truth", truth)
    for site, registry in SITES.items():
        pl.read_parquet(whole).filter(pl.col("registry") == registry).write_parquet(running.corpus(site))
    shutil.copyfile(running.corpus("south"), running.corpus(ROGUE))
    # The agreed words: those that both registries have, so that names and rare words are not among them.
    chosen = pathveil("vocab", "select", whole, "--method", "intersection", "--threshold", 2, "--out", running.words)
    assert chosen.returncode == 0, chosen.stderr
    listed = pathveil("federate", "classes", whole, "--tasks", "site,behavior", "--out", running.classes)
    assert listed.returncode == 0, listed.stderr
    named = [*SITES, ROGUE]
    provision(sites=named, hub=f"localhost:{running.port}", admin="lead@example.org", out=folder / "kits")
    for name in named:  # by chance, as a site makes it, no training here could be repeated in the next run of this test
        (running.kit(name) / "secret").write_text(hashlib.sha256(name.encode()).hexdigest())
    try:
        running.hub()
        for site in SITES:
            running.site(site)
        running.rogue()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def trained(deployment) -> Path:
    """The result of a whole small training: the strong adversary, several local steps a round, masked sums."""
    out = deployment.folder / "run"
    deployment.submit(out, *STRONG, *OF_THREE, sites=ALL)
    said = deployment.ended("run")
    assert "Written:" in said and "MB a round to the hub" in said and "the hub saw no site's update by itself" in said
    return out


@pytest.fixture(scope="module")
def exact(deployment, trained) -> Path:
    """The result of an epoch of the paper's adversary with one local step a round, without masks."""
    out = deployment.folder / "exact"
    deployment.submit(out, *EXACT, *FLOATS, "--epochs", 1)
    deployment.ended("exact")
    return out


def assert_embedded(deployment: Deployment, out: Path) -> None:
    """The released shared part, the sites' private ones and the losses are those of the embedded loop."""
    plan = plan_of(out)
    secrets = secrets_of_run(deployment, plan)
    sites = [plan.site(own, name, secret=secrets[name]) for name, own in reports_of(deployment, plan).items()]
    hub, history = embedded.train(sites, plan.shared(), settings=plan.settings, joint=False)
    result = json.loads((out / "history.json").read_text())
    assert result["validation_loss"] == history.validation_loss
    assert result["rounds"] == history.rounds and result["bytes_to_hub"] == history.received
    released = load_file(out / "parameters.safetensors")
    assert released.keys() == hub.best.keys()
    for name, array in released.items():
        np.testing.assert_array_equal(array, hub.best[name], err_msg=name)
    for site in sites:
        private = load_file(deployment.kit(site.name) / "runs" / plan.run / "model" / "private.safetensors")
        for name, tensor in site.private.state_dict().items():
            np.testing.assert_array_equal(private[name], tensor.numpy(), err_msg=f"{site.name} {name}")


def test_the_network_gives_the_embedded_numbers(deployment, trained):
    assert_embedded(deployment, trained)


def test_each_site_has_a_model_of_its_own_and_others_can_join(deployment, trained, pathveil):
    run = plan_of(trained).run
    for site in SITES:
        own = deployment.kit(site) / "runs" / run
        scores = json.loads((own / "model" / "scores.json").read_text())
        coded = pathveil("evaluate", own / "bundle", deployment.corpus(site), "--json")
        assert coded.returncode == 0, coded.stderr
        assert set(json.loads(coded.stdout)["tasks"]) == set(scores) - {"validation documents"} == {"site", "behavior"}
    release = Release.load(trained / "shared")
    assert not [name for name in release.tensors if name.startswith("discriminator")]
    assert release.words == Vocabulary.load(deployment.words).size


def test_a_site_with_other_words_stops_the_run_with_a_sentence(deployment, trained, pathveil):
    other = deployment.folder / "other-words.json"
    known = Vocabulary.load(deployment.words)
    Vocabulary(known.words[1:], known.method).save(other)
    out = deployment.folder / "other"
    sites = [part for site in SITES for part in ("--site", site)]
    agreed = ["--vocab", other, "--classes", deployment.classes, *SMALL, "--epochs", 1]
    ended = pathveil("federate", "submit", deployment.admin, *sites, *agreed, "--out", out, "--json")
    assert ended.returncode == 2 and not out.exists() and not ended.stdout
    assert re.search("pathveil: (north|south): its vocabulary is not the one the run agreed on", ended.stderr)


@pytest.fixture(scope="module")
def usual() -> set[bytes]:
    """Words of FLARE's own programs, which its talk and its logs hold; reports hold some of them too."""
    source = b" ".join(path.read_bytes() for path in Path(nvflare.__file__).parent.rglob("*.py"))
    return set(re.findall(rb"[a-z0-9]+", source.lower()))


@pytest.fixture(scope="module")
def held(deployment, trained, exact, tmp_path_factory) -> dict[Path, dict[str, wire_search.Memory]]:
    """What the sites had in memory during either training."""
    plans = {out: plan_of(out) for out in (trained, exact)}
    folder = tmp_path_factory.mktemp("replay")
    return {
        out: wire_search.replay(
            plan, reports_of(deployment, plan), folder / plan.run, secrets=secrets_of_run(deployment, plan)
        )[1]
        for out, plan in plans.items()
    }


def test_nothing_but_shared_parameters_and_counts_leaves_a_site(deployment, trained, exact, held, usual):
    plans = {out: plan_of(out) for out in (trained, exact)}
    shapes = {name: tuple(p.shape) for name, p in plans[exact].shared().named_parameters()}
    for site in SITES:
        sent = frames(deployment, site)
        everything, updates, rest = b"".join(sent), {out: list[Message]() for out in plans}, b""
        for frame in sent:
            found, other = messages(frame)
            rest += other
            for data in found:
                rest += data[: 8 + int.from_bytes(data[:8], "little")]  # the names and numbers before the arrays
                message = read(data, sender=site)
                assert set(message.facts) <= set(SAYS)
                if message.arrays:
                    (out,) = [out for out, plan in plans.items() if plan.run == message.facts["run"]]
                    if out == exact:
                        assert all(array.shape == shapes[name] for name, array in message.arrays.items())
                    kind = np.dtype(np.float32 if out == exact else np.uint8)
                    assert {array.dtype for array in message.arrays.values()} == {kind}
                    size = sum(array.nbytes for array in message.arrays.values())
                    assert size <= len(data) < size + 2000
                    updates[out].append(message)
        for out in plans:
            # Every round is one update, every update was seen, and in each is what moves in it.
            told = [sorted({name.split(".")[0] for name in message.arrays}) for message in updates[out]]
            rounds = json.loads((out / "history.json").read_text())["rounds"]
            if out == trained:
                assert told == (rounds + 2) * [["facts", "tags", "update"]]  # an epoch's closing is masked too
                sizes = [message.arrays["update"].size for message in updates[out]]
                assert sizes == 2 * [*2 * [*3 * [sizes[0]], sizes[3]], 0] and sizes[3] > 3 * sizes[0]
                updates[out] = [message for message in updates[out] if message.arrays["update"].size]
            else:
                assert told == rounds * [["discriminator", "encoder"]] and rounds > 1
            assert [message.facts["updates"] for message in updates[out]] == list(range(1, rounds + 1))
        recorded_files = list((deployment.folder / f"record-{site}").iterdir())
        assert {path.stat().st_mode & 0o777 for path in recorded_files} == {0o600}
        # All the rest, FLARE's own talk included, is small; and it is searched like everything else.
        assert len(rest) < 2500 * len(sent)
        secrets = secrets_of(deployment, site)
        assert len(secrets) > 300 and not quoted(secrets, everything, rest, usual)
        recorded = wire_search.Recorded(everything)
        for out, plan in plans.items():
            # The updates made again are in the bytes, all of them: so this is what the site had in memory, to the bit.
            # Where they were masked none is, neither as floats nor in the whole numbers that the sum is of.
            memory = held[out][site]
            if out == exact:
                assert len(memory[wire_search.ALLOWED]) == len(updates[out])
                assert all(recorded.whole(update) for update in memory[wire_search.ALLOWED])
            else:
                assert not memory[wire_search.ALLOWED] and len(memory[wire_search.WHOLE]) == len(updates[out])
            assert ("local optimiser" in memory) == (out == trained)
            assert not wire_search.leaks(recorded, memory)
            model = load_file(deployment.kit(site) / "runs" / plan.run / "model" / "private.safetensors")
            assert not any(recorded.holds(array) for array in model.values())
        frame = pl.read_parquet(deployment.corpus(site))
        assert not [number for number, text in enumerate(frame["text"]) if recorded.quotes(text)]
        for name in SITES:  # nor does a site tell where its files are
            assert str(deployment.corpus(name)).encode() not in everything


def test_the_search_finds_what_is_planted(deployment, trained, held, usual):
    """The control of the test before: any one thing of each kind, put somewhere into what was sent, is found."""
    sent = max(frames(deployment, "south"), key=len)

    def planted(data: bytes) -> bytes:
        return sent[:20001] + data + sent[20001:]

    for kind, arrays in held[trained]["south"].items():
        if kind == wire_search.ALLOWED:
            continue
        # A few values of the first that says something, in each format that may carry it.
        formats = wire_search.formats_of(kind)
        most = max(formats.values())
        array = next(array for array in map(np.ravel, arrays) if len(wire_search.telling(array, most)))
        start = int(wire_search.telling(array, most)[0])
        for form in formats:
            part = wire_search.formed(array[start : start + most], form).tobytes()
            assert wire_search.leaks(wire_search.Recorded(planted(part)), {kind: arrays}) == {kind}, (kind, form)
        few = array[start : start + most]
        for part in (b64encode(few.tobytes() * 2), json.dumps(few.tolist()).encode(), str(few).encode()):
            assert wire_search.leaks(wire_search.Recorded(planted(part)), {kind: arrays}) == {kind}, (kind, part)
    frame = pl.read_parquet(deployment.corpus("south"))
    assert wire_search.Recorded(planted(frame["text"][7][100:130].lower().encode())).quotes(frame["text"][7])
    secrets = secrets_of(deployment, "south")
    for secret in sorted(secrets, key=lambda secret: (len(secret), secret))[:: len(secrets) // 20]:
        if secret.isalnum() and secret.lower() not in usual:
            assert secret in quoted(secrets, planted(b"'" + secret + b"'"), b"'" + secret + b"'", usual)


def test_hub_administrator_and_logs_hold_nothing_of_a_site(deployment, trained, usual):
    secrets = set.union(*(secrets_of(deployment, site) for site in SITES))
    places = [deployment.kit("hub"), deployment.admin, trained, *deployment.folder.glob("*.out")]
    for site in SITES:
        places += deployment.kit(site).rglob("*log*")
        places += deployment.kit(site).rglob("*.txt")
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file()]
    assert len(files) > 20
    for path in files:
        # gRPC's own lines begin with the number of a thread, which may be that of a street.
        content = re.sub(rb"(?m)^[EIW]\d{4} [\d:.]+ +\d+ ", b"", path.read_bytes())
        assert not quoted(secrets, content, content if content.isascii() else b"", usual), path
    assert not list(deployment.kit("hub").rglob("private.safetensors"))


def test_a_site_that_tampers_is_refused_and_named_and_training_goes_on(deployment, trained, tmp_path):
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


@pytest.fixture(scope="module")
def replayed(deployment, trained, exact, held) -> str:
    """What is said when one of three sites sends another round's masked numbers: the run of ``trained`` again, with
    another name and so with other batches, up to round 9."""
    out = deployment.folder / "replayed"
    deployment.submit(out, *STRONG, *OF_THREE, "--name", rogue.MASKED, sites=ALL)
    assert deployment.started["replayed"].wait(1800) == 2 and not out.exists()
    return deployment.log("replayed").read_text()


def test_a_site_that_replays_in_a_masked_run_is_named(replayed):
    assert f"refused: {ROGUE}: answered round 0, but round 5 is running; refused as stale" in replayed
    assert f"pathveil: {ROGUE}: its masks are of another key or another round than the others'" in replayed


def test_masked_answers_are_random_bytes_whatever_a_site_trained_on(deployment, trained, exact, replayed):
    """North's answers in two runs, of the same sizes and other batches: their bytes are even, alike in form, and no
    byte says more about one run than about the other. Of unmasked answers the same test says at once that they are
    not."""
    sent = [read(data, sender="north") for frame in frames(deployment, "north") for data in messages(frame)[0]]
    plan = plan_of(trained)
    again = plan.model_copy(update={"name": rogue.MASKED})
    one, two, floats = (
        [message for message in sent if message.arrays and message.facts["run"] == run]
        for run in (plan.run, again.run, plan_of(exact).run)
    )
    one, two = one[:9], two[:9]
    assert len(one) == len(two) == 9
    for first, second in zip(one, two, strict=True):
        assert len(write(first)) == len(write(second)) and first.facts.keys() == second.facts.keys()
    counts = [byte_counts(own) for own in (one, two, floats)]
    assert min(own.sum() for own in counts) > 50_000
    assert chisquare(counts[0]).pvalue > 1e-6 and chisquare(counts[1]).pvalue > 1e-6
    assert chi2_contingency(counts[:2]).pvalue > 1e-6
    assert chisquare(counts[2]).pvalue < 1e-100 and chi2_contingency([counts[0], counts[2]]).pvalue < 1e-100


def test_a_killed_site_and_a_killed_hub_cost_nothing_but_time(deployment, trained):
    out = deployment.folder / "killed"
    # An epoch takes a tenth of a second: there are many, so that it is not over before it comes to be killed.
    given = ["--epochs", 40, "--save-every", 0.05, "--patience", 8, "--attempts", 8]
    deployment.submit(out, *EXACT, *given, sites=ALL)
    deployment.until("hub", r"epoch 4 of 40")
    deployment.kill("south")
    deployment.until("killed", r"south: not heard of for 8 seconds; going on from the last saved round")
    deployment.site("south")
    deployment.until("hub", r"going on from round [1-9]\d*")
    deployment.until("hub", r"epoch 14 of 40")
    deployment.kill("hub")
    deployment.hub()
    said = deployment.ended("killed")
    assert "the hub could not be reached; going on" in said
    result = json.loads((out / "history.json").read_text())
    assert result["resumed_at"] > 0 and not result["refused"]
    assert_embedded(deployment, out)


def test_a_second_process_of_a_site_is_refused(deployment, trained):
    copy = deployment.folder / "copy"
    subprocess.run(["cp", "-r", deployment.kit("north"), copy], check=True)
    own = ["--corpus", deployment.corpus("north"), "--vocab", deployment.words]
    second = deployment.start("copy", "federate", "site", copy, *own, PATHVEIL_TRIES="99")
    deployment.until("hub", r"refused: a second process asks to be north")
    assert second.wait(1200) == 2
    assert "is another process with this kit at work?" in deployment.log("copy").read_text()
    assert deployment.started["north"].poll() is None


def test_only_a_valid_certificate_of_this_federation_is_spoken_with(deployment, trained, tmp_path):
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


def test_a_kit_of_another_federation_gets_a_sentence(deployment, trained, tmp_path, pathveil):
    other = provision(
        sites=list(SITES), hub=f"localhost:{deployment.port}", admin="a@b.org", out=tmp_path / "other"
    ).kits
    agreed = ["--vocab", deployment.words, "--classes", deployment.classes, "--wait", 1, "--attempts", 1]
    sites = ["--site", "north", "--site", "south"]
    ended = pathveil("federate", "submit", other["a@b.org"], *sites, *agreed, "--out", tmp_path / "run")
    assert ended.returncode == 2 and "the hub could not be reached" in ended.stderr and not (tmp_path / "run").exists()


def test_status_is_told_of_the_hub_a_site_and_the_whole(deployment, trained, pathveil):
    run = plan_of(trained).run
    told = json.loads(pathveil("federate", "status", deployment.admin, "--json", "--wait", 300).stdout)
    assert set(told["sites"]) == {*SITES, ROGUE} and told["reachable"] and told["certificate_days"] > 300
    at_site, at_hub = status(deployment.kit("north")), status(deployment.kit("hub"))
    assert at_site.reachable and at_hub.reachable
    (own,) = [one for one in at_site.runs if one.run == run]
    (whole,) = [one for one in at_hub.runs if one.run == run]
    rounds = json.loads((trained / "history.json").read_text())["rounds"]
    assert own.finished and own.mode == whole.mode == "strong" and own.updates == rounds and whole.finished


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
