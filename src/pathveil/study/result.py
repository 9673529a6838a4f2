"""What a study leaves behind, typed: the rows of its tables, its findings, its recommendation, ``result.json``.

The types are the schema: ``StudyResult.model_json_schema()`` is what ``pathveil study schema`` prints, a result that
breaks it is never written, and one of another version is refused in a sentence when it is read. A field that was not
set (what a row lacks because too few cases stand behind it) is not written.

>>> Finding(id="A1", claim="…", holds=None, evidence=Evidence(test="…", comparisons=[])).to_dict()["holds"] is None
True
>>> fault_of('{"name": "x", "studies": {}}', StudyResult)
"'findings' is missing"
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, PrivateAttr, ValidationError, model_validator

from pathveil.audit.worlds import DefenceRow
from pathveil.disclosure import FEWEST_CASES_TOLD
from pathveil.errors import UsageError
from pathveil.files import read_json
from pathveil.results import Part, Result

Share = Annotated[float, Field(ge=0, le=1)]
Cases = Annotated[int, Field(ge=FEWEST_CASES_TOLD)]
Ends = Annotated[list[Share], Field(min_length=2, max_length=2)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Verdict = Literal["pass", "fail", "not enough evidence"]
Kind = TypeVar("Kind", bound=Part)


class Row(Part):
    """A row of a table, or another part of a study's result: written with the fields that were set."""

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Estimate(Row):
    """A value with its 95 % interval."""

    value: Share
    low: Share
    high: Share


class ShareFound(Row):
    """The share of members found at a false-positive rate; no value where it cannot be measured, and ``note`` then says
    why. ``sure`` is a lower bound that holds for all rows of an audit at once."""

    value: Share | None
    low: Share
    high: Share
    note: str | None = None
    sure: Share | None = None


# Findings.


class AmongThese(Row):
    """The same difference asked of these registries alone: other cases of theirs, other splits and trainings."""

    low: float
    high: float
    confidence: float
    cases: NonNegativeInt  # that were resampled
    holds: bool | None


class SpreadOfUnits(Row):
    """How much a comparison's units differ, and how much repeats of one unit do, as standard deviations; without
    repeats the first holds both."""

    between: float
    within: float | None
    repeats: PositiveInt


class NeededUnits(Row):
    """With how many registries, of so many times the reports, four studies of five decide a comparison."""

    difference: float  # that there is; for a comparison with a margin, the margin
    reports: PositiveInt
    registries: int | None  # none where a thousand do not


class Difference(Row):
    """Two arms compared: the mean paired difference and its interval, at the level at which it is read and alone."""

    compared: str
    difference: float
    low: float | None
    high: float | None
    alone: list[float] | None  # at 95 %
    confidence: float
    units: int
    p: float | None = None
    p_adjusted: float | None = None
    margin: float | None = None
    spread: SpreadOfUnits | None = None
    these: AmongThese | None = None  # where units were repeated
    needed: list[NeededUnits] = Field(default_factory=list)


class ProbeAccuracy(Row):
    """How well a fresh probe names the registry, beside the bound it is held against."""

    compared: str
    value: Share
    bound: float
    units: int
    low: Share
    high: Share
    alone: list[float]
    confidence: float
    norm: float
    other_modes: dict[str, Share]


class Evidence(Row):
    """What a finding is read off, and what stands beside it and is not judged."""

    test: str
    comparisons: list[Difference | ProbeAccuracy]
    beside: list[Difference] = Field(default_factory=list)
    missing: str = ""  # what the study lacks for the finding to be judged


class Finding(Row):
    """One claim of the papers, judged here; no answer: not enough evidence, or not judged where some is missing."""

    id: Annotated[str, Field(pattern="^[AB][1-7]$")]
    claim: str
    holds: bool | None
    holds_here: bool | None = None  # at these registries, where units were repeated; nothing is said of others
    evidence: Evidence


# Recommendations.


class RatedCandidate(Row):
    """What may be released: what it scores, what it leaks, and whether it keeps to the tolerated leak."""

    name: str
    words: NonNegativeInt
    macro: Share
    auc: Estimate  # the attacker's: the mean over folds, between the lowest and highest end of any
    verdict: Verdict
    front: bool  # no other one has less leak and at least the F1


class Step(Row):
    """From which tolerated AUC on which candidate is the one to use."""

    model_config = ConfigDict(populate_by_name=True)

    tolerated: Share = Field(alias="from")
    use: str
    words: NonNegativeInt
    macro: Share
    auc: Estimate  # the attacker's: the mean over folds, between the lowest and highest end of any


class Recommendation(Row):
    """What to use under the tolerated AUC of the settings, and from which tolerated AUC on what else."""

    sentence: str
    use: str | None = None
    within: bool = False  # whether it passes; else it is the one that leaks least
    verdicts: dict[str, Verdict] = Field(default_factory=dict)
    steps: list[Step]
    candidates: list[RatedCandidate] = Field(default_factory=list)
    without_pooling: "Recommendation | None" = None  # where what is recommended pools everybody's reports

    @property
    def chosen(self) -> RatedCandidate | None:
        return next((one for one in self.candidates if one.name == self.use), None)


# The parts that all studies have.


