"""A federation as registries run it: a hub and three sites, separate processes, real certificates, the real wire.

One deployment serves all tests here. It trains to the embedded numbers, as `strong` with the usual local steps and
masks, and without masks as the paper's adversary with one local step; every byte that a site hands to the network was
recorded, is accounted for and searched; masked answers are random bytes, whatever a site trained on. What is done about
those who lie, are lost or do not belong is in ``test_faults.py``.
"""

import json
import re
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
    ROGUE,
    SITES,
    STRONG,
    assert_embedded,
    byte_counts,
    frames,
    messages,
    plan_of,
    quoted,
    reports_of,
    secrets_of,
    secrets_of_run,
)
from pathveil.federation.flare.status import status
from pathveil.federation.protocol.message import SAYS, Message, read, write
from pathveil.federation.release import Release
from pathveil.vocabulary.words import Vocabulary

pytestmark = pytest.mark.usefixtures("one_thread")


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


def test_the_network_gives_the_embedded_numbers(deployment, trained):
    assert_embedded(deployment, trained)


def test_each_site_has_a_model_of_its_own_and_others_can_join(deployment, trained, inside):
    run = plan_of(trained).run
    for site in SITES:
        own = deployment.kit(site) / "runs" / run
        scores = json.loads((own / "model" / "scores.json").read_text())
        coded = inside("evaluate", own / "bundle", deployment.corpus(site), "--json")
        assert coded.returncode == 0, coded.stderr
        assert set(json.loads(coded.stdout)["tasks"]) == set(scores) - {"validation documents"} == {"site", "behavior"}
    release = Release.load(trained / "shared")
    assert not [name for name in release.tensors if name.startswith("discriminator")]
    assert release.words == Vocabulary.load(deployment.words).size


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
