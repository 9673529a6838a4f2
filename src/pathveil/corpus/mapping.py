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

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator

from pathveil.corpus.dates import check_format
from pathveil.corpus.schema import REQUIRED, TASKS, WHEN
from pathveil.corpus.tables.encodings import check_encoding
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
    texts: str | None = Field(None, min_length=1)  # a folder of files that the column text names
    registry: str | None = Field(None, min_length=1)  # whose reports these are, where no column says it
    columns: dict[str, str | list[str]] = Field(default_factory=dict)  # ours: theirs, of the text also several

    @field_validator("columns", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        for ours, theirs in value.items() if isinstance(value, dict) else ():
            if meant := misspelt(ours):
                raise ValueError(f"'columns.{ours}' is no column of a corpus; did you mean '{meant}'?")
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


AnyMapping = str | Path | TableMapping | Mapping[str, Any] | None  # as functions of the library take one


def misspelt(ours: str) -> str | None:
    """The column of a corpus that a name was meant to be: as another name its labels would be lost without a word.

    >>> misspelt("behaviour"), misspelt("Text"), misspelt("site"), misspelt("other_site"), misspelt("date2")
    ('behavior', 'text', None, None, None)
    """
    known = (*REQUIRED, *WHEN, *TASKS)
    if ours in known or re.search(r"\d", ours):
        return None
    return next(iter(difflib.get_close_matches(ours.lower(), known, n=1, cutoff=0.85)), None)


def mapping_of(given: AnyMapping) -> TableMapping:
    """The mapping given: itself, its content, or the name of its file; none says nothing."""
    if given is None or isinstance(given, TableMapping):
        return given or TableMapping()
    if not isinstance(given, str | Path | Mapping):
        raise UsageError(f"mapping: expected a file as 'pathveil corpus map' writes it; got {type(given).__name__}")
    return made_of(given, "the mapping") if isinstance(given, Mapping) else read_mapping(Path(given))


def read_mapping(path: Path) -> TableMapping:
    """The mapping in a file; a mistake is one sentence."""
    return made_of(read_toml(path, expected="a mapping as 'pathveil corpus map' writes it"), str(path))


def made_of(content: Mapping[str, Any], name: str) -> TableMapping:
    try:
        return TableMapping(**content)
    except ValidationError as error:
        raise UsageError(f"{name}: {explained(error, TableMapping)}") from None
    except UsageError as error:  # of a value, told as if it were an option's
        raise UsageError(f"{name}: {str(error).removeprefix('--')}") from None
