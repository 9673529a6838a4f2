"""A site's side of a run: it takes the hub's questions and gives its gate's answers. It knows no transport.

Its folder, inside the site's kit, holds the private part and never leaves:

    runs/<run>/state-<round>.safetensors   the last two states, to go on from after a kill
    runs/<run>/agreed.json                 the sites' document counts, from which all that the hub may ask follows
    runs/<run>/updates.json                how many updates have left the site, for the privacy loss of their noise
    runs/<run>/model/                      at the end: private.safetensors, shared.safetensors, plan.json, scores.json
    runs/<run>/bundle/                     and the site's own model for predict, evaluate and audit
"""

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from pathveil.errors import FederationError
from pathveil.federation import wire
from pathveil.federation.identity import Identity
from pathveil.federation.lessons import taught_at_home
from pathveil.federation.protocol.course import Exchange, weight_in
from pathveil.federation.protocol.guard import Guard
from pathveil.federation.protocol.masked import SiteMasks, byte_manifest
from pathveil.federation.protocol.message import UPDATES, Message, outgoing
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.protocol.site_work import NOTHING, PlainWork, SharedWork, contribution
from pathveil.files import new_file, read_json, write_json, write_text
from pathveil.formatting import counted
from pathveil.rng import Seed
from pathveil.training import checkpoint
from pathveil.training.metrics import evaluate
from pathveil.untrusted.tensors import written
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.words import Vocabulary

log = logging.getLogger(__name__)
KEPT = 2  # states on disk: the hub may be one behind


