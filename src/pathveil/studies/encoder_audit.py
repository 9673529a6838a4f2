"""The whole audit of what a federation gives away: its encoder, under a head that an outsider trains.

The distribution paper asserts that the shared encoder holds nothing of a registry; here everything in ``audit`` is let
loose on it. Half of the run's unseen cases are *public*: nobody trains an encoder on them, and heads are trained on
nothing else. The other half are the non-members, the documents that the encoder learnt from are the members. A shadow
is a whole federation: the same mode with the same settings, all its sites on a random half of members and non-members
together, and a head on the public cases. So attacks that compare with shadows (LiRA, RMIA) see models that did and
did not learn from a report, and nothing but the encoder can make the difference. Encoders of the plain modes
(centralized, averaged, cyclic) are audited the same way, to compare with.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.auditing import result as audit_result
from pathveil.auditing.appetite import Appetite
from pathveil.auditing.model_answers import Logits
from pathveil.auditing.model_audit import AuditedModel, attack_model
from pathveil.auditing.own_attacks import OwnAttack
from pathveil.auditing.result import Audit, check_places
from pathveil.auditing.settings import AuditSettings
from pathveil.auditing.shadows import Job, ShadowTrainer
from pathveil.errors import UsageError, meant
from pathveil.federation.heads import features_of, public_heads
from pathveil.federation.release import Release
from pathveil.federation.run import Mode, encoder_of, learnt, train
from pathveil.federation.settings import FederationSettings
from pathveil.model.mtcnn import Encoder
from pathveil.progress import Progress, silent
from pathveil.studies.distribution import DistributionSettings, DistributionStudy, in_vocabulary
from pathveil.studies.result import read_distribution
from pathveil.training.batches import hold_out_cases
from pathveil.training.workers import Crew
from pathveil.vocabulary.encoded import EncodedCorpus

FEWEST_SHADOWS = 4  # federations: with fewer, too many reports were in all of them or in none
FEWEST = 20  # unseen cases of a registry: a quarter of them trains the null control's sites


@dataclass(frozen=True)
class AuditedArm:
    """One arm of a finished run, with its documents as it saw them."""

    arm: str
    seed: int
    mode: Mode
    config: FederationSettings
    corpus: EncodedCorpus
    members: np.ndarray
    non_members: np.ndarray
    public: EncodedCorpus
    released: Release | None
    corpus_sha256: str

    def encoder(self, training: EncodedCorpus, *, device: str, progress: Progress) -> Encoder:
        """As it was released; of a mode that releases nothing, trained again as it was."""
        if self.released is not None:
            classes = {task: len(names) for task, names in self.corpus.classes.items()}
            return self.released.shared(classes, device=device).encoder
        return train_encoder(
            training, mode=self.mode, config=self.config, seed=self.seed, device=device, progress=progress
        )


def audit_encoder(
    run: Path,
    corpus: Path,
    *,
    out: Path,
    appetite: Appetite,
    crew: Crew,
    arm: str | None = None,
    seed: int | None = None,
    settings: AuditSettings | None = None,
    store: Path,
    attacks: Mapping[str, OwnAttack] | None = None,
    device: str = "cpu",
    progress: Progress = silent,
) -> Audit:
    """Audit the encoder of one arm of a run of ``federate run``; writes audit.json and audit.html."""
    check_places(out)
    settings = settings or AuditSettings()
    if settings.shadows < FEWEST_SHADOWS:
        raise UsageError(
            f"an encoder's audit needs at least {FEWEST_SHADOWS} shadow federations (--models); got {settings.shadows}"
        )
    found, training = arm_of(run, corpus, arm=arm, seed=seed, progress=progress)
    encoder = found.encoder(training, device=device, progress=progress)
    model = AuditedModel(
        corpus=found.corpus,
        members=found.members,
        non_members=found.non_members,
        attacker=np.arange(0),
        logits=under_public_head(encoder, found.corpus, found.public, seed=found.seed, device=device),
        settings=found.config,
    )
    fprs = appetite.measured_fprs
    trainer = ShadowTrainer(
        partial(shadow_encoders, crew=crew, mode=found.mode, public=found.public, device=device),
        store,
        device=device,
        inside=learnt_by_shadow,
        inputs={"mode": found.mode, "sites": digest(found.corpus.registries), "public": digest(found.public.ids)},
        progress=progress,
    )
    settings = settings.changed(seed=found.seed)
    attacked = attack_model(model, trainer, settings, fprs=fprs, own_attacks=attacks)
    audit = audit_result.assemble(
        attacked,
        kind="encoder",
        appetite=appetite,
        own_attacks=attacks,
        settings={
            "mode": found.arm,
            "edges": list(settings.edges),
            "fprs": list(fprs),
            "seed": found.seed,
            "shadows": settings.shadows,
            "public reports": found.public.documents,
            "device": device,
        },
        provenance={
            "corpus sha256": found.corpus_sha256,
            **({"shared sha256": found.released.sha256} if found.released else {}),
        },
        notes=[_note(found, settings.shadows)],
    )
    audit_result.write_audit(audit, out)
    return audit


def arm_of(
    run: Path, corpus: Path, *, arm: str | None, seed: int | None, progress: Progress = silent
) -> tuple[AuditedArm, EncodedCorpus]:
    """An arm of a finished run, and all its training documents."""
    result = read_distribution(run / "result.json")
    told = {name: value for name, value in result.settings.items() if value is not None}
    if "test_from" in told:
        del told["test_share"]  # is there by default and says nothing
    settings = DistributionSettings.model_validate(told)
    if settings.rehearsal:
        raise UsageError(f"{run}: is a rehearsal, which gives nothing away; audit a run without --rehearse")
    arms = [name for name in (*settings.modes, *settings.arms) if settings.mode(name) != "single"]
    if not arms:
        raise UsageError(f"{run}: has trained every registry alone; there is no common encoder to audit")
    arm = _chosen(arm, arms, option="--mode", run=run)
    seed = _chosen(seed, list(settings.seeds), option="--seed", run=run)
    study = DistributionStudy(corpus, settings, out=run, progress=progress)
    if study.store.provenance["corpus_sha256"] != result.provenance.corpus_sha256:
        raise UsageError(f"{corpus}: is not the corpus of {run}, whose members and unseen cases are to be told apart")
    unseen = settings.unseen(study.corpus, seed=seed)
    table, size = study.words
    encoded, _ = in_vocabulary(
        study.corpus, unseen, table=table, size=size, order=study.order, minimum=settings.minimum
    )
    known = np.setdiff1d(np.arange(encoded.documents), np.concatenate(list(unseen.values())))
    others, public = attacked_and_public(encoded, unseen, seed=seed)
    config, training = settings.config(arm), encoded.take(known)
    folder = run / "shared" / f"{arm}-{seed}"
    found = AuditedArm(
        arm=arm,
        seed=seed,
        mode=settings.mode(arm),
        config=config,
        corpus=encoded,
        members=known[learnt(training, settings=config, seed=seed)],
        non_members=others,
        public=encoded.take(public),
        released=Release.load(folder) if folder.exists() else None,
        corpus_sha256=result.provenance.corpus_sha256,
    )
    return found, training


def _chosen(wanted: Any, known: Sequence[Any], *, option: str, run: Path) -> Any:
    """What was asked for, or the only one there is."""
    listed = ", ".join(map(str, known))
    if wanted is None and len(known) > 1:
        raise UsageError(f"{run}: has several; choose one with {option}: {listed}")
    if wanted is not None and wanted not in known:
        raise UsageError(
            f"{option}: '{wanted}' is not in {run}, which has {listed}{meant(str(wanted), map(str, known))}"
        )
    return known[0] if wanted is None else wanted


def attacked_and_public(
    corpus: EncodedCorpus, unseen: Mapping[int, np.ndarray], *, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Every registry's unseen documents, by case: the half that is attacked, and the half that is public."""
    attacked, public = [], []
    for number, rows in unseen.items():
        cases = len(np.unique(corpus.cases[rows]))
        if cases < FEWEST:
            name = corpus.registry_names[number]
            raise UsageError(f"registry {name} has {cases} unseen cases; an encoder's audit needs at least {FEWEST}")
        first, second = hold_out_cases(corpus.cases[rows], share=0.5, seed=[seed, number, 6])
        attacked.append(rows[first])
        public.append(rows[second])
    return np.sort(np.concatenate(attacked)), np.sort(np.concatenate(public))


