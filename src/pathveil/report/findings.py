"""The papers' findings on the page: their marks, the numbers behind them, and how many hold.

>>> counted([{"id": "A1", "holds": True, "evidence": {}}, {"id": "A2", "holds": None, "evidence": {}}])
'1 holds here and 1 cannot be decided with this much data'
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pathveil.wording import listed

Finding = Mapping[str, Any]
MARKS = {  # a class of the style sheet: what it says, and its sign
    "holds": ("holds", "✓"),
    "fails": ("does not hold", "✗"),
    "open": ("not enough evidence", "?"),
    "unjudged": ("not judged", "○"),
}
VERBS = {  # of one, of several
    "holds": ("holds here", "hold here"),
    "fails": ("does not hold here", "do not hold here"),
    "open": ("cannot be decided with this much data",) * 2,
    "unjudged": (
        "was not judged: the study lacks what it compares",
        "were not judged: the study lacks what they compare",
    ),
}
SHORT = {"fails": ("does not", "do not"), "unjudged": ("was not judged", "were not judged")}


def mark_of(finding: Finding) -> str:
    """
    >>> [mark_of({"holds": holds, "evidence": {}}) for holds in (True, False, None)]
    ['holds', 'fails', 'open']
    >>> mark_of({"holds": None, "evidence": {"missing": "the study has no fedavg"}})
    'unjudged'
    """
    if finding["holds"] is None:
        return "unjudged" if finding["evidence"].get("missing") else "open"
    return "holds" if finding["holds"] else "fails"


def judged(of: str, findings: Sequence[Finding]) -> list[str]:
    """Which findings hold, which do not, which cannot be told and which the study cannot judge, in sentences."""
    told = []
    for mark, (one, several) in VERBS.items():
        ids = [finding["id"] for finding in findings if mark_of(finding) == mark]
        if ids:
            told.append(f"{listed(ids)} {several if len(ids) > 1 else one}.")
    return [of, *told] if told else []


def counted(findings: Sequence[Finding]) -> str:
    """How many hold and how many do not, in a sentence without its full stop."""
    told = []
    for mark, verbs in (VERBS | SHORT).items():
        count = sum(mark_of(finding) == mark for finding in findings)
        if count or mark == "holds":
            told.append(f"{count or 'none'} {verbs[count > 1]}")
    return listed(told)


def of_strong(studies: Mapping[str, Any]) -> Sequence[Finding]:
    """The papers' claims about adversarial training, judged of the strong adversary."""
    return studies.get("distribution", {}).get("findings_of_strong", ())


def marked(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as the page shows them, with their mark and the numbers behind them."""
    shown = []
    for finding in findings:
        kind, evidence = mark_of(finding), finding["evidence"]
        about = [f"Test: {evidence['test']}."]
        about += [f"Not judged: {evidence['missing']}."] if evidence.get("missing") else []
        compared = [line(one) for one in evidence.get("comparisons", ())]
        beside = [f"beside it, {line(one)}" for one in evidence.get("beside", ())]
        shown.append({**finding, "kind": kind, "mark": MARKS[kind], "lines": about + compared + beside})
    return shown


def line(one: Mapping[str, Any]) -> str:
    """A comparison in a line.

    >>> told = {"compared": "B − I6", "difference": 0.0123, "low": -0.001, "high": 0.02, "units": 7, "p": 0.04}
    >>> line(told | {"p_adjusted": 0.28})
    'B − I6: +0.012 (−0.001 to +0.020), 7 pairs, p = 0.040 (for all together p = 0.280)'
    >>> line(told | {"confidence": 0.995, "margin": 0.01})
    'B − I6: +0.012 (99.5 % interval −0.001 to +0.020), 7 pairs, margin ±0.01'
    """
    level = f"{100 * one['confidence']:.3g} % interval " if "confidence" in one else ""
    if "difference" not in one:
        ends = f"{one['low']:.3f} to {one['high']:.3f}"
        norm = f", mean feature norm {one['norm']:.2g}" if "norm" in one else ""
        return f"{one['compared']}: {one['value']:.3f} ({level}{ends}), bound {one['bound']:.3f}{norm}"
    ends = "" if one["low"] is None else f" ({level}{signed(one['low'])} to {signed(one['high'])})"
    told = f"{one['compared']}: {signed(one['difference'])}{ends}, {one['units']} pairs"
    if "margin" in one:
        return f"{told}, margin ±{one['margin']}"
    if "p_adjusted" not in one:
        return told
    return f"{told}, p {chance(one['p'])} (for all together p {chance(one['p_adjusted'])})"


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
