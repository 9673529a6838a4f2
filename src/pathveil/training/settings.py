"""What a training run can be told, and the presets that say it all at once.

>>> PRESETS["paper"].filters, PRESETS["small"].filters
(300, 100)
>>> PRESETS["small"].changed(epochs=3).epochs
3
>>> PRESETS["small"].changed(epoch=3)
Traceback (most recent call last):
pathveil.errors.UsageError: training settings: 'epoch': there is no such setting; did you mean 'epochs'?
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pathveil.errors import UsageError
from pathveil.settings import Settings
from pathveil.training.defences import AnyDefence, DPSettings, OwnDefence, TeacherSettings, defence_named


def split_windows(value: Any) -> Any:
    """Lengths of windows as they are written on a command line.

    >>> split_windows("3, 4,5"), split_windows((2, 3))
    (['3', '4', '5'], (2, 3))
    """
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def check_windows(windows: tuple[int, ...]) -> tuple[int, ...]:
    if not windows or min(windows) < 1:
        raise ValueError("windows must be lengths of at least one word, such as 3,4,5")
    return windows


Windows = Annotated[tuple[int, ...], BeforeValidator(split_windows), AfterValidator(check_windows)]


class NetworkSettings(Settings):
    """A network's shape; the defaults are the papers' network at a CPU's size."""

    dim: int = Field(300, ge=1, description="numbers a word's vector has")
    windows: Windows = Field((3, 4, 5), description="words a convolution sees at a time")
    filters: int = Field(100, ge=1, description="filters for each window")
    dropout: float = Field(0.5, ge=0, lt=1, description="share of pooled features dropped in training")

    def shape(self) -> dict[str, Any]:
        """What ``MTCNN`` takes beside the words and the classes."""
        return {name: getattr(self, name) for name in NetworkSettings.model_fields}


