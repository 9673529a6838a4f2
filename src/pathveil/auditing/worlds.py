"""How much a way of training leaks, and what it costs: many models of one kind, each attacked with the others' help.

An audit tells about one model. Whether a *defence* helps is a question about a way of training, and a single model is
a single draw. So there are worlds: a share of the cases is never trained on and judges the codes; every other case is
in each world with chance ½; one model is trained a world, with the defence, and attacked by attackers who know the
defence, because their reference models are the other worlds' models.

Averages hide the most exposed records, so canaries are planted, each once (Aerni, Zhang and Tramèr 2024, "Evaluations
of machine learning privacy defenses are misleading"): reports under another report's codes; the same with a
near-duplicate under another case; reports with a plausible wrong code in one task only. Real rare cases stand beside
them. A defence is judged by the strongest of all attacks, each figure by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.stats import t as student_t

from pathveil.auditing import attacks, metrics
from pathveil.auditing.all_attacks import online, overall
from pathveil.auditing.attack_names import LOSS
from pathveil.auditing.evidence import TOGETHER, Records, Score
from pathveil.auditing.model_answers import SAW_IT, ModelAnswers, vote
from pathveil.disclosure import FEWEST_CASES_TOLD
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent
from pathveil.results import Part
from pathveil.rng import child, generator
from pathveil.training.ensemble import learned
from pathveil.training.metrics import macro_f1
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus, join_documents
from pathveil.vocabulary.words import UNKNOWN

MISLABELLED, DUPLICATED, ONE_TASK = "mislabelled", "mislabelled, with a near-duplicate", "one wrong code"
CANARIES = (MISLABELLED, DUPLICATED, ONE_TASK)
CHANGED_WORDS = 0.1  # of a near-duplicate, read as unknown
RARE = 25  # reports: a case is rare where one of its classes has fewer
FPR = 0.01
FEWEST_JUDGED = 2 * FEWEST_CASES_TOLD  # in a group: half are in a world, and what fewer than ten say is not told
ASKED = ("own", "taught", "second")  # codes that worlds' models are asked about; see kept_answers
KEPT = 3  # raised when what kept_answers keeps changes
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Worlds:
    """Who is in which world."""

    corpus: EncodedCorpus  # near-duplicates of canaries at its end
    inside: np.ndarray  # (worlds, documents) bool: drawn for a world; once ``learned``, what its model learned from
    test: np.ndarray  # (documents,) bool: in no world
    canary: np.ndarray  # (documents,) int8: 0 an ordinary report, else 1 + its place in CANARIES; −1 a near-duplicate

    def learned(self, settings: TrainingSettings, *, seed: int) -> "Worlds":
        """The same worlds, in each only the documents whose gradient its model followed."""
        if settings.linear:  # the linear view reads every document
            return self
        inside = np.zeros_like(self.inside)
        for number, own in enumerate(self.inside):
            rows, model = np.flatnonzero(own), model_seed(seed, number)
            cases = self.corpus.cases[rows]
            inside[number, rows[learned(cases, settings, seed=model, networks=settings.members)]] = True
        return replace(self, inside=inside)

    @property
    def labels(self) -> Arrays:
        """Of all documents, −1 where there is none."""
        return {task: np.asarray(self.corpus.labels[task]).astype(np.int64) for task in self.corpus.tasks}

    @property
    def judged(self) -> np.ndarray:
        """Ordinary reports that may be in a world (documents,)."""
        return ~self.test & (self.canary == 0)


class Estimate(Part):
    """A mean over worlds with its 95 % interval."""

    value: float
    low: float
    high: float


class AttackFigures(Part):
    """What one attack finds: all reports, those of rare classes, members found at 1 % false accusations; canaries."""

    attack: str
    auc: Estimate
    rare_auc: Estimate
    tpr_at_1: Estimate
    canaries: dict[str, Estimate]  # kind: AUC


class WorldFigures(Part):
    """A way's figures in each world, in order, so that two ways can be compared world by world; none where a group is
    too small."""

    auc: list[float | None]
    rare_auc: list[float | None]
    tpr_at_1: list[float | None]
    canaries: dict[str, list[float | None]]
    micro: list[float]
    macro: list[float]
    tasks: dict[str, list[float]]  # task: macro F1


class DefenceRow(Part):
    """A way of training: the strongest attack on it, figure by figure, and how well its models code."""

    name: str
    auc: Estimate
    rare_auc: Estimate
    tpr_at_1: Estimate
    canaries: dict[str, Estimate]
    micro: Estimate  # F1 on unseen cases, mean of the tasks
    macro: Estimate
    tasks: dict[str, dict[str, Estimate]]  # task: {"micro", "macro"}
    attacks: list[AttackFigures]
    worlds: int
    by_world: WorldFigures


def make_worlds(
    corpus: EncodedCorpus, *, worlds: int = 20, test_share: float = 0.2, canaries: int = 0, seed: int = 0
) -> Worlds:
    """Draw who is in which world, by case, and plant so many canaries of each kind."""
    cases, place = np.unique(corpus.cases, return_inverse=True)
    rng = generator(seed, 8)
    tested = rng.random(len(cases)) < test_share
    inside = ((rng.random((worlds, len(cases))) < 0.5) & ~tested)[:, place]
    canary = np.zeros(corpus.documents, np.int8)
    made = Worlds(corpus, inside, tested[place], canary)
    return plant_canaries(made, canaries, rng) if canaries else made


def plant_canaries(worlds: Worlds, count: int, rng: np.random.Generator) -> Worlds:
    """``count`` canaries of each kind among reports that may be in a world, one a case."""
    corpus = worlds.corpus
    free = rng.permutation(np.flatnonzero(~worlds.test))
    free = free[np.unique(corpus.cases[free], return_index=True)[1]]
    chosen = rng.permutation(free)[: len(CANARIES) * count]
    if len(chosen) < len(CANARIES) * count:
        raise UsageError(f"{len(CANARIES) * count} canaries need as many cases; there are {len(free)}")
    canary = np.array(worlds.canary)
    labels = {task: np.array(label) for task, label in corpus.labels.items()}
    for kind in range(len(CANARIES)):
        own = chosen[kind * count : (kind + 1) * count]
        canary[own] = 1 + kind
        if CANARIES[kind] == ONE_TASK:
            _one_wrong_code(labels, corpus, own, rng)
        else:
            for task, label in labels.items():
                label[own] = np.asarray(corpus.labels[task])[np.roll(own, 1)]
    twins = chosen[CANARIES.index(DUPLICATED) * count :][:count]
    copies = replace(corpus, labels=labels).take(twins)
    words = np.where(rng.random(len(copies.ids)) < CHANGED_WORDS, copies.ids.dtype.type(UNKNOWN), copies.ids)
    cases = corpus.cases.max() + 1 + np.arange(count)
    return Worlds(
        corpus=join_documents([replace(corpus, labels=labels), replace(copies, ids=words, cases=cases)]),
        inside=np.concatenate([worlds.inside, worlds.inside[:, twins]], axis=1),
        test=np.concatenate([worlds.test, np.zeros(count, bool)]),
        canary=np.concatenate([canary, np.full(count, -1, np.int8)]),
    )


def _one_wrong_code(labels: Arrays, corpus: EncodedCorpus, rows: np.ndarray, rng: np.random.Generator) -> None:
    """Give each row another code in one task, drawn from the codes of reports that share its other labels if any do."""
    tasks = [task for task, names in corpus.classes.items() if len(names) > 1]
    for row in rows:
        task = tasks[rng.integers(len(tasks))]
        truth = np.asarray(corpus.labels[task])
        like = np.ones(corpus.documents, bool)
        for other in tasks:
            label = np.asarray(corpus.labels[other])
            wanted = like & (label == label[row]) & (truth != truth[row]) & (truth >= 0)
            like = like & (label == label[row]) if other != task and wanted.any() else like
        others = np.unique(truth[like & (truth != truth[row]) & (truth >= 0)])
        labels[task][row] = rng.choice(others) if len(others) else truth[row]


def answer_worlds(
    worlds: Worlds,
    settings: TrainingSettings,
    *,
    device: str = "cpu",
    seed: int = 0,
    progress: Progress = silent,
    stage: str = "worlds",
) -> Arrays:
    """Train a model a world and keep of its answers what attacks and scores need: see ``kept_answers``."""
    logits = logits_of_worlds(worlds, settings, device=device, seed=seed, progress=progress, stage=stage)
    return kept_answers(worlds.learned(settings, seed=seed), logits)


def model_seed(seed: int, world: int) -> int:
    """What a world's model is trained with."""
    return child(seed, 9, world)


