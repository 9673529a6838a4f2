"""A model at work: it codes reports, explains its codes and is scored; and it is read from and written to a bundle.

A ``Model`` holds what the folder of a bundle holds (``pathveil.bundle.folder``). Making or loading one needs no torch;
the networks are built when they are first asked for, on the device they are asked for.
"""

import hashlib
import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pathveil.arguments import check_whole_number, names_given
from pathveil.bundle import folder as folders
from pathveil.bundle.card import write_card
from pathveil.bundle.joint import rules_named
from pathveil.bundle.release import RELEASE, Form
from pathveil.errors import BundleError, UsageError, VocabularyError
from pathveil.files import new_folder, sha256_of_file, sha256_of_json
from pathveil.formatting import counted, listed, width_of
from pathveil.progress import Progress, silent
from pathveil.rng import check_seed
from pathveil.training.device import choose_device
from pathveil.training.scores import Scores, Threshold
from pathveil.vocabulary.words import Vocabulary

if TYPE_CHECKING:
    from pathveil.bundle.drift import Drift
    from pathveil.bundle.evaluation import Evaluation
    from pathveil.bundle.explanation import Explanation
    from pathveil.bundle.incoming import Reports
    from pathveil.bundle.predictions import Predictions, PredictionSummary
    from pathveil.bundle.text_answers import Answer
    from pathveil.corpus.mapping import AnyMapping
    from pathveil.training.ensemble import Ensemble


