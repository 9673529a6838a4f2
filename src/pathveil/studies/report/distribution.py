"""The distribution study on the page: Tables II and III for every registry, Figures 3 and 4, the probe, traffic."""

from collections.abc import Sequence
from dataclasses import replace

from pathveil.charts import Series
from pathveil.disclosure import TOO_FEW
from pathveil.studies.report import figures
from pathveil.studies.report.epochs import epoch_cell, epoch_note
from pathveil.studies.report.findings import needed_table
from pathveil.studies.report.opening import signed
from pathveil.studies.report.tables import (
    Cell,
    Section,
    Table,
    appetite_tables,
    caveat_of_dates,
    count,
    mean,
    mean_estimate,
    mean_of,
    number,
    suppressed,
    with_interval,
)
from pathveil.studies.tables import ClassScore, DistributionResult, ProbeRow, RegistryScore
from pathveil.studies.training_choice import macro_by_mode

SHOWN_CLASSES = 10  # most and least frequent classes in the per-class figures
COMPARED = ("single", "centralized", "adversarial", "strong")  # modes in the figures of classes


def section(study: DistributionResult) -> Section:
    modes = list(dict.fromkeys(row.mode for row in study.scores))
    return Section(
        id="distribution",
        title="One model from registries that share no reports",
        text="Every registry's unseen cases, scored by a model trained alone, centrally, or together without "
        "showing reports. The probe asks how well a fresh classifier names the registry from the features that travel; "
        "a collapsed encoder would pass it, so the features' norm and the F1 of a fresh head on them stand beside it."
        + caveat_of_dates(study.settings),
        figures=[
            *overall_figure(study, modes),
            *hiding_figure(study),
            *class_figures(study, modes),
            *probe_figure(study),
        ],
        tables=[
            *score_tables(study, modes),
            *class_tables(study, modes),
            *probe_tables(study.probe),
            *membership_table(study),
            *appetite_table(study),
            traffic_table(study),
            *arms_table(study),
            *needed_table([*study.findings, *study.findings_of_strong], study=study.study),
        ],
    )


def arms_table(study: DistributionResult) -> list[Table]:
    """What each arm beside the modes changes, against the mode that it is."""
    rows = []
    for one in study.arms:
        here = "–" if one.these is None else f"{signed(one.these.low)} to {signed(one.these.high)}"
        known = one.low is not None and one.high is not None
        rows.append(
            [one.compared, signed(one.difference), f"{signed(one.low)} to {signed(one.high)}" if known else "–", here]
        )
    heads = ["compared", "difference", "95 % interval over registries", "at these registries"]
    return [Table("arms", "What each arm changes in its mode", heads, rows)] if rows else []


def score_tables(study: DistributionResult, modes: Sequence[str]) -> list[Table]:
    """Tables II and III: all registries together, a row a mode; then a tab a registry, with intervals."""
    rows, tasks = study.scores, list(dict.fromkeys(row.task for row in study.scores))
    seeds = len({row.seed for row in rows})
    title = "Tables II and III: F1 on unseen cases" + (f", mean of {seeds} seeds" if seeds > 1 else "")

    def own(mode: str, task: str, registry: str | None = None) -> list[RegistryScore]:
        there = [row for row in rows if (row.mode, row.task) == (mode, task)]
        return [row for row in there if registry in (None, row.registry)]

    figures = ("micro", "macro")
    means = [
        [mode, *(number(mean([getattr(r, f).value for r in own(mode, task)])) for task in tasks for f in figures)]
        for mode in modes
    ]
    heads = ["mode", *(f"{task} {figure}" for task in tasks for figure in figures)]
    there = dict.fromkeys(row.registry for row in rows)
    wanted = study.settings["groups"] or study.provenance.registries
    absent = [name for name in wanted if name not in there]
    note = f"Not shown, as {TOO_FEW} were tested on: {', '.join(absent)}." if absent else ""
    tables = [Table("scores", title, heads, means, group="scores", tab="mean of the registries", note=note)]
    for registry in there:
        cells = []
        for task in tasks:
            for mode in modes:
                found = own(mode, task, registry)
                shown = [
                    with_interval(mean_estimate([getattr(r, f) for r in found])) if found else suppressed()
                    for f in figures
                ]
                cells.append([task, mode, *shown])
        heads = ["task", "mode", "micro F1 (95 %)", "macro F1 (95 %)"]
        tables.append(Table(f"scores-{registry}", title, heads, cells, group="scores", tab=registry))
    return tables


