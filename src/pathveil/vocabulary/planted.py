"""Find the personal words of a synthetic corpus: planted names, numbers, addresses and details, by its truth file.

A word is *personal* of a kind if planted spans of that kind overlap it and it occurs in no other text; the "street" of
an address and the "Dr" before a name occur elsewhere too and are counted apart. Only the chunks that a span touches are
read character by character.

>>> import tempfile, polars as pl
>>> with tempfile.TemporaryDirectory() as folder:
...     corpus, truth = Path(folder) / "reports.parquet", Path(folder) / "truth.parquet"
...     pl.DataFrame({"report_id": ["a"], "case_id": ["1"], "registry": ["R1"],
...                   "text": ["Seen by May Kowalski in May."]}).write_parquet(corpus)
...     pl.DataFrame({"report_id": ["a"], "kind": ["name"], "start": [8], "end": [20]}).write_parquet(truth)
...     planted = planted_words(corpus, truth)
>>> planted.only, planted.also
({'name': frozenset({'kowalski'})}, {'name': frozenset({'may'})})
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pathveil.corpus.schema import Paths, scan
from pathveil.corpus.tables.files import open_parquet, polars_faults
from pathveil.errors import CorpusError
from pathveil.progress import Progress, silent
from pathveil.text.bulk import BulkTokenizer, Numbers
from pathveil.text.tokenizer import chunks, tokenize_spans

if TYPE_CHECKING:
    import polars as pl

BATCH = 2_000  # reports at a time
EVERY = 1 << 30  # no clipping: a word past the clip is ordinary text all the same


@dataclass(frozen=True)
class PlantedWords:
    """Words of planted spans, by kind."""

    only: Mapping[str, frozenset[str]]  # kind: words that occur in no other text
    also: Mapping[str, frozenset[str]]  # kind: words that occur elsewhere too


Span = tuple[int, int, str]  # start, end, kind


def planted_words(corpus: Paths, truth: Path, *, progress: Progress = silent) -> PlantedWords:
    """Find all words of the corpus that a planted span overlaps."""
    spans = read_truth(truth)
    inside: dict[str, set[str]] = {}
    outside = Numbers()
    tokenizer = BulkTokenizer(outside.__getitem__, words=EVERY)
    frame = scan(corpus).select("report_id", "text").collect(engine="streaming")
    check_truth(truth, frame)
    for start in range(0, frame.height, BATCH):
        rest = []
        for report, text in frame.slice(start, BATCH).iter_rows():
            plain, touched = cut_out_spans(text, spans.get(report, []))
            rest.append(plain)
            for piece, piece_spans in touched:
                sort_tokens(piece, piece_spans, inside, outside)
        tokenizer.add(rest)
        progress("finding planted words", min(start + BATCH, frame.height), frame.height)
    ordinary = set(outside)
    return PlantedWords(
        only={kind: frozenset(words - ordinary) for kind, words in sorted(inside.items())},
        also={kind: frozenset(words & ordinary) for kind, words in sorted(inside.items())},
    )


def check_truth(path: Path, reports: "pl.DataFrame") -> None:
    """Refuse the truth file of another corpus, which would find nobody; one without text cannot be checked."""
    import polars as pl

    truth = open_parquet(path)
    if "text" not in truth.collect_schema():
        return
    wanted = truth.select("report_id", pl.col("start", "end").cast(pl.Int64), pl.col("text").alias("planted")).collect()
    placed = wanted.join(reports, on="report_id")
    there = pl.col("text").str.slice("start", pl.col("end") - pl.col("start"))
    wrong = placed.filter(there != pl.col("planted")).height
    if wrong or (wanted.height and not placed.height):
        what = f"{wrong:,} of {placed.height:,} places hold other text" if wrong else "it names none of these reports"
        raise CorpusError(f"{path}: is the truth of another corpus ({what}); give the one written with these reports")


def cut_out_spans(text: str, spans: list[Span]) -> tuple[str, list[tuple[str, list[Span]]]]:
    """Cut the chunks that spans touch out of a text; return the rest, and each chunk with its spans."""
    if not spans:
        return text, []
    starts, ends = [], []
    for start, end in chunks(text):
        starts.append(start)
        ends.append(end)
    touched: dict[int, list[Span]] = {}
    for start, end, kind in spans:
        first = max(0, bisect_right(starts, start) - 1)
        for chunk in range(first, len(starts)):
            if starts[chunk] >= end:
                break
            if ends[chunk] > start:
                touched.setdefault(chunk, []).append((start - starts[chunk], end - starts[chunk], kind))
    untouched, last = [], 0
    for chunk in sorted(touched):
        untouched += [text[last : starts[chunk]], " "]
        last = ends[chunk]
    return "".join([*untouched, text[last:]]), [(text[starts[c] : ends[c]], inner) for c, inner in touched.items()]


def sort_tokens(piece: str, spans: list[Span], inside: dict[str, set[str]], outside: Numbers) -> None:
    """Add each token of a chunk to the words inside of spans, by kind, or to those outside."""
    for word, start, end in tokenize_spans(piece, words=EVERY, identifiers=False):
        kinds = [kind for begin, stop, kind in spans if begin < end and start < stop]
        for kind in kinds:
            inside.setdefault(kind, set()).add(word)
        if not kinds:
            outside[word]


def read_truth(path: Path) -> dict[str, list[Span]]:
    """Read the planted spans of each report."""
    import polars as pl

    try:
        frame = open_parquet(path).select("report_id", "kind", pl.col("start", "end").cast(pl.Int64)).collect()
    except (OSError, CorpusError, *polars_faults()):
        raise CorpusError(f"{path}: is not a truth file; 'pathveil corpus synth --truth' writes one") from None
    spans: dict[str, list[Span]] = {}
    for report, kind, start, end in frame.iter_rows():
        spans.setdefault(report, []).append((start, end, kind))
    return spans
