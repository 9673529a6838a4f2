"""What a model's defence promises, as its bundle and its card say it.

A promise of differential privacy is about everything that was made from private cases. The weights are what the noise
protects; the list of words, the list of codes, and whatever was fitted on held-out cases are protected only where they
come from elsewhere or were made with noise of their own.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pathveil.results import Part
from pathveil.training.accounting import Privacy
from pathveil.training.defences import DPSettings
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.words import Vocabulary
from pathveil.wording import counted, listed


class DPStatement(Part):
    """A differentially private model's promise, and what it does not cover."""

    kind: Literal["dp"] = "dp"
    epsilon: float | None  # of weights and words together, as far as they are covered; None: no noise
    delta: float
    unit: str = "case"
    training: Privacy
    words: Literal["public", "private set union", "training text"]
    classes: Literal["public", "training labels"]
    held_out_cases: int
    not_covered: list[str]  # each a phrase; empty where the promise is about the whole bundle

    def __str__(self) -> str:
        if self.epsilon is None:
            return "Gradients were clipped a case at a time, without noise: nothing is promised."
        rest = f"; not covered: {listed(self.not_covered)}" if self.not_covered else ", for the whole bundle"
        return f"Differentially private for a {self.unit}: ε = {self.epsilon:.3g}, δ = {self.delta:.2g}{rest}."


def dp_statement(privacy: Privacy, vocabulary: Vocabulary, *, public_classes: bool, held_out_cases: int) -> DPStatement:
    """Put together from how a model and its words were made.

    Words chosen with noise spend some of the promise too: what two steps give away adds up.
    """
    chosen = vocabulary.parameters
    words: Literal["public", "private set union", "training text"] = "training text"
    epsilon, delta = privacy.epsilon, privacy.delta
    if chosen.get("public"):
        words = "public"
    elif chosen.get("mechanism") == "policy Gaussian":
        words = "private set union"
        epsilon = None if epsilon is None else epsilon + float(chosen["epsilon"])
        delta += float(chosen["delta"])
    open_ends = []
    if words == "training text":
        open_ends.append("the list of words, chosen from the training text")
    if not public_classes:
        open_ends.append("the list of codes, which are the labels of the training cases")
    if held_out_cases:
        open_ends.append(
            "temperatures, lifts, thresholds, scores and history, made with "
            f"{counted(held_out_cases, 'case')} held out of training"
        )
    if open_ends:
        open_ends.append("the hash of the corpus")
    return DPStatement(
        epsilon=epsilon,
        delta=delta,
        training=privacy,
        words=words,
        classes="public" if public_classes else "training labels",
        held_out_cases=held_out_cases,
        not_covered=open_ends,
    )


def shadow_settings(provenance: Mapping[str, Any]) -> TrainingSettings:
    """The settings by which a model like this one is trained on other cases: with the noise it had, whatever ε that
    gives them."""
    settings = TrainingSettings(**provenance["settings"])
    if isinstance(settings.defence, DPSettings) and settings.defence.epsilon is not None:
        noise = DPStatement(**provenance["defence"]).training.noise
        settings = settings.changed(defence=settings.defence.changed(epsilon=None, noise=noise))
    return settings


def dp_promise(provenance: Mapping[str, Any]) -> DPStatement | None:
    """What a model's bundle promises; none where it is not differentially private."""
    found = provenance.get("defence") or {}
    return DPStatement(**found) if found.get("kind") == "dp" else None


def card_lines(provenance: Mapping[str, Any]) -> list[str]:
    """The card's paragraph on how the model was defended."""
    found = dp_promise(provenance)
    if found is None:
        return []
    how = found.training
    if found.epsilon is None:
        promise = "**Trained without noise**: gradients are clipped a case at a time, and nothing is promised."
    else:
        promise = (
            f"**Differentially private**: ε = {found.epsilon:.3g}, δ = {found.delta:.2g}, for a {found.unit} with all "
            "its reports. Whether a case was among the training cases changes the chance of any outcome by a factor of "
            "at most exp(ε), but for a chance of δ."
        )
    lines = [
        promise,
        "",
        f"- weights: {how.steps:,} steps, a case in each with a chance of {how.sampling_rate:.3g}, its gradient "
        f"clipped to {how.clip:g}, noise of {how.noise:.3g} times that; word vectors {how.embeddings}; accountant "
        f"{how.accountant}",
        f"- words: {found.words}; codes: {found.classes}",
    ]
    if found.not_covered:
        lines.append(f"- not covered by ε: {listed(found.not_covered)}")
    else:
        lines.append("- ε covers all that this bundle holds; the numbers of cases and reports are taken to be public")
    return [*lines, ""]
