"""From a configuration to frames, and from frames to Parquet, in bounded memory.

Cases follow one another by number; each is drawn from a stream of its own, so a shorter corpus is the beginning of a
longer one with the same seed, and neither the size of the frames nor the machine changes a character.
"""

from collections.abc import Iterator
from datetime import date as Day
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from pathveil.corpus.schema import TASKS
from pathveil.corpus.synth.cases import draw_case
from pathveil.corpus.synth.codes import BEHAVIORS, Classes, select_classes
from pathveil.corpus.synth.houses import Mix, draw_stream
from pathveil.corpus.synth.reports import write_report
from pathveil.corpus.tables import files as tables
from pathveil.errors import UsageError, explained
from pathveil.files import check_new
from pathveil.formatting import counted
from pathveil.icdo.lists import LATERALITIES
from pathveil.progress import Progress, silent
from pathveil.results import Result
from pathveil.settings import Settings

if TYPE_CHECKING:
    import polars as pl

REPORT_COLUMNS = ("report_id", "case_id", "registry", "date", "kind", "diagnosis_date", "text", *TASKS)
TRUTH_COLUMNS = ("report_id", "case_id", "kind", "start", "end", "text")


class SynthSettings(Settings):
    """What to make. Class counts that are left out are the papers', or as many as go with the sites chosen."""

    reports: int = Field(ge=1)
    seed: int = Field(default=0, ge=0)
    registries: int = Field(default=7, ge=1, le=60)
    sites: int = Field(default=70, ge=1, le=70)
    subsites: int | None = Field(default=None, ge=1)
    histologies: int | None = Field(default=None, ge=1)
    lateralities: int = Field(default=len(LATERALITIES), ge=1, le=len(LATERALITIES))
    behaviors: int = Field(default=len(BEHAVIORS), ge=1, le=len(BEHAVIORS))
    rarity: float = Field(default=1.0, ge=0, le=3)  # 0: classes equally common; 1: as in a population; more: rarer

    def classes(self) -> Classes:
        """The labels in use."""
        return select_classes(
            sites=self.sites,
            subsites=self.subsites,
            histologies=self.histologies,
            lateralities=self.lateralities,
            behaviors=self.behaviors,
            rarity=self.rarity,
        )


def configure(**options: Any) -> SynthSettings:
    """Settings from a user's options; what is out of range is said in one sentence.

    >>> configure(reports=10, registries=0)
    Traceback (most recent call last):
    pathveil.errors.UsageError: 'registries': Input should be greater than or equal to 1
    """
    try:
        return SynthSettings(**options)
    except ValidationError as error:
        raise UsageError(explained(error, SynthSettings)) from None


def registry_shares(settings: SynthSettings) -> list[float]:
    """Registries differ in size, the largest up to about four times the smallest."""
    sizes = [
        1 + int(3 * draw_stream(settings.seed, number, "size")() * 100) / 100 for number in range(settings.registries)
    ]
    return [size / sum(sizes) for size in sizes]


def rows(settings: SynthSettings) -> Iterator[tuple[tuple[Any, ...], list[tuple[Any, ...]]]]:
    """Each report as a row, with its rows of truth."""
    classes = settings.classes()
    mixes = [Mix(classes, number, seed=settings.seed, rarity=settings.rarity) for number in range(settings.registries)]
    shares = registry_shares(settings)
    made, number = 0, 0
    while made < settings.reports:
        case = draw_case(number, classes=classes, mixes=mixes, shares=shares, seed=settings.seed)
        case_id = f"K{number:07d}"
        diagnosed = Day.fromordinal(case.diagnosed)
        labels = tuple(case.labels[task] for task in TASKS)
        for visit, (kind, day) in enumerate(case.visits[: settings.reports - made]):
            draw = draw_stream(settings.seed, "report", number, visit)
            text, spans = write_report(case, visit, draw, names=classes.names, terms=classes.terms)
            report_id = f"{case_id}-{visit + 1}"
            head = (report_id, case_id, case.region.name, Day.fromordinal(day), kind, diagnosed, text)
            yield head + labels, [(report_id, case_id, name, at, end, text[at:end]) for name, at, end in spans]
            made += 1
        number += 1


