"""What a study file's settings share: lists in which each thing stands once, and changes to a model's settings, which
are judged when the file is read.

>>> each_once(("B", "I2", "B"))
Traceback (most recent call last):
ValueError: 'B' is there twice

>>> from pathveil.training.settings import TrainingSettings
>>> validated(TrainingSettings, {"epochs": 3}).epochs
3
>>> validated(TrainingSettings, {"epoch": 3})
Traceback (most recent call last):
ValueError: 'epoch': there is no such setting; did you mean 'epochs'?
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, PositiveInt, ValidationError

from pathveil.errors import CorpusError, UsageError, VocabularyError, explained

Model = TypeVar("Model", bound=BaseModel)
Values = TypeVar("Values", bound=tuple)


def each_once(values: Values) -> Values:
    """Refuse a list in which something stands twice."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{value!r} is there twice")
    return values


def not_empty(values: Values) -> Values:
    """Refuse an empty list."""
    if not values:
        raise ValueError("is empty; name at least one")
    return values


Numbers = Annotated[tuple[int, ...], AfterValidator(each_once)]
Names = Annotated[tuple[str, ...], AfterValidator(not_empty), AfterValidator(each_once)]
Sizes = Annotated[tuple[PositiveInt, ...], AfterValidator(not_empty), AfterValidator(each_once)]

# Settings of a model that are not for a vocabulary study, which trains the papers' network itself, and why.
NOT_IN_STUDIES = dict.fromkeys(
    ("members", "linear", "vectors"), "is a setting of 'pathveil train'; a study trains the papers' network itself"
)
NOT_IN_STUDIES["defence"] = "is for [defences], whose 'vocabularies' are trained with every defence"


def validated(model: type[Model], changes: Mapping[str, Any]) -> Model:
    """The model's settings with these changes; a ValueError names the first mistake and, for a misspelling, the nearest
    name."""
    try:
        return model(**changes)
    except ValidationError as error:
        raise ValueError(explained(error, model)) from None


@contextmanager
def naming_errors(place: str) -> Generator[None]:
    """Puts the name of a setting, or of its file, before what is wrong with it.

    >>> with naming_errors("'folds'"):
    ...     raise UsageError("there is no registry 'R9'")
    Traceback (most recent call last):
    pathveil.errors.UsageError: 'folds': there is no registry 'R9'
    """
    try:
        yield
    except (CorpusError, UsageError, VocabularyError) as error:
        raise type(error)(f"{place}: {error}") from None
