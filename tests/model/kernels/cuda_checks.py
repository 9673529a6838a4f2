"""The CUDA kernel against the dense reference; run by ``test_cuda.py``, through the interpreter or on a GPU.

Small whole numbers for parameters make every sum exact, so that equal means equal to the bit, ties are common, and
the first of equal maxima must be the reference's.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.model import MTCNN, StackedMTCNN, TokenBatch
from pathveil.model.kernels import cuda, reference

DEVICE = "cpu" if cuda.INTERPRETED else "cuda"
EXAMPLES = 7 if cuda.INTERPRETED else 10  # each takes a second or two, to interpret or to compile
if cuda.INTERPRETED:  # fewer turns of Python loops; the programs are the same
    cuda.SHARES, cuda.UNROLL = 2, 2


@st.composite
def problems(draw):
    """Stacks of one to three models, few words that repeat, documents of any length, windows that overhang."""
    windows = draw(st.sampled_from([(1,), (2, 3), (3, 4, 5), (1, 7)]))
    stacks, vocabulary = draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 40]))
    dim, filters = draw(st.sampled_from([1, 6, 70])), draw(st.sampled_from([1, 5, 70]))
    lengths = draw(st.lists(st.one_of(st.integers(0, 9), st.integers(10, 70)), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return problem(rng, windows, stacks, vocabulary, dim, filters, lengths, whole=draw(st.booleans()))


def problem(rng, windows, stacks, vocabulary, dim, filters, lengths, *, whole):
    def draw(*shape, scale=1.0):
        values = rng.integers(-1, 2, shape) if whole else rng.normal(size=shape) * scale
        return torch.from_numpy(values.astype(np.float32)).to(DEVICE)

    offsets = torch.from_numpy(np.cumsum([0, *lengths])).to(DEVICE)
    kind = np.int32 if rng.random() < 0.5 else np.int64
    ids = torch.from_numpy(rng.integers(0, vocabulary, sum(lengths)).astype(kind)).to(DEVICE)
    models = torch.from_numpy(rng.integers(0, stacks, len(lengths))).to(DEVICE) if stacks > 1 else None
    shape = len(windows), filters
    parameters = (
        draw(stacks, vocabulary, dim),
        draw(stacks, sum(windows), filters, dim, scale=0.1),
        draw(stacks, *shape),
    )
    return ids, offsets, models, parameters, windows, draw(len(lengths), *shape)


def wide(*tensors):
    """In float64: on a GPU PyTorch's own float32 convolutions keep ten bits of their factors."""
    return tuple(tensor.double() for tensor in tensors)


def both(
    ids, offsets, models, parameters, windows, gradient, *, sparse=False, needs=(True, True, True), autocast=False
):
    features, chosen, kept = reference.forward(ids, offsets, models, *wide(*parameters), windows)
    arguments = gradient.double(), chosen, kept, ids, offsets, models, *wide(*parameters), windows, needs, sparse
    embedding, *others = reference.backward(*arguments)
    embedding = (embedding[0], embedding[1].float()) if sparse else embedding
    gradients = [g if g is None or isinstance(g, tuple) else g.float() for g in (embedding, *others)]
    with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast), torch.no_grad():
        ours, our_choice, kept = cuda.forward(ids, offsets, models, *parameters, windows)
    arguments = gradient, our_choice, kept, ids, offsets, models, *parameters, windows, needs, sparse
    return (features.float(), chosen, gradients), (ours, our_choice, cuda.backward(*arguments))


