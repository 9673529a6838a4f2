"""What a study's report opens with: a paragraph that says what to use under which appetite and why, and behind it the
whole of the reasons.

The paragraph is of the shortest sentences that carry it; every number that it leaves out stands in ``why``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pathveil.report import distribution, vocabulary
from pathveil.report.epochs import in_full, warnings
from pathveil.report.findings import counted, judged, of_strong
from pathveil.report.tables import Row, told
from pathveil.report.terms import kept
from pathveil.study import combined
from pathveil.study.recommendation import PLURAL, Candidate, rounded_up, steps
from pathveil.wording import listed


def answer(result: Mapping[str, Any]) -> list[str]:
    """Up to three lines, which are one paragraph: which words to use under the tolerated leak, which training, and how
    many of the papers' findings hold here."""
    studies, findings = told(result)["studies"], result["findings"]
    words, training = [], []
    if "vocabulary" in studies:
        words.append(of_words(studies["vocabulary"]))
    if "distribution" in studies:
        training.append(of_training(studies["distribution"], first=not words))
    if "combined" in studies:
        training.append(of_both(studies["combined"], first=not words and not training))
    held = [f"Of the papers' {len(findings)} findings {counted(findings)}."] if findings else []
    lines = (" ".join(filter(None, line)) for line in (words, training, held + warnings(result)))
    return [line for line in lines if line]


def why(result: Mapping[str, Any]) -> list[str]:
    """The reasons in full, a paragraph a study, and which findings hold."""
    studies = told(result)["studies"]
    reasons = [studies[name]["recommendation"]["sentence"] for name in ("vocabulary", "combined") if name in studies]
    if "distribution" in studies:
        reasons.insert("vocabulary" in studies, distribution.advice(studies["distribution"]))
    reasons.append(" ".join(judged("Of the papers' findings:", result["findings"])))
    reasons.append(" ".join(judged("Of the strong adversary:", of_strong(studies))))
    return list(filter(None, [*reasons, " ".join(in_full(result))]))


def of_words(study: Row) -> str:
    """Which vocabulary, in a sentence."""
    return _chosen(study, vocabulary.scored(study), "vocabulary", first=True)


def of_training(study: Row, *, first: bool) -> str:
    """Which way of training that shares no reports, in a sentence."""
    able, means = distribution.candidates(study), distribution.macros(study)
    tolerated = study["settings"].get("tolerated", distribution.TOLERATED)
    if not able:
        return distribution.advice(study)
    ladder = steps(able)
    within = [step for step in ladder if step["from"] <= tolerated]
    use = next(one for one in able if one.name == (within or ladder)[-1 if within else 0]["use"])
    beside = [f"{means[mode]:.3f} {words}" for mode, words in distribution.KNOWN.items() if mode in means]
    compared = f" beside {listed(beside)}" if beside else ""
    thing, _ = distribution.given_away(study, use.name)
    about = f"(macro F1 {use.macro:.3f}{compared}; AUC of its {thing} at most {rounded_up(use.auc['high'])})"
    if not within:
        return f"{_none('training without shared reports', tolerated, first)}; {use.name} leaks least {about}."
    more = [step for step in ladder if step["from"] > tolerated and step["macro"] > use.macro]
    beyond = (
        f"; tolerating {rounded_up(more[-1]['from'])} allows {more[-1]['use']} ({more[-1]['macro']:.3f})"
        if more
        else ""
    )
    return f"{_where(tolerated, first)}train {use.name}, if no reports may be shared {about}{beyond}."


def of_both(study: Row, *, first: bool) -> str:
    """Which vocabulary with which training, in a sentence; and where that pools reports, which without."""
    points = study["points"]
    sentence = _chosen(study, [combined.candidate(point) for point in points], "combination", first=first)
    use = study["recommendation"].get("use")
    apart = [point for point in points if point["mode"] != "centralized"]
    candidates = {one.name: one for one in map(combined.candidate, apart)}
    if not candidates or use is None or use in candidates:
        return sentence
    found = combined.recommended(apart, tolerated=study["settings"]["tolerated"])
    other = candidates[found["use"]]
    about = f"{other.name} ({_figures(other)})"
    if found["within"]:
        return f"{sentence[:-1]}; where reports may not be pooled, {about}."
    least = "" if not study["recommendation"]["within"] else "none passes, and the least leaking is "
    return f"{sentence[:-1]}; where reports may not be pooled, {least}{about}."


def _chosen(study: Row, candidates: Sequence[Candidate], kind: str, *, first: bool) -> str:
    """What the recommendation says, in a sentence.

    >>> one = Candidate("cases >= 9", 300, {"site": {"R1": 0.69}}, {"R1": (0.57, 0.55, 0.59)})
    >>> found = {"use": "cases >= 9", "within": True, "verdicts": {"cases >= 9": "pass"}, "steps": [], "sentence": "…"}
    >>> study = {"settings": {"tolerated": 0.6}, "recommendation": found}
    >>> _chosen(study, [one], "vocabulary", first=False)
    'Where 0.6 is tolerated, use cases >= 9 (300 words, macro F1 0.690, AUC at most 0.590): it alone of 1 passes.'
    >>> _chosen(study | {"recommendation": found | {"within": False}}, [one], "vocabulary", first=False)
    'No vocabulary surely keeps to 0.6; cases >= 9 leaks least (300 words, macro F1 0.690, AUC at most 0.590).'
    """
    found, tolerated = study["recommendation"], study["settings"]["tolerated"]
    use = next((one for one in candidates if one.name == found.get("use")), None)
    if use is None:
        return found["sentence"]
    minimum = study["settings"].get("minimum", 5)
    words = kept(use.name, use.words, minimum) if kind == "vocabulary" else f"{use.words:,} words"
    about = f"{use.name} {{}}({words}, {_figures(use)})"
    if not found["within"]:
        return f"{_none(kind, tolerated, first)}; {about.format('leaks least ')}."
    passed, every = sum(verdict == "pass" for verdict in found["verdicts"].values()), len(found["verdicts"])
    reason = f"{passed} of {every} {PLURAL[kind]} pass, and no other of them codes better"
    if passed == 1:
        reason = f"it alone of {every} passes"
    return f"{_where(tolerated, first)}use {about.format('')}: {reason}."


def _where(tolerated: float, first: bool) -> str:
    told = f"an attacker's AUC up to {tolerated:g} is tolerated (0.5 is guessing)"
    return f"Where {told if first else f'{tolerated:g} is tolerated'}, "


def _none(kind: str, tolerated: float, first: bool) -> str:
    kept = f"an attacker's AUC to {tolerated:g} (0.5 is guessing)" if first else f"to {tolerated:g}"
    return f"No {kind} surely keeps {kept}"


def _figures(one: Candidate) -> str:
    return f"macro F1 {one.macro:.3f}, AUC at most {rounded_up(one.auc['high'])}"