def overall_figure(study: DistributionResult, modes: Sequence[str]) -> list[tuple[str, str, str]]:
    """Micro and macro F1 of every mode over registries and tasks; a line from the lowest to the highest seed."""
    series = []
    for figure in ("micro", "macro"):
        means, low, high = [], [], []
        for mode in modes:
            by_seed: dict[int, list[float]] = {}
            for row in study.scores:
                if row.mode == mode:
                    by_seed.setdefault(row.seed, []).append(getattr(row, figure).value)
            seeds = [sum(values) / len(values) for values in by_seed.values()]
            means.append(sum(seeds) / len(seeds))
            low.append(min(seeds))
            high.append(max(seeds))
        series.append(Series(f"{figure} F1", list(range(len(modes))), means, low, high))
    svg = figures.bars(series, names=modes, x_title="F1")
    return [("F1 by way of training", svg, "Mean over registries, tasks and seeds; lines: lowest to highest seed.")]


def hiding_figure(study: DistributionResult) -> list[tuple[str, str, str]]:
    """What the features are worth and what they betray: macro F1 of each mode against the probe."""
    if not study.probe:
        return []
    worth_of = macro_by_mode(study.scores)
    modes, middle, low, high = probe_by_mode([row for row in study.probe if row.mode in worth_of])
    worth = [worth_of[mode] for mode in modes]
    points = Series("", middle, worth, low, high, modes)
    label = mean_of(study.probe, "label")
    svg = figures.plane(
        [points],
        x_title="registry named by a fresh probe (left is better)",
        y_title="macro F1",
        limit=(label, "what the label alone tells") if label else None,
    )
    caption = "Mean over registries, tasks and seeds; lines from the lowest to the highest seed's probe."
    return [("Useful, and how well hidden?", svg, caption)]


def frequent_classes(study: DistributionResult) -> dict[str, dict[str, list[ClassScore]]]:
    """Of each task the classes with enough reports, the most frequent first, with the rows of the compared modes; all
    registries together."""
    enough = study.settings["class_samples"]
    found: dict[str, dict[str, list[ClassScore]]] = {}
    for row in sorted(study.classes, key=lambda row: -row.samples):
        if row.samples >= enough and row.mode in COMPARED:
            found.setdefault(row.task, {}).setdefault(row.label, []).append(row)
    tasks = list(dict.fromkeys(row.task for row in study.classes))
    return {task: found[task] for task in tasks if task in found}


def class_figures(study: DistributionResult, modes: Sequence[str]) -> list[tuple[str, str, str]]:
    """Figures 3 and 4: the ten most and ten least frequent classes with enough reports, all registries together."""
    drawings, classes = [], frequent_classes(study)
    for task in [task for task in classes if task in ("site", "subsite", "histology")] or list(classes)[:1]:
        labels = list(classes[task])
        groups = [(3, "most", labels[:SHOWN_CLASSES])]
        if len(labels) > SHOWN_CLASSES:
            groups.append((4, "least", labels[max(SHOWN_CLASSES, len(labels) - SHOWN_CLASSES) :]))
        for number_of, kind, shown in groups:
            series = []
            for mode in [mode for mode in modes if mode in COMPARED]:
                of_mode = [[row.f1 for row in classes[task][label] if row.mode == mode] for label in shown]
                measured = {place: mean_estimate(found) for place, found in enumerate(of_mode) if found}
                value, low, high = (
                    [getattr(one, end) for one in measured.values()] for end in ("value", "low", "high")
                )
                series += [Series(mode, list(measured), value, low, high)] if measured else []
            names = [f"{label} ({classes[task][label][0].samples:,})" for label in shown]
            svg = figures.bars(series, names=names, x_title="F1", marked=True)
            caption = f"Classes with at least {study.settings['class_samples']} reports (in brackets); "
            caption += "all registries' unseen cases, 95 % intervals, mean over seeds. A mark on the axis is an F1 of "
            caption += "nought; where there is no mark, nothing was measured. The numbers stand in a table below."
            drawings.append((f"Figure {number_of}: the {kind} frequent classes, {task}", svg, caption))
    return drawings


def class_tables(study: DistributionResult, modes: Sequence[str]) -> list[Table]:
    """The numbers of Figures 3 and 4, and of the classes between: a tab a task."""
    shown, tables = [mode for mode in modes if mode in COMPARED], []
    for task, classes in frequent_classes(study).items():
        rows = []
        for label, own in classes.items():
            of_modes = [[row.f1 for row in own if row.mode == mode] for mode in shown]
            cells = [with_interval(mean_estimate(found)) if found else number(None) for found in of_modes]
            unseen = mean_of(own, "support")
            rows.append([label, count(own[0].samples), count(unseen or 0), *cells])
        heads = ["class", "reports", "unseen, a seed", *(f"{mode}, F1 (95 %)" for mode in shown)]
        title = "F1 of each class, all registries together, mean over seeds"
        note = f"–: not measured, as {TOO_FEW} were tested on."
        note = note if any(cell == "–" for row in rows for cell in row) else ""
        tables.append(Table(f"classes-{task}", title, heads, rows, group="classes", tab=task, note=note))
    return tables


