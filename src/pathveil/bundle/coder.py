"""A model at work: texts in, codes with their probabilities out, and who should look at them.

A code is taken where its calibrated probability reaches the task's threshold; below it the model abstains and a person
decides. It always abstains from a report in which it knows no word, and where it has no threshold (no cases were held
out).

Where held-out cases gained by it, rare codes are lifted: chosen before a more probable common one
(``pathveil.training.blend``). The probability is then still the chance that this code is right, so a lifted code of two
may have one below a half; ``Code.lifted`` says so. With ``joint`` rules, codes that contradict each other give way to
the most probable combination that is valid (``pathveil.bundle.joint``); ``Code.adjusted`` says which.

Each code comes with ICD-O-3's term and the next probable codes of its task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pathveil.bundle.joint import Rules, choose_together
from pathveil.bundle.model import Model
from pathveil.errors import BundleError
from pathveil.formatting import counted
from pathveil.icdo.combinations import find_term
from pathveil.training.blend import choose
from pathveil.training.scores import NEVER
from pathveil.vocabulary.encoding import text_encoder
from pathveil.vocabulary.words import FIRST_WORD

if TYPE_CHECKING:
    from pathveil.training.ensemble import Ensemble

FEW = 100  # texts up to which setting up tables would cost more than it saves
ALTERNATIVES = 2  # codes named beside the chosen one: three in all
LARGEST_TABLES = 1 << 30  # bytes of look-up tables a coder may make


@dataclass(frozen=True)
class Alternative:
    """A code that was not chosen."""

    code: str
    term: str
    probability: float


@dataclass(frozen=True)
class Code:
    """What a model says about one task of one report."""

    code: str
    probability: float  # that this code is right
    abstained: bool
    lifted: bool = False  # another code is more probable; this one is rarer
    term: str = ""  # ICD-O-3's, where it has one
    alternatives: tuple[Alternative, ...] = ()  # the most probable other codes, the first more probable if lifted
    adjusted: bool = False  # taken because it goes together with the codes of other tasks


class Coder:
    """Codes texts with a model; keeps what it learns about words from one batch to the next.

    Every way to an answer goes through here, so here a release's form is obeyed: of one as ``labels`` there is a coder
    only for who promises that ``labels_alone`` are told of what it says, as a server and counts over many reports do.
    """

    def __init__(self, model: Model, *, device: str = "cpu", labels_alone: bool = False):
        if model.form == "labels" and not labels_alone:
            raise BundleError(
                f"{model.folder or 'the model'}: was released as labels, for its owner to serve; these answers would "
                "tell probabilities. Use 'pathveil serve', or the bundle it was made from"
            )
        self.model, self.device = model, device
        self.words = model.clip
        self._encoder = text_encoder(model.vocabulary, words=self.words, identifiers=model.identifiers)
        self._is_prepared = False
        self._tabulated: Ensemble | None = None

    def prepare(self) -> None:
        """Set up what makes many texts quick; done of itself when many come at once."""
        if not self._is_prepared:
            self._is_prepared = True
            if table_bytes(self.model) <= LARGEST_TABLES and self.device == "cpu":
                self._tabulated = self.model.ensemble().tabulated()

    @property
    def ensemble(self) -> "Ensemble":
        """The networks, with tables once there are any."""
        return self._tabulated or self.model.ensemble(self.device)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The texts' word ids end to end, and where each text starts."""
        if len(texts) > FEW:
            self.prepare()
        return self._encoder.add(texts)

    def read(self, texts: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Each task's calibrated log-probabilities (texts, classes), and which texts hold no word the model knows."""
        return self.read_encoded(*self.encode(texts))

    def read_encoded(self, ids: np.ndarray, offsets: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The same for texts that are encoded already."""
        return self.ensemble.log_probabilities(ids, offsets), unread(self.model, ids, offsets)

    def code(self, texts: Sequence[str], *, joint: Rules | None = None) -> list[dict[str, Code]]:
        """Each text's codes, by task; ``joint`` are rules by which they must go together."""
        log_probabilities, empty = self.read(texts)
        return decide(self.model, log_probabilities, empty=empty, joint=joint)


def unread(model: Model, ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Which of some encoded texts the model reads nothing of: no word that it knows, or fewer words than its networks
    look at together, where no linear view looks at each. A person decides on these, whatever is said."""
    shortest = 0 if model.architecture["linear"] else min(model.architecture["windows"])
    return without_known_word(ids, offsets) | (np.diff(offsets) < shortest)


NOTHING = "nothing the model can read (no word it knows, or too few)"  # what unread texts hold


def nothing_read(reports: int) -> str:
    """What to say of so many reports of which a model reads nothing."""
    hold, are = ("holds", "is it") if reports == 1 else ("hold", "are they")
    asked = f"{are} empty, in another language, or is the text in another column?"
    return f"{counted(reports, 'report')} {hold} {NOTHING}: {asked}"


def without_known_word(ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Which of some encoded texts hold no word that the model knows.

    >>> without_known_word(np.array([1, 7, 1, 1]), np.array([0, 0, 2, 4, 4])).tolist()
    [True, False, True, True]
    """
    empty, filled = np.ones(len(offsets) - 1, bool), np.diff(offsets) > 0
    if filled.any():
        empty[filled] = ~np.logical_or.reduceat(np.asarray(ids) >= FIRST_WORD, offsets[:-1][filled])
    return empty


def decide(
    model: Model, log_probabilities: Mapping[str, np.ndarray], *, empty: np.ndarray, joint: Rules | None = None
) -> list[dict[str, Code]]:
    """The chosen code a task, and whether it is sure enough, for each document; of ``empty`` ones nothing was read."""
    alone = choose(log_probabilities, model.lift)
    chosen = alone if joint is None else choose_together(alone, log_probabilities, joint)
    rows = np.arange(len(empty))
    coded: list[dict[str, Code]] = [{} for _ in rows]
    for task, logs in log_probabilities.items():
        names = model.labels[task]
        terms = terms_of(task, names, behaviors=model.labels.get("behavior", ()))
        manner = chosen["behavior"] if task == "histology" and "behavior" in chosen else np.zeros_like(rows)
        threshold = model.thresholds[task].probability if task in model.thresholds else NEVER
        probability = np.exp(logs[rows, chosen[task]].astype(np.float64))
        others, chances = next_probable(logs, chosen[task])
        columns = (
            chosen[task],
            probability,
            ~(probability >= threshold) | empty,
            (logs[rows, alone[task]] < logs.max(1)) & (chosen[task] == alone[task]),
            others,
            chances,
            chosen[task] != alone[task],
            manner,
        )
        for codes, label, sure, abstained, lifted, other, chance, adjusted, which in zip(
            coded, *(column.tolist() for column in columns), strict=True
        ):
            term = terms[which]
            beside = tuple(Alternative(names[one], term[one], p) for one, p in zip(other, chance, strict=True))
            codes[task] = Code(names[label], sure, abstained, lifted, term[label], beside, adjusted)
    return coded


@lru_cache(maxsize=64)
def terms_of(task: str, names: tuple[str, ...], *, behaviors: tuple[str, ...]) -> list[list[str]]:
    """The term of each class of a task; of histology, for each behavior that the report may have."""
    if task == "histology" and behaviors:
        return [[find_term(task, name, behavior) for name in names] for behavior in behaviors]
    return [[find_term(task, name) for name in names]]


def next_probable(logs: np.ndarray, chosen: np.ndarray, number: int = ALTERNATIVES) -> tuple[np.ndarray, np.ndarray]:
    """The ``number`` most probable classes beside the chosen one, and their probabilities, both (documents, number).

    >>> classes, chances = next_probable(np.log([[0.5, 0.1, 0.4]]), np.array([2]))
    >>> classes.tolist(), chances.round(2).tolist()
    ([[0, 1]], [[0.5, 0.1]])
    """
    number = min(number, logs.shape[1] - 1)
    rows, others = np.arange(len(logs))[:, None], logs.astype(np.float64)
    others[rows, chosen[:, None]] = -np.inf
    classes = np.argpartition(-others, max(number - 1, 0), axis=1)[:, :number]
    classes = classes[rows, np.argsort(-others[rows, classes], axis=1, kind="stable")]
    return classes, np.exp(others[rows, classes])


def table_bytes(model: Model) -> int:
    """Size of the look-up tables of all members, filters rounded up as the kernel does."""
    shape = model.architecture
    filters = -(-shape["filters"] // 64) * 64
    return 4 * shape["vocabulary_size"] * sum(shape["windows"]) * filters * shape["members"]
