"""A model at work: it codes reports, explains its codes and is scored; and it is read from and written to a bundle.

A ``Model`` holds what the folder of a bundle holds (``pathveil.bundle.folder``). Making or loading one needs no torch;
the networks are built when they are first asked for, on the device they are asked for.
"""

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pathveil.bundle import folder as folders
from pathveil.bundle.card import write_card
from pathveil.errors import BundleError, UsageError
from pathveil.files import new_folder, sha256_of_file
from pathveil.progress import Progress, silent
from pathveil.training.device import choose_device
from pathveil.training.scores import Scores, Threshold
from pathveil.vocabulary.words import Vocabulary
from pathveil.wording import counted, listed

if TYPE_CHECKING:
    from pathveil.bundle.drift import Drift
    from pathveil.bundle.evaluation import Evaluation
    from pathveil.bundle.explanation import Explanation
    from pathveil.bundle.incoming import Reports
    from pathveil.bundle.predictions import Predictions, PredictionSummary
    from pathveil.bundle.text_answers import Answer
    from pathveil.training.ensemble import Ensemble


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """What ``pathveil.load`` and ``pathveil.train`` give. ``tensors`` are NumPy arrays, named as ``folder.shapes``
    says."""

    architecture: Mapping[str, Any]  # vocabulary_size, dim, windows, filters, dropout, members, linear
    labels: Mapping[str, tuple[str, ...]]  # task: the label of each class
    text: str  # the text settings the words were cut by
    vocabulary: Vocabulary
    tensors: Mapping[str, np.ndarray]
    blend: Mapping[str, tuple[float, ...]]  # task: coefficients of the views
    thresholds: Mapping[str, Threshold]  # task: from which probability on a code is taken
    scores: Mapping[str, Scores]  # task: on held-out cases
    provenance: Mapping[str, Any]  # corpus and vocabulary hashes, counts, settings, seed, version
    history: tuple[tuple[Mapping[str, Any], ...], ...] = ()  # a member's epochs
    audit: Mapping[str, Any] | None = None
    sha256: str = ""  # of the bundle's manifest; known once the model is on disk
    _ensembles: dict[str, "Ensemble"] = field(default_factory=dict, init=False)  # by device

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.labels)

    @property
    def words(self) -> tuple[str, ...]:
        """The words the model knows."""
        return self.vocabulary.words

    @property
    def card(self) -> str:
        """What the model is, was trained on, reaches and must not be used for, as Markdown."""
        return write_card(self)

    @property
    def lift(self) -> dict[str, np.ndarray]:
        """What is added to each class's log-probability (classes,) when a task's code is chosen."""
        return {task: self.tensors[f"lift.{task}"] for task in self.tasks}

    @property
    def clip(self) -> int:
        """Words a report is clipped at; a model whose text was cut by other rules than ours cannot be used."""
        return self._text_settings[0]

    @property
    def identifiers(self) -> bool:
        """Whether what names people and days was hidden in the text it learnt from, and is in what it reads."""
        return self._text_settings[1]

    @cached_property
    def _text_settings(self) -> tuple[int, bool]:
        from pathveil.text import read_settings, settings

        told = read_settings(self.text)
        if told is None:
            raise BundleError(
                f"the bundle's text settings are '{self.text}', this version cuts text by '{settings()}'; "
                "its answers would not be the model's"
            )
        return told

    def ensemble(self, device: str = "cpu") -> "Ensemble":
        """The networks and the linear view, on a device; imports torch."""
        if device not in self._ensembles:
            from pathveil.bundle.weights import to_ensemble

            self._ensembles[device] = to_ensemble(self, device)
        return self._ensembles[device]

    def predict(
        self,
        reports: "Reports",
        *,
        by_case: bool = False,
        one_tumor: bool = False,
        joint: Iterable[str] | None = None,
        device: str = "cpu",
        progress: Progress = silent,
    ) -> "Predictions":
        """Code reports: a list of texts, a polars or pandas frame with a column ``text``, a ``Corpus`` or a path.

        With ``by_case`` the reports of a case are answered together, each tumour that they tell of by itself, or with
        ``one_tumor`` as one. ``joint`` names rules that a report's codes must keep, such as ``("subsite",
        "histology")``. ``predict_to_file`` streams any number of reports.
        """
        from pathveil.bundle.predict import predict

        options: dict[str, Any] = {"joint": joint, "device": device, "progress": progress}
        return predict(self, reports, by_case=by_case, one_tumor=one_tumor, **options)

    def predict_to_file(
        self,
        source: str | Path,
        out: str | Path | IO[str],
        *,
        device: str = "auto",
        progress: Progress = silent,
        **options: Any,
    ) -> "PredictionSummary":
        """Code every report of a file or folder into the file ``out``, .csv, .jsonl or .xml (NAACCR XML), or a stream.

        ``options`` are those of ``pathveil.bundle.predict.predict_to_file``, such as ``by_case=True`` or ``explain=3``.
        """
        from pathveil.bundle.predict import predict_to_file

        to, where = Path(out) if isinstance(out, str) else out, choose_device(device)
        return predict_to_file(self, Path(source), to, device=where, progress=progress, **options)

    def explain(self, text: str, *, top: int = 8) -> "Explanation":
        """The codes of one report, each with the ``top`` places in its text that speak most for or against it."""
        from pathveil.bundle.explanation import explain_text

        return explain_text(self, text, top=top)

    def answer(self, text: str, *, joint: Iterable[str] | None = None, explain: int = 0) -> "Answer":
        """One report's codes and what contradicts what, perhaps with ``explain`` places in the text behind each."""
        from pathveil.bundle.coder import Coder
        from pathveil.bundle.text_answers import answer

        return answer(Coder(self), [text], joint=joint, explain=explain)[0]

    def evaluate(
        self,
        reports: "Reports",
        *,
        tasks: Iterable[str] | None = None,
        resamples: int = 1000,
        seed: int = 0,
        device: str = "cpu",
        progress: Progress = silent,
    ) -> "Evaluation":
        """Scores, with intervals by case, on labelled reports that the model was not trained on: a path, a frame or a
        ``Corpus``."""
        from pathveil.bundle.evaluation import evaluate_model

        options: dict[str, Any] = {"resamples": resamples, "seed": seed, "device": device, "progress": progress}
        return evaluate_model(self, reports, tasks=tasks, **options)

    def drift(
        self,
        reports: "Reports",
        *,
        reference: "Reports | None" = None,
        device: str = "cpu",
        progress: Progress = silent,
    ) -> "Drift":
        """How new reports, labelled or not, differ from those the model was trained on, or from ``reference``."""
        from pathveil.bundle.drift import measure_drift

        return measure_drift(self, reports, reference=reference, device=device, progress=progress)

    def save(self, path: str | Path, *, replace_old: bool = False) -> "Model":
        """Write a bundle, a new folder, whole or not at all; the model with the bundle's sha256. With ``replace_old`` a
        bundle that is there gives way when the new one is whole."""
        with new_folder(Path(path), replace=replace_old) as part:
            folders.write(self, part)
        return replace(self, sha256=sha256_of_file(Path(path) / folders.MANIFEST))

    @classmethod
    def load(cls, path: str | Path) -> "Model":
        """The model of a bundle, every byte checked against its manifest."""
        model = cls(**folders.read(Path(path)))
        folders.check_shapes(model, str(path))
        return model

    def __repr__(self) -> str:
        networks, source = self.architecture["members"], self.provenance
        lines = [
            f"Model for {listed(self.tasks)}: {counted(networks, 'network')}"
            f"{' and a linear view' if self.architecture['linear'] else ''}, {counted(len(self.words), 'word')}",
            f"trained on {source.get('reports', 0):,} reports of {source.get('cases', 0):,} cases; "
            + ("audited" if self.audit else "not audited"),
            *(f"  {task:<12}{score}" for task, score in self.scores.items()),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{html.escape(repr(self))}</pre>"


def attach_audit(path: Path, audit: Mapping[str, Any]) -> Model:
    """Put what an audit found (aggregates only) into the bundle, its card and its manifest; the model as it now is.

    An audit that is not bound to this very bundle is refused: its verdict is not about this model.
    """
    before_audit = Model.load(path)
    audited = audit.get("provenance", {}).get("bundle sha256", before_audit.sha256)
    if audit.get("bound") is False or audited != before_audit.sha256:
        raise UsageError(f"{path}: the audit is not bound to this model, so its verdict does not go on the card")
    return replace(before_audit, audit=audit).save(path, replace_old=True)
