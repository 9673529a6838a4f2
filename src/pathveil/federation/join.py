"""A registry that joins later: it gets the released shared encoder and trains its private part beside it.

The shared encoder stands still, so its features of the registry's reports are made once; what is learnt is the private
encoder and the registry's own heads, by L_task + γ L_orth (there is no registry to be told from another, so L_adv is
nothing). Where the release has common heads, the registry's own are added to them: it begins with what all others know.
Beside it a plain network learns from the same reports alone. Both keep the epoch that the same validation cases choose,
and are scored on the same unseen cases.

The two encoders with their heads are one plain network of twice the width (``shared_private.merged``): the registry
gets a bundle that ``predict``, ``evaluate`` and ``audit`` take. It holds the private part, so it is the registry's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax

from pathveil.bundle import Model
from pathveil.bundle.train import make_model
from pathveil.disclosure import may_be_told
from pathveil.errors import UsageError
from pathveil.federation import plain
from pathveil.federation.heads import features_of
from pathveil.federation.hub import BestEpoch, steps_of
from pathveil.federation.release import Release
from pathveil.federation.run import FEWEST_TRAINING_CASES, TEST_SHARE, cases_of, labelled_cases, unseen_rows
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import Site, Turn
from pathveil.model import MTCNN
from pathveil.model.shared_private import Private, Shared, merged
from pathveil.progress import Progress, silent
from pathveil.training.ensemble import Trained, assemble
from pathveil.training.loop import validation_scores
from pathveil.training.metrics import evaluate
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import Encoded
from pathveil.vocabulary.words import Vocabulary

# What can be set: the rest of the settings is for registries that train together.
SETTINGS = (
    *("dim", "filters", "dropout", "epochs", "keep_from", "batch_size", "validation_share"),
    *("optimiser", "learning_rate", "falling", "orthogonality", "scale", "positions"),
)


@dataclass
class Joined:
    """A registry that has joined, its reports and what came of it."""

    site: Site
    shared: Shared
    training: Encoded
    history: list[dict[str, Any]] = field(default_factory=list)  # an entry an epoch
    kept: int = 0  # the epoch whose parameters it has, from 1
    scores: list[dict[str, Any]] = field(default_factory=list)  # of joining and of training alone, on unseen cases


def join(
    release: Release,
    reports: Encoded,
    *,
    settings: FederationSettings,
    seed: int = 0,
    unseen: np.ndarray | None = None,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> Joined:
    """Train a registry's private part beside a released encoder, and a network alone on the same reports. Both are
    scored on the documents ``unseen``, of whole cases, or on those of a share of the cases."""
    numbers = np.unique(reports.registries)
    if len(numbers) != 1:
        names = ", ".join(reports.registry_names[number] for number in numbers)
        raise UsageError(f"one registry joins at a time; these reports are of {names}: choose one with --registry")
    if reports.vocabulary_size != release.words:
        raise UsageError(
            f"the reports were read with {reports.vocabulary_size} word ids, the shared encoder has {release.words}; "
            "read them with the release's words"
        )
    name, device = reports.registry_names[int(numbers[0])], torch.device(device)
    # Here it is the only registry, whatever its number in a larger corpus.
    reports = replace(reports, registries=np.zeros(reports.documents, np.int32), registry_names=(name,))
    unseen = unseen_rows(reports, share=TEST_SHARE, seed=seed)[0] if unseen is None else unseen
    known, tested = labelled_cases(reports, unseen)[0]
    if known < FEWEST_TRAINING_CASES or not tested:
        raise UsageError(
            f"registry {name} has {known} cases with labels to train on and {tested} to test on; to join takes at "
            f"least {FEWEST_TRAINING_CASES} and 1"
        )
    training = reports.take(np.setdiff1d(np.arange(reports.documents), unseen))
    # A registry alone has nothing to hide from itself, and common heads do not learn from it.
    settings = settings.model_copy(update={"adversary": 0.0, "common_heads": False, "added_heads": release.heads})
    classes = {task: len(names) for task, names in reports.classes.items()}
    shared = release.shared(classes, device=device)
    private = Private(
        vocabulary_size=reports.vocabulary_size,
        classes=classes,
        dim=settings.dim,
        windows=release.shape["windows"],
        filters=settings.filters,
        shared_width=shared.encoder.width,
        seed=seed,
        sparse=device.type == "cpu" and not settings.positions,
    ).to(device)
    site = Site(training, name=name, registry=0, private=private, settings=settings, seed=seed)
    joined = Joined(site, shared, training)
    learn(joined, progress=progress)
    alone = plain.PlainSite(training, settings=settings, seed=seed, registry=0, device=device)
    plain.train_alone(alone, progress=progress, stage=f"training {name} alone")
    tests = reports.take(unseen)
    for mode, answers in (("joined", site.logits(shared, tests)), ("single", alone.logits(tests))):
        for task, logits in answers.items():
            labels = np.asarray(tests.labels[task])
            cases = cases_of(labels, tests.cases, classes=logits.shape[1])[0]
            if may_be_told(cases):
                found = evaluate(labels, logits.argmax(1), cases=tests.cases, seed=seed)
                row = {"registry": name, "mode": mode, "seed": seed, "task": task}
                row |= {"documents": found.documents, "cases": cases}
                joined.scores.append(row | {"micro": found.micro.as_dict(), "macro": found.macro.as_dict()})
    return joined


def only(reports: Encoded, registry: str) -> Encoded:
    """The reports of one registry."""
    if registry not in reports.registry_names:
        raise UsageError(f"there is no registry '{registry}'; the corpus has {', '.join(reports.registry_names)}")
    return reports.take(np.flatnonzero(reports.registries == reports.registry_names.index(registry)))


def learn(joined: Joined, *, progress: Progress) -> None:
    """Train the private part; the best epoch by the validation cases is kept."""
    site, shared, settings = joined.site, joined.shared, joined.site.settings
    known = torch.from_numpy(features_of(shared.encoder, joined.training)).to(site.device)
    held = known[torch.from_numpy(site.validate).to(site.device)]
    truth = {task: np.asarray(label) for task, label in site.held.labels.items()}
    steps, best_epoch = steps_of([site.documents], settings.batch_size), BestEpoch()
    for epoch in range(settings.epochs):
        total = 0.0
        for step in range(steps):
            turn = Turn(epoch, step, steps, settings.epochs)
            rows = site.rows(turn)
            documents = site.read(rows, turn)
            site.touch(documents.batch)
            loss = site.loss(shared, known[torch.from_numpy(rows).to(site.device)], documents, turn)
            loss.backward()
            site.advance(turn, every=1)
            total += float(loss.detach()) * len(rows)
        answers = site.scores(shared, site.held, features=held)
        entry = {"epoch": epoch + 1, "loss": total / site.documents}
        entry |= validation_scores({task: scores.cpu().numpy() for task, scores in answers.items()}, truth)
        joined.history.append(entry)
        if best_epoch.improves(entry["validation_loss"], epoch, settings=settings):
            site.keep()
        progress(f"training {site.name} beside the shared encoder", epoch + 1, settings.epochs)
    joined.kept = best_epoch.kept()
    site.restore()


def bundle_of(joined: Joined, vocabulary: Vocabulary, *, release: Release, seed: int, device: str) -> Model:
    """The registry's own model as a bundle: both encoders as one network, calibrated on its validation cases."""
    site, settings = joined.site, joined.site.settings
    return bundled(
        merged(joined.shared, site.private, dropout=settings.dropout, added_heads=settings.added_heads),
        site.logits(joined.shared, site.held),
        joined.training,
        held_out=site.validate,
        vocabulary=vocabulary,
        settings=settings,
        histories=[joined.history],
        kept=joined.kept,
        preset=f"joined to the shared encoder {release.sha256[:16]}",
        seed=seed,
        device=device,
    )


def bundled(
    model: MTCNN,
    logits: Mapping[str, np.ndarray],
    training: Encoded,
    *,
    held_out: np.ndarray,
    vocabulary: Vocabulary,
    settings: FederationSettings,
    histories: list[list[dict[str, Any]]],
    kept: int,
    preset: str,
    seed: int,
    device: str,
) -> Model:
    """A site's network as a bundle, calibrated on its validation cases, whose logits are given."""
    model = model.cpu().eval()
    views = {task: [log_softmax(scores, axis=1)] for task, scores in logits.items()}
    ensemble, held = assemble([model], None, views, training, held_out)
    trained = Trained(model=ensemble, histories=histories, best_epochs=[kept], held_out=held)
    described = TrainingSettings(
        dim=model.dim,
        windows=model.windows,
        filters=model.filters,
        dropout=settings.dropout,
        batch_size=settings.batch_size,
        optimiser=settings.optimiser,
        epochs=settings.epochs,
    )
    return make_model(trained, training, vocabulary, settings=described, preset=preset, seed=seed, device=device)
