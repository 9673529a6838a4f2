"""FLARE's side of the hub: one task to all sites, then answers to their messages until the run ends."""

import logging
import shutil
import time
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message as Parcel
from nvflare.private.defs import CellMessageHeaderKeys

from pathveil.federation.flare.policy import ALIVE, CHANNEL, STATUS, TASK, TOPIC
from pathveil.federation.identity import Trust
from pathveil.federation.protocol.hub_run import HubRun
from pathveil.federation.protocol.message import Message, write
from pathveil.federation.protocol.plan import read_plan
from pathveil.federation.protocol.run_result import write_run

log = logging.getLogger(__name__)


class HubController(Controller):
    """Runs at the hub, by the hub's own policy the only class that does."""

    def __init__(self, pause: float = 30.0, patience: float = 60.0):
        super().__init__()
        self.pause, self.patience = pause, patience
        self.hub_run: HubRun | None = None

    def start_controller(self, fl_ctx: FLContext) -> None:
        engine, job = fl_ctx.get_engine(), fl_ctx.get_job_id()
        workspace = engine.get_workspace()
        plan = read_plan(Path(workspace.get_app_config_dir(job)) / "plan.json")
        self.run_dir = Path(workspace.get_run_dir(job))
        kit = Path(workspace.get_root_dir())
        self.hub_run = HubRun(plan, folder=kit / "runs", pause=self.pause, trust=Trust.of_kit(kit))
        engine.get_cell().register_request_cb(channel=CHANNEL, topic=TOPIC, cb=self.reply)
        engine.get_cell().register_request_cb(channel=CHANNEL, topic=ALIVE, cb=self.alive)
        engine.register_app_command(STATUS, self.status)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        run = self.hub_run
        assert run is not None
        log.info("run %s (%s) for %s", run.plan.run, run.plan.mode, ", ".join(run.plan.sites))
        task = Shareable({"hub": fl_ctx.get_engine().get_cell().get_fqcn()})  # where sites are to send
        self.broadcast(Task(name=TASK, data=task), fl_ctx, targets=list(run.plan.sites), min_responses=0)
        while not (run.finished or run.stopped or abort_signal.triggered):
            time.sleep(0.2)
            lost = run.silent(self.patience)
            if lost:
                run.stop(f"{', '.join(lost)}: not heard of for {self.patience:.0f} seconds", again=True)
        if abort_signal.triggered:
            run.stop("the job was stopped", again=True)
        time.sleep(1)  # sites that wait for an answer get to hear that the run is over
        if run.finished:
            shutil.copytree(run.folder / "result", self.run_dir / "result", dirs_exist_ok=True)
            log.info("run %s is finished", run.plan.run)
        else:
            write_run(self.run_dir / "result", run.plan, run.result())
            self.system_panic(run.stopped, fl_ctx)

    def reply(self, request: Parcel) -> Parcel:
        """A site's message: the sender is the one whose certificate FLARE checked, not one it says it is."""
        site, data = sender(request), request.payload
        if self.hub_run is None or not site or not isinstance(data, bytes | bytearray | memoryview):
            answer = write(Message({"refused": "not a message of a site of this run"}))
        else:
            answer = self.hub_run.exchange(site, bytes(data))
        reply = make_reply(ReturnCode.OK)
        reply.payload = answer
        return reply

    def alive(self, request: Parcel) -> Parcel:
        if self.hub_run is not None:
            self.hub_run.alive(sender(request))
        return make_reply(ReturnCode.OK)

    def status(self, topic: str, data: Any, fl_ctx: FLContext, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self.hub_run.status() if self.hub_run else {}

    def stop_controller(self, fl_ctx: FLContext) -> None:
        if self.hub_run and not self.hub_run.finished:
            self.hub_run.stop("the job was stopped")

    def process_result_of_unknown_task(self, *args: Any, **kwargs: Any) -> None:
        """A site that answers after the run ended; there is nothing to take."""


def sender(request: Parcel) -> str:
    """The site a message comes from; empty where the signed name is another than the address."""
    site = FQCN.split(request.get_header(MessageHeaderKey.ORIGIN))[0]
    return site if request.get_header(CellMessageHeaderKeys.CLIENT_NAME) in (None, site) else ""
