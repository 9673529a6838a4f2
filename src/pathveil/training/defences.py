"""Ways to train a model that gives less away about its cases, as settings: ``TrainingSettings.defence`` is one of them.

>>> DPSettings(epsilon=8).clip
1.0
>>> DPSettings(epsilon=8).changed(noise=1)
Traceback (most recent call last):
pathveil.errors.UsageError: differential privacy: give epsilon or noise, not both: each follows from the other
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pathveil.errors import UsageError
from pathveil.settings import Settings


class TeacherSettings(Settings):
    """A student that learns from models which never saw the case (``training/teachers.py``)."""

    kind: Literal["teachers"] = "teachers"
    teachers: int = Field(20, ge=2, description="models that answer for each other's unseen cases")
    unseen: int = Field(2, ge=1, description="teachers that do not see a case, and answer for it")
    lift: float = Field(0.2, ge=0, le=1, description="how far teachers' answers are shifted towards rare codes")
    sure: float = Field(0.0, ge=0, lt=1, description="probability below which teachers' code is not taught")
    contradicted: Annotated[int, Field(ge=0)] | Literal["any"] = Field(
        1,
        description="tasks in which teachers may contradict a report's labels before it teaches nothing at all; "
        "with 'any' their codes are taught all the same",
    )
    near: float = Field(
        0.4, gt=0, le=1, description="share of word triples in common from which two reports are one case"
    )

    @classmethod
    def spoken_name(cls) -> str:
        return "teachers"

    @model_validator(mode="after")
    def someone_sees_it(self) -> "TeacherSettings":
        if self.unseen >= self.teachers:
            raise ValueError("'unseen' must be below 'teachers': every case must teach somebody")
        return self


class DPSettings(Settings):
    """Differentially private training (``training/dp.py``); the unit that is protected is a case."""

    kind: Literal["dp"] = "dp"
    epsilon: float | None = Field(None, gt=0, description="privacy loss that the noise is chosen for; or give noise")
    noise: float | None = Field(
        None, ge=0, description="standard deviation of the noise, in units of clip; or give epsilon"
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="chance with which the promise may fail; below 1 ÷ cases")
    clip: float = Field(1.0, gt=0, description="largest norm of what a case adds to the gradient")
    embeddings: Literal["trained", "frozen"] = Field(
        "trained", description="word vectors get gradient and noise, or stay as they start"
    )
    accountant: Literal["rdp", "prv"] = Field("rdp", description="how epsilon is worked out; prv is closer and slower")

    @classmethod
    def spoken_name(cls) -> str:
        return "differential privacy"

    @model_validator(mode="after")
    def one_measure(self) -> "DPSettings":
        if (self.epsilon is None) == (self.noise is None):
            raise ValueError(
                "give epsilon or noise, not both: each follows from the other"
                if self.noise is not None
                else "give epsilon (what may be given away) or noise (how much is added)"
            )
        return self


class OwnDefence(Settings):
    """A function of one's own that changes what networks learn from (``training/own_defence.py``)."""

    kind: Literal["own"] = "own"
    function: str = Field(pattern=r"^[\w.]+:[\w.]+$", description="where it is imported from, as module:function")

    @classmethod
    def spoken_name(cls) -> str:
        return "own defence"


AnyDefence = TeacherSettings | DPSettings | OwnDefence


def defence_named(given: str | Callable[..., Any] | AnyDefence) -> AnyDefence | None:
    """The settings of a defence: a name (none, teachers, dp, module:function), a function of one's own, or settings.

    >>> defence_named("teachers").teachers, defence_named("dp").epsilon, defence_named("none")
    (20, 8.0, None)
    >>> defence_named("my_package.defences:relabel").function
    'my_package.defences:relabel'
    >>> defence_named("teacher")
    Traceback (most recent call last):
    pathveil.errors.UsageError: defence 'teacher' is not known; expected none, teachers, dp or module:function
    """
    if isinstance(given, TeacherSettings | DPSettings | OwnDefence):
        return given
    if callable(given):
        return OwnDefence(function=importable_name(given))
    if given == "none":
        return None
    if given == "teachers":
        return TeacherSettings()
    if given == "dp":
        return DPSettings(epsilon=8.0)
    module, colon, name = given.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise UsageError(f"defence '{given}' is not known; expected none, teachers, dp or module:function")
    return OwnDefence(function=module + colon + name)


def importable_name(function: Callable[..., Any]) -> str:
    """Where a function is imported from; a bundle names it so, and every process that trains a shadow imports it."""
    name = getattr(function, "__qualname__", "")
    if not name or "<" in name:
        raise UsageError("a defence of one's own must be a function at the top level of a module, not inside another")
    return f"{function.__module__}:{name}"
