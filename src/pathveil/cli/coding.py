"""``pathveil evaluate``, ``predict`` and ``drift``: a bundle at work."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pathveil import api
from pathveil.cli.console import (
    DEVICE,
    JSON_OPTION,
    SIGNATURE_OPTION,
    WORDS_KEY_OPTION,
    bar,
    emit,
    ended_like_ctrl_c,
    names_from,
)
from pathveil.cli.tables import mapping_from, tells_of_tables
from pathveil.errors import UsageError
from pathveil.files import write_text
from pathveil.training.device import choose_device
from pathveil.untrusted import printable

if TYPE_CHECKING:
    from pathveil.corpus.mapping import TableMapping

STANDARD_OUTPUT = Path("-")
MOST_SKIPPED_OPTION = typer.Option(
    0.1,
    "--most-skipped",
    metavar="SHARE",
    help="Refuse a table of which a larger share of rows cannot be used; up to it they are skipped, counted and named.",
)
STRICT_OPTION = typer.Option(False, "--strict", help="Refuse instead of skipping: any row, or message.")


@tells_of_tables()
def evaluate(
    bundle: Path = typer.Argument(..., metavar="BUNDLE", help="A model folder written by 'pathveil train'."),
    corpus: Path = typer.Argument(..., metavar="CORPUS", help="Labelled reports the model was not trained on."),
    tasks: str | None = typer.Option(None, "--tasks", help="Tasks to score, with commas; else all that both have."),
    page: Path | None = typer.Option(
        None,
        "--page",
        help="Write a page with figures: by code, registry and year, what is taken for what, calibration, coverage.",
    ),
    registry: str | None = typer.Option(
        None, "--registry", help="The registry of CORPUS, where it has no such column (with a table that is no corpus)."
    ),
    told: "TableMapping | None" = None,
    resamples: int = typer.Option(1000, "--resamples", min=10, help="Bootstrap resamples behind each interval."),
    seed: int = typer.Option(0, "--seed", min=0, help="Of the resampling."),
    most_skipped: float = MOST_SKIPPED_OPTION,
    strict: bool = STRICT_OPTION,
    require_signature: Path | None = SIGNATURE_OPTION,
    words_key: Path | None = WORDS_KEY_OPTION,
    device: str = DEVICE,
    as_json: bool = JSON_OPTION,
) -> None:
    """Score a model: micro and macro F1 and accuracy a task, with 95 % intervals that resample whole cases.

    Labels the model never saw count as errors; reports without a label are left out of that task. --json and --page add
    details by code, registry and year, of ten cases or more each.
    """
    check_page(page, sources=[corpus])
    most_skipped = 0.0 if strict else most_skipped
    with bar() as progress:
        reports = corpus
        if registry is not None or (told is not None and not told.is_empty):
            reports = api.read(corpus, registry=registry, mapping=told, most_skipped=most_skipped)
        result = api.evaluate(
            api.load(bundle, require_signature=require_signature, words_key=words_key),
            reports,
            tasks=names_from(tasks),
            resamples=resamples,
            seed=seed,
            most_skipped=most_skipped,
            device=device,
            progress=progress,
        )
    tell_passed_over(corpus)
    if result.warning and as_json:  # else the summary says it
        typer.echo(f"pathveil: {result.warning}", err=True)
    if page is not None:
        write_text(page, result.page())
    emit(result, as_json=as_json)


@tells_of_tables()
def predict(
    bundle: Path = typer.Argument(..., metavar="BUNDLE", help="A model folder written by 'pathveil train'."),
    source: Path | None = typer.Argument(
        None,
        metavar="INPUT",
        help="Reports: a table with a column 'text' (or --map, --column), HL7 or FHIR, or a folder of them.",
        show_default=False,
    ),
    out: Path | None = typer.Option(
        None, "--out", help="The file to write: .csv, .jsonl or .xml (NAACCR XML); - for the standard output, as JSONL."
    ),
    text: str | None = typer.Option(
        None,
        "--text",
        help="Code this one text instead of INPUT and show the answer; - reads it from the standard input, which keeps "
        "it out of the shell's history.",
    ),
    input_format: str = typer.Option(
        "auto",
        "--format",
        help="Of INPUT: auto, parquet, csv, jsonl, json, excel, sqlite, hl7, fhir or text (a report a file).",
    ),
    told: "TableMapping | None" = None,
    output_format: str | None = typer.Option(
        None, "--to", help="Of the output: csv, jsonl or naaccr-xml; else as its name says."
    ),
    by_case: bool = typer.Option(
        False,
        "--by-case",
        help="One answer for each tumour of a case, from all its reports, instead of one a report (always in NAACCR "
        "XML). Reports that are sure of different tumours by the multiple-primary rules are kept apart.",
    ),
    one_tumor: bool = typer.Option(
        False, "--one-tumor", help="With --by-case: a case is one tumour, whatever its reports say."
    ),
    joint: str | None = typer.Option(
        None,
        "--joint",
        metavar="RULES",
        help="Where codes of a report contradict each other, take the most probable combination that keeps these "
        "rules: subsite (lies in its site), histology (SEER lists it for the place), laterality (only of paired "
        "places), with commas; 'usual' is subsite,histology.",
    ),
    explain: int = typer.Option(
        0,
        "--explain",
        min=0,
        help="Add to each code this many places (start, end, weight) in the report that speak for or against; JSONL.",
    ),
    with_text: bool = typer.Option(
        False,
        "--with-text",
        help="Write each report's text beside its codes (JSONL): of HL7 that is the text, put together from the "
        "message, in which the places of --explain lie. The file then holds what reports hold.",
    ),
    most_skipped: float = MOST_SKIPPED_OPTION,
    strict: bool = STRICT_OPTION,
    key_file: Path | None = typer.Option(
        None, "--key-file", help="The secret from which case ids of HL7 patients are made, as in 'corpus import'."
    ),
    require_signature: Path | None = SIGNATURE_OPTION,
    words_key: Path | None = WORDS_KEY_OPTION,
    device: str = DEVICE,
    as_json: bool = JSON_OPTION,
) -> None:
    """Code reports: for each task a code with its term and probability, the next probable codes, and whether the model
    abstains and a person should decide. Codes of a report that contradict each other are flagged.

    Reports are streamed, so any number of them fits. Report text is read and not written, unless --with-text asks.
    """
    from pathveil.bundle.incoming import made_plain
    from pathveil.corpus.messages.patient import read_key
    from pathveil.corpus.tables.text_files import text_from

    if (source is None) == (text is None):
        raise UsageError("give INPUT, a file or folder of reports, or --text with one text")
    if source is not None and out is None:
        raise UsageError("give --out FILE, .csv, .jsonl or .xml, or --out - for the standard output")
    if text is not None and out not in (None, STANDARD_OUTPUT):
        raise UsageError("the answer to --text is shown, with --json as JSON; --out is for INPUT")
    of_files: dict[str, object] = {"--to": output_format, "--by-case": by_case, "--one-tumor": one_tumor}
    of_files |= {"--with-text": with_text, "--format": input_format != "auto", "--strict": strict}
    of_files |= {"--key-file": key_file, "a mapping (--map, --column, …)": told is not None and not told.is_empty}
    if text is not None and (given := [name for name, value in of_files.items() if value]):
        raise UsageError(f"{given[0]} is for INPUT; the answer to --text is shown, with --json as JSON")
    if text is None and as_json and out == STANDARD_OUTPUT:
        raise UsageError("--out - writes the codes to the standard output, where --json would put the summary too")
    model = api.load(bundle, require_signature=require_signature, words_key=words_key)
    if text is not None:
        report = text_from(sys.stdin.buffer.read()) if text == "-" else text
        shown = not as_json and out is None
        report = made_plain(report) if shown else report  # with the words behind codes: as the places say
        if not report.strip():
            raise UsageError("--text: is empty; expected the text of a report, or - and the text on the standard input")
        answer = model.answer(report, explain=explain, joint=joint)
        emit(answer, as_json=not shown, text=answer.shown_in(report))
        return
    assert source is not None and out is not None
    with quiet_end_of_pipe(), ended_like_ctrl_c(), bar() as progress:
        result = model.predict_to_file(
            source,
            sys.stdout if out == STANDARD_OUTPUT else out,
            input_format=input_format,
            mapping=told,
            output_format=output_format,
            by_case=by_case,
            one_tumor=one_tumor,
            explain=explain,
            with_text=with_text,
            most_skipped=most_skipped,
            strict=strict,
            key=read_key(key_file) if key_file else None,
            joint=joint,
            device=device,
            progress=progress,
        )
    if out == STANDARD_OUTPUT:
        typer.echo(printable(str(result)), err=True)
    else:
        emit(result, as_json=as_json)


@tells_of_tables()
def drift(
    bundle: Path = typer.Argument(..., metavar="BUNDLE", help="A model folder written by 'pathveil train'."),
    source: Path = typer.Argument(
        ...,
        metavar="INPUT",
        help="New reports, with labels or without: a table with a column 'text' (or --map, --column), HL7, FHIR, or a "
        "folder of them.",
    ),
    reference: Path | None = typer.Option(
        None,
        "--reference",
        metavar="INPUT",
        help="Hold them against these reports, such as last year's, instead of what the bundle says of its training.",
    ),
    page: Path | None = typer.Option(None, "--page", help="Write a page with figures."),
    told: "TableMapping | None" = None,
    reference_map: Path | None = typer.Option(
        None, "--reference-map", help="The mapping of --reference's tables, where they are no corpus."
    ),
    most_skipped: float = MOST_SKIPPED_OPTION,
    strict: bool = STRICT_OPTION,
    require_signature: Path | None = SIGNATURE_OPTION,
    words_key: Path | None = WORDS_KEY_OPTION,
    device: str = DEVICE,
    as_json: bool = JSON_OPTION,
) -> None:
    """Tell whether new reports still look like those a model was trained on: words it does not know, what it leaves to
    people, the mix of codes. What differs by more than chance, and by enough to matter, is named.

    No word of a report is told, and nothing of fewer than ten cases.
    """
    if reference_map is not None and reference is None:
        raise UsageError("--reference-map says how the tables of --reference are written; give both")
    check_page(page, sources=[source, *([reference] if reference else [])])
    model = api.load(bundle, require_signature=require_signature, words_key=words_key)
    with bar() as progress:
        result = model.drift(
            source,
            reference=reference,
            mapping=told,
            reference_mapping=mapping_from(reference_map),
            most_skipped=most_skipped,
            strict=strict,
            device=choose_device(device),
            progress=progress,
        )
    tell_passed_over(source, reference)
    if page is not None:
        write_text(page, result.page())
    emit(result, as_json=as_json)


def tell_passed_over(*sources: Path | None) -> None:
    """Name on stderr what lies in a given folder and was not read."""
    from pathveil.corpus.tables.opening import passed_over, sentence_of

    for source in filter(None, sources):
        if others := passed_over(source):
            typer.echo(printable(f"pathveil: {source}: not read: {sentence_of(others)}"), err=True)


def check_page(page: Path | None, *, sources: list[Path]) -> None:
    """Refuse a place where a page may not be written, before the work is done; an earlier page gives way."""
    from pathveil.bundle.outputs import PAGE_MARK
    from pathveil.corpus.tables.opening import check_output

    if page is None:
        return
    check_output(page, sources=sources, renews=[PAGE_MARK])
    if page.suffix.lower() not in (".html", ".htm"):  # under another name, such as .pdf, nothing would open it
        raise UsageError(f"--page {page}: the page is HTML; give a name that ends in .html")


@contextmanager
def quiet_end_of_pipe() -> Generator[None]:
    """Around what writes to the standard output: whoever reads it may stop, as ``head`` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python flushes at its end has a place
        raise typer.Exit() from None
