"""A registry that joins later: it gets the released shared encoder and trains its private part beside it.

The shared encoder stands still, so its features of the registry's reports are made once; what is learnt is the private
encoder and the registry's own heads, by L_task + γ L_orth (there is no registry to be told from another, so L_adv is
nothing). Where the release has common heads, the registry's own are added to them: it begins with what all others know.
Beside it a plain network learns from the same reports alone. Both keep the epoch that the same validation cases choose,
and are scored on the same unseen cases.

The two encoders with their heads are one plain network of twice the width (``shared_private.merged``): the registry
gets a bundle that ``predict``, ``evaluate`` and ``audit`` take. It holds the private part, so it is the registry's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy.special import log_softmax

from pathveil.bundle import Model
from pathveil.bundle.train import make_model
from pathveil.corpus.split import first_day
from pathveil.disclosure import may_be_told
from pathveil.errors import UsageError
from pathveil.federation import plain
from pathveil.federation.heads import features_of
from pathveil.federation.hub import BestEpoch
from pathveil.federation.release import Release
from pathveil.federation.run import (
    FEWEST_TRAINING_CASES,
    TEST_SHARE,
    cases_of,
    labelled_cases,
    unseen_from,
    unseen_rows,
)
from pathveil.federation.settings import FederationSettings, settings_for
from pathveil.federation.shares import steps_of
from pathveil.federation.site import Site, Turn
from pathveil.files import check_new, new_folder
from pathveil.model import MTCNN
from pathveil.model.shared_private import Private, Shared, merged
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.training.ensemble import Trained, assemble
from pathveil.training.loop import judged, validation_scores
from pathveil.training.metrics import evaluate
from pathveil.training.scores import Interval
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.words import Vocabulary

# What can be set: the rest of the settings is for registries that train together.
SETTINGS = (
    *("dim", "filters", "dropout", "epochs", "keep_from", "batch_size", "validation_share"),
    *("optimiser", "learning_rate", "falling", "orthogonality", "scale", "positions"),
)


class JoinScore(Part):
    """One task's scores on unseen cases, of the network that joined or of the one that learnt alone."""

    registry: str
    mode: Literal["joined", "single"]
    seed: int
    task: str
    documents: int
    cases: int
    micro: Interval
    macro: Interval


class JoinResult(Result):
    """What joining gave beside training alone."""

    shared: str  # sha256 of the shared encoder
    config: dict[str, Any]  # the settings of the private part's training
    epoch: int  # whose parameters were kept, from 1
    scores: tuple[JoinScore, ...]

    def rows(self) -> list[dict[str, Any]]:
        return [
            row.model_dump(exclude={"micro", "macro"}) | {"micro": row.micro.value, "macro": row.macro.value}
            for row in self.scores
        ]

    def summary(self) -> str:
        lines = [f"{'task':12}{'cases':>6}{'joined: micro, macro F1':>26}{'alone: micro, macro F1':>26}"]
        alone = {row.task: row for row in self.scores if row.mode == "single"}
        for row in self.scores:
            if row.mode == "joined":
                shown = [f"{own.micro.value:.3f}, {own.macro.value:.3f}" for own in (row, alone[row.task])]
                lines.append(f"{row.task:12}{row.cases:6}{shown[0]:>26}{shown[1]:>26}")
        return "\n".join(lines)


@dataclass
class Joined:
    """A registry that has joined, its reports and what came of it."""

    site: Site
    shared: Shared
    training: EncodedCorpus
    history: list[dict[str, Any]] = field(default_factory=list)  # an entry an epoch
    kept: int = 0  # the epoch whose parameters it has, from 1
    scores: tuple[JoinScore, ...] = ()  # of joining and of training alone, on unseen cases


def join(
    release: Path,
    corpus: Path,
    *,
    out: Path,
    registry: str | None = None,
    vocabulary: Path | None = None,
    tasks: Sequence[str] | None = None,
    seed: int = 0,
    test_from: str | None = None,
    changes: Mapping[str, Any] | None = None,  # to the settings
    device: str = "cpu",
    progress: Progress = silent,
) -> JoinResult:
    """Join a registry to what a run released: ``out/result.json`` has the scores, ``out/bundle`` its own model.

    ``vocabulary`` is the registry's own list of words, where they were agreed on privately; ``test_from`` a day from
    which on cases are tested on, instead of a share of all.
    """
    from pathveil.vocabulary.encoding import encode, read_days

    check_new(out)
    if test_from is not None:
        first_day(test_from)  # says what is wrong with it
    released = Release.load(find_release(release))
    words = agreed_words(released, vocabulary)
    settings = join_settings(released, changes or {})
    with new_folder(out) as part:
        reports = encode(corpus, words, tasks=tasks, classes=released.classes, progress=progress)
        if test_from is not None:
            reports = replace(reports, days=read_days(corpus))
        if registry is not None:
            reports = only(reports, registry)
        unseen = None if test_from is None else np.concatenate(list(unseen_from(reports, test_from).values()))
        joined = train_beside(
            released, reports, settings=settings, seed=seed, unseen=unseen, device=device, progress=progress
        )
        told = joined.site.settings.model_dump(mode="json", include={*SETTINGS, "windows", "added_heads"})
        result = JoinResult(shared=released.sha256, config=told, epoch=joined.kept, scores=joined.scores)
        bundle_of(joined, words, release=released, seed=seed, device=device).save(part / "bundle")
        result.to_json(part / "result.json")
    return result


