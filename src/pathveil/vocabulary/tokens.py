"""A corpus tokenised once: its distinct words, sorted, and every report as numbers into them.

Everything that reads text in bulk starts here: any vocabulary is a look-up table from these numbers to its own, and
counts, mutual information and exposure are sums over them. The store is a folder of ``.npy`` files mapped into memory,
kept by the hash of the corpus's bytes and the text settings, so a hundred models tokenise once and a changed corpus is
never mistaken for the old one.

It lies beside the corpus (``reports.parquet.pathveil/``) where that folder may be written to, else in the user's cache;
``PATHVEIL_CACHE`` names another place. It holds every word of the corpus: it is as private as the corpus, is created
for its owner's eyes only, and may be deleted at any time.

>>> import tempfile, polars as pl
>>> with tempfile.TemporaryDirectory() as folder:
...     corpus = Path(folder) / "reports.parquet"
...     pl.DataFrame({"report_id": ["a", "b"], "case_id": ["1", "2"], "registry": ["R1", "R2"],
...                   "text": ["Left breast", "breast, left breast"]}).write_parquet(corpus)
...     store = tokens(corpus)
...     store.words, store.ids.tolist(), store.offsets.tolist()
(('breast', 'left'), [1, 0, 0, 1, 0], [0, 2, 5])
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pathveil.corpus import content_sha256, scan, validate
from pathveil.corpus.schema import Paths, files
from pathveil.errors import UsageError
from pathveil.files import new_folder, remove_leftovers, sha256_of_file, sha256_of_json
from pathveil.progress import Progress, silent
from pathveil.text.bulk import Numbers, shared_tokenizer
from pathveil.text.tokenizer import IDENTIFIERS, WORDS, settings
from pathveil.untrusted import Refused, parse_json, read_bytes
from pathveil.untrusted.arrays import check_offsets, check_range, read_array

if TYPE_CHECKING:
    import polars as pl

FORMAT = "pathveil-tokens/3"
ARRAYS = ("ids", "offsets", "cases", "registries")
BATCH = 5_000  # reports in memory at a time, …
HEAVY = 1 << 28  # … but for those whose text has more bytes than these
BLOCK = 1 << 24  # tokens renumbered at a time


@dataclass(frozen=True)
class Tokens:
    """Reports as numbers into ``words``, in the order of the corpus, with their cases and registries."""

    words: tuple[str, ...]  # distinct, sorted
    ids: np.ndarray  # (tokens,) int32 into words
    offsets: np.ndarray  # (documents + 1,) int64
    cases: np.ndarray  # (documents,) int64, a hash of the case_id: the same in every corpus that holds the case
    registries: np.ndarray  # (documents,) int32 into registry_names
    registry_names: tuple[str, ...]
    provenance: Mapping[str, str]  # sha256 of the corpus, text settings

    @property
    def documents(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}


def tokens(paths: Paths, *, words: int = WORDS, identifiers: bool = IDENTIFIERS, progress: Progress = silent) -> Tokens:
    """The token store of a corpus, made if it is not there yet; ``identifiers`` as in ``tokenizer.tokenize``."""
    text = settings(words=words, identifiers=identifiers)
    provenance = {"corpus_sha256": content_sha256(paths), "text": text}
    root = cache_folder(paths)
    remove_leftovers(root, "tokens-*")
    remove_leftovers(root, "ids-*")
    folder = root / f"tokens-{sha256_of_json(provenance)[:24]}"
    store = _load(folder, provenance)
    if store is None:
        try:
            with new_folder(folder, private=True) as part:
                frame = validate(scan(paths), source=paths)
                _build(frame, part, words=words, identifiers=identifiers, provenance=provenance, progress=progress)
        except BaseException:
            with suppress(OSError):  # it holds other stores
                root.rmdir()
            if _load(folder, provenance) is None:  # else another process was first
                raise
        store = _load(folder, provenance)
    if store is None:
        raise UsageError(f"{folder}: the token store cannot be read back; set PATHVEIL_CACHE to another folder")
    return store


BESIDE = ".pathveil"  # what the name of a cache beside a corpus has behind that of the corpus


def users_cache() -> Path:
    """The folder that ``PATHVEIL_CACHE`` names, else the user's own for caches."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("PATHVEIL_CACHE") or Path(home) / "pathveil").expanduser()


def beside(corpus: Path) -> Path:
    """The folder beside a corpus for what is derived from it."""
    return corpus.resolve().with_name(corpus.resolve().name + BESIDE)


def cache_folder(paths: Paths) -> Path:
    """Where what is derived from a corpus is kept; created if need be."""
    first = files(paths)[0] if not isinstance(paths, str | Path) else Path(paths)
    if os.environ.get("PATHVEIL_CACHE"):
        choices = [users_cache()]
    else:
        choices = [beside(first), users_cache()]
        # Root may write anywhere, so the mode decides: a folder marked read-only is left as it is.
        if not choices[0].parent.stat().st_mode & stat.S_IWUSR:
            del choices[0]
    for folder in choices:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise UsageError(f"{choices[-1]}: cannot be written to; set PATHVEIL_CACHE to a folder that can")


