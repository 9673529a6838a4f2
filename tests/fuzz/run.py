"""Fuzz every reader: ``make fuzz`` (or ``python tests/fuzz/run.py --cases 200000``).

Cases are spread over the readers and served by one child process, which is watched: a case that takes longer than its
seconds, ends the process, adds memory beyond a bound, raises anything but a sentence, or shows the planted word, is a
failure. Its bytes are written to ``--keep`` and, once mended, belong into ``tests/fuzz/found/<reader>/``, which the
suite reads again for ever.
"""

import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS = 15.0  # for one case, on a machine that does other things as well
START = 180.0  # for a child to load its libraries and make a seed
BATCH = 250  # cases asked for at a time


@dataclass(frozen=True)
class Failure:
    reader: str
    number: int
    outcome: str  # crash, hang, memory, exception, leak
    why: str


class Child:
    """The process that reads; started again when it ended."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE.parent)])}
        environment |= {
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
            "POLARS_MAX_THREADS": "1",
            "RUST_BACKTRACE": "0",
        }
        command = [sys.executable, str(HERE / "child.py")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.rest = b""

    def ask(self, **content: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(content).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, seconds: float) -> dict[str, Any] | None:
        """The next line, or none where it ended or took too long."""
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))
            piece = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not piece:
                return None
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def stop(self) -> int:
        """End it; its exit status, which is negative where a signal had ended it before."""
        try:
            status = self.process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = 0
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass
        return status


def fuzz(
    work: dict[str, range],
    counts: Counter[tuple[str, str]],
    failures: list[Failure],
    *,
    seed: int,
    note: Callable[[int, int], None] = lambda done, failed: None,
) -> None:
    """Serve the cases of each reader; outcomes are counted by (reader, outcome), and every failure is kept."""
    child = Child()
    try:
        for reader, numbers in turns(work):
            number = numbers.start
            while number < numbers.stop:
                child.ask(reader=reader, seed=seed, start=number, stop=numbers.stop)
                begun: int | None = None
                while True:
                    told = child.hear(START if begun is None else SECONDS)
                    if told is None:
                        status = child.stop()
                        kind = "crash" if status else "hang"
                        why = (
                            signal.Signals(-status).name
                            if status < 0
                            else f"exit {status}"
                            if status
                            else f"{SECONDS} s"
                        )
                        failures.append(Failure(reader, -1 if begun is None else begun, kind, why))
                        counts[reader, kind] += 1
                        number = (numbers.start if begun is None else begun) + 1
                        child = Child()
                        if begun is None:
                            raise SystemExit(f"{reader}: the child ended before its first case ({why})")
                        break
                    if "broken" in told:
                        raise SystemExit(f"{reader}: its seed is not read: {told['broken']}")
                    if "done" in told:
                        number = numbers.stop
                        break
                    begun = told["number"]
                    if "outcome" in told:
                        counts[reader, told["outcome"]] += 1
                        if told["outcome"] not in ("accepted", "refused"):
                            failures.append(Failure(reader, begun, told["outcome"], told["why"]))
            note(sum(counts.values()), len(failures))
    finally:
        child.stop()


def slow_texts(size: int = 1_000_000, most: float = 2.0) -> list[Failure]:
    """Texts made to take long that take more than so many seconds of a processor."""
    from fuzz.hostile import TEXTS, read

    failures = []
    for name, make in TEXTS.items():
        text = make(size)
        began = time.process_time()
        read(text)
        took = time.process_time() - began
        if took > most:
            failures.append(Failure(f"text of {name}", 0, "slow", f"{took:.1f} s"))
    return failures


def turns(work: dict[str, range]) -> Iterator[tuple[str, range]]:
    """A batch of every reader in turn, so that a run that is stopped early has looked at all of them."""
    left = dict(work)
    while left:
        for reader, numbers in list(left.items()):
            yield reader, range(numbers.start, min(numbers.start + BATCH, numbers.stop))
            left[reader] = range(numbers.start + BATCH, numbers.stop)
            if not left[reader]:
                del left[reader]


def share(cases: int, weight: dict[str, float], *, start: int = 0) -> dict[str, range]:
    """How many cases each reader gets."""
    unit = cases / sum(weight.values())
    return {name: range(start, start + max(round(unit * part), 1)) for name, part in weight.items()}


def case_bytes(reader: str, number: int, seed: int) -> bytes:
    """The bytes of a case, made again."""
    import tempfile

    from fuzz.mutate import mutated
    from fuzz.readers import READERS

    with tempfile.TemporaryDirectory() as folder:
        READERS[reader].make(Path(folder))
        honest = (Path(folder) / READERS[reader].target).read_bytes()
    return mutated(honest, READERS[reader].kind, random.Random(f"{seed} {reader} {number}"))


def main() -> None:
    sys.path.insert(0, str(HERE.parent))
    from fuzz.readers import READERS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="number of the first case of each reader")
    parser.add_argument("--only", nargs="*", default=None, metavar="READER")
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER", help="where failing files are put")
    given = parser.parse_args()
    chosen = {name: reader.weight for name, reader in READERS.items() if given.only is None or name in given.only}
    began = time.monotonic()

    def note(done: int, failed: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:,} cases, {failed} failures, {time.monotonic() - began:.0f} s", end="", file=sys.stderr)

    counts: Counter[tuple[str, str]] = Counter()
    failures = slow_texts() if given.only is None else []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # in the background ctrl-C is not heard
    try:
        fuzz(share(given.cases, chosen, start=given.start), counts, failures, seed=given.seed, note=note)
    except KeyboardInterrupt:
        print("stopped; what was tried until then:")

    outcomes = sorted({outcome for _, outcome in counts})
    print(f"{'reader':22}" + "".join(f"{outcome:>11}" for outcome in outcomes))
    for name in chosen:
        print(f"{name:22}" + "".join(f"{counts[name, outcome]:11,}" for outcome in outcomes))
    print(f"{'all':22}" + "".join(f"{sum(counts[name, o] for name in chosen):11,}" for o in outcomes))
    for failure in failures:
        print(f"\n{failure.reader} {failure.number}: {failure.outcome}\n{failure.why}")
        if given.keep is not None and failure.reader in chosen:
            folder = given.keep / failure.reader.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{given.seed}-{failure.number}").write_bytes(
                case_bytes(failure.reader, failure.number, given.seed)
            )
    print(f"\n{sum(counts.values()):,} cases in {time.monotonic() - began:.0f} s: {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
