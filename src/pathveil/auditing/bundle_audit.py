"""The audit of a bundle: from its folder and corpora on disk to a verdict, with shadow models.

Members, non-members and the attacker's corpus may share reports (the paper's attacker owns the non-members); each
report is taken once, by its id. Labels the model has no class for count as missing.

An audit is *bound* to its model (``binding``): other members than the training reports are refused, or audited on
demand (``unbound``) without any way to the bundle's card or to a release. The cases a lone network held out to stop by
were never learned: they are found again and left out of the members.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pydantic import BaseModel

from pathveil.auditing import result
from pathveil.auditing.appetite import Appetite, read_appetite
from pathveil.auditing.audited_model import describe_model
from pathveil.auditing.binding import UNBOUND, Binding, Sides, bind, check_before_encoding, seal_of
from pathveil.auditing.gradients import gradient_norms, norm_scores
from pathveil.auditing.model_audit import AuditedModel, attack_model
from pathveil.auditing.own_attacks import OwnAttack
from pathveil.auditing.result import Audit
from pathveil.auditing.settings import AuditSettings
from pathveil.auditing.shadows import Engine, ShadowTrainer, engine_for
from pathveil.bundle import Model
from pathveil.bundle.defence import shadow_settings
from pathveil.corpus import scan
from pathveil.corpus.tables.files import Paths
from pathveil.errors import UsageError
from pathveil.files import check_outside
from pathveil.formatting import counted
from pathveil.progress import Progress, silent
from pathveil.training.defences import DPSettings, OwnDefence, TeacherSettings
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import MISSING, EncodedCorpus
from pathveil.vocabulary.encoding import encode


def audit_bundle(
    bundle: str | Path | Model,
    *,
    members: Paths,
    non_members: Paths,
    attacker: Paths | None = None,
    appetite: Appetite | None = None,
    settings: AuditSettings | None = None,
    attacks: Mapping[str, OwnAttack] | None = None,
    defence: str | Callable[..., Any] | None = None,
    engine: Engine | None = None,
    store: str | Path | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    records_file: str | Path | None = None,
    unbound: bool = False,
    progress: Progress = silent,
) -> Audit:
    """Audit a bundle (its folder, or the loaded model): shadow models, all attacks, both protocols, controls.

    ``attacker``: reports an attacker owns; without it, the non-members of other registries. ``attacks``: one's own, by
    name (see ``own_attacks.AttackInput``). ``defence``: the function of a model that was defended by one of somebody's
    own; shadows are trained with it. ``engine``: where shadows are trained, else in this process. ``store``: a
    folder that keeps their answers, so that nothing is trained twice. ``out``: a folder for audit.json and audit.html;
    ``records_file``: where each record's scores go, if anywhere. ``unbound``: members may be other reports than those
    the model was trained with; such an audit cannot be attached or lead to a release.
    """
    check_outside(store)
    result.check_places(out, records_file, reads=[members, non_members, attacker])
    # A bundle holds weights: the example is read as if these were to leave.
    appetite, settings = appetite or read_appetite(None).changed(release="weights"), settings or AuditSettings()
    model = bundle if isinstance(bundle, Model) else Model.load(Path(bundle))
    given = read_audited_model(
        model,
        members=members,
        non_members=non_members,
        attacker=attacker,
        defence=defence,
        settings=settings,
        unbound=unbound,
        device=device,
        progress=progress,
    )
    fprs = appetite.measured_fprs
    with TemporaryDirectory() as unkept:
        trainer = ShadowTrainer(
            engine or engine_for(device=device),
            Path(store or unkept),
            device=device,
            networks=settings.networks,
            progress=progress,
        )
        found = attack_model(given.model, trainer, settings, fprs=fprs, own_attacks=attacks)
    audit = result.assemble(
        found,
        kind="bundle",
        binding=given.binding,
        model=describe_model(model),
        appetite=appetite,
        own_attacks=attacks,
        settings=settings_in_words(settings, appetite) | {"device": device},
        provenance={
            "model sha256": model.model_sha256,
            "folder sha256": model.folder_sha256,
            **given.hashes,
            "vocabulary sha256": model.vocabulary.sha256,
        },
        notes=[shadow_note(given.model, settings), *given.notes],
    )
    audit = audit.model_copy(update={"seal": seal_of(audit, model)})
    if out is not None:
        result.write_audit(audit, Path(out))
    if records_file is not None:
        names = [given.report_ids[row] for row in given.model.rows]
        result.write_records(found.scores, found.records, names, Path(records_file))
    return audit


def settings_in_words(settings: AuditSettings, appetite: Appetite) -> dict[str, object]:
    """What an audit with shadows was told, as its page names it."""
    return {
        "edges": list(settings.edges),
        "fprs": list(appetite.measured_fprs),
        "seed": settings.seed,
        "shadows": settings.shadows,
        "networks a shadow": settings.networks,
        **({"teachers a shadow": settings.teachers} if settings.teachers else {}),
        "sampling": settings.sampling,
        "attack model": settings.attack_model,
        "attack features": settings.attack_features,
        **({"canaries of each kind": settings.canaries} if settings.canaries else {}),
    }


def shadow_note(model: AuditedModel, settings: AuditSettings) -> str:
    """Who trained which shadow models on what."""
    how = "random halves" if settings.sampling == "split" else "bootstrap samples"
    theirs = (
        f"The attacker's {settings.shadows} shadow models trained on {how} (by case) of {len(model.attacker)} reports "
        "of their own and know no attacked record; they serve the shadow classifiers and the offline attacks. "
        if len(model.attacker)
        else ""
    )
    stopped = "" if model.epochs is None else f", for the {model.epochs} epochs the model's own weights have seen"
    return theirs + (
        f"The auditor's {settings.shadows} shadow models trained on random halves (by case) of the members and "
        f"non-members together{stopped}, so that half of them saw any one record; they serve the online attacks, the "
        "strongest known, which a registry can run against itself and an outsider hardly can. All have the model's "
        f"architecture and settings{defence_in_words(model.settings)}."
    )


def defence_in_words(settings: BaseModel) -> str:
    """That shadows have the model's defence, and which; nothing where it has none."""
    defence = settings.defence if isinstance(settings, TrainingSettings) else None
    if isinstance(defence, TeacherSettings):
        return (
            f", and its defence: each is a student of {defence.teachers} teachers of its own, and is taught a report's "
            f"codes by {defence.unseen} of them that never saw its case"
        )
    if isinstance(defence, OwnDefence):
        return f", and its defence, the function {defence.function}"
    if isinstance(defence, DPSettings):
        return ", and its defence: each case's gradient is clipped as the model's was, with as much noise"
    return ""