class TrainingSettings(NetworkSettings):
    """One model's shape and how it is trained."""

    batch_size: int = Field(64, ge=1, description="documents a step learns from")
    order: Literal["random", "length"] = Field("random", description="how documents are gathered into batches")
    optimiser: Literal["adam", "adadelta"] = Field("adam", description="adam or adadelta")
    learning_rate: float = Field(1e-3, gt=0, description="1 is usual for Adadelta")
    falling: bool = Field(False, description="whether the learning rate falls to zero, evenly, over all epochs")
    clip: float | None = Field(None, gt=0, description="largest norm of the gradient")
    epochs: int = Field(50, ge=1, description="at most, or exactly where patience is None")
    fewest_steps: int = Field(0, ge=0, description="steps at least: few documents are gone through in more epochs")
    patience: int | None = Field(
        5, ge=1, description="epochs without a lower validation loss before stopping; None runs all epochs"
    )
    validation_share: float = Field(0.1, ge=0, lt=1, description="of the training cases, held out to stop by")
    class_balance: float = Field(0.0, ge=0, le=1, description="power of the class weights: 0 none, 1 classes alike")
    smoothing: float = Field(0.0, ge=0, lt=1, description="share of a label spread over all classes")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of words read as unknown in training")
    vectors: float = Field(
        0.0,
        ge=0,
        description="size of the numbers of word vectors from the training text to start at; 0 starts at random",
    )
    members: int = Field(1, ge=1, description="networks that are averaged, each with validation cases of its own")
    linear: bool = Field(False, description="a logistic regression on word counts beside the networks")
    bfloat16: bool = Field(
        False,
        description="whether a processor that can multiplies in bfloat16, less exact and faster, as GPUs do",
    )
    robustness: float = Field(
        0.0, ge=0, lt=1, description="how much less a label counts that the network finds improbable: 0 not, 1 fully"
    )
    defence: TeacherSettings | DPSettings | OwnDefence | None = Field(
        None, discriminator="kind", description="a way of training that gives less away, with its settings"
    )

    def changed(self, **changes: Any) -> Self:
        """These settings with some of them changed. Who names a number of epochs means it, for few documents too."""
        return super().changed(**({"fewest_steps": 0} | changes if "epochs" in changes else changes))

    def for_documents(self, documents: float, *, held_out: float | None = None) -> Self:
        """These settings for so many documents, of which ``validation_share`` or so many are held out: more epochs
        where there would be too few steps.

        >>> TrainingSettings(epochs=15, fewest_steps=650, batch_size=100).for_documents(1000).epochs
        73
        """
        held_out = documents * self.validation_share if held_out is None else held_out
        steps = max(1, math.ceil((documents - held_out) / self.batch_size))
        return self.changed(epochs=max(self.epochs, math.ceil(self.fewest_steps / steps)))

    def falls_over(self, documents: int) -> int | None:
        """Steps in which the learning rate falls to zero, for so many documents; none where it stays."""
        return self.epochs * -(-documents // self.batch_size) if self.falling else None

    @model_validator(mode="after")
    def stopping_needs_cases(self) -> "TrainingSettings":
        if self.patience is not None and self.validation_share == 0:
            raise ValueError("early stopping needs validation cases: set validation_share above 0, or patience to None")
        if self.members * self.validation_share > 1:
            raise ValueError("members times validation_share must be at most 1: each network holds out its own cases")
        return self

    @model_validator(mode="after")
    def privacy_is_not_undone(self) -> "TrainingSettings":
        if isinstance(self.defence, DPSettings):
            for name, (wanted, reason) in UNDONE_BY.items():
                if getattr(self, name) != wanted:
                    raise ValueError(f"differential privacy needs {name} = {wanted}: {reason}")
        return self


# What would read private cases beside the noised gradient, and the value that keeps it from doing so.
UNDONE_BY = {
    "patience": (None, "stopping by private cases is not covered by epsilon; set the number of epochs beforehand"),
    "members": (1, "each network reads every case, and what they give away adds up"),
    "linear": (False, "the linear view is fitted without noise"),
    "vectors": (0, "word vectors of the training text are made without noise"),
    "class_balance": (0, "class weights are counts of private cases"),
    "clip": (None, "the gradient of each case is clipped by the defence's own clip"),
    "robustness": (0, "the slopes of private training are those of the plain loss"),
    "falling": (False, "the steps of private training are of one size"),
    "fewest_steps": (0, "the noise is for a number of steps that is known beforehand"),
}

PRESETS = {
    # The network both papers train: 300 filters for each window, nothing added. For their figures, not for new models.
    "paper": TrainingSettings(filters=300),
    # One network; hidden words and word vectors to start at make it both better and less leaking (docs/training.md).
    "small": TrainingSettings(word_dropout=0.3, vectors=0.1, bfloat16=True),
    # What a small corpus gains most from (docs/findings.md): smoothed labels, words dropped, word vectors to start at,
    # an average of networks, and the linear view beside them. Large steps that fall to zero need few epochs and no
    # early stopping (docs/training.md).
    "default": TrainingSettings(
        smoothing=0.1,
        word_dropout=0.1,
        vectors=0.1,
        members=3,
        linear=True,
        bfloat16=True,
        batch_size=128,
        learning_rate=8e-3,
        falling=True,
        epochs=15,
        fewest_steps=650,
        patience=None,
    ),
    # Differentially private training: large batches, few steps, nothing that reads cases beside the noised gradient.
    "private": TrainingSettings(
        dropout=0.0, batch_size=512, learning_rate=2e-3, epochs=40, patience=None, defence=DPSettings(epsilon=8.0)
    ),
    # A model that may leave the building (docs/defences.md): one network taught by models that never saw the case, with
    # half of the words dropped and little heed to lessons that are probably wrong; rare classes count for more.
    "release": TrainingSettings(
        word_dropout=0.5, vectors=0.1, class_balance=0.5, robustness=0.65, bfloat16=True, defence=TeacherSettings()
    ),
}


PRESET_OF = {"teachers": "release", "dp": "private"}  # of a defence, where no preset is named


def preset_settings(preset: str, **changes: Any) -> TrainingSettings:
    """A preset's settings with some of them changed; a mistake is one sentence."""
    if preset not in PRESETS:
        raise UsageError(f"preset {preset} is not known; expected {', '.join(PRESETS)}")
    return PRESETS[preset].changed(**changes)


def settings_for(
    preset: str | None = None, defence: str | Callable[..., Any] | AnyDefence | None = None, **changes: Any
) -> tuple[str, TrainingSettings]:
    """A preset's name and its settings with a defence (``defence_named``) and other changes.

    Without a preset, the defence's own (``release`` for teachers, ``private`` for dp); without a defence, the preset's.

    >>> settings_for()[0], settings_for(defence="teachers")[0], settings_for("small", "teachers")[1].defence.kind
    ('default', 'release', 'teachers')
    >>> settings_for("release", "none")[1].defence is None
    True
    """
    own = defence_named(defence) if defence is not None else None
    preset = preset or PRESET_OF.get(own.kind if own else "", "default")
    if defence is not None:
        changes = {"defence": own} | changes
    return preset, preset_settings(preset, **changes)
