"""``report.html`` from a run's results: one self-contained file that opens with the answer.

No script or font is fetched, nothing but aggregates is shown, and every table can be sorted and downloaded as CSV.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from pathveil import __version__
from pathveil.report import combined, distribution, vocabulary
from pathveil.report.rows import Section
from pathveil.study.recommendation import listed

MARKS = {  # a class of the style sheet: what it says, and its sign
    "holds": ("holds", "✓"),
    "fails": ("does not hold", "✗"),
    "open": ("not enough evidence", "?"),
    "unjudged": ("not judged", "○"),
}


def write(result: Mapping[str, Any], path: Path) -> None:
    """Write the page; what the run took is read from ``times.json`` beside it, where that is there."""
    times = path.parent / "times.json"
    about = json.loads(times.read_text(encoding="utf-8")) if times.exists() else {}
    part = path.with_name(path.name + ".part")
    part.write_text(render(result, times=about), encoding="utf-8")
    part.replace(path)


def render(result: Mapping[str, Any], *, times: Mapping[str, Any] | None = None) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"signed": signed, "chance": chance}
    template = environment.from_string((files("pathveil.report") / "page.html").read_text(encoding="utf-8"))
    studies = result["studies"]
    sections: list[Section] = []
    for name, module in (("vocabulary", vocabulary), ("distribution", distribution), ("combined", combined)):
        if name in studies:
            made = module.section(studies[name])
            drawn = [(title, Markup(svg), caption) for title, svg, caption in made.figures]
            sections.append(replace(made, figures=drawn))
    return template.render(
        name=result["name"],
        answer=answer(result),
        findings=marked(result["findings"]),
        of_strong=marked(of_strong(studies)),
        sections=sections,
        settings={name: study["settings"] for name, study in studies.items()},
        provenance=provenance(studies, times or {}),
        version=__version__,
    )


def answer(result: Mapping[str, Any]) -> list[str]:
    """Up to three lines: which words to use under the tolerated leak, which training, and which findings hold here."""
    studies, findings = result["studies"], result["findings"]
    words = [studies["vocabulary"]["recommendation"]["sentence"]] if "vocabulary" in studies else []
    training = [distribution.advice(studies["distribution"])] if "distribution" in studies else []
    if "combined" in studies:
        training.append(studies["combined"]["recommendation"]["sentence"])
    held = judged("Of the papers' findings:", findings) + judged("Of the strong adversary:", of_strong(studies))
    lines = (" ".join(filter(None, line)) for line in (words, training, held))
    return [line for line in lines if line]


def judged(of: str, findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which findings hold, which do not, which cannot be told and which the study cannot judge, in sentences."""
    verbs = {
        "holds": ("holds here", "hold here"),
        "fails": ("does not hold here", "do not hold here"),
        "open": ("cannot be decided with this much data",) * 2,
        "unjudged": (
            "was not judged: the study lacks what it compares",
            "were not judged: the study lacks what they compare",
        ),
    }
    told = []
    for mark, (one, several) in verbs.items():
        ids = [finding["id"] for finding in findings if mark_of(finding) == mark]
        if ids:
            told.append(f"{listed(ids)} {several if len(ids) > 1 else one}.")
    return [of, *told] if told else []


def mark_of(finding: Mapping[str, Any]) -> str:
    """
    >>> [mark_of({"holds": holds, "evidence": {}}) for holds in (True, False, None)]
    ['holds', 'fails', 'open']
    >>> mark_of({"holds": None, "evidence": {"missing": "the study has no fedavg"}})
    'unjudged'
    """
    if finding["holds"] is None:
        return "unjudged" if finding["evidence"].get("missing") else "open"
    return "holds" if finding["holds"] else "fails"


def of_strong(studies: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The papers' claims about adversarial training, judged of the strong adversary."""
    return studies.get("distribution", {}).get("findings_of_strong", ())


def marked(findings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**finding, "kind": mark_of(finding), "mark": MARKS[mark_of(finding)]} for finding in findings]


def provenance(studies: Mapping[str, Any], times: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the numbers come from: corpus, seeds, machines, time, energy, versions."""
    rows: list[tuple[str, str]] = []
    first = next(iter(studies.values()), None)
    if first is not None:
        about = first["provenance"]
        registries = ", ".join(f"{name} {count:,}" for name, count in about["registries"].items())
        rows += [
            ("corpus, sha256", about["corpus_sha256"]),
            ("reports", f"{about['reports']:,} ({registries})"),
            ("cleaning of text", about["text"]),
        ]
    for name, study in studies.items():
        seeds = study["settings"].get("seeds") or [study["settings"].get("seed")]
        rows.append((f"seeds, {name}", ", ".join(map(str, seeds))))
    for row in times.get("work", ()):
        took = f"{row['cells']:,} cells on {row['machine']}, {lasting(row['seconds'])} of work"
        rows.append((f"time, {row['study']}", took))
    if times.get("joules") is not None:
        rows.append(("energy", f"{times['joules'] / 3.6e6:.2f} kWh, of the whole machine while it ran"))
    versions = times.get("versions") or {"pathveil": __version__}
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    return rows


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


def lasting(seconds: float) -> str:
    """
    >>> lasting(42), lasting(400), lasting(9_000)
    ('42 s', '6.7 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
