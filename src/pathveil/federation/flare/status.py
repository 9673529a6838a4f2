"""How a federation is doing: what a kit's folder says on its own machine, and what the hub says to the administrator.

``federate status KIT`` for the person on duty, and ``--metrics`` for a monitoring system: the text form that Prometheus
and its textfile collector read. Numbers, run names and sites' names only.

>>> print(Status(kit="kits/north", kind="site", name="north", hub="hub.example.org:8002", certificate_days=12,
...              runs=[RunState(run="ab12", mode="strong", saved=40, updates=41)]).metrics())
# TYPE pathveil_certificate_days gauge
pathveil_certificate_days{kind="site",name="north"} 12
# TYPE pathveil_run_finished gauge
pathveil_run_finished{kind="site",name="north",run="ab12"} 0
# TYPE pathveil_run_saved_round gauge
pathveil_run_saved_round{kind="site",name="north",run="ab12"} 40
# TYPE pathveil_run_updates_total counter
pathveil_run_updates_total{kind="site",name="north",run="ab12"} 41
"""

import contextlib
import logging
import socket
import time
from pathlib import Path
from typing import Any

from pydantic import Field

from pathveil.errors import UsageError
from pathveil.federation.flare import policy
from pathveil.federation.flare.provision import needed
from pathveil.files import read_json
from pathveil.formatting import counted
from pathveil.results import Part, Result

KINDS = {"fed_server.json": "hub", "fed_client.json": "site", "fed_admin.json": "administrator"}
REACHED = 3.0  # seconds to open a connection in


class RunState(Part):
    """A run as a folder on this machine has it, or as the hub tells it while it runs."""

    run: str
    mode: str = ""
    finished: bool = False
    saved: int = -1  # the last round whose state is on disk; -1: none
    updates: int = 0  # that have left a site
    round: int = -1  # that is running; -1: none is, or it was not asked
    rounds: int = 0
    refused: int = 0
    stopped: str = ""

    def in_a_line(self) -> str:
        """The run in a line."""
        if self.rounds:
            where = f"round {self.round} of {self.rounds}"
        elif self.finished:
            where = "finished"
        else:
            where = f"saved at round {self.saved}" if self.saved >= 0 else "nothing saved yet"
        parts = [where, f"{counted(self.refused, 'refusal')}" if self.refused else "", self.stopped]
        return f"{self.run}{f' ({self.mode})' if self.mode else ''}: {', '.join(part for part in parts if part)}"


class Status(Result):
    """A kit and what belongs to it."""

    kit: str
    kind: str
    name: str
    hub: str
    certificate_days: int
    reachable: bool | None = None  # whether the hub's port answers; None: was not tried
    sites: dict[str, float] | None = None  # connected ones, and seconds since each was heard of; None: was not asked
    runs: list[RunState] = Field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        return [run.to_dict() for run in self.runs]

    def summary(self) -> str:
        lines = [f"{self.kit}: the {self.kind} {self.name} of the hub at {self.hub}"]
        days = counted(self.certificate_days, "day")
        lines.append(f"certificate: {f'ends in {days}' if self.certificate_days >= 0 else 'has ended'}")
        if self.reachable is not None:
            lines.append(f"hub: {'its port answers' if self.reachable else 'its port does not answer'}")
        if self.sites is not None:
            heard = [f"{site} ({seconds:.0f} s ago)" for site, seconds in sorted(self.sites.items())]
            lines.append(f"connected: {', '.join(heard) or 'no site'}")
        lines += [f"run {run.in_a_line()}" for run in self.runs] or ["no run yet"]
        return "\n".join(lines)

    def metrics(self) -> str:
        """For Prometheus."""
        own = {"kind": self.kind, "name": self.name}
        found: dict[tuple[str, str], list[tuple[dict[str, str], float]]] = {}

        def add(metric: str, kind: str, value: float, **labels: str) -> None:
            found.setdefault((metric, kind), []).append((own | labels, value))

        add("certificate_days", "gauge", self.certificate_days)
        if self.reachable is not None:
            add("hub_reachable", "gauge", self.reachable)
        for site, seconds in (self.sites or {}).items():
            add("site_heard_seconds", "gauge", round(seconds, 1), site=site)
        for run in self.runs:
            add("run_finished", "gauge", run.finished, run=run.run)
            add("run_saved_round", "gauge", run.saved, run=run.run)
            if self.kind == "site":
                add("run_updates_total", "counter", run.updates, run=run.run)
            if run.rounds:
                add("run_round", "gauge", run.round, run=run.run)
                add("run_rounds", "gauge", run.rounds, run=run.run)
                add("run_refused_total", "counter", run.refused, run=run.run)
        lines = []
        for (metric, kind), values in found.items():
            lines.append(f"# TYPE pathveil_{metric} {kind}")
            for labels, value in values:
                shown = ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
                lines.append(f"pathveil_{metric}{{{shown}}} {value if value % 1 else int(value)}")
        return "\n".join(lines)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def status(kit: Path, *, wait: float = 10.0) -> Status:
    """What a kit's folder says; of an administrator's, what the hub answers within ``wait`` seconds."""
    needed()
    from pathveil.federation.flare.certificates import days_left

    file = next((file for file in KINDS if (kit / "startup" / file).is_file()), None)
    if file is None:
        raise UsageError(f"{kit}: is not a kit; 'pathveil federate sign' or 'provision' makes one")
    try:
        name, hub = described(read_json(kit / "startup" / file), file)
    except (UsageError, ValueError, KeyError, TypeError, IndexError):
        raise UsageError(f"{kit / 'startup' / file}: is not as it was made; get the kit again") from None
    host, _, port = hub.rpartition(":")
    kind = KINDS[file]
    reachable = answers("127.0.0.1" if kind == "hub" else host, int(port))
    found = Status(kit=str(kit), kind=kind, name=name, hub=hub, certificate_days=days_left(kit), reachable=reachable)
    if kind != "administrator":
        return found.model_copy(update={"runs": runs_in(kit / "runs", site=kind == "site")})
    return found.model_copy(update=asked(kit, wait=wait)) if reachable else found


