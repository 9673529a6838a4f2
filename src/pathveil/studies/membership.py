"""The vocabulary study's units of work: a target, its shadows, and every attack on it from their answers.

Of a model's answers is kept what attacks read, not the logits: for each task the log-probability of every document's
own label, and for the attacked task the features of the paper's attack (the label's probability and the largest ones;
a shadow's for the attacker's own documents alone). Of a target also the classes it names for unseen documents, and of
the paper's attack with all shadows what it guesses: what a bootstrap over cases reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pathveil.auditing import attacks, evidence, shokri
from pathveil.auditing.all_attacks import THRESHOLD, classifiers, rmia_scores
from pathveil.auditing.attack_names import CLASSIFIERS, LOSS
from pathveil.auditing.model_answers import ModelAnswers
from pathveil.auditing.shadows import Job, trained_on
from pathveil.progress import Progress
from pathveil.studies.scheduler import Keep, Parts
from pathveil.studies.store import Cells
from pathveil.studies.study_corpus import relabelled
from pathveil.training.batches import hold_out_cases
from pathveil.training.ensemble import learned
from pathveil.training.metrics import evaluate
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Fold:
    """One registry left to the attacker."""

    name: str
    training: np.ndarray  # rows the target may learn from
    unseen: np.ndarray  # held-out rows of the same registries
    foreign: np.ndarray  # rows of the left-out registry

    def learned(self, corpus: EncodedCorpus, training: TrainingSettings, *, seed: int) -> np.ndarray:
        """The rows that the target learns from."""
        return self.training[learned(corpus.cases[self.training], training, seed=seed)]


@dataclass(frozen=True)
class Words:
    """A vocabulary as a worker needs it: the table from the store's word numbers to its ids."""

    name: str
    table: np.ndarray  # (words of the store,) int32
    size: int  # rows of an embedding
    sha256: str
    method: str


@dataclass(frozen=True)
class Attack:
    """What an attack is told: which task's answers, how many shadows, which buckets."""

    task: str
    shadows: int
    numbers: tuple[int, ...]  # of shadows, to attack with
    edges: tuple[int, ...]
    training: Mapping[str, np.ndarray]  # reports of each class that a fold's target learns from, mean over the folds
    settings: TrainingSettings  # of the models
    seed: int


def train_target(
    corpus: EncodedCorpus,
    fold: Fold,
    words: Words,
    training: TrainingSettings,
    seed: int,
    device: str,
    parts: Parts,
    keep: Keep,
    progress: Progress,
) -> None:
    """The attacked model: what it scores on unseen cases, and its answers on every document."""
    from pathveil.training.loop import answers_of, fit, logits_of

    encoded = relabelled(corpus, words.table, words.size)
    stage = f"target {fold.name} {words.name}"
    fitted = fit(encoded.take(fold.training), training, seed=seed, device=device, progress=progress, stage=stage)
    scores, said = {}, {}
    for task, values in logits_of(fitted.model, encoded, fold.unseen).items():
        said[f"said-{task}"] = values.argmax(1).astype(np.int32)
        truth, cases = np.asarray(corpus.labels[task])[fold.unseen], corpus.cases[fold.unseen]
        if (truth >= 0).any():
            found = evaluate(truth, values.argmax(1), cases=cases, resamples=200)
            values_of = {"micro": found.micro.value, "macro": found.macro.value}
            scores[task] = values_of | {"micro_ci": _pair(found.micro), "macro_ci": _pair(found.macro)}
    members = fold.learned(corpus, training, seed=seed)
    everything, reduce = np.arange(corpus.documents), partial(read_by_attacks, corpus, parts["attacked"])
    arrays = {"members": members} | said | answers_of(fitted.model, encoded, everything, reduce)
    about_words = {"words": words.size - 2, "method": words.method, "sha256": words.sha256}
    keep(parts, about_words | {"scores": scores, "epoch": fitted.best_epoch, "epochs": len(fitted.history)}, arrays)


