"""``report.html`` from a run's results: one self-contained file that opens with the answer as a picture.

No script or font is fetched, nothing but aggregates is shown (``reasons`` tells of the one exception, a made-up
report), and every table and figure can be downloaded. Without JavaScript all of it can be read: scripts only sort,
save, show tabs and bring figures nearer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pathveil import __version__
from pathveil.files import read_json, write_text
from pathveil.formatting import duration
from pathveil.results import parts_that_fit
from pathveil.studies.answer import answer, reasons
from pathveil.studies.machine import read_times
from pathveil.studies.report import combined, defences, distribution, vocabulary
from pathveil.studies.report.figures import Drawing
from pathveil.studies.report.findings import finding_rows, strip_of
from pathveil.studies.report.opening import Opening, opening_of
from pathveil.studies.report.readers import READERS, reader_sections
from pathveil.studies.report.reasons import ShownReasons, reasons_of
from pathveil.studies.report.tables import Section
from pathveil.studies.report.terms import Glossary, terms
from pathveil.studies.result import Studies, StudyResult, read_run
from pathveil.studies.study_file import RECIPE

AUDIT = "audit/audit.html"  # in a run's folder, where an audit was made as well
METHODS = """\
Splits are by case; vocabularies are chosen from training documents alone. “Accuracy” of an attack is the vocabulary
paper's: the mean over the classes, each of which has an attack model; the share of all reports and balanced accuracy
(members and non-members weigh alike) stand beside it. Intervals of F1 and AUC are bootstraps over cases (macro F1
within classes); those of ways of training are Student's over worlds. Findings are judged on paired differences over
folds, or over registries (means over tasks and seeds), by Student's intervals, each taken so wide that all of a study's
cover together at 95 %. A finding of several comparisons holds if all come out and does not hold if one is contradicted;
“alike” means an interval within the margin. Attacks are judged on the paper's accuracy, and the report says where
balanced accuracy decides otherwise. Groups with fewer than ten cases are not shown. The stopping epoch confounds
privacy; it stands beside every model."""


@dataclass(frozen=True)
class Beside:
    """What lies beside a result in its folder and goes onto the page."""

    times: Mapping[str, Any]
    audit_page: str = ""  # its place, from the report's
    reasons: ShownReasons | None = None
    made_up: int = 0  # reports, where the run made them up itself


@dataclass(frozen=True)
class Figure:
    """A figure on the page, under a name of its own."""

    id: str
    title: str
    svg: Any
    caption: str
    rows: Sequence[Sequence[Any]]
    part: str  # the title of the part it stands in


def write(result: StudyResult, path: Path) -> None:
    """Write the page; what else belongs on it is read from the folder that it goes into: ``times.json``, an audit's
    page, the reasons of a made-up report."""
    folder = path.parent
    recipe = folder / RECIPE
    beside = Beside(
        times=read_times(folder),
        audit_page=AUDIT if (folder / AUDIT).is_file() else "",
        reasons=reasons_of(folder, result),
        made_up=int(read_json(recipe)["reports"]) if recipe.exists() else 0,
    )
    write_text(path, render(result, beside=beside))


def write_again(run: Path) -> StudyResult:
    """Write a run's page anew from its ``result.json``, which may be another's."""
    path = run / "result.json"
    result = read_run(path)
    with parts_that_fit(path, expected="what 'pathveil study run' writes"):
        write(result, run / "report.html")
        str(result)
    return result


def render(result: StudyResult, *, beside: Beside | None = None) -> str:
    """The page as HTML."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    beside = beside or Beside(times={})
    studies = result.studies
    explained = terms(studies)
    glossary = Glossary(explained)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["explained"] = glossary.mark
    folder = files("pathveil.studies.report")
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    sections, opening = study_sections(studies), opening_of(studies)
    figures = figures_of(sections, opening)
    findings, for_readers = finding_rows(result.findings), reader_sections(result, audit_page=beside.audit_page)
    return template.render(
        name=result.name,
        style=Markup((folder / "page.css").read_text(encoding="utf-8").rstrip()),
        script=Markup((folder / "page.js").read_text(encoding="utf-8").rstrip()),
        begin=glossary.begin,
        opening=opening,
        answer_figure=figures["answer"][0] if figures["answer"] else None,
        made_up=made_up_sentence(beside.made_up),
        readers=[reader for reader in READERS if reader.place in {"method", *(one.id for one in for_readers)}],
        readers_sections=for_readers,
        reasons=beside.reasons,
        answer=" ".join(answer(result)),
        why=reasons(result),
        findings=findings,
        strip=strip_of(findings),
        of_strong=finding_rows(studies.distribution.findings_of_strong if studies.distribution else []),
        sections=[
            {"id": one.id, "title": one.title, "text": one.text, "figures": figures[one.id], "blocks": one.blocks}
            for one in sections
        ],
        methods=" ".join(METHODS.split()),
        sizes=[(table.id, one.title) for one in sections for table in one.tables if table.id.startswith("needed-")],
        settings={part.study: part.settings for part in studies.parts()},
        provenance=provenance(studies, beside.times),
        hashes=hashes(studies),
        every_figure=[figure for own in figures.values() for figure in own],
        terms=explained,
        version=__version__,
    )


def study_sections(studies: Studies) -> list[Section]:
    """A part of the page for each study."""
    sections: list[Section] = []
    if studies.vocabulary is not None:
        sections.append(vocabulary.section(studies.vocabulary))
    if studies.distribution is not None:
        sections.append(distribution.section(studies.distribution))
    if studies.combined is not None:
        sections.append(combined.section(studies.combined))
    if studies.defences is not None:
        sections.append(defences.section(studies.defences))
    return sections


def figures_of(sections: Sequence[Section], opening: Opening) -> dict[str, list[Figure]]:
    """The figures of each part of the page, the opening's first."""
    from markupsafe import Markup

    own = [("Privacy against F1: the answer", opening.picture, opening.caption)] if opening.picture else []
    parts = [("answer", "The answer", own), *((one.id, one.title, one.figures) for one in sections)]
    made: dict[str, list[Figure]] = {}
    for id, part, drawings in parts:
        made[id] = [
            Figure(
                id=f"figure-{id}-{place}",
                title=title,
                svg=Markup(svg),
                caption=caption,
                rows=svg.rows if isinstance(svg, Drawing) else [],
                part=part,
            )
            for place, (title, svg, caption) in enumerate(drawings, 1)
        ]
    return made


def made_up_sentence(reports: int) -> str:
    """What a reader must know of made-up reports; nothing where they are real."""
    if not reports:
        return ""
    told = f"Made-up reports: the run wrote its own {reports:,}, and no patient is behind them. "
    return told + "The page shows how a report is read; what real reports give must be measured on them."


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
