"""``report.html`` from a run's results: one self-contained file that opens with the answer.

No script or font is fetched, nothing but aggregates is shown, and every table can be sorted and downloaded as CSV.
"""

import platform
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from pathveil import __version__
from pathveil.report import figures
from pathveil.report.figures import Series

Row = Mapping[str, Any]
MARKS = {True: ("holds", "✓"), False: ("does not hold", "✗"), None: ("not enough evidence", "?")}
SHOWN_CLASSES = 10  # most and least frequent classes in the per-class figure


def write(result: Mapping[str, Any], path: Path) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(render(result), encoding="utf-8")
    part.replace(path)


def render(result: Mapping[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("pathveil.report") / "page.html").read_text(encoding="utf-8"))
    studies = result["studies"]
    sections = []
    if "vocabulary" in studies:
        sections.append(_vocabulary(studies["vocabulary"]))
    if "distribution" in studies:
        sections.append(_distribution(studies["distribution"]))
    if "combined" in studies:
        sections.append(_combined(studies["combined"]))
    for section in sections:
        section["figures"] = [(title, Markup(svg), caption) for title, svg, caption in section["figures"]]
    return template.render(
        name=result["name"],
        answer=answer(result),
        findings=[finding | {"mark": MARKS[finding["holds"]]} for finding in result["findings"]],
        sections=sections,
        settings={name: study["settings"] for name, study in studies.items()},
        provenance=_provenance(studies),
    )


