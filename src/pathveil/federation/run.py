"""One mode of the distribution study on one corpus: train, score every registry's unseen cases, probe the features.

Registries are the sites. Every registry's cases are split the same way in every mode (some for testing, and of the rest
a share that chooses the best epoch), so that modes differ in how they train and in nothing else.

    single        each registry alone
    centralized   everybody's reports in one place
    adversarial   the paper: shared and private encoders, λ 0.05, γ 0.01
    strong        the same with an adversary that hides the registry (``FederationSettings.strong``)
    fedavg        federated averaging of one plain model
    cyclic        one plain model going from site to site
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch

from pathveil.corpus.split import on_or_after
from pathveil.disclosure import may_be_told
from pathveil.errors import CorpusError, UsageError
from pathveil.federation import embedded, plain
from pathveil.federation.heads import Confidence, confidence_of, features_of, fresh_head, public_confidence
from pathveil.federation.hub import History
from pathveil.federation.lessons import each_taught_at_home
from pathveil.federation.networks import Networks
from pathveil.federation.probe import Probe, probe
from pathveil.federation.release import arrays_of
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import Site
from pathveil.formatting import counted
from pathveil.model.mtcnn import Encoder
from pathveil.model.shared_private import Shared
from pathveil.progress import Progress, silent
from pathveil.rng import generator
from pathveil.training.batches import hold_out_cases
from pathveil.training.metrics import commonest_macro_f1, evaluate
from pathveil.vocabulary.encoded import EncodedCorpus

Mode = Literal["single", "centralized", "adversarial", "strong", "fedavg", "cyclic"]
MODES: tuple[Mode, ...] = ("single", "centralized", "adversarial", "strong", "fedavg", "cyclic")
TEST_SHARE = 0.2  # of every registry's cases, where no others are given
FEWEST_TRAINING_CASES = 5  # with labels, of a registry: some to learn from and some to choose the epoch by
LARGEST_SEED = 2**32 - 1  # torch and NumPy derive others from it


Answer = Callable[[int, EncodedCorpus], dict[str, np.ndarray]]  # a registry and its reports to each task's logits


@dataclass
class Outcome:
    """What one mode gave with one seed."""

    mode: str
    seed: int
    unseen: Mapping[int, np.ndarray]  # registry: its test documents
    predictions: dict[int, dict[str, np.ndarray]]  # registry: task: predicted class of its test documents
    confidence: Confidence
    histories: list[History]
    seconds: float
    documents: int  # seen in training, all epochs
    probe: Probe | None = None
    head: dict[str, dict[str, float]] = field(default_factory=dict)  # task: F1 of a fresh head on the features alone
    public: Confidence | None = None  # of the encoder with a head that others trained on reports of their own
    shared: dict[str, np.ndarray] = field(default_factory=dict)  # what may be given away of the shared part, if any


def run(
    corpus: EncodedCorpus,
    *,
    mode: Mode,
    settings: FederationSettings,
    seed: int,
    unseen: Mapping[int, np.ndarray] | None = None,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> Outcome:
    """Train one mode with one seed and judge it on every registry's test documents: those ``unseen``, or a share."""
    device = torch.device(device)
    unseen = unseen_rows(corpus, share=TEST_SHARE, seed=seed) if unseen is None else unseen
    check_sites(corpus, unseen)
    known = np.setdiff1d(np.arange(corpus.documents), np.concatenate(list(unseen.values())))
    training = corpus.take(known)
    began = perf_counter()
    answer, histories, network = train(
        training, mode=mode, settings=settings, seed=seed, device=device, progress=progress
    )
    seconds = perf_counter() - began
    predictions, values, member, cases = {}, [], [], []
    followed = learnt(training, settings=settings, seed=seed)
    for number, rows in unseen.items():
        tests, own = corpus.take(rows), training.take(followed[training.registries[followed] == number])
        scores = answer(number, tests)
        predictions[number] = {task: logits.argmax(1) for task, logits in scores.items()}
        values += [confidence_of(answer(number, own), own), confidence_of(scores, tests)]
        member += [np.ones(own.documents, bool), np.zeros(tests.documents, bool)]
        cases += [own.cases, tests.cases]
    confidence = Confidence(*(np.concatenate(parts) for parts in (values, member, cases)))
    documents = len(followed) * settings.epochs
    outcome = Outcome(mode, seed, unseen, predictions, confidence, histories, seconds, documents=documents)
    encoder = encoder_of(network)
    if isinstance(network, Shared):
        outcome.shared = arrays_of(network)
    if encoder is not None:
        pooled = corpus.take(np.concatenate(list(unseen.values())))
        features = features_of(encoder, pooled)
        task = "subsite" if "subsite" in pooled.labels else pooled.tasks[0]
        labels = pooled.labels[task]
        known = features_of(encoder, training)
        seen = known, training.registries
        unseen_of = {"cases": pooled.cases, "labels": labels, "known": seen}
        outcome.probe = probe(features, pooled.registries, **unseen_of, seed=seed, device=device)
        outcome.head = fresh_head(known, training, features, pooled, seed=seed, device=device)
        members = training.take(followed)
        outcome.public = public_confidence(known[followed], members, features, pooled, seed=seed, device=device)
    return outcome


