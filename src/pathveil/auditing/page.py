"""``audit.html``: one self-contained page that answers first and explains after, for someone who never read the papers.

The template (``page.html``) is filled by Jinja with everything escaped and every name required; figures are inline SVG.

>>> percent(0.421), percent(None)
('42\xa0%', 'not measured')
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from pathveil import charts as svg
from pathveil.auditing import charts
from pathveil.auditing.appetite import RELEASES
from pathveil.auditing.attack_names import ATTACKS, CLASSIFIERS
from pathveil.auditing.evidence import ALL, CONTROL, CROSS, TOGETHER, CanaryRow, Curve, Figure, MeasuredRow
from pathveil.auditing.result import Audit
from pathveil.auditing.verdict import Criterion, Number, Verdict, fits_release
from pathveil.bundle.release import Override
from pathveil.formatting import percent as spoken_percent

SUBJECTS = {
    "bundle": "a model bundle",
    "predictions": "predictions of a foreign model",
    "encoder": "a federation’s encoder",
    "estimator": "a foreign model",
}
DRAWN = ("loss", "label only", "privacy risk", "LiRA online", "RMIA online", "LiRA offline", "RMIA offline")
CRITERIA: dict[Criterion, str] = {
    "overall": "All reports",
    "worst_task": "Worst task",
    "worst_bucket": "Worst group of classes",
}
DECISIVE = {"kept": "Highest upper end", "broken": "Surest breach", "open": "Highest upper end"}  # where not the worst
STATES = {"kept": "within the limit", "broken": "limit broken", "open": "cannot be decided"}


def render(audit: Audit, *, override: Override | None = None) -> str:
    """The page; ``override`` says why a release was made against a refusal, where this page goes with it."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = percent
    environment.filters["figure"] = figure
    template = environment.from_string((files("pathveil.auditing") / "page.html").read_text(encoding="utf-8"))
    rows = audit.measured
    fpr = max(audit.appetite.fprs)
    answer, sentence = audit.verdict.sentence.split(": ", 1)
    return template.render(
        audit=audit,
        override=override,
        releases=RELEASES,
        subject=SUBJECTS[audit.kind],
        verdict=audit.verdict,
        numbers=number_rows(audit.verdict),
        answer=answer,
        sentence=(sentence[0].upper() + sentence[1:]).replace(" %", "\u00a0%"),  # a number keeps its sign
        states=STATES,
        fpr=fpr,
        fprs=[f"{value:g}" for value in audit.settings["fprs"]],
        rocs=[(name, Markup(chart), _legend(lines)) for name, chart, lines in roc_charts(audit)],
        rarity=[(name, Markup(chart)) for name, chart in rarity_charts(audit, fpr)],
        weights_attacked=any(row.weights_only for row in rows),
        canaries=strongest_on_canaries(audit),
        canary_chart=Markup(canary_chart(audit)),
        tasks=[(name, Markup(chart)) for name, chart in task_charts(audit, fpr)],
        shadows=[(name, Markup(chart), _legend(lines)) for name, chart, lines in shadow_charts(rows)],
        rows=rows,
        hidden=len(audit.evidence) - len(rows),
        control=CONTROL,
        cross=CROSS,
        all_rows=ALL,
        strongest=[row for name in audit.protocols if (row := strongest(overall(rows, name), fpr)) is not None],
    )


def number_rows(verdict: Verdict) -> list[tuple[str, Number]]:
    """(its name, row): the worst of each criterion, and below it the one that decided where that is another."""
    found = []
    for decisive, worst in zip(verdict.numbers, verdict.worst, strict=True):
        found.append((CRITERIA[worst.criterion], worst))
        if decisive != worst:
            found.append((f"{DECISIVE[decisive.state]}: {CRITERIA[decisive.criterion].lower()}", decisive))
    return found


def percent(value: float | None) -> str:
    return "not measured" if value is None else spoken_percent(value).replace(" ", "\u00a0")


def figure(estimate: Figure) -> str:
    """A value with its interval; the upper end alone where it cannot be measured."""
    if estimate.value is None:
        return f"– (≤ {estimate.high:.3f})"
    return f"{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"


def overall(rows: Sequence[MeasuredRow], protocol: str) -> list[MeasuredRow]:
    """Rows on all reports and all tasks together (on the only task where there is one)."""
    wide = [row for row in rows if row.protocol == protocol and row.bucket == ALL and row.unit == "report"]
    return [row for row in wide if row.task == TOGETHER] or wide


def strongest(rows: Sequence[MeasuredRow], fpr: float) -> MeasuredRow | None:
    """The row with most members found at this FPR, then with the highest lower bound."""

    def strength(row: MeasuredRow) -> tuple[float, float]:
        found = row.tpr_at_fpr[f"{fpr:g}"]
        return -1.0 if found.value is None else found.value, found.low

    return max(rows, key=strength, default=None)


def _legend(lines: Sequence[svg.Series]) -> list[tuple[Any, str]]:
    from markupsafe import Markup

    return [(Markup(svg.key(line)), line.name + (" (strongest)" if line.strong else "")) for line in lines]


def roc_charts(audit: Audit) -> list[tuple[str, str, list[svg.Series]]]:
    """(protocol, figure, its lines) for each protocol; the control is a grey line in the figure it controls."""
    names = list(dict.fromkeys(curve.attack for curve in audit.curves))
    if len(names) > len(DRAWN):  # the rest is in the table, but for the strongest of each protocol
        best_names = {_best(curves).attack for curves in _by_protocol(audit).values()}
        names = [name for name in names if name in DRAWN or name not in ATTACKS or name in best_names]
    colour = {name: number for number, name in enumerate(names)}
    found = []
    for protocol, curves in _by_protocol(audit).items():
        best = _best(curves)
        drawn = [curve for curve in curves if curve.attack in names]
        lines = [_line(curve, colour[curve.attack], strong=curve is best) for curve in drawn]
        if protocol == CROSS:
            for curve in audit.curves:
                if curve.protocol == CONTROL and curve.attack == best.attack:
                    lines.append(replace(_line(curve, 9, strong=False), name=f"control of {curve.attack}"))
        found.append((protocol, charts.roc(lines, title=f"ROC curves, {protocol} protocol"), lines))
    return found


