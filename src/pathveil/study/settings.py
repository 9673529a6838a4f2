"""Changes to a model's settings in a study file, judged when the file is read.

>>> from pathveil.training.settings import TrainingSettings
>>> checked(TrainingSettings, {"epochs": 3}).epochs
3
>>> checked(TrainingSettings, {"epoch": 3})
Traceback (most recent call last):
ValueError: 'epoch': there is no such setting; did you mean 'epochs'?
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)

# What `pathveil train` adds around the papers' network; a study trains that network itself.
OF_BUNDLES = ("members", "linear", "vectors")


def checked(model: type[Model], changes: Mapping[str, Any]) -> Model:
    """The model's settings with these changes; a ValueError names the first mistake and, for a misspelling, the nearest
    name."""
    try:
        return model(**changes)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        problem = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            problem = f"there is no such setting{meant(name, model.model_fields)}"
        raise ValueError(f"'{name}': {problem}" if name else problem) from None


def meant(name: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a sentence, where one is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