def logits_of_worlds(
    worlds: Worlds,
    settings: TrainingSettings,
    *,
    numbers: Sequence[int] | None = None,
    device: str = "cpu",
    seed: int = 0,
    progress: Progress = silent,
    stage: str = "worlds",
) -> list[Arrays]:
    """Train a model in each world, or in those of the given ``numbers``: what each says about every document, float16
    (documents, classes) a task. A world's model is the same whichever worlds it is trained with."""
    from pathveil.training.ensemble import ensemble_logits_many, start_vectors

    numbers = range(len(worlds.inside)) if numbers is None else numbers
    settings = settings.for_documents(worlds.inside.sum() / len(worlds.inside))  # of all worlds: the same for each
    return ensemble_logits_many(
        worlds.corpus,
        [np.flatnonzero(worlds.inside[number]) for number in numbers],
        settings,
        seeds=[model_seed(seed, number) for number in numbers],
        vectors=start_vectors(worlds.corpus, settings, seed=seed),
        device=device,
        progress=progress,
        stage=stage,
    )


def kept_answers(worlds: Worlds, logits: Sequence[Mapping[str, np.ndarray]]) -> Arrays:
    """What attacks and scores need of all worlds' logits (documents, classes) a task, float16 and int16; the worlds are
    those that the models ``learned``.

    For every task: the log-probability and the margin of each document's own label (``own …``, ``own margin …``) and of
    the code that models which saw it answer most often (``taught …``) or second most often (``second …``), and the
    answered code (``code …``): (worlds, documents) each. A student never sees the true label, so what it was taught is
    the better thing to ask about.
    """
    corpus = worlds.corpus
    arrays: Arrays = {}
    for task in corpus.tasks:
        codes = np.stack([said[task].argmax(axis=1) for said in logits]).astype(np.int16)
        arrays[f"code {task}"] = codes
        taught = TaughtCodes.of(worlds, {task: codes})
        for name, label in zip(ASKED, (worlds.labels[task], taught.first[task], taught.second[task]), strict=True):
            margin = f"{name} margin"
            with ThreadPoolExecutor() as pool:  # NumPy lets go of the interpreter: a GPU need not wait for this
                found = list(pool.map(partial(_of_label, label=label), [said[task] for said in logits]))
            arrays[f"{name} {task}"], arrays[f"{margin} {task}"] = (np.stack(part) for part in zip(*found, strict=True))
    return arrays


