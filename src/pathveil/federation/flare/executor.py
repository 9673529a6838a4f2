"""FLARE's side of a site: one long task, in which the site asks the hub for work and answers until the run ends.

The site asks, so an exchange is one round trip, and the site's process keeps its private part in memory between rounds.
What is sent is what the gate returned (``message.outgoing``), as bytes; FLARE sees no array, no label and no file.
"""

import logging
import os
import secrets
import threading
import time
from pathlib import Path

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.message import Message as Parcel

from pathveil.errors import CorpusError, FederationError, PathveilError
from pathveil.federation.flare import policy
from pathveil.federation.flare.policy import ALIVE, CHANNEL, TASK, TOPIC
from pathveil.federation.identity import Identity, check_roster
from pathveil.federation.protocol.message import Message, fault_of, outgoing, place, read
from pathveil.federation.protocol.plan import TWO, Plan, read_plan, read_reports
from pathveil.federation.protocol.secret import for_run, site_secret
from pathveil.federation.protocol.site_run import SiteRun
from pathveil.federation.wire import PlanError
from pathveil.files import read_json
from pathveil.vocabulary.words import Vocabulary

log = logging.getLogger(__name__)
TIMEOUT = 60.0  # seconds for an answer of the hub, which answers within 20 whatever happens
GIVE_UP = 300.0  # seconds without any answer
BEAT = 2.0  # seconds between two signs of life, which a site gives while it works


class SiteExecutor(Executor):
    """Runs at a site, by the site's own policy the only class that does."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        if task_name != TASK:
            return make_reply(ReturnCode.TASK_UNKNOWN)
        workspace, job = fl_ctx.get_engine().get_workspace(), fl_ctx.get_job_id()
        hub = HubConnection(fl_ctx, shareable["hub"], abort_signal)
        try:
            plan = read_plan(Path(workspace.get_app_config_dir(job)) / "plan.json")
        except PathveilError as error:
            log.error("%s", error)
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        name, session = fl_ctx.get_identity_name(), secrets.token_hex(8)
        hub.live()
        try:
            work(open_run(plan, name, session=session, root=Path(workspace.get_root_dir())), hub)
        except Exception as error:
            # The sentence stays in the site's log; of a foreign exception, whose message may quote data, only its kind.
            known = isinstance(error, PathveilError)
            log.error("%s", error if known else f"a defect of ours at this site: {place(error)}")
            facts = {"run": plan.run, "session": session, "fault": fault_of(error)}
            hub.ask(outgoing(facts, {}, manifest={}, sender=name))
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        finally:
            hub.over.set()
        return make_reply(ReturnCode.OK)


class HubConnection:
    """The hub as a site sees it: bytes out, bytes back."""

    def __init__(self, fl_ctx: FLContext, address: str, abort_signal: Signal):
        self.cell = fl_ctx.get_engine().get_cell()
        self.target, self.abort_signal = address, abort_signal
        self.over = threading.Event()

    def live(self) -> None:
        """Give signs of life in the background: empty messages."""

        def beat() -> None:
            while not self.over.wait(BEAT):
                self.cell.fire_and_forget(CHANNEL, ALIVE, self.target, Parcel(payload=b""), optional=True)

        threading.Thread(target=beat, daemon=True).start()

    def ask(self, data: bytes) -> Message:
        """Send, and again where no answer comes: the hub takes a message that it has had already once only."""
        end = time.monotonic() + GIVE_UP
        while time.monotonic() < end and not self.abort_signal.triggered:
            answer = self.cell.send_request(CHANNEL, TOPIC, self.target, Parcel(payload=data), TIMEOUT)
            if isinstance(answer.payload, bytes | bytearray | memoryview):
                return read(bytes(answer.payload), sender="the hub")
            time.sleep(1)
        if self.abort_signal.triggered:
            return Message({"end": True, "reason": "the job was stopped"})
        raise FederationError(f"the hub did not answer for {GIVE_UP:.0f} seconds")


def open_run(plan: Plan, name: str, *, session: str, root: Path) -> SiteRun:
    """The site's own reports in the plan's terms; where they are is a file of the site's."""
    together = os.environ.get(policy.SITES)
    try:
        path = Path(together) / f"{name}.json" if together else root / "local" / policy.SETTINGS
        settings = read_json(path, error=CorpusError)
    except CorpusError:
        raise CorpusError("this site was not told its corpus; start it with 'pathveil federate site'") from None
    if not together:
        check_roster(plan.sites, kit=root)
    if not (plan.masked or together or settings.get("unmasked")):
        raise PlanError(
            "the plan has no masks: the hub would see this site's updates by themselves; agree on one with masks "
            "(--set bits=32), or start this site with --allow-unmasked"
        )
    # The whole plan is compared, not its short name: whoever makes plans could make two of one name.
    if settings.get("plans") and plan.model_dump(mode="json") not in settings["plans"]:
        raise PlanError("the run is not of a plan that this site was told to take part in (--plan)")
    if plan.masked and len(plan.sites) == 2:
        log.warning("%s: %s", name, TWO)
    reports, dropped = read_reports(
        plan,
        name,
        corpus=[Path(path) for path in settings["corpus"]],
        vocabulary=Path(settings["vocabulary"]),
        registries=settings["registries"],
    )
    # Sites that share a machine, as in the simulator, have nothing to hide from each other or the hub.
    secret = None if together else for_run(site_secret(root), plan.run)
    log.info("%s: run %s, %d reports", name, plan.run, reports.documents)
    if dropped:
        log.warning("%s: %d labels are not among the agreed classes and count as missing", name, dropped)
    return SiteRun(
        plan,
        reports,
        name=name,
        session=session,
        folder=root / "runs",
        device=settings.get("device", "cpu"),
        words=Vocabulary.load(Path(settings["vocabulary"])),
        secret=secret,
        least=settings.get("smallest_batch", 1),
        identity=None if together else Identity.of_kit(root),
    )


def work(site_run: SiteRun, hub: HubConnection) -> None:
    """Ask and answer until the run ends."""
    data = site_run.hello()
    while True:
        question = hub.ask(data)
        facts = question.facts
        if facts.get("end"):
            log.info("%s: the run ended%s", site_run.name, f": {facts['reason']}" if facts.get("reason") else "")
            return
        if "refused" in facts:
            raise FederationError(f"the hub refused: {facts['refused']}")
        data = site_run.say({"waiting": True}) if facts.get("wait") else site_run.answer(question)
