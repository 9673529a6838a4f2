"""The reference kernel against loops in plain Python, and its gradients against finite differences."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from pathveil.model.kernels import choose, in_order, pooled, reference
from pathveil.model.kernels.reference import pooled_single


def by_hand(ids, offsets, embedding, weight, bias, windows):
    """Features (B, K·F) by the definition, one number at a time."""
    features = []
    for start, end in pairwise(offsets):
        slot = 0
        for number, window in enumerate(windows):
            for f in range(weight.shape[1]):
                answers = [
                    sum(embedding[ids[t + j]] @ weight[slot + j, f] for j in range(window))
                    for t in range(start, end - window + 1)
                ]
                features.append(max(0.0, max(answers) + bias[number, f]) if answers else 0.0)
            slot += window
    return np.array(features).reshape(len(offsets) - 1, -1)


def example(seed, lengths=(7, 0, 1, 3, 2, 12), vocabulary=6, dim=4, filters=3, windows=(2, 3)):
    rng = np.random.default_rng(seed)
    ids, offsets = rng.integers(0, vocabulary, sum(lengths)), np.cumsum([0, *lengths])
    shapes = (vocabulary, dim), (sum(windows), filters, dim), (len(windows), filters)
    return ids, offsets, *(rng.normal(size=shape) for shape in shapes), windows


@pytest.mark.parametrize("seed", range(3))
def test_features_follow_the_definition(seed):
    ids, offsets, *parameters, windows = example(seed)
    expected = by_hand(ids, offsets, *parameters, windows)
    tensors = [torch.from_numpy(array) for array in (ids, offsets, *parameters)]
    features, chosen = pooled_single(*tensors, windows)
    np.testing.assert_allclose(features.flatten(1), expected, atol=1e-12)
    assert ((chosen >= 0) == (features > 0)).all()


def test_gradients_follow_finite_differences():
    ids, offsets, *parameters, windows = example(5)
    ids, offsets = torch.from_numpy(ids), torch.from_numpy(offsets)
    inputs = [torch.from_numpy(array).requires_grad_() for array in parameters]
    assert torch.autograd.gradcheck(lambda *p: pooled_single(ids, offsets, *p, windows)[0], inputs)
    assert torch.autograd.gradcheck(
        lambda *p: pooled(ids, offsets, *p, windows=windows, kernel="reference"), inputs, fast_mode=True
    )


def test_the_first_of_equal_maxima_gets_the_gradient():
    # One filter over one word; words 1 and 2 answer the same, word 1 comes first.
    embedding = torch.tensor([[0.0, 0.0], [1.0, 3.0], [3.0, 1.0]], requires_grad=True)
    ids, offsets = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 4])
    weight, bias = torch.ones(1, 1, 2), torch.zeros(1, 1)
    features, chosen = pooled_single(ids, offsets, embedding, weight, bias, (1,))
    assert chosen.item() == 1
    features.sum().backward()
    assert embedding.grad is not None
    assert embedding.grad.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_a_stack_is_its_models_one_by_one():
    ids, offsets, *_, windows = example(7)
    ids, offsets = torch.from_numpy(ids), torch.from_numpy(offsets)
    singles = [[torch.from_numpy(array) for array in example(seed)[2:5]] for seed in range(3)]
    stacked = [torch.stack(parts).requires_grad_() for parts in zip(*singles, strict=True)]
    models = torch.tensor([2, 0, 2, 1, 0, 2])
    features = pooled(ids, offsets, *stacked, windows=windows, models=models, kernel="reference")
    for document, model in enumerate(models.tolist()):
        own = ids[offsets[document] : offsets[document + 1]]
        alone = pooled_single(own, torch.tensor([0, len(own)]), *singles[model], windows)[0]
        torch.testing.assert_close(features[document], alone[0].flatten())
    features.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in stacked)


def test_a_stack_names_positions_among_all_tokens():
    ids, offsets, embedding, weight, bias, windows = (
        torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in example(7)
    )
    twice = [torch.stack([p, p]) for p in (embedding, weight, bias)]
    _, expected = pooled_single(ids, offsets, embedding, weight, bias, windows)
    _, chosen, _ = reference.forward(ids, offsets, torch.tensor([1, 0, 0, 1, 0, 1]), *twice, windows)
    assert torch.equal(chosen, expected)


def test_documents_in_model_order_need_no_naming():
    assert in_order(6, 3, device=torch.device("cpu")).tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="5 documents cannot be shared equally among 2 models"):
        in_order(5, 2, device=torch.device("cpu"))


@pytest.mark.parametrize("stacked", [False, True])
def test_a_sparse_gradient_holds_the_same_numbers(stacked):
    ids, offsets, *parameters, windows = example(8)
    if stacked:
        parameters = [np.stack([array, array + 1]) for array in parameters]
    ids, offsets = torch.from_numpy(ids), torch.from_numpy(offsets)
    gradients = []
    for sparse in (False, True):
        embedding, weight, bias = (torch.from_numpy(array.copy()).requires_grad_() for array in parameters)
        options = {"windows": windows, "kernel": "reference", "sparse": sparse}
        pooled(ids, offsets, embedding, weight, bias, **options).square().sum().backward()
        assert embedding.grad is not None and embedding.grad.is_sparse == sparse
        gradients.append(embedding.grad.to_dense())
    torch.testing.assert_close(*gradients)


def test_a_kernel_can_be_named():
    assert choose(torch.zeros(1), "reference") is reference
    with pytest.raises(ValueError, match="kernel must be one of reference, cpu, cuda or None; got 'tpu'"):
        choose(torch.zeros(1), "tpu")