def _load(folder: Path, provenance: Mapping[str, str]) -> Tokens | None:
    """Load the store in a folder; none where there is none, or where it is incomplete (then it is removed)."""
    try:
        about = parse_json(read_bytes(folder / "tokens.json"))
        if (about["format"], about["provenance"]) != (FORMAT, dict(provenance)):
            raise Refused("is another store")
        # Pages that a full disk or a power cut left empty look like numbers: only a hash tells.
        if any(sha256_of_file(folder / name) != digest for name, digest in about["files"].items()):
            raise Refused("was damaged")
        arrays = {name: read_array(folder / f"{name}.npy", mapped=True) for name in ARRAYS}
        words = tuple(read_bytes(folder / "words.txt").decode("utf-8", "surrogatepass").split("\n")[:-1])
        store = Tokens(words=words, registry_names=tuple(about["registry_names"]), provenance=provenance, **arrays)
        check_offsets(store.offsets, end=len(store.ids))
        check_range(store.ids, low=0, below=len(words), what="word numbers")
        check_range(store.registries, low=0, below=len(store.registry_names), what="registries")
        if not len(store.cases) == len(store.registries) == store.documents:
            raise Refused("is not whole")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UsageError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return store


def _build(
    frame: "pl.LazyFrame",
    folder: Path,
    *,
    words: int,
    identifiers: bool,
    provenance: Mapping[str, str],
    progress: Progress,
) -> None:
    """Tokenise into ``folder``; only distinct words and one batch of reports are in memory at a time."""
    import polars as pl

    numbers, registries = Numbers(), Numbers()
    total = frame.select(pl.len()).collect(engine="streaming").item()
    used = np.zeros(0, bool)  # words past the clip of every report they stand in are never used
    lengths, cases, codes = [], [], []
    done = 0
    with (
        (folder / "ids.raw").open("wb") as raw,
        shared_tokenizer(numbers.__getitem__, texts=total, words=words, identifiers=identifiers) as add,
    ):
        for batch in _batches(frame):
            ids, offsets = add(batch["text"].to_list())
            raw.write(ids.data)
            used = np.concatenate([used, np.zeros(len(numbers) - len(used), bool)])
            used[ids] = True
            lengths.append(np.diff(offsets))
            cases.append(np.fromiter(map(case_number, batch["case_id"]), np.int64, batch.height))
            codes.append(np.fromiter(map(registries.__getitem__, batch["registry"]), np.int32, batch.height))
            done += batch.height
            progress("tokenising reports", done, total)

    ordered = sorted(word for word, number in numbers.items() if used[number])
    rank = np.empty(len(numbers), np.int32)  # number by first appearance → number in sorted order
    rank[np.fromiter(map(numbers.__getitem__, ordered), np.int64, len(ordered))] = np.arange(len(ordered))
    _renumber(folder / "ids.raw", rank, folder / "ids.npy")
    (folder / "ids.raw").unlink()
    names = sorted(registries)
    place = np.argsort(np.argsort(list(registries))).astype(np.int32)
    arrays = {
        "offsets": np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        "cases": np.concatenate(cases),
        "registries": place[np.concatenate(codes)],
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    text = "".join(word + "\n" for word in ordered)
    (folder / "words.txt").write_text(text, encoding="utf-8", errors="surrogatepass")
    about = {
        "format": FORMAT,
        "provenance": dict(provenance),
        "registry_names": names,
        "files": {path.name: sha256_of_file(path) for path in sorted(folder.iterdir())},
    }
    (folder / "tokens.json").write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _batches(frame: "pl.LazyFrame") -> Iterator["pl.DataFrame"]:
    """Reports a batch at a time, in the corpus's order."""
    chosen = frame.select("text", "case_id", "registry")
    for batch in chosen.collect_batches(chunk_size=BATCH, maintain_order=True, engine="streaming"):
        size = int(batch["text"].str.len_bytes().sum() or 0)
        # One long text may stand in a file once and in its table a thousand times: then fewer are taken at a time.
        yield from batch.iter_slices(max(BATCH * HEAVY // size, 1)) if size > HEAVY else [batch]


def _renumber(raw: Path, rank: np.ndarray, path: Path) -> None:
    """The numbers in a raw file by another numbering, as an array on disk."""
    empty = raw.stat().st_size == 0  # a file of no bytes cannot be mapped
    translate(np.empty(0, np.int32) if empty else np.memmap(raw, np.int32, mode="r"), rank, path)


def translate(numbers: np.ndarray, table: np.ndarray, path: Path) -> None:
    """Write ``table[numbers]`` as an array on disk, a block in memory at a time.

    It is written and not mapped: on a full disk writing to a mapped file ends the process.
    """
    with path.open("wb") as file:
        about = {"descr": "<i4", "fortran_order": False, "shape": numbers.shape}
        np.lib.format.write_array_header_1_0(file, about)
        for start in range(0, len(numbers), BLOCK):
            file.write(table[numbers[start : start + BLOCK]].astype("<i4", copy=False).data)


def case_number(case_id: str) -> int:
    """A number for a case that is the same in every corpus and process: 63 bits of a hash.

    >>> case_number("TCGA-01") == case_number("TCGA-01") != case_number("TCGA-02")
    True
    """
    return int.from_bytes(hashlib.blake2b(case_id.encode(errors="surrogatepass"), digest_size=8).digest(), "big") >> 1
