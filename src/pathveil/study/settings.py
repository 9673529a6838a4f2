"""Changes to a model's settings in a study file, judged when the file is read.

>>> from pathveil.training.settings import TrainingSettings
>>> checked(TrainingSettings, {"epochs": 3}).epochs
3
>>> checked(TrainingSettings, {"epoch": 3})
Traceback (most recent call last):
ValueError: 'epoch': there is no such setting; did you mean 'epochs'?
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pathveil.errors import explained

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
