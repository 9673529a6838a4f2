"""Canaries in an audit: how much the most exposed reports of such a model give away, each planted once.

Averages hide who is most exposed. So, beside the shadows, models are trained by the audited model's own settings and
defence on random halves of the same reports, into which canaries were planted (``worlds``): reports under another
report's codes, the same with a near-duplicate under another case, reports with one wrong code. Each model is attacked
with the others' help; what is measured is whether a canary that was learned can be told from one that was not. Real
rare cases stand beside them.
"""

from collections.abc import Iterator

import numpy as np

from pathveil.auditing.evidence import CanaryRow
from pathveil.auditing.model_answers import Logits, answered_codes, answers_of
from pathveil.auditing.shadows import Job, ShadowTrainer
from pathveil.auditing.worlds import (
    CANARIES,
    TaughtCodes,
    WorldAnswers,
    Worlds,
    attack_world,
    canary_figures,
    estimate,
    is_rare,
    make_worlds,
    model_seed,
)
from pathveil.disclosure import may_be_told
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus

RARE_CASES = "real rare cases"


def measure_canaries(
    corpus: EncodedCorpus, settings: TrainingSettings, trainer: ShadowTrainer, *, canaries: int, models: int, seed: int
) -> list[CanaryRow]:
    """Train ``models`` with canaries (so many of each kind) and measure every attack on every kind."""
    worlds = make_worlds(corpus, worlds=models, test_share=0.0, canaries=canaries, seed=seed)
    jobs = [
        Job(number, np.flatnonzero(mask), seed=model_seed(seed, number)) for number, mask in enumerate(worlds.inside)
    ]
    store = trainer.train(
        worlds.corpus, jobs, settings, stage="models with canaries", family="worlds", canaries=canaries, seed=seed
    )

    def read() -> Iterator[tuple[Logits, np.ndarray]]:
        return (store.read(job, worlds.corpus.documents) for job in jobs)

    said = [codes for codes, _ in answered_codes(read())]
    inside = np.stack([mask for _, mask in read()])
    codes = {task: np.stack([one[task] for one in said]) for task in worlds.corpus.tasks}
    taught = TaughtCodes.of(worlds, codes, inside)
    pool = np.flatnonzero(worlds.judged)
    answers = WorldAnswers(
        answers_of(read(), worlds.labels, pool=pool, taught=taught.first),
        answers_of(read(), taught.second, pool=pool),
        taught.swapped,
    )
    rows = np.flatnonzero(worlds.canary >= 0)
    groups = canary_groups(worlds, rows)
    found: dict[str, dict[str, list[float]]] = {}
    label_only: dict[str, bool] = {}
    for world in range(models):
        member = inside[world, rows]
        for one in attack_world(worlds, answers, world, rows):
            label_only[one.attack] = one.label_only
            areas = canary_figures(one.values, member, groups.values())
            for kind, area in zip(groups, areas, strict=True):
                found.setdefault(kind, {}).setdefault(one.attack, []).append(area)
    looks = len(groups) * len(label_only)
    made = []
    for kind, by_attack in found.items():
        for attack, areas in by_attack.items():
            usual, strict = (estimate(np.array(areas), risk=risk) for risk in (0.05, 0.05 / looks))
            made.append(
                CanaryRow(
                    kind=kind,
                    attack=attack,
                    label_only=label_only[attack],
                    auc=usual.value,
                    low=max(usual.low, 0.0),
                    high=min(usual.high, 1.0),
                    sure=max(strict.low, 0.0),
                    canaries=int(groups[kind].sum()),
                    models=models,
                )
            )
    return made


def canary_groups(worlds: Worlds, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Which of the rows are canaries of each kind, and which are real rare cases if they are enough to be told."""
    kinds = {kind: worlds.canary[rows] == number + 1 for number, kind in enumerate(CANARIES)}
    rare = is_rare(worlds)[rows] & (worlds.canary[rows] == 0)
    if may_be_told(len(np.unique(worlds.corpus.cases[rows][rare])) // 4):  # of which half are in a world, more or less
        kinds[RARE_CASES] = rare
    return kinds
