"""Encode reports with a vocabulary: a corpus by its token store, or texts one after another.

>>> from pathveil.vocabulary.words import Vocabulary
>>> ids, offsets = encode_texts(["Left breast", "zebra"], Vocabulary(words=("breast", "left"), method="by hand"))
>>> ids.tolist(), offsets.tolist()
([3, 2, 1], [0, 2, 3])
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pathveil.corpus import scan, tasks_of
from pathveil.corpus.schema import Paths, with_dates
from pathveil.corpus.split import known_day
from pathveil.files import json_text, new_file, sha256_of_file, sha256_of_json
from pathveil.progress import Progress, silent
from pathveil.text.bulk import BulkTokenizer
from pathveil.text.tokenizer import WORDS
from pathveil.untrusted import Refused, parse_json, read_bytes
from pathveil.untrusted.arrays import read_array
from pathveil.vocabulary.encoded import MISSING, EncodedCorpus
from pathveil.vocabulary.tokens import Tokens, cache_folder, tokens, translate
from pathveil.vocabulary.words import Vocabulary


def encode(
    paths: Paths,
    vocabulary: Vocabulary,
    *,
    tasks: Iterable[str] | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
    words: int = WORDS,
    identifiers: bool | None = None,
    progress: Progress = silent,
) -> EncodedCorpus:
    """Encode a corpus with a vocabulary; reports are tokenised once for all vocabularies.

    ``tasks`` defaults to the usual ones the corpus has. ``classes`` (a trained model's) come first in the numbers of
    labels, labels that the model never saw behind them. Text is tokenised as the vocabulary's was, unless
    ``identifiers`` says whether to mask names and dates.
    """
    hiding = vocabulary.identifiers if identifiers is None else identifiers
    store = tokens(paths, words=words, identifiers=hiding, progress=progress)
    labels, names = read_labels(paths, tasks=tasks, classes=classes)
    return EncodedCorpus(
        ids=word_ids(paths, store, vocabulary),
        offsets=np.array(store.offsets),
        cases=np.array(store.cases),
        registries=np.array(store.registries),
        registry_names=store.registry_names,
        labels=labels,
        classes=names,
        vocabulary_size=vocabulary.size,
        provenance={
            **store.provenance,
            "vocabulary_sha256": vocabulary.sha256,
            "id_space": vocabulary.id_space,  # what sites that train together must have in common
        },
    )


def word_ids(paths: Paths, store: Tokens, vocabulary: Vocabulary) -> np.ndarray:
    """Map a corpus's word ids from the file beside its token store, which is made if it is missing."""
    key = sha256_of_json({**store.provenance, "words": vocabulary.sha256})[:24]
    path = cache_folder(paths) / f"ids-{key}.npy"
    about = path.with_suffix(".json")  # its hash: pages that a full disk or a power cut left empty look like ids
    try:
        ids = read_array(path, mapped=True)
        known = parse_json(read_bytes(about))
        if ids.shape == store.ids.shape and ids.dtype == np.int32 and known == {"sha256": sha256_of_file(path)}:
            return ids
    except (OSError, Refused):  # not there, or not whole
        pass
    with new_file(path, shared=True) as part:
        translate(store.ids, id_table(store, vocabulary), part)
        digest = sha256_of_file(part)
    with new_file(about, shared=True) as part:
        part.write_text(json_text({"sha256": digest}), encoding="utf-8")
    return read_array(path, mapped=True)


def id_table(store: Tokens, vocabulary: Vocabulary) -> np.ndarray:
    """Make the table from a store's word numbers to a vocabulary's ids: (store words,) int32."""
    return np.fromiter((vocabulary.id_of(word) for word in store.words), np.int32, len(store.words))


def read_labels(
    paths: Paths, *, tasks: Iterable[str] | None = None, classes: Mapping[str, Sequence[str]] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, tuple[str, ...]]]:
    """Read the labels of each task as numbers into its classes, −1 if missing: {task: (documents,)}, {task: names}."""
    wanted = None if tasks is None else tuple(tasks)
    frame = scan(paths, tasks=wanted)
    columns = frame.select(tasks_of(frame, wanted)).collect(engine="streaming")
    labels, names = {}, {}
    for column in columns.iter_columns():
        known = tuple((classes or {}).get(column.name, ()))
        names[column.name] = known + tuple(sorted(set(column.drop_nulls()) - set(known)))
        codes = {name: number for number, name in enumerate(names[column.name])}
        labels[column.name] = np.fromiter((codes.get(name, MISSING) for name in column), np.int32, len(column))
    return labels, names


def read_days(paths: Paths) -> np.ndarray:
    """Read the day of each report, as ``corpus.split`` takes it: (documents,) datetime64[D], NaT if unknown."""
    frame = with_dates(scan(paths))
    days = frame.select("report_id", known_day(frame).alias("day")).collect(engine="streaming")["day"]
    return days.to_numpy().astype("datetime64[D]")


def encode_texts(
    texts: Sequence[str], vocabulary: Vocabulary, *, words: int = WORDS, identifiers: bool | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Encode texts: their word ids, (tokens,) int32, and where each text starts, (texts + 1,) int64."""
    return text_encoder(vocabulary, words=words, identifiers=identifiers).add(texts)


def text_encoder(vocabulary: Vocabulary, *, words: int = WORDS, identifiers: bool | None = None) -> BulkTokenizer:
    """Make an encoder for a stream of texts: ``add(texts)`` is `encode_texts` with a memory for words."""
    hiding = vocabulary.identifiers if identifiers is None else identifiers
    return BulkTokenizer(vocabulary.id_of, words=words, identifiers=hiding)
