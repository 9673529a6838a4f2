"""An audit is bound to its model: the members are what the model was trained with, the non-members are not.

Other reports would measure something else, or nothing, and look like a pass. Members are known by the hash of the
training corpus that the bundle names; in a part of that corpus, or in another file of the same reports, by the keyed
fingerprints that training left beside the bundle (``bundle.training_cases``). Swapped sides, members that the model
never saw, a chosen few of the training cases, and training cases among the non-members, as they are or with a few
words changed, are refused in a sentence.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pathveil.bundle import Model
from pathveil.bundle.training_cases import TrainingCases, never_learned, read_training_cases
from pathveil.corpus import content_sha256
from pathveil.corpus.tables.files import Paths
from pathveil.errors import UsageError
from pathveil.formatting import counted, percent
from pathveil.results import Part, Result
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus

LEAST_SHARE = 0.5  # of the training cases that members must cover: a chosen few say little about the others
ALIKE = 0.05  # of non-members that may read like a training report: short ones do by chance
COPY = 0.7  # of their word triples that two reports have in common where one is a copy with a word in twenty changed
COPIES = 0.2  # of non-members that may be copies of members, beyond what members are of each other
UNBOUND = (
    "This audit is not bound to its model: the members are not the reports that the bundle says it was trained on. "
    "Whether the model ever saw them is not known, so a pass says nothing, and the audit cannot be attached or lead to "
    "a release."
)


class Binding(Part):
    """How members and model belong together."""

    by: Literal["corpus", "cases"]  # the training file itself, or fingerprints of its reports
    cases: int  # of the training cases, how many are among the members
    of: int

    def __str__(self) -> str:
        if self.by == "corpus":
            return "The members are the training corpus itself, byte by byte."
        if self.cases == self.of:
            return f"The members are the training reports of all {counted(self.of, 'case')}, in another file."
        return (
            f"The members are a part of the training reports: {self.cases:,} of {counted(self.of, 'case')} "
            f"({percent(self.cases / self.of)}), known by their fingerprints."
        )


@dataclass(frozen=True)
class Sides:
    """The corpora of an audit, as paths and encoded with the model's words and labels."""

    members: Paths
    non_members: Paths
    member_reports: EncodedCorpus
    non_member_reports: EncodedCorpus


def seal_of(audit: Result, bundle: Model) -> str:
    """The seal of an audit by the key beside the bundle; empty where there is none. It stops who edits a file, not who
    has the key and writes a program."""
    training = fingerprints_of(bundle)
    if training is None:
        return ""
    return training.seal({name: value for name, value in audit.to_dict().items() if name != "seal"})


def fingerprints_of(bundle: Model) -> TrainingCases | None:
    """The private side of a bundle, where it is there."""
    return read_training_cases(bundle, bundle.folder)


def check_before_encoding(bundle: Model, members: Paths, non_members: Paths) -> None:
    """Refuse at once what file hashes alone show to be wrong."""
    named = bundle.provenance.get("corpus_sha256")
    known = fingerprints_of(bundle) is not None
    if named is not None and named == content_sha256(members):
        return
    if named is not None and named == content_sha256(non_members):
        raise UsageError(swapped(members, non_members))
    if not known:
        raise UsageError(refusal(bundle, members))


def bind(bundle: Model, sides: Sides, settings: TrainingSettings) -> tuple[Binding, np.ndarray]:
    """How the members belong to the model, and the rows among them that it held out and never learned."""
    training = fingerprints_of(bundle)
    check_not_copies(sides)
    if bundle.provenance.get("corpus_sha256") == content_sha256(sides.members):
        cases = len(np.unique(sides.member_reports.cases))
        if training is not None:
            check_non_members(sides, training)
        held = never_learned(sides.member_reports.cases, settings, bundle.provenance)
        return Binding(by="corpus", cases=cases, of=cases), held
    if training is None:
        raise UsageError(refusal(bundle, sides.members))
    there, learned = training.trained_with(sides.member_reports, bundle.labels)
    if there.mean() < 0.5 and training.has_cases_of(sides.non_member_reports).mean() > 0.5:
        raise UsageError(swapped(sides.members, sides.non_members))
    if not there.all():
        strange = int((~there).sum())
        raise UsageError(
            f"--members {sides.members}: {strange:,} of {counted(len(there), 'report')} are not among those that the "
            "model was trained with (words and codes alike); with reports it never saw an audit measures nothing. "
            "Leave them out, or give --unbound for an audit without standing"
        )
    cases, of = training.cases_covered(sides.member_reports)
    if cases < LEAST_SHARE * of:
        raise UsageError(
            f"--members {sides.members}: holds {cases:,} of {counted(of, 'training case')}; at least half of them are "
            "needed, for a chosen few say little about the others"
        )
    check_non_members(sides, training)
    return Binding(by="cases", cases=cases, of=of), np.flatnonzero(~learned)


def check_non_members(sides: Sides, training: TrainingCases) -> None:
    """Refuse training cases, or their reports under other names, among the non-members."""
    seen = training.has_cases_of(sides.non_member_reports)
    if seen.any():
        raise UsageError(
            f"--non-members {sides.non_members}: {int(seen.sum()):,} of {counted(len(seen), 'report')} belong to cases "
            "that the model was trained with; non-members are reports it never saw"
        )
    alike = training.has_texts_of(sides.non_member_reports)
    if alike.mean() > ALIKE:
        raise UsageError(
            f"--non-members {sides.non_members}: {int(alike.sum()):,} of {counted(len(alike), 'report')} read to the "
            "model exactly like reports it was trained with; they are training reports under other names"
        )


def check_not_copies(sides: Sides) -> None:
    """Refuse non-members that are members with a few words changed: nothing could tell the two apart, and that would
    look like a pass. Where members are as much alike among themselves, it is how reports are written there."""
    from pathveil.training.near_duplicates import groups

    members, others = sides.member_reports, sides.non_member_reports
    offsets = np.concatenate([members.offsets, members.offsets[-1] + np.asarray(others.offsets)[1:]])
    near = groups(np.concatenate([members.ids, others.ids]), offsets, share=COPY)  # named by their first report
    copied = float((near[members.documents :] < members.documents).mean())
    own = groups(members.ids, members.offsets, share=COPY)
    cases = np.bincount(np.unique(np.stack([own, members.cases], 1), axis=0)[:, 0], minlength=members.documents)
    if copied > COPIES + float((cases[own] > 1).mean()):
        raise UsageError(
            f"--non-members {sides.non_members}: {percent(copied)} of them are reports of the members with few words "
            "changed; non-members are reports of other people"
        )


def swapped(members: Paths, non_members: Paths) -> str:
    return (
        f"--members {members} and --non-members {non_members} are swapped: the model was trained with the reports that "
        "are given as non-members"
    )


def refusal(bundle: Model, members: Any) -> str:
    """Why other members are not audited."""
    what = (
        "the bundle does not name the corpus it was trained on, so nobody can tell whether these reports are members"
        if bundle.provenance.get("corpus_sha256") is None
        else "is not the corpus that the model was trained on; with reports it never saw an audit measures nothing"
    )
    beside = (
        "" if bundle.folder is None else f" (or keep {TrainingCases.path_of(Path(bundle.folder))} beside the bundle)"
    )
    return (
        f"--members {members}: {what}. Give the training corpus itself{beside}, or --unbound for an audit without "
        "standing"
    )
