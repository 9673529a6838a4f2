"""What each attack is called, and what it does in a sentence: for evidence, page and verdict.

>>> ATTACKS[LOSS]
'Records whose true code gets a high probability are called members (Yeom et al., 2018).'
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pathveil.auditing.evidence import Score
from pathveil.auditing.lira import Variance

LOSS, LABEL_ONLY, CLASSIFIERS = "loss", "label only", "shadow classifiers"
LIRA_ONLINE, LIRA_OFFLINE, RMIA_ONLINE, RMIA_OFFLINE = "LiRA online", "LiRA offline", "RMIA online", "RMIA offline"
LIRA_OUT_MODELS, LABEL_WITH_SHADOWS = "LiRA, out-models only", "label only, with shadows"
TAUGHT = ", taught code"  # behind an attack's name: it asks about the code that in-models answer most often
VARIANCES: dict[Variance, str] = {
    "shrunk": LIRA_ONLINE,
    "global": "LiRA online, global variance",
    "record": "LiRA online, record variance",
}
TAUGHT_VARIANCES: tuple[Variance, ...] = ("shrunk", "global")
ATTACKS = {
    LOSS: "Records whose true code gets a high probability are called members (Yeom et al., 2018).",
    "entropy": "Records on which the model is sure of itself, right or wrong, are called members.",
    "modified entropy": "As entropy, but being sure of a wrong code counts against membership (Song and Mittal, 2021).",
    "privacy risk": "The chance of membership given the modified entropy and the class, learned on the other half of "
    "the cases (Song and Mittal, 2021).",
    LABEL_ONLY: "Records whose most likely code is right are called members: all that labels give away.",
    LIRA_ONLINE: "Likelihood ratio of the model's confidence under shadow models that saw the record and under "
    "others that did not; variance shrunk towards the common one (Carlini et al., 2022).",
    "LiRA online, global variance": "The same with one variance for all records.",
    "LiRA online, record variance": "The same with one variance a record: weak with few shadows.",
    LIRA_OFFLINE: "How surprisingly confident the model is for one that never saw the record.",
    LIRA_OUT_MODELS: "The same with those of the auditor's shadow models that did not see the record.",
    RMIA_ONLINE: "How much more probable the record is under the model than under reference models (Zarifzadeh et al., "
    "2024); how probabilities are softened is tuned on the shadow models.",
    RMIA_OFFLINE: "The same with reference models that never saw the record; how far its hardness is discounted is "
    "tuned on the shadow models, too.",
    LABEL_WITH_SHADOWS: "Records whose most likely code is right more often than shadow models are that did not see "
    "them: what labels give away to an attacker with shadows.",
    "gradient norm": "Reports that would move the released weights little are called members: on weights alone.",
    "gradient norm beside like losses": "The same, held against reports on which the model is as sure.",
    CLASSIFIERS: "The vocabulary paper's attack: one classifier a class, trained on shadow models' answers "
    "(Shokri et al., 2017). Reported beside the others, never the verdict.",
}

ASKED_TWICE = (LIRA_ONLINE, VARIANCES["global"], LIRA_OUT_MODELS, RMIA_ONLINE, LABEL_WITH_SHADOWS)
ATTACKS |= {
    attack + TAUGHT: f"As {attack}, asked about the code that shadow models which saw the record answer most often, "
    "instead of the true one."
    for attack in ASKED_TWICE
}


def descriptions(
    scores: Iterable[Score], own_attacks: Mapping[str, Callable[..., Any]] | None = None
) -> dict[str, str]:
    """A sentence on each attack that was run; of one's own attack the first line of its docstring."""
    own = own_attacks or {}
    found = {}
    for name in dict.fromkeys(one.attack for one in scores):
        lines = (getattr(own.get(name), "__doc__", None) or "").strip().splitlines()
        found[name] = ATTACKS.get(name) or (lines[0] if lines else "An attack given by the auditor.")
    return found
