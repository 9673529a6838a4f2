"""Two or more things timed alternately in one process: what a noisy machine does to one, it does to the other."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping

from pathveil.progress import Progress


def alternate(
    things: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    stage: str,
    progress: Progress,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each, over ``rounds`` of one run each; by `time.process_time` for work on one core."""
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for number in range(rounds):
        for place, (name, thing) in enumerate(things.items()):
            gc.collect()
            start = clock()
            thing()
            seconds[name].append(clock() - start)
            progress(stage, number * len(things) + place + 1, rounds * len(things))
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_rss() -> int:
    """Bytes of memory this process has ever held (Linux)."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def rss() -> int:
    """Bytes of memory this process holds now (Linux)."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))