class SiteRun:
    """One run at a site."""

    def __init__(
        self,
        plan: Plan,
        reports: EncodedCorpus,
        *,
        name: str,
        session: str,
        folder: Path,
        device: str = "cpu",
        words: Vocabulary | None = None,  # to make a bundle with
        secret: Seed | None = None,  # of the site's batches in this run; None: the plan's seed decides
        least: int = 1,  # cases in a batch: a plan that allows fewer is refused
        identity: Identity | None = None,  # signs this process's key, where answers are masked
    ):
        self.plan, self.name, self.session, self.folder = plan, name, session, folder / plan.run
        self.reports, self.words, self.device = reports, words, device
        if plan.settings.smallest_batch < least:
            raise wire.PlanError(
                f"the plan allows batches of {counted(plan.settings.smallest_batch, 'case')}, and this site takes part "
                f"from {least} on (--smallest-batch); agree on --set smallest_batch={least}"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        taught = taught_at_home(
            reports,
            plan.settings,
            seed=plan.seed,
            registry=plan.sites.index(name),
            device=device,
            checkpoint=self.folder,
        )
        self.work: PlainWork | SharedWork = (
            PlainWork(plan.plain_site(taught, name, device, secret=secret))
            if plan.plain
            else SharedWork(plan.site(taught, name, device, secret=secret), plan.shared(device))
        )
        most = plan.documents.get(name, self.work.documents)
        if self.work.documents > most:
            raise wire.PlanError(
                f"this site trains on {self.work.documents} documents, and the plan says at most {most}; choose fewer "
                "reports, or agree on another plan"
            )
        self.guard = Guard(plan, name, documents=self.work.documents, folder=self.folder)
        self.masks = SiteMasks(plan, name, session=session, identity=identity) if plan.masked else None
        self.fingerprint = checkpoint.fingerprint_of(
            plan.model_dump(mode="json"), {"ids": reports.ids, "offsets": reports.offsets, "cases": reports.cases}
        )

    def hello(self) -> bytes:
        """The first message: how many documents the site trains on, which rounds it could go on from, and its key."""
        offer = self.masks.offer() if self.masks else {}
        return self.say({"documents": self.work.documents, "saved": self.saved()} | offer)

    def saved(self) -> list[int]:
        return sorted(int(path.stem.removeprefix("state-")) for path in self.folder.glob("state-*.safetensors"))

    def answer(self, question: Message) -> bytes:
        """Do what the hub asks, if it is what the plan says, and return what the gate lets through."""
        facts = question.facts
        exchange = self.guard.passed(facts, saved=self.saved())
        if self.masks and "keys" in facts:
            self.masks.agree(facts["keys"])
        if facts.get("resume"):
            self.resume(int(facts["from"]))
        if facts.get("keep"):
            self.work.keep()
        if facts.get("save"):
            self.save(int(facts["round"]))
        if self.masks and exchange.kind != "finish":
            return self.masked_answer(self.masks, exchange, question)
        said, arrays = self.work.answer(exchange, question.arrays)
        if exchange.kind in UPDATES:
            said |= {"updates": self.count()}
        if exchange.kind == "finish":
            self.release(question.arrays, kept=int(facts["kept"]))
        return self.say({"round": int(facts["round"])} | said, arrays, manifest=self.work.may_leave(exchange))

    def masked_answer(self, masks: SiteMasks, exchange: Exchange, question: Message) -> bytes:
        """This site's part of the sum that the hub asks for, masked."""
        masks.bind(question)
        number, moving = int(question.facts["round"]), self.work.may_leave(exchange)
        exponents = masks.exponents(question.facts.get("ranges"), moving)
        documents = weight_in(exchange, self.guard.weight)
        part = contribution(self.work, masks.sums, exchange, question.arrays, documents=documents, exponents=exponents)
        said = {"round": number} | ({"updates": self.count()} if exchange.kind in UPDATES else {})
        manifest = byte_manifest(self.plan, masks.sums, exchange.kind, moving)
        return self.say(said, masks.arrays(part, number), manifest=manifest, dtype=np.uint8)

    def say(
        self,
        facts: Mapping[str, Any],
        arrays: wire.Arrays | None = None,
        *,
        manifest: wire.Manifest = NOTHING,
        dtype: type[np.generic] = np.float32,
    ) -> bytes:
        """A message as the gate lets it through: with exactly the arrays of the manifest."""
        base = {"run": self.plan.run, "session": self.session}
        return outgoing(base | dict(facts), arrays or {}, manifest=manifest, sender=self.name, dtype=dtype)

    def count(self) -> int:
        """One more update is about to leave: its number, on disk before it does. A site that goes on from an earlier
        round sends that round's update again with other noise, and both have been seen."""
        path = self.folder / "updates.json"
        try:
            number = 1 + (read_json(path, error=FederationError)["updates"] if path.exists() else 0)
        except (FederationError, KeyError, TypeError):
            raise wire.GateError(f"{path}: does not tell how many updates have left; nothing was sent") from None
        self.guard.may_leave(number)
        write_json(path, {"updates": number})
        return number

    def save(self, number: int) -> None:
        tensors, content = self.work.state()
        path = self.folder / f"state-{number}.safetensors"
        checkpoint.save(path, tensors, fingerprint=self.fingerprint, content=content)
        keep = [old for old in self.saved() if old <= number][-KEPT:]
        for old in set(self.saved()) - set(keep):
            (self.folder / f"state-{old}.safetensors").unlink()

    def resume(self, number: int) -> None:
        found = checkpoint.load(self.folder / f"state-{number}.safetensors", fingerprint=self.fingerprint)
        if found is None:
            raise FederationError(f"{self.folder}: has no state of round {number}, which the hub goes on from")
        self.work.restore(*found)
        log.info("%s goes on from round %d", self.name, number)

    def release(self, shared: wire.Arrays, *, kept: int) -> None:
        """Leave the site's own model: its private part, the shared one, and its scores on its validation cases."""
        folder = self.folder / "model"
        folder.mkdir(exist_ok=True)
        files = {"shared.safetensors": shared} | self.work.private_files()
        for name, arrays in files.items():
            with new_file(folder / name) as part, written():
                plan = {"plan": self.plan.model_dump_json()}
                save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, part, metadata=plan)
        write_text(folder / "plan.json", self.plan.model_dump_json(indent=1) + "\n")
        (folder / "scores.json").write_text(
            json.dumps(scored(self.work.validation_logits(), self.reports.take(self.work.site.validate)), indent=1)
            + "\n",
            encoding="utf-8",
        )
        if self.words is not None:
            from pathveil.federation.join import (
                bundled,  # with all that trains a bundle, which a round needs nothing of
            )

            shutil.rmtree(self.folder / "bundle", ignore_errors=True)
            bundled(
                self.work.network(),
                self.work.validation_logits(),
                self.reports,
                held_out=self.work.site.validate,
                vocabulary=self.words,
                settings=self.plan.settings,
                histories=[],
                kept=kept,
                preset=f"{self.plan.mode} with {len(self.plan.sites)} sites, run {self.plan.run}",
                seed=self.plan.seed,
                device=self.device,
            ).save(self.folder / "bundle")
        log.info("%s: the run is finished; this site's model is in %s", self.name, self.folder)


def scored(logits: Mapping[str, np.ndarray], held: EncodedCorpus) -> dict[str, Any]:
    """Micro and macro F1 for each task on the site's validation cases: for the site's own eyes."""
    result: dict[str, Any] = {"validation documents": held.documents}
    for task, values in logits.items():
        labels = np.asarray(held.labels[task])
        if (labels >= 0).any():
            found = evaluate(labels, values.argmax(1), cases=held.cases, resamples=200)
            result[task] = {"micro": found.micro.as_dict(), "macro": found.macro.as_dict()}
    return result