def _of_label(logits: np.ndarray, *, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log-probability and the margin of each document's label (documents,)."""
    logs = attacks.of_label(attacks.log_softmax(logits), label)
    return logs.astype(np.float16), attacks.confidence_margin(logits, label).astype(np.float16)


@dataclass(frozen=True)
class TaughtCodes:
    """The code that models which saw a document answer most often, without the vote of the model that is attacked: it
    would agree with itself most where it is a member. So it is the first of all votes or, in its place, the second."""

    first: Arrays  # task: (documents,), −1 where there is no label
    second: Arrays
    swapped: Arrays  # task: (worlds, documents) bool: without this world's vote it is the second

    @classmethod
    def of(cls, worlds: Worlds, codes: Mapping[str, np.ndarray], inside: np.ndarray | None = None) -> "TaughtCodes":
        """From some tasks' answered codes (worlds, documents); ``inside`` where it is not the worlds' own."""
        inside = worlds.inside if inside is None else inside
        labels = {task: worlds.labels[task] for task in codes}
        models = (({task: said[world] for task, said in codes.items()}, mask) for world, mask in enumerate(inside))
        found = cls({}, {}, {})
        every = np.arange(worlds.corpus.documents)
        for task, votes in vote(models, labels, worlds.corpus.classes).items():
            first = votes.argmax(axis=1)
            left = votes.copy()
            left[every, first] = -1
            second = left.argmax(axis=1)
            rest = votes[every, first] - (codes[task] == first) * (SAW_IT * inside + 1)
            runner = left[every, second]
            found.swapped[task] = (rest < runner) | ((rest == runner) & (second < first))
            found.first[task], found.second[task] = (np.where(labels[task] < 0, -1, code) for code in (first, second))
        return found


@dataclass(frozen=True)
class WorldAnswers:
    """What attacks need of all worlds' models: about the labels (and the first taught code), and about the second."""

    answers: ModelAnswers
    second: ModelAnswers
    swapped: Arrays

    def without(self, world: int) -> ModelAnswers:
        """All models' answers, the taught codes chosen without one world's vote."""
        first = self.answers.taught
        assert first is not None, "answers about the first taught code"

        def chosen(name: str) -> Arrays:
            pairs = getattr(first, name), getattr(self.second, name)
            return {task: np.where(mask[world], pairs[1][task], pairs[0][task]) for task, mask in self.swapped.items()}

        taught = replace(first, log_p=chosen("log_p"), margin=chosen("margin"), right=chosen("right"))
        return replace(self.answers, taught=taught)


def world_answers(worlds: Worlds, arrays: Mapping[str, np.ndarray]) -> WorldAnswers:
    """What ``kept_answers`` kept, as attacks take it."""
    tasks = worlds.corpus.tasks
    if f"second {tasks[0]}" not in arrays:
        raise UsageError("these worlds' answers were kept by an earlier version; train the worlds again")
    codes = {task: arrays[f"code {task}"] for task in tasks}
    taught = TaughtCodes.of(worlds, codes)

    def answers(name: str, labels: Arrays) -> ModelAnswers:
        right = {
            task: np.where(labels[task] < 0, np.nan, codes[task] == labels[task]).astype(np.float32) for task in tasks
        }
        return ModelAnswers(
            log_p={task: arrays[f"{name} {task}"].astype(np.float32) for task in tasks},
            margin={task: arrays[f"{name} margin {task}"].astype(np.float32) for task in tasks},
            right=right,
            inside=worlds.inside,
            features=np.zeros((len(worlds.inside), 0, 0), np.float32),
            pool=np.flatnonzero(worlds.judged),
        )

    own = replace(answers("own", worlds.labels), taught=answers("taught", taught.first))
    return WorldAnswers(own, answers("second", taught.second), taught.swapped)


def judge_worlds(worlds: Worlds, arrays: Mapping[str, np.ndarray], *, name: str) -> DefenceRow:
    """Attack every world's model with the help of the others, and score its codes on the test cases; the worlds are
    those that the models ``learned``."""
    found: dict[str, list[list[float]]] = {}
    rows = np.flatnonzero(~worlds.test & (worlds.canary >= 0))
    rare = is_rare(worlds)[rows]
    answers = world_answers(worlds, arrays)
    for world, inside in enumerate(worlds.inside):
        member = inside[rows]
        for one in attack_world(worlds, answers, world, rows):
            found.setdefault(one.attack, []).append(_figures(one.values, member, worlds.canary[rows], rare))
    kinds = [kind for number, kind in enumerate(CANARIES) if (worlds.canary == number + 1).any()]
    listed = []
    for attack, values in found.items():
        auc, rare_auc, tpr, *canaries = (estimate(column) for column in np.array(values).T)
        planted = dict(zip(kinds, canaries, strict=False))
        listed.append(AttackFigures(attack=attack, auc=auc, rare_auc=rare_auc, tpr_at_1=tpr, canaries=planted))
    auc, rare_auc, tpr, *canaries = _strongest(np.array([*found.values()]))
    tasks = _scores(worlds, arrays)
    micro, macro = (np.mean([values[kind] for values in tasks.values()], axis=0) for kind in ("micro", "macro"))
    return DefenceRow(
        name=name,
        auc=estimate(auc),
        rare_auc=estimate(rare_auc),
        tpr_at_1=estimate(tpr),
        canaries={kind: estimate(values) for kind, values in zip(kinds, canaries, strict=True)},
        micro=estimate(micro),
        macro=estimate(macro),
        tasks={
            task: {kind: estimate(np.array(of_worlds)) for kind, of_worlds in values.items()}
            for task, values in tasks.items()
        },
        attacks=listed,
        worlds=len(worlds.inside),
        by_world=WorldFigures(
            auc=_listed(auc),
            rare_auc=_listed(rare_auc),
            tpr_at_1=_listed(tpr),
            canaries={kind: _listed(values) for kind, values in zip(kinds, canaries, strict=True)},
            micro=micro.tolist(),
            macro=macro.tolist(),
            tasks={task: values["macro"] for task, values in tasks.items()},
        ),
    )


def _strongest(found: np.ndarray) -> list[np.ndarray]:
    """Of each figure the values in all worlds (worlds,) of the attack that is best at it, from (attacks, worlds,
    figures).

    >>> [values.tolist() for values in _strongest(np.array([[[0.5], [0.6]], [[0.4], [0.9]]]))]
    [[0.4, 0.9]]
    """
    known = ~np.isnan(found)
    means = np.where(known, found, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return [found[attack, :, figure] for figure, attack in enumerate(means.argmax(axis=0))]


def _listed(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def is_rare(worlds: Worlds) -> np.ndarray:
    """Reports of which a class (subsite or histology; any where there is neither) has fewer than 25 (documents,)."""
    corpus = worlds.corpus
    named = [task for task in corpus.tasks if task in ("subsite", "histology")] or list(corpus.tasks)
    rare = np.zeros(corpus.documents, bool)
    for task in named:
        labels = np.asarray(corpus.labels[task])
        counts = np.bincount(labels[~worlds.test & (labels >= 0)], minlength=len(corpus.classes[task]))
        rare |= (labels >= 0) & (counts[np.maximum(labels, 0)] < RARE)
    return rare


def attack_world(worlds: Worlds, said: WorldAnswers, world: int, rows: np.ndarray) -> list[Score]:
    """Every attack's scores (rows,) on one world's model with the help of the others, all tasks together."""
    answers = said.without(world)
    own, others = answers.only([world]), answers.only([n for n in range(answers.models) if n != world])
    records = Records(
        member=answers.inside[world, rows],
        cases=worlds.corpus.cases[rows],
        labels={task: label[rows] for task, label in worlds.labels.items()},
        classes=worlds.corpus.classes,
    )
    loss = attacks.joint([own.log_p[task][0, rows].astype(np.float64) for task in records.labels])
    return [*overall(online(own, others, records, rows, out_models=True)), Score(LOSS, TOGETHER, loss)]


def _figures(scores: np.ndarray, member: np.ndarray, canary: np.ndarray, rare: np.ndarray) -> list[float]:
    """AUC, that of rare classes, TPR at 1 % FPR, all of ordinary reports; and the AUC of each kind of canary."""
    ordinary = ~np.isnan(scores) & (canary == 0)
    planted = [canary == kind + 1 for kind in range(len(CANARIES)) if (canary == kind + 1).any()]
    areas = canary_figures(scores, member, (ordinary, ordinary & rare, *planted))
    tpr = metrics.tpr_at(metrics.roc(scores[ordinary], member[ordinary]), FPR)
    return [*areas[:2], tpr, *areas[2:]]


def canary_figures(scores: np.ndarray, member: np.ndarray, groups: Iterable[np.ndarray]) -> list[float]:
    """The AUC in each of several groups of records (records,) bool; NaN of a group with one side only, or so small that
    fewer than ten are inside or outside, as a rule."""
    areas = []
    for group in groups:
        own = group & ~np.isnan(scores)
        enough = own.sum() >= FEWEST_JUDGED and 0 < member[own].sum() < own.sum()
        areas.append(float(metrics.auc(scores[own], member[own])) if enough else np.nan)
    return areas


def _scores(worlds: Worlds, arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, list[float]]]:
    """Micro and macro F1 of every world's model on the test cases, a task."""
    scores: dict[str, dict[str, list[float]]] = {}
    for task in worlds.corpus.tasks:
        truth = np.asarray(worlds.corpus.labels[task])
        tested = worlds.test & (truth >= 0)
        codes = arrays[f"code {task}"][:, tested]
        scores[task] = {
            "micro": [float((code == truth[tested]).mean()) for code in codes],
            "macro": [macro_f1(truth[tested], code) for code in codes],
        }
    return scores


def estimate(values: np.ndarray, *, risk: float = 0.05) -> Estimate:
    """The mean over worlds, with Student's interval, wrong with a chance of ``risk``."""
    kept = values[~np.isnan(values)]
    if not len(kept):
        return Estimate(value=0.5, low=0.0, high=1.0)
    reach = (
        float(student_t.isf(risk / 2, len(kept) - 1) * kept.std(ddof=1) / np.sqrt(len(kept))) if len(kept) > 1 else 0.0
    )
    mean = float(kept.mean())
    return Estimate(value=round(mean, 4), low=round(mean - reach, 4), high=round(mean + reach, 4))
