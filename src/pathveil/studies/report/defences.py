"""The defences study on the page: what each way of training leaves to the strongest attack, and what it costs."""

from collections.abc import Sequence

from pathveil.auditing.worlds import FEWEST_JUDGED
from pathveil.charts import Series
from pathveil.formatting import counted
from pathveil.studies.report import figures
from pathveil.studies.report.opening import found_of_hundred, signed
from pathveil.studies.report.tables import Cell, Section, Table, appetite_tables, mean, number
from pathveil.studies.rows import Estimate
from pathveil.studies.tables import Change, DefencePoint, DefencesResult

SMALL_WORLD = 2_000  # reports: with fewer, teachers have read too little to teach well
SCORES = {"macro": "macro F1", "micro": "micro F1"}


def section(study: DefencesResult) -> Section:
    """The picture first, then the figures of every way, every attack, and what to use under which appetite."""
    points, tolerated = study.points, study.settings["tolerated"]
    front = [(point.auc.value, point.macro.value) for point in points if point.front]
    drawn = [
        (
            f"Privacy against {name}",
            figures.plane(
                _series(study, score),
                x_title="strongest attack's AUC (left is more private)",
                y_title=f"{name}, mean of the tasks",
                front=front if score == "macro" else (),
                limit=(tolerated, "tolerated"),
            ),
            f"F1 of unseen cases; AUC with 95 % intervals over {counted(points[0].worlds, 'world')}."
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
        f"corpora.{small_worlds(study)}",
        figures=drawn,
        tables=[_ways(study), _attacks(points, study), *appetite_tables(study.recommendation, "defence-appetites")],
    )


def small_worlds(study: DefencesResult) -> str:
    """What is to be said of ways that are compared in small worlds; nothing where worlds are large."""
    reports = study.provenance.reports * (1 - study.settings["test_share"]) / 2
    if reports >= SMALL_WORLD or len(study.points) < 2:
        return ""
    return (
        f" A world has about {round(reports, -1):,.0f} reports here. What a defence costs in so small a one says "
        "little of thousands of reports, where teachers have read more and contradict fewer labels: measure on your "
        "own before you choose."
    )


def _sentence(study: DefencesResult) -> str:
    """What the defence is worth, for a reader who reads one sentence."""
    use = next((point for point in study.points if point.name == study.recommendation.use), None)
    if use is None:
        return study.recommendation.sentence
    found = f"Of a hundred reports that a model trained with “{use.name}” has read, the strongest attack finds "
    found += f"{found_of_hundred(use)} while it accuses one stranger in a hundred"
    beside = next(point for point in study.points if point.vocabulary == use.vocabulary)
    if beside is not use:
        found += f"; trained with “{beside.name}”, {found_of_hundred(beside)}"
    return f"{found}."


def _series(study: DefencesResult, score: str) -> list[Series]:
    """Points by vocabulary where there are several; the recommended way has a marker of its own."""
    points, found = study.points, study.recommendation
    several = len({point.vocabulary for point in points}) > 1
    made = []
    for vocabulary in dict.fromkeys(point.vocabulary for point in points):
        own = [point for point in points if point.vocabulary == vocabulary and point.name != found.use]
        if own:
            made.append(_of(f"words: {vocabulary}" if several else "", own, score))
    chosen = [point for point in points if point.name == found.use]
    return [*made, *([_of("recommended" if found.within else "leaks least", chosen, score)] if chosen else [])]


def _of(name: str, points: Sequence[DefencePoint], score: str) -> Series:
    leaks = [point.auc for point in points]
    return Series(
        name,
        x=[leak.value for leak in leaks],
        y=[getattr(point, score).value for point in points],
        low=[leak.low for leak in leaks],
        high=[leak.high for leak in leaks],
        labels=[point.way for point in points],
    )


def _ways(study: DefencesResult) -> Table:
    """Every way of training, its figures, and how far its F1 is from the first way's."""
    points = study.points
    kinds = list(points[0].canaries)
    several = len({point.vocabulary for point in points}) > 1
    heads = ["way of training", *(["words"] if several else []), "AUC", "AUC, rare classes", "TPR at 1 % FPR"]
    heads += [f"canaries: {kind}" for kind in kinds]
    heads += ["micro F1", "micro, beside the first", "macro F1", "macro, beside the first"]
    rows = [
        [
            point.way,
            *([point.vocabulary] if several else []),
            _two_lines(point.auc),
            _two_lines(point.rare_auc),
            _two_lines(point.tpr_at_1),
            *(_two_lines(point.canaries[kind]) for kind in kinds),
            number(point.micro.value),
            _change(point.changes.get("micro")),
            number(point.macro.value),
            _change(point.changes.get("macro")),
        ]
        for point in points
    ]
    note = f"The first way, “{points[0].way}”, is what the others are held against, world by world and with the same "
    note += f"words. Of canaries the AUC of the attack that finds them best. – stands where fewer than {FEWEST_JUDGED} "
    note += "reports are of the kind."
    return Table("ways", "Ways of training, with 95 % intervals", heads, rows, note=note)


def _attacks(points: Sequence[DefencePoint], study: DefencesResult) -> Table:
    """The AUC of every attack on every way, so that it is seen which one is the strongest where."""
    own = {
        point.name: [row for row in study.table if (row.way, row.vocabulary) == (point.way, point.vocabulary)]
        for point in points
    }
    rows = [
        [one.attack, *(number(mean([row.attacks[place].auc.value for row in rows])) for rows in own.values())]
        for place, one in enumerate(study.table[0].attacks)
    ]
    return Table("attacks", "Every attack's AUC, on all reports", ["attack", *own], rows)


def _two_lines(figure: Estimate | None) -> Cell:
    """A figure, and below it its interval.

    >>> _two_lines(Estimate(value=0.5, low=0.4, high=0.6)), _two_lines(None)
    ('0.500\\n0.400–0.600', '–')
    """
    if figure is None:
        return Cell("–", None)
    return Cell(f"{figure.value:.3f}\n{figure.low:.3f}–{figure.high:.3f}", figure.value, figure.low, figure.high)


def _change(change: Change | None) -> Cell:
    """A difference, and below it how far its interval reaches.

    >>> _change(Change(value=-0.0123, low=-0.02, high=-0.0046)), _change(None)
    ('−0.012\\n± 0.008', '–')
    """
    if change is None:
        return Cell("–", None)
    if change.low is None or change.high is None:
        return Cell(signed(change.value), change.value)
    reach = (change.high - change.low) / 2
    return Cell(f"{signed(change.value)}\n± {reach:.3f}", change.value, change.low, change.high)
