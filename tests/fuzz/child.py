"""One process that serves many cases: it makes them, reads them, and says what came of each, a line a case.

    in    {"reader": "counts", "seed": 1, "start": 0, "stop": 500}      or {"reader": "counts", "file": "/…/found"}
    out   {"number": 0, "outcome": "refused", "milliseconds": 3}        begun before it is read: {"number": 0}

It bounds its own memory; the parent bounds its time and sees how it ended.
"""

import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

ADDRESSES = 24 << 30  # bytes of addresses: libraries reserve more than they use
GROWTH = 400 << 20  # bytes of memory that the cases of a process may add to what its libraries took


class Honest:
    """A folder as it was made; what a case changed in it is put back, which is quicker than a copy a case."""

    def __init__(self, folder: Path):
        self.folder = folder
        paths = [path for path in folder.rglob("*") if path.is_file()]
        self.content = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        self.seen = {name: stamp(folder / name) for name in self.content}

    def restore(self) -> None:
        for name, data in self.content.items():
            path = self.folder / name
            if stamp(path) != self.seen[name]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                path.write_bytes(data)
                self.seen[name] = stamp(path)


def stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from fuzz.mutate import mutated
    from fuzz.reader import WORD
    from fuzz.readers import READERS
    from pathveil.errors import PathveilError

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    said = os.fdopen(os.dup(1), "w")
    home = Path(tempfile.mkdtemp(prefix="pathveil-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    noise = (home / "stderr").open("w+b")  # what libraries say themselves is looked at as well
    os.dup2(noise.fileno(), 1)
    os.dup2(noise.fileno(), 2)
    honest: dict[str, Honest] = {}

    def tell(**content: object) -> None:
        said.write(json.dumps(content) + "\n")
        said.flush()

    def attempt(name: str, data: bytes) -> tuple[str, str]:
        reader, folder = READERS[name], honest[name].folder
        honest[name].restore()
        (folder / reader.target).write_bytes(data)
        noise.seek(0)
        noise.truncate()
        try:
            reader.read(folder)
            outcome, message = "accepted", ""
        except PathveilError as error:
            outcome, message = "refused", str(error)
        except MemoryError:
            return "memory", "".join(traceback.format_exc(limit=-3))
        except BaseException as error:
            return "exception", f"{type(error).__name__}: " + "".join(traceback.format_exc(limit=-3))[-1500:]
        noise.seek(0)
        if WORD in (message + noise.read().decode(errors="replace")).lower():
            return "leak", message[:300]
        if len(message) > 1500 or "Traceback" in message:
            return "exception", "a message that is no sentence: " + message[:300]
        return outcome, ""

    def prepare(name: str) -> bytes:
        if name not in honest:
            folder = home / f"honest-{len(honest)}"
            folder.mkdir()
            READERS[name].make(folder)
            honest[name] = Honest(folder)
            outcome, why = attempt(name, honest[name].content[READERS[name].target])
            assert outcome == "accepted", (name, outcome, why)
        return honest[name].content[READERS[name].target]

    try:
        for line in sys.stdin:
            asked = json.loads(line)
            name = asked["reader"]
            try:
                seed = prepare(name)
            except BaseException as error:
                tell(broken="".join(traceback.format_exception(error)))
                raise
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for number in range(asked["start"], asked["stop"]):
                if "file" in asked:
                    data = Path(asked["file"]).read_bytes()
                else:
                    data = mutated(seed, READERS[name].kind, random.Random(f"{asked['seed']} {name} {number}"))
                tell(number=number)
                began = time.monotonic()
                outcome, why = attempt(name, data)
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                if (peak - before) * 1024 > GROWTH:
                    outcome, why, before = "memory", f"{(peak - before) >> 10} MiB more than before", peak
                tell(number=number, outcome=outcome, why=why, milliseconds=round(1000 * (time.monotonic() - began)))
            tell(done=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
