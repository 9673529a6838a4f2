"""A run's answer in words: a paragraph that says what to use under which appetite, and behind it the whole of the
reasons.

The paragraph is of the shortest sentences that carry it; every number that it leaves out stands in ``reasons``.
"""

from collections.abc import Sequence

from pathveil.formatting import listed
from pathveil.studies.recommendation import PLURAL, rounded_up
from pathveil.studies.result import StudyResult
from pathveil.studies.rows import Finding, RatedCandidate, Recommendation
from pathveil.studies.tables import AnyResult, CombinedResult, DefencesResult, DistributionResult, VocabularyResult
from pathveil.studies.training_choice import beside_known, given_away
from pathveil.studies.vocabularies import described

VERBS = {  # of one finding, of several
    "holds": ("holds here", "hold here"),
    "fails": ("does not hold here", "do not hold here"),
    "open": ("cannot be decided with this much data",) * 2,
    "unjudged": (
        "was not judged: the study lacks what it compares",
        "were not judged: the study lacks what they compare",
    ),
}
SHORT_VERBS = VERBS | {"fails": ("does not", "do not"), "unjudged": ("was not judged", "were not judged")}


def answer(result: StudyResult) -> list[str]:
    """Up to four lines, which are one paragraph: which words to use under the tolerated leak, which training, which
    defence, and how many of the papers' findings hold here."""
    studies = result.studies
    words, training, defences = [], [], []
    if studies.vocabulary is not None:
        words.append(answer_on_words(studies.vocabulary))
    if studies.distribution is not None:
        training.append(answer_on_training(studies.distribution, first=not words))
    if studies.combined is not None:
        training.append(answer_on_both(studies.combined, first=not words and not training))
    if studies.defences is not None:
        defences.append(answer_on_defences(studies.defences, first=not words and not training))
    findings = []
    if result.findings:
        findings = [f"Of the papers' {len(result.findings)} findings {findings_counted(result.findings)}."]
    lines = (" ".join(filter(None, line)) for line in (words, training, defences, findings + warnings(result)))
    return [line for line in lines if line]


def reasons(result: StudyResult) -> list[str]:
    """The reasons in full, a paragraph a study, which findings hold, and what the studies warn of."""
    parts = result.studies.parts()
    strong = [] if result.studies.distribution is None else result.studies.distribution.findings_of_strong
    warned = [f"Of the {part.study} study: {one.text.rstrip('.')}." for part in parts for one in part.warnings]
    paragraphs = [part.recommendation.sentence for part in parts]
    paragraphs.append(findings_listed("Of the papers' findings:", result.findings))
    paragraphs.append(findings_listed("Of the strong adversary:", strong))
    return [paragraph for paragraph in [*paragraphs, " ".join(warned)] if paragraph]


def answer_on_words(study: VocabularyResult) -> str:
    """Which vocabulary, in a sentence."""
    use = study.recommendation.chosen
    words = "" if use is None else described(use.name, use.words, minimum=study.settings["minimum"])
    return _choice(study.recommendation, study.settings["tolerated"], "vocabulary", words=words, first=True)


def answer_on_training(study: DistributionResult, *, first: bool) -> str:
    """Which way of training that shares no reports, in a sentence."""
    found, tolerated = study.recommendation, study.settings["tolerated"]
    use = found.chosen
    if use is None:
        return found.sentence
    beside = beside_known(study.scores)
    compared = f" beside {listed(beside)}" if beside else ""
    thing = given_away(use.name, {arm: changes["mode"] for arm, changes in study.settings["arms"].items()})
    about = f"(macro F1 {use.macro:.3f}{compared}; AUC of its {thing} at most {rounded_up(use.auc.high)})"
    if not found.within:
        return f"{_none_keeps('training without shared reports', tolerated, first)}; {use.name} leaks least {about}."
    more = [step for step in found.steps if step.tolerated > tolerated and step.macro > use.macro]
    beyond = ""
    if more:
        beyond = f"; tolerating {rounded_up(more[-1].tolerated)} allows {more[-1].use} ({more[-1].macro:.3f})"
    return f"{_where(tolerated, first)}train {use.name}, if no reports may be shared {about}{beyond}."


def answer_on_both(study: CombinedResult, *, first: bool) -> str:
    """Which vocabulary with which training, in a sentence; and where that pools reports, which without."""
    found, tolerated = study.recommendation, study.settings["tolerated"]
    words = "" if found.chosen is None else f"{found.chosen.words:,} words"
    sentence = _choice(found, tolerated, "combination", words=words, first=first)
    apart = found.without_pooling
    if apart is None or apart.chosen is None:
        return sentence
    least = "none passes, and the least leaking is " if found.within and not apart.within else ""
    about = f"{least}{apart.chosen.name} ({_figures(apart.chosen)})"
    return f"{sentence[:-1]}; where reports may not be pooled, {about}."


