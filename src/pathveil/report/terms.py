"""What the report's words mean, for a reader who has met none of them: those that stand on the page and no others."""

from pathveil.study.result import Studies
from pathveil.study.vocabularies import kind_of

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
    ("Loss", "The attack that takes for members those reports of whose true codes the model is surest."),
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
DEFENDED = (
    (
        "World",
        "Half of the cases, drawn by lot, and one model trained on them. The attacker holds the models of the other "
        "worlds, which were trained in the same way, and is to tell who was in this one.",
    ),
    ("Rare class", "A subsite or histology of fewer than 25 reports (any class, where there is neither)."),
    (
        "Canary",
        "A report under wrong codes that stands for the most exposed ones. Planted once each: mislabelled in every "
        "task, the same with a near-duplicate under another case, or with one plausible wrong code.",
    ),
)


def terms(studies: Studies) -> list[tuple[str, str]]:
    """The terms of these studies, each with a sentence."""
    words, training, both = studies.vocabulary, studies.distribution, studies.combined
    found = [*GENERAL]
    names = [] if words is None else [row.strategy for row in words.vocabularies]
    names += [] if both is None else [point.strategy for point in both.points]
    names += [] if studies.defences is None else [point.vocabulary for point in studies.defences.points]
    minimum = next((study.settings["minimum"] for study in (words, both, studies.defences) if study is not None), 5)
    there = {kind_of(name) for name in names}
    for kind, shown, meaning in KINDS:
        if kind in there:
            found.append((shown, meaning.format(minimum=minimum)))
    found += ATTACKS if words is not None else ()
    modes = set() if training is None else {row.mode for row in training.scores}
    modes |= set() if both is None else {point.mode for point in both.points}
    found += [(mode, meaning) for mode, meaning in MODES.items() if mode in modes]
    found += PROBED if training is not None else PROBED[:1] if both is not None else ()
    if studies.defences is not None:
        found += [*DEFENDED, *(PROBED[1:] if training is None else ())]
    return found