FEWEST_RESAMPLES = 10  # of a bootstrap: fewer make no interval


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
    folder_sha256: str = ""  # of the manifest of its folder, with card and audit; known once the model is on disk
    folder: Path | None = None  # the bundle it was read from or written to
    form: Form = "weights"  # of the release it was read from: what its answers may tell
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

    @cached_property
    def model_sha256(self) -> str:
        """Of all that its answers depend on: weights, words, labels, thresholds. It names the model everywhere: on its
        card, audit, release and in a service; unlike the folder's sha256 it stays the same when an audit is attached,
        a release is made or words are hashed."""
        rest = {
            "architecture": dict(self.architecture) | {"windows": list(self.architecture["windows"])},
            "labels": {task: list(names) for task, names in self.labels.items()},
            "text": self.text,
            "words": self.vocabulary.shown_sha256,
            "blend": {task: list(numbers) for task, numbers in self.blend.items()},
            "thresholds": {task: threshold.to_dict() for task, threshold in self.thresholds.items()},
            "weights": weights_sha256(self.tensors),
        }
        return sha256_of_json(rest)

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
        from pathveil.text.tokenizer import read_settings, settings

        told = read_settings(self.text)
        if told is None:
            raise BundleError(
                f"the bundle's text settings are '{self.text[:200]}', this version cuts text by '{settings()}'; "
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
        joint: str | Iterable[str] | None = None,
        device: str = "cpu",
        progress: Progress = silent,
    ) -> "Predictions":
        """Code reports: texts (a list or a column), a polars or pandas frame with a column ``text``, a ``Corpus`` or a
        path.

        With ``by_case`` the reports of a case are answered together, each tumour that they tell of by itself, or with
        ``one_tumor`` as one. ``joint`` names rules that a report's codes must keep, such as ``("subsite",
        "histology")``. ``predict_to_file`` streams any number of reports.
        """
        from pathveil.bundle.predict import predict

        reports = listed_texts(reports)
        options: dict[str, Any] = {"joint": rules_named(joint), "device": device, "progress": progress}
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

        if not isinstance(source, str | Path):
            told = type(source).__name__
            raise UsageError(f"expected the path of a file or folder; got {told}, whose reports predict() codes")
        to, where = Path(out) if isinstance(out, str) else out, choose_device(device)
        options["joint"] = rules_named(options.get("joint"))
        return predict_to_file(self, Path(source), to, device=where, progress=progress, **options)

    def explain(self, text: str, *, top: int = 8) -> "Explanation":
        """The codes of one report, each with the ``top`` places in its text that speak most for or against it."""
        from pathveil.bundle.explanation import explain_text

        check_whole_number(top, "top", least=1)
        return explain_text(self, plain_report(text, places=True), top=top)

    def answer(self, text: str, *, joint: str | Iterable[str] | None = None, explain: int = 0) -> "Answer":
        """One report's codes and what contradicts what, perhaps with ``explain`` places in the text behind each."""
        from pathveil.bundle.coder import Coder
        from pathveil.bundle.text_answers import answer

        check_whole_number(explain, "explain", least=0)
        plain = plain_report(text, places=explain > 0)
        return answer(Coder(self), [plain], joint=rules_named(joint), explain=explain)[0]

    def evaluate(
        self,
        reports: "Reports",
        *,
        tasks: str | Iterable[str] | None = None,
        resamples: int = 1000,
        seed: int = 0,
        most_skipped: float = 0.1,
        device: str = "cpu",
        progress: Progress = silent,
    ) -> "Evaluation":
        """Scores, with intervals by case, on labelled reports that the model was not trained on: a path, a frame or a
        ``Corpus``."""
        from pathveil.bundle.evaluation import evaluate_model

        check_whole_number(resamples, "resamples", least=FEWEST_RESAMPLES)
        check_seed(seed)
        options: dict[str, Any] = {"resamples": resamples, "seed": seed, "device": device, "progress": progress}
        given = names_given(tasks, "tasks")
        return evaluate_model(self, reports, tasks=given, most_skipped=most_skipped, **options)

    def drift(
        self,
        reports: "Reports",
        *,
        reference: "Reports | None" = None,
        mapping: "AnyMapping" = None,
        reference_mapping: "AnyMapping" = None,
        most_skipped: float = 0.1,
        strict: bool = False,
        device: str = "cpu",
        progress: Progress = silent,
    ) -> "Drift":
        """How new reports, labelled or not, differ from those the model was trained on, or from ``reference``; the
        mappings say how the tables of each are written."""
        from pathveil.bundle.drift import measure_drift

        tables: dict[str, Any] = {"mapping": mapping, "reference_mapping": reference_mapping}
        tables |= {"most_skipped": most_skipped, "strict": strict}
        return measure_drift(self, reports, reference=reference, device=device, progress=progress, **tables)

    def save(self, path: str | Path, *, replace_old: bool = False) -> "Model":
        """Write a bundle, a new folder, whole or not at all; the model with the folder's sha256. With ``replace_old`` a
        bundle that is there gives way when the new one is whole. Of a release nothing is written: a copy would have
        neither its form nor its signature."""
        for place in (self.folder, Path(path) if replace_old else None):
            if place is not None and (place / RELEASE).exists():
                raise BundleError(f"{place}: is a release, and stays as it was signed; use the bundle it was made from")
        with new_folder(Path(path), replace=replace_old) as part:
            folders.write(self, part)
        return replace(self, folder_sha256=sha256_of_file(Path(path) / folders.MANIFEST), folder=Path(path))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        require_signature: str | Path | None = None,
        words_key: str | Path | None = None,
    ) -> "Model":
        """The model of a bundle or release, every byte checked against its manifest.

        With ``require_signature``, a public key's file, only a release that the key's owner signed is opened, and only
        while its verdict is good. ``words_key`` is the file with the key of a release whose words are hashed.
        """
        if require_signature is not None:
            from pathveil.bundle.verification import check_signed

            check_signed(Path(path), require_signature)
        model = cls(**folders.read(Path(path)), folder=Path(path))
        folders.check_shapes(model, str(path))
        return model if words_key is None else model.with_words_key(Path(words_key))

    def with_words_key(self, path: Path) -> "Model":
        """The model of a release whose words are hashed, with the key to look them up."""
        from pathveil.corpus.messages.patient import read_key

        try:
            return replace(self, vocabulary=self.vocabulary.with_key(read_key(path)))
        except VocabularyError as error:
            raise BundleError(f"{path}: does not fit the model: {error}") from None

    def __repr__(self) -> str:
        networks, source = self.architecture["members"], self.provenance
        lines = [
            f"Model for {listed(self.tasks)}: {counted(networks, 'network')}"
            f"{' and a linear view' if self.architecture['linear'] else ''}, {counted(len(self.words), 'word')}",
            f"trained on {source.get('reports', 0):,} reports of {source.get('cases', 0):,} cases; "
            + ("audited" if self.audit else "not audited"),
            *(f"  {task:<{width_of(self.scores)}}{score}" for task, score in self.scores.items()),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{html.escape(repr(self))}</pre>"


def listed_texts(reports: Any) -> Any:
    """A column of texts (pandas, polars, NumPy) or what yields them as a list of texts; anything else as it is."""
    if hasattr(reports, "to_list") or hasattr(reports, "tolist"):
        reports = reports.to_list() if hasattr(reports, "to_list") else reports.tolist()
    elif isinstance(reports, Iterator):
        reports = list(reports)
    for place, text in enumerate(reports if isinstance(reports, list | tuple) else (), 1):
        if not isinstance(text, str):
            told = f"number {place:,} of {len(reports):,} is of type {type(text).__name__}"
            raise UsageError(f"expected a list of texts; {told}")
    return reports


def plain_report(text: Any, *, places: bool) -> str:
    """The text of one report, without RTF or tags, as texts of tables are read; refused where it is none, or where
    ``places`` are to be named in a text that the caller does not have."""
    from pathveil.bundle.incoming import made_plain

    if not isinstance(text, str):
        raise UsageError(f"expected the text of one report; got {type(text).__name__}")
    plain = made_plain(text)
    if places and plain != text:
        raise UsageError("the text is RTF or a page, and places would lie in what is made of it; give it as plain text")
    return plain


def weights_sha256(tensors: Mapping[str, np.ndarray]) -> str:
    """Of all numbers by name, whatever file they are in."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}\0{tensors[name].shape}\0".encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def attach_audit(path: Path, audit: Mapping[str, Any]) -> Model:
    """Put what an audit found (aggregates only) into the bundle, its card and its manifest; the model as it now is.

    An audit that is not bound to this very bundle is refused: its verdict is not about this model.
    """
    before_audit = Model.load(path)
    named = audit.get("provenance", {})
    same = named.get("model sha256", before_audit.model_sha256) == before_audit.model_sha256
    if audit.get("bound") is False or not same:
        raise UsageError(f"{path}: the audit is not bound to this model, so its verdict does not go on the card")
    return replace(before_audit, audit=audit).save(path, replace_old=True)