def schema_of(columns: tuple[str, ...]) -> "pl.Schema":
    import polars as pl

    types = {"date": pl.Date, "diagnosis_date": pl.Date, "start": pl.Int32, "end": pl.Int32}
    return pl.Schema({column: types.get(column, pl.String) for column in columns})


def synthesise(
    settings: SynthSettings, *, chunk: int = tables.BATCH
) -> Iterator[tuple["pl.DataFrame", "pl.DataFrame"]]:
    """Frames of reports, each with the frame of its truth: the personal spans and their kinds."""
    import polars as pl

    reports: list[tuple] = []
    truth: list[tuple] = []

    def frames() -> tuple[pl.DataFrame, pl.DataFrame]:
        return (
            pl.DataFrame(reports, schema=schema_of(REPORT_COLUMNS), orient="row"),
            pl.DataFrame(truth, schema=schema_of(TRUTH_COLUMNS), orient="row"),
        )

    for report, spans in rows(settings):
        reports.append(report)
        truth += spans
        if len(reports) == chunk:
            yield frames()
            reports.clear()
            truth.clear()
    if reports:
        yield frames()


class SynthResult(Result):
    """What was made, and where it is."""

    reports: int
    cases: int
    spans: int  # pieces of personal information planted
    out: str
    truth: str | None
    config: SynthSettings

    def rows(self) -> list[dict[str, Any]]:
        return [{"reports": self.reports, "cases": self.cases, "spans": self.spans}]

    def summary(self) -> str:
        registries = counted(self.config.registries, "registry", "registries")
        text = f"{counted(self.reports, 'report')} of {counted(self.cases, 'case')}, {registries}: {self.out}"
        if self.truth:
            text += f"\n{self.spans:,} pieces of personal information planted: {self.truth}"
        return text


def write_corpus(
    settings: SynthSettings, *, out: Path, truth: Path | None = None, progress: Progress = silent
) -> SynthResult:
    """Write the corpus, and its truth where a path for it is given; each file appears whole or not at all."""
    import polars as pl
    from polars.io.plugins import register_io_source

    check_places(out, truth)
    settings.classes()  # counts that do not go together are refused before anything is written
    with TemporaryDirectory() as staged:
        found: list[Path] = []
        counts = {"reports": 0, "cases": 0, "spans": 0}

        def batches(*_: object) -> Iterator[pl.DataFrame]:
            last = None
            for reports, spans in synthesise(settings):
                counts["reports"] += reports.height
                counts["cases"] += reports["case_id"].n_unique() - (reports["case_id"][0] == last)
                counts["spans"] += spans.height
                last = reports["case_id"][-1]
                if truth:
                    found.append(Path(staged) / f"{len(found):06d}.parquet")
                    spans.write_parquet(found[-1])
                progress("writing reports", counts["reports"], settings.reports)
                yield reports

        tables.write_parquet(register_io_source(batches, schema=schema_of(REPORT_COLUMNS)), out)
        if truth:
            tables.write_parquet(pl.scan_parquet([*map(tables.one_file, found)]), truth)
    return SynthResult(**counts, out=str(out), truth=str(truth) if truth else None, config=settings)


def check_places(out: Path, truth: Path | None) -> None:
    """Refuse names that cannot be the corpus's and its truth's."""
    for path in (out, truth):
        if path and path.suffix != ".parquet":
            raise UsageError(f"{path}: a corpus is written as Parquet; expected a name that ends in .parquet")
        if path:
            check_new(path)  # made-up reports never take the place of real ones
    if truth and truth.resolve() == out.resolve():
        raise UsageError(f"{out}: the corpus and its truth need two different files")
