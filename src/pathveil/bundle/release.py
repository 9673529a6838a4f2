"""What a release says of itself: ``release.json``, which every reader and server of a release obeys.

A release is a folder made from a bundle by ``pathveil release``. Its *form* says what was let out:

    weights   the model itself: anyone may load it, code reports and see every probability
    encoder   words to features only: no heads, no labels, so it codes nothing until somebody trains heads of their own
    labels    the model, for its owner to serve: a server answers with the chosen code and never with a probability

A folder without ``release.json`` is a bundle at its owner's, where everything is allowed.

>>> import tempfile
>>> form_of(Path(tempfile.mkdtemp()))
'weights'
"""

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ValidationError

from pathveil.errors import BundleError, explained
from pathveil.files import read_json
from pathveil.formatting import counted
from pathveil.results import Part, Result

FORMAT = "pathveil-release/1"
RELEASE = "release.json"
SIGNATURE, TEST_RESULT = "model.sig", "test-result.dsse.json"  # beside the manifest: they sign it
Form = Literal["weights", "encoder", "labels"]
FORMS: dict[Form, str] = {
    "weights": "the model itself: words, weights, labels and thresholds",
    "encoder": "words and the weights that turn them into features; no heads, no labels",
    "labels": "the model, for its owner to serve: it answers with codes and never with a probability",
}


class JudgedBy(Part):
    """The risk appetite a release was held against, and whose it is."""

    sha256: str  # of appetite.toml
    release: str  # what it allows to leave: weights, probabilities or label
    name: str
    organisation: str
    date: str


class Judgement(Part):
    """What the audit of exactly this model answered."""

    answer: str
    sentence: str
    audit_sha256: str  # of audit.json
    audited: str  # when


class Override(Part):
    """Why a release was made although it was refused, and what had refused it."""

    reason: str
    refusals: list[str]


class Scan(Part):
    """What was searched for in every file of the release before it was signed, and not found."""

    files: int
    reports: int  # whose ids and text were looked for
    names: int  # of a list
    words_run: int  # how many words of a report in a row count as a fragment of it
    of_training: bool = False  # the reports are the very corpus that the model was trained on


def a_day(text: str) -> str:
    """A day as ISO 8601 writes it; anything else is an error."""
    try:
        date.fromisoformat(text)
    except ValueError:  # Python's own message quotes the text, which another party may have written
        raise ValueError("expected a day such as 2026-11-16") from None
    return text


class Release(Result):
    """The content of ``release.json``."""

    format: Literal["pathveil-release/1"] = FORMAT
    pathveil: str
    name: str
    form: Form
    words: Literal["shown", "hashed"]
    released: str  # a day and time, UTC
    expires: Annotated[str, AfterValidator(a_day)]  # a day; from then on the verdict must be renewed
    signer: str
    key: str  # sha256 of the public key
    model_sha256: str  # what was audited: ``Model.model_sha256``
    folder_sha256: str  # of the folder it was made from
    judgement: Judgement | None  # none where there was no audit and the refusal was overridden
    appetite: JudgedBy | None
    override: Override | None
    ask_again: list[str]  # what asks for a new audit
    scan: Scan
    log: str | None  # sha256 of the release log's last line before this release

    @property
    def answers(self) -> Form:
        """The form that answers are held to: codes alone where the appetite allows no more, whatever was overridden."""
        return "labels" if self.appetite is not None and self.appetite.release == "label" else self.form

    def log_line(self, *, signature: str) -> dict[str, Any]:
        """What the release log says of it; ``signature`` is the sha256 of ``model.sig``."""
        return {
            "what": "released" if self.override is None else "released against a refusal",
            "when": self.released,
            "who": self.signer,
            "key": self.key,
            "name": self.name,
            "form": self.form,
            "model": self.model_sha256,
            "verdict": None if self.judgement is None else self.judgement.answer,
            "appetite": None if self.appetite is None else self.appetite.sha256,
            "override": None if self.override is None else self.override.to_dict(),
            "signature": signature,
        }

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": self.name, "form": self.form, "released": self.released, "expires": self.expires}]

    def summary(self) -> str:
        lines = [f"{self.name}, released {self.released} as {self.form} ({FORMS[self.form]}) by {self.signer}."]
        if self.override is not None:
            lines.append(f"Released against a refusal. Reason given: {self.override.reason}")
            lines += [f"- refused because {refusal}" for refusal in self.override.refusals]
        if self.judgement is not None:
            lines.append(f"Audited {self.judgement.audited}: {self.judgement.sentence}")
        if self.appetite is not None:
            whose = f"{self.appetite.name}, {self.appetite.organisation}, {self.appetite.date}"
            lines.append(f"Held against the risk appetite of {whose}.")
        lines.append(f"Model sha256 {self.model_sha256}.")
        kind = "training report" if self.scan.of_training else "other report" if self.scan.reports else "report"
        looked = f"{counted(self.scan.reports, kind)} and {counted(self.scan.names, 'name')}"
        lines.append(f"The verdict is good until {self.expires}; {looked} were looked for in its files.")
        return "\n".join(lines)


def read_release(folder: Path) -> Release | None:
    """What a folder's ``release.json`` says; none where the folder is no release."""
    path = folder / RELEASE
    if not path.exists() and not path.is_symlink():
        return None
    content = read_json(path, error=BundleError)
    if content.get("format") != FORMAT:
        raise BundleError(f"{path}: is not a release of this version of Pathveil; expected the format {FORMAT}")
    try:
        return Release.model_validate(content)
    except ValidationError as error:
        raise BundleError(f"{path}: is not a whole release: {explained(error, Release)}") from None


def form_of(folder: Path) -> Form:
    """The form that a folder's answers are held to; a bundle that was never released holds weights."""
    release = read_release(folder)
    return "weights" if release is None else release.answers
