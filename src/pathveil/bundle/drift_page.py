"""Drift as one HTML page that needs nothing else: what is worth a look first, then words, abstention and codes."""

from pathveil.bundle.drift import Drift, TaskDrift, shown
from pathveil.bundle.page import fill
from pathveil.bundle.row_names import draw_rows
from pathveil.charts import Mark
from pathveil.formatting import counted

SHOWN = 12  # codes of a figure


def render(result: Drift) -> str:
    """The page."""
    from markupsafe import Markup

    marks = abstention_marks(result)
    charts = {task: mix_chart(task, one) for task, one in result.tasks.items()}
    return fill(
        "drift.html",
        result=result,
        left={task: (shown(one.abstained.new), result.left_before(one)) for task, one in result.tasks.items()},
        unread=shown(result.without_known_word),
        flagged={one.task for one in result.findings},
        abstention=Markup(draw_rows(marks, title="Left to people, new and expected")[0] if marks else ""),
        charts={task: Markup(chart) for task, (chart, _) in charts.items()},
        left_out={task: f"{one_sided(one)} {charts[task][1]}".strip() for task, one in result.tasks.items()},
    )


def abstention_marks(result: Drift) -> list[Mark]:
    """For each task whose share is told, that with its interval, and what was expected."""
    marks = []
    for task, one in result.tasks.items():
        interval, expected = one.abstained_interval, one.abstained.reference
        if interval is None:
            continue
        marks.append(Mark(task, interval.value, interval.low, interval.high))
        if expected is not None:
            marks.append(Mark("expected", expected, expected, expected, colour=7))
    return marks


def one_sided(one: TaskDrift) -> str:
    """How many codes the figure leaves out, since only one side tells them; empty where none."""
    number = sum((code.new is None) != (code.reference is None) for code in one.codes)
    if not number:
        return ""
    are = "is" if number == 1 else "are"
    return f"{counted(number, 'more code')} can be told on one side only and {are} in the table."


def mix_chart(task: str, one: TaskDrift) -> tuple[str, str]:
    """The codes whose share changed most, those that both sides tell, and what names stand for that were cut."""
    both = [
        Mark(code.code, code.new, min(code.new, code.reference), max(code.new, code.reference), colour=1)
        for code in one.codes
        if code.new is not None and code.reference is not None
    ]
    return draw_rows(both[:SHOWN], title=f"{task}: how common codes are, new and before") if both else ("", "")
