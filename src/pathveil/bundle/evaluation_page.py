"""An evaluation as one HTML page that needs nothing else: scores first, then where the model is right and where not.

Nothing on it speaks of fewer than ten cases: a task with fewer is named and not scored, smaller counts are not told.
"""

from typing import Any

from pathveil.bundle.evaluation import Evaluation, TaskEvaluation
from pathveil.bundle.evaluation_details import GroupRow, wilson
from pathveil.bundle.page import fill
from pathveil.corpus.combinations import named
from pathveil.disclosure import FEWEST_CASES_TOLD, TOO_FEW, may_be_told
from pathveil.errors import UsageError
from pathveil.svg import Mark, Series, curves, intervals, key
from pathveil.wording import counted, listed, percent

SHOWN = 15  # confusions, and rows of a figure


def render(result: Evaluation) -> str:
    """The page; it needs ten cases with a label of one task at least."""
    from markupsafe import Markup

    # The last point of a curve of coverage is all reports: it is there where these are of ten cases.
    told = {task: one for task, one in result.tasks.items() if details(one).coverage}
    if not told:
        raise UsageError(f"a page cannot tell of {TOO_FEW}; give more labelled reports")
    covered = [
        Series(task, [one.coverage for one in points], [one.accuracy for one in points], colour=number)
        for number, (task, points) in enumerate((task, details(one).coverage) for task, one in told.items())
    ]
    meant = [
        Series(task, [one.probability for one in bins], [one.right for one in bins], colour=number)
        for number, (task, bins) in enumerate((task, details(one).calibration) for task, one in told.items())
    ]
    lowest = min((value for line in covered for value in line.y), default=0.0)
    return fill(
        "evaluation.html",
        result=result,
        tasks=told,
        hidden=listed([task for task in result.tasks if task not in told]),
        bundle=result.bundle,
        warnings=warnings_of(result),
        broken={task: broken_promise(task, one, result) for task, one in told.items()},
        right={task: right_of_coded(one, result) for task, one in told.items()},
        contradicting=few_or(result.contradictions or 0),
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
        charts={task: [(title, Markup(chart)) for title, chart in charts_of(task, one)] for task, one in told.items()},
        named=named,
        shown=SHOWN,
    )


def details(one: TaskEvaluation) -> Any:
    """A task's details; an evaluation that was made without them has no page."""
    if one.details is None:
        raise ValueError("an evaluation without details has no page")
    return one.details


def few_or(number: int) -> str:
    """A count of reports, or that it is below what may be told."""
    if number and not may_be_told(number):
        return f"fewer than {FEWEST_CASES_TOLD} reports"
    return counted(number, "report")


def warnings_of(result: Evaluation) -> list[str]:
    """What makes the figures look better than they are, as sentences."""
    if result.warnings or not result.training_reports:
        return [f"{warning[0].upper()}{warning[1:]}" for warning in result.warnings]
    those = "some" if not may_be_told(result.training_reports) else f"{result.training_reports:,}"
    return [
        f"{those.capitalize()} of these reports belong to cases that the model was trained with: the scores are better "
        "than new reports will keep."
    ]


def cases_coded(one: TaskEvaluation, result: Evaluation) -> int:
    """About how many cases were coded without a person: reports of one case are right together."""
    return round(one.coded.share * one.documents * (result.cases or result.documents) / result.documents)


def right_of_coded(one: TaskEvaluation, result: Evaluation) -> str:
    """The share right of what was coded without a person."""
    if one.coded.accuracy is None:
        return "–"
    return percent(one.coded.accuracy) if may_be_told(cases_coded(one, result)) else TOO_FEW


def broken_promise(task: str, one: TaskEvaluation, result: Evaluation) -> str:
    """A sentence where codes given without a person are surely less often right than was promised, else nothing."""
    cases, right = cases_coded(one, result), one.coded.accuracy
    if right is None or one.wanted is None or not may_be_told(cases) or wilson(right, cases).high >= one.wanted:
        return ""
    shares = [f"{100 * share:.1f} %" for share in (right, one.wanted)]
    return f"{task}: {shares[0]} of what is coded without a person is right, {shares[1]} were promised"


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
