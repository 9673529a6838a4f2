"""What a run leaves behind, typed: ``result.json``, the results of its studies (``tables``), and reading them back.

The types are the schema: ``StudyResult.model_json_schema()`` is what ``pathveil study schema`` prints, a result that
breaks it is never written, and one of another version is refused in a sentence when it is read.

>>> fault_of('{"name": "x", "studies": {}}', StudyResult)
"'findings' is missing"
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import PrivateAttr, ValidationError

from pathveil.errors import UsageError
from pathveil.files import read_json
from pathveil.results import Part, Result
from pathveil.studies.rows import Finding, OneStudy, Row, candidate_row
from pathveil.studies.tables import AnyResult, CombinedResult, DefencesResult, DistributionResult, VocabularyResult

Kind = TypeVar("Kind", bound=Part)


class Studies(Row):
    """The studies that a file asks for."""

    vocabulary: VocabularyResult | None = None
    distribution: DistributionResult | None = None
    combined: CombinedResult | None = None
    defences: DefencesResult | None = None

    def parts(self) -> list["AnyResult"]:
        """Those that there are."""
        there = (self.vocabulary, self.distribution, self.combined, self.defences)
        return [part for part in there if part is not None]


class StudyResult(Result, Row):
    """The result of a study file's run, as ``result.json`` has it."""

    name: str
    studies: Studies
    findings: list[Finding]
    _folder: Path | None = PrivateAttr(None)

    @classmethod
    def of(cls, name: str, parts: Mapping[str, OneStudy], *, folder: Path | None = None) -> Self:
        """All studies of a run together."""
        studies = Studies.model_validate(dict(parts))
        findings = [finding for part in studies.parts() for finding in part.findings]
        made = cls(name=name, studies=studies, findings=findings)
        made._folder = folder
        return made

    @classmethod
    def of_one(cls, part: OneStudy) -> Self:
        return cls.of(part.study, {part.study: part})

    @property
    def folder(self) -> Path | None:
        """The run's folder, where it is known."""
        return self._folder

    @property
    def report_path(self) -> Path | None:
        """The run's report, where it has one."""
        path = None if self._folder is None else self._folder / "report.html"
        return path if path is not None and path.is_file() else None

    def open(self) -> None:
        """Show the report in a browser."""
        import webbrowser

        if self.report_path is None:
            raise UsageError("this result has no report; 'pathveil study report RUN' writes one")
        webbrowser.open(self.report_path.absolute().as_uri())

    def rows(self) -> list[dict[str, Any]]:
        """What may be released, a row each: what it scores, what it leaks, and the verdict under the tolerated leak."""
        rated = [(part.study, one) for part in self.studies.parts() for one in part.recommendation.candidates]
        return [{"study": study} | candidate_row(one) for study, one in rated]

    def summary(self) -> str:
        from pathveil.studies.answer import answer

        report = [] if self.report_path is None else ["", f"Report: {self.report_path}"]
        return "\n".join([*answer(self), *report])


RESULTS: dict[str, type[OneStudy]] = {
    "vocabulary": VocabularyResult,
    "distribution": DistributionResult,
    "combined": CombinedResult,
    "defences": DefencesResult,
}


def read_run(path: Path) -> StudyResult:
    """The result of a whole run. One study by itself, as 'federate run' leaves it, is a run of that study, named by its
    folder."""
    content = _content(path, made_by="pathveil study run")
    kind = RESULTS.get(str(content.get("study")))
    if kind is not None:
        alone = _checked(path, content, kind, made_by="pathveil study run")
        return StudyResult.of(path.absolute().parent.name, {alone.study: alone}, folder=path.parent)
    result = _checked(path, content, StudyResult, made_by="pathveil study run")
    result._folder = path.parent
    return result


def read_distribution(path: Path) -> DistributionResult:
    """The result of a 'federate run'."""
    content = _content(path, made_by="pathveil federate run")
    return _checked(path, content, DistributionResult, made_by="pathveil federate run")


def fault_of(text: str, kind: type[Part]) -> str:
    """The first thing about a result in JSON that is not as its type says, or nothing."""
    try:
        kind.model_validate_json(text, strict=True)
    except ValidationError as error:
        return _first_fault(error)
    return ""


def _content(path: Path, *, made_by: str) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(f"{path}: there is no finished result; run '{made_by}' first")
    return read_json(path)


def _checked(path: Path, content: Mapping[str, Any], kind: type[Kind], *, made_by: str) -> Kind:
    try:
        return kind.model_validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        raise UsageError(
            f"{path}: is not a result of this version: {_first_fault(error)}; '{made_by}' as before makes it anew from "
            "what is finished"
        ) from None


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    known = {"missing": "is missing", "extra_forbidden": "is unknown"}
    problem = known.get(first["type"], first["msg"][:1].lower() + first["msg"][1:])
    return f"'{place}' {problem}" if first["type"] in known else f"'{place}': {problem}"
