"""A corpus in Python: read from files or from a frame, checked once, and handed to whatever works on reports.

Files that hold a corpus already are used where they lie, so what was derived from them (tokens) is found again. What
must be made into one first, a frame or HL7 messages, is written to a private temporary folder that is removed with the
``Corpus`` object.

>>> import polars as pl
>>> reports = pl.DataFrame({"report_id": ["a", "b"], "case_id": ["1", "2"], "text": ["left breast", "colon"],
...                         "site": ["C50", "C18"]})
>>> corpus = read(reports, registry="R1")
>>> corpus
2 reports of 2 cases in R1; tasks: site
>>> len(corpus), corpus.registries, read(corpus) is corpus
(2, {'R1': 2}, True)
"""

import html
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pathveil.arguments import names_given
from pathveil.corpus.check import CheckResult, check
from pathveil.corpus.code_columns import normalise_codes
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import AnyMapping, Columns, TableMapping, mapping_of
from pathveil.corpus.relevance import DAYS
from pathveil.corpus.rows import RowCounts, check_most_skipped
from pathveil.corpus.schema import REQUIRED, scan, tasks_of, validate, with_dates
from pathveil.corpus.split import VALIDATION, split_corpus
from pathveil.corpus.synth import SynthResult, SynthSettings, write_corpus
from pathveil.corpus.tables.files import Paths, form_of, open_table, write_parquet
from pathveil.corpus.tables.opening import MESSAGES, detect_format, expand_folders
from pathveil.errors import CorpusError, UsageError, short
from pathveil.formatting import counted
from pathveil.progress import Progress, silent

if TYPE_CHECKING:
    import polars as pl


LONGEST_NAME = 255  # bytes of a file's name


class Corpus:
    """Reports that keep the rules of ``pathveil.corpus.schema``; made by ``read``.

    ``paths`` is what every function takes that works on a corpus. Files that the object made are gone with it.
    ``made`` says of an invented corpus what was made, ``tables`` of one that was imported what became of its rows.
    """

    made: SynthResult | None = None
    tables: RowCounts | None = None

    def __init__(
        self, paths: Paths, *, tasks: str | Iterable[str] | None = None, folder: "PrivateFolder | None" = None
    ):
        wanted = names_given(tasks, "tasks")
        # What lies in a private folder was a frame or messages: its own name would tell nobody anything.
        frame = validate(scan(paths, tasks=wanted), source=paths if folder is None else "what was given")
        self.paths: Path | list[Path] = as_paths(paths)
        self.tasks = tasks_of(frame, wanted)
        self._folder = folder  # lives as long as this object

    def lazy(self) -> "pl.LazyFrame":
        """The reports, not yet read into memory."""
        return with_dates(scan(self.paths, tasks=self.tasks))

    def to_frame(self) -> "pl.DataFrame":
        """The reports as a polars frame."""
        return self.lazy().collect(engine="streaming")

    def in_one_form(self, *, tasks: str | Iterable[str] | None = None) -> "Corpus":
        """The same reports in a private file, with their codes in one form, unknown ones as they are."""
        folder = PrivateFolder()
        path = folder.path / "reports.parquet"
        write_parquet(normalise_codes(self.lazy(), keep_unknown=True)[0], path)
        corpus = Corpus(path, tasks=tasks, folder=folder)
        corpus.tables = self.tables
        return corpus

    @cached_property
    def _counts(self) -> list[tuple[str, int, int]]:
        """Registry, reports and cases, by registry."""
        import polars as pl

        groups = self.lazy().group_by("registry").agg(pl.len(), pl.col("case_id").n_unique())
        return groups.collect(engine="streaming").sort("registry").rows()

    @property
    def registries(self) -> dict[str, int]:
        """How many reports each registry has."""
        return {registry: reports for registry, reports, _ in self._counts}

    @cached_property
    def cases(self) -> int:
        """How many cases there are."""
        import polars as pl

        return self.lazy().select(pl.col("case_id").n_unique()).collect(engine="streaming").item()

    def __len__(self) -> int:
        return sum(self.registries.values())

    def check(self, *, progress: Progress = silent) -> CheckResult:
        """Judge the corpus: what is in it, and what to mend first."""
        return check(scan(self.paths, tasks=self.tasks), tasks=self.tasks, progress=progress)

    def split(
        self,
        out: str | Path | None = None,
        *,
        seed: int = 0,
        test: float | None = None,
        validation: float = VALIDATION,
        test_from: str | None = None,
        relevant_to: str | Sequence[str] = (),
        days: int = DAYS,
        progress: Progress = silent,
    ) -> "Parts":
        """Divide the cases into train, validation and test, written to the folder ``out`` or to a private one."""
        folder = PrivateFolder() if out is None else None
        place = folder.path if folder else Path(out or "")
        made = split_corpus(
            self.paths,
            out=place,
            seed=seed,
            test=test,
            validation=validation,
            test_from=test_from,
            relevant_to=names_given(relevant_to, "relevant_to", commas=False),
            days=days,
            tasks=self.tasks,
            progress=progress,
        )
        parts = {
            part: Corpus(place / f"{part}.parquet", tasks=self.tasks, folder=folder)
            for part in ("train", "validation", "test")
            if part in made.parts
        }
        return Parts(parts["train"], parts.get("validation"), parts.get("test"))

    def __repr__(self) -> str:
        names = list(self.registries)
        where = ", ".join(names) if len(names) <= 10 else counted(len(names), "registry", "registries")
        tasks = f"tasks: {', '.join(self.tasks)}" if self.tasks else "no labels"
        return f"{counted(len(self), 'report')} of {counted(self.cases, 'case')} in {where}; {tasks}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = "".join(
            f"<tr><td>{html.escape(registry)}</td><td>{reports:,}</td><td>{cases:,}</td></tr>"
            for registry, reports, cases in self._counts
        )
        head = "<tr><th>registry</th><th>reports</th><th>cases</th></tr>"
        return f"<p>{html.escape(repr(self))}</p><table>{head}{rows}</table>"


