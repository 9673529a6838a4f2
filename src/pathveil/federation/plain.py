"""The modes that the shared/private network is compared with: one plain multitask CNN, trained in four ways.

- ``single``: each registry alone.
- ``centralized``: one model on everybody's reports, the upper bound that privacy forbids.
- ``fedavg``: every site trains a copy for a while, the hub averages all parameters (McMahan et al. 2017).
- ``cyclic``: one model travels from site to site and is trained a while at each (Chang et al. 2018).

All see the same documents the same number of times, with the same network, optimiser and seeds, and keep the best epoch
by the validation cases, which are the same in every mode.
"""

import numpy as np
import torch

from pathveil.federation import wire
from pathveil.federation.hub import BestEpoch, History
from pathveil.federation.networks import Networks
from pathveil.federation.noise import noised
from pathveil.federation.own_batches import check_enough
from pathveil.federation.settings import FederationSettings
from pathveil.federation.shares import steps_of
from pathveil.federation.site import Turn, batches_of, dropout_numbers, optimiser_for, rate_at, snapshot, targets_of
from pathveil.model import TokenBatch
from pathveil.progress import Progress, silent
from pathveil.rng import Seed, generator
from pathveil.training.batches import hold_out_cases
from pathveil.training.losses import task_loss
from pathveil.vocabulary.encoded import EncodedCorpus, take_documents

EMBEDDING = "embedding.weight"


class PlainSite:
    """Reports and a model of their own; a pool of all registries' reports is one of these too."""

    def __init__(
        self,
        reports: EncodedCorpus,
        *,
        settings: FederationSettings,
        seed: int,
        registry: int,
        name: str = "",
        device: torch.device | str = "cpu",
        entropy: np.random.Generator | None = None,  # of the noise on what leaves; None: the system's
        secret: Seed | None = None,  # of the order of its batches; None: follows from seed and registry
    ):
        self.reports, self.settings, self.seed = reports, settings, seed
        self.secret = [seed, registry] if secret is None else secret
        self.name, self.registry = name, registry
        self.entropy = entropy or np.random.default_rng()
        self.repeated = entropy  # what noise in whole numbers is drawn from; None: the system's entropy
        self.device = torch.device(device)
        parts = []
        for number in np.unique(reports.registries):  # the split of a registry's cases is the same in every mode
            rows = np.flatnonzero(reports.registries == number)
            train, held = hold_out_cases(reports.cases[rows], share=settings.validation_share, seed=[seed, int(number)])
            parts.append((rows[train], rows[held]))
        self.train = np.concatenate([train for train, _ in parts])
        self.validate = np.concatenate([held for _, held in parts])
        check_enough(reports.cases[self.train], least=settings.smallest_batch, name=name)
        classes = {task: len(names) for task, names in reports.classes.items()}
        self.model = Networks(settings, reports.vocabulary_size, classes, seed, self.device).plain()
        lazy = (EMBEDDING,) if self.model.sparse else ()
        self.optimiser = optimiser_for(self.model.named_parameters(), settings, lazy=lazy)
        self._targets = targets_of(reports, self.device)

    def epoch(self, epoch: int, *, steps: int) -> None:
        """One pass over the site's training documents."""
        order = generator(self.secret, epoch).permutation(self.train)
        self.model.train()
        for step, rows in enumerate(np.array_split(order, steps)):
            turn = Turn(epoch, step, steps, self.settings.epochs)
            ids, offsets = take_documents(self.reports.ids, self.reports.offsets, rows)
            batch = TokenBatch(ids=ids, offsets=offsets).to(self.device)
            here = torch.from_numpy(rows.astype(np.int64)).to(self.device)
            labels = {task: label[here] for task, label in self._targets.items()}
            noise = dropout_numbers(rows, secret=self.secret, epoch=epoch).to(self.device)
            if self.optimiser.lazy:
                self.optimiser.touch(batch.ids.unique().long())
            task_loss(self.model(batch, noise=noise), labels).backward()
            self.optimiser.learning_rate = rate_at(self.settings, turn)
            self.optimiser.step()
        self.optimiser.settle()

    @torch.no_grad()
    def logits(self, reports: EncodedCorpus) -> dict[str, np.ndarray]:
        """Each task's logits (documents, classes)."""
        self.model.eval()
        parts = [self.model(batch) for batch in batches_of(reports, device=self.device)]
        return {task: torch.cat([part[task] for part in parts]).cpu().numpy() for task in reports.tasks}

    def validation_loss(self) -> float:
        held = self.reports.take(self.validate)
        labels = {task: torch.from_numpy(label.astype(np.int64)) for task, label in held.labels.items()}
        return float(task_loss({task: torch.from_numpy(v) for task, v in self.logits(held).items()}, labels))

    def update(self, before: wire.Arrays) -> dict[str, np.ndarray]:
        """The parameters as they leave the site that began with those of ``before``: the change clipped and noised if
        the settings say so. Into a sum goes the change itself, which is small."""
        after, clip, bits = wire.arrays_of(self.model), self.settings.clip, self.settings.bits
        if clip is None and not bits:
            return after
        change = {name: after[name] - before[name] for name in after}
        if clip is not None:
            multiplier = 0.0 if bits else self.settings.noise  # whole numbers get theirs as such
            change = noised(change, clip=clip, multiplier=multiplier, rng=self.entropy)
        return change if bits else {name: before[name] + change[name] for name in after}

    @torch.no_grad()
    def load(self, arrays: wire.Arrays) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(torch.from_numpy(arrays[name]))


def train_alone(site: PlainSite, *, stage: str, progress: Progress = silent) -> History:
    """Train one site's network on its own reports and leave it at its best epoch; nothing travels."""
    settings, history, best_epoch = site.settings, History(), BestEpoch()
    best = snapshot(site.model)
    for epoch in range(settings.epochs):
        site.epoch(epoch, steps=steps_of([len(site.train)], settings.batch_size))
        loss = site.validation_loss()
        history.validation_loss.append(loss)
        if best_epoch.improves(loss, epoch, settings=settings):
            best = snapshot(site.model)
        progress(stage, epoch + 1, settings.epochs)
    history.kept = best_epoch.kept_epoch()
    site.model.load_state_dict(best)
    return history