@dataclass(frozen=True)
class AuditedBundle:
    """A bundle's model with the documents it is audited with, and where these come from."""

    model: AuditedModel
    report_ids: list[str]  # of the model's documents
    hashes: dict[str, str]  # of the corpora
    notes: list[str]  # on what was left out or chosen
    binding: Binding | None  # how the members belong to the model; none: they may be anything


def read_audited_model(
    bundle: Model,
    *,
    members: Paths,
    non_members: Paths,
    attacker: Paths | None = None,
    defence: str | Callable[..., Any] | None = None,
    settings: AuditSettings | None = None,
    unbound: bool = False,
    device: str = "cpu",
    progress: Progress = silent,
) -> AuditedBundle:
    """Encode the corpora, each report once, and ask the model for its answers."""
    settings = settings or AuditSettings()
    training = shadow_settings(bundle.provenance, defence=defence)
    if not unbound:
        check_before_encoding(bundle, members, non_members)
    paths = [members, non_members, *([attacker] if attacker else [])]
    words = bundle.clip
    parts = [
        encode(
            path,
            bundle.vocabulary,
            tasks=bundle.tasks,
            classes=bundle.labels,
            words=words,
            identifiers=bundle.identifiers,
            progress=progress,
        )
        for path in paths
    ]
    ids = [scan(path).select("report_id").collect(engine="streaming")["report_id"].to_list() for path in paths]
    places: dict[str, int] = {}
    kept: list[np.ndarray] = []
    for names in ids:
        new = [number for number, name in enumerate(names) if name not in places]
        places |= {names[number]: len(places) + place for place, number in enumerate(new)}
        kept.append(np.array(new, np.int64))
    corpus = join([part.take(rows) for part, rows in zip(parts, kept, strict=True)], bundle.labels)
    rows = [np.array([places[name] for name in names], np.int64) for names in ids]
    binding, held = None, np.arange(0)
    try:
        binding, held = bind(bundle, Sides(members, non_members, parts[0], parts[1]), training)
    except UsageError:
        if not unbound:
            raise
    notes = [UNBOUND] if binding is None else []  # how it is bound stands above all notes
    if len(held):
        taught = isinstance(training.defence, TeacherSettings)
        unread = "the student never read them, though its teachers did" if taught else "they were never learned"
        notes.append(
            f"{len(held)} reports of the training corpus were held out to stop training by: {unread}. They are left "
            "out of the members."
        )
        rows[0] = np.delete(rows[0], held)
    if training.members > settings.networks or training.linear:
        notes.append(_unlike_shadows(training, settings.networks))
    if settings.teachers is not None:
        training, fewer = with_fewer_teachers(training, settings.teachers)
        notes.append(fewer)
    owned = rows[2] if attacker else rows[1][~np.isin(corpus.registries[rows[1]], corpus.registries[rows[0]])]
    if attacker is None and len(owned):
        notes.append("No corpus of the attacker's was given: they own the non-members of other registries.")
    epochs = bundle.provenance.get("best_epochs") or []
    model = AuditedModel(
        corpus=corpus,
        members=rows[0],
        non_members=rows[1],
        attacker=owned,
        logits=bundle.ensemble(device).log_probabilities(corpus.ids, corpus.offsets, progress=progress),
        settings=training.changed(members=1, linear=False),
        epochs=int(np.median(epochs)) if epochs else None,
        gradient_norms=_gradient_norms(bundle, corpus),
    )
    names = ["members", "non-members", "attacker's corpus"]
    hashes = {f"{name} sha256": part.provenance["corpus_sha256"] for name, part in zip(names, parts, strict=False)}
    if bundle.provenance.get("corpus_sha256") is None:
        del hashes["members sha256"]  # a private model's promise covers that its corpus has no name
    return AuditedBundle(model, list(places), hashes, notes, binding)


