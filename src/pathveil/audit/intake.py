"""A bundle and corpora to a subject: encoded documents, sides, the model's answers.

Members, non-members and the attacker's corpus may share reports (the paper's attacker owns the non-members); each
report is taken once, by its id. Labels the model has no class for count as missing. The cases a lone network held out
to stop by were never learned: where the members' file is the very corpus the bundle was trained on, they are found
again from the seed and left out of the members.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pathveil.audit.subject import Subject
from pathveil.bundle import Model
from pathveil.corpus import scan
from pathveil.errors import UsageError
from pathveil.progress import Progress, silent
from pathveil.training.batches import hold_out_cases
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import MISSING, Encoded
from pathveil.vocabulary.encoding import encode


def read_subject(
    bundle: Model,
    *,
    members: Path,
    non_members: Path,
    attacker: Path | None = None,
    networks: int = 1,
    device: str = "cpu",
    progress: Progress = silent,
) -> tuple[Subject, list[str], dict[str, str], list[str]]:
    """The subject, its documents' report ids, the corpora's hashes, and notes on what was left out."""
    paths = [members, non_members, *([attacker] if attacker else [])]
    words = bundle.clip
    parts = [
        encode(path, bundle.vocabulary, tasks=bundle.tasks, classes=bundle.labels, words=words, progress=progress)
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
    notes = []
    settings = TrainingSettings(**bundle.provenance["settings"])
    held = held_out(bundle, parts[0], settings)
    if len(held):
        notes.append(
            f"{len(held)} reports of the training corpus were held out to stop training by and never learned; they are "
            "left out of the members."
        )
        rows[0] = np.delete(rows[0], held)
    if settings.members > networks or settings.linear:
        ours = f"{settings.members} networks" + (" and a linear view" if settings.linear else "")
        theirs = f"{networks} networks" if networks > 1 else "one network"
        notes.append(
            f"The model averages {ours}, a shadow {theirs} of the same settings: attacks that compare with shadows may "
            "be weaker than with shadows of exactly the model's kind."
        )
    owned = rows[2] if attacker else rows[1][~np.isin(corpus.registries[rows[1]], corpus.registries[rows[0]])]
    if attacker is None and len(owned):
        notes.append("No corpus of the attacker's was given: they own the non-members of other registries.")
    said = bundle.ensemble(device).log_probabilities(corpus.ids, corpus.offsets, progress=progress)
    epochs = bundle.provenance.get("best_epochs") or []
    subject = Subject(
        corpus=corpus,
        members=rows[0],
        non_members=rows[1],
        attacker=owned,
        logits=said,
        settings=settings.changed(members=1, linear=False),
        epochs=int(np.median(epochs)) if epochs else None,
    )
    names = ["members", "non-members", "attacker's corpus"]
    hashes = {f"{name} sha256": part.provenance["corpus_sha256"] for name, part in zip(names, parts, strict=False)}
    return subject, list(places), hashes, notes


def held_out(bundle: Model, corpus: Encoded, settings: TrainingSettings) -> np.ndarray:
    """Rows of the training corpus that a lone network held out; none where that cannot be known."""
    same = bundle.provenance.get("corpus_sha256") == corpus.provenance["corpus_sha256"]
    if not same or settings.members > 1 or not settings.validation_share:
        return np.arange(0)
    seed = bundle.provenance["seed"]
    return hold_out_cases(corpus.cases, share=settings.validation_share, seed=[seed, 0], part=0)[1]


def join(parts: list[Encoded], classes: Mapping[str, tuple[str, ...]]) -> Encoded:
    """Corpora end to end, numbered alike, with the model's classes only."""
    known = dict(classes)
    if len({part.vocabulary_size for part in parts}) > 1:
        raise UsageError("corpora that are audited together must be encoded with one vocabulary")
    names = tuple(dict.fromkeys(name for part in parts for name in part.registry_names))
    starts = np.cumsum([0, *(len(part.ids) for part in parts)])
    return Encoded(
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
