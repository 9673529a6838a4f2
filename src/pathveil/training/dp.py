"""Differentially private training: a model that hardly depends on any one case, with a number for "hardly".

DP-SGD (Abadi et al. 2016, "Deep learning with differential privacy"), a step at a time:

1. Every case is drawn with the same chance, independently of the others (a Poisson batch).
2. What a case's reports add to the gradient is summed and, where its norm is above ``clip``, scaled down to it. Norms
   are exact and cheap (``model/kernels/norms.py``); the scaled slopes then go through the ordinary backward pass.
3. Gaussian noise of standard deviation noise · clip is added to the gradient of *every* parameter, words that no report
   holds included, and the sum is divided by the expected number of cases.
4. Adam or Adadelta makes a step of that; it sees nothing else, so it costs no privacy.

The number of steps is fixed before the first one, nothing is stopped or chosen by looking at private cases, and neither
the loss nor the norms of the training cases are written down.

Noise and batches must be secret: who knows them can subtract them. They, and what dropout drops, come from 256 bits
that the operating system draws for each run, by the Philox generator (keyed by 128 bits on a CPU, 64 on a GPU). This
secret lies in the checkpoint, so that a killed run goes on bit for bit, and is lost with it; a seed says only where the
weights start and which cases are held out. Two runs of one seed therefore differ. The numbers are ordinary floats: what
Mironov (2012, "On significance of the least significant bits") shows for a single noised answer is not defended
against. One case more or less changes nothing for the others: a case is held out by its own number, and the number of
cases, from which sampling rate and steps follow, is taken to be public.

>>> import numpy as np
>>> from pathveil.training.defences import DPSettings
>>> from pathveil.training.settings import TrainingSettings
>>> from pathveil.vocabulary import EncodedCorpus
>>> corpus = EncodedCorpus(
...     ids=np.tile(np.array([2, 3, 4, 5, 6, 7], np.int32), 200), offsets=np.arange(0, 1201, 3), cases=np.arange(400),
...     registries=np.zeros(400, np.int32), registry_names=("R1",), labels={"site": np.tile([0, 1], 200)},
...     classes={"site": ("C18", "C50")}, vocabulary_size=8)
>>> settings = TrainingSettings(
...     dim=8, filters=4, epochs=20, batch_size=100, learning_rate=0.01, dropout=0, patience=None,
...     defence=DPSettings(epsilon=8, delta=1e-4))
>>> fitted = fit_private(corpus, settings, seed=1)
>>> fitted.history[-1]["validation_accuracy"], fitted.privacy.steps, fitted.privacy.epsilon <= 8
({'site': 1.0}, 80, True)
"""

import hashlib
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pathveil.errors import UsageError
from pathveil.model.kernels import choose
from pathveil.model.kernels.norms import encoder_squares, head_squares
from pathveil.model.mtcnn import drop
from pathveil.model.threads import spread
from pathveil.progress import Progress, silent
from pathveil.training import checkpoint as checkpoints
from pathveil.training.accounting import Privacy, privacy_of
from pathveil.training.batches import drop_words, noise
from pathveil.training.defences import DPSettings
from pathveil.training.loop import EMBEDDING, SAVE_SECONDS, Fitted, fingerprint, split, validate
from pathveil.training.optimisers import Adadelta, Adam, Optimiser
from pathveil.training.settings import TrainingSettings
from pathveil.training.stacked import FinishedModel, model_of, starting_weights
from pathveil.vocabulary.encoded import EncodedCorpus, take_documents
from pathveil.vocabulary.words import UNKNOWN

ENCODER = (EMBEDDING, "convolution.weight", "convolution.bias")
ROUNDING = 1 + 1e-5  # norms are sums in float32: a case is scaled to a little less than the bound
DOCUMENTS_AT_ONCE = 4096  # in a step of a stack on a GPU
NOISE_BLOCK = 2**20  # numbers of noise that one thread draws at a time

Arrays = dict[str, Tensor]


@dataclass(frozen=True)
class PrivateFitted(Fitted):
    """A trained model with its promise."""

    privacy: Privacy


