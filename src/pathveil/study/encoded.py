"""A corpus as studies read it: every report in the token store's own word numbers, once for all vocabularies."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.progress import Progress, silent
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.encoding import read_labels
from pathveil.vocabulary.tokens import Tokens, tokens
from pathveil.vocabulary.words import Vocabulary


def whole(corpus: Path, *, tasks: Iterable[str] | None = None, progress: Progress = silent) -> tuple[Tokens, Encoded]:
    """The token store of a corpus, and its reports in the store's word numbers with their labels."""
    store = tokens(corpus, progress=progress)
    labels, classes = read_labels(corpus, tasks=tasks)
    encoded = Encoded(
        ids=store.ids,
        offsets=np.asarray(store.offsets),
        cases=np.asarray(store.cases),
        registries=np.asarray(store.registries),
        registry_names=store.registry_names,
        labels=labels,
        classes=classes,
        vocabulary_size=len(store.words),
        provenance=store.provenance,
    )
    return store, encoded


def changed(corpus: Encoded, **fields: Any) -> Encoded:
    """The corpus with some fields changed."""
    return Encoded(**{name: fields.get(name, getattr(corpus, name)) for name in Encoded.__dataclass_fields__})


def relabelled(corpus: Encoded, table: np.ndarray, vocabulary: Vocabulary) -> Encoded:
    """A corpus in a store's word numbers, with a vocabulary's ids instead."""
    provenance = {**corpus.provenance, "vocabulary_sha256": vocabulary.sha256}
    return changed(corpus, ids=table[corpus.ids], vocabulary_size=vocabulary.size, provenance=provenance)