def check_sites(corpus: EncodedCorpus, unseen: Mapping[int, np.ndarray]) -> None:
    """Every registry must have what a mode takes: cases to learn from, to choose the epoch by, and to be scored on."""
    registries = np.unique(corpus.registries)
    if len(registries) < 2:
        raise UsageError(
            f"it takes at least 2 registries, or groups of them, to train; here there is {len(registries)}"
        )
    for number, (known, tested) in labelled_cases(corpus, np.concatenate(list(unseen.values()))).items():
        if known < FEWEST_TRAINING_CASES or not tested:
            raise UsageError(
                f"registry {corpus.registry_names[number]} has {counted(known, 'case')} with labels to train on and "
                f"{tested} to test on; expected at least {FEWEST_TRAINING_CASES} and 1: leave its reports out, or pool "
                "it"
            )


def labelled_cases(corpus: EncodedCorpus, unseen: np.ndarray) -> dict[int, tuple[int, int]]:
    """Of every registry, how many cases with labels there are to train on, and how many among documents ``unseen``."""
    labelled = np.any([np.asarray(label) >= 0 for label in corpus.labels.values()], axis=0)
    held = np.isin(np.arange(corpus.documents), unseen)
    found = {}
    for number in np.unique(corpus.registries):
        own = labelled & (corpus.registries == number)
        known, tested = (len(np.unique(corpus.cases[own & part])) for part in (~held, held))
        found[int(number)] = known, tested
    return found


