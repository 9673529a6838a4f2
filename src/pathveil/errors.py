"""The few exceptions a user can meet, named by what the user can do about them.

    PathveilError            one clear sentence: what, where, what was expected (exit code 2)
    ├── UsageError           change the options
    ├── CorpusError          mend the corpus or the file it is read from
    ├── VocabularyError      choose other words, or another way of choosing them
    ├── AgreementError       see to the party of a private agreement that refused, or was refused
    ├── BundleError          get an intact bundle, or one of this version
    ├── FederationError      mend a site, or what it sends
    └── MissingExtraError    install an optional part of Pathveil

A message never holds report text, a patient field or a word from a report: it names columns, counts, positions and ids.

>>> raise CorpusError("reports.csv: column 'case_id' is missing; a corpus needs report_id, case_id, registry, text")
Traceback (most recent call last):
pathveil.errors.CorpusError: reports.csv: column 'case_id' is missing; a corpus needs report_id, case_id, registry, text
"""

import difflib
from collections.abc import Iterable
from functools import partial
from typing import Any


class PathveilError(Exception):
    """Something the user can put right; its message is one sentence that says how."""


class UsageError(PathveilError):
    """Options that do not go together, or a value out of range."""


class CorpusError(PathveilError):
    """Reports that cannot be read, or that break the corpus's schema."""


class VocabularyError(PathveilError):
    """A vocabulary file that cannot be read, or a choice of words that cannot be made."""


class AgreementError(PathveilError):
    """A request that a party of a private agreement refuses; ``status`` is its HTTP status."""

    def __init__(self, message: str, *, status: int = 409):
        super().__init__(message)
        self.status = status


class BundleError(PathveilError):
    """A model folder that is incomplete, altered, or of another version."""


class FederationError(PathveilError):
    """A site or a hub that sent what it may not, or something no one can use."""


class MissingExtraError(PathveilError):
    """An optional dependency that is not installed; a worker process sends its errors to its parent pickled.

    >>> import pickle
    >>> str(pickle.loads(pickle.dumps(MissingExtraError(package="opacus", extra="dp", purpose="noise"))))
    "noise needs opacus; install it with: pip install 'pathveil[dp]'"
    """

    def __init__(self, *, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}; install it with: pip install 'pathveil[{extra}]'")
        self.names = {"package": package, "extra": extra, "purpose": purpose}

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(MissingExtraError, **self.names), ()


def explained(error: Any, model: Any, *, quoting: bool = True) -> str:
    """What pydantic found wrong with a model's values, in one sentence: the first mistake, where it is and, for a
    misspelt name, the nearest one; never the value itself, and without ``quoting`` no name that is not ours either."""
    found = error.errors(include_input=False, include_url=False)
    # A misspelt name is also one that is missing: the former says more.
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    place, problem = first["loc"], first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        models = [model]
        for part in place[:-1]:
            named = [one for one in models if any(field.default == part for field in one.model_fields.values())]
            kinds = [one.model_fields[part].annotation for one in models if part in one.model_fields]
            if len(models) > 1 and named:  # the place names which of several kinds of settings is meant
                models = named
            elif kinds:
                models = [one for one in (*getattr(kinds[0], "__args__", ()), kinds[0]) if hasattr(one, "model_fields")]
        problem = (
            f"there is no such setting{meant(str(place[-1]), [name for one in models for name in one.model_fields])}"
        )
        if not quoting:
            place, problem = place[:-1], problem.replace("there is no such setting", "a field of it is not known")
    if first["type"] in ("model_type", "dict_type"):
        problem = "expected a table of settings" if quoting else "expected an object with fields"
    if first["type"] == "missing":
        problem = "is missing"
    where = f"'{'.'.join(short(str(part)) for part in place)}': " if place else ""
    return where + problem + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")


def short(name: str) -> str:
    """A name as a sentence tells it: what others call a setting may be anything.

    >>> short("teachers"), short("teacher" + 100 * "s")
    ('teachers', 'teachersssss…')
    """
    return name if len(name) <= 40 else f"{name[:12]}…"


def meant(name: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a sentence, where one is near.

    >>> meant("epoch", ["epochs", "filters"]), meant("zzz", ["epochs"])
    ("; did you mean 'epochs'?", '')
    """
    near = difflib.get_close_matches(name[:80], list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