class Parts(NamedTuple):
    """The parts of a corpus, none of whose cases is in two of them; one that was not asked for is missing."""

    train: Corpus
    validation: Corpus | None
    test: Corpus | None


def read(
    source: "Paths | pl.DataFrame | pl.LazyFrame | Corpus | Any",
    *,
    registry: str | None = None,
    columns: Columns | None = None,
    mapping: AnyMapping = None,
    tasks: str | Iterable[str] | None = None,
    key: bytes | None = None,
    most_skipped: float = 0.0,
    progress: Progress = silent,
) -> Corpus:
    """Read and check reports: a file or folder (tables or messages), several, or a polars or pandas frame.

    ``registry`` names the registry where the source does not. ``columns`` gives the names that columns have in the
    source (``{"case_id": "TUMOR_ID", "text": ["DIAGNOSIS", "GROSS"]}``); ``mapping``, a file that ``corpus map`` wrote
    or its content, says more of tables: encoding, dates. A corpus is used where and as it lies; of anything else codes
    come in one form, unknown ones as they are. ``tasks`` names the label columns, else they are those of the usual five
    that are there. ``key`` makes the case ids of HL7 messages; without one they match no other reading. Rows of tables
    that cannot be used are refused, or, up to the share ``most_skipped`` of a table, left out and counted
    (``Corpus.tables``).
    """
    if isinstance(source, Corpus):
        if registry or columns or mapping:
            raise UsageError("a Corpus was read already; give registry, columns and mapping when reading its source")
        if tasks is None:
            return source
        chosen = Corpus(source.paths, tasks=tasks, folder=source._folder)
        chosen.tables = source.tables
        return chosen
    told = mapping_of(mapping).with_columns(columns or {})
    frame = as_polars(source)
    paths = as_paths(source) if frame is None else []
    check_most_skipped(most_skipped)
    if frame is None and registry is None and told.is_empty and all(map(is_plain_table, expand_folders(paths))):
        with suppress(CorpusError):  # the import finds how it is written, or says what is wrong
            return Corpus(paths, tasks=tasks)
    folder = PrivateFolder()
    path = folder.path / "reports.parquet"
    imported = import_corpus(
        paths,
        out=path,
        registry=registry,
        key=key,
        mapping=told,
        frame=frame,
        keep_unknown_codes=True,
        most_skipped=most_skipped,
        progress=progress,
    )
    corpus = Corpus(path, tasks=tasks, folder=folder)
    whole = frame is not None and not (imported.tables and imported.tables.skipped_total)
    corpus.tables = None if whole else imported.tables  # of a frame only what was left out is news
    return corpus


