"""The papers' findings on the page: their marks, and the numbers behind them."""

from collections.abc import Sequence
from typing import Any

from pathveil.report.tables import Table, count
from pathveil.study.answer import mark_of
from pathveil.study.result import Difference, Finding, ProbeAccuracy

MARKS = {  # a class of the style sheet: what it says, and its sign
    "holds": ("holds", "✓"),
    "fails": ("does not hold", "✗"),
    "open": ("not enough evidence", "?"),
    "unjudged": ("not judged", "○"),
}


def finding_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as the page shows them, with their mark and the numbers behind them."""
    shown = []
    for finding in findings:
        kind, evidence = mark_of(finding), finding.evidence
        lines = [f"Test: {evidence.test}."]
        lines += [f"Not judged: {evidence.missing}."] if evidence.missing else []
        lines += [comparison_line(one) for one in evidence.comparisons]
        lines += [f"beside it, {comparison_line(one)}" for one in evidence.beside]
        about = {"id": finding.id, "claim": finding.claim, "holds": finding.holds}
        shown.append(about | {"kind": kind, "mark": MARKS[kind], "lines": lines})
    return shown


def comparison_line(one: Difference | ProbeAccuracy) -> str:
    """A comparison in a line.

    >>> about = {"compared": "B − I6", "difference": 0.0123, "low": -0.001, "high": 0.02, "alone": None, "units": 7}
    >>> comparison_line(Difference(**about, confidence=0.995, p=0.04, p_adjusted=0.28))
    'B − I6: +0.012 (99.5 % interval −0.001 to +0.020), 7 pairs, p = 0.040 (for all together p = 0.280)'
    >>> comparison_line(Difference(**about, confidence=0.995, margin=0.01))
    'B − I6: +0.012 (99.5 % interval −0.001 to +0.020), 7 pairs, margin ±0.01'
    """
    level = f"{100 * one.confidence:.3g} % interval "
    if isinstance(one, ProbeAccuracy):
        ends = f"{level}{one.low:.3f} to {one.high:.3f}"
        norm = f"mean feature norm {one.norm:.2g}"
        return f"{one.compared}: {one.value:.3f} ({ends}), bound {one.bound:.3f}, {norm}"
    if one.these is not None:
        these = one.these
        here = f"; at these registries {signed(these.low)} to {signed(these.high)}, {these.cases:,} cases"
    else:
        here = ""
    ends = "" if one.low is None or one.high is None else f" ({level}{signed(one.low)} to {signed(one.high)})"
    line = f"{one.compared}: {signed(one.difference)}{ends}, {one.units} pairs{here}"
    if one.margin is not None:
        return f"{line}, margin ±{one.margin}"
    if one.p is None or one.p_adjusted is None:
        return line
    return f"{line}, p {chance(one.p)} (for all together p {chance(one.p_adjusted)})"


def needed_table(findings: Sequence[Finding], *, study: str) -> list[Table]:
    """What would decide each comparison that was judged: registries with which four studies of five do."""
    rows = []
    for finding in findings:
        for one in finding.evidence.comparisons:
            if not isinstance(one, Difference) or one.spread is None:
                continue
            for needed in one.needed:
                asked = f"within ±{needed.difference}" if one.margin is not None else f"{signed(needed.difference)}"
                number = count(needed.registries) if needed.registries else "more than 1,000"
                rows.append([finding.id, one.compared, asked, f"{needed.reports}×", number])
    if not rows:
        return []
    heads = ["finding", "compared", "if the truth is", "reports of a registry", "registries needed"]
    note = (
        "From how much units differ here, and, where they were repeated, how much repeats of one do: with so many "
        "registries, each of so many times the reports of this study's, four studies of five would decide the "
        "comparison. That chance within a registry falls as its reports grow is an assumption."
    )
    return [Table(f"needed-{study}", "How many registries and reports would decide it", heads, rows, note=note)]


def signed(value: float) -> str:
    """
    >>> signed(-0.0123), signed(0.5)
    ('−0.012', '+0.500')
    """
    return f"{value:+.3f}".replace("-", "−")


def chance(value: float) -> str:
    """
    >>> chance(0.0123), chance(0.0001)
    ('= 0.012', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"
