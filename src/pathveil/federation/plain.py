"""The modes that the shared/private network is compared with: one plain multitask CNN, trained in four ways.

- ``single``: each registry alone.
- ``centralized``: one model on everybody's reports, the upper bound that privacy forbids.
- ``fedavg``: every site trains a copy for a while, the hub averages all parameters (McMahan et al. 2017).
- ``cyclic``: one model travels from site to site and is trained a while at each (Chang et al. 2018).

All see the same documents the same number of times, with the same network, optimiser and seeds, and keep the best epoch
by the validation cases, which are the same in every mode.
"""

from collections.abc import Sequence

import numpy as np
import torch

from pathveil.federation import wire
from pathveil.federation.hub import History, average, kept_epoch, steps_of
from pathveil.federation.noise import noised
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import Turn, batches_of, optimiser_for, rate_at, snapshot, targets_of
from pathveil.model import MTCNN, TokenBatch
from pathveil.progress import Progress, silent
from pathveil.training.batches import hold_out_cases
from pathveil.training.losses import task_loss
from pathveil.vocabulary.encoded import Encoded, take_documents

EMBEDDING = "embedding.weight"


class PlainSite:
    """Reports and a model of their own; a pool of all registries' reports is one of these too."""

    def __init__(
        self,
        reports: Encoded,
        *,
        settings: FederationSettings,
        seed: int,
        registry: int,
        device: torch.device | str = "cpu",
        entropy: np.random.Generator | None = None,  # of the noise on what leaves; None: the system's
    ):
        self.reports, self.settings, self.seed, self.registry = reports, settings, seed, registry
        self.entropy = entropy or np.random.default_rng()
        self.device = torch.device(device)
        parts = []
        for number in np.unique(reports.registries):  # the split of a registry's cases is the same in every mode
            rows = np.flatnonzero(reports.registries == number)
            train, held = hold_out_cases(reports.cases[rows], share=settings.validation_share, seed=[seed, int(number)])
            parts.append((rows[train], rows[held]))
        self.train = np.concatenate([train for train, _ in parts])
        self.validate = np.concatenate([held for _, held in parts])
        self.model = MTCNN(
            vocabulary_size=reports.vocabulary_size,
            classes={task: len(names) for task, names in reports.classes.items()},
            dim=settings.dim,
            windows=settings.windows,
            filters=settings.filters,
            dropout=settings.dropout,
            seed=seed,
            sparse=self.device.type == "cpu",
        ).to(self.device)
        lazy = (EMBEDDING,) if self.model.sparse else ()
        self.optimiser = optimiser_for(self.model.named_parameters(), settings, lazy=lazy)
        self._targets = targets_of(reports, self.device)

    def epoch(self, epoch: int, *, steps: int) -> None:
        """One pass over the site's training documents."""
        order = np.random.default_rng([self.seed, self.registry, epoch]).permutation(self.train)
        self.model.train()
        for step, rows in enumerate(np.array_split(order, steps)):
            turn = Turn(epoch, step, steps, self.settings.epochs)
            ids, offsets = take_documents(self.reports.ids, self.reports.offsets, rows)
            batch = TokenBatch(ids=ids, offsets=offsets).to(self.device)
            here = torch.from_numpy(rows.astype(np.int64)).to(self.device)
            labels = {task: label[here] for task, label in self._targets.items()}
            noise = here + (((turn.epoch * steps + step) << 32) + self.seed * 7919)
            if self.optimiser.lazy:
                self.optimiser.touch(batch.ids.unique().long())
            task_loss(self.model(batch, noise=noise), labels).backward()
            self.optimiser.learning_rate = rate_at(self.settings, turn)
            self.optimiser.step()
        self.optimiser.settle()

    @torch.no_grad()
    def logits(self, reports: Encoded) -> dict[str, np.ndarray]:
        """Each task's logits (documents, classes)."""
        self.model.eval()
        parts = [self.model(batch) for batch in batches_of(reports, device=self.device)]
        return {task: torch.cat([part[task] for part in parts]).cpu().numpy() for task in reports.tasks}

    def validation_loss(self) -> float:
        held = self.reports.take(self.validate)
        labels = {task: torch.from_numpy(label.astype(np.int64)) for task, label in held.labels.items()}
        return float(task_loss({task: torch.from_numpy(v) for task, v in self.logits(held).items()}, labels))

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: parameter.detach().cpu().numpy().copy() for name, parameter in self.model.named_parameters()}

    def update(self, before: wire.Arrays) -> dict[str, np.ndarray]:
        """The parameters as they leave the site that began with those of ``before``: the change clipped and noised if
        the settings say so."""
        after = self.arrays()
        if self.settings.clip is None:
            return after
        change = {name: after[name] - before[name] for name in after}
        change = noised(change, clip=self.settings.clip, multiplier=self.settings.noise, rng=self.entropy)
        return {name: before[name] + change[name] for name in after}

    @torch.no_grad()
    def load(self, arrays: wire.Arrays) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(torch.from_numpy(arrays[name]))


def train(sites: Sequence[PlainSite], *, cyclic: bool = False, progress: Progress = silent, stage: str) -> History:
    """One site alone, federated averaging after every epoch, or one model going round; the best epoch is kept.

    All sites start from the same weights, because they were made from the same seed.
    """
    settings, history = sites[0].settings, History()
    current = sites[0].arrays()
    best, least = snapshot(sites[0].model), float("inf")
    for epoch in range(settings.epochs):
        sent = []
        for site in sites:
            if len(sites) > 1:
                site.load(current)
            site.epoch(epoch, steps=steps_of([len(site.train)], settings.batch_size))
            if len(sites) > 1:
                sent.append((len(site.train), site.update(current)))
            if cyclic:
                current = sent[-1][1]
        if len(sites) > 1:
            current = current if cyclic else average(sent)
            for site in sites:
                site.load(current)
            history.rounds += len(sites) if cyclic else 1
            history.sent += wire.size(current) * len(sites)
            history.received += wire.size(current) * len(sites)
            history.account(settings, updates=epoch + 1)  # a site sends once an epoch
        weights = [len(site.train) for site in sites]
        loss = float(np.average([site.validation_loss() for site in sites], weights=weights))
        history.validation_loss.append(loss)
        if loss < least and settings.may_keep(epoch):
            best, least, history.kept = snapshot(sites[0].model), loss, epoch + 1
        progress(stage, epoch + 1, settings.epochs)
    kept_epoch(history.kept)
    for site in sites:
        site.model.load_state_dict(best)
    return history
