"""The four studies' results, typed: the rows of their tables. ``result`` puts them together into a run's."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from pathveil.auditing.worlds import DefenceRow
from pathveil.studies.rows import (
    Cases,
    Difference,
    Ends,
    Estimate,
    Finding,
    OneStudy,
    Recommendation,
    Row,
    Sha256,
    Share,
    ShareFound,
    StudyWarning,
    candidate_row,
)

# The vocabulary study.


class ChosenWords(Row):
    """A vocabulary of a fold, and the epochs its target and shadows were kept at."""

    fold: str  # the registry left to the attacker
    repeat: PositiveInt = 1  # which split of the cases
    strategy: str
    size: NonNegativeInt
    method: str  # the sentence that chose the words
    sha256: Sha256
    epoch: PositiveInt  # whose weights the target has
    epochs: PositiveInt
    shadow_epochs: list[PositiveInt]
    at_cap: bool  # the target was best at the last epoch allowed
    shadows_at_cap: NonNegativeInt


MEASURED = (
    "n_members",
    "n_non_members",
    "member_cases",
    "non_member_cases",
    "report_accuracy",
    "balanced_accuracy",
    "auc",
)


class MeasuredOrSuppressed(Row):
    """A row that has all its figures, or says why it has none."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["suppressed"]}, {"required": [*MEASURED]}]})

    @model_validator(mode="after")
    def all_or_none(self) -> Self:
        there = [name for name in MEASURED if getattr(self, name) is not None]
        if len(there) != (0 if getattr(self, "suppressed", None) else len(MEASURED)):
            raise ValueError("a row has all its figures, or says in 'suppressed' why it has none")
        return self


class AttackRow(MeasuredOrSuppressed):
    """A row of Table 1: one attack under one protocol on one bucket of classes, or why it is not shown."""

    fold: str
    repeat: PositiveInt = 1
    strategy: str
    size: NonNegativeInt
    protocol: Literal["matched", "cross-registry", "cross-registry control"]
    attack: Literal["shadow classifiers", "loss", "RMIA offline"]  # as the audit names them
    task: str
    unit: Literal["report"]
    bucket: str  # training reports of a class, or 'all'
    shadows: NonNegativeInt
    label_only: bool
    decides: bool
    suppressed: str | None = None
    n_members: NonNegativeInt | None = None
    n_non_members: NonNegativeInt | None = None
    member_cases: Cases | None = None
    non_member_cases: Cases | None = None
    accuracy: Share | None = None  # the paper's: mean over the classes that have members and non-members
    report_accuracy: Share | None = None  # share of the reports
    balanced_accuracy: Share | None = None  # mean over members and non-members
    auc: Share | None = None
    tpr_at_fpr: dict[str, Share | None] = Field(default_factory=dict)
    ci: dict[str, Ends] = Field(default_factory=dict)
    bucket_order: NonNegativeInt
    attacked_task: str

    @property
    def measured(self) -> bool:
        return self.suppressed is None

    @property
    def share_of_members(self) -> float:
        """What calling every report a member earns."""
        members, others = self.n_members or 0, self.n_non_members or 0
        return members / (members + others)


class TaskScore(Row):
    """A row of Table 2: F1 of a fold's target on the unseen cases of the registries that trained it."""

    attack_registry: str
    repeat: PositiveInt = 1
    strategy: str
    size: NonNegativeInt
    task: str
    micro: Share
    macro: Share
    micro_ci: Ends
    macro_ci: Ends
    floor: Share = 0.0  # macro F1 of always answering the commonest code


class VocabularyResult(OneStudy):
    """What a vocabulary study found."""

    study: Literal["vocabulary"]
    vocabularies: list[ChosenWords]
    table1: list[AttackRow]
    table2: list[TaskScore]
    recommendation: Recommendation
    findings: list[Finding]
    warnings: list[StudyWarning]

    def rows(self) -> list[dict[str, Any]]:
        return [candidate_row(one) for one in self.recommendation.candidates]


# The distribution study.


class RegistryScore(Row):
    """A row of Tables II and III: F1 of a mode with a seed on a registry's unseen cases."""

    registry: str
    mode: str
    seed: int
    task: str
    documents: NonNegativeInt
    cases: Cases
    micro: Estimate
    macro: Estimate
    floor: Share = 0.0  # macro F1 of always answering the commonest code


class RegistryClassScore(Row):
    """F1 of a class on a registry's unseen cases."""

    registry: str
    mode: str
    seed: int
    task: str
    label: str
    support: Cases  # unseen reports
    cases: Cases
    f1: Estimate


class ClassScore(Row):
    """F1 of a class on all registries' unseen cases together."""

    mode: str
    seed: int
    task: str
    label: str
    samples: NonNegativeInt  # reports of the class in all
    support: Cases
    cases: Cases
    f1: Estimate


class HeadScore(Row):
    """F1 of a fresh head on an encoder's features."""

    micro: float
    macro: float


class ProbeRow(Row):
    """How well fresh probes name a report's registry from the features that travel, and what those are worth."""

    mode: str
    seed: int
    linear: Share
    mlp: Share
    chance: Share  # the largest registry's share
    label: Share | None  # what the true label alone tells
    norm: Annotated[float, Field(ge=0)]
    documents: NonNegativeInt
    head: dict[str, HeadScore]

    @property
    def best(self) -> float:
        return max(self.linear, self.mlp)


