"""Can the registry be read off the shared features? A fresh probe answers, not the discriminator they were trained on.

Features are frozen; a linear and a small two-layer probe are trained on one half of the unseen cases to name the
registry and scored on the other half, and the halves change places. Each is trained once more with the training cases
added: more to learn from, but features that were made to hide the registry. The better of the two counts. Beside the
score stand what guessing the largest registry gives, and what the true label alone gives: registries differ in the
cancers they see, so even perfectly registry-free features tell a little. A collapsed encoder passes any probe, so the
features' norm is shown as well.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> registry = rng.integers(0, 2, 400)
>>> blind, telling = rng.normal(size=(400, 5)), rng.normal(size=(400, 5)) + 3 * registry[:, None]
>>> cases = np.arange(400)
>>> probe(telling, registry, cases=cases).linear > 0.95, probe(blind, registry, cases=cases).linear < 0.6
(True, True)
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from pathveil.federation.perceptron import Perceptron
from pathveil.training.batches import hold_out_cases

BATCH = 64  # documents a step of a probe


@dataclass(frozen=True)
class Probe:
    """Accuracy of fresh probes on unseen cases, and what they are to be compared with."""

    linear: float
    mlp: float
    chance: float  # always naming the largest registry
    label: float | None  # naming the most frequent registry of the document's true label
    norm: float  # mean norm of a document's features; near zero the encoder has collapsed
    documents: int


def probe(
    features: np.ndarray,
    registries: np.ndarray,
    *,
    cases: np.ndarray,
    labels: np.ndarray | None = None,
    known: tuple[np.ndarray, np.ndarray] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Probe:
    """Probe unseen cases' features (documents, width) for the registry (documents,); ``known`` are those of training
    cases."""
    first, second = hold_out_cases(cases, share=0.5, seed=seed)
    distinct, target = np.unique(registries, return_inverse=True)
    more, their = known if known is not None else (features[:0], registries[:0])
    everything, everyone = (
        np.concatenate([features, more]),
        np.searchsorted(distinct, np.concatenate([registries, their])),
    )
    added = np.arange(len(features), len(everything))
    wanted = torch.from_numpy(everyone).to(device)
    right = {kind: {"linear": 0, "mlp": 0} for kind in ("unseen cases", "training cases too")}
    scores = {"chance": 0, "label": 0}
    for train, test in ((first, second), (second, first)):
        for found, rows in zip(right.values(), (train, np.concatenate([train, added])), strict=True):
            mean, spread = everything[rows].mean(0), everything[rows].std(0) + 1e-6
            inputs = torch.from_numpy(((everything - mean) / spread).astype(np.float32)).to(device)
            for name, hidden in (("linear", 0), ("mlp", 64)):
                found[name] += hits(inputs, wanted, rows, test, classes=len(distinct), hidden=hidden, seed=seed)
            if not len(added):
                break
        scores["chance"] += int((target[test] == np.bincount(target[train]).argmax()).sum())
        if labels is not None:
            table = np.zeros((labels.max() + 2, len(distinct)))
            np.add.at(table, (labels[train], target[train]), 1)
            scores["label"] += int((table[labels[test]].argmax(1) == target[test]).sum())
    scores |= {name: max(found[name] for found in right.values()) for name in ("linear", "mlp")}
    share = {name: count / len(registries) for name, count in scores.items()}
    return Probe(
        linear=share["linear"],
        mlp=share["mlp"],
        chance=share["chance"],
        label=None if labels is None else share["label"],
        norm=float(np.linalg.norm(features, axis=1).mean()),
        documents=len(registries),
    )


def hits(
    inputs: torch.Tensor,
    wanted: torch.Tensor,
    train: np.ndarray,
    test: np.ndarray,
    *,
    classes: int,
    hidden: int,
    seed: int,
    epochs: int = 60,
) -> int:
    """Train a probe on some rows, stopping where a tenth of them says so; right answers on the others."""
    generator = torch.Generator().manual_seed(seed)
    model = Perceptron(inputs.shape[1], classes, like=inputs, hidden=hidden, seed=seed)
    order = torch.from_numpy(train)[torch.randperm(len(train), generator=generator)].to(inputs.device)
    held, fitted = order[: len(order) // 10], order[len(order) // 10 :]
    tested = torch.from_numpy(test).to(inputs.device)
    best, answer, patience = float("inf"), 0, 0
    for _ in range(epochs):
        for rows in fitted[torch.randperm(len(fitted), generator=generator).to(inputs.device)].split(BATCH):
            model.learn(inputs[rows], wanted[rows])
        loss = functional.cross_entropy(model.logits(inputs[held]), wanted[held]).item()
        if loss < best:
            best, patience = loss, 0
            answer = int((model.logits(inputs[tested]).argmax(1) == wanted[tested]).sum())
        else:
            patience += 1
        if patience == 8:
            break
    return answer