def probe_tables(rows: Sequence[ProbeRow]) -> list[Table]:
    """What a fresh probe reads off the features that travel, and what they are worth to a fresh head."""
    told, worth = [], []
    tasks = list(dict.fromkeys(task for row in rows for task in row.head))
    for mode in dict.fromkeys(row.mode for row in rows):
        own = [row for row in rows if row.mode == mode]
        found = [number(mean_of(own, name)) for name in ("linear", "mlp", "chance", "label")]
        norm = mean_of(own, "norm") or 0.0
        told.append([mode, *found, Cell(f"{norm:.1f}", norm)])
        heads_of = [[row.head[task] for row in own if task in row.head] for task in tasks]
        worth.append([mode, *(number(mean_of(one, figure)) for one in heads_of for figure in ("micro", "macro"))])
    heads = ["mode", "linear probe", "two-layer probe", "largest registry", "label alone", "feature norm"]
    columns = ["mode", *(f"{task} {figure}" for task in tasks for figure in ("micro", "macro"))]
    return [
        Table("probe", "Is the registry in the shared features? Mean over seeds", heads, told),
        Table("head", "F1 of a fresh head on those features, mean over seeds", columns, worth),
    ]


def probe_by_mode(rows: Sequence[ProbeRow]) -> tuple[list[str], list[float], list[float], list[float]]:
    """The modes that were probed, and the better probe's mean, lowest and highest accuracy over seeds of each."""
    modes = list(dict.fromkeys(row.mode for row in rows))
    told = [[row.best for row in rows if row.mode == mode] for mode in modes]
    return modes, [sum(one) / len(one) for one in told], [*map(min, told)], [*map(max, told)]


def probe_figure(study: DistributionResult) -> list[tuple[str, str, str]]:
    if not study.probe:
        return []
    names, middle, low, high = probe_by_mode(study.probe)
    series = [Series("fresh probe", list(range(len(names))), middle, low, high)]
    marks = [("largest registry", mean_of(study.probe, "chance") or 0.0)]
    label = mean_of(study.probe, "label")
    marks += [("label alone", label)] if label else []
    svg = figures.bars(series, names=names, x_title="registry named rightly", marks=marks)
    caption = "The better of two fresh probes on unseen cases; mean over seeds, lines from lowest to highest."
    return [("Can the registry be told from the features?", svg, caption)]


def membership_table(study: DistributionResult) -> list[Table]:
    """What an attacker learns about who was trained on, where the study asked."""
    rows, notes = [], []
    asked = study.membership
    for mode, model in dict.fromkeys((row.mode, row.model) for row in asked):
        own = [row for row in asked if (row.mode, row.model) == (mode, model)]
        known = [row.auc for row in own if row.auc is not None]
        if not known:
            rows.append([mode, model, suppressed(own[0].suppressed), number(None)])
            continue
        low = [row.tpr_at_fpr["0.01"] for row in own if "0.01" in row.tpr_at_fpr]
        notes += [one.note for one in low if one.note]
        auc = with_interval(mean_estimate(known))
        rows.append([mode, model, auc, number(mean_of(low, "value"))])
    heads = ["mode", "what is attacked", "attacker's AUC (95 %)", "TPR at 1 % FPR"]
    title = "Can an attacker tell who was trained on? Mean over seeds"
    note = f"–: the TPR at 1 % FPR {'; '.join(dict.fromkeys(notes))}." if notes else ""
    return [Table("membership", title, heads, rows, note=note)] if rows else []


def appetite_table(study: DistributionResult) -> list[Table]:
    """Which way of training to use, by the leak that is tolerated."""
    found = appetite_tables(study.recommendation, "training-appetites")
    note = "Ways that share no reports; attacked is what leaves a registry: the whole model of averaged and cyclic "
    note += "training, of shared/private training the encoder under a public head. "
    return [replace(table, title="Which training under which appetite", note=note + table.note) for table in found]


def megabytes(bytes: int) -> Cell:
    """
    >>> megabytes(1_234_567), megabytes(106_798_200_000)
    ('1.2', '106,798')
    """
    return Cell(f"{bytes / 1e6:,.{1 if bytes < 1e8 else 0}f}", bytes / 1e6)


def traffic_table(study: DistributionResult) -> Table:
    rows = study.traffic
    heads = ["mode", "seed", "rounds", "MB to sites", "MB to the hub", "reports seen", "best epoch", "refused updates"]
    cells = [
        [
            row.mode,
            row.seed,
            count(row.rounds),
            megabytes(row.bytes_to_sites),
            megabytes(row.bytes_to_hub),
            count(row.documents_seen),
            epoch_cell(row.epoch, row.at_cap),
            len(row.refused),
        ]
        for row in rows
    ]
    note = epoch_note([cap for row in rows for cap in row.at_cap])
    return Table("traffic", "What crossed the wire, and when the best epoch came", heads, cells, note=note)
