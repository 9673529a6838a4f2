"""What to use under which risk appetite: a vocabulary, or a vocabulary with a way of training.

The appetite is the largest attacker's AUC that is tolerated. A candidate *passes* where the upper end of every measured
AUC is at or below it, it *fails* where a lower end is above it, and otherwise there is *not enough evidence*: the
audit's words in the audit's sense (``auditing.verdict``). Of those that pass, the best macro F1 is taken. Others may be
its equals: their paired differences over folds have an interval that reaches zero (three folds at least) or are
within the margins of the findings, and no task is lost. Among equals in F1 the least leak decides, and
among equals in both the fewest words: a word that is not in the vocabulary cannot betray anyone. What codes no better
than always answering the commonest code is never recommended: it betrays nobody because it has learnt nothing.

>>> first = Candidate("B", 900, {"site": {"R1": 0.70}}, {"R1": (0.74, 0.72, 0.76)})
>>> second = Candidate("I3", 300, {"site": {"R1": 0.69}}, {"R1": (0.57, 0.55, 0.59)})
>>> recommend([first, second], tolerated=0.6, kind="vocabulary").use
'I3'
>>> [(step.tolerated, step.use) for step in steps([first, second])]
[(0.59, 'I3')]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pathveil.auditing.evidence import ALL, MATCHED
from pathveil.formatting import listed
from pathveil.studies.claims import MARGIN
from pathveil.studies.rows import Estimate, RatedCandidate, Recommendation, Step, Verdict
from pathveil.studies.statistics import compare
from pathveil.studies.tables import AttackRow, TaskScore

ROUNDING = 1e-6  # of F1: figures are counted in single precision
FEWEST = 3  # folds from which on an interval of their differences says anything
PLURAL = {"vocabulary": "vocabularies", "combination": "combinations", "way of training": "ways of training"}
AucEnds = tuple[float, float, float]  # AUC, and the ends of its interval


@dataclass(frozen=True)
class Candidate:
    """What may be released, with what it scores and what it leaks, by fold (one fold where there are none)."""

    name: str
    words: int
    scores: Mapping[str, Mapping[str, float]]  # task: fold: macro F1
    leaks: Mapping[str, AucEnds]  # fold: the largest of all attacks' values and ends
    floor: float = 0.0  # macro F1 of always answering the commonest code, over the same tasks and folds

    @property
    def macro(self) -> float:
        return float(np.mean([value for folds in self.scores.values() for value in folds.values()]))

    @property
    def codes(self) -> bool:
        """Whether it codes better than always answering the commonest code; a model that tells nothing leaks nothing,
        and is no use."""
        return self.macro > self.floor + ROUNDING

    @property
    def auc(self) -> Estimate:
        """The mean over folds, between the lowest and the highest end of any fold."""
        values, low, high = zip(*self.leaks.values(), strict=True)
        return Estimate(value=float(np.mean(values)), low=min(low), high=max(high))

    def verdict(self, tolerated: float) -> Verdict:
        if all(high <= tolerated for _, _, high in self.leaks.values()):
            return "pass"
        return "fail" if any(low > tolerated for _, low, _ in self.leaks.values()) else "not enough evidence"


def vocabulary_candidates(table1: Sequence[AttackRow], table2: Sequence[TaskScore]) -> list[Candidate]:
    """The vocabularies of a study that could be attacked: every attack on all classes under the matched protocol,
    which measures membership alone."""
    leaks: dict[str, dict[str, AucEnds]] = {}
    for row in table1:
        if row.protocol == MATCHED and row.bucket == ALL and row.auc is not None:
            folds = leaks.setdefault(row.strategy, {})
            before = folds.get(row.fold, (0.0, 0.0, 0.0))
            value, low, high = map(max, before, (row.auc, *row.ci["auc"]))
            folds[row.fold] = value, low, high
    candidates = []
    for name, found in leaks.items():
        own = [row for row in table2 if row.strategy == name]
        if not own:  # too few cases with a label to score it
            continue
        found_f1: dict[str, dict[str, list[float]]] = {}
        for row in own:
            found_f1.setdefault(row.task, {}).setdefault(row.attack_registry, []).append(row.macro)
        # Of a fold that was repeated with other splits, the mean.
        scores = {task: {fold: float(np.mean(f1)) for fold, f1 in folds.items()} for task, folds in found_f1.items()}
        words = round(float(np.mean([row.size for row in own])))
        candidates.append(Candidate(name, words, scores, found, float(np.mean([row.floor for row in own]))))
    return candidates


def recommend(candidates: Sequence[Candidate], *, tolerated: float, kind: str) -> Recommendation:
    """What to use under this appetite and why, in sentences and as values, and what other appetites would lead to."""
    if not candidates:
        sentence = f"No {kind} can be recommended: there are too few cases to attack one."
        return Recommendation(sentence=sentence, steps=[])
    coding = [one for one in candidates if one.codes]
    if not coding:
        return recommendation(candidates, tolerated=tolerated, sentence=none_codes(candidates, kind=kind))
    verdicts = {one.name: one.verdict(tolerated) for one in coding}
    chosen, within = _chosen(coding, tolerated)
    sentence = (_passing if within else _none)(coding, chosen, verdicts, tolerated, kind)
    sentences = [sentence, *_further(coding, chosen, tolerated), *_left_out(candidates)]
    return recommendation(candidates, tolerated=tolerated, sentence=" ".join(sentences))


def none_codes(candidates: Sequence[Candidate], *, kind: str) -> str:
    """That nothing can be recommended where nothing codes."""
    best = max(candidates, key=lambda one: one.macro)
    many = f"none of {len(candidates)} codes" if len(candidates) > 1 else "the only one does not code"
    return (
        f"No {kind} can be recommended: {many} better than always answering the commonest code, which has a macro F1 "
        f"of {best.floor:.3f} (the best here: {best.macro:.3f}). Train longer, or on more reports."
    )


def _left_out(candidates: Sequence[Candidate]) -> list[str]:
    """Who is no candidate, in a sentence."""
    useless = [one.name for one in candidates if not one.codes]
    if not useless:
        return []
    verb = "code" if len(useless) > 1 else "codes"
    return [f"Not counted: {listed(useless)}, which {verb} no better than always answering the commonest code."]


def recommendation(candidates: Sequence[Candidate], *, tolerated: float, sentence: str) -> Recommendation:
    """The choice among candidates that code under this appetite, with a sentence that tells it."""
    coding = [one for one in candidates if one.codes]
    chosen, within = _chosen(coding, tolerated) if coding else (None, False)
    on_front = front([(one.auc.value, one.macro) for one in candidates])
    rated = [
        RatedCandidate(
            name=one.name,
            words=one.words,
            macro=one.macro,
            floor=one.floor,
            auc=one.auc,
            verdict=one.verdict(tolerated),
            front=mark,
        )
        for one, mark in zip(candidates, on_front, strict=True)
    ]
    return Recommendation(
        sentence=sentence,
        use=None if chosen is None else chosen.name,
        within=within,
        verdicts={one.name: one.verdict for one in rated},
        steps=steps(coding),
        candidates=rated,
    )


def recommend_briefly(candidates: Sequence[Candidate], *, tolerated: float) -> str:
    """The same in half a sentence.

    >>> loud = Candidate("B", 900, {"site": {"": 0.70}}, {"": (0.74, 0.72, 0.76)})
    >>> recommend_briefly([loud], tolerated=0.6)
    'none passes, the least leaking is B (900 words): macro F1 0.700, AUC 0.740 (at most 0.760)'
    """
    coding = [one for one in candidates if one.codes]
    if not coding:
        return "none codes better than always answering the commonest code"
    chosen, within = _chosen(coding, tolerated)
    told = f"{chosen.name} ({chosen.words:,} words): macro F1 {chosen.macro:.3f}, AUC {_auc(chosen)}"
    return told if within else f"none passes, the least leaking is {told}"


def steps(candidates: Sequence[Candidate]) -> list[Step]:
    """From which tolerated AUC on which candidate is the one to use: the whole of what an appetite can lead to."""
    found: list[Step] = []
    for reach in sorted({one.auc.high for one in candidates}):
        best = _best([one for one in candidates if one.auc.high <= reach])
        if not found or found[-1].use != best.name:
            found.append(Step(tolerated=reach, use=best.name, words=best.words, macro=best.macro, auc=best.auc))
    return found


def _chosen(candidates: Sequence[Candidate], tolerated: float) -> tuple[Candidate, bool]:
    """The best of those that pass, and else the one that leaks least; and whether it passes."""
    fitting = [one for one in candidates if one.verdict(tolerated) == "pass"]
    return (_best(fitting), True) if fitting else (min(candidates, key=lambda one: one.auc.high), False)


def _best(candidates: Sequence[Candidate]) -> Candidate:
    return min(_quiet(_equals(candidates)), key=lambda one: one.words)


def _equals(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidate of the best macro F1, and those that cannot be told from it."""
    top = max(candidates, key=lambda one: one.macro)
    return [one for one in candidates if not _worse(one, top)]


