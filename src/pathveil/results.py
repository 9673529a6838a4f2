"""What all results have in common: each is typed, prints as a table, and becomes a frame or JSON.

A result that a user gets from ``import pathveil`` or from a command is a ``Result``. Its fields are what its JSON
holds; ``rows`` are the lines of its main table and ``summary`` is what a person reads first.

>>> class Score(Result):
...     task: str
...     micro: float
...     def rows(self):
...         return [{"task": self.task, "micro": self.micro}]
...     def summary(self):
...         return f"{self.task}: micro F1 {self.micro:.3f}"
>>> Score(task="site", micro=0.9)
site: micro F1 0.900
>>> Score(task="site", micro=0.9).to_json()
'{"task": "site", "micro": 0.9}'
"""

import html
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from pathveil.errors import UsageError

if TYPE_CHECKING:
    import polars as pl


@contextmanager
def parts_that_fit(path: Path, *, expected: str) -> Generator[None]:
    """What is done with a result that another party may have written: one of the right types whose parts do not fit
    together (lists of different lengths, names that are nowhere else) cannot be drawn, and is refused in a sentence.

    >>> with parts_that_fit(Path("result.json"), expected="what 'pathveil study run' writes"):
    ...     (1, 2)[3]
    Traceback (most recent call last):
    pathveil.errors.UsageError: result.json: its parts do not fit together; expected what 'pathveil study run' writes
    """
    from jinja2 import UndefinedError

    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, UndefinedError, ValueError):
        raise UsageError(f"{path}: its parts do not fit together; expected {expected}") from None


class Part(BaseModel):
    """A typed part of a result, such as one row of its table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: lists, dictionaries, strings and numbers."""
        return self.model_dump(mode="json", by_alias=True)


class Result(Part):
    """Something that was measured or made, for a program and for a person."""

    def rows(self) -> list[dict[str, Any]]:
        """The lines of the result's main table."""
        raise NotImplementedError(type(self).__name__)

    def summary(self) -> str:
        """The result as a person reads it in a terminal."""
        raise NotImplementedError(type(self).__name__)

    def to_frame(self) -> "pl.DataFrame":
        """The main table as a polars frame (``.to_pandas()`` on it gives pandas')."""
        import polars as pl

        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def to_json(self, path: str | Path | None = None) -> str:
        """The whole result as JSON; also written to ``path`` where one is given."""
        from pathveil.files import write_json

        if path is not None:
            write_json(Path(path), self.to_dict())
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def __repr__(self) -> str:
        return self.summary()

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{html.escape(self.summary())}</pre>"


class Figures(Result):
    """Figures whose names their maker alone knows, such as a benchmark's; their JSON is these figures.

    >>> Figures(figures={"rows": [{"name": "ours", "ratio": 2.0}], "rounds": 5}, text="ours: 2×").to_frame().columns
    ['name', 'ratio']
    """

    figures: dict[str, Any]
    text: str

    def to_dict(self) -> dict[str, Any]:
        return self.figures

    def rows(self) -> list[dict[str, Any]]:
        """The figures' own rows, or the plain figures as one row."""
        plain = {name: value for name, value in self.figures.items() if not isinstance(value, dict | list)}
        return self.figures.get("rows", [plain])

    def summary(self) -> str:
        return self.text
