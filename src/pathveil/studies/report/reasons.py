"""One report with the words that spoke for its codes: of a made-up report only.

A page about a study shows no report's text, with one exception: where the run made its own synthetic corpus (the demo
does), one of its reports may be shown with the model's reasons in it. The text is not read from any corpus. It is made
anew from the recipe that the run's folder holds, by the generator of ``corpus.synth``, so that whatever stands on the
page was never anybody's; and where the study's own corpus is not the one that was made there, nothing is shown.

>>> places = [ExplainedWords(start=5, end=11, weight=2.0), ExplainedWords(start=0, end=11, weight=0.5)]
>>> [(one.text, one.strength) for one in pieces("left breast, ductal", {"site": places})]
[('left ', 0.25), ('breast', 1.0), (', ductal', 0.0)]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from pathveil.corpus.synth import configure, synthesise
from pathveil.errors import UsageError
from pathveil.files import read_json, sha256_of_file
from pathveil.studies.explained import REASONS, ExplainedReport, ExplainedWords
from pathveil.studies.report.tables import Cell, Table
from pathveil.studies.result import StudyResult
from pathveil.studies.study_file import CORPUS, RECIPE

PLACES = 4  # of each task that are marked
REFUSED = (
    "The reasons that lie in this run's folder are not shown: the text of a report stands on a page only where the run "
    "made up its reports itself, and this one read a corpus."
)


@dataclass(frozen=True)
class Piece:
    """A stretch of a report's text; of a task where its words spoke for that task's code."""

    text: str
    task: str = ""
    strength: float = 0.0  # from 0 to 1, beside the strongest of the report
    about: str = ""


@dataclass(frozen=True)
class ShownReasons:
    """What the page shows: pieces of a made-up report and a table of its codes, or why it does not."""

    pieces: Sequence[Piece] = ()
    tasks: Sequence[str] = ()
    table: Table | None = None
    refused: str = ""


def reasons_of(folder: Path, result: StudyResult) -> ShownReasons | None:
    """The report whose reasons lie in a run's folder; none where there are none."""
    if not (folder / REASONS).is_file():
        return None
    try:
        explained = ExplainedReport.model_validate(read_json(folder / REASONS))
    except (UsageError, ValidationError):  # damaged: the page is whole without it
        return None
    text = made_up_text(folder, result, explained.report_id)
    if text is None:
        return ShownReasons(refused=REFUSED)
    strongest = {task: code.places[:PLACES] for task, code in explained.tasks.items()}
    shown = pieces(text, strongest, {task: code.code for task, code in explained.tasks.items()})
    rows = []
    for task, code in explained.tasks.items():
        words = " · ".join(" ".join(text[one.start : one.end].split()) for one in strongest[task])
        answer = Cell(f"{code.probability:.0%}", code.probability)
        rows.append(
            [task, code.code, "as labelled" if code.code == code.truth else f"labelled {code.truth}", answer, words]
        )
    heads = ["task", "code", "beside the label", "sure", "strongest words"]
    table = Table("reasons", "Its codes, and the words that spoke most for each", heads, rows)
    return ShownReasons(shown, list(explained.tasks), table)


def made_up_text(folder: Path, result: StudyResult, report_id: str) -> str | None:
    """A report's text, made anew; None unless every study of the run read the corpus that was made in its folder."""
    if not (folder / RECIPE).is_file() or not (folder / CORPUS).is_file():
        return None
    if {part.provenance.corpus_sha256 for part in result.studies.parts()} != {sha256_of_file(folder / CORPUS)}:
        return None
    recipe = {name: value for name, value in read_json(folder / RECIPE).items() if name != "pathveil"}
    for reports, _ in synthesise(configure(**recipe)):
        found = reports.filter(report_id=report_id)
        if found.height:
            return str(found["text"][0])
    return None


def pieces(
    text: str, places: Mapping[str, Sequence[ExplainedWords]], codes: Mapping[str, str] | None = None
) -> list[Piece]:
    """The text cut where a place begins or ends; of places on one another the strongest counts."""
    spans = [(one, task) for task, own in places.items() for one in own]
    most = max((one.weight for one, _ in spans), default=1.0) or 1.0
    cuts = sorted({0, len(text), *(one.start for one, _ in spans), *(one.end for one, _ in spans)})
    made = []
    for start, end in pairwise(cuts):
        over = [(one.weight, task) for one, task in spans if one.start <= start and end <= one.end]
        weight, task = max(over, default=(0.0, ""))
        about = f"{task} {(codes or {}).get(task, '')}: {weight:+.2f}" if task else ""
        made.append(Piece(text[start:end], task, max(0.0, weight / most), about))
    return made
