"""A room that can be called like a function: ``pathveil.audit(model, …)`` beside ``from pathveil.audit import lira``.

The public functions ``audit`` and ``study`` have the names of the rooms that do the work, and Python gives a package's
attribute to the submodule once that is imported. So these two rooms are modules that can be called: the call is the
function of the same name in ``pathveil.api``.
"""

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    """A module whose call is the API's function of the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _function(self)(*arguments, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(_function(self))


def make_callable(room: str) -> None:
    """Let a room, named as ``__name__`` in its own ``__init__``, be called."""
    sys.modules[room].__class__ = CallableRoom


def _function(room: ModuleType) -> Any:
    return getattr(importlib.import_module("pathveil.api"), room.__name__.rpartition(".")[2])
