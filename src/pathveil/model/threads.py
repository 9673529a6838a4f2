"""Threads of our own, in each of which PyTorch uses one.

Loops compiled by numba and products run without the interpreter's lock, so Python threads share work well; alternating
between PyTorch's pool and another would let each pool's idle threads spin while the other works. ``spread`` divides one
piece of work, ``side_by_side`` does several at once: a step of a small network keeps two cores busy only in part, two
networks keep both busy all the time.

>>> side_by_side([lambda: 1, lambda: 2, lambda: 3])
[1, 2, 3]
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Barrier, Event, Lock, local
from typing import Any, TypeVar

import numpy as np
import torch

Answer = TypeVar("Answer")

POOLS: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by size and by lane
MAKING = Lock()
LANE = local()  # ``number``: which of the jobs side by side this thread works for, from 1


def threads() -> int:
    return torch.get_num_threads()


def use_threads(number: int) -> None:
    """Have PyTorch use so many in the thread that calls this, and keep to it."""
    torch.get_num_threads()  # a thread that is asked first keeps what it is told; else the first product undoes it
    torch.set_num_threads(number)


def evenly(total: int, parts: int) -> list[tuple[int, int]]:
    """The range 0 to ``total`` cut into equal parts.

    >>> evenly(5, 2)
    [(0, 2), (2, 5)]
    """
    return list(itertools.pairwise(total * part // parts for part in range(parts + 1)))


def evenly_by(ends: np.ndarray, parts: int) -> list[tuple[int, int]]:
    """Ranges of documents (or words) with about equal shares of what lies between ``ends``.

    >>> evenly_by(np.array([0, 10, 11, 12, 20]), 2)
    [(0, 1), (1, 4)]
    """
    if parts == 1 and len(ends) > 1:
        return [(0, len(ends) - 1)]
    cuts = np.searchsorted(ends, np.linspace(ends[0], ends[-1], parts + 1)[1:-1])
    return list(itertools.pairwise(np.unique([0, *cuts, len(ends) - 1]).tolist()))


def spread(work: Callable[[Any], None], tasks: Iterable[Any]) -> None:
    """Call ``work`` for every task, on as many threads as PyTorch would use."""
    queue: Sequence[Any] = list(tasks)
    if threads() == 1 or len(queue) < 2:
        for task in queue:
            work(task)
        return
    remaining = iter(queue)

    def drain() -> None:
        for task in remaining:
            work(task)

    for worker in [pool(threads()).submit(drain) for _ in range(min(threads(), len(queue)))]:
        worker.result()


def pool(size: int) -> ThreadPoolExecutor:
    """Threads in each of which PyTorch itself uses one: a product inside a task must not start more."""
    key = size, getattr(LANE, "number", 0)
    with MAKING:
        if key not in POOLS:
            POOLS[key] = start_threads(size, each=1, lane=key[1])
            # PyTorch keeps the number for each thread, and the number last set anywhere for threads yet to come.
            torch.set_num_threads(size)
        return POOLS[key]


def start_threads(size: int, *, each: int, lane: int | None = None) -> ThreadPoolExecutor:
    """So many threads, in ``each`` of which PyTorch uses so many; in lanes of their own unless they share one."""
    workers, together = ThreadPoolExecutor(size, thread_name_prefix="pathveil"), Barrier(size)

    def begin(number: int) -> None:
        use_threads(each)
        LANE.number = number if lane is None else lane
        together.wait()  # so that each thread takes one of these, and none takes two

    for ready in [workers.submit(begin, number + 1) for number in range(size)]:
        ready.result()
    return workers


def side_by_side(jobs: Sequence[Callable[[], Answer]], *, stop: Event | None = None) -> list[Answer]:
    """The jobs' answers, in their order; as many jobs at once as PyTorch has threads, each with its share of them.

    A job that fails sets ``stop``, and so does an interruption: jobs that look at it end soon, those that wait never
    begin, and the failure is raised. Jobs begin in their order, so the longest should come first.
    """
    before, stop = threads(), stop or Event()
    at_once = min(before, len(jobs))
    if at_once < 2:
        return [job() for job in jobs]
    workers = start_threads(at_once, each=before // at_once)
    torch.set_num_threads(before)
    answers = [workers.submit(job) for job in jobs]
    try:
        wait(answers, return_when=FIRST_EXCEPTION)
        for answer in answers:
            if answer.done():
                answer.result()
        return [answer.result() for answer in answers]
    finally:
        stop.set()
        workers.shutdown(cancel_futures=True)
