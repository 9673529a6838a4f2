"""``pathveil corpus …``: make, read, judge and divide corpora."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pathveil import api
from pathveil.cli.console import JSON_OPTION, bar, emit, ended_like_ctrl_c, names_from
from pathveil.cli.tables import reads_tables, tells_of_tables
from pathveil.errors import UsageError

if TYPE_CHECKING:
    from pathveil.corpus.mapping import TableMapping

app = typer.Typer(help="Make, read, judge and divide corpora of reports.", no_args_is_help=True, rich_markup_mode=None)

DATABASE_OPTION = typer.Option(
    None,
    "--database",
    metavar="VARIABLE",
    help="Read --query from the database whose address (postgresql://user@host/name, …) this environment variable "
    "holds, instead of a file.",
)
KEEP_OPTION = typer.Option(
    False, "--keep-unknown-codes", help="Keep labels that ICD-O-3 does not have; else they are counted and left out."
)


@app.command("import", short_help="Read tables and HL7 messages into one checked corpus file.")
@tells_of_tables()
def import_reports(
    sources: list[Path] = typer.Argument(
        None,
        metavar="FILE",
        help="Tables (Parquet, CSV, JSONL, JSON, Excel, SQLite), HL7 or FHIR files, or folders.",
        show_default=False,
    ),
    out: Path = typer.Option(..., "--out", help="The corpus to write, a .parquet file."),
    form: str = typer.Option(
        "auto",
        "--format",
        help="auto, parquet, csv, jsonl, json, excel, sqlite, hl7 or fhir; auto goes by name and content.",
    ),
    registry: str = typer.Option(
        None, "--registry", help="The registry the reports belong to; else the tables' column, or MSH-4 of a message."
    ),
    key_file: Path = typer.Option(
        None,
        "--key-file",
        help="A secret of your registry from which HL7 case ids are made. The same key gives the same patient the same "
        "id in every import; without one the ids of this import match no other.",
    ),
    told: "TableMapping | None" = None,
    database: str | None = DATABASE_OPTION,
    keep_unknown_codes: bool = KEEP_OPTION,
    most_skipped: float = typer.Option(
        0.1,
        "--most-skipped",
        metavar="SHARE",
        help="Refuse a table of which a larger share of rows cannot be used; up to it they are skipped and named.",
    ),
    strict: bool = typer.Option(False, "--strict", help="Refuse instead of skipping: any message or row."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Read reports from tables and HL7 messages into one checked corpus file.

    Codes are put into one form (C504 becomes site C50 and subsite C50.4, 8500/3 histology 8500 and behavior 3) and
    checked against ICD-O-3. Messages and rows that cannot be used are skipped, counted and named by their position.
    Patient fields (PID) make the case id and are taken out of the text where it repeats them; they go nowhere else.
    """
    from pathveil.corpus.intake import import_corpus
    from pathveil.corpus.messages.patient import read_key
    from pathveil.corpus.tables.database import address_from_environment

    if not sources and database is None:
        raise UsageError("give files to read, or a database with --database and --query")

    with ended_like_ctrl_c(), bar() as progress:
        result = import_corpus(
            sources or [],
            out=out,
            database=address_from_environment(database) if database else None,
            form=form,
            registry=registry,
            key=read_key(key_file) if key_file else None,
            strict=strict,
            mapping=told,
            keep_unknown_codes=keep_unknown_codes,
            most_skipped=most_skipped,
            progress=progress,
        )
    emit(result, as_json=as_json)


def address_of(source: Path | None, variable: str | None) -> str | None:
    """The address of the database that stands in place of a file, where there is none."""
    from pathveil.corpus.tables.database import address_from_environment

    if (source is None) == (variable is None):
        raise UsageError("give a file to read, or a database with --database and --query: one of them")
    return address_from_environment(variable) if variable else None


