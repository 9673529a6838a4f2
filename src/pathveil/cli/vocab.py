"""``pathveil vocab …``: which words a model may know."""

import enum
from pathlib import Path
from typing import Any

import typer

from pathveil import api
from pathveil.cli import agree
from pathveil.cli.console import JSON_OPTION, SIGNATURE_OPTION, bar, emit, names_from
from pathveil.cli.tables import MAP_OPTION, corpora_made, reads_tables
from pathveil.errors import UsageError

app = typer.Typer(help="Choose the words a model may know.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(agree.app, name="agree", short_help="Agree on common words without showing the rest.")


class Method(enum.StrEnum):
    baseline = "baseline"
    intersection = "intersection"
    information = "mutual-information"
    lexicon = "lexicon"


class Unit(enum.StrEnum):
    occurrences = "occurrences"
    reports = "reports"
    cases = "cases"


SOURCES = typer.Argument(
    ..., metavar="CORPUS", help="Reports (Parquet, CSV, JSONL), or count files (.npz) of several registries."
)
TASKS = typer.Option(None, "--tasks", help="Tasks whose labels count, separated by commas; else all the corpus has.")
LEAVE_OUT = typer.Option(
    [], "--leave-out", metavar="REGISTRY", help="A registry that is not looked at; may be given again."
)
WITHOUT = typer.Option(
    None, "--without", help="A corpus, such as test.parquet, whose cases are passed over wherever they occur."
)


@app.command("count", short_help="Count words at a registry, for others to choose from.")
@reads_tables("corpus", "without")
def count(
    corpus: list[Path] = typer.Argument(..., metavar="CORPUS", help="One registry's reports, or several'."),
    out: Path = typer.Option(..., "--out", help="The count file to write (.npz)."),
    tasks: str | None = TASKS,
    without: Path = WITHOUT,
    min_cases: int = typer.Option(
        1, "--min-cases", min=1, help="Leave out words that fewer cases of a registry hold: they are shown to no one."
    ),
    keep_identifiers: bool = typer.Option(
        False,
        "--keep-identifiers",
        help="Count dates, times, phones, addresses, numbers and names as they stand; else as tokens that say only "
        "what stood there. Words chosen from the file, and models with them, read text the same way.",
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Count words at a registry, for others to choose from without the reports.

    The file holds every word (see --min-cases), in how many reports and cases it occurs, and with which labels.
    Choosing from the files of several registries gives the same vocabulary as choosing from their reports together.
    """
    from pathveil.vocabulary.corpus_counts import write_counts

    with bar() as progress:
        result = write_counts(
            corpus,
            out,
            tasks=names_from(tasks),
            without=without,
            min_cases=min_cases,
            identifiers=not keep_identifiers,
            progress=progress,
        )
    emit(result, as_json=as_json)


@app.command("select", short_help="Choose words, from training reports or from their counts.")
@reads_tables("sources", "without")
def select(
    sources: list[Path] = SOURCES,
    out: Path = typer.Option(..., "--out", help="The vocabulary file to write (.json)."),
    method: Method = typer.Option(None, "--method", help="How to choose; or say it yourself with --choose."),
    choose: str | None = typer.Option(
        None,
        "--choose",
        help="A sentence, such as 'registries >= 3 and cases >= 5 then top 10000 by mutual-information'. Measures are "
        "occurrences, reports, cases, registries and mutual-information; 'in lexicon', 'and', 'or', 'not' and brackets "
        "do what they say; 'then' goes on with what is left.",
    ),
    min_count: int = typer.Option(
        None, "--min-count", min=1, help="baseline: keep words that occur at least so often (default 5)."
    ),
    unit: Unit = typer.Option(Unit.occurrences, "--unit", help="baseline: what --min-count counts."),
    threshold: int = typer.Option(None, "--threshold", help="intersection: in reports of how many registries."),
    min_cases: int = typer.Option(
        None, "--min-cases", min=1, help="With any method: only words that at least so many cases hold."
    ),
    top: int = typer.Option(None, "--top", min=1, help="mutual-information: how many words to keep."),
    lexicon: Path = typer.Option(
        None, "--lexicon", help="lexicon: a list of terms, one a line, or UMLS's MRCONSO.RRF (may be gzipped)."
    ),
    epsilon: float | None = typer.Option(
        None,
        "--epsilon",
        help="Instead of a method: words that enough cases hold, chosen with noise so that the list is differentially "
        "private for a case, with this epsilon.",
    ),
    delta: float = typer.Option(1e-5, "--delta", help="With --epsilon: the chance with which its promise may fail."),
    tasks: str | None = TASKS,
    leave_out: list[str] = LEAVE_OUT,
    without: Path = WITHOUT,
    as_json: bool = JSON_OPTION,
) -> None:
    """Choose the words a model may know, from training reports or from counts of them.

    baseline keeps words that occur often enough; intersection, words that several registries have; mutual-information,
    the words that say most about a label; lexicon, words of a word list. What was chosen from, and how, is recorded.
    With --epsilon the list itself gives nearly nothing away about any one case (docs/differential-privacy.md).
    """
    from pathveil.vocabulary.selection import SelectionResult, SelectionSettings

    how: dict[str, Any] = {"method": method, "choose": choose, "min_count": min_count, "threshold": threshold}
    how |= {"min_cases": min_cases, "top": top}
    if epsilon is not None and any(option is not None for option in (*how.values(), lexicon)):
        raise UsageError("--epsilon chooses the words by itself; leave --method, --choose and their options away")
    with bar() as progress:
        vocabulary = api.select_words(
            sources,
            SelectionSettings().changed(unit=unit, **how) if epsilon is None else None,
            epsilon=epsilon,
            delta=delta,
            lexicon=lexicon,
            tasks=names_from(tasks),
            leave_out=leave_out,
            without=without,
            out=out,
            progress=progress,
        )
    emit(SelectionResult.of_vocabulary(vocabulary, out), as_json=as_json)


@app.command("folds", short_help="Make the vocabulary paper's vocabularies for every fold.")
@reads_tables("sources", "without")
def folds(
    sources: list[Path] = SOURCES,
    out: Path = typer.Option(..., "--out", help="A folder; one folder a left-out registry is made in it."),
    min_count: int = typer.Option(5, "--min-count", min=1, help="Occurrences a word of the baseline needs."),
    sizes: str | None = typer.Option(
        None,
        "--sizes",
        help="Sizes for mutual information, separated by commas; else the paper's, scaled to the baseline.",
    ),
    tasks: str | None = TASKS,
    without: Path = WITHOUT,
    as_json: bool = JSON_OPTION,
) -> None:
    """Make the vocabulary paper's vocabularies for every fold: each registry left out in turn.

    A fold's vocabularies (B, I2, I3 …, MI at four sizes) are chosen from the other registries alone; give the test
    reports with --without to keep their cases out too.
    """
    from pathveil.files import check_new
    from pathveil.vocabulary.corpus_counts import gather_counts
    from pathveil.vocabulary.folds import folds as make_folds
    from pathveil.vocabulary.folds import save_folds

    wanted = names_from(sizes, option="--sizes") or []
    numbers = [int(size) for size in wanted if size.isdecimal() and int(size)]
    if len(numbers) != len(wanted):
        raise UsageError(f"--sizes '{sizes}': expected whole numbers separated by commas, such as 5000,2000")
    check_new(out)
    with bar() as progress:
        counts = gather_counts(sources, tasks=names_from(tasks), without=without, progress=progress)
        made = make_folds(counts, minimum=min_count, sizes=numbers or None, tasks=names_from(tasks), progress=progress)
    emit(save_folds(made, out), as_json=as_json)


@app.command("exposure")
def exposure(
    paths: list[Path] = typer.Argument(
        ...,
        metavar="VOCAB... CORPUS",
        help="Vocabulary files, or folders of them; last, the reports to hold them against.",
    ),
    map_file: Path | None = MAP_OPTION,
    truth: Path = typer.Option(
        None, "--truth", help="The truth file of a synthetic corpus: counts the planted personal words that survive."
    ),
    bundle: list[Path] = typer.Option(
        [],
        "--bundle",
        metavar="BUNDLE",
        help="A model trained with one of the vocabularies, to show its F1 too; may be given again.",
    ),
    require_signature: Path | None = SIGNATURE_OPTION,
    leave_out: list[str] = LEAVE_OUT,
    out: Path = typer.Option(None, "--out", help="A folder for exposure.html and exposure.svg."),
    show_words: bool = typer.Option(
        False, "--show-words", help="Show the suspected words themselves, here only: they may be people's names."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show how much of a person is left in vocabularies.

    For each: how many cases hold its words (a word of one case points at that case), how many words look like names,
    addresses or record numbers, how much running text it covers and, for a synthetic corpus, how many planted personal
    words it keeps. Words are shown only with --show-words, and never written to --out.
    """
    from pathveil.vocabulary.exposure import measure_exposure
    from pathveil.vocabulary.words import Vocabulary

    *files, reports = paths
    if not files:
        raise UsageError("give at least one vocabulary file before the corpus: pathveil vocab exposure VOCAB... CORPUS")
    if out is not None:
        from pathveil.vocabulary.exposure_page import check_places

        check_places(out)
    named = vocabularies_of(files)
    scores = {}
    for folder in bundle:
        from pathveil.bundle import Model

        loaded = Model.load(folder, require_signature=require_signature)
        scores[loaded.vocabulary.sha256] = {task: score.to_dict() for task, score in loaded.scores.items()}
    vocabularies = {name: Vocabulary.load(path) for name, path in named.items()}
    with corpora_made(map_file) as made, bar() as progress:
        result = measure_exposure(
            vocabularies,
            made(reports),
            truth=truth,
            scores=scores,
            leave_out=leave_out,
            show_words=show_words,
            progress=progress,
        )
    text = result.summary()
    if out:
        from pathveil.vocabulary.exposure_page import write_page

        text += "\n\n" + "\n".join(map(str, write_page(result, out)))
    emit(result, as_json=as_json, text=text)


def vocabularies_of(paths: list[Path]) -> dict[str, Path]:
    """Vocabulary files by a short name: the file's, or with its folder's where two are alike, or as it was given."""
    found = [file for path in paths for file in (sorted(path.glob("*.json"), key=by_size) if path.is_dir() else [path])]
    files = list(dict.fromkeys(found))
    if not files:
        raise UsageError(f"{paths[0]}: the folder holds no vocabulary file (.json)")
    stems = [file.stem for file in files]
    longer = [f"{file.absolute().parent.name}/{file.stem}" for file in files]
    return {
        stem if stems.count(stem) == 1 else name if longer.count(name) == 1 else str(file.with_suffix("")): file
        for file, stem, name in zip(files, stems, longer, strict=True)
    }


def by_size(path: Path) -> tuple[str, int]:
    """B, I2 … I6, then MI from large to small."""
    letters = path.stem.rstrip("0123456789")
    number = int(path.stem[len(letters) :] or 0)
    return letters, -number if letters == "MI" else number