def train(
    training: EncodedCorpus,
    *,
    mode: Mode,
    settings: FederationSettings,
    seed: int,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> "tuple[Answer, list[History], Shared | Encoder | None]":
    """One mode on training documents: how it answers, what happened, and the part that travels, where one does."""
    registries = [int(number) for number in np.unique(training.registries)]
    sites = [(number, np.flatnonzero(training.registries == number)) for number in registries]
    if mode == "centralized":
        sites = [(0, np.arange(training.documents))]
    training = each_taught_at_home(training, sites, settings, seed=seed, device=device, progress=progress)
    told: dict[str, Any] = {"settings": settings, "seed": seed, "device": torch.device(device), "progress": progress}
    if mode in ("adversarial", "strong"):
        return train_shared_private(training, registries, **told)
    return train_plain(training, registries, mode=mode, **told)


def learnt(training: EncodedCorpus, *, settings: FederationSettings, seed: int) -> np.ndarray:
    """The training documents that gradients came from, in every mode: cases that chose the best epoch are not among
    them, and are not unseen either."""
    kept = []
    for number in np.unique(training.registries):
        own = np.flatnonzero(training.registries == number)
        kept.append(
            own[hold_out_cases(training.cases[own], share=settings.validation_share, seed=[seed, int(number)])[0]]
        )
    return np.concatenate(kept)


def encoder_of(network: Shared | Encoder | None) -> Encoder | None:
    """The encoder of the part that travels."""
    return network.encoder if isinstance(network, Shared) else network


def unseen_rows(corpus: EncodedCorpus, *, share: float, seed: int) -> dict[int, np.ndarray]:
    """Each registry's test documents, by case."""
    rows = {}
    for number in np.unique(corpus.registries):
        own = np.flatnonzero(corpus.registries == number)
        _, held = hold_out_cases(corpus.cases[own], share=share, seed=[seed, int(number), 1])
        rows[int(number)] = own[held]
    return rows


def unseen_from(corpus: EncodedCorpus, day: str) -> dict[int, np.ndarray]:
    """Each registry's documents of cases with a report on or after a day (or year); those without a date are older."""
    days = np.full(corpus.documents, "NaT", "datetime64[D]") if corpus.days is None else np.asarray(corpus.days)
    late = on_or_after(days, day, option="test_from")
    late = np.isin(corpus.cases, corpus.cases[late])
    rows = {}
    for number in np.unique(corpus.registries):
        own = corpus.registries == number
        for there, what in ((late[own].any(), "on or after"), ((~late[own]).any(), "before")):
            if not there:
                name = corpus.registry_names[number]
                raise CorpusError(f"test_from {day}: registry {name} has no case {what} that day")
        rows[int(number)] = np.flatnonzero(own & late)
    return rows


def train_shared_private(
    training: EncodedCorpus,
    registries: Sequence[int],
    *,
    settings: FederationSettings,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> tuple[Answer, list[History], Shared]:
    classes = {task: len(names) for task, names in training.classes.items()}
    networks = Networks(settings, training.vocabulary_size, classes, seed, device)
    shared = networks.shared(registries=len(registries))
    sites = {
        number: Site(
            training.take(np.flatnonzero(training.registries == number)),
            name=training.registry_names[number],
            registry=number,
            private=networks.private(number),
            settings=settings,
            seed=seed,
            entropy=generator(seed, number, 2),  # a study repeats; a deployment must not
        )
        for number in registries
    }
    _, history = embedded.train(list(sites.values()), shared, settings=settings, progress=progress)

    def answer(number: int, reports: EncodedCorpus) -> dict[str, np.ndarray]:
        return sites[number].logits(shared, reports)

    return answer, [history], shared


def train_plain(
    training: EncodedCorpus,
    registries: Sequence[int],
    *,
    mode: Mode,
    settings: FederationSettings,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> tuple[Answer, list[History], Encoder | None]:
    def site(reports: EncodedCorpus, registry: int) -> plain.PlainSite:
        return plain.PlainSite(
            reports,
            settings=settings,
            seed=seed,
            registry=registry,
            name=training.registry_names[registry],
            device=device,
            entropy=generator(seed, registry, 2),  # a study repeats; a deployment must not
        )

    if mode == "centralized":
        pool = site(training, 0)
        history = plain.train_alone(pool, progress=progress, stage="training (centralized)")
        return lambda _, reports: pool.logits(reports), [history], pool.model
    sites = {n: site(training.take(np.flatnonzero(training.registries == n)), n) for n in registries}
    if mode == "single":
        histories = [
            plain.train_alone(alone, progress=progress, stage=f"training {training.registry_names[number]} alone")
            for number, alone in sites.items()
        ]
        return lambda number, reports: sites[number].logits(reports), histories, None
    together = list(sites.values())
    history = embedded.train_plain(together, cyclic=mode == "cyclic", progress=progress, stage=f"training ({mode})")
    return lambda _, reports: together[0].logits(reports), [history], together[0].model


def cases_of(labels: np.ndarray, cases: np.ndarray, *, classes: int) -> tuple[int, np.ndarray]:
    """How many distinct cases have a label, and how many have each: (classes,).

    >>> cases_of(np.array([0, 0, 1, 2, -1]), np.array([7, 7, 7, 8, 9]), classes=3)
    (2, array([1, 1, 1]))
    """
    known = labels >= 0
    pairs = np.unique(np.stack([labels[known], cases[known]]), axis=1)
    return len(np.unique(pairs[1])), np.bincount(pairs[0], minlength=classes)


def result_of(corpus: EncodedCorpus, outcomes: Sequence[Outcome], *, resamples: int = 1000) -> dict[str, Any]:
    """The design's result: scores, per_class, probe and traffic of several modes and seeds. Aggregates only."""
    scores, per_class, probes, traffic = [], [], [], []
    for outcome in outcomes:
        for number, predicted in outcome.predictions.items():
            taken = corpus.take(outcome.unseen[number])
            place = {"registry": corpus.registry_names[number], "mode": outcome.mode, "seed": outcome.seed}
            for task, answer in predicted.items():
                label = np.asarray(taken.labels[task])
                cases, by_class = cases_of(label, taken.cases, classes=len(corpus.classes[task]))
                if not may_be_told(cases):
                    continue
                task_scores = evaluate(label, answer, cases=taken.cases, resamples=resamples, seed=outcome.seed)
                floor = commonest_macro_f1(label, np.asarray(corpus.labels[task]))
                row = place | {"task": task, "documents": task_scores.documents, "cases": cases, "floor": floor}
                scores.append(row | {"micro": task_scores.micro.as_dict(), "macro": task_scores.macro.as_dict()})
                for one in task_scores.per_class:
                    if may_be_told(by_class[one.label]):
                        counts = {"support": one.support, "cases": int(by_class[one.label])}
                        about = {"task": task, "label": corpus.classes[task][one.label], **counts}
                        per_class.append(place | about | {"f1": one.f1.as_dict()})
        place = {"mode": outcome.mode, "seed": outcome.seed}
        tests = corpus.take(np.concatenate(list(outcome.unseen.values())))
        if outcome.probe is not None and may_be_told(len(np.unique(tests.cases))):
            told = [t for t, of in tests.labels.items() if may_be_told(len(np.unique(tests.cases[of >= 0])))]
            head = {task: scores for task, scores in outcome.head.items() if task in told}
            probes.append(place | asdict(outcome.probe) | {"head": head})
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
            | {"epoch": [history.kept for history in outcome.histories]}
            | {"epsilon": [history.epsilon[-1] for history in outcome.histories if history.epsilon]}
            | {"feature_norm": [history.feature_norm for history in outcome.histories if history.feature_norm]}
        )
    return {"scores": scores, "per_class": per_class, "probe": probes, "traffic": traffic}
