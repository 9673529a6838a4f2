"""The hub's side of a run: it gathers the sites' answers, takes them together, and tells each site what is next.

A site's message is answered with the next question, so an exchange costs one round trip. Messages are bound to a run, a
round and a process: one that is late, early or from a second process of the same site is refused and named; one that
was sent twice because an answer got lost is taken once. Knows no transport; calls may come from several threads.

With masks a round's answers say nothing one by one; ``masked`` reads their sum.

The state is saved on disk every ``pause`` seconds, when all sites have saved theirs of the same round. A hub or a site
that was killed goes on from there, and repeats at most the rounds of that time: to the same numbers, but where updates
have noise, for that is drawn anew. Each site counts the updates that have left it, and the privacy loss is of them all.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Any

from pathveil.errors import FederationError
from pathveil.federation.identity import Trust
from pathveil.federation.protocol.course import Exchange, course_of, most_sent, weighed
from pathveil.federation.protocol.masked import HubSum
from pathveil.federation.protocol.message import FAULTS, UPDATES, Message, heard, place, read, write
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.protocol.run_result import RunResult, write_run
from pathveil.training import checkpoint

log = logging.getLogger(__name__)
STARTING = 60.0  # seconds that a site's process may take until it is first heard of


class HubRun:
    """One run at the hub."""

    def __init__(
        self,
        plan: Plan,
        *,
        folder: Path,
        pause: float = 30.0,
        trust: Trust | None = None,  # whose certificates sites sign their keys with
    ):
        self.plan, self.folder, self.pause = plan, folder / plan.run, pause
        self.folder.mkdir(parents=True, exist_ok=True)
        self.course = course_of(plan)
        self.sum = HubSum(plan, trust=trust) if plan.masked else None
        self.changed = threading.Condition()
        self.sessions: dict[str, str] = {}
        self.hellos: dict[str, Message] = {}
        self.answers: dict[str, Message | None] = {}  # of the running round; None: refused
        self.answered = dict.fromkeys(plan.sites, -1)  # the last round each site answered
        self.asked = dict.fromkeys(plan.sites, -1)
        self.seen = dict.fromkeys(plan.sites, 0.0)  # when each site was last heard of
        self.exchanges: list[Exchange] = []
        self.round, self.resumed, self.keep = 0, -1, False
        self.saving, self.saved_at, self.began = False, time.monotonic(), time.monotonic()
        self.finished, self.stopped, self.again = False, "", False

    @property
    def path(self) -> Path:
        return self.folder / "hub.safetensors"

    def exchange(self, site: str, data: bytes, *, wait: float = 20.0) -> bytes:
        """Take a site's message and return its next question, or after ``wait`` seconds word to ask again.

        Whatever goes wrong here ends the run with a sentence: sites that got no answer would wait for ever.
        """
        with self.changed:
            try:
                self.take(site, read(data, sender=site))
            except FederationError as error:
                self.refuse(error)
                return write(Message({"refused": str(error)}))
            except Exception as error:
                self.fail(error)
            end = time.monotonic() + wait
            while not (self.stopped or self.ready(site)) and (left := end - time.monotonic()) > 0:
                self.changed.wait(left)
            self.seen[site] = time.monotonic()
            try:
                return self.question(site)
            except Exception as error:
                self.fail(error)
                return self.question(site)

    def refuse(self, error: FederationError) -> None:
        log.warning("refused: %s", error)
        self.course.history.refused.append(str(error))

    def fail(self, error: Exception) -> None:
        """Stop because of a defect or a full disk of the hub's own."""
        log.error("a defect of ours at the hub: %s", place(error))
        self.stop(f"the hub's program failed in round {self.round} ({type(error).__name__}); its own log says where")

    def take(self, site: str, message: Message) -> None:
        """Check that the message belongs here and now, and keep it."""
        facts = message.facts
        if site not in self.answered:
            raise FederationError(f"{site}: is not a site of this run")
        if facts.get("run") != self.plan.run:
            raise FederationError(f"{site}: sent something for another run")
        if self.sessions.setdefault(site, str(facts.get("session"))) != facts.get("session"):
            raise FederationError(f"{site}: a second process speaks for this site; it was refused")
        self.seen[site] = time.monotonic()
        if "fault" in facts:
            self.stop(f"{site}: {FAULTS.get(str(facts['fault']), 'it failed')}")
        elif "saved" in facts:
            self.greet(site, message)
        elif "waiting" in facts:
            heard(message, "waiting", sender=site)
        else:
            self.gather(site, message)

    def greet(self, site: str, message: Message) -> None:
        if site in self.hellos:
            if message.facts != self.hellos[site].facts:
                raise FederationError(f"{site}: greeted again with other numbers; refused")
            return  # sent again because our answer got lost
        try:
            heard(message, "hello", sender=site, masked=self.plan.masked)
            if self.sum:
                self.sum.check_offer(site, message)
            documents, most = message.facts["documents"], self.plan.documents.get(site)
            if not documents:
                raise FederationError(f"{site}: has no documents to train on")
            if most is not None and documents > most:
                raise FederationError(f"{site}: says it has {documents} documents, the plan at most {most}; refused")
        except FederationError as error:
            self.stop(str(error))  # without this site there is no run
            return
        self.hellos[site] = message
        if len(self.hellos) == len(self.plan.sites) and not self.exchanges:
            self.start()

    def start(self) -> None:
        """All sites are there: begin, or go on from the last state."""
        counts = self.counts()
        self.exchanges = self.course.exchanges(counts)
        found = checkpoint.load(self.path, fingerprint=self.plan.run)
        if found is not None:
            tensors, content = found
            if content["documents"] != counts:
                self.stop("a site has other reports than when the run began; begin a new run with another name")
                return
            for site in self.plan.sites:
                if content["round"] not in self.hellos[site].facts["saved"]:
                    self.stop(f"{site}: does not have its part of round {content['round']}; begin a new run")
                    return
            self.course.restore(tensors, content["course"])
            self.round = self.resumed = content["round"]
            self.keep = content["keep"]
            log.info("going on from round %d of %d", self.round, len(self.exchanges))
        else:
            log.info("%d sites, %d documents, %d rounds", len(counts), sum(counts), len(self.exchanges))
        self.plan_save()
        self.changed.notify_all()

    def counts(self) -> list[int]:
        """How many documents each site says it has."""
        return [int(self.hellos[site].facts["documents"]) for site in self.plan.sites]

    def gather(self, site: str, message: Message) -> None:
        told = message.facts.get("round")
        if type(told) is not int:
            raise FederationError(f"{site}: does not say which round it answers; refused")
        if told == self.answered[site]:
            return  # sent again because our answer got lost
        exchange = self.exchanges[self.round] if self.round < len(self.exchanges) else None
        place = self.plan.sites.index(site)
        if exchange is None or told != self.round or self.asked[site] != self.round or place not in exchange.who:
            raise FederationError(f"{site}: answered round {told}, but round {self.round} is running; refused as stale")
        self.answered[site], self.answers[site] = self.round, message
        try:
            heard(message, exchange.kind, sender=site, masked=self.plan.masked)
            if self.sum and exchange.kind != "finish":
                self.sum.check(site, message, exchange.kind, self.course.moving(exchange))
        except FederationError as error:
            self.refuse(error)
            self.answers[site] = None  # the round goes on without it
            if self.sum:
                self.stop(f"{error}; a masked round needs every site's part, so the run ends here")
                return
        if len(self.answers) == len(exchange.who):
            self.combine(exchange)

    def combine(self, exchange: Exchange) -> None:
        """Every answer of the round is there."""
        if self.saving:
            self.save()  # before the answers count: the sites saved their part before they worked on them
        before = len(self.course.history.refused)
        answers = [
            (site, weighed(self.course, exchange, place, message))
            for place, site in enumerate(self.plan.sites)
            if (message := self.answers.get(site)) is not None
        ]
        self.answers = {}
        try:
            if not answers and exchange.kind in (*UPDATES, "close"):
                raise FederationError(
                    f"no site sent a usable answer in round {self.round}: "
                    + "; ".join(self.course.history.refused[-len(exchange.who) :])
                )
            if self.sum and exchange.kind != "finish":
                history = self.course.history
                history.updates = most_sent(history, answers)
                self.keep = self.course.take_sum(exchange, self.sum.total(self.course, exchange, answers))
            else:
                self.keep = self.course.take(exchange, answers)
        except FederationError as error:
            if self.sum:
                self.refuse(error)
            self.stop(str(error))
            return
        for line in self.course.history.refused[before:]:
            log.warning("refused: %s", line)
        if exchange.kind == "close":
            loss = self.course.history.validation_loss[-1]
            log.info("epoch %d of %d: validation loss %.4f", exchange.epoch + 1, self.plan.settings.epochs, loss)
        self.round += 1
        if self.round == len(self.exchanges):
            self.release()
        else:
            self.plan_save()
        self.changed.notify_all()

    def plan_save(self) -> None:
        """Whether the sites are to save before they work on the coming round."""
        exchange = self.exchanges[self.round]
        due = time.monotonic() - self.saved_at >= self.pause or exchange.kind == "finish"
        self.saving = due and self.course.settled(exchange)

    def save(self) -> None:
        tensors, course = self.course.state()
        content = {"round": self.round, "keep": self.keep, "documents": self.counts(), "course": course}
        checkpoint.save(self.path, tensors, fingerprint=self.plan.run, content=content)
        self.saved_at = time.monotonic()

    def ready(self, site: str) -> bool:
        """Whether there is a question this site has not answered."""
        if self.finished:
            return True
        if not self.exchanges or self.answered[site] == self.round:
            return False
        return self.plan.sites.index(site) in self.exchanges[self.round].who

    def question(self, site: str) -> bytes:
        if self.stopped or self.finished:
            return write(Message({"end": True, "reason": self.stopped}))
        if not self.ready(site):
            return write(Message({"wait": True}))
        exchange = self.exchanges[self.round]
        first = self.answered[site] < 0 and self.resumed >= 0
        facts = {"round": self.round, "keep": self.keep, "save": self.saving, "kept": self.course.best_epoch.number}
        facts |= exchange.facts() | {"counts": self.counts()}  # by which a site knows what it will be asked
        if self.sum and exchange.kind != "finish":
            facts |= {"ranges": self.course.exponents(exchange)}
            if self.answered[site] < 0:
                facts |= {"keys": self.sum.offers(self.hellos)}
        if first:  # in a cyclic run this may be a later round than the one the run goes on from
            facts |= {"resume": True, "from": self.resumed}
        self.asked[site] = self.round
        # Who has answered nothing in this session may have nothing.
        return write(Message(facts, self.course.arrays(exchange, whole=self.answered[site] < 0)))

    def stop(self, reason: str, *, again: bool = False) -> None:
        """End the run here; what was saved is kept. ``again``: trying again may help."""
        with self.changed:
            if not self.stopped and not self.finished:
                self.stopped, self.again = reason, again
                log.warning("stopped: %s", reason)
            self.changed.notify_all()

    def alive(self, site: str) -> None:
        """A sign of life of a site at work."""
        if site in self.seen:
            self.seen[site] = time.monotonic()

    def silent(self, patience: float) -> list[str]:
        """Sites that were not heard of for so long; at the start they have a minute more."""
        now = time.monotonic()
        return [site for site, seen in self.seen.items() if now - (seen or self.began + STARTING) > patience]

    def status(self) -> dict[str, Any]:
        """For whoever watches: numbers and names of sites only."""
        with self.changed:
            history = self.course.history
            return {
                "run": self.plan.run,
                "round": self.round,
                "rounds": len(self.exchanges),
                "waiting_for": [site for site in self.plan.sites if site not in self.hellos],
                "validation_loss": list(history.validation_loss),
                "refused": list(history.refused),
                "stopped": self.stopped,
                "finished": self.finished,
            }

    def result(self, *, finished: bool = False) -> RunResult:
        """The account of the run so far."""
        history = self.course.history
        known = [site for site in self.plan.sites if site in self.hellos]
        return RunResult(
            run=self.plan.run,
            mode=self.plan.mode,
            finished=finished or self.finished,
            stopped=self.stopped,
            again=self.again,
            documents={site: int(self.hellos[site].facts["documents"]) for site in known},
            best_epoch=self.course.best_epoch.number,
            validation_loss=history.validation_loss,
            feature_norm=history.feature_norm,
            epsilon=history.epsilon,
            delta=self.plan.settings.delta,
            rounds=history.rounds,
            updates=history.updates,
            bytes_to_sites=history.sent,
            bytes_to_hub=history.received,
            refused=history.refused,
            resumed_at=self.resumed,
            seconds=round(time.monotonic() - self.began, 2),
            bits=self.plan.settings.bits,
            clipped=history.clipped,
        )

    def release(self) -> None:
        """Leave the shared parameters of the best epoch and the account of the run."""
        result, arrays = self.result(finished=True), self.course.arrays(self.exchanges[-1])
        write_run(self.folder / "result", self.plan, result, arrays)
        self.finished = True