class MembershipRow(MeasuredOrSuppressed):
    """Members against unseen cases, read off a mode's own answers or off its encoder under a head trained on others'
    reports."""

    mode: str
    seed: int
    model: Literal["as trained", "encoder, public head"]
    attack: str
    suppressed: str | None = None
    n_members: NonNegativeInt | None = None
    n_non_members: NonNegativeInt | None = None
    member_cases: Cases | None = None
    non_member_cases: Cases | None = None
    accuracy: None = None  # over classes; reports are taken together here
    report_accuracy: Estimate | None = None
    balanced_accuracy: Estimate | None = None
    auc: Estimate | None = None
    tpr_at_fpr: dict[str, ShareFound] = Field(default_factory=dict)


class TrafficRow(Row):
    """What crossed the wire, and the epochs at which models were kept (a mode may have one model a registry)."""

    mode: str
    seed: int
    rounds: NonNegativeInt
    bytes_to_sites: NonNegativeInt
    bytes_to_hub: NonNegativeInt
    documents_seen: NonNegativeInt
    refused: list[str]
    epoch: list[NonNegativeInt]
    epsilon: list[Any]
    feature_norm: list[Any]
    at_cap: list[bool]  # which of them was best at the last epoch allowed


class DistributionResult(OneStudy):
    """What a distribution study found."""

    study: Literal["distribution"]
    scores: list[RegistryScore]
    per_class: list[RegistryClassScore]
    classes: list[ClassScore]
    probe: list[ProbeRow]
    membership: list[MembershipRow]
    traffic: list[TrafficRow]
    recommendation: Recommendation
    findings: list[Finding]
    findings_of_strong: list[Finding]
    arms: list[Difference] = Field(default_factory=list)  # of each arm beside the modes and the mode that it changes
    warnings: list[StudyWarning]

    def summary(self) -> str:
        from pathveil.studies.training_choice import training_summary

        return training_summary(self)

    def rows(self) -> list[dict[str, Any]]:
        return [
            row.model_dump(include={"registry", "mode", "seed", "task", "documents", "cases"})
            | {"micro": row.micro.value, "macro": row.macro.value}
            for row in self.scores
        ]


# The combined study.


class CombinedPoint(Row):
    """One way of training with one vocabulary: its F1 and what an attacker reads off its probabilities."""

    strategy: str
    mode: str
    size: NonNegativeInt
    epoch: list[NonNegativeInt]
    micro: Share
    macro: Share
    floor: Share = 0.0  # macro F1 of always answering the commonest code
    auc: Estimate
    tpr_at_fpr: dict[str, ShareFound]
    probe: Share | None
    at_cap: list[bool]
    front: bool  # no other point beats it


class CombinedResult(OneStudy):
    """What a combined study found."""

    study: Literal["combined"]
    points: list[CombinedPoint]
    recommendation: Recommendation
    findings: list[Finding]
    warnings: list[StudyWarning]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"vocabulary": one.strategy, "training": one.mode, "words": one.size, "micro": one.micro}
            | {"macro": one.macro, "auc": one.auc.value, "auc_high": one.auc.high, "front": one.front}
            for one in self.points
        ]


# The defences study.


class WayRow(DefenceRow):
    """A way of training with one vocabulary in the worlds of one seed."""

    way: str
    vocabulary: str
    words: NonNegativeInt
    seed: int
    floor: Share = 0.0  # macro F1 of always answering the commonest code


class Change(Row):
    """A mean difference over worlds, paired, with its 95 % interval; none where one world says nothing of how they
    vary."""

    value: float
    low: float | None
    high: float | None


class DefencePoint(Row):
    """A way of training with one vocabulary, over the worlds of all seeds: the strongest attack on it, figure by
    figure, its F1 on unseen cases, and how far both are from the first way's with the same words."""

    name: str
    way: str
    vocabulary: str
    words: NonNegativeInt
    worlds: PositiveInt
    strongest: str  # the attack with the highest AUC
    auc: Estimate
    rare_auc: Estimate | None  # of reports with a class of fewer than 25; none where they are too few
    tpr_at_1: Estimate
    canaries: dict[str, Estimate | None]
    micro: Estimate
    macro: Estimate
    changes: dict[str, Change] = Field(default_factory=dict)  # of AUC, micro and macro F1; none of the first way
    front: bool  # no other one has less leak and at least the macro F1


class DefencesResult(OneStudy):
    """What a defences study found."""

    study: Literal["defences"]
    table: list[WayRow]
    points: list[DefencePoint]
    recommendation: Recommendation
    findings: list[Finding]
    warnings: list[StudyWarning]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"way": one.way, "vocabulary": one.vocabulary, "words": one.words, "auc": one.auc.value}
            | {"auc_high": one.auc.high, "rare_auc": None if one.rare_auc is None else one.rare_auc.value}
            | {"tpr_at_1": one.tpr_at_1.value, "micro": one.micro.value, "macro": one.macro.value, "front": one.front}
            for one in self.points
        ]


AnyResult = VocabularyResult | DistributionResult | CombinedResult | DefencesResult
