"""The vocabulary study on the page: Tables 1 and 2, Figures 1 and 2, and privacy against F1."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pathveil.auditing.attack_names import CLASSIFIERS
from pathveil.auditing.evidence import CONTROL, CROSS, MATCHED
from pathveil.charts import Series
from pathveil.studies.report import figures
from pathveil.studies.report.epochs import epoch_cell, epoch_note
from pathveil.studies.report.findings import needed_table
from pathveil.studies.report.tables import (
    Cell,
    Section,
    Table,
    appetite_tables,
    caveat_of_dates,
    count,
    mean,
    mean_of,
    number,
    spread,
    with_interval,
)
from pathveil.studies.rows import RatedCandidate
from pathveil.studies.tables import AttackRow, VocabularyResult
from pathveil.studies.vocabularies import kind_of

# The fields of a row of Table 1, and what the table calls them.
ACCURACIES = {
    "accuracy": "accuracy",
    "report_accuracy": "share of all reports",
    "balanced_accuracy": "balanced accuracy",
}
FEW = 4  # vocabularies in a figure of curves, as in the paper's


def section(study: VocabularyResult) -> Section:
    measured = [row for row in study.table1 if row.measured]
    names = list(dict.fromkeys(row.strategy for row in study.vocabularies))
    size = {name: mean_of([r for r in study.vocabularies if r.strategy == name], "size") or 0 for name in names}
    candidates = study.recommendation.candidates
    return Section(
        id="vocabulary",
        title="Which words a model may know",
        text="One registry in turn is left to the attacker; the others choose the words and train the model. "
        "“Cross-registry” is the paper's protocol, in which non-members come from the left-out registry: it mixes "
        "membership with change of source, and its control, with unseen reports in the members' place, shows how much "
        "of it is the latter. In “matched” the non-members are unseen cases of the members' own registries: "
        "membership alone." + caveat_of_dates(study.settings),
        figures=[*plane(study, candidates), *attack_figures(measured, names), *score_figures(study, names, size)],
        tables=[
            *verdict_tables(study, candidates),
            *table1(measured, names, size),
            stronger_attacks_table(measured, names),
            *table2(study, names),
            epochs_table(study, names),
            *needed_table(study.findings, study=study.study),
        ],
    )


def table1(measured: Sequence[AttackRow], names: Sequence[str], size: Mapping[str, float]) -> list[Table]:
    """The paper's layout, a tab for each protocol: rows of buckets and shadows, a column a vocabulary; the paper's
    accuracy (mean over classes) above the share of all reports and balanced accuracy, and the share of members, which
    says what calling every report a member earns."""
    tables = []
    own = [row for row in measured if row.attack == CLASSIFIERS]
    buckets = {row.bucket: row.bucket_order for row in sorted(own, key=lambda row: row.bucket_order)}
    wanted = ((CROSS, "cross-registry, as in the paper"), (CONTROL, "its control"), (MATCHED, "matched"))
    for protocol, tab in wanted:
        rows = []
        for bucket, place in buckets.items():
            for shadows in sorted({row.shadows for row in own}):
                cell = [r for r in own if (r.protocol, r.bucket, r.shadows) == (protocol, bucket, shadows)]
                values = [accuracies([row for row in cell if row.strategy == name]) for name in names]
                if cell:
                    members = mean([row.share_of_members for row in cell])
                    rows.append([Cell(bucket, order=place), shadows, number(members), *values])
        if rows:
            heads = ["training reports a class", "shadows", "share of members"]
            heads += [f"{name} ({size[name]:,.0f})" for name in names]
            title = "Table 1: the paper's attack, mean over folds (vocabulary sizes in brackets)"
            tables.append(
                Table(
                    f"table1-{protocol}".replace(" ", "-"),
                    title,
                    heads,
                    rows,
                    group="table1",
                    tab=tab,
                    note="Above, the paper's accuracy: each class has an attack model, and this is the mean of their "
                    "accuracies (of classes with members and non-members). In brackets below, the share of all reports "
                    "that are judged correctly (calling every report a member earns the share of members), and "
                    "balanced accuracy, the mean over members and non-members: 0.5 is guessing.",
                    parts=tuple(ACCURACIES.values()),
                )
            )
    return tables


def accuracies(rows: Sequence[Any]) -> Cell:
    """
    >>> first = AttackRow.model_construct(accuracy=0.8, report_accuracy=0.9, balanced_accuracy=0.5)
    >>> accuracies([first, AttackRow.model_construct(accuracy=0.6)])
    '0.700\\n(0.900, 0.500)'
    """
    mean_of_classes, *others = (mean_of(rows, name) for name in ACCURACIES)
    if mean_of_classes is None:
        return Cell("–")
    return Cell(f"{number(mean_of_classes)}\n({', '.join(map(number, others))})", mean_of_classes, *others)


def stronger_attacks_table(measured: Sequence[AttackRow], names: Sequence[str]) -> Table:
    rows = []
    kept = [row for row in measured if row.bucket == "all" and row.attack != CLASSIFIERS]
    for place in dict.fromkeys((row.protocol, row.attack, row.task) for row in kept):
        own = [row for row in kept if (row.protocol, row.attack, row.task) == place]
        rows.append([*place, *(number(mean_of([r for r in own if r.strategy == n], "auc")) for n in names)])
    heads = ["protocol", "attack", "task", *names]
    return Table("stronger", "Stronger attacks: AUC, mean over folds", heads, rows)


def table2(study: VocabularyResult, names: Sequence[str]) -> list[Table]:
    """The paper's layout, a tab a left-out registry, their mean first."""
    table = study.table2
    tasks = list(dict.fromkeys(row.task for row in table))
    heads = ["vocabulary", "words", *(f"{task} {figure}" for task in [*tasks, "mean"] for figure in ("micro", "macro"))]
    tables = []
    for registry in ["mean", *dict.fromkeys(row.attack_registry for row in table)]:
        rows = []
        for name in names:
            own = [r for r in table if r.strategy == name and registry in ("mean", r.attack_registry)]
            parts = [[row for row in own if row.task == task] for task in tasks]
            scores = [number(mean_of(part, figure)) for part in [*parts, own] for figure in ("micro", "macro")]
            rows.append([name, count(mean_of(own, "size") or 0), *scores])
        tab = "mean of the folds" if registry == "mean" else f"{registry} left out"
        title = "Table 2: F1 on unseen cases"
        tables.append(Table(f"table2-{registry}", title, heads, rows, group="table2", tab=tab))
    return tables


