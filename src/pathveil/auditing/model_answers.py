"""What attacks read of models' answers: a few numbers a document and model, not the logits.

A model may be taught something else than the true code (by teachers that answer for it, or because it gives in to the
text). The *taught code* of a document is the one that models which saw it answer most often.

>>> import numpy as np
>>> one = answers_of([({"site": np.array([[2.0, 0.0], [0.0, 0.0]])}, np.array([True, False]))],
...                  {"site": np.array([0, 1])}, main_task="site", pool=np.array([0, 1]))
>>> one.margin["site"].tolist(), one.inside.tolist()
([[2.0, 0.0]], [[True, False]])
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pathveil.auditing import attacks, shokri

SAW_IT = 1_000  # votes of a model that trained on a document, where one that did not has one
Logits = Mapping[str, np.ndarray]  # task: (documents, classes)


@dataclass(frozen=True)
class ModelAnswers:
    """What attacks need of M models' answers on n documents: a few numbers a document and model, not the logits."""

    log_p: dict[str, np.ndarray]  # task: (models, documents) float32, log-probability of the label, NaN without one
    margin: dict[str, np.ndarray]  # task: (models, documents) float32, log(p / (1 − p)) of the label
    right: dict[str, np.ndarray]  # task: (models, documents) float32, 1 where the label is the answered code, NaN
    inside: np.ndarray  # (models, documents) bool: the model trained on the document
    features: np.ndarray  # (models, pool, features) float32, of the main task, for the paper's attack
    pool: np.ndarray  # (pool,) documents that the models' training sets were drawn from
    taught: "ModelAnswers | None" = None  # the same about the taught codes in the place of labels

    @property
    def models(self) -> int:
        return len(self.inside)

    def only(self, models: slice | Sequence[int]) -> "ModelAnswers":
        """Some of the models."""
        return ModelAnswers(
            log_p={task: values[models] for task, values in self.log_p.items()},
            margin={task: values[models] for task, values in self.margin.items()},
            right={task: values[models] for task, values in self.right.items()},
            inside=self.inside[models],
            features=self.features[models],
            pool=self.pool,
            taught=None if self.taught is None else self.taught.only(models),
        )


def answers_of(
    models: Iterable[tuple[Logits, np.ndarray]],
    labels: Mapping[str, np.ndarray],
    *,
    main_task: str | None = None,
    pool: np.ndarray | None = None,
    features: shokri.Features = "sorted",
    taught: Mapping[str, np.ndarray] | None = None,
) -> ModelAnswers:
    """Gather what attacks need from (logits, in/out mask) of one model after another.

    ``main_task`` and ``pool``: for the paper's attack, which task's answers on which documents. ``taught``: codes that
    the same is gathered about, beside the labels.
    """
    pool = np.arange(0) if pool is None else pool
    about = [labels] if taught is None else [labels, taught]
    gathered: list[dict[str, dict[str, list[np.ndarray]]]] = [
        {name: {task: [] for task in labels} for name in ("log_p", "margin", "right")} for _ in about
    ]
    inside, seen = [], []
    for logits, mask in models:
        for task, label in labels.items():
            values = attacks.log_softmax(logits[task])
            for asked, found in zip(about, gathered, strict=True):
                found["log_p"][task].append(attacks.of_label(values, asked[task]).astype(np.float32))
                margin = attacks.confidence_margin(logits[task], asked[task])
                found["margin"][task].append(margin.astype(np.float32))
                right = attacks.label_score(logits[task], asked[task])
                found["right"][task].append(right.astype(np.float32))
            if task == main_task:
                probabilities = np.exp(values[pool])
                sorted_features = shokri.attack_features(probabilities, label[pool], features=features)
                seen.append(sorted_features.astype(np.float32))
        inside.append(mask)
    masks = np.stack(inside)
    made: list[ModelAnswers] = []
    for found in reversed(gathered):
        stacked = {name: {task: np.stack(values) for task, values in found[name].items()} for name in found}
        first = len(made) == len(about) - 1
        made.append(
            ModelAnswers(
                log_p=stacked["log_p"],
                margin=stacked["margin"],
                right=stacked["right"],
                inside=masks,
                features=np.stack(seen) if seen and first else np.zeros((len(masks), 0, 0), np.float32),
                pool=pool,
                taught=made[0] if made else None,
            )
        )
    return made[-1]


AnsweredCodes = tuple[Mapping[str, np.ndarray], np.ndarray]  # of a model, {task: (documents,)}, and its in/out mask


def vote(
    models: Iterable[AnsweredCodes], labels: Mapping[str, np.ndarray], classes: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
    """How often each code is answered for a document (documents, classes): by a model that trained on it ``SAW_IT``
    votes and one, by others one, so that these decide only where nobody did."""
    votes = {task: np.zeros((len(label), len(classes[task])), np.int32) for task, label in labels.items()}
    for codes, inside in models:
        for task, counts in votes.items():
            counts[np.arange(len(counts)), codes[task]] += SAW_IT * inside + 1
    return votes


def taught_codes(
    models: Iterable[AnsweredCodes], labels: Mapping[str, np.ndarray], classes: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
    """The code that models which trained on a document answer most often (documents,), of all models where none did;
    none where there is no label.

    >>> said, inside = [[1, 0], [1, 2], [0, 2]], np.array([True, False])
    >>> models = [({"site": np.array(codes)}, inside) for codes in said]
    >>> taught_codes(models, {"site": np.array([0, 0])}, {"site": ("a", "b", "c")})["site"].tolist()
    [1, 2]
    """
    votes = vote(models, labels, classes)
    return {task: np.where(labels[task] >= 0, counts.argmax(axis=1), attacks.MISSING) for task, counts in votes.items()}


def answered_codes(models: Iterable[tuple[Logits, np.ndarray]]) -> Iterator[AnsweredCodes]:
    """The codes with the highest logits, of one model after another."""
    for logits, inside in models:
        yield {task: said.argmax(axis=1) for task, said in logits.items()}, inside
