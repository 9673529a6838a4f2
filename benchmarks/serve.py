"""The coding service beside the same service on the dense reference kernel: one report, batches, memory.

A model of the default ensemble's shape (three networks and the linear view, 20,000 words; weights at random, for speed
does not depend on them) is served over HTTP on this machine, in a process of its own, and asked by a client as others
would: one report at a time with and without places, and in batches. The reference is the same service whose networks
run as dense convolutions. Reports are TCGA's where they are there, else made up.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.progress import Progress

WORDS, CLASSES = 20_000, {"site": 70, "subsite": 326, "laterality": 7, "histology": 639, "behavior": 4}
TOKEN = "a-token-of-the-benchmark-0123456789"
CHILD = """
import sys, threading
from pathlib import Path
import pathveil.model.kernels as kernels
from pathveil.bundle import coder
from pathveil.serve.app import make_app
from pathveil.serve.server import make_server, run_server
from pathveil.serve.settings import ServeSettings
from pathveil.serve.start import make_service
folder, tokens, port, dense = sys.argv[1:]
if dense == "1":
    coder.LARGEST_TABLES = 0
    load = coder.Model.ensemble
    def plain(self, device="cpu"):
        found = load(self, device)
        for member in found.members:
            member.kernel = "reference"
        return found
    coder.Model.ensemble = plain
settings = ServeSettings().changed(requests_a_minute=10**9)
service = make_service(Path(folder), settings=settings, token_file=Path(tokens))
run_server(*make_server(make_app(service), settings, host="127.0.0.1", port=int(port)))
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reports", type=Path, default=Path("../shared/data/tcga_reports.parquet"), help="a corpus")
    parser.add_argument("--singles", type=int, default=200, help="requests of one report, each way")
    parser.add_argument("--batch", type=int, default=300, help="reports of a batch")
    parser.add_argument(
        "--memory", type=int, default=0, help="instead: the service's memory over so many requests of one short report"
    )


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    texts = read_texts(options.reports, options.batch)
    with tempfile.TemporaryDirectory() as folder:
        model, tokens = Path(folder) / "model", Path(folder) / "tokens"
        random_model(texts).save(model)
        tokens.write_text(f"bench {TOKEN}\n")
        tokens.chmod(0o600)
        servers = [Server(model, tokens, dense=dense) for dense in (False, True)[: 1 if options.memory else 2]]
        try:
            if options.memory:
                return {"words": WORDS, "memory_mb": measure_memory(servers[0], texts, options.memory, progress)}
            return measure(*servers, texts, options, progress)
        finally:
            for server in servers:
                server.stop()


