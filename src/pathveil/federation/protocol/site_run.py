"""A site at work in a run: takes the hub's questions and gives its gate's answers. Knows no transport.

Its folder, inside the site's kit, holds the private part and never leaves:

    runs/<run>/state-<round>.safetensors   the last two states, to go on from after a kill
    runs/<run>/updates.json                how many updates have left the site, for the privacy loss of their noise
    runs/<run>/model/                      at the end: private.safetensors, shared.safetensors, plan.json, scores.json
    runs/<run>/bundle/                     and the site's own model for predict, evaluate and audit
"""

import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from torch import Tensor

from pathveil.errors import FederationError
from pathveil.federation import wire
from pathveil.federation.hub import load, steps_of
from pathveil.federation.join import bundled
from pathveil.federation.protocol.course import under
from pathveil.federation.protocol.message import UPDATES, Message, outgoing
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.site import EMBEDDING, Turn, moved, shared_features
from pathveil.model import MTCNN
from pathveil.model.shared_private import merged
from pathveil.training import checkpoint
from pathveil.training.metrics import evaluate
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.words import Vocabulary

log = logging.getLogger(__name__)
KEPT = 2  # states on disk: the hub may be one behind
NOTHING: wire.Manifest = {}


class SiteRun:
    """One site's state in one run."""

    def __init__(
        self,
        plan: Plan,
        reports: Encoded,
        *,
        name: str,
        session: str,
        folder: Path,
        device: str = "cpu",
        words: Vocabulary | None = None,  # to make a bundle with
    ):
        self.plan, self.name, self.session, self.folder = plan, name, session, folder / plan.run
        self.reports, self.words, self.device = reports, words, device
        self.folder.mkdir(parents=True, exist_ok=True)
        self.work = (PlainWork if plan.plain else SharedWork)(plan, reports, name, device)
        self.fingerprint = checkpoint.fingerprint_of(
            json.loads(plan.model_dump_json()), {"ids": reports.ids, "offsets": reports.offsets, "cases": reports.cases}
        )

    def hello(self) -> bytes:
        """The first message: how many documents the site trains on, and which rounds it could go on from."""
        return self.say({"documents": self.work.documents, "saved": self.saved()})

    def saved(self) -> list[int]:
        return sorted(int(path.stem.removeprefix("state-")) for path in self.folder.glob("state-*.safetensors"))

    def answer(self, question: Message) -> bytes:
        """Do what the hub asks and return what the gate lets through."""
        facts = question.facts
        if facts.get("resume"):
            self.resume(int(facts["from"]))
        if facts.get("keep"):
            self.work.keep()
        if facts.get("save"):
            self.save(int(facts["round"]))
        said, arrays = self.work.do(facts, question.arrays)
        if facts["do"] in UPDATES:
            said |= {"updates": self.count()}
        if facts["do"] == "finish":
            self.release(question.arrays, kept=int(facts["kept"]))
        return self.say({"round": int(facts["round"])} | said, arrays, manifest=self.work.leaving(facts))

    def say(
        self, facts: Mapping[str, Any], arrays: wire.Arrays | None = None, *, manifest: wire.Manifest = NOTHING
    ) -> bytes:
        """A message as the gate lets it through: with exactly the arrays of the manifest."""
        base = {"run": self.plan.run, "session": self.session}
        return outgoing(base | dict(facts), arrays or {}, manifest=manifest, sender=self.name)

    def count(self) -> int:
        """One more update is about to leave: its number, on disk before it does. A site that goes on from an earlier
        round sends that round's update again with other noise, and both have been seen."""
        path = self.folder / "updates.json"
        try:
            number = 1 + (json.loads(path.read_text("utf-8"))["updates"] if path.exists() else 0)
        except (ValueError, KeyError, TypeError):
            raise FederationError(f"{path}: does not tell how many updates have left; nothing was sent") from None
        part = path.with_name("updates.part")
        with part.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"updates": number}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
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
        files = {"shared.safetensors": shared} | self.work.released()
        for name, arrays in files.items():
            save_file(
                {key: np.ascontiguousarray(array) for key, array in arrays.items()},
                folder / f"{name}.part",
                metadata={"plan": self.plan.model_dump_json()},
            )
            os.replace(folder / f"{name}.part", folder / name)
        (folder / "plan.json").write_text(self.plan.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (folder / "scores.json").write_text(
            json.dumps(scored(self.work.logits(), self.reports.take(self.work.site.validate)), indent=1) + "\n",
            encoding="utf-8",
        )
        if self.words is not None:
            shutil.rmtree(self.folder / "bundle", ignore_errors=True)
            bundled(
                self.work.whole(),
                self.work.logits(),
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


class SharedWork:
    """HubRun of the distribution paper's training, by ``Site``."""

    def __init__(self, plan: Plan, reports: Encoded, name: str, device: str):
        self.site, self.shared = plan.site(reports, name, device), plan.shared(device)
        self.manifest = wire.manifest_of(self.shared)
        self.documents = self.site.documents

    def leaving(self, facts: Mapping[str, Any]) -> wire.Manifest:
        """What may leave in answer to a question."""
        return moved(self.shared, self.site.settings, Turn(**facts["turns"][0])) if facts["do"] == "round" else NOTHING

    def do(self, facts: Mapping[str, Any], arrays: wire.Arrays) -> tuple[dict[str, Any], wire.Arrays]:
        site, turns = self.site, [Turn(**turn) for turn in facts["turns"]]
        again = bool(turns) and turns[0].again and EMBEDDING not in arrays  # the encoder is here already
        wire.check(arrays, wire.of_discriminator(self.manifest) if again else self.manifest, sender="the hub")
        load(self.shared, arrays)
        if not again:
            site.known = None  # was of another encoder
        if facts["do"] == "round":
            update = site.update(self.shared, turns)
            return {"documents": sum(len(site.rows(turn)) for turn in turns)}, update
        if facts["do"] == "close":
            (features,) = shared_features(self.shared, [site.held], device=site.device)
            loss, norm = site.validation_loss(self.shared, features=features), float(features.norm(dim=1).mean())
            return {"documents": site.documents, "loss": loss, "feature_norm": norm}, {}
        site.restore()
        return {}, {}

    def keep(self) -> None:
        self.site.keep()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"now.{name}": tensor for name, tensor in self.site.private.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.site.best.items()}
        tensors |= {f"steps.{name}": tensor for name, tensor in self.site.optimiser.state().items()}
        if self.site.settings.local_steps > 1:
            local = self.site.stepping(self.shared).encoder.state()
            tensors |= {f"local.{name}": tensor for name, tensor in local.items()}
        return tensors, {}

    def restore(self, tensors: dict[str, Tensor], content: Mapping[str, Any]) -> None:
        self.site.private.load_state_dict(under(tensors, "now."))
        self.site.best = under(tensors, "best.")
        self.site.optimiser.restore(under(tensors, "steps."))
        if self.site.settings.local_steps > 1:
            self.site.stepping(self.shared).encoder.restore(under(tensors, "local."))

    def released(self) -> dict[str, wire.Arrays]:
        arrays = {name: tensor.cpu().numpy() for name, tensor in self.site.private.state_dict().items()}
        return {"private.safetensors": arrays}

    def logits(self) -> dict[str, np.ndarray]:
        """Of the validation cases."""
        return self.site.logits(self.shared, self.site.held)

    def whole(self) -> MTCNN:
        """Both parts as one network."""
        settings = self.site.settings
        return merged(self.shared, self.site.private, dropout=settings.dropout, added_heads=settings.added_heads)


class PlainWork:
    """Epochs of one plain network, by ``PlainSite``."""

    def __init__(self, plan: Plan, reports: Encoded, name: str, device: str):
        self.site = plan.plain_site(reports, name, device)
        self.manifest = wire.manifest_of(self.site.model)
        self.documents = len(self.site.train)

    def leaving(self, facts: Mapping[str, Any]) -> wire.Manifest:
        return self.manifest if facts["do"] == "epoch" else NOTHING

    def do(self, facts: Mapping[str, Any], arrays: wire.Arrays) -> tuple[dict[str, Any], wire.Arrays]:
        wire.check(arrays, self.manifest, sender="the hub")
        self.site.load(arrays)
        if facts["do"] == "epoch":
            steps = steps_of([self.documents], self.site.settings.batch_size)
            self.site.epoch(int(facts["epoch"]), steps=steps)
            return {"documents": self.documents}, self.site.update(arrays)
        if facts["do"] == "close":
            return {"documents": self.documents, "loss": float(self.site.validation_loss())}, {}
        return {}, {}

    def keep(self) -> None:
        """The hub keeps the network; a site has nothing of its own."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {f"steps.{name}": tensor for name, tensor in self.site.optimiser.state().items()}, {}

    def restore(self, tensors: dict[str, Tensor], content: Mapping[str, Any]) -> None:
        self.site.optimiser.restore(under(tensors, "steps."))

    def released(self) -> dict[str, wire.Arrays]:
        return {}

    def logits(self) -> dict[str, np.ndarray]:
        return self.site.logits(self.site.reports.take(self.site.validate))

    def whole(self) -> MTCNN:
        return self.site.model


def scored(logits: Mapping[str, np.ndarray], held: Encoded) -> dict[str, Any]:
    """Micro and macro F1 a task on the site's validation cases: for the site's own eyes."""
    result: dict[str, Any] = {"validation documents": held.documents}
    for task, values in logits.items():
        labels = np.asarray(held.labels[task])
        if (labels >= 0).any():
            found = evaluate(labels, values.argmax(1), cases=held.cases, resamples=200)
            result[task] = {"micro": found.micro.as_dict(), "macro": found.macro.as_dict()}
    return result
