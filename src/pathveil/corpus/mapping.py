"""A small file that says how a table is written and which of its columns is which.

``corpus map`` proposes one (``proposal.py``); every command that reads reports takes it.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "map.toml"
...     _ = path.write_text('delimiter = ";"\\ndates = "dd/mm/yyyy"\\n[columns]\\ntext = "Befund"\\n')
...     mapping = read_mapping(path)
>>> mapping.dates, mapping.columns
('dd/mm/yyyy', {'text': 'Befund'})
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator

from pathveil.corpus.dates import check_format
from pathveil.corpus.encodings import check_encoding
from pathveil.errors import UsageError, explained
from pathveil.files import read_toml
from pathveil.settings import Settings

Columns = Mapping[str, str | Sequence[str]]  # ours: theirs, of the text also several


class TableMapping(Settings):
    """How a table is written and what its columns are called; what is left out is found, or is as in a corpus."""

    encoding: str | None = None
    delimiter: str | None = None
    dates: str | None = None
    query: str | None = None  # what to read of a database
    sheet: str | None = None  # of a spreadsheet
    registry: str | None = Field(None, min_length=1)  # whose reports these are, where no column says it
    columns: dict[str, str | list[str]] = Field(default_factory=dict)  # ours: theirs, of the text also several

    @field_validator("columns", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        for ours, theirs in value.items() if isinstance(value, dict) else ():
            parts = list(theirs) if isinstance(theirs, list | tuple) else [theirs]
            if not parts or not all(isinstance(part, str) and part for part in parts):
                raise ValueError(f"'columns.{ours}' is no name of a column")
            if ours != "text" and parts != [theirs]:
                raise ValueError(f"'columns.{ours}' names several columns; only the text is put together of several")
            if len(set(parts)) < len(parts):
                raise ValueError(f"'columns.{ours}' names a column twice")
        return value

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str | None) -> str | None:
        value = {"tab": "\t", "\\t": "\t"}.get(value or "", value)
        if value is not None and (len(value) != 1 or value in '"\r\n' or ord(value) > 127):
            raise ValueError("expected one character such as ; or tab")
        return value

    @field_validator("dates")
    @classmethod
    def _a_format(cls, value: str | None) -> str | None:
        return value and check_format(value)

    @field_validator("encoding")
    @classmethod
    def _an_encoding(cls, value: str | None) -> str | None:
        return value and check_encoding(value)

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, so that a table is taken as it is."""
        return self == type(self)()

    def with_columns(self, columns: Columns) -> Self:
        return self.changed(columns=self.columns | dict(columns)) if columns else self


Told = str | Path | TableMapping | None  # a mapping as callers give it: its file, itself, or none


def mapping_of(told: Told) -> TableMapping:
    """The mapping that is meant.

    >>> mapping_of(None).columns, mapping_of(TableMapping(columns={"text": "Befund"})).columns
    ({}, {'text': 'Befund'})
    """
    if not isinstance(told, str | Path | TableMapping | None):
        raise UsageError(f"mapping: expected a file as 'pathveil corpus map' writes it; got {type(told).__name__}")
    return told if isinstance(told, TableMapping) else read_mapping(Path(told)) if told else TableMapping()


def read_mapping(path: Path) -> TableMapping:
    """The mapping in a file; a mistake is one sentence."""
    content = read_toml(path, expected="a mapping as 'pathveil corpus map' writes it")
    try:
        return TableMapping(**content)
    except ValidationError as error:
        raise UsageError(f"{path}: {explained(error, TableMapping)}") from None
    except UsageError as error:  # of a value, told as if it were an option's
        raise UsageError(f"{path}: {str(error).removeprefix('--')}") from None
