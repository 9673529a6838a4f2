"""Drift as one HTML page that needs nothing else: what is worth a look first, then words, abstention and codes."""

from pathveil.bundle.drift import Drift, TaskDrift
from pathveil.bundle.page import fill
from pathveil.svg import Mark, intervals

SHOWN = 12  # codes of a figure


def render(result: Drift) -> str:
    """The page."""
    from markupsafe import Markup

    return fill(
        "drift.html",
        result=result,
        bundle=result.bundle,
        flagged={one.task for one in result.findings},
        abstention=Markup(intervals(abstention_marks(result), title="Left to people, new and expected")),
        charts={task: Markup(mix_chart(task, one)) for task, one in result.tasks.items()},
    )


def abstention_marks(result: Drift) -> list[Mark]:
    """For each task the new share with its interval, and what was expected."""
    marks = []
    for task, one in result.tasks.items():
        interval, expected = one.abstained_interval, one.abstained.reference
        marks.append(Mark(task, interval.value, interval.low, interval.high))
        if expected is not None:
            marks.append(Mark("expected", expected, expected, expected, colour=7))
    return marks


def mix_chart(task: str, one: TaskDrift) -> str:
    """The codes whose share changed most, those that both sides tell."""
    both = [
        Mark(code.code, code.new, min(code.new, code.reference), max(code.new, code.reference), colour=1)
        for code in one.codes
        if code.new is not None and code.reference is not None
    ]
    return intervals(both[:SHOWN], title=f"{task}: how common codes are, new and before") if both else ""
