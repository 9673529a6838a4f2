"""Which way of training to use where registries may share no reports: the distribution study's recommendation.

A way of training is judged by what leaves a registry. Of averaged and cyclic training that is the whole model, of
shared/private training the encoder, which is attacked under a head that was trained on other reports.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from pathveil.federation.run import MODES
from pathveil.studies.recommendation import Candidate, none_codes, recommendation
from pathveil.studies.rows import Recommendation
from pathveil.studies.tables import DistributionResult, MembershipRow, ProbeRow, RegistryScore

KNOWN = {"centralized": "centrally", "single": "each alone"}  # what a way of sharing is held against
WHOLE = ("centralized", "fedavg", "cyclic")  # modes whose whole model is given away, not its encoder alone


def recommend_training(
    scores: Sequence[RegistryScore],
    membership: Sequence[MembershipRow],
    probes: Sequence[ProbeRow],
    *,
    arms: Mapping[str, str],
    words: int,
    tolerated: float,
) -> Recommendation:
    """Which way of training that shares no reports to use under this appetite; ``arms`` names the mode behind each
    arm of the study's own."""
    offered = training_on_offer(scores, arms)
    sentence = _best_f1(scores, membership, probes, offered, arms)
    candidates = []
    for mode in offered:
        leaks = _leaks(membership, mode, arms)
        if leaks:
            floor = float(np.mean([row.floor for row in scores if row.mode == mode]))
            candidates.append(Candidate(mode, words, _scores_of(scores, mode), leaks, floor))
    if not candidates:
        return Recommendation(sentence=sentence, steps=[])
    if not any(one.codes for one in candidates):
        sentence = none_codes(candidates, kind="way of training")
    return recommendation(candidates, tolerated=tolerated, sentence=sentence)


def macro_by_mode(scores: Sequence[RegistryScore]) -> dict[str, float]:
    """Mean macro F1 of each mode."""
    found: dict[str, list[float]] = {}
    for row in scores:
        found.setdefault(row.mode, []).append(row.macro.value)
    return {mode: sum(values) / len(values) for mode, values in found.items()}


def beside_known(scores: Sequence[RegistryScore]) -> list[str]:
    """The macro F1 of training centrally and of each registry alone, where the study has them, in words."""
    means = macro_by_mode(scores)
    return [f"{means[mode]:.3f} {words}" for mode, words in KNOWN.items() if mode in means]


def training_on_offer(scores: Sequence[RegistryScore], arms: Mapping[str, str]) -> list[str]:
    """The modes, and the study's own arms, that share no reports and make one model; an ablation is not on offer."""
    on_offer = [mode for mode in (*MODES, *arms) if mode not in KNOWN]
    return [mode for mode in macro_by_mode(scores) if mode in on_offer]


def given_away(mode: str, arms: Mapping[str, str]) -> str:
    """What leaves a registry: the whole model, or the encoder."""
    return "model" if arms.get(mode, mode) in WHOLE else "encoder"


def _attacks(membership: Sequence[MembershipRow], mode: str, arms: Mapping[str, str]) -> list[MembershipRow]:
    """The attacks on what a mode gives away."""
    model = "as trained" if given_away(mode, arms) == "model" else "encoder, public head"
    return [row for row in membership if row.mode == mode and row.model == model and row.auc is not None]


def _leaks(
    membership: Sequence[MembershipRow], mode: str, arms: Mapping[str, str]
) -> dict[str, tuple[float, float, float]]:
    """The attacker's AUC with its ends, by seed."""
    rows = [(row.seed, row.auc) for row in _attacks(membership, mode, arms)]
    return {str(seed): (auc.value, auc.low, auc.high) for seed, auc in rows if auc is not None}


def _scores_of(scores: Sequence[RegistryScore], mode: str) -> dict[str, dict[str, float]]:
    """Macro F1 by task, and by registry and seed."""
    tasks: dict[str, dict[str, float]] = {}
    for row in scores:
        if row.mode == mode:
            tasks.setdefault(row.task, {})[f"{row.registry} {row.seed}"] = row.macro.value
    return tasks


