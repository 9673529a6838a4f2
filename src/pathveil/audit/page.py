"""``audit.html``: one self-contained page that answers first and explains after, for someone who never read the papers.

The template (``page.html``) is filled by Jinja with everything escaped and every name required; figures are inline SVG.

>>> percent(0.421), percent(None)
('42\xa0%', 'not measured')
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from pathveil.audit import charts
from pathveil.audit.evidence import ALL, CONTROL, CROSS, TOGETHER

ATTACKS = {
    "loss": "Records whose true code gets a high probability are called members (Yeom et al., 2018).",
    "entropy": "Records on which the model is sure of itself, right or wrong, are called members.",
    "modified entropy": "As entropy, but being sure of a wrong code counts against membership (Song and Mittal, 2021).",
    "privacy risk": "The chance of membership given the modified entropy and the class, learned on the other half of "
    "the cases (Song and Mittal, 2021).",
    "label only": "Records whose most likely code is right are called members: all that labels give away.",
    "LiRA online": "Likelihood ratio of the model's confidence under shadow models that saw the record and under "
    "others that did not; variance shrunk towards the common one (Carlini et al., 2022).",
    "LiRA online, global variance": "The same with one variance for all records.",
    "LiRA online, record variance": "The same with one variance a record: weak with few shadows.",
    "LiRA offline": "How surprisingly confident the model is for one that never saw the record.",
    "RMIA online": "How much more probable the record is under the model than under reference models, ranked among "
    "known non-members (Zarifzadeh et al., 2024).",
    "RMIA offline": "The same with reference models that never saw the record.",
    "shadow classifiers": "The vocabulary paper's attack: one classifier a class, trained on shadow models' answers "
    "(Shokri et al., 2017). Reported beside the others, never the verdict.",
}
DRAWN = ("loss", "label only", "privacy risk", "LiRA online", "RMIA online", "LiRA offline", "RMIA offline")
CRITERIA = {"overall": "All reports", "worst_task": "Worst task", "worst_bucket": "Worst group of classes"}
STATES = {"kept": "within the limit", "broken": "limit broken", "open": "cannot be decided"}


def render(audit: dict[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = percent
    environment.filters["figure"] = figure
    template = environment.from_string((files("pathveil.audit") / "page.html").read_text(encoding="utf-8"))
    rows = [row for row in audit["rows"] if "suppressed" not in row]
    fpr = max(limit["fpr"] for limit in audit["appetite"]["limits"])
    answer, sentence = audit["verdict"]["sentence"].split(": ", 1)
    return template.render(
        audit=audit,
        verdict=audit["verdict"],
        answer=answer,
        sentence=(sentence[0].upper() + sentence[1:]).replace(" %", "\u00a0%"),  # a number keeps its sign
        criteria=CRITERIA,
        states=STATES,
        attacks={name: ATTACKS[name] for name in dict.fromkeys(row["attack"] for row in rows)},
        fpr=fpr,
        key=f"{fpr:g}",
        fprs=[f"{value:g}" for value in audit["settings"]["fprs"]],
        rocs=[(name, Markup(chart), _legend(lines)) for name, chart, lines in roc_charts(audit)],
        rarity=[(name, Markup(chart)) for name, chart in rarity_charts(rows, audit, fpr)],
        tasks=[(name, Markup(chart)) for name, chart in task_charts(rows, audit, fpr)],
        shadows=[(name, Markup(chart), _legend(lines)) for name, chart, lines in shadow_charts(rows)],
        rows=rows,
        hidden=len(audit["rows"]) - len(rows),
        control=CONTROL,
        cross=CROSS,
        all_rows=ALL,
        strongest=[row for name in audit["protocols"] if (row := strongest(overall(rows, name), fpr)) is not None],
    )


def percent(value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{100 * value:.1f}\u00a0%" if value < 0.1 else f"{100 * value:.0f}\u00a0%"


def figure(estimate: dict[str, Any]) -> str:
    """A value with its interval; the note where there is none."""
    if estimate["value"] is None:
        return f"– (≤ {estimate['high']:.3f})"
    return f"{estimate['value']:.3f} ({estimate['low']:.3f}–{estimate['high']:.3f})"


def overall(rows: list[dict[str, Any]], protocol: str) -> list[dict[str, Any]]:
    """Rows on all reports and all tasks together (on the only task where there is one)."""
    wide = [row for row in rows if row["protocol"] == protocol and row["bucket"] == ALL and row["unit"] == "report"]
    return [row for row in wide if row["task"] == TOGETHER] or wide


def strongest(rows: list[dict[str, Any]], fpr: float) -> dict[str, Any] | None:
    """The row with the highest lower bound at this FPR, then the highest value."""

    def strength(row: dict[str, Any]) -> tuple[float, float]:
        tpr = row["tpr_at_fpr"][f"{fpr:g}"]
        return tpr["low"], tpr["value"] or 0.0

    return max(rows, key=strength, default=None)


def _legend(lines: Sequence[charts.Line]) -> list[tuple[Any, str]]:
    from markupsafe import Markup

    return [(Markup(charts.key(line)), line.name + (" (strongest)" if line.strong else "")) for line in lines]


def roc_charts(audit: dict[str, Any]) -> list[tuple[str, str, list[charts.Line]]]:
    """(protocol, figure, its lines) for each protocol; the control is a grey line in the figure it controls."""
    names = list(dict.fromkeys(curve["attack"] for curve in audit["curves"]))
    if len(names) > len(DRAWN):
        names = [name for name in names if name in DRAWN]  # the rest is in the table
    colour = {name: number for number, name in enumerate(names)}
    found = []
    for protocol in audit["protocols"]:
        curves = [curve for curve in audit["curves"] if curve["protocol"] == protocol and curve["attack"] in names]
        if protocol == CONTROL or not curves:
            continue
        # The area on the logarithmic grid weighs low FPRs as much as high ones.
        best = max(curves, key=lambda curve: sum(curve["low"]))
        lines = [_line(curve, colour[curve["attack"]], strong=curve is best) for curve in curves]
        if protocol == CROSS:
            for curve in audit["curves"]:
                if curve["protocol"] == CONTROL and curve["attack"] == best["attack"]:
                    lines.append(replace(_line(curve, 9, strong=False), name=f"control of {curve['attack']}"))
        found.append((protocol, charts.roc(lines, title=f"ROC curves, {protocol} protocol"), lines))
    return found


def _line(curve: dict[str, Any], colour: int, *, strong: bool) -> charts.Line:
    shape = {name: curve[name] for name in ("low", "high")}
    return charts.Line(curve["attack"], curve["fpr"], curve["tpr"], **shape, colour=colour, strong=strong)


def rarity_charts(rows: list[dict[str, Any]], audit: dict[str, Any], fpr: float) -> list[tuple[str, str]]:
    """For each protocol the strongest attack in each bucket of class rarity."""
    limit = next((one["worst_bucket"] for one in audit["appetite"]["limits"] if one["fpr"] == fpr), None)
    found = []
    for protocol in audit["protocols"]:
        wide = [row for row in rows if row["protocol"] == protocol and row["unit"] == "report"]
        wide = [row for row in wide if row["task"] == TOGETHER] or wide
        buckets = list(dict.fromkeys(row["bucket"] for row in wide if row["bucket"] != ALL))
        marks = [
            _mark(bucket, strongest([row for row in wide if row["bucket"] == bucket], fpr), fpr) for bucket in buckets
        ]
        if marks:
            title = f"share of members found by class rarity, {protocol} protocol"
            shown = None if protocol == CONTROL else limit  # no limit is set for what is not membership
            found.append((protocol, charts.intervals(marks, limit=shown, chance=fpr, title=title)))
    return found


def task_charts(rows: list[dict[str, Any]], audit: dict[str, Any], fpr: float) -> list[tuple[str, str]]:
    """For each protocol the strongest attack on each task, where there are several."""
    limit = next((one["worst_task"] for one in audit["appetite"]["limits"] if one["fpr"] == fpr), None)
    found = []
    for protocol in audit["protocols"]:
        wide = [row for row in rows if row["protocol"] == protocol and row["bucket"] == ALL and row["unit"] == "report"]
        tasks = list(dict.fromkeys(row["task"] for row in wide))
        if len(tasks) > 1:
            marks = [_mark(task, strongest([row for row in wide if row["task"] == task], fpr), fpr) for task in tasks]
            title = f"share of members found by task, {protocol} protocol"
            shown = None if protocol == CONTROL else limit  # no limit is set for what is not membership
            found.append((protocol, charts.intervals(marks, limit=shown, chance=fpr, title=title)))
    return found


def _mark(name: str, row: dict[str, Any] | None, fpr: float) -> charts.Mark:
    assert row is not None  # buckets and tasks are taken from the rows themselves
    tpr = row["tpr_at_fpr"][f"{fpr:g}"]
    return charts.Mark(name, tpr["value"], tpr["low"], tpr["high"])


def shadow_charts(rows: list[dict[str, Any]]) -> list[tuple[str, str, list[charts.Line]]]:
    """AUC of each attack that uses shadows against how many it used, for each protocol that has such rows."""
    found = []
    for protocol in dict.fromkeys(row["protocol"] for row in rows if row["protocol"] != CONTROL):
        wide = [row for row in overall(rows, protocol) if row["shadows"]]
        wide += [
            row
            for row in rows
            if row["protocol"] == protocol and row["attack"] == "shadow classifiers" and row["bucket"] == ALL
            if row["unit"] == "report" and row not in wide
        ]
        lines = []
        for attack in dict.fromkeys(row["attack"] for row in wide):
            steps = sorted((row for row in wide if row["attack"] == attack), key=lambda row: row["shadows"])
            if len(steps) > 1:
                auc = {name: [row["auc"][name] for row in steps] for name in ("value", "low", "high")}
                line = charts.Line(
                    attack, [row["shadows"] for row in steps], auc["value"], auc["low"], auc["high"], colour=len(lines)
                )
                lines.append(line)
        if lines:
            title = f"AUC against the number of shadow models, {protocol} protocol"
            found.append((protocol, charts.against_shadows(lines, title=title, y_title="AUC", chance=0.5), lines))
    return found
