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
    """An optional dependency that is not installed."""

    def __init__(self, *, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}; install it with: pip install 'pathveil[{extra}]'")