def train_encoder(
    training: EncodedCorpus,
    *,
    mode: Mode,
    config: FederationSettings,
    seed: int,
    device: str,
    progress: Progress = silent,
) -> Encoder:
    """The encoder that a mode makes of training documents."""
    encoder = encoder_of(train(training, mode=mode, settings=config, seed=seed, device=device, progress=progress)[2])
    if encoder is None:
        raise ValueError(f"mode {mode} has no common encoder")
    return encoder


def under_public_head(
    encoder: Encoder, corpus: EncodedCorpus, public: EncodedCorpus, *, seed: int, device: str
) -> Logits:
    """What heads that were trained on public documents say of every document, {task: (documents, classes)}."""
    known, asked = features_of(encoder, public), features_of(encoder, corpus)
    (answers,) = public_heads(known, public, [asked], seed=seed, device=device)
    return answers


def shadow_encoders(
    corpus: EncodedCorpus,
    jobs: Sequence[Job],
    config: FederationSettings,
    progress: Progress,
    stage: str,
    *,
    crew: Crew,
    mode: Mode,
    public: EncodedCorpus,
    device: str,
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """An engine for ``auditing.shadows``: each job is a federation of its own."""
    shared = crew.share(corpus)
    for job in jobs:
        crew.submit(shadow_encoder, shared, job, config, mode, public, device)
    yield from crew.results()


def shadow_encoder(
    corpus: EncodedCorpus, job: Job, config: FederationSettings, mode: Mode, public: EncodedCorpus, device: str
) -> tuple[int, dict[str, np.ndarray]]:
    """One shadow: its encoder, from its documents; its heads, from the public ones; what it says of all documents."""
    encoder = train_encoder(sites_of(corpus, job), mode=mode, config=config, seed=job.seed, device=device)
    answers = under_public_head(encoder, corpus, public, seed=job.seed, device=device)
    return job.number, {task: values.astype(np.float16) for task, values in answers.items()}


def sites_of(corpus: EncodedCorpus, job: Job) -> EncodedCorpus:
    """A job's documents, their registries numbered from 0: a small job may lack one."""
    taken = corpus.take(job.rows)
    there, numbers = np.unique(taken.registries, return_inverse=True)
    names = tuple(corpus.registry_names[number] for number in there)
    return replace(taken, registries=numbers.astype(np.int32), registry_names=names)


def learnt_by_shadow(corpus: EncodedCorpus, job: Job, config: FederationSettings) -> np.ndarray:  # (documents,) bool
    """The documents that a shadow's gradients came from."""
    found = np.zeros(corpus.documents, bool)
    found[job.rows[learnt(sites_of(corpus, job), settings=config, seed=job.seed)]] = True
    return found


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def _note(found: AuditedArm, models: int) -> str:
    given = "is the one that was released" if found.released else "was trained again as in the run"
    return (
        f"What is audited is the encoder of {found.arm} training, which {given}, under heads trained on "
        f"{found.public.documents} public reports that are neither members nor non-members. The {models} shadow models "
        "are whole federations, trained by the same mode with the same settings on random halves (by case) of members "
        "and non-members together, under heads trained on the same public reports: half of them learnt from any one "
        "report. The registries' own models, which never leave them, are not audited here."
    )
