"""The defences study on the page: what each way of training leaves to the strongest attack, and what it costs."""

from collections.abc import Sequence

from pathveil.report import figures
from pathveil.report.figures import Series
from pathveil.report.findings import signed
from pathveil.report.tables import (
    Cell,
    Section,
    Table,
    appetite_tables,
    number,
    suppressed,
    with_interval,
)
from pathveil.study.result import Change, DefencePoint, DefencesResult, Estimate
from pathveil.wording import counted

SCORES = {"macro": "macro F1", "micro": "micro F1"}


def section(study: DefencesResult) -> Section:
    """The picture first, then the figures of every way, every attack, and what to use under which appetite."""
    points, tolerated = study.points, study.settings["tolerated"]
    front = [(point.auc.value, point.macro.value) for point in points if point.front]
    drawn = [
        (
            f"Privacy against {name}",
            figures.plane(
                _series(points, score, use=study.recommendation.use),
                x_title="strongest attack's AUC (left is more private)",
                y_title=f"{name}, mean of the tasks",
                front=front if score == "macro" else (),
                limit=(tolerated, "tolerated"),
            ),
            f"Unseen cases; 95 % intervals over {counted(points[0].worlds, 'world')}."
            + (figures.front_caption(front) if score == "macro" else ""),
        )
        for score, name in SCORES.items()
    ]
    seeds = len(study.settings["seeds"])
    drawn_by = f" drawn with {counted(seeds, 'seed')}" if seeds > 1 else ""
    return Section(
        id="defences",
        title="A model that may leave the building",
        text=f"{_sentence(study)} Each way of training is judged in {counted(points[0].worlds, 'world')}{drawn_by}: "
        "half of the cases are in one, and attackers whose own models were trained in the same way ask who was. Of all "
        "attacks each figure is the strongest one's. Intervals tell how models drawn like these vary, not other "
        "corpora.",
        figures=drawn,
        tables=[_ways(study), _attacks(points, study), *appetite_tables(study.recommendation, "defence-appetites")],
    )


def _sentence(study: DefencesResult) -> str:
    """What the defence is worth, for a reader who reads one sentence."""
    use = next((point for point in study.points if point.name == study.recommendation.use), None)
    if use is None:
        return study.recommendation.sentence
    found = f"Of a hundred reports that a model trained with “{use.name}” has read, the strongest attack finds "
    found += f"{_hundredth(use)} while it accuses one stranger in a hundred"
    beside = next(point for point in study.points if point.vocabulary == use.vocabulary)
    if beside is not use:
        found += f"; trained with “{beside.name}”, {_hundredth(beside)}"
    return f"{found}."


def _hundredth(point: DefencePoint) -> str:
    """How many of a hundred members are found at one false accusation in a hundred."""
    share = 100 * point.tpr_at_1.value
    return f"{share:.1f}" if share < 9.95 else f"{share:.0f}"


def _series(points: Sequence[DefencePoint], score: str, *, use: str | None) -> list[Series]:
    """Points by vocabulary where there are several; the recommended way has a marker of its own."""
    several = len({point.vocabulary for point in points}) > 1
    made = []
    for vocabulary in dict.fromkeys(point.vocabulary for point in points):
        own = [point for point in points if point.vocabulary == vocabulary and point.name != use]
        if own:
            made.append(_of(f"words: {vocabulary}" if several else "", own, score))
    chosen = [point for point in points if point.name == use]
    return [*made, *([_of("recommended", chosen, score)] if chosen else [])]


def _of(name: str, points: Sequence[DefencePoint], score: str) -> Series:
    ends = [[getattr(point.auc, end) for point in points] for end in ("value", "low", "high")]
    return Series(name, ends[0], [getattr(point, score).value for point in points], *ends[1:], [p.name for p in points])


def _ways(study: DefencesResult) -> Table:
    """Every way of training, its figures, and how far they are from the first way's."""
    points = study.points
    kinds = list(points[0].canaries)
    several = len({point.vocabulary for point in points}) > 1
    heads = ["way of training", *(["words"] if several else []), "AUC (95 %)", "AUC, rare classes", "TPR at 1 % FPR"]
    heads += [f"canaries: {kind}" for kind in kinds]
    heads += ["micro F1", "macro F1", "AUC beside the first", "micro F1 beside it", "macro F1 beside it"]
    rows = [
        [
            point.way,
            *([point.vocabulary] if several else []),
            with_interval(point.auc),
            _or_suppressed(point.rare_auc),
            with_interval(point.tpr_at_1),
            *(_or_suppressed(point.canaries[kind]) for kind in kinds),
            number(point.micro.value),
            number(point.macro.value),
            *(_change(point.changes.get(name)) for name in ("auc", "micro", "macro")),
        ]
        for point in points
    ]
    note = f"The first way, “{points[0].way}”, is what the others are held against, world by world and with the same "
    note += "words. AUC of canaries is that of the attack which finds them best."
    return Table("ways", "Ways of training", heads, rows, note=note)


def _attacks(points: Sequence[DefencePoint], study: DefencesResult) -> Table:
    """The AUC of every attack on every way, so that it is seen which one is the strongest where."""
    names = [one.attack for one in study.table[0].attacks]
    rows = []
    for point in points:
        own = [row for row in study.table if (row.way, row.vocabulary) == (point.way, point.vocabulary)]
        means = [sum(row.attacks[place].auc.value for row in own) / len(own) for place in range(len(names))]
        rows.append([point.name, *(number(mean) for mean in means), point.strongest])
    return Table("attacks", "Every attack's AUC", ["way of training", *names, "strongest"], rows)


def _or_suppressed(figure: Estimate | None) -> Cell:
    return suppressed() if figure is None else with_interval(figure)


def _change(change: Change | None) -> Cell:
    """A difference with its interval.

    >>> _change(Change(value=-0.0123, low=-0.02, high=0.001)), _change(None)
    ('−0.012 (−0.020, +0.001)', '–')
    """
    if change is None:
        return Cell("–", None)
    if change.low is None or change.high is None:
        return Cell(signed(change.value), change.value)
    ends = change.value, change.low, change.high
    return Cell("{} ({}, {})".format(*map(signed, ends)), *ends)
