"""The CPU kernel against the reference, and what it promises beyond: any number of threads, bad input, NaNs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.oracle import Case, assert_equal, cases
from pathveil.model.kernels import choose, cpu, pooled, reference

often = settings(max_examples=60, deadline=None)


@given(case=cases())
@often
def test_outputs_and_gradients(case):
    assert_equal(case.features_and_gradients("cpu"), case.features_and_gradients("reference"))


@given(case=cases(exact=True))
@often
def test_ties_go_to_the_first_position(case):
    assert_equal(case.features_and_gradients("cpu"), case.features_and_gradients("reference"), exact=True)


@given(case=cases(stacked=True), sparse=st.booleans())
@often
def test_stacks_and_sparse_gradients(case, sparse):
    found = case.features_and_gradients("cpu", sparse=sparse)
    assert_equal(found, case.features_and_gradients("reference"))


@given(case=cases(exact=True, stacked=True))
@settings(max_examples=20, deadline=None)
def test_chosen_positions_are_the_reference_s(case):
    arguments = case.ids, case.offsets, case.models, *case.parameters, case.windows
    assert torch.equal(cpu.forward(*arguments)[1], reference.forward(*arguments)[1])


def big_case(seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    lengths, windows, filters = rng.integers(0, 200, 12), (3, 4, 5), 100
    shapes = (2, 300, 40), (2, 12, filters, 40), (2, 3, filters)
    return Case(
        ids=torch.from_numpy(rng.integers(0, 300, lengths.sum())),
        offsets=torch.from_numpy(np.cumsum([0, *lengths])),
        models=torch.from_numpy(rng.integers(0, 2, 12)),
        parameters=[torch.from_numpy(rng.normal(size=shape).astype(np.float32)) for shape in shapes],
        windows=windows,
        flow=torch.from_numpy(rng.normal(size=(12, 3 * filters)).astype(np.float32)),
    )


def test_results_do_not_depend_on_the_number_of_threads():
    case, before, results = big_case(), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results += [case.features_and_gradients("cpu"), case.features_and_gradients("cpu", sparse=True)]
            assert torch.get_num_threads() == threads, "the kernel's own threads leave PyTorch's setting alone"
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(result, results[0], strict=True))


def test_bfloat16_products_are_near_those_of_float32():
    case = big_case()  # of two models, whose words are no multiple of what a product takes at once
    arguments = case.ids, case.offsets, case.models, *case.parameters, case.windows
    with torch.autocast("cpu", torch.bfloat16):
        features = cpu.forward(*arguments)[0]
    exact = reference.forward(*arguments)[0]
    torch.testing.assert_close(features, exact, rtol=0.02, atol=0.2)
    assert not torch.equal(features, exact)


def test_either_library_s_products_give_the_same(monkeypatch):
    if not cpu.has_wide_product():
        pytest.skip("this processor has no AVX-512, or PyTorch no oneDNN")
    case = big_case()
    found = case.features_and_gradients("cpu")
    monkeypatch.setattr(cpu, "has_wide_product", lambda: False)
    assert_equal(case.features_and_gradients("cpu"), found)


def test_several_callers_at_once():
    case = big_case()
    expected = case.features_and_gradients("cpu")
    with ThreadPoolExecutor(4) as callers:
        for found in callers.map(lambda _: case.features_and_gradients("cpu"), range(12)):
            assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


def test_double_precision():
    case = big_case(1)
    case.parameters = [parameter.double() for parameter in case.parameters]
    case.flow = case.flow.double()
    found, expected = case.features_and_gradients("cpu"), case.features_and_gradients("reference")
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, atol=1e-11, rtol=1e-11)


def test_the_kernel_is_chosen_by_device_and_type():
    assert choose(torch.zeros(1)) is cpu
    assert choose(torch.zeros(1, dtype=torch.bfloat16)) is reference


def test_only_what_is_asked_for_gets_a_gradient():
    case = big_case(2)
    embedding, weight, bias = (parameter.clone() for parameter in case.parameters)
    weight.requires_grad_()
    options = {"windows": case.windows, "models": case.models, "kernel": "cpu"}
    pooled(case.ids, case.offsets, embedding, weight, bias, **options).sum().backward()
    assert weight.grad is not None and embedding.grad is None and bias.grad is None


@pytest.mark.parametrize("word", [-1, 300])
def test_words_outside_the_vocabulary_are_refused(word):
    case = big_case(3)
    case.ids[5] = word
    with pytest.raises(IndexError, match="word ids must be 0 … 299"):
        case.features_and_gradients("cpu")


def test_models_outside_the_stack_are_refused():
    case = big_case(3)
    assert case.models is not None
    case.models[0] = 2
    with pytest.raises(IndexError, match="a document's model must be 0 … 1"):
        case.features_and_gradients("cpu")


def test_a_diverged_model_shows_its_nans():
    case = big_case(4)
    case.parameters[0][:, case.ids[100]] = torch.nan  # one word
    features, *_ = case.features_and_gradients("cpu")
    expected, *_ = case.features_and_gradients("reference")
    assert expected.isnan().any() and not expected.isnan().all()
    assert torch.equal(features.isnan(), expected.isnan())
