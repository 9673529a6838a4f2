"""The defences study's units of work: models of some worlds, and every attack on the models of all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.auditing.worlds import Worlds, answer_worlds, judge_worlds, kept_answers, logits_of_worlds, make_worlds
from pathveil.progress import Progress
from pathveil.studies.scheduler import Keep, Parts
from pathveil.studies.store import Cells
from pathveil.studies.study_corpus import relabelled
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.words import FIRST_WORD


@dataclass(frozen=True)
class WorldsDraw:
    """What the worlds of a seed are drawn from; who is in which is the same with every vocabulary."""

    table: np.ndarray | None  # from the store's word numbers to a vocabulary's; None for counting only
    size: int
    worlds: int
    test_share: float
    canaries: int
    seed: int

    def draw(self, corpus: EncodedCorpus) -> Worlds:
        assert self.table is not None, "words are chosen before models are trained"
        encoded = relabelled(corpus, self.table, self.size)
        about: dict[str, Any] = {"worlds": self.worlds, "test_share": self.test_share, "canaries": self.canaries}
        return make_worlds(encoded, **about, seed=self.seed)


def train_worlds(
    corpus: EncodedCorpus,
    draw: WorldsDraw,
    numbers: range,
    settings: TrainingSettings,
    device: str,
    parts: Parts,
    keep: Keep,
    progress: Progress,
) -> None:
    """A model in each of some worlds, trained in one way: what attacks need of their answers where these are all
    worlds, else all that they say, for what was taught is known only from all of them."""
    worlds = draw.draw(corpus)
    about: dict[str, Any] = {"device": device, "seed": draw.seed, "progress": progress}
    if len(numbers) == draw.worlds:
        keep(parts, {}, answer_worlds(worlds, settings, **about))
        return
    logits = logits_of_worlds(worlds, settings, numbers=numbers, **about)
    keep(parts, {}, {task: np.stack([said[task] for said in logits]) for task in corpus.tasks})


def attack_worlds(
    corpus: EncodedCorpus,
    folder: str,
    draw: WorldsDraw,
    way: str,
    settings: TrainingSettings,
    pieces: Sequence[Parts],
    answers: Parts,
    parts: Parts,
    keep: Keep,
    progress: Progress,
) -> None:
    """Every attack on the models of all worlds, and their scores."""
    cells, worlds = Cells(Path(folder)), draw.draw(corpus).learned(settings, seed=draw.seed)
    if not cells.has(answers):
        arrays = [cells.read(piece)[1] for piece in pieces]
        logits = [dict(zip(one, said, strict=True)) for one in arrays for said in zip(*one.values(), strict=True)]
        took = sum(cells.about(piece)["seconds"] for piece in pieces)
        keep(answers, {}, kept_answers(worlds, logits), seconds=round(took, 3))
        for piece in pieces:  # large beside what is kept of them
            cells.remove(piece)
    row = judge_worlds(worlds, cells.read(answers)[1], name=way)
    keep(parts, {"words": draw.size - FIRST_WORD, "row": row.to_dict()})