def train_shadows(
    corpus: EncodedCorpus,
    fold: Fold,
    words: Words,
    training: TrainingSettings,
    seed: int,
    device: str,
    wanted: Mapping[int, Parts],
    keep: Keep,
    progress: Progress,
) -> None:
    """Some of the attacker's models on halves of his own documents: each one's answers on every document."""
    from pathveil.training.stacked import logits_many

    encoded = relabelled(corpus, words.table, words.size)
    numbers = list(wanted)
    jobs = [shadow_job(corpus, fold, number, seed=seed) for number in numbers]
    epochs: dict[int, dict[str, int]] = {}

    def note(place: int, best: int, count: int) -> None:
        epochs[place] = {"epoch": best, "epochs": count}

    attacked = next(iter(wanted.values()))["attacked"]
    own = np.isin(np.arange(corpus.documents), fold.foreign)
    for place, arrays in logits_many(
        encoded,
        [job.rows for job in jobs],
        training,
        seeds=[job.seed for job in jobs],
        device=device,
        progress=progress,
        stage=f"shadows {fold.name} {words.name}",
        note=note,
        reduce=partial(read_by_attacks, corpus, attacked),
    ):
        keep(wanted[numbers[place]], epochs[place], arrays | {"features": arrays["features"][own]})


def shadow_job(corpus: EncodedCorpus, fold: Fold, number: int, *, seed: int) -> Job:
    """One shadow: it trains on half of the attacker's documents, by case."""
    half, _ = hold_out_cases(corpus.cases[fold.foreign], share=0.5, seed=[seed, 2, number])
    return Job(number, fold.foreign[half], seed=seed * 10_000 + number + 1)


def read_by_attacks(
    corpus: EncodedCorpus, attacked: str, rows: np.ndarray, logits: "dict[str, Tensor]"
) -> "dict[str, Tensor]":
    """What attacks read of a model's answers on these rows, made where the logits are, so that few numbers leave a GPU.
    It is what ``attacks.of_label`` and ``shokri.attack_features`` make, in float64 as they do."""
    import torch

    kept = {}
    for task, values in logits.items():
        label = torch.from_numpy(np.asarray(corpus.labels[task])[rows].astype(np.int64)).to(values.device)
        said = values.double().log_softmax(-1)
        own = said.gather(-1, label.clamp(min=0)[:, None])[:, 0]
        kept[f"own-{task}"] = torch.where(label >= 0, own, torch.nan).float()
        if task == attacked:
            largest = said.topk(min(shokri.LARGEST, said.shape[-1])).values
            label_first = torch.cat([torch.where(label >= 0, own, -torch.inf)[:, None], largest], -1)
            kept["features"] = label_first.exp().float()
    return kept


def attack(
    corpus: EncodedCorpus,
    folder: str,
    fold: Fold,
    settings: Attack,
    device: str,
    target: Parts,
    shadows: Sequence[Parts],
    parts: Parts,
    keep: Keep,
    progress: Progress,
) -> None:
    """Rows of Table 1: every attack under every protocol and bucket, from the cells in ``folder``."""
    cells = Cells(Path(folder))
    own = cells.read(target)[1]
    others = [cells.read(shadow)[1] for shadow in shadows]
    jobs = [shadow_job(corpus, fold, number, seed=settings.seed) for number in range(len(shadows))]
    inside = np.stack([trained_on(corpus, job, settings.settings) for job in jobs])
    member = np.zeros(corpus.documents, bool)
    member[own["members"]] = True
    kept = np.concatenate([own["members"], fold.unseen, fold.foreign])
    records = evidence.Records(
        member=member[kept],
        cases=corpus.cases[kept],
        labels={name: np.asarray(label)[kept] for name, label in corpus.labels.items()},
        classes=corpus.classes,
        registries=corpus.registries[kept],
    )
    scores = _scores(corpus, fold, settings, records, kept, own, others, inside, device=device_here(device))
    names = evidence.bucket_names(settings.edges)
    rows = []
    for row in evidence.measure(scores, records, edges=settings.edges, training=settings.training, seed=settings.seed):
        if row.unit == "report":
            order = 0 if row.bucket == evidence.ALL else 1 + names.index(row.bucket)
            rows.append(_flat(row) | {"bucket_order": order, "attacked_task": settings.task})
    [paper] = [one for one in scores if one.attack == CLASSIFIERS and one.shadows == settings.shadows]
    known = ~np.isnan(paper.values)
    guessed = {"rows": kept[known], "guess": paper.values[known] >= THRESHOLD, "member": records.member[known]}
    keep(parts, {"rows": rows}, guessed)