def answer(result: Mapping[str, Any]) -> str:
    """One paragraph: what to use, and which of the papers' findings hold here."""
    studies, findings = result["studies"], result["findings"]
    sentences = []
    if "combined" in studies:
        sentences.append(studies["combined"]["recommendation"]["sentence"])
    verbs = {True: ("holds here", "hold here"), False: ("does not hold here", "do not hold here")}
    verbs[None] = ("cannot be decided with this much data",) * 2
    for holds, (one, several) in verbs.items():
        ids = [finding["id"] for finding in findings if finding["holds"] is holds]
        if ids:
            sentences.append(f"{_listed(ids)} {several if len(ids) > 1 else one}.")
    return " ".join(sentences)


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["A1", "A2", "B1"])
    'A1, A2 and B1'
    """
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _provenance(studies: Mapping[str, Any]) -> dict[str, str]:
    first = next(iter(studies.values()), {"provenance": {}})
    about = {name: str(value) for name, value in first["provenance"].items()}
    return about | {"pathveil": __version__, "python": platform.python_version(), "machine": platform.machine()}


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _with_interval(figure: Mapping[str, float]) -> str:
    return f"{figure['value']:.3f} ({figure['low']:.3f}, {figure['high']:.3f})"


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(np.mean(values)) if values else None


def _vocabulary(study: Row) -> dict[str, Any]:
    measured = [row for row in study["table1"] if "accuracy" in row]
    strategies = list(dict.fromkeys(row["strategy"] for row in measured))
    size = {name: _mean([row for row in measured if row["strategy"] == name], "size") or 0.0 for name in strategies}
    tables = []
    for protocol in dict.fromkeys(row["protocol"] for row in measured):
        own = [row for row in measured if row["protocol"] == protocol and row["attack"] == "per-class"]
        rows = []
        for bucket in dict.fromkeys(row["bucket"] for row in own):
            for shadows in sorted({row["shadows"] for row in own}):
                cell = [row for row in own if row["bucket"] == bucket and row["shadows"] == shadows]
                values = [_mean([row for row in cell if row["strategy"] == name], "accuracy") for name in strategies]
                balanced = [_mean([r for r in cell if r["strategy"] == n], "balanced_accuracy") for n in strategies]
                shown = [f"{_number(a)} / {_number(b)}" for a, b in zip(values, balanced, strict=True)]
                rows.append([bucket, shadows, *shown])
        heads = ["training samples a class", "shadows", *(f"{name} ({size[name]:.0f} words)" for name in strategies)]
        title = f"Table 1, {protocol}: accuracy / balanced accuracy of the paper's attack, mean over folds"
        tables.append({"id": f"table1-{protocol.replace(' ', '-')}", "title": title, "heads": heads, "rows": rows})
    tables.append(_stronger(measured, strategies))
    tables.append(_table2(study["table2"], strategies))
    return {
        "id": "vocabulary",
        "title": "Which words a model may know",
        "text": "One registry in turn is left to the attacker; the others choose the words and train the model. "
        "“cross-registry” is the paper's protocol, in which non-members come from the left-out registry: it mixes "
        "membership with change of source, and its control shows how much of it is the latter. In “matched” the "
        "non-members are unseen cases of the members' own registries: membership alone.",
        "tables": tables,
        "figures": _vocabulary_figures(study, measured, strategies, size),
    }


def _stronger(measured: Sequence[Row], strategies: Sequence[str]) -> dict[str, Any]:
    rows = []
    kept = [row for row in measured if row["bucket"] == "all" and row["attack"] != "per-class"]
    for protocol, attack, task in dict.fromkeys((row["protocol"], row["attack"], row["task"]) for row in kept):
        own = [row for row in kept if (row["protocol"], row["attack"], row["task"]) == (protocol, attack, task)]
        aucs = [_mean([row for row in own if row["strategy"] == name], "auc") for name in strategies]
        rows.append([protocol, attack, task, *map(_number, aucs)])
    heads = ["protocol", "attack", "task", *strategies]
    return {"id": "stronger", "title": "Stronger attacks: AUC, mean over folds", "heads": heads, "rows": rows}


def _table2(table2: Sequence[Row], strategies: Sequence[str]) -> dict[str, Any]:
    tasks = list(dict.fromkeys(row["task"] for row in table2))
    rows = []
    for registry in [*dict.fromkeys(row["attack_registry"] for row in table2), "mean"]:
        for name in strategies:
            own = [r for r in table2 if r["strategy"] == name and registry in ("mean", r["attack_registry"])]
            cells = [
                f"{_number(_mean([r for r in own if r['task'] == t], 'micro'))} / "
                f"{_number(_mean([r for r in own if r['task'] == t], 'macro'))}"
                for t in tasks
            ]
            overall = f"{_number(_mean(own, 'micro'))} / {_number(_mean(own, 'macro'))}"
            rows.append([registry, name, f"{_mean(own, 'size') or 0:.0f}", *cells, overall])
    heads = ["left out", "vocabulary", "words", *tasks, "average"]
    return {"id": "table2", "title": "Table 2: micro / macro F1 on unseen cases", "heads": heads, "rows": rows}


def _vocabulary_figures(
    study: Row, measured: Sequence[Row], strategies: Sequence[str], size: Mapping[str, float]
) -> list[tuple[str, str, str]]:
    drawings = []
    own = [row for row in measured if row["attack"] == "per-class" and row["protocol"] == "cross-registry"]
    for bucket in dict.fromkeys(row["bucket"] for row in own):
        curves = []
        for name in strategies:
            cell = [row for row in own if row["bucket"] == bucket and row["strategy"] == name]
            numbers = sorted({row["shadows"] for row in cell})
            values = [_mean([row for row in cell if row["shadows"] == n], "balanced_accuracy") for n in numbers]
            pairs = [(n, v) for n, v in zip(numbers, values, strict=True) if v is not None]
            if pairs:
                curves.append(Series(name, [n for n, _ in pairs], [v for _, v in pairs]))
        if curves:
            svg = figures.lines(curves, x_title="shadow models", y_title="balanced attack accuracy", chance=0.5)
            title = "Figure 1: attack against number of shadows, " + (
                "all classes" if bucket == "all" else f"classes with {bucket} training samples"
            )
            drawings.append((title, svg, "Cross-registry protocol, mean over folds; the dashed line is guessing."))
    for figure in ("micro", "macro"):
        kinds: dict[str, list[tuple[float, float]]] = {}
        for name in strategies:
            kind = (
                "mutual information"
                if name.startswith("MI")
                else "intersection"
                if name.startswith("I")
                else "baseline"
            )
            value = _mean([row for row in study["table2"] if row["strategy"] == name], figure)
            if value is not None:
                kinds.setdefault(kind, []).append((size[name], value))
        series = [Series(kind, *zip(*sorted(points), strict=True)) for kind, points in kinds.items()]
        svg = figures.lines(series, x_title="words in the vocabulary", y_title=f"{figure} F1", logarithmic=True)
        drawings.append((f"Figure 2: {figure} F1 against vocabulary size", svg, "Mean over tasks and folds."))
    return drawings


def _distribution(study: Row) -> dict[str, Any]:
    modes = list(dict.fromkeys(row["mode"] for row in study["scores"]))
    tables = []
    for registry in dict.fromkeys(row["registry"] for row in study["scores"]):
        rows = []
        for task in dict.fromkeys(row["task"] for row in study["scores"]):
            for mode in modes:
                own = [r for r in study["scores"] if (r["registry"], r["task"], r["mode"]) == (registry, task, mode)]
                if own:
                    first = own[0]  # the first seed's interval; the other seeds' values beside it
                    others = ", ".join(f"{r['micro']['value']:.3f} / {r['macro']['value']:.3f}" for r in own[1:])
                    rows.append(
                        [task, mode, _with_interval(first["micro"]), _with_interval(first["macro"]), others or "–"]
                    )
        heads = ["task", "mode", "micro F1 (95 %)", "macro F1 (95 %)", "other seeds"]
        tables.append({"id": f"scores-{registry}", "title": f"{registry}: F1 by mode", "heads": heads, "rows": rows})
    tables.append(_probes(study["probe"]))
    tables.append(_traffic(study["traffic"]))
    return {
        "id": "distribution",
        "title": "One model from registries that share no reports",
        "text": "Every registry's unseen cases, scored by a model trained alone, centrally, or together without "
        "showing reports. The probe asks how well a fresh classifier names the registry from the features that travel.",
        "tables": tables,
        "figures": _distribution_figures(study, modes),
    }


def _probes(probes: Sequence[Row]) -> dict[str, Any]:
    heads = [
        "mode",
        "seed",
        "linear probe",
        "two-layer probe",
        "largest registry",
        "label alone",
        "feature norm",
        "F1 of a fresh head",
    ]
    rows = []
    for row in probes:
        head = ", ".join(f"{task} {f['micro']:.3f} / {f['macro']:.3f}" for task, f in row["head"].items())
        numbers = [_number(row[name]) for name in ("linear", "mlp", "chance", "label", "norm")]
        rows.append([row["mode"], row["seed"], *numbers, head])
    return {"id": "probe", "title": "Is the registry in the shared features?", "heads": heads, "rows": rows}


def _traffic(traffic: Sequence[Row]) -> dict[str, Any]:
    heads = ["mode", "seed", "rounds", "MB to sites", "MB to the hub", "best epoch", "refused updates"]
    rows = [
        [
            row["mode"],
            row["seed"],
            row["rounds"],
            f"{row['bytes_to_sites'] / 1e6:.1f}",
            f"{row['bytes_to_hub'] / 1e6:.1f}",
            ", ".join(map(str, row["epoch"])),
            len(row["refused"]),
        ]
        for row in traffic
    ]
    return {
        "id": "traffic",
        "title": "What crossed the wire, and when the best epoch came",
        "heads": heads,
        "rows": rows,
    }


def _distribution_figures(study: Row, modes: Sequence[str]) -> list[tuple[str, str, str]]:
    drawings = []
    listed = [row for row in study["per_class"] if row["mode"] in ("single", "centralized", "adversarial", "strong")]
    for task in dict.fromkeys(row["task"] for row in listed):
        own = [row for row in listed if row["task"] == task]
        support: dict[str, int] = {}
        for row in own:
            support[row["label"]] = max(support.get(row["label"], 0), row["support"])
        ranked = sorted(support, key=lambda label: -support[label])
        groups = [("most", ranked[:SHOWN_CLASSES])]
        if len(ranked) > SHOWN_CLASSES:
            groups.append(("least", ranked[-SHOWN_CLASSES:]))
        for kind, names in groups:
            series = []
            for mode in [m for m in modes if m in ("single", "centralized", "adversarial", "strong")]:
                values = [
                    _mean([{"f1": r["f1"]["value"]} for r in own if r["mode"] == mode and r["label"] == n], "f1")
                    for n in names
                ]
                there = [(place, value) for place, value in enumerate(values) if value is not None]
                if there:
                    series.append(Series(mode, [place for place, _ in there], [value for _, value in there]))
            if series and task in ("site", "subsite"):
                svg = figures.bars(series, names=names, x_title="F1")
                caption = "Mean over registries and seeds; classes with at least ten test documents in a registry."
                drawings.append((f"F1 of the {kind} frequent classes: {task}", svg, caption))
    if study["probe"]:
        names = list(dict.fromkeys(row["mode"] for row in study["probe"]))
        values = [[max(r["linear"], r["mlp"]) for r in study["probe"] if r["mode"] == name] for name in names]
        series = [
            Series(
                "fresh probe",
                list(range(len(names))),
                [float(np.mean(v)) for v in values],
                [min(v) for v in values],
                [max(v) for v in values],
            )
        ]
        label = _mean(study["probe"], "label")
        marks = [("largest registry", _mean(study["probe"], "chance") or 0.0)] + (
            [("label alone", label)] if label else []
        )
        svg = figures.bars(series, names=names, x_title="registry named rightly", marks=marks)
        drawings.append(
            ("Can the registry be told from the features?", svg, "Bars: mean over seeds, lines: smallest to largest.")
        )
    return drawings


def _combined(study: Row) -> dict[str, Any]:
    points = study["points"]
    rows = [
        [
            p["strategy"],
            p["size"],
            p["mode"],
            _number(p["micro"]),
            _number(p["macro"]),
            _with_interval(p["auc"]),
            _number(p["probe"]),
            "yes" if p["front"] else "",
        ]
        for p in points
    ]
    heads = [
        "vocabulary",
        "words",
        "training",
        "micro F1",
        "macro F1",
        "attacker's AUC (95 %)",
        "probe",
        "on the front",
    ]
    series = []
    for mode in dict.fromkeys(point["mode"] for point in points):
        own = [point for point in points if point["mode"] == mode]
        auc = [point["auc"] for point in own]
        series.append(
            Series(
                mode,
                [a["value"] for a in auc],
                [p["macro"] for p in own],
                [a["low"] for a in auc],
                [a["high"] for a in auc],
                [p["strategy"] for p in own],
            )
        )
    front = [(point["auc"]["value"], point["macro"]) for point in points if point["front"]]
    drawing = figures.plane(series, x_title="attacker's AUC (left is more private)", y_title="macro F1", front=front)
    return {
        "id": "combined",
        "title": "Words and training together",
        "text": study["recommendation"]["sentence"] + " The attacker reads all tasks' probabilities of a report "
        "together; non-members are unseen cases of the same registries. The dashed line joins what nothing else beats.",
        "tables": [{"id": "points", "title": "Every combination", "heads": heads, "rows": rows}],
        "figures": [("Privacy against F1", drawing, "Mean over registries and tasks.")],
    }