def is_corpus_already(path: Path, mapping: TableMapping) -> bool:
    """Whether Parquet has a corpus's columns and none that a mapping names, so that there is nothing to map."""
    found = expand_folders(path)
    if any(form_of(one) != "parquet" for one in found):
        return False
    names = set(open_table(found[0]).collect_schema())
    given = ((ours, [theirs] if isinstance(theirs, str) else theirs) for ours, theirs in mapping.columns.items())
    others = {name for ours, theirs in given for name in theirs if name != ours}
    return set(REQUIRED) <= names and not names & others


def synthetic_corpus(
    settings: SynthSettings, *, out: Path | None = None, truth: Path | None = None, progress: Progress = silent
) -> Corpus:
    """An invented corpus, written to ``out``, or to a private file that goes with the object."""
    folder = PrivateFolder() if out is None else None
    path = folder.path / "reports.parquet" if folder else Path(out or "")
    made = write_corpus(settings, out=path, truth=truth, progress=progress)
    corpus = Corpus(path, folder=folder)
    corpus.made = made
    return corpus


class PrivateFolder:
    """A temporary folder for its owner's eyes only, removed once nothing refers to this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="pathveil-"))
        weakref.finalize(self, _remove, self.path, os.getpid())

    def __deepcopy__(self, memo: Any) -> "PrivateFolder":
        return self  # nobody writes to it any more, and it must outlast every copy


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not take it from its parent
        shutil.rmtree(path, ignore_errors=True)


def as_paths(source: Any) -> Path | list[Path]:
    """The path or paths given. Texts are refused here, since every later sentence would quote them as names."""
    given = [source] if isinstance(source, str | Path) else source
    if not isinstance(given, Sequence) or not all(isinstance(path, str | Path) for path in given):
        told = f"got {type(source).__name__}"
        raise UsageError(f"reports are read from a path, paths, or a polars or pandas frame; {told}")
    if any(isinstance(path, str) and is_text(path) for path in given):
        raise UsageError(
            "reports are read from files, and what was given is text, no file's name; give texts as a frame with the "
            "columns report_id, case_id, registry and text"
        )
    return Path(source) if isinstance(source, str | Path) else [Path(path) for path in given]


def is_text(given: str) -> bool:
    """Whether a string that should name a file is a report's text instead.

    >>> [is_text(one) for one in ("Left breast, ductal carcinoma.", "my reports.csv", "reports", "a\\nb")]
    [True, False, False, True]
    """
    if "\n" in given or any(len(part.encode(errors="replace")) > LONGEST_NAME for part in given.split("/")):
        return True
    return " " in given and not re.fullmatch(r"\.\w{1,8}", Path(given).suffix) and not Path(given).exists()


def is_plain_table(path: Path) -> bool:
    """Whether a file is a table of the forms in which a corpus may be; JSONL may hold messages (FHIR)."""
    return form_of(path) is not None and detect_format(path) not in MESSAGES


def as_polars(source: Any) -> "pl.LazyFrame | None":
    """A polars or pandas frame as a lazy one; none where the source is no frame."""
    library = type(source).__module__.partition(".")[0]
    if library == "polars" and hasattr(source, "lazy"):
        return _of_known_types(source.lazy())
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        return _of_known_types(_from_pandas(source).lazy())
    return None


def _of_known_types(frame: "pl.LazyFrame") -> "pl.LazyFrame":
    import polars as pl

    for name, kind in frame.collect_schema().items():
        if kind == pl.Object:
            raise CorpusError(
                f"the frame: column '{short(name)}' holds Python objects that no table can; make it text, or drop it"
            )
    return frame


def _from_pandas(frame: Any) -> "pl.DataFrame":
    """A pandas frame column by column, since polars' own conversion needs pyarrow; of its index what has a name."""
    import polars as pl

    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise CorpusError(f"the frame: column '{again[:40]}' is there twice")
    columns = dict(zip(names, (frame[column] for column in frame.columns), strict=True))
    for level in getattr(getattr(frame, "index", None), "names", ()):
        if level is not None:
            columns.setdefault(str(level), frame.index.get_level_values(level))
    series = []
    for name, column in columns.items():
        missing, values = column.isna(), column.tolist()
        cells = [None if empty else value for empty, value in zip(missing.tolist(), values, strict=True)]
        try:
            series.append(pl.Series(name, cells))
        except (TypeError, pl.exceptions.PolarsError):  # a column of several types
            series.append(pl.Series(name, [None if cell is None else str(cell) for cell in cells], pl.String))
    return pl.DataFrame(series)
