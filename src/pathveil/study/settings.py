"""Changes to a model's settings in a study file, judged when the file is read.

>>> from pathveil.training.settings import TrainingSettings
>>> checked(TrainingSettings, {"epochs": 3}).epochs
3
>>> checked(TrainingSettings, {"epoch": 3})
Traceback (most recent call last):
ValueError: 'epoch': there is no such setting; did you mean 'epochs'?
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pathveil.errors import CorpusError, UsageError, VocabularyError, explained

Model = TypeVar("Model", bound=BaseModel)

# What `pathveil train` adds around the papers' network; a study trains that network itself.
OF_BUNDLES = ("members", "linear", "vectors")


def checked(model: type[Model], changes: Mapping[str, Any]) -> Model:
    """The model's settings with these changes; a ValueError names the first mistake and, for a misspelling, the nearest
    name."""
    try:
        return model(**changes)
    except ValidationError as error:
        raise ValueError(explained(error, model)) from None


@contextmanager
def naming(place: str) -> Generator[None]:
    """Puts the name of a setting, or of its file, before what is wrong with it.

    >>> with naming("'folds'"):
    ...     raise UsageError("there is no registry 'R9'")
    Traceback (most recent call last):
    pathveil.errors.UsageError: 'folds': there is no registry 'R9'
    """
    try:
        yield
    except (CorpusError, UsageError, VocabularyError) as error:
        raise type(error)(f"{place}: {error}") from None
