"""The administrator's side: hand a plan to the hub as a job, watch it, fetch what it leaves.

A job that ended because a site or the hub was lost is submitted again when all sites are back; the run goes on from its
last saved round (``protocol.hub_run``).
"""

import contextlib
import io
import logging
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pathveil.errors import FederationError, UsageError
from pathveil.federation.flare import policy
from pathveil.federation.flare.processes import check_kit
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.protocol.run_result import RunResult
from pathveil.files import check_writable, read_json, write_json, write_text
from pathveil.progress import Progress, silent

STARTING = 8  # half seconds before a job's processes can be expected to answer
FIRST_TRY = 5.0  # seconds before it is said that the hub does not answer
HUB_WAIT = 60.0  # seconds to try to reach a hub that was not heard of yet; one that was lost has as long as the sites


def write_job(plan: Plan, folder: Path, *, pause: float = 30.0, patience: float = 60.0) -> Path:
    """FLARE's job folder: names of our two classes and the plan; no code."""
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    server = {
        "format_version": 2,
        "server": {"task_request_interval": 0.5},
        "workflows": [{"id": "hub", "path": policy.HUB, "args": {"pause": pause, "patience": patience}}],
        "components": [],
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["train"], "executor": {"path": policy.SITE, "args": {}}}],
        "components": [],
    }
    meta = {
        "name": f"pathveil-{plan.run}",
        "resource_spec": {},
        "min_clients": len(plan.sites),
        "mandatory_clients": list(plan.sites),
        "deploy_map": {"app": ["server", *plan.sites]},
    }
    for path, content in (
        (config / "config_fed_server.json", server),
        (config / "config_fed_client.json", client),
        (folder / "meta.json", meta),
    ):
        write_json(path, content)
    write_text(config / "plan.json", plan.model_dump_json(indent=1) + "\n")
    return folder


def submit(
    kit: Path,
    plan: Plan,
    *,
    out: Path,
    pause: float = 30.0,
    patience: float = 60.0,
    attempts: int = 3,
    wait: float = 600.0,
    progress: Progress = silent,
    note: Callable[[str], None] = lambda line: None,
) -> RunResult:
    """Train as planned and put the released shared part and the run's account into ``out``."""
    check_kit(kit, "fed_admin.json", kind="person who submits")
    check_writable(out)  # said now, and not when the training is over
    from nvflare.fuel.flare_api.api_spec import InternalError, NoReply, SessionClosed

    # FLARE tells of every try to connect; what a person needs to know is said here, in sentences.
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    reason = ""
    for attempt in range(attempts):
        if attempt:
            note(f"{reason}; going on from the last saved round (attempt {attempt + 1} of {attempts})")
        hub_wait = wait if attempt else min(wait, HUB_WAIT)
        try:
            session = connect(kit, wait=hub_wait, patience=patience, note=note)
            result = one_job(
                session, plan, out=out, pause=pause, patience=patience, wait=wait, progress=progress, note=note
            )
        except Unreachable as error:
            if not attempt:
                raise
            reason = str(error)
        except Lost as error:
            reason = str(error)
        except (ConnectionError, SessionClosed, InternalError, NoReply):
            reason = "the hub could not be reached"
        else:
            if not result.stopped:
                return result
            reason = result.stopped
            if not result.again:
                raise FederationError(reason)
    raise FederationError(f"{reason}; nothing that was saved is lost: submit the same again to go on")