@app.command("map", short_help="Propose which column of a table is which, as a file to correct.")
@tells_of_tables(named=False)
def map_columns(
    source: Path | None = typer.Argument(
        None, metavar="FILE", help="A table (CSV, JSONL, JSON, Excel, SQLite, Parquet).", show_default=False
    ),
    out: Path = typer.Option(..., "--out", help="The mapping to write, a commented .toml file."),
    told: "TableMapping | None" = None,
    database: str | None = DATABASE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Look at a table's columns and contents, propose which is text, case, report, date, registry and codes, and write
    it down. Correct what is wrong, then give it to 'corpus import' with --map. Nothing of the contents is written.
    """
    from pathveil.corpus.proposal import propose_mapping

    result = propose_mapping(source, out=out, mapping=told, database=address_of(source, database))
    emit(result, as_json=as_json)


@app.command("label", short_help="Give reports the codes of another table, such as abstracts.")
@tells_of_tables(texts=False)
def label_reports(
    reports: Path = typer.Argument(..., metavar="REPORTS", help="A corpus without labels: a file, or a folder."),
    labels: Path | None = typer.Argument(
        None,
        metavar="LABELS",
        help="A table of codes, such as abstracts (CSV, Excel, SQLite, …, NAACCR XML), or --database.",
        show_default=False,
    ),
    on: list[str] = typer.Option(
        ..., "--on", metavar="COLUMN", help="What both have: report_number, case_id, …; several separated by commas."
    ),
    out: Path = typer.Option(..., "--out", help="The labelled corpus to write, a .parquet file."),
    days: int = typer.Option(
        None, "--days", min=0, help="Take of several rows the nearest in date, at most so many days from the report."
    ),
    key_file: Path | None = typer.Option(
        None,
        "--key-file",
        help="The secret from which the import of messages made case ids: with it, --on patient takes record numbers.",
    ),
    authority: list[str] = typer.Option(
        [],
        "--authority",
        metavar="NAME",
        help="Who gave these numbers, as messages say (PID-3); else the table's column authority, or the senders.",
    ),
    told: "TableMapping | None" = None,
    database: str | None = DATABASE_OPTION,
    keep_unknown_codes: bool = KEEP_OPTION,
    tasks: str = typer.Option(None, "--tasks", help="Label columns, separated by commas; else the usual ones."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Give reports the codes that another table has for the same report, case, or patient and day.

    Codes are put into one form and checked as by 'corpus import'. A report for which the table has several different
    answers is left without labels and counted, as are reports and rows that match nothing.
    """
    from pathveil.corpus.labels import label_corpus
    from pathveil.corpus.messages.patient import read_key

    with ended_like_ctrl_c(), bar() as progress:
        result = label_corpus(
            reports,
            labels,
            on=names_from(",".join(on), option="--on") or (),
            out=out,
            days=days,
            mapping=told,
            keep_unknown_codes=keep_unknown_codes,
            tasks=names_from(tasks),
            database=address_of(labels, database),
            key=read_key(key_file) if key_file else None,
            authorities=authority,
            progress=progress,
        )
    emit(result, as_json=as_json)


CLASSES = ("sites", "subsites", "histologies", "lateralities", "behaviors")


@app.command(short_help="Make invented reports of several registries, with labels.")
def synth(
    reports: int = typer.Option(..., "--reports", min=1, help="How many reports to make."),
    out: Path = typer.Option(..., "--out", help="The corpus to write, a .parquet file."),
    truth: Path | None = typer.Option(
        None, "--truth", help="Also write where personal information was planted: report, kind, start, end, text."
    ),
    registries: int = typer.Option(7, "--registries", min=1, max=60, help="How many registries, each its own style."),
    seed: int = typer.Option(0, "--seed", min=0, help="The same seed makes the same corpus on every machine."),
    classes: str = typer.Option(
        "",
        "--classes",
        help="How many classes, as in sites=12,subsites=40,histologies=60 (also lateralities, behaviors). "
        "The most common are kept. Default: 70 sites, 326 subsites, 639 histologies, 7 lateralities, 4 behaviors.",
    ),
    rarity: float = typer.Option(
        1.0, "--rarity", min=0, max=3, help="0: all classes equally common; 1: as in a population; 2: rarer tails."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make a corpus of invented pathology reports from several registries, with labels that agree with each other.

    No patient stands behind any of them. Names, numbers, dates and addresses in the text are invented too, and their
    places are written to the truth file, so that one can measure how many of them a vocabulary or a model keeps.
    """
    with bar() as progress:
        corpus = api.synth(
            reports,
            registries=registries,
            seed=seed,
            out=out,
            truth=truth,
            progress=progress,
            rarity=rarity,
            **class_counts(classes),
        )
    assert corpus.made is not None
    emit(corpus.made, as_json=as_json)


def class_counts(text: str) -> dict[str, int]:
    """``sites=12,subsites=40`` taken apart."""
    counts = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name.strip() not in CLASSES or not value.strip().isdigit() or int(value) < 1:
            raise UsageError(f"--classes: expected name=number with a name of {', '.join(CLASSES)}; got '{part}'")
        counts[name.strip()] = int(value)
    return counts


@app.command("check", short_help="Judge a corpus: what is in it, and what to mend first.")
@reads_tables("sources")
def check_corpus(
    context: typer.Context,
    sources: list[Path] = typer.Argument(
        ..., metavar="CORPUS", help="A corpus: one file, several, or a folder of them (Parquet, CSV, JSONL)."
    ),
    tasks: str = typer.Option(
        None, "--tasks", help="Task columns, separated by commas; else the usual ones there are."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Judge a corpus: what is in it, how rare its classes are, what registries share, and what to mend first.

    A corpus that breaks the schema is refused with the columns, counts and report ids at fault. Nothing printed holds
    report text.
    """
    from rich.console import Console

    from pathveil.corpus import scan
    from pathveil.corpus.check import check
    from pathveil.corpus.check_page import page

    chosen, given = names_from(tasks), context.params["sources"]  # before a mapping made a corpus of them
    with bar() as progress:
        result = check(scan(sources, tasks=chosen), tasks=chosen, source=given, progress=progress)
    if as_json:
        emit(result, as_json=True)
    else:
        Console().print(page(result, title=", ".join(path.name for path in given)))


@app.command("split", short_help="Divide a corpus into train, validation and test, by case.")
@reads_tables("sources")
def split(
    sources: list[Path] = typer.Argument(..., metavar="CORPUS", help="A corpus: one file, several, or a folder."),
    out: Path = typer.Option(..., "--out", help="Folder for train, validation and test (.parquet) and split.json."),
    test: float = typer.Option(None, "--test", help="Share of the cases to test on. [default: 0.2]"),
    validation: float = typer.Option(0.2, "--validation", help="Share of the remaining cases to validate on."),
    test_from: str = typer.Option(
        None, "--test-from", metavar="DATE", help="Test instead on the cases with a report on or after a day (or year)."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="The same seed divides the same cases alike."),
    relevant_to: list[str] = typer.Option(
        None,
        "--relevant-to",
        metavar="COLUMN",
        help="Keep only reports near this reference date of their case (diagnosis, surgery); repeat for either of two.",
    ),
    days: int = typer.Option(10, "--days", help="How near, with --relevant-to."),
    tasks: str = typer.Option(
        None, "--tasks", help="Task columns to balance, separated by commas; else the usual ones."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Divide a corpus into train, validation and test, never one case in two parts.

    By case, or by date as a model meets reports in production; stratified by registry and rarest label as far as cases
    allow. All of a case's reports go where its last one belongs.
    """
    from pathveil.corpus.split import split_corpus

    with ended_like_ctrl_c(), bar() as progress:
        result = split_corpus(
            sources,
            out=out,
            seed=seed,
            test=test,
            validation=validation,
            test_from=test_from,
            relevant_to=relevant_to or (),
            days=days,
            tasks=names_from(tasks),
            progress=progress,
        )
    emit(result, as_json=as_json)
