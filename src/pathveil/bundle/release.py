"""From a corpus to a bundle: choose or take words, encode, train, judge on held-out cases, set thresholds.

The words come from the training text alone. Scores and thresholds in the bundle come from predictions by networks that
had not seen the case (``training.ensemble``), so they promise no more than new cases will keep.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pathveil import __version__
from pathveil.bundle.folder import Bundle
from pathveil.bundle.weights import architecture_of, to_arrays
from pathveil.corpus.schema import Paths
from pathveil.errors import CorpusError, VocabularyError
from pathveil.progress import Progress, silent
from pathveil.training.calibration import threshold_for
from pathveil.training.ensemble import Trained, train
from pathveil.training.metrics import evaluate
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.encoding import encode
from pathveil.vocabulary.selection import MINIMUM, Measures, count_corpus, select
from pathveil.vocabulary.words import Vocabulary

ACCURACY = 0.97  # what registries ask of codes that no person looks at


def train_bundle(
    paths: Paths,
    settings: TrainingSettings,
    *,
    preset: str,
    vocabulary: Vocabulary | None = None,
    tasks: Iterable[str] | None = None,
    accuracy: float = ACCURACY,
    seed: int = 0,
    device: str = "cpu",
    checkpoint: Path | None = None,
    progress: Progress = silent,
) -> Bundle:
    """Train on a corpus; without a vocabulary, the papers' baseline is chosen from this corpus's own text."""
    vocabulary = vocabulary or baseline_words(paths, progress=progress)
    corpus = encode(paths, vocabulary, tasks=tasks, progress=progress)
    check_labels(corpus)
    trained = train(corpus, settings, seed=seed, device=device, checkpoint=checkpoint, progress=progress)
    return make_bundle(
        trained, corpus, vocabulary, settings=settings, preset=preset, accuracy=accuracy, seed=seed, device=device
    )


def baseline_words(paths: Paths, *, progress: Progress = silent) -> Vocabulary:
    """The vocabulary paper's baseline: words that occur at least 5 times in the corpus."""
    vocabulary = select(Measures(count_corpus(paths, tasks=(), progress=progress)), f"occurrences >= {MINIMUM}")
    if not vocabulary.words:
        raise VocabularyError(f"no word occurs {MINIMUM} times in the corpus; train on more reports, or give --vocab")
    return vocabulary


def check_labels(corpus: Encoded) -> None:
    """A model needs a task, and each task a label."""
    if not corpus.tasks:
        raise CorpusError(
            "the corpus has no task column (site, subsite, laterality, histology, behavior) to learn from"
        )
    for task in corpus.tasks:
        if not corpus.classes[task]:
            raise CorpusError(f"column '{task}': no report has a label; leave the task out with --tasks")


def make_bundle(
    trained: Trained,
    corpus: Encoded,
    vocabulary: Vocabulary,
    *,
    settings: TrainingSettings,
    preset: str,
    accuracy: float = ACCURACY,
    seed: int,
    device: str = "cpu",
) -> Bundle:
    """A trained model with its words, labels, scores on held-out cases and thresholds."""
    scores: dict[str, Any] = {}
    thresholds: dict[str, Mapping[str, float]] = {}
    chosen = trained.model.choose(trained.held_out_log_probabilities)
    for task, log_probabilities in trained.held_out_log_probabilities.items():
        labels = np.asarray(corpus.labels[task])[trained.held_out]
        known = labels >= 0
        if not known.any():
            continue
        predicted = chosen[task]
        found = evaluate(labels, predicted, cases=corpus.cases[trained.held_out], seed=seed)
        scores[task] = {"documents": found.documents} | found.as_dict()
        sure = np.exp(log_probabilities[np.arange(len(labels)), predicted])[known]
        thresholds[task] = threshold_for(sure, (predicted == labels)[known], accuracy=accuracy).as_dict()
    provenance = {
        "pathveil": __version__,
        "corpus_sha256": corpus.provenance["corpus_sha256"],
        "vocabulary_sha256": vocabulary.sha256,
        "reports": corpus.documents,
        "cases": len(np.unique(corpus.cases)),
        "registries": list(corpus.registry_names),
        "preset": preset,
        "settings": settings.model_dump(mode="json"),
        "seed": seed,
        "device": device,
        "best_epochs": trained.best_epochs,
    }
    return Bundle(
        architecture=architecture_of(trained.model),
        labels=corpus.classes,
        text=corpus.provenance["text"],
        vocabulary=vocabulary,
        tensors=to_arrays(trained.model),
        blend=trained.model.blend,
        thresholds=thresholds,
        scores=scores,
        provenance=provenance,
        history=tuple(tuple(member) for member in trained.histories),
    )
