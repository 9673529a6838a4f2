"""What all settings have in common: they do not change once made, and a name they do not have is refused.

Settings live beside what they configure (``TrainingSettings`` in ``training``); a study file composes them.

>>> class Shape(Settings):
...     filters: int = 100
>>> Shape().changed(filters="50").filters
50
>>> Shape().changed(filter=3)
Traceback (most recent call last):
pathveil.errors.UsageError: shape: 'filter': there is no such setting; did you mean 'filters'?
"""

import re
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from pathveil.errors import UsageError, explained


class Settings(BaseModel):
    """Base of every settings class."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def changed(self, **changes: Any) -> Self:
        """These settings with some of them changed; a mistake is one sentence."""
        try:
            return type(self)(**(self.model_dump() | changes))
        except ValidationError as error:
            raise UsageError(f"{self.spoken_name()}: {explained(error, type(self))}") from None

    @classmethod
    def spoken_name(cls) -> str:
        """The class's name in a sentence: "training settings"."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()