def measure(ours: "Server", dense: "Server", texts: list[str], options: argparse.Namespace, progress: Progress) -> dict:
    for server in (ours, dense):
        server.wait()
    for server in (ours, dense):
        server.connection.close()  # it may have been idle for too long
        server.ask(texts[: min(8, len(texts))])
    singles: dict[str, list[float]] = {"plain": [], "explained": [], "dense": []}
    for number in range(options.singles):
        text = [texts[number % len(texts)]]
        singles["plain"].append(ours.ask(text))
        singles["explained"].append(ours.ask(text, explain=5))
        if number % 10 == 0:
            singles["dense"].append(dense.ask(text))
        progress("single reports", number + 1, options.singles)
    rounds: dict[str, list[float]] = {"ours": [], "dense": []}
    for number in range(3):
        rounds["ours"].append(ours.ask(texts))
        if number == 0:
            rounds["dense"].append(
                dense.ask(texts[: max(20, len(texts) // 10)]) / max(20, len(texts) // 10) * len(texts)
            )
        progress("batches", number + 1, 3)
    batch, reference = statistics.median(rounds["ours"]), statistics.median(rounds["dense"])
    return {
        "reports": len(texts),
        "words": WORDS,
        "single_ms": milliseconds(singles["plain"], 0.5),
        "single_p99_ms": milliseconds(singles["plain"], 0.99),
        "explained_ms": milliseconds(singles["explained"], 0.5),
        "explained_p99_ms": milliseconds(singles["explained"], 0.99),
        "dense_single_ms": milliseconds(singles["dense"], 0.5),
        "reports_a_second": round(len(texts) / batch, 1),
        "dense_reports_a_second": round(len(texts) / reference, 1),
        "ratio": round(reference / batch, 1),
        "memory_mb": {"0": round(ours.memory() / 1e6)},
    }


def measure_memory(server: "Server", texts: list[str], requests: int, progress: Progress) -> dict[str, int]:
    """Megabytes of the service after each tenth of the requests, each a stretch of a report and a word never seen."""
    server.wait()
    server.connection.close()
    found = {}
    for number in range(requests):
        start = 37 * number % 2_000
        server.ask([f"{texts[number % len(texts)][start : start + 400]} w{number}q"], explain=5 * (number % 4 == 0))
        if (number + 1) % max(requests // 10, 1) == 0:
            found[f"{number + 1}"] = round(server.memory() / 1e6)
        progress("requests", number + 1, requests)
    return found


def describe(result: dict[str, Any]) -> str:
    memory = ", ".join(
        f"{megabytes:,} MB after {int(requests):,}" for requests, megabytes in result["memory_mb"].items()
    )
    if "ratio" not in result:
        return f"memory: {memory} requests"
    lines = [
        f"one report:    p50 {result['single_ms']} ms, p99 {result['single_p99_ms']} ms; with places "
        f"p50 {result['explained_ms']} ms, p99 {result['explained_p99_ms']} ms",
        f"               dense, without places: p50 {result['dense_single_ms']} ms",
        f"batches:       {result['reports_a_second']} reports a second (dense {result['dense_reports_a_second']}): "
        f"{result['ratio']} times",
        f"memory:        {result['memory_mb']['0']:,} MB",
    ]
    return "\n".join(lines)


def milliseconds(seconds: list[float], share: float) -> float:
    return round(1e3 * float(np.quantile(seconds, share)), 1)


class Server:
    """A service in a process of its own, and a client of it."""

    def __init__(self, model: Path, tokens: Path, *, dense: bool):
        import socket

        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        command = [sys.executable, "-c", CHILD, str(model), str(tokens), str(self.port), str(int(dense))]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.connection = HTTPConnection("127.0.0.1", self.port, timeout=600)

    def wait(self) -> None:
        while True:
            try:
                self.connection.request("GET", "/readyz")
                if self.connection.getresponse().read() == b"ready\n":
                    return
            except OSError:
                self.connection.close()
            if self.process.poll() is not None:
                raise RuntimeError("the service did not start")
            time.sleep(0.2)

    def ask(self, texts: list[str], *, explain: int = 0) -> float:
        """Seconds that a request takes."""
        body = json.dumps({"reports": [{"report_id": str(n), "text": text} for n, text in enumerate(texts)]})
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        start = time.perf_counter()
        self.connection.request("POST", f"/v1/code?explain={explain}", body, headers)
        answer = self.connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        return time.perf_counter() - start

    def memory(self) -> int:
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def read_texts(path: Path, count: int) -> list[str]:
    import polars as pl

    if path.exists():
        return pl.read_parquet(path, columns=["text"])["text"].sample(count, seed=1).to_list()
    from pathveil import synth

    return synth(count, seed=1).to_frame()["text"].to_list()


def random_model(texts: list[str]) -> Any:
    """A model of the default's shape that knows the reports' words, filled up to 20,000, with weights at random."""
    from pathveil.bundle.folder import shapes
    from pathveil.bundle.model import Model
    from pathveil.text.tokenizer import settings, tokenize
    from pathveil.training.settings import PRESETS
    from pathveil.vocabulary.words import Vocabulary

    default = PRESETS["default"]
    words = list(dict.fromkeys(word for text in texts for word in tokenize(text)))[:WORDS]
    words += [f"word{number}" for number in range(WORDS - len(words))]
    vocabulary = Vocabulary(words=tuple(sorted(words)), method="benchmark", parameters={})
    architecture = default.shape() | {"vocabulary_size": vocabulary.size, "members": default.members, "linear": True}
    labels = {task: tuple(f"{task}-{n}" for n in range(classes)) for task, classes in CLASSES.items()}
    rng = np.random.default_rng(0)
    tensors = {
        name: (0.05 * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes(architecture, labels).items()
    }
    return Model(
        architecture=architecture,
        labels=labels,
        text=settings(),
        vocabulary=vocabulary,
        tensors=tensors,
        blend={task: (0.7, 0.3) for task in labels},
        thresholds={},
        scores={},
        provenance={"reports": 0, "cases": 0},
    )
