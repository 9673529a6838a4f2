"""One mode of the distribution study on one corpus: train, score every registry's unseen cases, probe the features.

Registries are the sites. Every registry's cases are split the same way in every mode (a share for testing, and of the
rest a share that chooses the best epoch), so that modes differ in how they train and in nothing else.

    single        each registry alone
    centralized   everybody's reports in one place
    adversarial   the paper: shared and private encoders, λ 0.05, γ 0.01
    strong        the same with an adversary that hides the registry (``FederationConfig.strong``)
    fedavg        federated averaging of one plain model
    cyclic        one plain model going from site to site
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional

from pathveil.errors import UsageError
from pathveil.federation import embedded, plain
from pathveil.federation.config import FederationConfig
from pathveil.federation.embedded import History
from pathveil.federation.probe import Probe, probe
from pathveil.federation.site import Site, batches_of
from pathveil.model.mtcnn import Encoder
from pathveil.model.shared_private import Private, Shared
from pathveil.progress import Progress, silent
from pathveil.training.batches import hold_out_cases
from pathveil.training.metrics import evaluate
from pathveil.vocabulary.encoded import Encoded

Mode = Literal["single", "centralized", "adversarial", "strong", "fedavg", "cyclic"]
MODES: tuple[Mode, ...] = ("single", "centralized", "adversarial", "strong", "fedavg", "cyclic")
SMALLEST_CELL = 10  # classes with fewer test documents are not listed


@dataclass
class Outcome:
    """What one mode gave with one seed."""

    mode: str
    seed: int
    predictions: dict[int, dict[str, np.ndarray]]  # registry: task: predicted class of its test documents
    histories: list[History]
    seconds: float
    documents: int  # seen in training, all epochs
    probe: Probe | None = None
    head: dict[str, dict[str, float]] = field(default_factory=dict)  # task: F1 of a fresh head on the features alone


def run(
    corpus: Encoded, *, mode: Mode, config: FederationConfig, seed: int, test: float = 0.2, progress: Progress = silent
) -> Outcome:
    """Train one mode with one seed and judge it on every registry's test cases."""
    registries = [int(number) for number in np.unique(corpus.registries)]
    if len(registries) < 2:
        raise UsageError(f"the distribution study needs at least 2 registries; this corpus has {len(registries)}")
    unseen = unseen_rows(corpus, share=test, seed=seed)
    known = np.setdiff1d(np.arange(corpus.documents), np.concatenate(list(unseen.values())))
    training = corpus.take(known)
    tests = {number: corpus.take(rows) for number, rows in unseen.items()}
    began = perf_counter()
    if mode in ("adversarial", "strong"):
        predictions, histories, encoder = _shared_private(training, tests, config=config, seed=seed, progress=progress)
    else:
        predictions, histories, encoder = _plain(
            training, tests, mode=mode, config=config, seed=seed, progress=progress
        )
    seconds = perf_counter() - began
    outcome = Outcome(mode, seed, predictions, histories, seconds, documents=training.documents * config.epochs)
    if encoder is not None:
        pooled = corpus.take(np.concatenate(list(unseen.values())))
        features = features_of(encoder, pooled)
        task = "subsite" if "subsite" in pooled.labels else pooled.tasks[0]
        outcome.probe = probe(features, pooled.registries, cases=pooled.cases, labels=pooled.labels[task], seed=seed)
        outcome.head = fresh_head(features_of(encoder, training), training, features, pooled, seed=seed)
    return outcome


def unseen_rows(corpus: Encoded, *, share: float, seed: int) -> dict[int, np.ndarray]:
    """Each registry's test documents, by case."""
    rows = {}
    for number in np.unique(corpus.registries):
        own = np.flatnonzero(corpus.registries == number)
        _, held = hold_out_cases(corpus.cases[own], share=share, seed=[seed, int(number), 1])
        rows[int(number)] = own[held]
    return rows


def _shared_private(
    training: Encoded, tests: Mapping[int, Encoded], *, config: FederationConfig, seed: int, progress: Progress
) -> tuple[dict[int, dict[str, np.ndarray]], list[History], Encoder]:
    shape: dict[str, Any] = {
        "vocabulary_size": training.vocabulary_size,
        "classes": {task: len(names) for task, names in training.classes.items()},
        "dim": config.dim,
        "windows": config.windows,
        "filters": config.filters,
        "sparse": True,
    }
    shared = Shared(registries=len(tests), hidden=config.hidden, common_heads=config.common_heads, seed=seed, **shape)
    sites = [
        Site(
            training.take(np.flatnonzero(training.registries == number)),
            name=training.registry_names[number],
            registry=place,
            private=Private(seed=seed * 1000 + number + 1, **shape),
            config=config,
            seed=seed,
        )
        for place, number in enumerate(tests)
    ]
    _, history = embedded.train(sites, shared, config=config, progress=progress)
    predictions = {}
    for site, (number, unseen) in zip(sites, tests.items(), strict=True):
        scores = site.logits(shared, np.arange(unseen.documents), reports=unseen)
        predictions[number] = {task: values.argmax(1) for task, values in scores.items()}
    return predictions, [history], shared.encoder


