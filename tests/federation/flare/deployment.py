"""A deployment for tests: its processes, what they recorded, and what must not be in it."""

import datetime
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from safetensors.numpy import load_file

from conftest import free_port
from federation.flare import rogue
from pathveil.federation import embedded
from pathveil.federation.flare import recorder
from pathveil.federation.flare.provision import provision
from pathveil.federation.protocol.message import Message
from pathveil.federation.protocol.plan import Plan, read_reports
from pathveil.federation.protocol.secret import for_run, site_secret
from pathveil.text.tokenizer import tokenize
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.words import Vocabulary

SITES = {"north": "R1", "south": "R2"}
ROGUE = "rogue"  # one more site, with south's reports: see rogue.py; in most runs with masks it is as honest as others
ALL = [*SITES, ROGUE]
SMALL = ["--dim", 12, "--filters", 6]
STRONG = ["--mode", "strong", "--epochs", 2]  # with these sizes two exchanges an epoch of up to 8 local steps,
STRONG += ["--set", "discriminator_steps=3"]  # before each of which the discriminator catches up, here in few rounds
EXACT = ["--mode", "adversarial", "--local-steps", 1]
OF_TWO, OF_THREE = ["--batch-size", 12], ["--batch-size", 18]
FLOATS = ["--set", "bits=0"]  # no masks: the hub sees each site's update


class Deployment:
    """The processes, and where their things are."""

    def __init__(self, folder: Path):
        self.folder, self.started = folder, dict[str, subprocess.Popen]()
        self.port = free_port()
        self.admin = folder / "kits" / "lead@example.org"
        self.words, self.classes = folder / "words.json", folder / "classes.json"

    def kit(self, name: str) -> Path:
        return self.folder / "kits" / name

    def corpus(self, site: str) -> Path:
        return self.folder / f"{site}.parquet"

    def call(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "pathveil", *map(str, arguments)]

    def start(self, name: str, *arguments: object, **environment: str) -> subprocess.Popen:
        """Start a command in the background; what it says goes to a file."""
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                self.call(*arguments),
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"} | environment,
            )
        self.started[name] = process
        return process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.out"

    def hub(self, **environment: str) -> None:
        """The hub, when it can be reached: who submits gives up after a minute, in which a slow machine that starts all
        of these processes at once may not have started it."""
        process = self.start("hub", "federate", "hub", self.kit("hub"), **environment)
        while True:
            assert process.poll() is None, self.log("hub").read_text(errors="replace")[-3000:]
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.1)

    def malicious_hub(self) -> None:
        """In place of the hub, one that asks for other work than the plan says: see rogue_hub.py."""
        self.kill("hub")
        call = [sys.executable, "-m", "rogue_hub", str(self.kit("hub"))]
        self.call, honest = (lambda *arguments: call), self.call
        try:
            self.hub(PYTHONPATH=os.pathsep.join([str(Path(rogue.__file__).parent), *sys.path]))
        finally:
            self.call = honest

    def site(self, name: str, **environment: str) -> None:
        own = ["--corpus", self.corpus(name), "--vocab", self.words, "--record", self.folder / f"record-{name}"]
        own.append("--allow-unmasked")
        self.start(name, "federate", "site", self.kit(name), *own, **environment)

    def rogue(self) -> None:
        """A site whose own job processes are not the product's."""
        local = self.kit(ROGUE) / "local" / "resources.json"
        local.write_text(local.read_text().replace("pathveil.federation.flare.launcher.SiteLauncher", "rogue.Launcher"))
        self.site(ROGUE, PYTHONPATH=os.pathsep.join([str(Path(rogue.__file__).parent), *sys.path]))

    def submit(self, out: Path, *options: object, sites: Iterable[str] = SITES) -> subprocess.Popen:
        agreed = ["--vocab", self.words, "--classes", self.classes, "--wait", 1200]
        agreed += [part for site in sites for part in ("--site", site)]
        return self.start(out.name, "federate", "submit", self.admin, *agreed, *SMALL, *options, "--out", out)

    def until(self, name: str, pattern: str, *, seconds: float = 1200) -> str:
        """Wait for a line in a log."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.log(name).read_text(errors="replace"))
            if found:
                return found[0]
            time.sleep(0.1)
        raise AssertionError(f"no '{pattern}' in {name}:\n{self.log(name).read_text(errors='replace')[-3000:]}")

    def ended(self, name: str, *, seconds: float = 1800) -> str:
        """Wait for a command to end well; what it said."""
        code = self.started[name].wait(seconds)
        said = self.log(name).read_text(errors="replace")
        assert code == 0, f"{name} ended with {code}:\n{said[-3000:]}\n{self.log('hub').read_text()[-3000:]}"
        return said

    def kill(self, name: str) -> None:
        """End a process and all it started at once, without a chance to tidy up."""
        tree = [psutil.Process(self.started[name].pid)]
        tree += tree[0].children(recursive=True)
        for process in tree:
            with_process(process, signal.SIGKILL)
        psutil.wait_procs(tree, timeout=120)

    def close(self) -> None:
        for name, process in self.started.items():
            if process.poll() is None:
                self.kill(name)
            process.wait(120)


@contextmanager
def running(folder: Path, pathveil: Callable[..., subprocess.CompletedProcess]) -> Iterator[Deployment]:
    """A hub and three sites at work, with what they agreed on; ``pathveil`` runs a command."""
    made = Deployment(folder)
    whole, truth = folder / "all.parquet", folder / "truth.parquet"
    pathveil("corpus", "synth", "--reports", 160, "--registries", 2, "--seed", 4, "--out", whole, "--truth", truth)
    for site, registry in SITES.items():
        pl.read_parquet(whole).filter(pl.col("registry") == registry).write_parquet(made.corpus(site))
    shutil.copyfile(made.corpus("south"), made.corpus(ROGUE))
    # The agreed words: those that both registries have, so that names and rare words are not among them.
    chosen = pathveil("vocab", "select", whole, "--method", "intersection", "--threshold", 2, "--out", made.words)
    assert chosen.returncode == 0, chosen.stderr
    listed = pathveil("federate", "classes", whole, "--tasks", "site,behavior", "--out", made.classes)
    assert listed.returncode == 0, listed.stderr
    provision(sites=ALL, hub=f"localhost:{made.port}", admin="lead@example.org", out=folder / "kits")
    for name in ALL:  # by chance, as a site makes it, no training here could be repeated in the next run of this test
        (made.kit(name) / "secret").write_text(hashlib.sha256(name.encode()).hexdigest())
    try:
        made.hub()
        for site in SITES:
            made.site(site)
        made.rogue()
        yield made
    finally:
        made.close()


def with_process(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        pass


def plan_of(out: Path) -> Plan:
    return Plan.model_validate_json((out / "plan.json").read_text())


def reports_of(deployment: Deployment, plan: Plan) -> dict[str, EncodedCorpus]:
    """Each site's reports as it reads them."""
    corpora = {name: [deployment.corpus(name)] for name in plan.sites}
    return {name: read_reports(plan, name, corpus=corpora[name], vocabulary=deployment.words)[0] for name in plan.sites}


