"""Words agreed on privately: a whole agreement, what a word costs in time and bytes, and what the proofs cost.

Made-up words, as many as asked for at each site, most of them shared; all roles in this process, on the given number of
threads. The ratios compare words through one key holder with and without its proof, by CPU seconds, and two threads
with two processes, by the clock: about 1 says that Python's lock costs nothing.
"""

import argparse
import random
import resource
import time
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

from _timing import alternate, peak_rss
from pathveil.agreement import oprf
from pathveil.agreement.hub import HEADER, TAG
from pathveil.agreement.simulate import simulate
from pathveil.progress import Progress


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--words", type=int, default=60_000, help="words a site (default 60000)")
    parser.add_argument("--sites", type=int, default=7, help="sites (default 7)")
    parser.add_argument("--k", type=int, default=3, help="threshold (default 3)")
    parser.add_argument("--batch", type=int, default=1_024, help="points a request (default 1024)")
    parser.add_argument("--workers", type=int, default=2, help="threads (default 2)")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds of the ratios (default 5)")


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    counts = made_up(options.sites, options.words)
    before, usage, start = peak_rss(), cpu(), time.perf_counter()
    outcome = simulate(
        counts, threshold=options.k, batch=options.batch, cap=options.words, workers=options.workers, progress=progress
    )
    wall, used = time.perf_counter() - start, cpu() - usage
    held = Counter(word for words in counts.values() for word in words)
    expected = {word for word, sites in held.items() if sites >= options.k}
    padded = sum(outcome.hub["padded_sizes"].values())
    words = [f"word{number}".encode() for number in range(256)]
    secret, public = oprf.generate_key()
    proofs = alternate(
        {
            "with": lambda: one_holder(secret, public, words, proofs=True),
            "without": lambda: one_holder(secret, public, words, proofs=False),
        },
        rounds=options.rounds,
        stage="with and without proofs",
        progress=progress,
        clock=time.process_time,
    )
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        pools: dict[str, Executor] = {"threads": threads, "processes": processes}
        points = [oprf.hash_to_group(word) for word in words]
        answers = [oprf.multiply(secret, point) for point in points]
        share = partial(oprf.prove, secret, public, points)
        list(processes.map(share, [answers] * 2))  # started
        two = alternate(
            {name: lambda pool=pool: list(pool.map(share, [answers] * 8)) for name, pool in pools.items()},
            rounds=options.rounds,
            stage="threads and processes",
            progress=progress,
        )
    return {
        "sites": options.sites,
        "words": options.words,
        "agreed": len(outcome.vocabulary.words),
        "equal": set(outcome.vocabulary.words) == expected,
        "padded": padded,
        "seconds": round(wall, 1),
        "cpu_seconds": round(used, 1),
        "ms_cpu_a_word": round(1000 * used / padded, 3),
        "peak_memory_mb": round(peak_rss() / 2**20),
        "memory_before_mb": round(before / 2**20),
        "bytes": wire_bytes(options.batch),
        "proofs_ratio": round(proofs["with"] / proofs["without"], 2),
        "threads_ratio": round(two["threads"] / two["processes"], 2),
    }


def made_up(sites: int, words: int) -> dict[str, dict[str, int]]:
    """Each site: three quarters from a common stock, the rest its own."""
    draw = random.Random(0)
    stock = [f"word{number}" for number in range(words)]
    return {
        f"R{site}": dict.fromkeys(draw.sample(stock, words * 3 // 4), 9)
        | {f"own{site}x{number}": 9 for number in range(words - words * 3 // 4)}
        for site in range(1, sites + 1)
    }


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def one_holder(secret: bytes, public: bytes, words: list[bytes], *, proofs: bool) -> list[bytes]:
    """Words through one key holder: blind, multiply, with or without a proof made and checked, take the blind off."""
    scalars, blinded = zip(*map(oprf.blind, words), strict=True)
    answers = [oprf.multiply(secret, point) for point in blinded]
    if proofs:
        assert oprf.verify(public, blinded, answers, oprf.prove(secret, public, blinded, answers))
    return [oprf.unblind(scalar, answer) for scalar, answer in zip(scalars, answers, strict=True)]


def wire_bytes(batch: int) -> dict[str, float]:
    """Bytes a padded word in bodies, both ways; headers and TLS come on top, some 1 kB a batch and request."""
    holder = 2 * oprf.POINT + oprf.PROOF / batch
    return {"a_key_holder": round(holder, 2), "hub": TAG + 4, "total": round(2 * holder + TAG + 4 + HEADER / batch, 2)}


def describe(result: dict[str, Any]) -> str:
    return (
        f"{result['sites']} sites of {result['words']:,} words ({result['padded']:,} with dummies): "
        f"{result['seconds']} s, {result['cpu_seconds']} s of CPU, {result['ms_cpu_a_word']} ms a word, all roles\n"
        f"{result['agreed']:,} words agreed on, {'the plain intersection' if result['equal'] else 'WRONG'}\n"
        f"peak memory {result['peak_memory_mb']} MB ({result['memory_before_mb']} MB before, words included)\n"
        f"bytes a word: {result['bytes']['a_key_holder']} to and from each key holder, {result['bytes']['hub']} hub, "
        f"{result['bytes']['total']} in all\n"
        f"one key holder with proofs / without: {result['proofs_ratio']} (CPU); "
        f"two threads / two processes: {result['threads_ratio']} (clock)"
    )
