"""Reports in: the schema, the readers (tables, HL7), synthetic registries, checks, and splits by case and by date.

Polars is imported inside functions, so that this package can be named where polars is not installed.
"""

from pathveil.corpus.reading import Corpus, read
from pathveil.corpus.schema import REQUIRED, TASKS, scan, tasks_of, validate
from pathveil.corpus.tables import content_sha256

__all__ = ["REQUIRED", "TASKS", "Corpus", "content_sha256", "read", "scan", "tasks_of", "validate"]