def _quiet(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The least leaking candidate, and those that cannot be told from it."""
    least = min(candidates, key=lambda one: one.auc.value)
    return [one for one in candidates if not _apart(_leaks(one), _leaks(least), MARGIN["accuracy"])]


def _worse(one: Candidate, top: Candidate) -> bool:
    """Is its F1 below the other's, in the mean of the tasks or, where folds tell chance from loss, in one of them?"""
    if _apart(_means(top), _means(one), MARGIN["macro"]):
        return True
    shared = [(top.scores[task], own) for task, own in one.scores.items() if len(own) >= FEWEST]
    return any(_apart(*pair, MARGIN["macro"]) for pair in shared)


def _apart(first: Mapping[str, float], second: Mapping[str, float], margin: float) -> bool:
    """Is the first above the second, by more than the margin and by more than the folds' differences vary?"""
    folds = [fold for fold in first if fold in second]
    found = compare([first[fold] for fold in folds], [second[fold] for fold in folds], blocks=folds)
    return found.mean > margin and (found.units < FEWEST or found.interval()[0] > 0)


def _means(one: Candidate) -> dict[str, float]:
    """Macro F1 of each fold, over tasks."""
    folds = dict.fromkeys(fold for scores in one.scores.values() for fold in scores)
    return {fold: float(np.mean([own[fold] for own in one.scores.values() if fold in own])) for fold in folds}


def _leaks(one: Candidate) -> dict[str, float]:
    return {fold: value for fold, (value, _, _) in one.leaks.items()}


def _passing(
    candidates: Sequence[Candidate], chosen: Candidate, verdicts: Mapping[str, Verdict], tolerated: float, kind: str
) -> str:
    fitting = [one for one in candidates if verdicts[one.name] == "pass"]
    equals = _equals(fitting)
    loud = [one.name for one in equals if one not in _quiet(equals)]
    wordy = [one.name for one in equals if one is not chosen and one.name not in loud]
    why = f"{len(fitting)} of {len(candidates)} {PLURAL[kind]} pass"
    if len(fitting) > 1:
        why += ", and no other of them codes better" if len(equals) > 1 else ", and it codes best of them"
    if loud:
        why += f"; {listed(loud)} {'code as well, but leak' if len(loud) > 1 else 'codes as well, but leaks'} more"
    if wordy:
        why += f"; {listed(wordy)} cannot be told from it and {'have' if len(wordy) > 1 else 'has'} no fewer words "
        why += "(a word left out names nobody)"
    return (
        f"Where an attacker's AUC up to {tolerated:g} is tolerated (0.5 is guessing), use {chosen.name} "
        f"({chosen.words:,} words): macro F1 {chosen.macro:.3f}, AUC {_auc(chosen)}; {why}.{_price(chosen, candidates)}"
    )


def _price(chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    """What the choice costs beside the best of all, where it does."""
    top = max(candidates, key=lambda one: one.macro)
    if not _worse(chosen, top):
        return ""
    lost = {
        task: np.mean([*top.scores[task].values()]) - np.mean([*own.values()]) for task, own in chosen.scores.items()
    }
    task = max(lost, key=lambda task: lost[task])
    most = f", and {lost[task]:.3f} in {task}" if len(lost) > 1 else ""
    return f" The price is {max(0.0, top.macro - chosen.macro):.3f} of macro F1 beside {top.name}{most}."


def _none(
    candidates: Sequence[Candidate], chosen: Candidate, verdicts: Mapping[str, Verdict], tolerated: float, kind: str
) -> str:
    failed = sum(answer == "fail" for answer in verdicts.values())
    rest = len(candidates) - failed
    split = [f"{failed} fail{'s' if failed == 1 else ''}"] if failed else []
    split += [f"for {rest} there is not enough evidence"] if rest else []
    return (
        f"No {kind} passes where an attacker's AUC up to {tolerated:g} is tolerated (0.5 is guessing): "
        f"{listed(split)}. The least leaking is {chosen.name} ({chosen.words:,} words): macro F1 {chosen.macro:.3f}, "
        f"AUC {_auc(chosen)}."
    )


def _further(candidates: Sequence[Candidate], chosen: Candidate, tolerated: float) -> list[str]:
    """The next larger appetite under which something codes better, and the one under which nothing does any more."""
    named = {one.name: one for one in candidates}
    top = max(candidates, key=lambda one: one.macro)
    more = [step for step in steps(candidates) if step.tolerated > tolerated and _worse(chosen, named[step.use])]
    last = next((place for place, step in enumerate(more) if not _worse(named[step.use], top)), 0)
    shown = more[:1] + more[1:][last - 1 : last]
    told = [f"{rounded_up(step.tolerated)} allows {step.use} (macro F1 {step.macro:.3f})" for step in shown]
    return [f"Tolerating {listed(told)}."] if told else []


def rounded_up(value: float) -> str:
    """A bound to three places that is surely enough.

    >>> rounded_up(0.6001), rounded_up(0.6)
    ('0.601', '0.600')
    """
    return f"{np.ceil(round(value * 1000, 6)) / 1000:.3f}"


def _auc(one: Candidate) -> str:
    return f"{one.auc.value:.3f} (at most {rounded_up(one.auc.high)})"


def front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which (leak, F1) points no other point beats: less leak and at least the F1, or as little and more F1.

    >>> front([(0.6, 0.9), (0.5, 0.8), (0.55, 0.7), (0.5, 0.85)])
    [True, False, False, True]
    """
    return [
        not any((leak <= own and score >= f1) and (leak, score) != (own, f1) for leak, score in points)
        for own, f1 in points
    ]
