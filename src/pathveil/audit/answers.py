"""What attacks need of models' answers, read one model at a time: memory holds a few numbers a document and model.

For each task the log-probability of a document's label and its margin log(p / (1 − p)); for the task that the paper's
attack looks at, the features of its attack models on the pool the shadows were drawn from.

>>> import numpy as np
>>> one = answers_of([({"site": np.array([[2.0, 0.0], [0.0, 0.0]])}, np.array([True, False]))],
...                  {"site": np.array([0, 1])}, main_task="site", pool=np.array([0, 1]))
>>> one.margin["site"].tolist(), one.inside.tolist()
([[2.0, 0.0]], [[True, False]])
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pathveil.audit import attacks
from pathveil.audit.shadows import Job, Store
from pathveil.audit.shokri import Features, attack_features

Logits = Mapping[str, np.ndarray]  # task: (documents, classes)


@dataclass(frozen=True)
class Answers:
    """M models' answers on n documents."""

    log_p: dict[str, np.ndarray]  # task: (models, documents) float32, NaN without a label
    margin: dict[str, np.ndarray]  # task: (models, documents) float32
    inside: np.ndarray  # (models, documents) bool: the model trained on the document
    features: np.ndarray  # (models, pool, features) float32, of the main task
    pool: np.ndarray  # (pool,) documents that the models' training sets were drawn from

    @property
    def models(self) -> int:
        return len(self.inside)

    def first(self, models: int) -> "Answers":
        return self.only(slice(0, models))

    def only(self, models: slice | Sequence[int]) -> "Answers":
        """Some of the models."""
        return Answers(
            log_p={task: values[models] for task, values in self.log_p.items()},
            margin={task: values[models] for task, values in self.margin.items()},
            inside=self.inside[models],
            features=self.features[models],
            pool=self.pool,
        )


def answers_of(
    models: Iterable[tuple[Logits, np.ndarray]],
    labels: Mapping[str, np.ndarray],
    *,
    main_task: str,
    pool: np.ndarray,
    features: Features = "sorted",
) -> Answers:
    """Gather what attacks need from (logits, in/out mask) of one model after another."""
    log_p: dict[str, list[np.ndarray]] = {task: [] for task in labels}
    margin: dict[str, list[np.ndarray]] = {task: [] for task in labels}
    inside, seen = [], []
    for logits, mask in models:
        for task, label in labels.items():
            values = attacks.log_softmax(logits[task])
            log_p[task].append(attacks.of_label(values, label).astype(np.float32))
            margin[task].append(attacks.confidence_margin(logits[task], label).astype(np.float32))
            if task == main_task:
                probabilities = np.exp(values[pool])
                found = attack_features(probabilities, label[pool], features=features)
                seen.append(found.astype(np.float32))
        inside.append(mask)
    return Answers(
        log_p={task: np.stack(values) for task, values in log_p.items()},
        margin={task: np.stack(values) for task, values in margin.items()},
        inside=np.stack(inside),
        features=np.stack(seen),
        pool=pool,
    )


def from_store(
    store: Store,
    jobs: Sequence[Job],
    labels: Mapping[str, np.ndarray],
    *,
    main_task: str,
    pool: np.ndarray,
    features: Features = "sorted",
) -> Answers:
    documents = len(labels[main_task])
    read = (store.read(job, documents) for job in jobs)
    return answers_of(read, labels, main_task=main_task, pool=pool, features=features)