def device_here(device: str) -> str:
    """The device models were trained on, if this machine has one: attacks run where the cells are."""
    import torch

    return device if torch.cuda.is_available() else "cpu"


StoredAnswers = Mapping[str, np.ndarray]  # what ``read_by_attacks`` kept of a model's, on all documents


def _scores(
    corpus: EncodedCorpus,
    fold: Fold,
    settings: Attack,
    records: evidence.Records,
    kept: np.ndarray,
    target: StoredAnswers,
    shadows: Sequence[StoredAnswers],
    inside: np.ndarray,
    *,
    device: str,
) -> list[evidence.Score]:
    """The paper's attack with each number of shadows, and stronger ones (the loss and offline RMIA) on the attacked
    task and on all tasks together."""
    features = np.stack([shadow["features"] for shadow in shadows])  # (shadows, foreign documents, features)
    said = ModelAnswers(
        log_p={task: np.stack([shadow[f"own-{task}"] for shadow in shadows]) for task in corpus.tasks},
        margin={},
        right={},
        inside=inside,
        features=features,
        pool=fold.foreign,
    )
    own_log_p = {task: np.asarray(target[f"own-{task}"]) for task in corpus.tasks}
    own = replace(said, log_p={task: values[None] for task, values in own_log_p.items()})
    found = classifiers(
        np.asarray(target["features"])[kept].astype(np.float64),
        said,
        records,
        np.asarray(corpus.labels[settings.task]),
        counts=settings.numbers,
        task=settings.task,
        device=device,
    )
    loss = {task: values[kept].astype(np.float64) for task, values in own_log_p.items()}
    loss[evidence.TOGETHER] = attacks.joint(list(loss.values()))
    ranks = rmia_scores(own, said, records, kept, offline=True, precision=np.float32)
    ranked = {one.task: one for one in ranks}
    whole = ranked.get(evidence.TOGETHER, ranked[settings.task])  # with one task, it is the whole
    for task, score in ((settings.task, ranked[settings.task]), (evidence.TOGETHER, whole)):
        found += [evidence.Score(LOSS, task, loss[task]), replace(score, task=task)]
    return found


def _pair(interval: Any) -> list[float]:
    return [interval.low, interval.high]


def _flat(row: evidence.Row) -> dict[str, Any]:
    """A row of the audit in Table 1's columns: values, with the intervals beside them."""
    flat = row.to_dict()
    del flat["weights_only"]  # a study's attackers hold answers
    if not isinstance(row, evidence.MeasuredRow):
        return flat
    figures = {name: flat.pop(name) for name in ("accuracy", "report_accuracy", "balanced_accuracy", "auc")}
    if row.accuracy is None or row.accuracy.value is None:  # no class of this bucket has members and non-members
        del figures["accuracy"]
    flat |= {name: figure["value"] for name, figure in figures.items()}
    found = flat["tpr_at_fpr"]
    flat["tpr_at_fpr"] = {fpr: figure["value"] for fpr, figure in found.items()}
    flat["ci"] = {name: [figure["low"], figure["high"]] for name, figure in figures.items()}
    flat["ci"] |= {f"tpr@{fpr}": [figure["low"], figure["high"]] for fpr, figure in found.items()}
    return flat