def _by_protocol(audit: Audit) -> dict[str, list[Curve]]:
    """The curves of each protocol that measures membership."""
    found = {
        protocol: [curve for curve in audit.curves if curve.protocol == protocol]
        for protocol in audit.protocols
        if protocol != CONTROL
    }
    return {protocol: curves for protocol, curves in found.items() if curves}


def _best(curves: Sequence[Curve]) -> Curve:
    """The area on the logarithmic grid weighs low FPRs as much as high ones."""
    return max(curves, key=lambda curve: sum(curve.low))


def _line(curve: Curve, colour: int, *, strong: bool) -> svg.Series:
    return svg.Series(curve.attack, curve.fpr, curve.tpr, curve.low, curve.high, colour=colour, strong=strong)


def strongest_on_canaries(audit: Audit) -> list[CanaryRow]:
    """Of each kind of canary the attack that finds it best."""
    kinds = dict.fromkeys(row.kind for row in audit.canaries)
    return [max((row for row in audit.canaries if row.kind == kind), key=lambda row: row.auc) for kind in kinds]


def canary_chart(audit: Audit) -> str:
    """AUC on each kind of canary, of the strongest attack."""
    marks = [svg.Mark(row.kind, row.auc, row.low, row.high) for row in strongest_on_canaries(audit)]
    if not marks:
        return ""
    title, limit = "AUC on each kind of canary", audit.appetite.worst_canary
    return svg.intervals(marks, limit=limit, chance=0.5, title=title, label=215, tick=lambda value: f"{value:.1f}")


def rows_that_count(audit: Audit) -> list[MeasuredRow]:
    """Rows of attacks that count for what is to be released; of a control all that could be made on it."""
    rows = [row for row in audit.measured if row.decides or row.protocol == CONTROL]
    return [row for row in rows if fits_release(row, audit.appetite)]


def rarity_charts(audit: Audit, fpr: float) -> list[tuple[str, str]]:
    """For each protocol the strongest attack in each bucket of class rarity, on any task, as the verdict takes it."""
    limit = next((one.worst_bucket for one in audit.appetite.limits if one.fpr == fpr), None)
    found = []
    for protocol in audit.protocols:
        groups: dict[str, list[MeasuredRow]] = {}
        for row in rows_that_count(audit):
            if row.protocol == protocol and row.unit == "report" and row.bucket != ALL:
                groups.setdefault(row.bucket, []).append(row)
        if groups:
            title = f"share of members found by class rarity, {protocol} protocol"
            found.append((protocol, _strongest_of_each(groups, fpr, protocol, limit, title)))
    return found


def task_charts(audit: Audit, fpr: float) -> list[tuple[str, str]]:
    """For each protocol the strongest attack on each task, where there are several."""
    limit = next((one.worst_task for one in audit.appetite.limits if one.fpr == fpr), None)
    found = []
    for protocol in audit.protocols:
        groups: dict[str, list[MeasuredRow]] = {}
        for row in rows_that_count(audit):
            if row.protocol == protocol and row.bucket == ALL and row.unit == "report":
                groups.setdefault(row.task, []).append(row)
        if len(groups) > 1:
            title = f"share of members found by task, {protocol} protocol"
            found.append((protocol, _strongest_of_each(groups, fpr, protocol, limit, title)))
    return found


def _strongest_of_each(
    groups: Mapping[str, Sequence[MeasuredRow]], fpr: float, protocol: str, limit: float | None, title: str
) -> str:
    marks = []
    for name, rows in groups.items():
        if (best := strongest(rows, fpr)) is not None:
            found = best.tpr_at_fpr[f"{fpr:g}"]
            marks.append(svg.Mark(name, found.value, found.low, found.high))
    shown = None if protocol == CONTROL else limit  # no limit is set for what is not membership
    return svg.intervals(marks, limit=shown, chance=fpr, title=title)


def shadow_charts(rows: Sequence[MeasuredRow]) -> list[tuple[str, str, list[svg.Series]]]:
    """AUC of each attack that uses shadows against how many it used, for each protocol that has such rows."""
    found = []
    for protocol in dict.fromkeys(row.protocol for row in rows if row.protocol != CONTROL):
        wide = [row for row in overall(rows, protocol) if row.shadows]
        of_protocol = [row for row in rows if row.protocol == protocol and row.bucket == ALL and row.unit == "report"]
        wide += [row for row in of_protocol if row.attack == CLASSIFIERS and row not in wide]
        lines = []
        for attack in dict.fromkeys(row.attack for row in wide):
            steps = sorted((row for row in wide if row.attack == attack), key=lambda row: row.shadows)
            areas = [(row.auc.value, row.auc.low, row.auc.high) for row in steps if row.auc.value is not None]
            if len(areas) > 1:
                value, low, high = zip(*areas, strict=True)
                lines.append(svg.Series(attack, [row.shadows for row in steps], value, low, high, colour=len(lines)))
        if lines:
            title = f"AUC against the number of shadow models, {protocol} protocol"
            found.append((protocol, charts.against_shadows(lines, title=title, y_title="AUC", chance=0.5), lines))
    return found