def fit_private(
    corpus: EncodedCorpus,
    settings: TrainingSettings,
    *,
    seed: int = 0,
    held_out: np.ndarray | None = None,
    vectors: np.ndarray | None = None,
    device: str | torch.device = "cpu",
    checkpoint: Path | None = None,
    save_seconds: float = SAVE_SECONDS,
    progress: Progress = silent,
    stage: str = "training",
    secret: bytes | None = None,
) -> PrivateFitted:
    """Train one model; the arguments are ``training.loop.fit``'s. ``held_out`` cases are looked at after each epoch
    (their scores are no part of the promise) and decide nothing. ``vectors`` must not come from private text.
    A ``secret`` is for tests and for models that are never released: who has it can undo the noise."""
    device = torch.device(device)
    trainee = Trainee(0, np.arange(corpus.documents), corpus, settings, seed=seed, held_out=held_out, secret=secret)
    machine = PrivateStack(corpus, settings, [trainee], vectors=vectors, device=device)
    of = fingerprint(corpus, settings, seed=seed, held_out=trainee.held_out, vectors=vectors, on=device)
    found = checkpoints.load(checkpoint, fingerprint=of) if checkpoint else None
    history: list[dict[str, Any]] = []
    if found:
        machine.restore(found[0])
        trainee.secret, history = bytes.fromhex(found[1]["secret"]), found[1]["history"]
    steps = trainee.privacy.steps
    an_epoch = steps // settings.epochs

    def save() -> None:
        if checkpoint:
            content = {"secret": trainee.secret.hex(), "history": history}
            checkpoints.save(checkpoint, machine.state(), fingerprint=of, content=content)

    saved = time.monotonic()
    while machine.step < steps:
        machine.learn()
        progress(stage, machine.step, steps)
        if machine.step % an_epoch == 0:
            entry: dict[str, Any] = {"epoch": machine.step // an_epoch}
            if len(trainee.held_out):
                model = model_of(machine.weights_of(0), corpus, settings).to(device)
                entry |= validate(model, corpus, trainee.held_out)
            history.append(entry)
        if machine.step == steps or time.monotonic() - saved > save_seconds:
            save()
            saved = time.monotonic()
    progress(stage, steps, steps)
    return PrivateFitted(
        model=model_of(machine.weights_of(0), corpus, settings).to(device),
        history=history,
        best_epoch=settings.epochs,
        validation=trainee.held_out,
        privacy=trainee.privacy,
    )


def train_many_private(
    corpus: EncodedCorpus,
    members: Sequence[np.ndarray],
    settings: TrainingSettings,
    *,
    seeds: Sequence[int],
    masks: Sequence[np.ndarray] | None = None,
    vectors: np.ndarray | None = None,
    device: str | torch.device = "cpu",
    stack: int | None = None,
    progress: Progress = silent,
    stage: str = "training models",
) -> Iterator[FinishedModel]:
    """``training.stacked.train_many`` for this defence: models that an audit compares with, never released. Their noise
    comes from their seeds, so that an audit can be repeated. Words outside a model's mask have the unknown word's
    vector in the weights that are handed over, and so are read as unknown."""
    device = torch.device(device)
    if stack is None:
        stack = max(DOCUMENTS_AT_ONCE // settings.batch_size, 1) if device.type == "cuda" else 1
    progress(stage, 0, len(members))
    for first in range(0, len(members), stack):
        numbers = range(first, min(first + stack, len(members)))
        trainees = [
            Trainee(
                number, members[number], corpus, settings, seed=seeds[number], secret=secret_of_seed(seeds[number]),
                mask=None if masks is None else np.asarray(masks[number], bool),
            )
            for number in numbers
        ]  # fmt: skip
        machine = PrivateStack(corpus, settings, trainees, vectors=vectors, device=device)
        while machine.step < max(trainee.privacy.steps for trainee in trainees):
            machine.learn()
            for slot, trainee in enumerate(trainees):
                if trainee.privacy.steps == machine.step:
                    yield trained(trainee, machine.weights_of(slot), corpus, settings, device=device)
        progress(stage, numbers[-1] + 1, len(members))


def trained(
    trainee: "Trainee", weights: Arrays, corpus: EncodedCorpus, settings: TrainingSettings, *, device: torch.device
) -> FinishedModel:
    """A finished model of many, judged on its held-out cases."""
    if trainee.mask is not None:
        weights[EMBEDDING][~torch.from_numpy(trainee.mask)] = weights[EMBEDDING][UNKNOWN].clone()
    entry: dict[str, Any] = {"epoch": settings.epochs}
    if len(trainee.held_out):
        entry |= validate(model_of(weights, corpus, settings).to(device), corpus, trainee.held_out)
    return FinishedModel(trainee.number, weights, [entry], settings.epochs, trainee.held_out)


def secret_of_seed(seed: int) -> bytes:
    """A secret that anyone who knows the seed can make again."""
    return hashlib.sha256(f"a model that is not released {seed}".encode()).digest()


class Trainee:
    """One model's cases, its promise, and what its steps draw."""

    def __init__(
        self,
        number: int,
        rows: np.ndarray,
        corpus: EncodedCorpus,
        settings: TrainingSettings,
        *,
        seed: int,
        held_out: np.ndarray | None = None,  # rows of the corpus; None draws a share of the cases
        secret: bytes | None = None,
        mask: np.ndarray | None = None,  # (V,) words the model may know
    ):
        self.number, self.seed, self.mask = number, seed, mask
        self.rows = np.asarray(rows).astype(np.int64)
        if held_out is None:
            train, held = split(corpus.cases[self.rows], settings, seed=seed)  # places in ``rows``
            self.held_out = self.rows[held]
        else:
            self.held_out = np.asarray(held_out)
            train = np.flatnonzero(~np.isin(self.rows, self.held_out))
        if not len(train):
            raise UsageError("no report is left to train on; a corpus needs at least two cases")
        _, case = np.unique(corpus.cases[self.rows[train]], return_inverse=True)
        order = np.argsort(case, kind="stable")
        self.places = train[order]  # in ``rows``, case after case
        self.starts = np.searchsorted(case[order], np.arange(case.max() + 2))  # where each case's begin, and the end
        self.privacy = privacy_of(settings, cases=len(self.starts) - 1)
        self.secret = secrets.token_bytes(32) if secret is None else secret

    def draw(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """A Poisson batch: the documents of the drawn cases, as places in ``rows``, case after case, and how many each
        case has."""
        chances = secret_generator(self.secret, step, "batch").random(len(self.starts) - 1)
        cases = np.flatnonzero(chances < self.privacy.sampling_rate)
        sizes = self.starts[cases + 1] - self.starts[cases]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.places[np.repeat(self.starts[cases], sizes) + within], sizes


class PrivateStack:
    """M models that take their steps together; a single model is a stack of one."""

    def __init__(
        self,
        corpus: EncodedCorpus,
        settings: TrainingSettings,
        trainees: Sequence[Trainee],
        *,
        vectors: np.ndarray | None,
        device: torch.device,
        kernel: str | None = None,
    ):
        self.corpus, self.settings, self.trainees, self.device = corpus, settings, trainees, device
        self.kernel, self.step = kernel, 0
        self.sizes = [len(names) for names in corpus.classes.values()]
        starts = [starting_weights(corpus, settings, trainee.seed, vectors) for trainee in trainees]
        self.weights = {name: torch.stack([start[name] for start in starts]).to(device) for name in ENCODER}
        for kind in ("weight", "bias"):  # the heads of all tasks as one
            joined = [torch.cat([start[f"heads.{task}.{kind}"] for task in corpus.tasks]) for start in starts]
            self.weights[f"heads.{kind}"] = torch.stack(joined).to(device)
        assert isinstance(settings.defence, DPSettings)
        self.frozen = settings.defence.embeddings == "frozen"
        self.parameters = {
            name: nn.Parameter(weight)
            for name, weight in self.weights.items()
            if not (self.frozen and name == EMBEDDING)
        }
        method = Adam if settings.optimiser == "adam" else Adadelta
        self.optimiser: Optimiser = method(self.parameters, lazy=(), learning_rate=settings.learning_rate)

    def learn(self) -> None:
        """One step of every model."""
        batch = self.batch()
        gradients, _ = clipped_gradients(
            self.weights, batch, self.settings, sizes=self.sizes, words=not self.frozen, kernel=self.kernel
        )
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name]
        self.add_noise()
        self.optimiser.step(scale=1 / self.settings.batch_size)
        self.step += 1

    def batch(self) -> "Batch":
        """The models' Poisson batches side by side: equally many documents each, filled up with empty ones."""
        drawn = [trainee.draw(self.step) for trainee in self.trainees]
        width = max(max(len(places) for places, _ in drawn), 1)
        rows = np.full((len(drawn), width), -1)
        numbers = np.zeros((2, len(drawn), width), np.int64)
        cases = []
        for slot, (trainee, (places, sizes)) in enumerate(zip(self.trainees, drawn, strict=True)):
            rows[slot, : len(places)] = trainee.rows[places]
            for stream, name in enumerate(("dropped words", "dropped features")):
                own = int.from_bytes(derived(trainee.secret, self.step, name)[:16])
                numbers[stream, slot, : len(places)] = noise(places, seed=own, epoch=0)
            cases.append((slot * width + np.cumsum(sizes) - sizes, sizes))
        there = rows.reshape(-1) >= 0
        ids, short = take_documents(self.corpus.ids, self.corpus.offsets, rows.reshape(-1)[there])
        if self.settings.word_dropout:
            ids = drop_words(ids, short, numbers[0].reshape(-1)[there], share=self.settings.word_dropout)
        lengths = np.zeros(rows.size, np.int64)
        lengths[there] = np.diff(short)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        for slot, trainee in enumerate(self.trainees):
            if trainee.mask is not None:
                mine = slice(offsets[slot * width], offsets[(slot + 1) * width])
                ids[mine] = np.where(trainee.mask[ids[mine]], ids[mine], UNKNOWN)
        labels = [np.where(there, np.asarray(label)[rows.reshape(-1)], -1) for label in self.corpus.labels.values()]
        first, sizes = (np.concatenate(parts) for parts in zip(*cases, strict=True))
        return Batch(
            ids=torch.from_numpy(ids).to(self.device),
            offsets=torch.from_numpy(offsets).to(self.device),
            labels=torch.from_numpy(np.stack(labels).astype(np.int64)).to(self.device),
            cases=torch.from_numpy(case_table(first, sizes)).to(self.device),
            drops=torch.from_numpy(numbers[1].reshape(-1)).to(self.device),
        )

    @torch.no_grad()
    def add_noise(self) -> None:
        for name, parameter in self.parameters.items():
            assert parameter.grad is not None
            for slot, trainee in enumerate(self.trainees):
                spread_of = trainee.privacy.noise * trainee.privacy.clip
                if spread_of:
                    add_gaussian(parameter.grad[slot], spread_of, secret=trainee.secret, step=self.step, name=name)

    def weights_of(self, slot: int) -> Arrays:
        """A copy of one model's weights, as an ``MTCNN`` names them, on the CPU."""
        own = {name: weight[slot].detach().to("cpu", copy=True) for name, weight in self.weights.items()}
        for kind in ("weight", "bias"):
            parts = own.pop(f"heads.{kind}").split(self.sizes)
            own |= {f"heads.{task}.{kind}": part.clone() for task, part in zip(self.corpus.tasks, parts, strict=True)}
        return own

    def state(self) -> Arrays:
        """Everything needed to go on bit for bit, but the secret."""
        tensors = {f"weight.{name}": weight.detach() for name, weight in self.weights.items()}
        tensors |= {f"optimiser.{name}": tensor for name, tensor in self.optimiser.state().items()}
        return tensors | {"step": torch.tensor(self.step)}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, weight in self.weights.items():
            weight.copy_(state[f"weight.{name}"])
        start = "optimiser."
        self.optimiser.restore({name.removeprefix(start): t for name, t in state.items() if name.startswith(start)})
        self.step = int(state["step"])


@dataclass(frozen=True)
class Batch:
    """Documents of M models in model order, equally many for each."""

    ids: Tensor  # (tokens,)
    offsets: Tensor  # (B + 1,)
    labels: Tensor  # (tasks, B), −1 where missing
    cases: Tensor  # (C, R): each case's documents, −1 where it has fewer than R
    drops: Tensor  # (B,) the numbers that dropped features are drawn from


@torch.no_grad()
def clipped_gradients(
    weights: Mapping[str, Tensor],
    batch: Batch,
    settings: TrainingSettings,
    *,
    sizes: Sequence[int],
    words: bool = True,
    kernel: str | None = None,
) -> tuple[Arrays, Tensor]:
    """The sum of the cases' gradients, each scaled to a norm of at most ``clip``, and the norms (C,) before that.

    A document's loss is the sum of its tasks' cross-entropies divided by the number of tasks, whether it has all labels
    or not, and a case's is the sum of its documents'. ``weights`` have a leading axis of models; ``sizes`` are the
    tasks' numbers of classes. Without ``words`` the word vectors have no gradient.
    """
    assert isinstance(settings.defence, DPSettings)
    encoder = [weights[name].detach() for name in ENCODER]
    heads, biases = weights["heads.weight"].detach(), weights["heads.bias"].detach()  # (M, classes, N), (M, classes)
    stacks, documents = len(heads), len(batch.offsets) - 1
    models = torch.arange(stacks, device=heads.device).repeat_interleave(documents // stacks)
    place = batch.ids, batch.offsets, models
    module = choose(encoder[0], kernel)
    features, chosen, kept = module.forward(*place, *encoder, settings.windows)

    def dropped(values: Tensor) -> Tensor:
        return drop(values, settings.dropout, batch.drops) if settings.dropout else values

    read = dropped(features.flatten(1))  # (B, N)
    logits = torch.baddbmm(biases[:, None], read.view(stacks, -1, read.shape[1]), heads.transpose(1, 2)).flatten(0, 1)
    slopes = torch.cat(
        [
            loss_slopes(scores, labels, smoothing=settings.smoothing)
            for scores, labels in zip(logits.split(list(sizes), 1), batch.labels, strict=True)
        ],
        1,
    ) / len(sizes)  # (B, classes)
    flow = dropped(torch.bmm(slopes.view(stacks, -1, slopes.shape[1]), heads).flatten(0, 1)).view(features.shape)
    squares = head_squares(slopes, read, batch.cases) + encoder_squares(
        flow, chosen, kept, *place, *encoder[:2], settings.windows, batch.cases, words=words, kernel=kernel
    )
    norms = squares.clamp_min(0).sqrt()  # (C,)
    scales = torch.clamp(settings.defence.clip / (norms * ROUNDING).clamp_min(1e-30), max=1.0)
    scale = scales.new_zeros(documents + 1)
    scale[batch.cases] = scales[:, None].expand(batch.cases.shape)  # where there is no document: past the last one
    scale = scale[:-1]
    slopes = (slopes * scale[:, None]).view(stacks, -1, slopes.shape[1])
    gradients = dict(zip(ENCODER, module.backward(
        (flow * scale[:, None, None]).contiguous(), chosen, kept, *place, *encoder, settings.windows,
        (words, True, True), False,
    ), strict=True))  # fmt: skip
    gradients["heads.weight"] = torch.bmm(slopes.transpose(1, 2), read.view(stacks, -1, read.shape[1]))
    gradients["heads.bias"] = slopes.sum(1)
    return gradients, norms


def loss_slopes(logits: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
    """How each document's cross-entropy (``losses.cross_entropy``) changes with its logits (B, classes); zero where the
    label is missing.

    >>> loss_slopes(torch.zeros(2, 2), torch.tensor([1, -1]), smoothing=0.0).tolist()
    [[0.5, -0.5], [0.0, 0.0]]
    """
    slopes = torch.softmax(logits, 1) - smoothing / logits.shape[1]
    slopes.scatter_add_(1, labels.clamp_min(0)[:, None], torch.full_like(slopes[:, :1], smoothing - 1))
    return torch.where((labels >= 0)[:, None], slopes, 0.0)


def case_table(first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Each case's documents (C, R), −1 where it has fewer than R, from where they start and how many they are.

    >>> case_table(np.array([0, 2, 3]), np.array([2, 1, 3])).tolist()
    [[0, 1, -1], [2, -1, -1], [3, 4, 5]]
    """
    steps = np.arange(sizes.max(initial=1))
    return np.where(steps < sizes[:, None], first[:, None] + steps, -1).astype(np.int64)


def add_gaussian(values: Tensor, spread_of: float, *, secret: bytes, step: int, name: str) -> None:
    """Add normal noise of the given standard deviation, drawn from the secret, to a contiguous tensor in place."""
    if values.device.type == "cuda":
        generator = torch.Generator(values.device).manual_seed(int.from_bytes(derived(secret, step, name)[:8]) >> 1)
        values.add_(torch.randn(values.shape, generator=generator, device=values.device), alpha=spread_of)
        return
    flat = values.view(-1).numpy()

    def add(start: int) -> None:
        part = flat[start : start + NOISE_BLOCK]
        drawn = secret_generator(secret, step, f"{name} {start}").standard_normal(len(part), dtype=np.float32)
        drawn *= spread_of
        part += drawn

    spread(add, range(0, len(flat), NOISE_BLOCK))


def secret_generator(secret: bytes, step: int, name: str) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=int.from_bytes(derived(secret, step, name)[:16])))


def derived(secret: bytes, step: int, name: str) -> bytes:
    return hashlib.sha256(secret + f"{step} {name}".encode()).digest()
