"""The paper's attack: one binary classifier a class, trained on what shadow models answer for what they saw or not.

Shokri et al. (2017), as the vocabulary-selection paper applies it (section 3.1): the softmax outputs of N shadow models
on their in- and out-documents are pooled; attack model c learns from the documents whose true label is c; a document of
the attacked model is judged by the attack model of its label. The attack model is a perceptron with one hidden layer
(Shokri's) or a logistic regression. All classes are fitted together: parameters carry a class axis, documents lie
sorted by class, largest class first, and a step takes the same slice of every class that reaches that far.

Features: ``sorted``, the true label's probability and the largest probabilities in falling order; or ``raw``, the
softmax as it is (the paper's), which is much weaker. A class without enough shadow documents of both kinds has no
model of its own: its documents are judged by one trained on all classes together, and it is counted.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> member = np.arange(400) % 2 == 0
>>> p = np.where(member, 0.9, 0.6) + rng.uniform(-0.1, 0.1, 400)
>>> probabilities, labels = np.stack([p, 1 - p], 1), np.zeros(400, int)
>>> attack = fit(attack_features(probabilities, labels), labels, member, classes=2, kind="logistic")
>>> bool((attack.predict(attack_features(probabilities, labels), labels) > 0.5)[member].mean() > 0.95)
True
>>> attack.without_model
(1,)
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pathveil.auditing.attacks import MISSING, of_label

if TYPE_CHECKING:
    import torch

Kind = Literal["mlp", "logistic"]
Features = Literal["sorted", "raw"]
SHADOW_COUNTS = (1, 10, 20, 40, 60, 80, 100)  # Table 1 of the paper
LARGEST = 10  # probabilities kept, in falling order; what lies below them adds next to nothing
FEWEST = 5  # documents of each kind that a class needs for a model of its own
FEW_ANSWERS = 20_000  # below which one thread fits faster than several
FIRST_SLICE, SLICE = 32, 4096  # documents of a class taken at once: bounds memory, changes no result
SLICE_ON_GPU = 1 << 16  # where it is launches that take the time


@dataclass(frozen=True)
class AttackModels:
    """One fitted attack model a class, and one for the classes that have none."""

    kind: Kind
    parameters: tuple[np.ndarray, ...]  # each (classes + 1, …), the last for all classes together
    without_model: tuple[int, ...]  # classes judged by the last one

    def predict(self, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The chance of membership by each document's own attack model; NaN without a label."""
        import torch

        groups = len(self.parameters[0])
        model = np.where(np.isin(labels, self.without_model), groups - 1, labels)
        rows = np.flatnonzero(labels != MISSING)
        layout = _Layout(model[rows], groups)
        answer = np.full(len(labels), np.nan)
        parameters = [torch.from_numpy(parameter) for parameter in self.parameters]
        for part, where in layout.slices():
            x = torch.from_numpy(features[rows[where]])  # (groups in the slice, documents, features)
            score = _forward(self.kind, [parameter[layout.order[: len(part)]] for parameter in parameters], x)
            inside = np.arange(where.shape[1]) < part[:, None]
            answer[rows[where[inside]]] = torch.sigmoid(score).numpy()[inside]
        return answer


def attack_features(probabilities: np.ndarray, labels: np.ndarray, *, features: Features = "sorted") -> np.ndarray:
    """What an attack model sees of an answer: (…, documents, classes) → (…, documents, features), float64."""
    probabilities = np.asarray(probabilities, np.float64)
    if features == "raw":
        return probabilities
    largest = -np.sort(-probabilities, axis=-1)[..., :LARGEST]
    own = np.nan_to_num(of_label(probabilities, labels))
    return np.concatenate([own[..., None], largest], axis=-1)


