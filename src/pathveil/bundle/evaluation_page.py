"""An evaluation as one HTML page that needs nothing else: scores first, then where the model is right and where not."""

from typing import Any

from pathveil.bundle.evaluation import Evaluation, TaskEvaluation
from pathveil.bundle.evaluation_details import GroupRow
from pathveil.bundle.page import fill
from pathveil.corpus.combinations import named
from pathveil.svg import Mark, Series, curves, intervals, key

SHOWN = 15  # confusions, and rows of a figure


def render(result: Evaluation) -> str:
    """The page."""
    from markupsafe import Markup

    covered = [
        Series(task, [one.coverage for one in points], [one.accuracy for one in points], colour=number)
        for number, (task, points) in enumerate((task, details(one).coverage) for task, one in result.tasks.items())
    ]
    meant = [
        Series(task, [one.probability for one in bins], [one.right for one in bins], colour=number)
        for number, (task, bins) in enumerate((task, details(one).calibration) for task, one in result.tasks.items())
    ]
    lowest = min((value for line in covered for value in line.y), default=0.0)
    return fill(
        "evaluation.html",
        result=result,
        bundle=result.bundle,
        coverage=Markup(
            curves(
                covered,
                title="Accuracy against coverage",
                x_title="share of reports coded",
                y_title="share right",
                bottom=max(0.0, int(lowest * 5) / 5 if lowest < 1 else 0.8),
            )
        ),
        calibration=Markup(
            curves(
                meant,
                title="Share right against probability",
                x_title="probability",
                y_title="share right",
                diagonal=True,
            )
        ),
        legend=[(Markup(key(line)), line.name) for line in covered],
        charts={
            task: [(title, Markup(chart)) for title, chart in charts_of(task, one)]
            for task, one in result.tasks.items()
        },
        named=named,
        shown=SHOWN,
    )


def details(one: TaskEvaluation) -> Any:
    """A task's details; an evaluation that was made without them has no page."""
    if one.details is None:
        raise ValueError("an evaluation without details has no page")
    return one.details


def charts_of(task: str, one: TaskEvaluation) -> list[tuple[str, str]]:
    """The figures of one task: its commonest codes, registries and years."""
    found = details(one)
    rows = [Mark(row.label, row.f1.value, row.f1.low, row.f1.high) for row in found.classes[:SHOWN]]
    charts = []
    if rows:
        more = f", the {len(rows)} commonest" if len(found.classes) > len(rows) else ""
        charts.append((f"F1 of each code{more}, with 95 % intervals.", intervals(rows, title=f"{task}: F1 by code")))
    for kind, groups in (("registry", found.registries), ("year", found.years)):
        if len(groups) > 1:
            title = f"Share right by {kind}, with 95 % intervals; the dotted line is all reports."
            drawn = intervals(group_marks(groups), chance=one.accuracy.value, title=f"{task}: share right by {kind}")
            charts.append((title, drawn))
    return charts


def group_marks(groups: list[GroupRow]) -> list[Mark]:
    """The largest groups, in the order of their names."""
    largest = sorted(groups, key=lambda group: -group.documents)[:SHOWN]
    chosen = sorted(largest, key=lambda group: group.name)
    return [
        Mark(f"{one.name} ({one.documents:,})"[:22], one.accuracy.value, one.accuracy.low, one.accuracy.high, colour=2)
        for one in chosen
    ]
