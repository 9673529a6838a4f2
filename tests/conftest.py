"""What every room's tests share."""

import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("PATHVEIL_SHARED", ROOT.parent / "shared"))


# What a shell starts in the background ignores ctrl-C, and so does whatever is started from there; tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What a terminal or a CI service says about colours and widths is not what tests compare.
for name in ("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Tests assert correctness, never seconds: a busy machine is no failure. CI repeats the same examples.
settings.register_profile(
    "pathveil",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pathveil")


# The longest files, by processes that start; of two workers the first gets the first and third, so that no two
# federations start at once. They go first, and the doctests of the package last: both workers end together.
LONGEST = (
    "federation/flare/test_faults.py",
    "study/test_scheduler.py",
    "federation/flare/test_deployment.py",
    "cli/test_pipeline.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    """What a test draws without a generator of its own is the same in every run: a failure can be repeated."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def tcga() -> Path:
    """The TCGA reports, where they are there."""
    path = SHARED / "data" / "tcga_reports.parquet"
    if not path.exists():
        pytest.skip(f"needs the TCGA reports at {path} (set PATHVEIL_SHARED to the folder that holds data/)")
    return path


@pytest.fixture(scope="session")
def hl7_samples() -> Path:
    """The official NAACCR Volume V sample messages, where they are there."""
    path = SHARED / "data" / "hl7" / "naaccr_samples.txt"
    if not path.exists():
        pytest.skip(f"needs the NAACCR samples at {path} (set PATHVEIL_SHARED to the folder that holds data/)")
    return path


@pytest.fixture(scope="session")
def pathveil(inside):
    """Run the command line as a user would: ``pathveil("corpus", "check", path)`` → CompletedProcess. In this process,
    unless it is to have another environment or folder."""

    def call(*arguments: object, **options) -> subprocess.CompletedProcess:
        if not options:
            return inside(*arguments)
        command = [sys.executable, "-m", "pathveil", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=1800, **options)

    return call


@pytest.fixture(scope="session")
def inside():
    """A command in this process: much quicker than in a new one, which has polars, torch and numba to import first."""

    def call(*arguments: object) -> subprocess.CompletedProcess:
        from pathveil.cli import main

        out, error, code = io.StringIO(), io.StringIO(), 0
        threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
            patch.setattr(sys, "argv", ["pathveil", *map(str, arguments)])
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
        if threads is not None:
            sys.modules["torch"].set_num_threads(threads)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), error.getvalue())

    return call


def free_port() -> int:
    """A port for a server that is started later, and again after a kill. Not one of those that the system gives to
    outgoing connections: one of them may have it by then."""
    try:
        first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except OSError:
        first, last = 32768, 65535
    ports = [port for port in range(10_000, 65_536) if not first <= port <= last] or range(10_000, 65_536)
    while True:
        port = random.SystemRandom().choice(ports)  # another process of the suite is not to try the same ones
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@pytest.fixture(scope="module")  # while it is open its event loop runs, in which no other can be started
def browser():
    """A headless Chromium, where there is one."""
    import shutil

    from playwright.sync_api import Error, sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    quiet += ["--disable-dev-shm-usage"]  # a container's shared memory may be too small for a page
    with sync_playwright() as driver:
        try:
            found = driver.chromium.launch(
                executable_path=path,
                args=["--no-sandbox", "--headless=new", "--disable-gpu", *quiet],
                timeout=300_000,
            )
        except Error:
            pytest.skip("needs a browser: install Debian's chromium, or run 'playwright install chromium'")
        yield Browser(found)
        found.close()


class Browser:
    """A browser whose pages wait as long as a busy machine may need."""

    def __init__(self, found):
        self.found = found

    def new_page(self, **options):
        page = self.found.new_page(**options)
        page.set_default_timeout(300_000)
        return page


@pytest.fixture(scope="module")
def one_thread():
    """One thread here and in processes a test starts: for tiny models threads cost more than they give, and very much
    more on a busy machine."""
    import numba
    import torch

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        # Not Numba's own variable: once its threads run, the next compilation refuses another value of it.
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


@pytest.fixture
def cluster(tmp_path):
    """A Dask scheduler's address and its two workers, each a process of its own."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'pathveil[cluster]'")
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    quiet = {
        "env": os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    note = tmp_path / "scheduler.json"
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", note, "--nthreads", "1"]
    # By itself a worker takes a share of the memory that may be less than torch needs, and stops for good at that.
    options = ["--no-nanny", "--no-dashboard", "--memory-limit", "0", "--local-directory", tmp_path]
    processes = [subprocess.Popen([*start, "--no-dashboard", "--scheduler-file", note], **quiet)]
    try:
        while not written(note):
            assert processes[0].poll() is None, "the scheduler did not start"
            time.sleep(0.1)
        workers = [subprocess.Popen([*work, *options, "--name", str(number)], **quiet) for number in range(2)]
        processes += workers
        with distributed.Client(scheduler_file=str(note), timeout=300) as client:
            client.wait_for_workers(2, timeout=600)
            address = client.scheduler.address
        yield address, workers
    finally:
        for process in processes:
            process.kill()
            process.wait()


def written(path: Path) -> bool:
    """Whether a JSON file is there, to its end."""
    try:
        return bool(json.loads(path.read_text()))
    except (OSError, ValueError):
        return False
