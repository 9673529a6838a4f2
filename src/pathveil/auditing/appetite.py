"""The risk appetite: how much an attacker may learn, what will be released, and who in which organisation decided so.

A TOML file that a privacy officer can read and sign. The one that comes with Pathveil is an example and names nobody;
``new_appetite`` writes one's own, with every line explained.

>>> appetite = new_appetite(AppetiteAnswers(name="A. Officer", organisation="North Registry", date="2026-11-16"))
>>> found = parse_appetite(appetite, "the text")
>>> found.whose, found.release, found.limits[0].overall
('A. Officer, North Registry, 2026-11-16', 'weights', 0.2)
>>> read_appetite(None).is_example
True
"""

import datetime
import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from pathveil.auditing import metrics
from pathveil.errors import UsageError, explained
from pathveil.files import check_new, read_toml, write_text
from pathveil.results import Result
from pathveil.settings import Settings
from pathveil.untrusted import Refused, parse_toml

ReleaseForm = Literal["weights", "probabilities", "label"]
RELEASES: dict[ReleaseForm, str] = {
    "weights": "the model itself",
    "probabilities": "a probability for every code",
    "label": "the most likely code only",
}
EXPECTED = "a risk appetite"


class Limit(Settings):
    """The largest tolerated TPR at one FPR; a bound left out is not asked for."""

    fpr: float = Field(gt=0, lt=1)
    overall: float | None = Field(default=None, gt=0, le=1)
    worst_task: float | None = Field(default=None, gt=0, le=1)
    worst_bucket: float | None = Field(default=None, gt=0, le=1)


class Appetite(Settings):
    """What may leak, as the privacy officer wrote it."""

    name: str = Field(default="", max_length=200)  # of who decided it
    organisation: str = Field(default="", max_length=200)
    date: str = ""  # when, as 2026-11-16
    valid_days: int = Field(default=365, ge=1, le=3650)  # that a verdict is good for
    shadows: int = Field(default=8, ge=2)  # models that the attacks behind a release must have had, at least
    release: ReleaseForm
    worst_canary: float | None = Field(default=None, gt=0.5, le=1)  # the largest tolerated AUC on any kind of canary
    limits: tuple[Limit, ...] = Field(min_length=1)

    @field_validator("date", mode="before")
    @classmethod
    def _day(cls, given: Any) -> str:
        if isinstance(given, datetime.date):
            return given.isoformat()[:10]
        if given == "":
            return ""
        try:
            return datetime.date.fromisoformat(given).isoformat()
        except (TypeError, ValueError):
            raise ValueError("expected a day such as 2026-11-16") from None

    @property
    def fprs(self) -> tuple[float, ...]:
        return tuple(limit.fpr for limit in self.limits)

    @property
    def measured_fprs(self) -> tuple[float, ...]:
        """Every false-positive rate an audit measures at: its own and the usual ones, largest first."""
        return tuple(sorted({*metrics.FPRS, *self.fprs}, reverse=True))

    @property
    def limits_nothing(self) -> bool:
        """No limit that anything could break: none at one false accusation in ten or fewer, or all at 100 %."""
        return not any(limit.overall is not None and limit.overall < 1 and limit.fpr <= 0.1 for limit in self.limits)

    @property
    def is_example(self) -> bool:
        """Nobody's decision: a name, an organisation or a date is missing."""
        return not (self.name.strip() and self.organisation.strip() and self.date)

    @property
    def whose(self) -> str:
        """Who decided it; empty where nobody did."""
        return "" if self.is_example else f"{self.name.strip()}, {self.organisation.strip()}, {self.date}"


class AppetiteAnswers(Settings):
    """The few questions that an appetite answers."""

    name: str = Field(min_length=1, max_length=200)
    organisation: str = Field(min_length=1, max_length=200)
    date: str
    release: ReleaseForm = "weights"
    at_ten: float = Field(default=0.20, gt=0.1, lt=1)  # the share that may be found at one false accusation in ten
    rare_at_ten: float = Field(default=0.30, gt=0.1, lt=1)  # the same in the worst group of rare or common classes
    at_hundred: float = Field(default=0.05, gt=0.01, lt=1)  # at one in a hundred
    canary: float | None = Field(default=None, gt=0.5, le=1)
    valid_days: int = Field(default=365, ge=1, le=3650)
    shadows: int = Field(default=8, ge=2)

    @model_validator(mode="after")
    def _can_be_broken(self) -> "AppetiteAnswers":
        if self.at_hundred > self.at_ten:
            raise ValueError("what may be found at 1 in 100 is more than at 1 in 10, so it limits nothing")
        return self