class Provenance(Row):
    """Where the numbers come from."""

    model_config = ConfigDict(extra="allow")

    corpus_sha256: Sha256
    text: str  # settings of the cleaning of text
    reports: NonNegativeInt
    registries: dict[str, NonNegativeInt]
    vocabulary_sizes: dict[str, NonNegativeInt] = Field(default_factory=dict)  # by seed


class StudyWarning(Row):
    """What to know before relying on the figures, in a sentence without its full stop."""

    kind: Literal["last epoch", "words not agreed"]
    text: str


class OneStudy(Result, Row):
    """The result of one of the studies."""

    study: str
    settings: dict[str, Any]
    provenance: Provenance

    def summary(self) -> str:
        from pathveil.study.answer import answer

        return "\n".join(answer(StudyResult.of_one(self)))


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


MEASURED = ("n_members", "n_non_members", "member_cases", "non_member_cases", "accuracy", "balanced_accuracy", "auc")


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
    accuracy: Share | None = None
    balanced_accuracy: Share | None = None
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
    accuracy: Estimate | None = None
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
        from pathveil.study.training_choice import training_summary

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


# A whole run.


class Studies(Row):
    """The studies that a file asks for."""

    vocabulary: VocabularyResult | None = None
    distribution: DistributionResult | None = None
    combined: CombinedResult | None = None
    defences: DefencesResult | None = None

    def parts(self) -> list["AnyResult"]:
        """Those that there are."""
        there = (self.vocabulary, self.distribution, self.combined, self.defences)
        return [part for part in there if part is not None]


class StudyResult(Result, Row):
    """The result of a study file's run, as ``result.json`` has it."""

    name: str
    studies: Studies
    findings: list[Finding]
    _folder: Path | None = PrivateAttr(None)

    @classmethod
    def of(cls, name: str, parts: Mapping[str, OneStudy], *, folder: Path | None = None) -> Self:
        """All studies of a run together."""
        studies = Studies.model_validate(dict(parts))
        findings = [finding for part in studies.parts() for finding in part.findings]
        made = cls(name=name, studies=studies, findings=findings)
        made._folder = folder
        return made

    @classmethod
    def of_one(cls, part: OneStudy) -> Self:
        return cls.of(part.study, {part.study: part})

    @property
    def folder(self) -> Path | None:
        """The run's folder, where it is known."""
        return self._folder

    @property
    def report_path(self) -> Path | None:
        """The run's report, where it has one."""
        path = None if self._folder is None else self._folder / "report.html"
        return path if path is not None and path.is_file() else None

    def open(self) -> None:
        """Show the report in a browser."""
        import webbrowser

        if self.report_path is None:
            raise UsageError("this result has no report; 'pathveil study report RUN' writes one")
        webbrowser.open(self.report_path.absolute().as_uri())

    def rows(self) -> list[dict[str, Any]]:
        """What may be released, a row each: what it scores, what it leaks, and the verdict under the tolerated leak."""
        rated = [(part.study, one) for part in self.studies.parts() for one in part.recommendation.candidates]
        return [{"study": study} | candidate_row(one) for study, one in rated]

    def summary(self) -> str:
        from pathveil.study.answer import answer

        report = [] if self.report_path is None else ["", f"Report: {self.report_path}"]
        return "\n".join([*answer(self), *report])


def candidate_row(one: RatedCandidate) -> dict[str, Any]:
    leak = {"auc": one.auc.value, "auc_low": one.auc.low, "auc_high": one.auc.high}
    return {"name": one.name, "words": one.words, "macro": one.macro} | leak | {"verdict": one.verdict}


RESULTS: dict[str, type[OneStudy]] = {
    "vocabulary": VocabularyResult,
    "distribution": DistributionResult,
    "combined": CombinedResult,
    "defences": DefencesResult,
}


def read_run(path: Path) -> StudyResult:
    """The result of a whole run. One study by itself, as 'federate run' leaves it, is a run of that study, named by its
    folder."""
    content = _content(path, made_by="pathveil study run")
    kind = RESULTS.get(str(content.get("study")))
    if kind is not None:
        alone = _checked(path, content, kind, made_by="pathveil study run")
        return StudyResult.of(path.absolute().parent.name, {alone.study: alone}, folder=path.parent)
    result = _checked(path, content, StudyResult, made_by="pathveil study run")
    result._folder = path.parent
    return result


def read_distribution(path: Path) -> DistributionResult:
    """The result of a 'federate run'."""
    content = _content(path, made_by="pathveil federate run")
    return _checked(path, content, DistributionResult, made_by="pathveil federate run")


def fault_of(text: str, kind: type[Part]) -> str:
    """The first thing about a result in JSON that is not as its type says, or nothing."""
    try:
        kind.model_validate_json(text, strict=True)
    except ValidationError as error:
        return _first_fault(error)
    return ""


def _content(path: Path, *, made_by: str) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(f"{path}: there is no finished result; run '{made_by}' first")
    return read_json(path)


def _checked(path: Path, content: Mapping[str, Any], kind: type[Kind], *, made_by: str) -> Kind:
    try:
        return kind.model_validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        raise UsageError(
            f"{path}: is not a result of this version: {_first_fault(error)}; '{made_by}' as before makes it anew from "
            "what is finished"
        ) from None


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    known = {"missing": "is missing", "extra_forbidden": "is unknown"}
    problem = known.get(first["type"], first["msg"][:1].lower() + first["msg"][1:])
    return f"'{place}' {problem}" if first["type"] in known else f"'{place}': {problem}"
