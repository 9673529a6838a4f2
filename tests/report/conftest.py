"""The report's tests run the study's small corpus."""

from study.conftest import small_corpus

__all__ = ["small_corpus"]
