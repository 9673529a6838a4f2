"""``report.html`` from a run's results: one self-contained file that opens with the answer.

No script or font is fetched, nothing but aggregates is shown, and every table can be sorted and downloaded as CSV.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from pathveil import __version__
from pathveil.report import combined, distribution, vocabulary
from pathveil.report.answer import answer, why
from pathveil.report.findings import marked, of_strong
from pathveil.report.tables import Section, told
from pathveil.report.terms import terms
from pathveil.wording import duration


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
    template = environment.from_string((files("pathveil.report") / "page.html").read_text(encoding="utf-8"))
    result = told(result)
    studies = result["studies"]
    sections: list[Section] = []
    for name, module in (("vocabulary", vocabulary), ("distribution", distribution), ("combined", combined)):
        if name in studies:
            made = module.section(studies[name])
            drawn = [(title, Markup(svg), caption) for title, svg, caption in made.figures]
            sections.append(replace(made, figures=drawn))
    return template.render(
        name=result["name"],
        answer=" ".join(answer(result)),
        why=why(result),
        terms=terms(studies),
        findings=marked(result["findings"]),
        of_strong=marked(of_strong(studies)),
        sections=sections,
        settings={name: study["settings"] for name, study in studies.items()},
        provenance=provenance(studies, times or {}),
        hashes=hashes(studies),
        version=__version__,
    )


def provenance(studies: Mapping[str, Any], times: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the numbers come from: study file, date, corpus, seeds, machines, time, energy, versions."""
    sessions = times.get("sessions", ())
    rows: list[tuple[str, str]] = []
    if sessions:
        began = list(dict.fromkeys(one["began"][:10] for one in sessions))
        rows += [
            ("study file", ", ".join(dict.fromkeys(one["file"] for one in sessions))),
            ("date", began[0] if len(began) == 1 else f"{began[0]} to {began[-1]}"),
        ]
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
    if sessions:
        parts = f", in {len(sessions)} sessions" if len(sessions) > 1 else ""
        rows.append(("time, by the clock", duration(sum(one["seconds"] for one in sessions)) + parts))
    for row in times.get("work", ()):
        took = f"{row['cells']:,} cells on {row['machine']}, {duration(row['seconds'])} of work"
        rows.append((f"time, {row['study']}", took))
    if times.get("joules") is not None:
        rows.append(("energy", f"{times['joules'] / 3.6e6:.2f} kWh, of the whole machine while it ran"))
    versions = times.get("versions") or {"pathveil": __version__}
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    return rows


def hashes(studies: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every vocabulary whose hash the result has, by which the words that were used can be known again."""
    rows = studies.get("vocabulary", {}).get("vocabularies", ())
    return [(f"{row['fold']} left out, {row['strategy']}, {row['size']:,} words", row["sha256"]) for row in rows]