def answer_on_defences(study: DefencesResult, *, first: bool) -> str:
    """Which way of training to release a model by, in a sentence, and what it changes beside the first way."""
    found, tolerated = study.recommendation, study.settings["tolerated"]
    use = next((point for point in study.points if point.name == found.use), None)
    if use is None:
        return found.sentence
    beside = next(point for point in study.points if point.vocabulary == use.vocabulary)
    about = f"macro F1 {use.macro.value:.3f}, AUC of the strongest attack at most {rounded_up(use.auc.high)}"
    if use.changes:
        leak, cost = beside.auc.value - use.auc.value, use.changes["macro"].value
        about += f"; beside “{beside.name}” it leaks {leak:.3f} {'less' if leak >= 0 else 'more'}".replace("-", "")
        about += f" and codes {abs(cost):.3f} {'better' if cost > 0 else 'worse'}"
    if not found.within:
        return f"{_none_keeps('way of training', tolerated, first)}; “{use.name}” leaks least ({about})."
    return f"{_where(tolerated, first)}a model trained with “{use.name}” may be released ({about})."


def _choice(found: Recommendation, tolerated: float, kind: str, *, words: str, first: bool) -> str:
    """What a recommendation says, in a sentence.

    >>> auc = {"value": 0.57, "low": 0.55, "high": 0.59}
    >>> one = {"name": "cases >= 9", "words": 300, "macro": 0.69, "auc": auc, "verdict": "pass", "front": True}
    >>> made = {"sentence": "…", "use": "cases >= 9", "verdicts": {"cases >= 9": "pass"}, "steps": []}
    >>> found = Recommendation(**made, within=True, candidates=[one])
    >>> _choice(found, 0.6, "vocabulary", words="300 words", first=False)
    'Where 0.6 is tolerated, use cases >= 9 (300 words, macro F1 0.690, AUC at most 0.590): it alone of 1 passes.'
    >>> _choice(Recommendation(**made, candidates=[one]), 0.6, "vocabulary", words="300 words", first=False)
    'No vocabulary surely keeps to 0.6; cases >= 9 leaks least (300 words, macro F1 0.690, AUC at most 0.590).'
    """
    use = found.chosen
    if use is None:
        return found.sentence
    about = f"({words}, {_figures(use)})"
    if not found.within:
        return f"{_none_keeps(kind, tolerated, first)}; {use.name} leaks least {about}."
    passed, every = sum(verdict == "pass" for verdict in found.verdicts.values()), len(found.verdicts)
    reason = f"{passed} of {every} {PLURAL[kind]} pass, and no other of them codes better"
    if passed == 1:
        reason = f"it alone of {every} passes"
    return f"{_where(tolerated, first)}use {use.name} {about}: {reason}."


def _where(tolerated: float, first: bool) -> str:
    limit = f"an attacker's AUC up to {tolerated:g} is tolerated (0.5 is guessing)"
    return f"Where {limit if first else f'{tolerated:g} is tolerated'}, "


def _none_keeps(kind: str, tolerated: float, first: bool) -> str:
    limit = f"an attacker's AUC to {tolerated:g} (0.5 is guessing)" if first else f"to {tolerated:g}"
    return f"No {kind} surely keeps {limit}"


def _figures(one: RatedCandidate) -> str:
    return f"macro F1 {one.macro:.3f}, AUC at most {rounded_up(one.auc.high)}"


def mark_of(finding: Finding) -> str:
    """Whether a finding holds, fails, is open or could not be judged: a name in ``VERBS``."""
    if finding.holds is None:
        return "unjudged" if finding.evidence.missing else "open"
    return "holds" if finding.holds else "fails"


def findings_listed(of: str, findings: Sequence[Finding]) -> str:
    """Which findings hold, which do not, which cannot be told and which the study cannot judge, in sentences."""
    sentences = []
    for mark, (one, several) in VERBS.items():
        ids = [finding.id for finding in findings if mark_of(finding) == mark]
        if ids:
            sentences.append(f"{listed(ids)} {several if len(ids) > 1 else one}.")
    return " ".join([of, *sentences]) if sentences else ""


def findings_counted(findings: Sequence[Finding]) -> str:
    """How many hold and how many do not, in a sentence without its full stop."""
    parts = []
    for mark, verbs in SHORT_VERBS.items():
        count = sum(mark_of(finding) == mark for finding in findings)
        if count or mark == "holds":
            parts.append(f"{count or 'none'} {verbs[count > 1]}")
    return listed(parts)


def warnings(result: StudyResult) -> list[str]:
    """What a reader must know first, in sentences: how many models were kept at their last epoch, and what else a study
    warns of. The studies' own words about epochs stand among the reasons."""
    caps = [cap for part in result.studies.parts() for cap in last_epochs(part)]
    sentences = []
    if last := sum(caps):
        was = "was kept at its last epoch" if last == 1 else "were kept at their last epoch"
        sentences.append(f"{last:,} of {len(caps):,} models {was} (†) and might gain from more.")
    others = [one.text for part in result.studies.parts() for one in part.warnings if one.kind != "last epoch"]
    return sentences + [f"{other[0].upper()}{other[1:].rstrip('.')}." for other in others]


def last_epochs(part: AnyResult) -> list[bool]:
    """Of each model whose epoch a study tells, whether it was kept at the last one it was given."""
    if isinstance(part, DefencesResult):
        return []
    if isinstance(part, VocabularyResult):
        return [row.at_cap for row in part.vocabularies]
    rows = part.traffic if isinstance(part, DistributionResult) else part.points
    return [cap for row in rows for cap in row.at_cap]
