"""``pathveil corpus …``: make, read, judge and divide corpora."""

from pathlib import Path

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit
from pathveil.errors import UsageError

app = typer.Typer(help="Make, read, judge and divide corpora of reports.", no_args_is_help=True, rich_markup_mode=None)


@app.command("import")
def import_reports(
    sources: list[Path] = typer.Argument(
        ..., metavar="FILE…", help="Tables (Parquet, CSV, JSONL), HL7 files, either gzipped, or folders of them."
    ),
    out: Path = typer.Option(..., "--out", help="The corpus to write, a .parquet file."),
    form: str = typer.Option(
        "auto", "--format", help="auto, parquet, csv, jsonl or hl7; auto goes by name and content."
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
    column: list[str] = typer.Option(
        None, "--column", metavar="NAME=THEIRS", help="Take a column from one of another name, e.g. case_id=TUMOR_ID."
    ),
    strict: bool = typer.Option(False, "--strict", help="Stop at the first HL7 message that cannot be used."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Read reports from tables and HL7 messages into one checked corpus file.

    Messages that cannot be used are skipped, counted and named by their position. Patient fields (PID) make the case id
    and are taken out of the text where it repeats them; they go nowhere else.
    """
    from pathveil.corpus.intake import describe, import_corpus
    from pathveil.corpus.patient import read_key

    columns = dict(pair.partition("=")[::2] for pair in column or [])
    if not all(columns) or not all(columns.values()):
        raise UsageError("--column takes NAME=THEIRS, for example case_id=TUMOR_ID")
    with bar() as progress:
        result = import_corpus(
            sources,
            out=out,
            form=form,
            registry=registry,
            key=read_key(key_file) if key_file else None,
            strict=strict,
            columns=columns,
            progress=progress,
        )
    emit(result, as_json=as_json, text=describe(result))
