"""Options that say how a table of reports is written, for the commands that read one.

``tells_of_tables`` gives a command all of them, as one ``TableMapping``. ``reads_tables`` gives ``--map`` to a command
that works on a corpus: a table that is none yet is first read, just as ``corpus import`` reads it, into a private
temporary folder that goes when the command ends.
"""

import inspect
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pathveil.cli.console import bar, ended_like_ctrl_c
from pathveil.errors import UsageError
from pathveil.files import check_not_read
from pathveil.untrusted import printable

if TYPE_CHECKING:
    from pathveil.corpus.mapping import TableMapping

Command = Callable[..., Any]
MAP_OPTION = typer.Option(
    None,
    "--map",
    metavar="FILE",
    help="A mapping of columns, as 'pathveil corpus map' proposes it, for reports in a table that is no corpus yet.",
)
COUNTS = ".npz"


def option(name: str, annotation: Any, help: str, *, metavar: str | None = None) -> inspect.Parameter:
    told = typer.Option(None, f"--{name}", metavar=metavar, help=help)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=told, annotation=annotation)


WRITTEN = [  # how a table is written
    option(
        "encoding",
        str,
        "Of CSV files, e.g. cp1252 or cp850; else UTF-8, UTF-16 and Windows-1252 are told apart.",
    ),
    option("delimiter", str, "What separates the fields of CSV files; else it is found."),
    option(
        "dates",
        str,
        "How dates are written, e.g. dd/mm/yyyy; else found where only one fits.",
        metavar="FORMAT",
    ),
    option("query", str, "What to read of a database, e.g. 'select * from reports'.", metavar="SQL"),
    option("sheet", str, "Which sheet of a spreadsheet to read; else the first."),
]
NAMED = [  # what its columns are called
    option(
        "column",
        list[str],
        "Take a column from one of another name, e.g. case_id=TUMOR_ID; the text also from several: text=DX+GROSS; "
        "of reports in several rows, line=LINE_NO or section=PART.",
        metavar="NAME=THEIRS",
    ),
    option(
        "texts",
        str,
        "A folder of files (.txt, .rtf, .html) that the column text names; their contents are the texts.",
        metavar="FOLDER",
    ),
    option("map", Path, "A mapping of columns, as 'pathveil corpus map' proposes it; options win.", metavar="FILE"),
]


def tells_of_tables(*, named: bool = True, texts: bool = True) -> Callable[[Command], Command]:
    """Give a command that takes a ``TableMapping`` as ``told`` the options that say it; not ``named``, it is asked what
    columns are called, so that they cannot be told, and without ``texts`` it reads none."""
    options = [*(one for one in NAMED if texts or one.name != "texts"), *WRITTEN] if named else WRITTEN

    def with_options(command: Command) -> Command:
        @wraps(command)
        def telling(**given: Any) -> Any:
            said = {one.name: given.pop(one.name) for one in options}
            return command(**given, told=mapping_from(said.pop("map", None), said.pop("column", None), **said))

        parameters = [
            one
            for name, parameter in inspect.signature(command).parameters.items()
            for one in (options if name == "told" else [parameter])
        ]
        return with_parameters(telling, parameters)

    return with_options


def reads_tables(*arguments: str) -> Callable[[Command], Command]:
    """Let a command whose ``arguments`` are corpora take ``--map``; it is then called with corpora made of tables."""

    def with_map(command: Command) -> Command:
        parameters = list(inspect.signature(command).parameters.values())
        given_map = inspect.Parameter("map_file", inspect.Parameter.KEYWORD_ONLY, default=MAP_OPTION, annotation=Path)
        behind = max(number for number, one in enumerate(parameters, start=1) if one.name in arguments)

        @wraps(command)
        def mapped(*, map_file: Path | None, **given: Any) -> Any:
            if map_file is not None and all(given[name] is None for name in arguments):
                raise UsageError("--map says how a table of reports is written, and none was given")
            with corpora_made(map_file, written=given.get("out")) as made:
                return command(**given | {name: made(given[name]) for name in arguments})

        return with_parameters(mapped, [*parameters[:behind], given_map, *parameters[behind:]])

    return with_map


def with_parameters(command: Command, parameters: Iterable[inspect.Parameter]) -> Command:
    """A function that takes its arguments by name, with the parameters that typer is to see."""
    seen = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    command.__signature__ = inspect.Signature(seen)  # ty: ignore[missing-attribute]
    command.__annotations__ = {one.name: one.annotation for one in seen}
    return command


def mapping_from(path: Path | None, column: list[str] | None = None, **told: str | None) -> "TableMapping":
    """What a mapping file and options say of tables; options win."""
    from pathveil.corpus.mapping import TableMapping, read_mapping

    columns = dict(pair.partition("=")[::2] for pair in column or [])
    if not all(columns) or not all(columns.values()):
        raise UsageError("--column takes NAME=THEIRS, for example case_id=TUMOR_ID")
    mapping = read_mapping(path) if path else TableMapping()
    return mapping.changed(**{name: value for name, value in told.items() if value}).with_columns(columns)


@contextmanager
def corpora_made(map_file: Path | None, *, written: Path | None = None) -> Generator[Callable[[Any], Any]]:
    """What makes a corpus of a path, or of several, as a mapping says; what is one already stays as it is.

    ``written`` is what the command will write: neither the table nor the mapping.
    """
    if map_file is None:
        yield lambda given: given
        return
    from pathveil.corpus.intake import import_corpus
    from pathveil.corpus.mapping import read_mapping
    from pathveil.corpus.reading import is_corpus_already
    from pathveil.corpus.tables.files import names_of

    mapping = read_mapping(map_file)
    with ended_like_ctrl_c(), tempfile.TemporaryDirectory(prefix="pathveil-") as folder:

        def made(given: Path | list[Path] | None) -> Path | list[Path] | None:
            paths = given if isinstance(given, list) else [] if given is None else [given]
            tables = [path for path in paths if path.suffix != COUNTS and not is_corpus_already(path, mapping)]
            if not tables:
                return given
            if written is not None:
                check_not_read(written, [*tables, map_file])
            out = Path(tempfile.mkdtemp(dir=folder)) / f"{tables[0].stem}.parquet"
            with bar() as progress:
                result = import_corpus(tables, out=out, mapping=mapping, progress=progress)
            told = [f"pathveil: {names_of(tables)}: {result.counts()}", *result.left_out()]
            typer.echo(printable("\n".join(told)), err=True)
            return [out, *(path for path in paths if path not in tables)] if isinstance(given, list) else out

        yield made
