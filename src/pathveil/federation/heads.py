"""What an encoder's features are good for, and whom they betray: new heads on features that stand still.

A fresh head on the training documents' features says how useful they are by themselves. A *public* head, trained on
documents that no encoder learnt from, is what anyone can put on an encoder that is given away: whatever then tells
members from others is in the encoder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pathveil.federation.perceptron import Perceptron
from pathveil.federation.site import batches_of
from pathveil.model.mtcnn import Encoder
from pathveil.training.batches import hold_out_cases
from pathveil.training.metrics import evaluate
from pathveil.vocabulary.encoded import EncodedCorpus

HEAD_BATCH, HEAD_STEPS, HEAD_EPOCHS = 128, 1000, 20  # of a new head; steps enough for one on few documents


@dataclass(frozen=True)
class Confidence:
    """What an attacker reads: the log-probability of all a document's labels together, members and unseen cases."""

    values: np.ndarray  # (documents,)
    member: np.ndarray  # (documents,) bool
    cases: np.ndarray  # (documents,)


def confidence_of(logits: Mapping[str, np.ndarray], reports: EncodedCorpus) -> np.ndarray:
    """The log-probability of each document's labels, added over the tasks that have one."""
    total = np.zeros(reports.documents)
    for task, scores in logits.items():
        labels = np.asarray(reports.labels[task])
        log_probabilities = torch.log_softmax(torch.from_numpy(scores).double(), dim=1).numpy()
        total += np.where(labels >= 0, log_probabilities[np.arange(len(labels)), np.maximum(labels, 0)], 0.0)
    return total


@torch.no_grad()
def features_of(encoder: Encoder, reports: EncodedCorpus) -> np.ndarray:
    """Pooled features (documents, K·F), frozen."""
    device = encoder.embedding.weight.device
    return np.concatenate([encoder.features(batch).cpu().numpy() for batch in batches_of(reports, device=device)])


def fresh_head(
    known: np.ndarray,
    training: EncodedCorpus,
    unseen: np.ndarray,
    tests: EncodedCorpus,
    *,
    seed: int,
    epochs: int = HEAD_EPOCHS,
    device: torch.device | str = "cpu",
) -> dict[str, dict[str, float]]:
    """How useful features are by themselves: a new softmax head on them, a task at a time; micro and macro F1."""
    (answers,) = new_heads(known, training, [unseen], seed=seed, epochs=epochs, device=device)
    scores = {}
    for task, logits in answers.items():
        result = evaluate(np.asarray(tests.labels[task]), logits.argmax(1), cases=tests.cases, resamples=1)
        scores[task] = {"micro": result.micro.value, "macro": result.macro.value}
    return scores


def public_confidence(
    known: np.ndarray,
    members: EncodedCorpus,
    unseen: np.ndarray,
    others: EncodedCorpus,
    *,
    seed: int,
    device: torch.device | str = "cpu",
) -> Confidence:
    """What an attacker reads off a given-away encoder under a head of his own, trained on reports nobody trained on.

    One half of the unseen cases trains the head, which then reads half of the members and the other half of the unseen
    cases; the halves change places. So each document is read once, by a head that never saw it.
    """
    values, member, cases = [], [], []
    halves = hold_out_cases(others.cases, share=0.5, seed=[seed, 4])
    own_halves = hold_out_cases(members.cases, share=0.5, seed=[seed, 5])
    for half, mine in enumerate(own_halves):
        public, rest = halves[half], halves[1 - half]
        parts = [known[mine], unseen[rest]]
        answers = public_heads(unseen[public], others.take(public), parts, seed=seed, device=device)
        for logits, reports, is_member in zip(
            answers, (members.take(mine), others.take(rest)), (True, False), strict=True
        ):
            values.append(confidence_of(logits, reports))
            member.append(np.full(reports.documents, is_member))
            cases.append(reports.cases)
    return Confidence(*(np.concatenate(parts) for parts in (values, member, cases)))


def public_heads(
    known: np.ndarray,
    public: EncodedCorpus,
    asked: Sequence[np.ndarray],
    *,
    seed: int,
    device: torch.device | str = "cpu",
) -> list[dict[str, np.ndarray]]:
    """Heads that an outsider trains on his own reports' features: their logits of the features asked about."""
    epochs = -(-HEAD_STEPS // -(-public.documents // HEAD_BATCH))  # so many steps, however few documents
    return new_heads(known, public, asked, seed=seed, epochs=epochs, device=device)


def new_heads(
    known: np.ndarray,
    training: EncodedCorpus,
    asked: Sequence[np.ndarray],
    *,
    seed: int,
    epochs: int,
    device: torch.device | str,
) -> list[dict[str, np.ndarray]]:
    """A new softmax head a task on features (documents, width): its logits of each of the features asked about."""
    spread = known.std(0) + 1e-6
    inputs, *others = (torch.from_numpy((part / spread).astype(np.float32)).to(device) for part in (known, *asked))
    answers: list[dict[str, np.ndarray]] = [{} for _ in asked]
    for task, names in training.classes.items():
        labels = torch.from_numpy(training.labels[task].astype(np.int64)).to(device)
        rows = torch.nonzero(labels >= 0)[:, 0]
        generator = torch.Generator().manual_seed(seed)
        head = Perceptron(inputs.shape[1], len(names), like=inputs)
        for _ in range(epochs):
            for part in rows[torch.randperm(len(rows), generator=generator).to(device)].split(HEAD_BATCH):
                head.learn(inputs[part], labels[part])
        for answer, other in zip(answers, others, strict=True):
            answer[task] = head.logits(other).cpu().numpy()
    return answers
