"""A defences study's rows put together: figures over the worlds of all seeds, differences, the front, what to use.

Two ways are compared world by world, since a world's cases are the same for all of them. Worlds of one seed share half
of their cases with each other: an interval tells how far models drawn like these vary, not other corpora.
"""

from collections.abc import Sequence

import numpy as np

from pathveil.auditing.worlds import WorldFigures
from pathveil.studies.recommendation import Candidate, front, recommend
from pathveil.studies.rows import Estimate, Recommendation
from pathveil.studies.statistics import Comparison, compare
from pathveil.studies.tables import Change, DefencePoint, WayRow

COMPARED = ("auc", "micro", "macro")


def points_of(table: Sequence[WayRow]) -> list[DefencePoint]:
    """A point for each way and vocabulary, over all its worlds; the first way is what the others are held against."""
    several = len({row.vocabulary for row in table}) > 1
    grouped: dict[tuple[str, str], list[WayRow]] = {}
    for row in table:
        grouped.setdefault((row.way, row.vocabulary), []).append(row)
    first = next(iter(grouped))[0]
    points = []
    for (way, vocabulary), rows in grouped.items():
        kinds = rows[0].canaries
        points.append(
            DefencePoint(
                name=f"{way}, {vocabulary}" if several else way,
                way=way,
                vocabulary=vocabulary,
                words=round(float(np.mean([row.words for row in rows]))),
                worlds=sum(row.worlds for row in rows),
                strongest=_strongest(rows),
                auc=_sure([row.by_world.auc for row in rows]),
                rare_auc=_estimate([row.by_world.rare_auc for row in rows]),
                tpr_at_1=_sure([row.by_world.tpr_at_1 for row in rows]),
                canaries={kind: _estimate([row.by_world.canaries[kind] for row in rows]) for kind in kinds},
                micro=_sure([row.by_world.micro for row in rows]),
                macro=_sure([row.by_world.macro for row in rows]),
                changes={} if way == first else _changes(rows, grouped[first, vocabulary]),
                front=False,
            )
        )
    on_front = front([(point.auc.value, point.macro.value) for point in points])
    return [point.model_copy(update={"front": mark}) for point, mark in zip(points, on_front, strict=True)]


def recommend_way(table: Sequence[WayRow], points: Sequence[DefencePoint], *, tolerated: float) -> Recommendation:
    """What to use under a tolerated AUC."""
    return recommend([candidate(point, table) for point in points], tolerated=tolerated, kind="way of training")


def candidate(point: DefencePoint, table: Sequence[WayRow]) -> Candidate:
    """A way as something that may be released; its folds are worlds, and its leak is that of all of them."""
    scores: dict[str, dict[str, float]] = {}
    own = [row for row in table if (row.way, row.vocabulary) == (point.way, point.vocabulary)]
    for row in own:
        for task, values in row.by_world.tasks.items():
            scores.setdefault(task, {}).update({f"{row.seed} {world}": f1 for world, f1 in enumerate(values)})
    leaks = {"": (point.auc.value, point.auc.low, point.auc.high)}
    return Candidate(point.name, point.words, scores, leaks, float(np.mean([row.floor for row in own])))


def _changes(rows: Sequence[WayRow], first: Sequence[WayRow]) -> dict[str, Change]:
    """How far a way's figures are from the first way's, world by world."""
    changes = {}
    for name in COMPARED:
        pairs = [
            pair
            for own, other in zip(rows, first, strict=True)
            for pair in zip(_values(own.by_world, name), _values(other.by_world, name), strict=True)
            if None not in pair
        ]
        ours, theirs = zip(*pairs, strict=True)
        found = compare(ours, theirs, blocks=range(len(ours)))
        low, high = found.interval() if found.units > 1 else (None, None)
        changes[name] = Change(value=found.mean, low=low, high=high)
    return changes


def _values(figures: WorldFigures, name: str) -> Sequence[float | None]:
    return getattr(figures, name)


def _strongest(rows: Sequence[WayRow]) -> str:
    """The attack with the highest AUC over all seeds."""
    names = [one.attack for one in rows[0].attacks]
    means = [np.mean([row.attacks[number].auc.value for row in rows]) for number in range(len(names))]
    return names[int(np.argmax(means))]


def _estimate(seeds: Sequence[Sequence[float | None]]) -> Estimate | None:
    """The mean over worlds with Student's interval, within what a share can be; none where no world has a value.

    >>> _estimate([[0.5, None], [0.7]]).value
    0.6
    """
    values = np.array([value for worlds in seeds for value in worlds if value is not None])
    if not len(values):
        return None
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    mean = float(values.mean())
    low, high = Comparison(mean, error, len(values)).interval()
    return Estimate(value=round(mean, 6), low=round(max(low, 0.0), 6), high=round(min(high, 1.0), 6))


def _sure(seeds: Sequence[Sequence[float | None]]) -> Estimate:
    """The same of figures that every world has."""
    found = _estimate(seeds)
    assert found is not None, "enough cases were asked for"
    return found
