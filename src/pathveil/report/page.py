"""``report.html`` from a run's results: one self-contained file that opens with the answer.

No script or font is fetched, nothing but aggregates is shown, and every table can be sorted and downloaded as CSV.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pathveil import __version__
from pathveil.files import read_json, write_text
from pathveil.report import combined, defences, distribution, vocabulary
from pathveil.report.findings import finding_rows
from pathveil.report.tables import Section
from pathveil.report.terms import terms
from pathveil.results import parts_that_fit
from pathveil.study.answer import answer, reasons
from pathveil.study.result import Studies, StudyResult, read_run
from pathveil.wording import duration


def write(result: StudyResult, path: Path) -> None:
    """Write the page; what the run took is read from ``times.json`` beside it, where that is there."""
    times = path.parent / "times.json"
    write_text(path, render(result, times=read_json(times) if times.exists() else {}))


def write_again(run: Path) -> StudyResult:
    """Write a run's page anew from its ``result.json``, which may be another's."""
    path = run / "result.json"
    result = read_run(path)
    with parts_that_fit(path, expected="what 'pathveil study run' writes"):
        write(result, run / "report.html")
        str(result)
    return result


def render(result: StudyResult, *, times: Mapping[str, Any] | None = None) -> str:
    """The page as HTML."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("pathveil.report") / "page.html").read_text(encoding="utf-8"))
    studies = result.studies
    sections: list[Section] = []
    if studies.vocabulary is not None:
        sections.append(vocabulary.section(studies.vocabulary))
    if studies.distribution is not None:
        sections.append(distribution.section(studies.distribution))
    if studies.combined is not None:
        sections.append(combined.section(studies.combined))
    if studies.defences is not None:
        sections.append(defences.section(studies.defences))
    for made in sections:
        made.figures = [(title, Markup(svg), caption) for title, svg, caption in made.figures]
    return template.render(
        name=result.name,
        answer=" ".join(answer(result)),
        why=reasons(result),
        terms=terms(studies),
        findings=finding_rows(result.findings),
        of_strong=finding_rows(studies.distribution.findings_of_strong if studies.distribution else []),
        sections=sections,
        settings={part.study: part.settings for part in studies.parts()},
        provenance=provenance(studies, times or {}),
        hashes=hashes(studies),
        version=__version__,
    )


def provenance(studies: Studies, times: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the numbers come from: study file, date, corpus, seeds, machines, time, versions."""
    sessions = times.get("sessions", ())
    rows: list[tuple[str, str]] = []
    if sessions:
        began = list(dict.fromkeys(one["began"][:10] for one in sessions))
        rows += [
            ("study file", ", ".join(dict.fromkeys(one["file"] for one in sessions))),
            ("date", began[0] if len(began) == 1 else f"{began[0]} to {began[-1]}"),
        ]
    for part in studies.parts()[:1]:
        about = part.provenance
        registries = ", ".join(f"{name} {count:,}" for name, count in about.registries.items())
        rows += [
            ("corpus, sha256", about.corpus_sha256),
            ("reports", f"{about.reports:,} ({registries})"),
            ("cleaning of text", about.text),
        ]
    for part in studies.parts():
        seeds = part.settings.get("seeds") or [part.settings["seed"]]
        rows.append((f"seeds, {part.study}", ", ".join(map(str, seeds))))
    if sessions:
        parts = f", in {len(sessions)} sessions" if len(sessions) > 1 else ""
        rows.append(("time, by the clock", duration(sum(one["seconds"] for one in sessions)) + parts))
    for row in times.get("work", ()):
        took = f"{row['cells']:,} cells on {row['machine']}, {duration(row['seconds'])} of work"
        rows.append((f"time, {row['study']}", took))
    versions = times.get("versions") or {"pathveil": __version__}
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    return rows


def hashes(studies: Studies) -> list[tuple[str, str]]:
    """Every vocabulary whose hash the result has, by which the words that were used can be known again."""
    rows = [] if studies.vocabulary is None else studies.vocabulary.vocabularies
    return [(f"{row.fold} left out, {row.strategy}, {row.size:,} words", row.sha256) for row in rows]
