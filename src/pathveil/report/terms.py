"""What the report's words mean, for a reader who has met none of them: those that stand on the page and no others.

>>> kept("MI100", 100, 5), kept("I3", 2276, 5), kept("B", 2735, 5)
('the 100 words that tell most', '2,276 words of 3 registries or more', '2,735 words used 5 times or more')
>>> kept("cases >= 9", 800, 5)
'800 words'
"""

from collections.abc import Mapping
from typing import Any

from pathveil.report.vocabulary import kind_of

GENERAL = (
    ("Micro F1", "The share of unseen reports that are coded rightly."),
    ("Macro F1", "The mean of the F1 of every code: a rare code weighs as much as a common one."),
    ("Member", "A report that the model was trained on. Who can tell members knows whose reports a registry holds."),
    (
        "Attacker's AUC",
        "How well an attacker who holds the model tells members from other reports: 0.5 is guessing, 1 is certainty. "
        "“At most” is the upper end of its 95 % interval.",
    ),
)
KINDS = (  # of vocabularies: as they are named, and what they keep
    ("baseline", "B", "Baseline: every word that the training reports use at least {minimum} times."),
    ("intersection", "I2, I3 …", "Intersection: the words of at least two, three … of the registries that train."),
    (
        "mutual information",
        "MI and a number",
        "As many words as it says: those that tell most about the codes (mutual information).",
    ),
)
ATTACKS = (
    ("Fold", "One registry is left to the attacker, and the others train the model; each registry in its turn."),
    ("Shadow model", "A model that the attacker trains on reports of their own, to learn how members are answered."),
    ("Loss threshold", "The attack that takes for members those reports of whose true codes the model is surest."),
    ("RMIA", "The same, measured against shadow models that have not seen the report (robust membership inference)."),
)
MODES = {
    "single": "Each registry trains alone on its own reports.",
    "centralized": "All reports in one place: what registries may not do, and what the others are held against.",
    "adversarial": "The distribution paper's: an encoder that travels between registries and a private one in each; an "
    "adversary is to keep the registry out of what travels.",
    "strong": "The same with an adversary that is strong enough to do so.",
    "fedavg": "One model that all registries train at once, averaged after each round.",
    "cyclic": "One model that goes from registry to registry.",
    "no-adversary": "Adversarial training without its adversary.",
    "no-orthogonality": "Adversarial training without the term that holds the two encoders apart.",
}
PROBED = (
    (
        "Probe",
        "A fresh classifier that is to name a report's registry from the features that travel. What the true label "
        "alone tells is no fault of the features.",
    ),
    ("TPR at 1 % FPR", "The share of members that are found where one other report in a hundred is taken for one."),
)


def terms(studies: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The terms of these studies, each with a sentence."""
    found = [*GENERAL]
    names = [row["strategy"] for row in studies.get("vocabulary", {}).get("vocabularies", ())]
    names += [point["strategy"] for point in studies.get("combined", {}).get("points", ())]
    minimum = next((study["settings"]["minimum"] for study in studies.values() if "minimum" in study["settings"]), 5)
    there = {kind_of(name) for name in names}
    for kind, shown, meaning in KINDS:
        if kind in there:
            found.append((shown, meaning.format(minimum=minimum)))
    found += ATTACKS if "vocabulary" in studies else ()
    modes = {row["mode"] for row in studies.get("distribution", {}).get("scores", ())}
    modes |= {point["mode"] for point in studies.get("combined", {}).get("points", ())}
    found += [(mode, meaning) for mode, meaning in MODES.items() if mode in modes]
    found += PROBED if "distribution" in studies else PROBED[:1] if "combined" in studies else ()
    return found


def kept(name: str, words: int, minimum: int) -> str:
    """What a vocabulary of this name holds, in a few words."""
    match kind_of(name):
        case "mutual information":
            return f"the {words:,} words that tell most"
        case "intersection":
            return f"{words:,} words of {name[1:]} registries or more"
        case "baseline":
            return f"{words:,} words used {minimum} times or more"
    return f"{words:,} words"
