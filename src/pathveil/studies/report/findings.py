"""The papers' findings on the page: their marks, the numbers behind them, and what would decide those that are open."""

from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

from pathveil.studies.answer import mark_of
from pathveil.studies.power import registries_that_decide
from pathveil.studies.report.opening import signed
from pathveil.studies.report.tables import Table, count
from pathveil.studies.rows import Difference, Finding, ProbeAccuracy
from pathveil.studies.statistics import Comparison, wholly_above, wholly_within

MARKS = {  # a class of the style sheet: what it says, and its sign
    "holds": ("holds", "✓"),
    "fails": ("does not hold", "✗"),
    "open": ("not enough evidence", "?"),
    "unjudged": ("not judged", "○"),
}


DECIDE = "What would decide it: "
STRIP = {"holds": ("holds", "hold"), "fails": ("does not", "do not"), "open": ("undecided",) * 2}  # of one, of several


def finding_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as the page shows them, with their mark and the numbers behind them."""
    shown = []
    for finding in findings:
        kind, evidence = mark_of(finding), finding.evidence
        lines = [f"Test: {evidence.test}."]
        lines += [f"Not judged: {evidence.missing}."] if evidence.missing else []
        lines += [comparison_line(one) for one in evidence.comparisons]
        lines += [comparison_line(one) for one in evidence.balanced]
        if evidence.balanced and finding.holds_balanced != finding.holds:
            other = {True: "holds", False: "fails", None: "open"}[finding.holds_balanced]
            lines.append(f"On balanced accuracy the answer differs: {MARKS[other][0]}.")
        lines += [f"beside it, {comparison_line(one)}" for one in evidence.beside]
        lines += [size_line(finding)] if kind == "open" else []
        about = {"id": finding.id, "claim": finding.claim, "holds": finding.holds}
        shown.append(about | {"kind": kind, "mark": MARKS[kind], "lines": lines})
    return shown


def strip_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[Mapping[str, Any]]]]:
    """The findings in a strip: (class of the style sheet, how many there are of the kind, they themselves).

    >>> strip_of([{"kind": "open", "id": "A1"}])[1:]
    [('fails', '0 do not', []), ('open', '1 undecided', [{'kind': 'open', 'id': 'A1'}])]
    """
    names = STRIP | {kind: (MARKS[kind][0],) * 2 for kind in ("unjudged",) if any(row["kind"] == kind for row in rows)}
    own = {kind: [row for row in rows if row["kind"] == kind] for kind in names}
    return [(kind, f"{len(own[kind])} {names[kind][len(own[kind]) != 1]}", own[kind]) for kind in names]


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


def chance(value: float) -> str:
    """
    >>> chance(0.0123), chance(0.0001)
    ('= 0.012', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def comparison_of(one: Difference) -> Comparison | None:
    """The comparison that a difference was written from; none where one unit says nothing of how they vary."""
    if one.low is None or one.high is None:
        return None
    reach = float(stats.t.ppf((1 + one.confidence) / 2, one.units - 1))
    return Comparison(one.difference, (one.high - one.low) / 2 / reach, one.units)


def size_of(one: Difference | ProbeAccuracy) -> tuple[bool, int | None]:
    """Whether a comparison is decided, and how many units would decide it in four studies of five (by the rule of the
    table); none where more would hardly help.

    >>> about = {"compared": "B − I6", "low": -0.01, "high": 0.05, "alone": None, "units": 4, "confidence": 0.95}
    >>> size_of(Difference(difference=0.02, **about)), size_of(Difference(difference=0.04, **about | {"low": 0.03}))
    ((False, 10), (True, 4))
    """
    if isinstance(one, ProbeAccuracy):
        apart, half = abs(one.value - one.bound), (one.high - one.low) / 2
        decided = one.high <= one.bound or one.low > one.bound
        return decided, None if apart == 0 else max(1, round((half / apart) ** 2))
    found = comparison_of(one)
    if found is None or one.low is None or one.high is None:
        return False, None
    ends = one.low, one.high
    if (wholly_above(*ends) if one.margin is None else wholly_within(*ends, margin=one.margin)) is not None:
        return True, one.units
    return False, registries_that_decide(found, margin=one.margin, confidence=one.confidence)


def size_line(finding: Finding) -> str:
    """What would decide a finding that is open, in a sentence."""
    sizes = [size_of(one) for one in finding.evidence.comparisons]
    if any(needed is None for _, needed in sizes) or not sizes:
        return f"{DECIDE}here the difference is at what it is held against, and more registries would hardly help."
    most = max((needed or 0 for decided, needed in sizes if not decided), default=0)
    first = finding.evidence.comparisons[0]
    if isinstance(first, ProbeAccuracy):
        return f"{DECIDE}about {max(2, most)} times as many unseen reports, if the probe does as well on them."
    return (
        f"{DECIDE}about {most:,} registries like these instead of {first.units}: four studies of five with so many do, "
        "if differences stay as they are."
    )
