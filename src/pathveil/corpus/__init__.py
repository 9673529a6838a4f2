"""Reports in: the schema, the readers (tables, HL7), synthetic registries, checks, and splits by case and by date.

Polars is imported inside functions, so that this package can be named where polars is not installed; ``Corpus`` and
``read`` are loaded when they are used.
"""

from typing import TYPE_CHECKING, Any

from pathveil.corpus.schema import REQUIRED, TASKS, scan, tasks_of, validate
from pathveil.corpus.tables.files import content_sha256

if TYPE_CHECKING:
    from pathveil.corpus.reading import Corpus, read

__all__ = ["REQUIRED", "TASKS", "Corpus", "content_sha256", "read", "scan", "tasks_of", "validate"]


def __getattr__(name: str) -> Any:
    if name in ("Corpus", "read"):
        from pathveil.corpus import reading

        return getattr(reading, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
