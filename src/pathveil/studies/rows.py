"""What the results of all studies have: rows with estimates, findings, a recommendation, where it all comes from.

A field that was not set (what a row lacks because too few cases stand behind it) is not written.

>>> Finding(id="A1", claim="…", holds=None, evidence=Evidence(test="…", comparisons=[])).to_dict()["holds"] is None
True
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt

from pathveil.disclosure import FEWEST_CASES_TOLD
from pathveil.results import Part, Result

Share = Annotated[float, Field(ge=0, le=1)]
Cases = Annotated[int, Field(ge=FEWEST_CASES_TOLD)]
Ends = Annotated[list[Share], Field(min_length=2, max_length=2)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Verdict = Literal["pass", "fail", "not enough evidence"]


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
    balanced: list[Difference] = Field(default_factory=list)  # the same comparisons of attacks on balanced accuracy
    beside: list[Difference] = Field(default_factory=list)
    missing: str = ""  # what the study lacks for the finding to be judged


class Finding(Row):
    """One claim of the papers, judged here; no answer: not enough evidence, or not judged where some is missing."""

    id: Annotated[str, Field(pattern="^[AB][1-7]$")]
    claim: str
    holds: bool | None
    holds_balanced: bool | None = None  # of attacks: the answer on balanced accuracy
    holds_here: bool | None = None  # at these registries, where units were repeated; nothing is said of others
    evidence: Evidence


# Recommendations.


class RatedCandidate(Row):
    """What may be released: what it scores, what it leaks, and whether it keeps to the tolerated leak."""

    name: str
    words: NonNegativeInt
    macro: Share
    floor: Share = 0.0  # macro F1 of always answering the commonest code: at or below it nothing was learnt
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
        from pathveil.studies.answer import answer
        from pathveil.studies.result import StudyResult

        return "\n".join(answer(StudyResult.of_one(self)))


def candidate_row(one: RatedCandidate) -> dict[str, Any]:
    leak = {"auc": one.auc.value, "auc_low": one.auc.low, "auc_high": one.auc.high}
    return {"name": one.name, "words": one.words, "macro": one.macro} | leak | {"verdict": one.verdict}