def one_job(
    session: Any,
    plan: Plan,
    *,
    out: Path,
    pause: float,
    patience: float,
    wait: float,
    progress: Progress,
    note: Callable[[str], None],
) -> RunResult:
    """One job from submission to its end: the run's account, with what it released in ``out`` if it is finished. Closes
    the session."""
    try:
        wait_for_sites(session, plan.sites, wait=wait, note=note)
        with tempfile.TemporaryDirectory() as folder:
            job = session.submit_job(str(write_job(plan, Path(folder) / "job", pause=pause, patience=patience)))
        note(f"job {job}: run {plan.run}")
        state, told = watch(session, job, progress=progress, note=note)
        with tempfile.TemporaryDirectory() as folder:
            found = sorted(Path(session.download_job_result(job, folder)).rglob("result/history.json"))
            if not found:
                raise Lost(f"the job ended without a result ({state})")
            result = RunResult.load(found[0])
            for line in result.refused[told:]:  # since the job was last asked
                note(f"refused: {line}")
            if result.finished:
                out.mkdir(parents=True, exist_ok=True)
                for path in found[0].parent.iterdir():
                    shutil.copyfile(path, out / path.name)
        return result
    finally:
        session.close()


class Unreachable(FederationError):
    """The hub does not answer."""


class Lost(FederationError):
    """A job ended without leaving anything."""


def connect(kit: Path, *, wait: float, patience: float = 60.0, note: Callable[[str], None]) -> Any:
    """A session with the hub; tries for ``wait`` seconds. A hub that leaves a question open for half a minute, or for
    twice as long as it waits for a site's sign of life, is lost."""
    from nvflare.fuel.flare_api.api_spec import AuthenticationError, NoConnection
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    own = read_json(kit / "startup" / "fed_admin.json")["admin"]
    name, hub = own["username"], f"{own['host']}:{own['port']}"
    end, told, answer = time.monotonic() + wait, False, min(30.0, 2 * patience)
    while True:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # FLARE prints
                timeout = min(wait, FIRST_TRY if not told else 30.0)
                return new_secure_session(name, str(kit.resolve()), timeout=timeout, command_timeout=answer)
        except AuthenticationError:
            raise UsageError(f"{kit}: the hub does not accept this kit; was it made for another federation?") from None
        except NoConnection:
            if not told:
                note(f"waiting for the hub at {hub}")
                told = True
            if time.monotonic() > end:
                raise Unreachable(
                    f"the hub could not be reached at {hub} for {wait:.0f} seconds: is it running, is the port open, "
                    "is this kit of its making?"
                ) from None
            time.sleep(2)


def wait_for_sites(session: Any, sites: tuple[str, ...], *, wait: float, note: Callable[[str], None]) -> None:
    """Until every site is connected."""
    end, told = time.monotonic() + wait, False
    while True:
        here = {client.name for client in session.get_system_info().client_info}
        missing = [site for site in sites if site not in here]
        if not missing:
            return
        if time.monotonic() > end:
            raise FederationError(f"{', '.join(missing)}: not connected; start it with 'pathveil federate site'")
        if not told:
            there = f" (connected: {', '.join(sorted(here))})" if here else " (none is connected yet)"
            note(f"waiting for {', '.join(missing)} to connect{there}")
            told = True
        time.sleep(1)


def watch(session: Any, job: str, *, progress: Progress, note: Callable[[str], None]) -> tuple[str, int]:
    """Follow a job to its end; how FLARE says it ended, and how many refusals were told."""
    from nvflare.fuel.flare_api.api_spec import InternalError, JobNotRunning, NoReply

    last: dict[str, Any] = {}
    told, running = 0, 0
    while True:
        state = session.get_job_status(job) or ""
        if state.startswith("FINISHED"):
            return state.removeprefix("FINISHED:").replace("_", " ").lower(), told
        running += state.startswith("RUNNING")
        if running > STARTING:
            # A job that is just starting or just ending has no one to ask; its state above says which.
            with contextlib.suppress(JobNotRunning, NoReply, InternalError, RuntimeError):
                last = session.do_app_command(job, policy.STATUS, {"ask": True}) or last
            if last.get("rounds"):
                progress("training over the network", last["round"], last["rounds"])
            for line in last.get("refused", [])[told:]:
                note(f"refused: {line}")
            told = max(told, len(last.get("refused", [])))
        time.sleep(0.5)
