"""What a model's defence promises, as its bundle and its card say it.

A promise of differential privacy is about everything that was made from private cases. The weights are what the noise
protects; the list of words, the list of codes, and whatever was fitted on held-out cases are protected only where they
come from elsewhere or were made with noise of their own.

Teachers promise nothing that could be proved: the card says what they keep from the model and what they do not, and
that only an audit tells how much is left.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from pathveil.errors import BundleError, UsageError
from pathveil.formatting import counted, listed
from pathveil.results import Part
from pathveil.training.accounting import Privacy
from pathveil.training.defences import AnyDefence, DPSettings, OwnDefence, TeacherSettings, defence_named
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.words import Vocabulary

# AUC of the strongest membership attack on a model of a preset, halves of TCGA's reports (docs/training.md).
LEAK_OF_PRESET = {"default": 0.99, "small": 0.88, "paper": 0.92, "release": 0.63}


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


class TeachersStatement(Part):
    """What a model taught by models that had not seen the case learnt from."""

    kind: Literal["teachers"] = "teachers"
    teachers: int
    unseen: int  # teachers that had not seen a case, and answered for it
    lift: float
    sure: float
    contradicted: int | Literal["any"] = "any"  # bundles that do not say were taught all codes
    near: float
    word_dropout: float  # share of words that the student did not see in an epoch
    held_out_cases: int  # whose labels set temperatures, lifts and thresholds

    def __str__(self) -> str:
        agreed = "" if self.contradicted == "any" else ", where that is also its label"
        return (
            f"Taught by {self.teachers} teachers: a report's lesson is the answer of the {self.unseen} that had not "
            f"seen its case{agreed}; only an audit tells what is left."
        )


class OwnStatement(Part):
    """A function of somebody's own made what the model learnt from."""

    kind: Literal["own"] = "own"
    function: str  # module:function

    def __str__(self) -> str:
        return f"Defended by a function of your own, {self.function}; an audit needs the same one."


Statement = Annotated[DPStatement | TeachersStatement | OwnStatement, Field(discriminator="kind")]


def statement_of(defence: AnyDefence | None, *, word_dropout: float, held_out_cases: int) -> Statement | None:
    """What a bundle says of teachers or of a function of one's own; none without a defence."""
    if isinstance(defence, TeacherSettings):
        return TeachersStatement(**defence.model_dump(), word_dropout=word_dropout, held_out_cases=held_out_cases)
    return OwnStatement(function=defence.function) if isinstance(defence, OwnDefence) else None


def stated_defence(provenance: Mapping[str, Any]) -> Statement | None:
    """What a model's bundle says of its defence; none where it has none."""
    found = provenance.get("defence")
    return TypeAdapter(Statement).validate_python(found) if found else None


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


def shadow_settings(
    provenance: Mapping[str, Any], *, defence: str | Callable[..., Any] | None = None
) -> TrainingSettings:
    """The settings by which a model like this one is trained on other cases: with the noise it had, whatever ε that
    gives them. ``defence`` is the function of a model that was defended by one: code is run because the user names it,
    never because a bundle does."""
    if "settings" not in provenance:
        raise BundleError("the model does not say how it was trained, so no shadow can be; train it again")
    settings = TrainingSettings(**provenance["settings"])
    own, given = settings.defence, None if defence is None else defence_named(defence)
    if isinstance(own, OwnDefence) and given != own:
        raise UsageError(
            f"the model was defended by a function of somebody's own, {own.function}; shadows need the same one: "
            f"--defence {own.function}"
        )
    if given is not None and given != own:
        raise UsageError(f"the model was not defended by {defence_name(given)}; leave --defence away")
    if isinstance(own, DPSettings) and own.epsilon is not None:
        noise = DPStatement(**provenance["defence"]).training.noise
        settings = settings.changed(defence=own.changed(epsilon=None, noise=noise))
    return settings


def defence_name(defence: AnyDefence) -> str:
    return defence.function if isinstance(defence, OwnDefence) else defence.kind


def card_lines(provenance: Mapping[str, Any]) -> list[str]:
    """The card's paragraphs on how the model was defended."""
    found = stated_defence(provenance)
    if isinstance(found, DPStatement):
        return [*dp_lines(found), ""]
    if isinstance(found, TeachersStatement):
        return [*teacher_lines(found), ""]
    if isinstance(found, OwnStatement):
        return [
            f"**Defended by a function of somebody's own**, `{found.function}`, which changed what the networks learnt",
            "from. Nothing is promised; an audit with the same function tells what is left.",
            "",
        ]
    preset = provenance.get("preset")
    if preset in LEAK_OF_PRESET and provenance["settings"].get("defence") is None:
        return [
            "**Trained without a defence.** On public reports (TCGA) the strongest attack tells training cases from",
            f"others with an AUC of {LEAK_OF_PRESET[preset]:.2f} where a model is trained as preset `{preset}` does",
            f"it, and of {LEAK_OF_PRESET['release']:.2f} with preset `release` (0.50 is a coin). For a model that",
            "leaves the registry, take `release`.",
            "",
        ]
    return []


def teacher_lines(found: TeachersStatement) -> list[str]:
    sure = f", and none where they are less than {found.sure:.0%} sure" if found.sure else ""
    lines = [
        f"**Taught by {found.teachers} teachers**: the networks never read a report's own labels. Each case, with its "
        f"near-duplicates, was kept from {found.unseen} of the teachers; what these found most probable was taught in "
        f"the place of its labels{sure}. So the model is hardly surer of a training case than of another. Nothing is "
        "proved by that: only an audit tells how much is left.",
        "",
        "- read from the training cases: their text, with "
        f"{found.word_dropout:.0%} of the words hidden at a time; which tasks a report has a label of; the list of "
        "words; the list of codes",
    ]
    if found.held_out_cases:
        lines.append(
            "- fitted to true labels: temperatures, lifts, thresholds and scores, on "
            f"{counted(found.held_out_cases, 'case')} that the networks did not learn from"
        )
    return lines


def dp_lines(found: DPStatement) -> list[str]:
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
    return lines