def _plain(
    training: Encoded,
    tests: Mapping[int, Encoded],
    *,
    mode: Mode,
    config: FederationConfig,
    seed: int,
    progress: Progress,
) -> tuple[dict[int, dict[str, np.ndarray]], list[History], Encoder | None]:
    def site(reports: Encoded, registry: int) -> plain.PlainSite:
        return plain.PlainSite(reports, config=config, seed=seed, registry=registry)

    def predict(trained: plain.PlainSite, unseen: Encoded) -> dict[str, np.ndarray]:
        return {task: values.argmax(1) for task, values in trained.logits(unseen).items()}

    own = {number: training.take(np.flatnonzero(training.registries == number)) for number in tests}
    if mode == "single":
        predictions, histories = {}, []
        for number, reports in own.items():
            alone = site(reports, number)
            stage = f"training {training.registry_names[number]} alone"
            histories.append(plain.train([alone], progress=progress, stage=stage))
            predictions[number] = predict(alone, tests[number])
        return predictions, histories, None
    if mode == "centralized":
        sites = [site(training, 0)]
    else:
        sites = [site(reports, number) for number, reports in own.items()]
    history = plain.train(sites, cyclic=mode == "cyclic", progress=progress, stage=f"training ({mode})")
    return {n: predict(sites[0], unseen) for n, unseen in tests.items()}, [history], sites[0].model


@torch.no_grad()
def features_of(encoder: Encoder, reports: Encoded) -> np.ndarray:
    """Pooled features (documents, K·F), frozen."""
    return np.concatenate([encoder.features(batch).numpy() for batch in batches_of(reports)])


def fresh_head(
    known: np.ndarray, training: Encoded, unseen: np.ndarray, tests: Encoded, *, seed: int, epochs: int = 20
) -> dict[str, dict[str, float]]:
    """How useful features are by themselves: a new softmax head on them, a task at a time; micro and macro F1."""
    spread = known.std(0) + 1e-6
    inputs, others = (torch.from_numpy((part / spread).astype(np.float32)) for part in (known, unseen))
    scores = {}
    for task, names in training.classes.items():
        labels = torch.from_numpy(training.labels[task].astype(np.int64))
        rows = torch.nonzero(labels >= 0)[:, 0]
        generator = torch.Generator().manual_seed(seed)
        weight = torch.zeros(len(names), inputs.shape[1], requires_grad=True)
        bias = torch.zeros(len(names), requires_grad=True)
        optimiser = torch.optim.AdamW([weight, bias], lr=2e-3, weight_decay=1e-2)
        for _ in range(epochs):
            for part in rows[torch.randperm(len(rows), generator=generator)].split(128):
                optimiser.zero_grad()
                functional.cross_entropy(functional.linear(inputs[part], weight, bias), labels[part]).backward()
                optimiser.step()
        with torch.no_grad():
            predicted = functional.linear(others, weight, bias).argmax(1).numpy()
        result = evaluate(np.asarray(tests.labels[task]), predicted, cases=tests.cases, resamples=1)
        scores[task] = {"micro": result.micro.value, "macro": result.macro.value}
    return scores


def result_of(
    corpus: Encoded, outcomes: Sequence[Outcome], *, test: float = 0.2, resamples: int = 1000
) -> dict[str, Any]:
    """The design's result: scores, per_class, probe and traffic of several modes and seeds. Aggregates only."""
    scores, per_class, probes, traffic = [], [], [], []
    for outcome in outcomes:
        unseen = unseen_rows(corpus, share=test, seed=outcome.seed)
        for number, predicted in outcome.predictions.items():
            taken = corpus.take(unseen[number])
            place = {"registry": corpus.registry_names[number], "mode": outcome.mode, "seed": outcome.seed}
            for task, answer in predicted.items():
                label = np.asarray(taken.labels[task])
                if not (label >= 0).any():
                    continue
                task_scores = evaluate(label, answer, cases=taken.cases, resamples=resamples, seed=outcome.seed)
                row = place | {"task": task, "documents": task_scores.documents}
                scores.append(row | {"micro": task_scores.micro.as_dict(), "macro": task_scores.macro.as_dict()})
                for one in task_scores.per_class:
                    if one.support >= SMALLEST_CELL:
                        name = corpus.classes[task][one.label]
                        per_class.append(
                            place | {"task": task, "label": name, "support": one.support, "f1": one.f1.as_dict()}
                        )
        place = {"mode": outcome.mode, "seed": outcome.seed}
        if outcome.probe is not None:
            probes.append(place | asdict(outcome.probe) | {"head": outcome.head})
        sent = sum(history.sent for history in outcome.histories)
        received = sum(history.received for history in outcome.histories)
        rounds = sum(history.rounds for history in outcome.histories)
        traffic.append(
            place
            | {"rounds": rounds, "bytes_to_sites": sent, "bytes_to_hub": received, "seconds": round(outcome.seconds, 2)}
            | {
                "documents_seen": outcome.documents,
                "refused": [line for history in outcome.histories for line in history.refused],
            }
            | {"epoch": [int(np.argmin(history.validation_loss)) + 1 for history in outcome.histories]}
            | {"feature_norm": [history.feature_norm for history in outcome.histories if history.feature_norm]}
        )
    return {"scores": scores, "per_class": per_class, "probe": probes, "traffic": traffic}