def secrets_of_run(deployment: Deployment, plan: Plan) -> dict[str, list[int]]:
    """Each site's secret, from its kit: what decides about its batches."""
    return {name: for_run(site_secret(deployment.kit(name)), plan.run) for name in plan.sites}


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


def frames(deployment: Deployment, site: str) -> list[bytes]:
    return [
        frame for path in sorted((deployment.folder / f"record-{site}").iterdir()) for frame in recorder.frames(path)
    ]


START = b'{"__metadata__":{"pathveil":'


def messages(frame: bytes) -> tuple[list[bytes], bytes]:
    """Our messages in a frame, and what else is in it."""
    found, rest, at = [], b"", 0
    while (start := frame.find(START, at)) >= 0:
        length = int.from_bytes(frame[start - 8 : start], "little")
        header = json.loads(frame[start : start + length])
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        stop = start + length + max(ends, default=0)
        found.append(frame[start - 8 : stop])
        rest += frame[at : start - 8]
        at = stop
    return found, rest + frame[at:]


def secrets_of(deployment: Deployment, site: str) -> set[bytes]:
    """What must not leave a site: ids, planted personal information, words outside the agreed ones."""
    frame = pl.read_parquet(deployment.corpus(site))
    agreed = "\n".join(Vocabulary.load(deployment.words).words)
    words = {word for text in frame["text"] for word in [*tokenize(text), *re.findall(r"[^\W_]+", text)]}
    truth = pl.read_parquet(deployment.folder / "truth.parquet").filter(
        pl.col("report_id").is_in(frame["report_id"].implode())
    )
    texts = dict(zip(frame["report_id"], frame["text"], strict=True))
    planted = {texts[row["report_id"]][row["start"] : row["end"]] for row in truth.iter_rows(named=True)}
    # Shorter ones are parts of other words; a part of an agreed word is known.
    candidates = {*words, *planted, *frame["report_id"], *frame["case_id"]}
    known = {str(deployment.port)}  # a number that a report may hold too
    return {text.encode() for text in candidates - known if len(text) >= 5 and text.lower() not in agreed}


def quoted(secrets: set[bytes], content: bytes, talk: bytes, usual: set[bytes]) -> list[bytes]:
    """Secrets that stand in the content: long ones anywhere, short ones as words of its talk, which holds no arrays (in
    which five letters come up by chance) and which are not FLARE's."""
    alone = set(re.findall(rb"[A-Za-z0-9]+", talk))
    return [
        secret
        for secret in secrets
        if (secret in content if len(secret) >= 7 else secret in alone) and secret.lower() not in usual
    ]


def byte_counts(sent: list[Message]) -> np.ndarray:
    """How often each byte stands in the arrays of messages."""
    arrays = [array for message in sent for name, array in message.arrays.items() if name != "tags"]
    parts = [array.reshape(-1).view(np.uint8) for array in arrays]
    return np.bincount(np.concatenate(parts), minlength=256)


def greeted(port: int, root: Path, certificate: Path | None, key: Path | None) -> bool:
    """Whether the hub speaks with someone who shows this certificate: its first HTTP/2 frame, or nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(root)
    context.set_alpn_protocols(["h2"])
    if certificate and key:
        context.load_cert_chain(certificate, key)
    try:
        with (
            socket.create_connection(("localhost", port), timeout=300) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return len(secure.recv(9)) == 9
    except (ssl.SSLError, ConnectionError):
        return False


def expired(authority: Path, kit: Path, out: Path) -> tuple[Path, Path]:
    """The kit's certificate again, from the same authority and for the same key, but of last year."""
    (state,) = authority.rglob("cert.json")
    root = json.loads(state.read_text())
    (signer,) = [value for name, value in root.items() if "pri_key" in name and isinstance(value, str)]
    signing = serialization.load_pem_private_key(signer.encode(), password=None)
    old = x509.load_pem_x509_certificate((kit / "startup" / "client.crt").read_bytes())
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(old.subject).issuer_name(old.issuer).public_key(old.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(400)).not_valid_after(now - datetime.timedelta(40))
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    out.write_bytes(builder.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return out, kit / "startup" / "client.key"
