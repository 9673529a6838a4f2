"""An evaluation as one HTML page that needs nothing else: scores first, then where the model is right and where not.

Nothing on it speaks of fewer than ten cases: a task with fewer is named and not scored, smaller counts are not told.
"""

from typing import Any

from pathveil.bundle.evaluation import Evaluation, TaskEvaluation
from pathveil.bundle.evaluation_details import GroupRow, wilson
from pathveil.bundle.page import as_share, fill
from pathveil.bundle.row_names import draw_rows
from pathveil.charts import Mark, Series, curves, key
from pathveil.disclosure import FEWEST_CASES_TOLD, TOO_FEW, may_be_told
from pathveil.errors import UsageError
from pathveil.formatting import counted, listed
from pathveil.icdo.combinations import with_term

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
        warnings=warnings_of(result),
        broken={task: broken_promise(task, one) for task, one in told.items()},
        coded={task: coded_share(one) for task, one in told.items()},
        right={task: right_of_coded(one) for task, one in told.items()},
        promised={task: promised_of(one) for task, one in told.items()},
        contradicting=few_or(result.contradictions or 0, result.contradicting_cases),
        unknown={task: one.unseen_labels for task, one in told.items() if may_be_told(one.unseen_cases)},
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
        named=with_term,
        shown=SHOWN,
    )


def details(one: TaskEvaluation) -> Any:
    """A task's details; an evaluation that was made without them has no page."""
    if one.details is None:
        raise ValueError("an evaluation without details has no page")
    return one.details


def few_or(number: int, cases: int) -> str:
    """A count of reports, or that it is below what may be told."""
    if not number or may_be_told(cases):
        return counted(number, "report")
    return f"reports of {TOO_FEW}" if may_be_told(number) else f"fewer than {FEWEST_CASES_TOLD} reports"


def warnings_of(result: Evaluation) -> list[str]:
    """What makes the figures look better than they are, or worse, as sentences."""
    unread = result.unread_reports if may_be_told(result.unread_cases) else []
    told = [f"{warning[0].upper()}{warning[1:]}" for warning in (*result.warnings, *result.unknown_labels, *unread)]
    if result.warnings:
        return told
    ends = (
        (result.training_reports, result.training_cases, "belong to cases that the model was trained with"),
        (
            result.training_texts,
            result.training_text_cases,
            "read word for word like one that the model was trained with, of another case",
        ),
    )
    return told + [
        f"{f'{number:,}' if may_be_told(cases) else 'Some'} of these reports {end}: the scores are better than new "
        "reports will keep."
        for number, cases, end in ends
        if number
    ]


def coded_share(one: TaskEvaluation) -> str:
    """The share coded without a person."""
    is_told = not one.coded.share or may_be_told(one.coded.cases)
    return as_share(one.coded.share) if is_told else f"of {TOO_FEW}"


def right_of_coded(one: TaskEvaluation) -> str:
    """The share right of what was coded without a person."""
    if one.coded.accuracy is None:
        return "–"
    return tenths(one.coded.accuracy) if may_be_told(one.coded.cases) else TOO_FEW


def promised_of(one: TaskEvaluation) -> str:
    """The share right that the task's threshold was chosen for; a task that is always left to a person has none."""
    return "–" if one.wanted is None or one.threshold is None else tenths(one.wanted)


def tenths(share: float) -> str:
    """To a tenth of a per cent: 96.5 % is not the 97 % that were promised."""
    return f"{100 * share:.1f} %"


def broken_promise(task: str, one: TaskEvaluation) -> str:
    """A sentence where codes given without a person are surely less often right than was promised, else nothing."""
    cases, right = one.coded.cases, one.coded.accuracy
    if right is None or one.wanted is None or not may_be_told(cases) or wilson(right, cases).high >= one.wanted:
        return ""
    return f"{task}: {tenths(right)} of what is coded without a person is right, {tenths(one.wanted)} were promised"


def charts_of(task: str, one: TaskEvaluation) -> list[tuple[str, str]]:
    """The figures of one task: its commonest codes, registries and years."""
    found = details(one)
    rows = [Mark(row.label, row.f1.value, row.f1.low, row.f1.high) for row in found.classes[:SHOWN]]
    charts = []
    if rows:
        more = f", the {len(rows)} commonest" if len(found.classes) > len(rows) else ""
        drawn, cut = draw_rows(rows, title=f"{task}: F1 by code")
        charts.append((f"F1 of each code{more}, with 95\u00a0% intervals. {cut}", drawn))
    for kind, groups in (("registry", found.registries), ("year", found.years)):
        if len(groups) > 1:
            drawn, cut = draw_groups(groups, chance=one.accuracy.value, title=f"{task}: share right by {kind}")
            more = f", the {SHOWN} largest of {len(groups)}" if len(groups) > SHOWN else ""
            title = f"Share right by {kind}{more}, with 95\u00a0% intervals; the dotted line is all reports. {cut}"
            charts.append((title, drawn))
    return charts


def draw_groups(groups: list[GroupRow], *, chance: float, title: str) -> tuple[str, str]:
    """The largest groups, in the order of their names, each with its number of reports."""
    largest = sorted(groups, key=lambda group: -group.documents)[:SHOWN]
    chosen = sorted(largest, key=lambda group: group.name)
    marks = [Mark(one.name, one.accuracy.value, one.accuracy.low, one.accuracy.high, colour=2) for one in chosen]
    return draw_rows(marks, ends=[f" ({one.documents:,})" for one in chosen], chance=chance, title=title)
