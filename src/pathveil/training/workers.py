"""Where pure functions of an encoded corpus run: in this process, in several on this machine, or on a Dask cluster.

A crew is handed jobs, ``submit(function, corpus, *arguments)``, and gives back their results as they are finished, in
any order; more jobs may be submitted while results are read. ``share`` makes a corpus known to the workers once, not
once a job. Functions stand at the top level of a module and take and return what can be pickled, so that they are the
same wherever they run. A worker that dies costs the jobs it had in hand.

>>> import numpy as np
>>> from pathveil.vocabulary.encoded import EncodedCorpus
>>> corpus = EncodedCorpus(ids=np.array([2, 3], np.int32), offsets=np.array([0, 1, 2]), cases=np.array([0, 1]),
...     registries=np.array([0, 0]), registry_names=("R1",), labels={}, classes={}, vocabulary_size=4)
>>> def words(corpus, document):
...     return corpus.lengths[document].item()
>>> with crew() as workers:
...     shared = workers.share(corpus)
...     for document in range(2):
...         workers.submit(words, shared, document)
...     sorted(workers.results())
[1, 1]
>>> with crew(engine="dask"):
...     pass
Traceback (most recent call last):
pathveil.errors.UsageError: --engine dask needs --scheduler ADDRESS, such as tcp://node1:8786
"""

import os
import signal
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from multiprocessing import active_children, get_context, resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

import numpy as np

from pathveil.errors import MissingExtraError, UsageError
from pathveil.training.device import kind_of, take_device
from pathveil.vocabulary.encoded import EncodedCorpus

EngineName = Literal["local", "dask"]
CONNECT_TIMEOUT = "10s"
ATTEMPTS = 3  # at jobs whose workers died
MOST_PROCESSES = 16  # processes that are started unasked
PROCESS_MEMORY = 3 << 30  # bytes that a process which trains small models may come to need


class Crew(Protocol):
    """Whoever does the work."""

    def share(self, corpus: EncodedCorpus) -> Any:
        """A corpus that jobs can be given."""

    def submit(self, function: Callable[..., Any], corpus: Any, *arguments: Any, local: bool = False) -> None:
        """Have ``function(corpus, *arguments)`` run; ``local`` for a job that needs this machine's disk: such jobs
        read what others made, and go before those that wait."""

    def results(self) -> Iterator[Any]:
        """Results as they are finished, until no job is left."""


@contextmanager
def crew(
    *, engine: EngineName = "local", workers: int = 1, scheduler: str | None = None, devices: str = "cpu"
) -> Generator[Crew]:
    """The workers asked for, for as long as the block lasts; they take turns in taking one of several ``devices``."""
    several = devices.count(",") + 1
    if engine == "dask":
        if scheduler is None:
            raise UsageError("--engine dask needs --scheduler ADDRESS, such as tcp://node1:8786")
        with cluster(scheduler) as client:
            yield OnDask(client)
    elif scheduler is not None:
        raise UsageError("--scheduler goes with --engine dask")
    elif workers < several:
        raise UsageError(f"--workers {workers} leaves devices of '{devices}' idle; give at least {several}")
    elif workers > 1:
        with processes(workers, devices=devices) as pool:
            yield pool
    else:
        yield ThisProcess()