def epochs_table(study: VocabularyResult, names: Sequence[str]) -> Table:
    rows = []
    for name in names:
        own = [row for row in study.vocabularies if row.strategy == name]
        shadows = [epoch for row in own for epoch in row.shadow_epochs]
        mean_epoch = sum(shadows) / max(len(shadows), 1)
        targets = ", ".join(epoch_cell([row.epoch], [row.at_cap]) for row in own)
        rows.append([name, own[0].method, targets, Cell(f"{mean_epoch:.1f}", mean_epoch)])
    heads = ["vocabulary", "words kept", "epoch of each fold's target", "mean epoch of the shadows"]
    title = "How words were chosen, and the epochs at which training stopped"
    return Table("epochs", title, heads, rows, note=epoch_note([row.at_cap for row in study.vocabularies]))


def names_in_figures(names: Sequence[str]) -> list[str]:
    """The vocabularies of the paper's Figure 1: baseline, full intersection, a middle and the smallest by information.

    >>> names_in_figures(["B", "I2", "I3", "I6", "MI3200", "MI1600", "MI800", "MI320"])
    ['B', 'I6', 'MI1600', 'MI320']
    >>> names_in_figures(["B", "registries >= 2"])
    ['B', 'registries >= 2']
    """
    if len(names) <= FEW:
        return list(names)
    full = [name for name in names if re.fullmatch(r"I\d+", name)][-1:]
    by_information = [name for name in names if re.fullmatch(r"MI\d+", name)]
    chosen = ["B", *full, *by_information[1:2], *by_information[-1:]]
    kept = [name for name in dict.fromkeys(chosen) if name in names]
    return kept or list(names)[:FEW]