def _best_f1(
    scores: Sequence[RegistryScore],
    membership: Sequence[MembershipRow],
    probes: Sequence[ProbeRow],
    offered: Sequence[str],
    arms: Mapping[str, str],
) -> str:
    """Which way of training codes best, with what it is compared to and what its features betray."""
    if not offered:
        return ""
    means = macro_by_mode(scores)
    best = max(offered, key=means.__getitem__)
    beside = beside_known(scores)
    sentence = f"Of the ways that share no reports, {best} codes best: macro F1 {means[best]:.3f}"
    sentence += f" ({' and '.join(beside)})" if beside else ""
    own = [row for row in probes if row.mode == best]
    if own:
        named = np.mean([row.best for row in own])
        by_label = np.mean([max(row.chance, row.label or 0.0) for row in own])
        sentence += f"; a fresh probe names the registry of {named:.0%} of reports from its features"
        sentence += f", where the label alone tells {by_label:.0%}"
    leaks = [value for value, _, _ in _leaks(membership, best, arms).values()]
    if leaks:
        thing = given_away(best, arms)
        sentence += f", and an attacker who has its {thing} tells members with an AUC of {np.mean(leaks):.3f}"
    return f"{sentence}."


def training_summary(study: DistributionResult) -> str:
    """Mean F1 a mode and task over registries and seeds; what the features tell beside what they are good for, and what
    was sent; what to know before the result is used."""
    lines = ["", f"{'mode':18}{'task':12}{'micro F1':>10}{'macro F1':>10}"]
    modes = list(dict.fromkeys(row.mode for row in study.scores))
    for mode in modes:
        rows = [row for row in study.scores if row.mode == mode]
        for task in dict.fromkeys(row.task for row in rows):
            own = [row for row in rows if row.task == task]
            micro, macro = np.mean([row.micro.value for row in own]), np.mean([row.macro.value for row in own])
            lines.append(f"{mode:18}{task:12}{micro:10.3f}{macro:10.3f}")
    if study.probe:
        heads = f"{'probe':>7}{'largest':>9}{'label':>7}{'micro, macro F1':>18}{'norm':>8}{'AUC':>7}"
        lines += ["", f"{'mode':18}{heads}{'rounds':>8}{'MB to the hub':>15}"]
        lines += [_probe_line(study, mode) for mode in modes if any(row.mode == mode for row in study.probe)]
        lines += [
            "Of shared features, on unseen cases: how many registries a fresh probe names; always naming the largest;",
            "by the true label alone; F1 of fresh heads on them (far below the modes' own: they are empty)",
            "and norm; the AUC by which an attacker tells members under a public head. Means over seeds.",
        ]
    for row in study.traffic:
        for loss in row.epsilon:
            lines.append(f"{row.mode}, seed {row.seed}: the privacy loss ε of a site's updates is {loss:.3g}")
    return "\n".join([*lines, "", *(f"Note: {warning.text}." for warning in study.warnings)])


def _probe_line(study: DistributionResult, mode: str) -> str:
    """A mode's probe, the worth of its features, the leak of its encoder and its traffic, means over seeds."""
    probes = [row for row in study.probe if row.mode == mode]
    probe, largest, norm = (np.mean([getattr(row, name) for row in probes]) for name in ("best", "chance", "norm"))
    label = np.mean([np.nan if row.label is None else row.label for row in probes])
    heads = [own for row in probes for own in row.head.values()]
    good = f"{np.mean([own.micro for own in heads]):.3f}, {np.mean([own.macro for own in heads]):.3f}" if heads else "–"
    public = [row for row in study.membership if (row.mode, row.model) == (mode, "encoder, public head")]
    found = [row.auc.value for row in public if row.auc is not None]
    auc = f"{np.mean(found):.3f}" if found else "–"
    sent = [row for row in study.traffic if row.mode == mode]
    rounds, size = (np.mean([getattr(row, name) for row in sent]) for name in ("rounds", "bytes_to_hub"))
    figures = f"{probe:7.3f}{largest:9.3f}{label:7.3f}{good:>18}{norm:8.2g}{auc:>7}"
    return f"{mode:18}{figures}{rounds:8,.0f}{size / 1e6:15,.1f}"