@given(case=problems())
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
def test_features_choices_and_gradients(case):
    (features, chosen, gradients), (ours, our_choice, our_gradients) = both(*case)
    torch.testing.assert_close(ours, features, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(our_choice, chosen)
    for found, expected in zip(our_gradients, gradients, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("windows", [(3, 4, 5), (1, 2)])
def test_bfloat16_products_of_small_whole_numbers_are_exact(windows):
    case = problem(np.random.default_rng(1), windows, 2, 6, 8, 20, [40, 3, 0, 25], whole=True)
    (features, chosen, gradients), (ours, our_choice, our_gradients) = both(*case, autocast=True)
    assert torch.equal(ours, features) and torch.equal(our_choice, chosen)
    assert all(torch.equal(found, expected) for found, expected in zip(our_gradients, gradients, strict=True))


def test_bfloat16_is_near_float32():
    case = problem(np.random.default_rng(2), (2, 3), 1, 30, 70, 20, [40, 30], whole=False)
    (features, _, _), (ours, _, _) = both(*case, autocast=True)
    error = (ours - features).norm() / features.norm()
    assert 1e-5 < error < 1e-2  # it was used, and it is good


def test_the_sparse_gradient_is_the_touched_rows():
    case = problem(np.random.default_rng(3), (2, 3), 2, 9, 6, 5, [7, 0, 4], whole=True)
    (_, _, (expected, *_)), (_, _, (found, *_)) = both(*case, sparse=True)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_that_nobody_needs_are_not_made():
    case = problem(np.random.default_rng(4), (2,), 1, 9, 6, 5, [7, 4], whole=True)
    for needs in ((True, False, False), (False, True, False), (False, False, True)):
        _, (_, _, gradients) = both(*case, needs=needs)
        assert tuple(g is not None for g in gradients) == needs


def test_nothing_to_read():
    for lengths in ([], [0, 0], [1, 2]):
        case = problem(np.random.default_rng(5), (3,), 1, 9, 6, 5, lengths, whole=True)
        _, (features, chosen, gradients) = both(*case) if lengths else (None, alone(case))
        assert features.shape == (len(lengths), 1, 5) and not features.any() and (chosen == -1).all()
        assert not any(gradient.any() for gradient in gradients)


def alone(case):
    ids, offsets, models, parameters, windows, gradient = case
    features, chosen, kept = cuda.forward(ids, offsets, models, *parameters, windows)
    needs = (True, True, True)
    return (
        features,
        chosen,
        cuda.backward(gradient, chosen, kept, ids, offsets, models, *parameters, windows, needs, False),
    )


@pytest.mark.parametrize("foreign", [9, -1, 10_000])
def test_an_id_that_is_no_word_makes_its_document_nan(foreign):
    ids, offsets, models, parameters, windows, _ = problem(
        np.random.default_rng(6), (2,), 1, 9, 6, 5, [7, 4, 3], whole=True
    )
    good, _, _ = cuda.forward(ids, offsets, models, *parameters, windows)
    ids[8] = foreign
    features, chosen, _ = cuda.forward(ids, offsets, models, *parameters, windows)
    assert features[1].isnan().all() and (chosen[1] == -1).all()
    assert torch.equal(features[[0, 2]], good[[0, 2]])


def test_numbers_that_are_none_stay_none():
    ids, offsets, models, (embedding, weight, bias), windows, _ = problem(
        np.random.default_rng(7), (2,), 1, 9, 6, 5, [7, 4], whole=True
    )
    features, _, _ = cuda.forward(ids, offsets, models, embedding, torch.full_like(weight, torch.nan), bias, windows)
    assert features.isnan().all()


def test_a_step_repeats_to_the_bit():
    case = problem(np.random.default_rng(8), (2, 3), 2, 12, 9, 20, [30, 9, 14], whole=False)
    one, two = alone(case), alone(case)
    assert torch.equal(one[0], two[0]) and all(torch.equal(a, b) for a, b in zip(one[2], two[2], strict=True))


@pytest.mark.parametrize("sparse", [False, True])
def test_models_train_alike_through_the_front(sparse):
    shape = {"vocabulary_size": 20, "classes": {"site": 5, "side": 2}, "dim": 6, "windows": (2, 3), "filters": 4}
    batch = TokenBatch.of([[2, 3, 4, 2, 3], [], [5], [6, 7, 8, 9, 2, 2, 2]]).to(DEVICE)
    for build in (
        lambda k: MTCNN(**shape, seed=1, kernel=k),
        lambda k: StackedMTCNN(models=2, seeds=[1, 2], **shape, kernel=k),
    ):
        answers = []
        for kernel in ("reference", "cuda"):
            model = build(kernel).to(DEVICE)
            model.sparse = sparse
            logits = model(batch, noise=torch.arange(4, device=DEVICE))
            sum(scores.square().sum() for scores in logits.values()).backward()
            answers.append((logits["site"], *(p.grad.to_dense() for p in model.parameters())))
        for found, expected in zip(*answers, strict=True):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_looking_up_in_a_table_is_the_forward_pass():
    case = problem(np.random.default_rng(3), (3, 4, 5), 1, 30, 20, 40, [50, 3, 0, 25], whole=True)
    ids, offsets, models, (embedding, weight, bias), windows, _ = case
    table = cuda.tabulate(embedding, weight, windows)
    features, chosen, _ = reference.forward(ids, offsets, models, embedding, weight, bias, windows)
    found = cuda.look_up(table, ids, offsets, bias, windows)
    assert torch.equal(found[0], features) and torch.equal(found[1], chosen)
    ids[51] = 30  # no word; in the second document
    features, _ = cuda.look_up(table, ids, offsets, bias, windows)
    assert features.isnan().any(2).any(1).tolist() == [False, True, False, False]


def test_it_is_chosen_for_parameters_on_a_gpu():
    from pathveil.model.kernels import choose

    assert choose(torch.zeros(1, device=DEVICE), "cuda") is cuda
    if DEVICE == "cuda":
        assert choose(torch.zeros(1, device=DEVICE)) is cuda
        assert choose(torch.zeros(1, device=DEVICE, dtype=torch.float64)) is reference
