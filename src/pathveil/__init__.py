"""Pathveil: text classifiers for cancer pathology reports across registries, and what an attacker learns from them.

    import pathveil

    corpus = pathveil.read("reports.parquet")            # or a folder, or a polars or pandas frame
    words = pathveil.select_words(corpus, "registries >= 2 and cases >= 3")
    model = pathveil.train(corpus, vocabulary=words, out="model")
    model.predict(["FINAL DIAGNOSIS: right breast, invasive ductal carcinoma."]).to_frame()
    pathveil.audit(model, members=corpus, non_members="others.parquet").verdict

The names of ``__all__`` are the public ones (``docs/api.md``); each is loaded when it is first used, so that the import
itself is quick. Behind them the package reads in the order data flows: ``icdo`` (codes), ``text`` (a report to
tokens), ``corpus`` (reports in), ``vocabulary`` (the words a model may know), ``agreement`` (words agreed on
privately), ``model`` (token batches to logits), ``training``, ``bundle`` (a model on disk and at work), ``auditing``,
``federation``, ``studies``, ``serve``, ``api`` and last ``cli``. A package imports only those before it.
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'pathveil' has no attribute '{name}'")
    return getattr(importlib.import_module("pathveil.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