def pooled(
    features: np.ndarray,  # (shadows, documents, features)
    labels: np.ndarray,  # (documents,)
    inside: np.ndarray,  # (shadows, documents) bool
    *,
    shadows: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and membership of the first ``shadows`` models' answers to labelled documents, end to end."""
    kept = labels != MISSING
    rows = features[:shadows, kept]
    return (
        rows.reshape(-1, rows.shape[-1]),
        np.tile(labels[kept], len(rows)),
        inside[:shadows, kept].reshape(-1),
    )


def fit(
    features: np.ndarray,  # (answers, features)
    labels: np.ndarray,  # (answers,)
    member: np.ndarray,  # (answers,) bool: the shadow trained on the document
    *,
    classes: int,
    kind: Kind = "mlp",
    hidden: int = 32,
    steps: int = 300,
    rate: float = 0.02,
    penalty: float = 1.0,
    seed: int = 0,
    device: str = "cpu",
) -> AttackModels:
    """Fit every class's attack model in one go; on a GPU only the ``mlp`` kind is.

    ``mlp``: ``steps`` full passes of Adam at ``rate`` from seeded weights. ``logistic``: the exact optimum of the
    log-loss summed over a class plus ``penalty``/2 times the squared weights (the intercept free), by Newton's method.
    """
    import torch

    within = np.bincount(labels[member], minlength=classes)
    without = np.bincount(labels[~member], minlength=classes)
    lacking = np.flatnonzero((within < FEWEST) | (without < FEWEST))
    # The last group holds every document; classes without a model stay in the layout, empty.
    own = np.flatnonzero(~np.isin(labels, lacking))
    rows = np.concatenate([own, np.arange(len(labels)) if len(lacking) else np.empty(0, np.int64)]).astype(np.int64)
    group = np.concatenate([labels[own], np.full(len(rows) - len(own), classes)])
    layout = _Layout(group, classes + 1, longest=SLICE if device == "cpu" else SLICE_ON_GPU)
    x, y = torch.from_numpy(np.ascontiguousarray(features, np.float64)), torch.from_numpy(member.astype(np.float64))
    with _few_threads(len(rows)):
        if kind == "logistic":
            parameters = _fit_logistic(layout, rows, x, y, penalty=penalty)
        else:
            there = x.to(device), y.to(device)
            parameters = _fit_mlp(layout, rows, *there, hidden=hidden, steps=steps, rate=rate, seed=seed)
    return AttackModels(kind, tuple(parameter.cpu().numpy() for parameter in parameters), tuple(lacking.tolist()))


@contextmanager
def _few_threads(answers: int) -> Generator[None]:
    """One thread where there is little to do: waiting for the others at every small step would take the time."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if answers < FEW_ANSWERS else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Layout:
    """Documents sorted into groups, so that one slice of every group is one array."""

    def __init__(self, group: np.ndarray, groups: int, *, longest: int | None = None):
        self.longest = longest or SLICE
        self.sizes = np.bincount(group, minlength=groups)
        self.order = np.argsort(-self.sizes, kind="stable")  # groups, largest first
        self.documents = np.argsort(group, kind="stable")
        self.starts = np.cumsum(self.sizes) - self.sizes

    def slices(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(documents taken of each group, their places padded with the group's first): (groups,), (groups, slice)."""
        sizes, starts = self.sizes[self.order], self.starts[self.order]
        begin, length = 0, min(FIRST_SLICE, self.longest)
        while (sizes > begin).any():
            reach = int((sizes > begin).sum())  # groups that go on this far
            taken = np.minimum(sizes[:reach] - begin, length)
            column = np.arange(taken.max())
            place = np.where(column < taken[:, None], starts[:reach, None] + begin + column, starts[:reach, None])
            yield taken, self.documents[place]
            # Fewer groups go on the further in: slices as long as all before them keep padding below half.
            begin, length = begin + length, min(begin + length, self.longest)


def _forward(kind: Kind, parameters: "list[torch.Tensor]", x: "torch.Tensor") -> "torch.Tensor":
    """Log-odds of membership: (groups, documents, features) → (groups, documents)."""
    import torch

    if kind == "logistic":
        weights, intercept = parameters
        return (x @ weights[:, :, None])[..., 0] + intercept[:, None]
    first, first_bias, second, second_bias = parameters
    inner = torch.relu(torch.baddbmm(first_bias[:, None], x, first))  # (groups, documents, hidden)
    return torch.baddbmm(second_bias[:, None, None], inner, second[:, :, None])[..., 0]


def initial_mlp(groups: int, width: int, hidden: int, *, seed: int) -> "list[torch.Tensor]":
    """Seeded weights, uniform as Glorot and Bengio have them, the same for every group: a class's fit is its own."""
    import torch

    rng = np.random.default_rng(seed)
    limit, limit_out = np.sqrt(6 / (width + hidden)), np.sqrt(6 / (hidden + 1))
    first = rng.uniform(-limit, limit, (width, hidden))
    second = rng.uniform(-limit_out, limit_out, hidden)
    return [
        torch.from_numpy(np.repeat(array[None], groups, axis=0))
        for array in (first, np.zeros(hidden), second, np.zeros(()))
    ]


def _fit_mlp(
    layout: _Layout,
    rows: np.ndarray,
    x: "torch.Tensor",
    y: "torch.Tensor",
    *,
    hidden: int,
    steps: int,
    rate: float,
    seed: int,
) -> "list[torch.Tensor]":
    """Adam on every group's mean log-loss. The gradient is written out: autograd's bookkeeping would cost more."""
    import torch

    order = torch.from_numpy(layout.order)
    # Parameters live in the order of the slices while fitting, so that a slice takes the first so many.
    start = initial_mlp(len(layout.sizes), x.shape[1], hidden, seed=seed)
    live = [parameter[order].to(x.device) for parameter in start]
    moments = [(torch.zeros_like(parameter), torch.zeros_like(parameter)) for parameter in live]
    share = 1 / np.maximum(layout.sizes[layout.order], 1)  # the mean over a class, whatever its size
    batches = []
    for taken, where in layout.slices():
        weight = torch.from_numpy((np.arange(where.shape[1]) < taken[:, None]) * share[: len(taken), None])
        chosen = torch.from_numpy(rows[where]).to(x.device)
        batches.append((x[chosen], y[chosen], weight.to(x.device)))
    at = torch.zeros(1, dtype=torch.int64, device=x.device)
    counted = torch.arange(1, steps + 1, dtype=torch.float64)
    sizes, roots = ((rate / (1 - 0.9**counted)).to(x.device), (1 - 0.999**counted).to(x.device))

    def step() -> None:
        gradient = [torch.zeros_like(parameter) for parameter in live]
        for inputs, wanted, weight in batches:
            reach = len(inputs)
            first, first_bias, second, second_bias = (parameter[:reach] for parameter in live)
            inner = torch.baddbmm(first_bias[:, None], inputs, first).relu_()  # (groups, documents, hidden)
            score = torch.baddbmm(second_bias[:, None, None], inner, second[:, :, None])[..., 0]
            slope = (score.sigmoid_() - wanted).mul_(weight)  # (groups, documents)
            gradient[2][:reach] += (slope[:, None] @ inner)[:, 0]
            gradient[3][:reach] += slope.sum(1)
            back = (inner > 0) * (slope[:, :, None] * second[:, None])
            gradient[0][:reach] += inputs.mT @ back
            gradient[1][:reach] += back.sum(1)
        size, root = sizes[at], roots[at]
        for parameter, slope, (mean, square) in zip(live, gradient, moments, strict=True):
            mean.mul_(0.9).add_(slope, alpha=0.1)
            square.mul_(0.999).addcmul_(slope, slope, value=0.001)
            scale = (square / root).sqrt_().add_(1e-8)
            parameter.sub_(mean.div(scale).mul_(size))
        at.add_(1)

    _repeat(step, steps, device=x.device)
    back = torch.argsort(order).to(x.device)
    return [parameter[back] for parameter in live]


def _repeat(step: Callable[[], None], times: int, *, device: "torch.device") -> None:
    """So many steps; on a GPU they are replays of one that was recorded."""
    from pathveil.training.recording import REHEARSALS, record

    again, left = step, times
    if device.type == "cuda" and times > REHEARSALS:
        again, left = record(step, device).replay, times - REHEARSALS
    for _ in range(left):
        again()


def _fit_logistic(
    layout: _Layout, rows: np.ndarray, x: "torch.Tensor", y: "torch.Tensor", *, penalty: float
) -> "list[torch.Tensor]":
    import torch

    groups, width = len(layout.sizes), x.shape[1] + 1
    ridge = torch.eye(width, dtype=torch.float64) * penalty
    ridge[-1, -1] = 0.0
    empty = torch.from_numpy(layout.sizes[layout.order] == 0)
    theta = torch.zeros(groups, width, dtype=torch.float64)  # in the order of the slices; the intercept last
    slices = [(torch.from_numpy(taken), torch.from_numpy(rows[where])) for taken, where in layout.slices()]

    def batches() -> "Iterator[tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]":
        for taken, where in slices:
            inside = (torch.arange(where.shape[1]) < taken[:, None]).double()
            ones = torch.ones(*where.shape, 1, dtype=torch.float64)
            yield len(taken), torch.cat([x[where], ones], -1), y[where], inside

    def loss(parameters: "torch.Tensor") -> "torch.Tensor":  # (groups,)
        total = 0.5 * ((parameters @ ridge) * parameters).sum(-1)
        for reach, z, target, inside in batches():
            score = (z @ parameters[:reach, :, None])[..., 0]
            total[:reach] += (inside * (torch.nn.functional.softplus(score) - target * score)).sum(-1)
        return total

    value = loss(theta)
    for _ in range(100):
        gradient, hessian = theta @ ridge, ridge.repeat(groups, 1, 1)
        for reach, z, target, inside in batches():
            p = torch.sigmoid((z @ theta[:reach, :, None])[..., 0])
            gradient[:reach] += (z.mT @ (inside * (p - target))[..., None])[..., 0]
            hessian[:reach] += z.mT @ (z * (inside * p * (1 - p))[..., None])
        hessian[empty] = torch.eye(width, dtype=torch.float64)
        # A hair of ridge on the intercept keeps a class whose answers are all alike solvable.
        hessian[:, -1, -1] += 1e-12
        step = torch.linalg.solve(hessian, gradient)
        # Halve a class's step until its loss does not rise: Newton's method overshoots where classes separate.
        scale = torch.ones(groups, 1, dtype=torch.float64)
        for _ in range(30):
            trial = theta - scale * step
            after = loss(trial)
            worse = after > value + 1e-12
            if not worse.any():
                break
            scale[worse] /= 2
        theta, value = trial, after
        if float((scale * step).abs().max()) < 1e-10:
            break
    theta = theta[torch.argsort(torch.from_numpy(layout.order))]
    return [theta[:, :-1].contiguous(), theta[:, -1].contiguous()]