class WrittenAppetite(Result):
    """An appetite that was written to a file."""

    out: str
    appetite: Appetite

    def rows(self) -> list[dict[str, Any]]:
        return [limit.model_dump() for limit in self.appetite.limits]

    def summary(self) -> str:
        return (
            f"{self.out}: the risk appetite of {self.appetite.whose}, for a release of "
            f"{RELEASES[self.appetite.release]} ({self.appetite.release}).\n"
            f"Read it, change what you have decided otherwise, and give it to 'pathveil audit --appetite {self.out}'."
        )


def default_appetite_text() -> str:
    """The documented example, to be copied and changed."""
    return (files("pathveil.auditing") / "appetite.toml").read_text(encoding="utf-8")


def read_appetite(path: Path | None) -> Appetite:
    """The appetite in a TOML file; the example where none is given."""
    if path is None:
        return parse_appetite(default_appetite_text(), "the example")
    return _checked(read_toml(path, expected=EXPECTED), str(path))


def asked_appetite(path: Path | None, release: ReleaseForm | None) -> Appetite | None:
    """The appetite in a file, which must be about what will be released where that is said; without a file the example
    for that release, or none where nothing is said."""
    if path is None:
        return None if release is None else read_appetite(None).changed(release=release)
    appetite = read_appetite(path)
    if release is not None and release != appetite.release:
        raise UsageError(
            f"--release {release}: the risk appetite {path} is about a release of {appetite.release}; give one that is "
            "about what will be released"
        )
    return appetite


def parse_appetite(text: str, where: str) -> Appetite:
    """The appetite in a text."""
    try:
        return _checked(parse_toml(text.encode("utf-8", "surrogatepass")), where)
    except Refused as fault:
        raise UsageError(f"{where}: {fault}; expected {EXPECTED}") from None


def _checked(content: dict[str, Any], where: str) -> Appetite:
    try:
        return Appetite.model_validate(content)
    except ValidationError as error:
        wrong = explained(error, Appetite)
        raise UsageError(f"{where}: is not a risk appetite: {wrong}; 'pathveil appetite new' writes one") from None


def write_appetite(answers: AppetiteAnswers, out: Path) -> WrittenAppetite:
    """Write an appetite of one's own to a new file."""
    check_new(out)
    text = new_appetite(answers)
    appetite = parse_appetite(text, str(out))
    write_text(out, text)
    return WrittenAppetite(out=str(out), appetite=appetite)


def new_appetite(answers: AppetiteAnswers) -> str:
    """The answers as a TOML file that explains itself."""
    meaning = {form: f'#   "{form}"'.ljust(21) + RELEASES[form] for form in RELEASES}
    canary = (
        ["# No limit is set on canaries; worst_canary = 0.65 would set one.", ""]
        if answers.canary is None
        else [f"worst_canary = {answers.canary:g}  # needs 'pathveil audit --canaries 50'", ""]
    )
    lines = [
        "# The risk appetite: how much an attacker may learn from a released model about who was in its training data.",
        "# 'pathveil audit --appetite' holds the strongest attack against it, 'pathveil release' asks for it again.",
        "",
        "# Who decided this. Their name stands on the audit's page and in the signed release.",
        f"name = {_quoted(answers.name)}",
        f"organisation = {_quoted(answers.organisation)}",
        f"date = {_day(answers.date)}",
        "",
        "# How long a verdict under this appetite is good for.",
        f"valid_days = {answers.valid_days}",
        "",
        "# How hard the attack behind a release must have been: shadow models, at least ('pathveil audit --models').",
        f"shadows = {answers.shadows}",
        "",
        "# What will be released. An audit under it covers this and whatever tells less.",
        *meaning.values(),
        f'release = "{answers.release}"',
        "",
        "# The most exposed reports: strange ones that are planted once in models trained like this one. The limit is",
        "# the chance (AUC) with which an attacker tells one that was learnt from one that was not; 0.5 is guessing.",
        *canary,
        "# A limit says: an attacker who wrongly accuses this share (fpr) of the people who were not in the training",
        "# data may find at most that share of those who were. Guessing finds exactly as many as it wrongly accuses.",
        "# A limit is kept only where the upper end of the 95 % interval of every attack is at or below it.",
        "",
        "# One false accusation in ten. Hundreds of cases are enough to measure this.",
        "[[limits]]",
        "fpr = 0.10",
        f"overall = {answers.at_ten:g}  # all reports, all tasks together",
        f"worst_task = {answers.at_ten:g}  # the task that leaks most, on its own",
        f"worst_bucket = {answers.rare_at_ten:g}  # the group of rare or common classes that leaks most",
        "",
        "# One in a hundred: the attacker who is nearly always right. Needs about 440 non-member cases.",
        "[[limits]]",
        "fpr = 0.01",
        f"overall = {answers.at_hundred:g}",
        f"worst_task = {answers.at_hundred:g}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A string as TOML has it; JSON's form is one of TOML's."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False).replace("\x7f", "")


def _day(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"--date {text}: expected a day such as 2026-11-16") from None