def described(content: dict[str, Any], file: str) -> tuple[str, str]:
    """A kit's name and its hub's address."""
    if file == "fed_admin.json":
        own = content["admin"]
        return str(own["username"]), f"{own['host']}:{own['port']}"
    target = str(content["servers"][0]["service"]["target"])
    return ("hub" if file == "fed_server.json" else str(content["client"]["fqsn"])), target


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=REACHED).close()
    except OSError:
        return False
    return True


def runs_in(folder: Path, *, site: bool) -> list[RunState]:
    """The runs that a hub's or a site's folder holds, the newest last."""
    found = sorted((path for path in folder.glob("*") if path.is_dir()), key=lambda path: path.stat().st_mtime)
    return [site_run_in(path) if site else hub_run_in(path) for path in found]


def site_run_in(folder: Path) -> RunState:
    saved = [int(path.stem.removeprefix("state-")) for path in folder.glob("state-*.safetensors")]
    return RunState(
        run=folder.name,
        mode=str(content_of(folder / "model" / "plan.json").get("mode", "")),
        finished=(folder / "model" / "scores.json").exists(),
        saved=max(saved, default=-1),
        updates=int(content_of(folder / "updates.json").get("updates", 0)),
    )


def hub_run_in(folder: Path) -> RunState:
    from pathveil.training import checkpoint

    account = content_of(folder / "result" / "history.json")
    state = folder / "hub.safetensors"
    found = checkpoint.load(state, fingerprint=folder.name) if state.exists() else None
    return RunState(
        run=folder.name,
        mode=str(account.get("mode", "")),
        finished=bool(account.get("finished")),
        saved=int(found[1]["round"]) if found else -1,
        refused=len(account.get("refused", [])),
        stopped=str(account.get("stopped", "")),
    )


def content_of(path: Path) -> dict[str, Any]:
    """A small JSON file; one that is not there or is being written is empty."""
    try:
        return read_json(path)
    except UsageError:
        return {}


def asked(kit: Path, *, wait: float) -> dict[str, Any]:
    """What the hub says: the sites that are connected, and the runs at work."""
    from nvflare.fuel.flare_api.api_spec import InternalError, JobNotRunning, NoReply

    from pathveil.federation.flare.submit import connect

    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    session = connect(kit, wait=wait, note=lambda line: None)
    try:
        info, now, runs = session.get_system_info(), time.time(), []
        for job in info.job_info:
            told: dict[str, Any] = {}
            with contextlib.suppress(JobNotRunning, NoReply, InternalError, RuntimeError):
                told = session.do_app_command(job.job_id, policy.STATUS, {"ask": True}) or {}
            if told:
                runs.append(
                    RunState(
                        run=told["run"],
                        finished=told["finished"],
                        round=told["round"],
                        rounds=told["rounds"],
                        refused=len(told["refused"]),
                        stopped=told["stopped"],
                    )
                )
        heard = {one.name: max(0.0, now - (one.last_connect_time or now)) for one in info.client_info}
        return {"sites": heard, "runs": runs}
    finally:
        session.close()