def attack_figures(measured: Sequence[AttackRow], names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Figure 1 of the paper, with intervals: a drawing for each bucket, and all classes under the matched protocol."""
    own = [row for row in measured if row.attack == CLASSIFIERS]
    buckets = dict.fromkeys(row.bucket for row in sorted(own, key=lambda row: row.bucket_order))
    wanted = [*((CROSS, bucket) for bucket in buckets), (MATCHED, "all")]
    curves: dict[tuple[str, str], list[Series]] = {}
    for protocol, bucket in wanted:
        for name in names_in_figures(names):
            cell = [r for r in own if (r.protocol, r.bucket, r.strategy) == (protocol, bucket, name)]
            points = _points(cell, "shadows", "accuracy")
            if points[0]:
                curves.setdefault((protocol, bucket), []).append(Series(name, *points))
    # Buckets are to be compared: their figures have one scale.
    drawings, scale = [], _reach([one for place, own in curves.items() if place[0] == CROSS for one in own])
    for (protocol, bucket), series in curves.items():
        classes = "all classes" if bucket == "all" else f"classes with {bucket} training reports"
        title = f"Figure 1: {classes}" + (", matched protocol" if protocol == MATCHED else "")
        svg = figures.lines(
            series,
            x_title="shadow models",
            y_title="attack accuracy, mean over classes",
            chance=0.5,
            reaching=scale if protocol == CROSS else _reach(series),
        )
        note = "Cross-registry protocol" if protocol == CROSS else "Non-members from the members' own registries"
        caption = f"{note}; {over_folds(own)}. The dashed line is guessing."
        drawings.append((title, svg, caption))
    return drawings


def over_folds(rows: Sequence[Any]) -> str:
    """How many folds a mean is over, and what the lines beside it are."""
    folds = len({row.fold for row in rows})
    if folds < 2:
        return "one fold, with 95 % intervals over cases"
    return "mean over folds with 95 % intervals" if folds > 2 else "mean of two folds, with lines to each"


def _reach(series: Sequence[Series]) -> tuple[float, float]:
    """A scale that holds these curves, their intervals and guessing, with some air.

    >>> _reach([Series("B", [1], [0.5], [0.5], [0.5])])  # an attack that can only guess
    (0.45, 0.55)
    """
    ends = [0.5, *(end for one in series for end in (*one.low, *one.high))]
    air = 0.04 * (max(ends) - min(ends)) or 0.05
    return min(ends) - air, max(ends) + air


def _points(rows: Sequence[Any], over: str, name: str) -> tuple[list, list, list, list]:
    """(places, means, lower ends, upper ends) of a figure along ``over``; one fold has the interval over its cases."""
    places, means, low, high = [], [], [], []
    for place in sorted({getattr(row, over) for row in rows}):
        own = [row for row in rows if getattr(row, over) == place and getattr(row, name) is not None]
        if own:
            ends = spread([getattr(row, name) for row in own]) or own[0].ci[name]
            places.append(place)
            means.append(mean_of(own, name))
            low.append(ends[0])
            high.append(ends[1])
    return places, means, low, high


def score_figures(
    study: VocabularyResult, names: Sequence[str], size: Mapping[str, float]
) -> list[tuple[str, str, str]]:
    """Figure 2 of the paper: F1 against vocabulary size."""
    drawings = []
    for figure in ("micro", "macro"):
        kinds: dict[str, list[tuple[float, float, float, float]]] = {}
        for name in names:
            own = [row for row in study.table2 if row.strategy == name]
            if not own:
                continue
            folds = dict.fromkeys(row.attack_registry for row in own)
            means = [mean_of([row for row in own if row.attack_registry == fold], figure) or 0.0 for fold in folds]
            ends = [getattr(row, f"{figure}_ci") for row in own]
            low, high = spread(means) or (mean([pair[end] for pair in ends]) or 0.0 for end in (0, 1))
            kinds.setdefault(kind_of(name), []).append((size[name], sum(means) / len(means), low, high))
        if not kinds:
            continue
        series = []
        for kind, points in kinds.items():
            x, y, low, high = (list(one) for one in zip(*sorted(points), strict=True))
            series.append(Series(kind, x, y, low, high))
        svg = figures.lines(series, x_title="words in the vocabulary", y_title=f"{figure} F1", logarithmic=True)
        caption = f"Mean over tasks; {over_folds(study.vocabularies)}."
        drawings.append((f"Figure 2: {figure} F1 against vocabulary size", svg, caption))
    return drawings


def plane(study: VocabularyResult, candidates: Sequence[RatedCandidate]) -> list[tuple[str, str, str]]:
    """Privacy against F1: the strongest attack a fold under the matched protocol."""
    if not candidates:
        return []
    kinds: dict[str, list[RatedCandidate]] = {}
    for one in candidates:
        kinds.setdefault(kind_of(one.name), []).append(one)
    drawn = []
    for kind, own in kinds.items():
        ends = ([getattr(one.auc, end) for one in own] for end in ("low", "high"))
        places = [one.auc.value for one in own], [one.macro for one in own]
        drawn.append(Series(kind, *places, *ends, labels=[one.name for one in own]))
    best = [(one.auc.value, one.macro) for one in candidates if one.front]
    svg = figures.plane(
        drawn,
        x_title="attacker's AUC (left is more private)",
        y_title="macro F1",
        front=best,
        limit=(study.settings["tolerated"], "tolerated"),
    )
    caption = (
        "The strongest attack, matched protocol: mean over folds, with lines to the lowest and highest end of any "
    )
    caption += "fold's 95 % interval." + figures.front_caption(best)
    return [("Privacy against F1", svg, caption)]


def verdict_tables(study: VocabularyResult, candidates: Sequence[RatedCandidate]) -> list[Table]:
    """Every vocabulary under the study's appetite, and what other appetites lead to."""
    tolerated = study.settings["tolerated"]
    rows = [
        [
            one.name,
            count(one.words),
            number(one.macro),
            with_interval(one.auc),
            one.verdict,
            "yes" if one.front else "",
        ]
        for one in candidates
    ]
    heads = ["vocabulary", "words", "macro F1", "attacker's AUC (ends of the folds)"]
    heads += [f"tolerating {tolerated:g}", "on the front"]
    title = "Each vocabulary under the tolerated leak"
    return [Table("verdicts", title, heads, rows), *appetite_tables(study.recommendation, "words-appetites")]