def find_release(folder: Path) -> Path:
    """The release that a folder is, or the only one that a run's folder has."""
    inside = sorted((folder / "shared").glob("*/shared.json"))
    if not inside and (folder / "result.json").exists() and not (folder / "shared.json").exists():
        raise UsageError(f"{folder}: has no shared encoder; adversarial and strong training leave one")
    if len(inside) > 1:
        names = ", ".join(str(path.parent) for path in inside)
        raise UsageError(f"{folder}: has several shared encoders; name one of {names}")
    return inside[0].parent if inside else folder


def agreed_words(release: Release, vocabulary: Path | None) -> Vocabulary:
    """The words whose ids the encoder reads: the release's, or the registry's own list of them."""
    words = Vocabulary.load(vocabulary) if vocabulary else release.vocabulary
    if words is None:
        raise UsageError("the words of this release were agreed on privately: give the registry's own with --vocab")
    if words.id_space != release.id_space:
        raise UsageError(
            f"{vocabulary}: its ids stand for other words than the release's; take the list that was agreed on"
        )
    return words


def join_settings(release: Release, changes: Mapping[str, Any]) -> FederationSettings:
    """The settings of a private part's training beside a release."""
    for name in changes:
        if name in FederationSettings.model_fields and name not in SETTINGS:
            raise UsageError(f"'{name}' says nothing to a registry that joins; these do: {', '.join(SETTINGS)}")
    return settings_for("adversarial", {**release.shape, **changes})


def train_beside(
    release: Release,
    reports: EncodedCorpus,
    *,
    settings: FederationSettings,
    seed: int = 0,
    unseen: np.ndarray | None = None,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> Joined:
    """Train a registry's private part beside a released encoder, and a network alone on the same reports. Both are
    scored on the documents ``unseen``, of whole cases, or on those of a share of the cases."""
    reports, name = of_one_registry(reports, release)
    device = torch.device(device)
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
    alone = plain.PlainSite(training, settings=settings, seed=seed, registry=0, name=name, device=device)
    plain.train_alone(alone, progress=progress, stage=f"training {name} alone")
    tests = reports.take(unseen)
    both: tuple[tuple[Literal["joined", "single"], dict[str, np.ndarray]], ...] = (
        ("joined", site.logits(shared, tests)),
        ("single", alone.logits(tests)),
    )
    joined.scores = tuple(score for mode, logits in both for score in scores_of(logits, tests, mode=mode, seed=seed))
    return joined


def of_one_registry(reports: EncodedCorpus, release: Release) -> tuple[EncodedCorpus, str]:
    """The reports of the one registry that joins, which is number 0 here whatever its number in a larger corpus."""
    numbers = np.unique(reports.registries)
    if len(numbers) != 1:
        names = ", ".join(reports.registry_names[number] for number in numbers)
        raise UsageError(f"one registry joins at a time; these reports are of {names}: choose one with --registry")
    if reports.vocabulary_size != release.words:
        raise UsageError(
            f"the reports were read with {reports.vocabulary_size} word ids, the shared encoder has {release.words}; "
            "read them with the release's words"
        )
    name = reports.registry_names[int(numbers[0])]
    return replace(reports, registries=np.zeros(reports.documents, np.int32), registry_names=(name,)), name


def scores_of(
    logits: Mapping[str, np.ndarray], tests: EncodedCorpus, *, mode: Literal["joined", "single"], seed: int
) -> list[JoinScore]:
    """A network's scores, task by task; of tasks with too few cases nothing is told."""
    scores = []
    for task, values in logits.items():
        labels = np.asarray(tests.labels[task])
        cases = cases_of(labels, tests.cases, classes=values.shape[1])[0]
        if may_be_told(cases):
            found = evaluate(labels, values.argmax(1), cases=tests.cases, seed=seed)
            scores.append(
                JoinScore(
                    registry=tests.registry_names[0],
                    mode=mode,
                    seed=seed,
                    task=task,
                    documents=found.documents,
                    cases=cases,
                    micro=found.micro,
                    macro=found.macro,
                )
            )
    return scores


def only(reports: EncodedCorpus, registry: str) -> EncodedCorpus:
    """The reports of one registry."""
    if registry not in reports.registry_names:
        raise UsageError(f"there is no registry '{registry}'; the corpus has {', '.join(reports.registry_names)}")
    return reports.take(np.flatnonzero(reports.registries == reports.registry_names.index(registry)))


def learn(joined: Joined, *, progress: Progress) -> None:
    """Train the private part; the best epoch by the validation cases is kept."""
    site, shared, settings = joined.site, joined.shared, joined.site.settings
    known = torch.from_numpy(features_of(shared.encoder, joined.training)).to(site.device)
    held = known[torch.from_numpy(site.validate).to(site.device)]
    truth = {task: np.asarray(label) for task, label in site.validation_reports.labels.items()}
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
        answers = site.scores(shared, site.validation_reports, features=held)
        entry = {"epoch": epoch + 1, "loss": total / site.documents}
        entry |= validation_scores({task: pairs.cpu().numpy() for task, pairs in judged(answers, truth).items()})
        joined.history.append(entry)
        if best_epoch.improves(entry["validation_loss"], epoch, settings=settings):
            site.keep()
        progress(f"training {site.name} beside the shared encoder", epoch + 1, settings.epochs)
    joined.kept = best_epoch.kept_epoch()
    site.restore()


def bundle_of(joined: Joined, vocabulary: Vocabulary, *, release: Release, seed: int, device: str) -> Model:
    """The registry's own model as a bundle: both encoders as one network, calibrated on its validation cases."""
    site, settings = joined.site, joined.site.settings
    return bundled(
        merged(joined.shared, site.private, dropout=settings.dropout, added_heads=settings.added_heads),
        site.logits(joined.shared, site.validation_reports),
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
    training: EncodedCorpus,
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
