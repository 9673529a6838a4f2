"""How the report opens: the answer as a picture, a sentence in everyday words, and the three figures that matter.

A run may hold several studies. The one that decides whether a model may leave opens the report: the defences study, for
its attacks are the strongest; else words and training together; else words; else training.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pathveil.formatting import counted
from pathveil.studies.recommendation import rounded_up
from pathveil.studies.report import figures
from pathveil.studies.report.tables import mean_of
from pathveil.studies.result import Studies
from pathveil.studies.rows import Estimate, RatedCandidate, Recommendation
from pathveil.studies.tables import (
    AnyResult,
    CombinedResult,
    DefencePoint,
    DefencesResult,
    DistributionResult,
    VocabularyResult,
)

KINDS = {  # of a study: what it compares, one and several, and how a sentence speaks of using one
    "vocabulary": ("vocabulary", "vocabularies", "A model that may know the words of “{}”"),
    "distribution": ("way of training apart", "ways of training apart", "A model trained “{}”"),
    "combined": ("combination", "combinations", "“{}”"),
    "defences": ("way of training", "ways of training", "A model trained with “{}”"),
}
MODELS = {  # of studies that judge a candidate by several attacked models: which they are
    "vocabulary": "one for each registry left to the attacker",
    "distribution": "one for each seed",
}


@dataclass(frozen=True)
class Fact:
    """A figure that matters: large, with what it is and what stands behind it."""

    value: str
    label: str
    note: str


@dataclass(frozen=True)
class Opening:
    """The first screen."""

    picture: figures.Drawing | None
    caption: str
    sentence: str
    facts: Sequence[Fact]


def opening_of(studies: Studies) -> Opening:
    """The first screen of a report on these studies."""
    part = deciding_study(studies)
    if part is None:
        told = " ".join(one.recommendation.sentence for one in studies.parts())
        return Opening(None, "", told or "This run has no study.", ())
    found, tolerated = part.recommendation, part.settings["tolerated"]
    picture = figures.answer_plane(found.candidates, use=found.use or "", within=found.within, tolerated=tolerated)
    ringed = "recommended" if found.within else "nearest to the limit"
    caption = f"Each point is a {KINDS[part.study][0]}; the ring is around what is {ringed}, and lines are what the "
    caption += "leak may be (95 %)"
    if part.study in MODELS:
        caption += (
            f", from the lowest to the highest end of any model's, {MODELS[part.study]}: a limit is broken where "
        )
        caption += "one of them surely breaks it"
    caption += ". Best is left and high."
    caption += figures.front_caption([(one.auc.value, one.macro) for one in found.candidates if one.front])
    return Opening(picture, caption, everyday_sentence(part), facts_of(part))


def deciding_study(studies: Studies) -> AnyResult | None:
    """The study that opens the report; none where nothing could be attacked."""
    order = (studies.defences, studies.combined, studies.vocabulary, studies.distribution)
    return next((part for part in order if part is not None and part.recommendation.chosen is not None), None)


def chosen_of(part: AnyResult) -> RatedCandidate:
    """What a study recommends, or what leaks least."""
    chosen = part.recommendation.chosen
    assert chosen is not None, "deciding_study gives only studies that chose something"
    return chosen


def everyday_sentence(part: AnyResult) -> str:
    """The answer for a reader who reads one sentence."""
    found: Recommendation = part.recommendation
    one, several, using = KINDS[part.study]
    use, coding, number = chosen_of(part), micro_of(part), len(found.candidates)
    coded = "" if coding is None else f", and codes {hundredths(coding.value)} of 100 unseen reports rightly"
    if found.within:
        told = f"{using.format(use.name)} keeps what an attacker can learn within the limit"
    elif number > 1:
        told = f"None of the {number} {several} tried surely keeps what an attacker can learn within the limit. "
        told += f"“{use.name}” comes nearest"
    else:
        told = f"The only {one} tried, “{use.name}”, does not surely keep what an attacker can learn within the limit"
    return f"{told}{coded}. {leak_in_words(part)}"


def leak_in_words(part: AnyResult) -> str:
    """What an attacker finds, as people say it."""
    point = defence_point(part)
    if point is None:
        right, tolerated = hundredths(chosen_of(part).auc.value), hundredths(part.settings["tolerated"])
        return (
            "Shown a report that the model learnt and one that it did not, an attacker picks the right one "
            f"{right} times in 100; guessing is right 50 times, and {tolerated} are tolerated."
        )
    first = first_way(part, point)
    beside = "" if first is None else f", where it finds {found_of_hundred(first)} in one trained with “{first.way}”"
    return (
        f"Of 100 people whose reports it learnt, the strongest attack finds {found_of_hundred(point)} while it wrongly "
        f"accuses one stranger in 100{beside}."
    )


def facts_of(part: AnyResult) -> list[Fact]:
    """Leak, coding, and the price of the one in the other."""
    use, tolerated = chosen_of(part), part.settings["tolerated"]
    point, coding = defence_point(part), micro_of(part)
    leak = f"AUC {use.auc.value:.3f}, at most {rounded_up(use.auc.high)}; 0.5 is guessing, {tolerated:g} is tolerated"
    if point is not None:
        facts = [Fact(f"{found_of_hundred(point)} of 100", "people found, at one false accusation in 100", leak)]
    else:
        facts = [Fact(f"{hundredths(use.auc.value)} of 100", "times an attacker is right (guessing: 50)", leak)]
    macro = f"macro F1 {use.macro:.3f}: there a rare code weighs as much as a common one"
    if coding is None:
        facts.append(Fact(f"{use.macro:.2f}", "macro F1", macro))
    else:
        right = f"{hundredths(coding.value)} of 100"
        facts.append(Fact(right, "unseen reports coded rightly", f"micro F1 {coding.value:.3f}; {macro}"))
    return [*facts, price_of(part)]


def price_of(part: AnyResult) -> Fact:
    """What is given up for privacy: beside the first way of training, or beside the candidate that codes best."""
    use, point, candidates = chosen_of(part), defence_point(part), part.recommendation.candidates
    first = None if point is None else first_way(part, point)
    if point is not None and first is not None and "micro" in point.changes:
        change = point.changes["micro"]
        ends = "" if change.low is None or change.high is None else f" ({signed(change.low)} to {signed(change.high)})"
        if change.low is not None and change.high is not None and change.low <= 0 <= change.high:
            ends += ": it may be chance"
        lost = round(100 * change.value)
        kind = "codes gained" if lost > 0 else "codes lost" if lost else "lost"
        value = f"{abs(lost)} of 100" if lost else "nothing"
        return Fact(value, f"{kind} beside “{first.way}”", f"micro F1 {signed(change.value)}{ends}")
    best = max(candidates, key=lambda one: one.macro)
    if best.name == use.name:
        return Fact("nothing", "is given up: no other codes better", f"of {counted(len(candidates), 'candidate')}")
    lost_f1 = f"{use.macro - best.macro:.2f}".replace("-", "−")
    return Fact(
        lost_f1, f"macro F1, beside “{best.name}”", f"which codes best, and may leak {rounded_up(best.auc.high)}"
    )


def defence_point(part: AnyResult) -> DefencePoint | None:
    """The way of training that a defences study chose."""
    points = part.points if isinstance(part, DefencesResult) else []
    return next((point for point in points if point.name == part.recommendation.use), None)


def first_way(part: AnyResult, point: DefencePoint) -> DefencePoint | None:
    """The way that a defences study holds this one against; none where it is that one."""
    points = part.points if isinstance(part, DefencesResult) else []
    first = next((one for one in points if one.vocabulary == point.vocabulary), point)
    return None if first is point else first


def micro_of(part: AnyResult) -> Estimate | None:
    """Micro F1 of what a study chose, over its tasks: the share of unseen reports that get the right code."""
    use = chosen_of(part).name
    if isinstance(part, DefencesResult):
        return next(point.micro for point in part.points if point.name == use)
    if isinstance(part, CombinedResult):
        point = {f"{one.strategy} with {one.mode} training": one for one in part.points}.get(use)
        return None if point is None else exactly(point.micro)
    if isinstance(part, VocabularyResult):
        value = mean_of([row for row in part.table2 if row.strategy == use], "micro")
    else:
        assert isinstance(part, DistributionResult)
        value = mean_of([row.micro for row in part.scores if row.mode == use], "value")
    return None if value is None else exactly(value)


def exactly(value: float) -> Estimate:
    """A value of which no interval is known."""
    return Estimate(value=value, low=value, high=value)


def found_of_hundred(point: DefencePoint) -> str:
    """How many of a hundred members are found at one false accusation in a hundred."""
    share = 100 * point.tpr_at_1.value
    return f"{share:.1f}" if share < 9.95 else f"{share:.0f}"


def hundredths(share: float) -> str:
    """
    >>> hundredths(0.828), hundredths(0.9999)
    ('83', '100')
    """
    return f"{100 * share:.0f}"


def signed(value: float) -> str:
    """
    >>> signed(-0.0123), signed(0.5)
    ('−0.012', '+0.500')
    """
    return f"{value:+.3f}".replace("-", "−")
