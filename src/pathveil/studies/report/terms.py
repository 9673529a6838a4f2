"""What the report's words mean, for a reader who has met none of them: those that stand on the page and no others.

A term is explained where it stands: the first time in each part of the page it is marked, its meaning is shown to a
mouse or a keyboard, and its number leads to the list at the end, which is what paper has.

>>> words = Glossary([("Probe", "A fresh classifier."), ("Fold", "One registry is left out.")])
>>> print(words.mark("<a probe, and the probe again"))
&lt;a <a class="term" href="#term-1" data-n="1" title="A fresh classifier.">probe</a>, and the probe again
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pathveil.studies.result import Studies
from pathveil.studies.vocabularies import kind_of

if TYPE_CHECKING:
    from markupsafe import Markup

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


# How a term stands in text, where that is not its own name, whatever its capitals.
FORMS = {
    "Attacker's AUC": "AUC",
    "Member": "(?:non-)?members?",
    "Shadow model": "shadow models?|shadows",
    "Fold": "folds?",
    "World": "worlds?",
    "Canary": "canary|canaries",
    "Rare class": "rare class(?:es)?|rare codes?",
    "Probe": "probes?",
    "B": "(?-i:B)",
    "I2, I3 …": r"(?-i:I\d+)",
    "MI and a number": r"(?-i:MI\d+)",
    "Loss": "(?-i:loss)",
}


class Glossary:
    """Marks terms in text; ``begin`` starts a part of the page, in which each term is marked once."""

    def __init__(self, terms: Sequence[tuple[str, str]]):
        self.terms = list(terms)
        forms = [FORMS.get(name, re.escape(name)) for name, _ in self.terms]
        # Longer forms first: "macro F1" is not to be found as another term's part.
        order = sorted(range(len(forms)), key=lambda place: -len(forms[place]))
        parts = "|".join(f"(?P<t{place}>{forms[place]})" for place in order)
        self.pattern = re.compile(rf"(?<![\w-])(?:{parts})(?![\w-])", re.IGNORECASE) if forms else None
        self.seen: set[int] = set()

    def begin(self) -> str:
        self.seen = set()
        return ""

    def mark(self, text: str, *, link: bool = True) -> "Markup":
        """The text, escaped, with terms that have not been met in this part marked. Without a ``link`` they only have
        their number and meaning: a heading that sorts is no place for one."""
        from markupsafe import Markup, escape

        made, end = Markup(""), 0
        for found in self.pattern.finditer(text) if self.pattern else ():
            place = int(str(found.lastgroup)[1:])
            if place in self.seen:
                continue
            self.seen.add(place)
            tag, place_of = ("a", Markup(' href="#term-{}"').format(place + 1)) if link else ("span", Markup(""))
            about = Markup('<{0} class="term"{1} data-n="{2}" title="{3}">{4}</{0}>')
            made += escape(text[end : found.start()])
            made += about.format(tag, place_of, place + 1, self.terms[place][1], found[0])
            end = found.end()
        return made + escape(text[end:])
