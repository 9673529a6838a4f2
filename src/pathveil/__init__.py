"""Pathveil: text classifiers for cancer pathology reports across registries, and what an attacker learns from them.

    import pathveil

    corpus = pathveil.read("reports.parquet")            # or a folder, or a polars or pandas frame
    words = pathveil.select_words(corpus, "registries >= 2 and cases >= 3")
    model = pathveil.train(corpus, vocabulary=words, out="model")
    model.predict(["FINAL DIAGNOSIS: right breast, invasive ductal carcinoma."]).to_frame()
    pathveil.audit(model, members=corpus, non_members="others.parquet").verdict

The names of ``__all__`` are the public ones (``docs/api.md``); each is loaded when it is first used, so that the import
itself is quick. Behind them the package reads in the order data flows: ``corpus`` (reports in), ``text`` (a report to
tokens), ``vocabulary`` (the words a model may know), ``model`` (token batches to logits), ``training``, ``bundle`` (a
model on disk and at work), ``federation`` and ``audit``, ``study``, ``report``, ``api`` and last ``cli``. A room
imports only the rooms before it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathveil.api import (
        audit,
        audit_predictions,
        evaluate,
        load,
        read,
        select_words,
        study,
        synth,
        tokenize,
        train,
    )

__version__ = "0.2.0"
__all__ = [
    "audit",
    "audit_predictions",
    "evaluate",
    "load",
    "read",
    "select_words",
    "study",
    "synth",
    "tokenize",
    "train",
]

_ROOMS = ("audit", "study")  # rooms of these names are called like functions: see pathveil.callable_room


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'pathveil' has no attribute '{name}'")
    if name in _ROOMS:
        return importlib.import_module(f"pathveil.{name}")
    return getattr(importlib.import_module("pathveil.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
