"""The combined study on the page: every combination of words and training on the plane of privacy against F1."""

from pathveil.charts import Series
from pathveil.studies.report import figures
from pathveil.studies.report.epochs import epoch_cell, epoch_note
from pathveil.studies.report.tables import (
    Section,
    Table,
    appetite_tables,
    caveat_of_dates,
    count,
    number,
    with_interval,
)
from pathveil.studies.tables import CombinedResult


def section(study: CombinedResult) -> Section:
    points = study.points
    rows = [
        [
            point.strategy,
            count(point.size),
            point.mode,
            number(point.micro),
            number(point.macro),
            with_interval(point.auc),
            number(point.probe),
            epoch_cell(point.epoch, point.at_cap),
            "yes" if point.front else "",
        ]
        for point in points
    ]
    heads = ["vocabulary", "words", "training", "micro F1", "macro F1", "attacker's AUC (95 %)", "probe", "epoch"]
    series = []
    for mode in dict.fromkeys(point.mode for point in points):
        own = [point for point in points if point.mode == mode]
        ends = [[getattr(point.auc, end) for point in own] for end in ("value", "low", "high")]
        scores, names = [point.macro for point in own], [point.strategy for point in own]
        series.append(Series(mode, ends[0], scores, ends[1], ends[2], names))
    note = epoch_note([cap for point in points for cap in point.at_cap])
    front = [(point.auc.value, point.macro) for point in points if point.front]
    tolerated = study.settings["tolerated"]
    svg = figures.plane(
        series,
        x_title="attacker's AUC (left is more private)",
        y_title="macro F1",
        front=front,
        limit=(tolerated, "tolerated"),
    )
    caption = "Mean over registries and tasks; AUC with 95 % intervals." + figures.front_caption(front)
    return Section(
        id="combined",
        title="Words and training together",
        text="Every way of training with every vocabulary. The attacker reads all tasks' probabilities of a report "
        "together; non-members are unseen cases of the same registries." + caveat_of_dates(study.settings),
        figures=[("Privacy against F1", svg, caption)],
        tables=[
            Table("points", "Every combination", [*heads, "on the front"], rows, note=note),
            *appetite_tables(study.recommendation, "appetites"),
        ],
    )