def _gradient_norms(bundle: Model, corpus: EncodedCorpus) -> np.ndarray:
    """How far each document would move the networks' weights, as attacks on weights take it; on the CPU, which is as
    good for this."""
    ids, offsets = np.asarray(corpus.ids), np.asarray(corpus.offsets)
    labels = {task: np.asarray(corpus.labels[task]) for task in bundle.tasks}
    networks = bundle.ensemble("cpu").members
    return norm_scores([gradient_norms(network, ids, offsets, labels) for network in networks])


def _unlike_shadows(settings: TrainingSettings, networks: int) -> str:
    ours = counted(settings.members, "network") + (" and a linear view" if settings.linear else "")
    theirs = f"{networks} networks" if networks > 1 else "one network"
    return (
        f"The model averages {ours}, a shadow {theirs} of the same settings: attacks that compare with shadows may be "
        "weaker than with shadows of exactly the model's kind."
    )


def with_fewer_teachers(settings: TrainingSettings, teachers: int) -> tuple[TrainingSettings, str]:
    """The settings with fewer teachers, of whom about the same share has not seen a case; and what the page says."""
    defence = settings.defence
    if not isinstance(defence, TeacherSettings) or teachers >= defence.teachers:
        had = f"has {defence.teachers}" if isinstance(defence, TeacherSettings) else "has none"
        raise UsageError(f"--teachers {teachers}: shadows may have fewer teachers than the model, which {had}")
    unseen = max(1, round(defence.unseen * teachers / defence.teachers))
    said = (
        f"To save time a shadow has {teachers} teachers, of whom {unseen} did not see a case; the model has "
        f"{defence.teachers} and {defence.unseen}. Attacks that compare with shadows may be weaker than with shadows "
        "of exactly the model's kind."
    )
    return settings.changed(defence=defence.changed(teachers=teachers, unseen=unseen)), said


def join(parts: list[EncodedCorpus], classes: Mapping[str, tuple[str, ...]]) -> EncodedCorpus:
    """Corpora end to end, numbered alike, with the model's classes only."""
    known = dict(classes)
    if len({part.vocabulary_size for part in parts}) > 1:
        raise UsageError("corpora that are audited together must be encoded with one vocabulary")
    names = tuple(dict.fromkeys(name for part in parts for name in part.registry_names))
    starts = np.cumsum([0, *(len(part.ids) for part in parts)])
    return EncodedCorpus(
        ids=np.concatenate([part.ids for part in parts]),
        offsets=np.concatenate([[0], *(part.offsets[1:] + start for part, start in zip(parts, starts, strict=False))]),
        cases=np.concatenate([part.cases for part in parts]),
        registries=np.concatenate(
            [np.array([names.index(name) for name in part.registry_names], np.int32)[part.registries] for part in parts]
        ),
        registry_names=names,
        labels={
            task: np.concatenate([_known(part.labels[task], len(known[task])) for part in parts]) for task in known
        },
        classes=known,
        vocabulary_size=parts[0].vocabulary_size,
    )


def _known(labels: np.ndarray, classes: int) -> np.ndarray:
    return np.where(np.asarray(labels) < classes, labels, MISSING).astype(np.int32)