def usual_workers(device: str) -> int:
    """How many processes suit this machine: on a CPU one a core, as far as memory allows; on a GPU a few, so that
    one keeps it busy while another reads or attacks; on several devices so many for each."""
    if "," in device:
        several = device.count(",") + 1
        return several if kind_of(device) == "cpu" else several * usual_workers(kind_of(device))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if device != "cpu":
        return max(min(4, cores // 2), 1)
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        memory = PROCESS_MEMORY
    return max(min(cores, MOST_PROCESSES, memory // PROCESS_MEMORY), 1)


class ThisProcess:
    """This process does it all, a job at a time, in the order of submission."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def share(self, corpus: EncodedCorpus) -> EncodedCorpus:
        return corpus

    def submit(self, function: Callable[..., Any], corpus: Any, *arguments: Any, local: bool = False) -> None:
        job = (function, (corpus, *arguments))
        self.waiting.appendleft(job) if local else self.waiting.append(job)

    def results(self) -> Iterator[Any]:
        while self.waiting:
            function, arguments = self.waiting.popleft()
            yield function(*arguments)


def threads_of(workers: int) -> int:
    """How many threads each of so many processes has, so that together they have the cores."""
    return max((os.cpu_count() or 1) // workers, 1)


@contextmanager
def processes(workers: int, *, devices: str = "cpu") -> Generator["Processes"]:
    """A pool of processes that share one mapped copy of each corpus, the cores, and the devices."""
    threads = threads_of(workers)
    before = set(active_children())
    asked = os.environ.get("OMP_NUM_THREADS")
    # Read when a library is loaded, so by the processes to come and not by this one.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    context = get_context("spawn")
    started = context.Value("i", 0)
    pool = ProcessPoolExecutor(workers, context, _start_worker, (threads, os.getpid(), devices, workers, started))
    try:
        with TemporaryDirectory(prefix="pathveil-") as folder:
            yield Processes(pool, workers, Path(folder))
    finally:
        if asked is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = asked
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - before:  # none is busy, unless this block was left by an error
            child.terminate()


class Processes:
    """Several processes on this machine."""

    def __init__(self, pool: ProcessPoolExecutor, workers: int, folder: Path):
        self.pool, self.workers, self.folder = pool, workers, folder
        self.shared: list[EncodedCorpus] = []
        self.waiting: deque[tuple[Any, ...]] = deque()
        self.running: set[Future[Any]] = set()

    def share(self, corpus: EncodedCorpus) -> str:
        for number, known in enumerate(self.shared):
            if known is corpus:
                return str(self.folder / str(number))
        folder = self.folder / str(len(self.shared))
        self.shared.append(corpus)
        folder.mkdir()
        corpus.save(folder)
        return str(folder)

    def submit(self, function: Callable[..., Any], corpus: Any, *arguments: Any, local: bool = False) -> None:
        job = (function, corpus, arguments)
        self.waiting.appendleft(job) if local else self.waiting.append(job)

    def results(self) -> Iterator[Any]:
        while self.waiting or self.running:
            # The pool is first in, first out: it is given no more than keeps it busy, so that the order stays ours.
            while self.waiting and len(self.running) <= self.workers:
                with _dead_worker_as_a_sentence(), _control_c_waits():  # a job may start a process
                    self.running.add(self.pool.submit(_work, *self.waiting.popleft()))
            done, _ = wait(self.running, return_when=FIRST_COMPLETED)
            for future in done:
                self.running.discard(future)
                with _dead_worker_as_a_sentence():
                    result = future.result()
                yield result


@contextmanager
def _dead_worker_as_a_sentence() -> Generator[None]:
    """A pool whose worker died says so to whoever waits for a result, and to whoever brings the next job."""
    try:
        yield
    except BrokenProcessPool:
        raise UsageError(
            "a worker process died (out of memory?); what is finished is kept: start again, with fewer workers"
        ) from None


@contextmanager
def _control_c_waits() -> Generator[None]:
    """A terminal's ctrl-C reaches the whole group, but the parent decides: a process started in this block does not
    hear it from its first instruction on; this one hears it when the block ends."""
    resource_tracker.ensure_running()  # multiprocessing starts it with the first process, and then hears again
    heard: list[int] = []
    # Another thread, of a library's own, may take the signal, and Python would then interrupt the main thread at once.
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is not None:
        signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number in heard[:1]:
            signal.raise_signal(number)


def _start_worker(threads: int, parent: int, devices: str, workers: int, started: Any) -> None:
    """A worker's first act: its share of the cores and its device, and an end when its parent has gone."""
    os.environ["NUMBA_NUM_THREADS"] = str(threads)
    with started.get_lock():
        number, started.value = started.value, started.value + 1
    take_device(devices, number, workers=workers)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch

    torch.set_num_threads(threads)

    def follow() -> None:  # a parent that was killed cannot tell its workers to stop
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@lru_cache(maxsize=2)
def _opened(folder: str) -> EncodedCorpus:
    return EncodedCorpus.load(Path(folder))


def _work(function: Callable[..., Any], corpus: str, arguments: tuple[Any, ...]) -> Any:
    return function(_opened(corpus), *arguments)


class Scheduler(str):
    """The address of a Dask scheduler, with the certificates by which the two know each other, if it has any.

    Whoever may talk to a scheduler runs programs on its workers, and what travels is encoded reports. Between machines
    it is therefore reached by ``tls://``, with a certificate that the cluster's own authority has signed.
    """

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def at(
        cls, address: str | None, *, authority: Path | None, certificate: Path | None, key: Path | None
    ) -> "Scheduler | None":
        """What the options of a command say; those that do not go together are refused.

        >>> Scheduler.at("tcp://node1:8786", authority=None, certificate=None, key=None)
        'tcp://node1:8786'
        >>> Scheduler.at("tls://node1:8786", authority=None, certificate=None, key=None)
        Traceback (most recent call last):
        pathveil.errors.UsageError: a scheduler at tls:// needs --tls-ca, --tls-cert and --tls-key, the three of them
        """
        files = {"--tls-ca": authority, "--tls-cert": certificate, "--tls-key": key}
        given = [option for option, path in files.items() if path is not None]
        if given and (address is None or not address.startswith("tls://")):
            raise UsageError(f"{given[0]} goes with --scheduler tls://HOST:PORT")
        if address is None:
            return None
        if address.startswith("tls://") and len(given) < len(files):
            raise UsageError("a scheduler at tls:// needs --tls-ca, --tls-cert and --tls-key, the three of them")
        for path in files.values():
            if path is not None and not path.is_file():
                raise UsageError(f"{path}: there is no such file; expected a certificate or a key (PEM)")
        found = cls(address)
        found.authority, found.certificate, found.key = authority, certificate, key
        return found

    def security(self) -> Any:
        """What Dask is told: with certificates everything is encrypted, and both sides show theirs."""
        if self.authority is None:
            return None
        return import_module("distributed").Security(
            tls_ca_file=str(self.authority),
            tls_client_cert=str(self.certificate),
            tls_client_key=str(self.key),
            require_encryption=True,
        )


@contextmanager
def cluster(scheduler: str) -> Generator[Any]:
    """A client of a Dask cluster."""
    try:
        dask = import_module("distributed")
    except ImportError:
        raise MissingExtraError(package="dask", extra="cluster", purpose="--engine dask") from None
    try:
        security = scheduler.security() if isinstance(scheduler, Scheduler) else None
        client = dask.Client(str(scheduler), timeout=CONNECT_TIMEOUT, security=security)
    except (OSError, ssl.SSLError, ValueError):  # a certificate that is none is either of the latter
        raise UsageError(
            f"no Dask scheduler answers at {scheduler}; start one, or mend the address or the certificates"
        ) from None
    with client:
        yield client


class OnDask:
    """The workers of a Dask cluster; what a lost worker had in hand is sent again."""

    def __init__(self, client: Any):
        self.client, self.dask = client, import_module("distributed")
        self.this_process = ThisProcess()
        self.given: list[EncodedCorpus] = []
        self.corpora: list[EncodedCorpus] = []
        self.scattered: dict[int, Any] = {}
        self.running: dict[Any, tuple[Callable[..., Any], int, tuple[Any, ...], int]] = {}
        self.finished = self.dask.as_completed()

    def share(self, corpus: EncodedCorpus) -> int:
        for number, known in enumerate(self.given):
            if known is corpus:
                return number
        self.given.append(corpus)
        # Another machine cannot open this one's files.
        self.corpora.append(EncodedCorpus(**{name: _in_memory(value) for name, value in vars(corpus).items()}))
        return len(self.corpora) - 1

    def submit(self, function: Callable[..., Any], corpus: Any, *arguments: Any, local: bool = False) -> None:
        if local:
            self.this_process.submit(function, self.corpora[corpus], *arguments)
        else:
            self._send(function, corpus, arguments, attempt=1)

    def _send(self, function: Callable[..., Any], corpus: int, arguments: tuple[Any, ...], *, attempt: int) -> None:
        if corpus not in self.scattered:
            self.scattered[corpus] = self._scatter(self.corpora[corpus])
        future = self.client.submit(function, self.scattered[corpus], *arguments, pure=False)
        self.running[future] = function, corpus, arguments, attempt
        self.finished.add(future)

    def _scatter(self, corpus: EncodedCorpus) -> Any:
        """The corpus at every worker; one that dies while it is on its way closes the scheduler's answer, or is missing
        from the scheduler's list."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self.client.scatter(corpus, broadcast=True, hash=False)
            except (OSError, KeyError):  # a comm that was closed is the former
                if attempt == ATTEMPTS:
                    raise UsageError(
                        f"the corpus could not be sent to the workers: they died {ATTEMPTS} times; start again to go on"
                    ) from None
                time.sleep(2 ** (attempt - 1))

    def results(self) -> Iterator[Any]:
        lost = self.dask.scheduler.KilledWorker, self.dask.client.FutureCancelledError
        while self.running or self.this_process.waiting:
            yield from self.this_process.results()
            if not self.running:
                continue
            future = next(self.finished)
            function, corpus, arguments, attempt = self.running.pop(future)
            try:
                result = future.result()
            except lost:
                if attempt == ATTEMPTS:
                    raise UsageError(
                        f"a job was not finished: its workers died {ATTEMPTS} times (out of memory?); "
                        "what is finished is kept, start again to go on"
                    ) from None
                time.sleep(2 ** (attempt - 1))
                self.scattered.pop(corpus, None)  # it may have died with the worker
                self._send(function, corpus, arguments, attempt=attempt + 1)
                continue
            finally:
                future.release()
            yield result


def _in_memory(value: Any) -> Any:
    """A mapped array's contents."""
    if isinstance(value, np.ndarray):
        return np.array(value)
    if isinstance(value, Mapping):
        return {name: _in_memory(part) for name, part in value.items()}
    return value
