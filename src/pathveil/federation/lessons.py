"""Sites that teach themselves before they train with others: codes from models that never saw a case, for its labels.

A private part never leaves its site, but the model that a site gives away at the end holds it, and it memorises
(docs/distribution.md). With teachers at home (``training.teachers``) neither the shared nor the private part is told a
label. Nothing more travels than without them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from pathveil.federation.settings import FederationSettings
from pathveil.progress import Progress, silent
from pathveil.rng import child
from pathveil.training.defences import TeacherSettings
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus

AT_HOME = 11  # branch of a run's seed


def taught_at_home(
    reports: EncodedCorpus,
    settings: FederationSettings,
    *,
    seed: int,
    registry: int,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    progress: Progress = silent,
) -> EncodedCorpus:
    """One site's reports with lessons in the place of labels, where the settings ask for teachers; else as they are."""
    if not settings.teachers:
        return reports
    from pathveil.training.teachers import teach

    student = TrainingSettings(**settings.shape(), defence=TeacherSettings(teachers=settings.teachers))
    own = child(seed, AT_HOME, registry)
    return teach(reports, student, seed=own, device=str(device), checkpoint=checkpoint, progress=progress)


def each_taught_at_home(
    training: EncodedCorpus,
    sites: Sequence[tuple[int, np.ndarray]],
    settings: FederationSettings,
    *,
    seed: int,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> EncodedCorpus:
    """The documents of several sites, given as numbers and rows, each taught by the models of its own site."""
    if not settings.teachers:
        return training
    labels = {task: np.array(label) for task, label in training.labels.items()}
    for registry, rows in sites:
        own = training.take(rows)
        lessons = taught_at_home(own, settings, seed=seed, registry=registry, device=device, progress=progress)
        for task, label in labels.items():
            label[rows] = lessons.labels[task]
    return replace(training, labels=labels)
