"""Lazy optimisers against PyTorch's dense ones, over steps that touch few rows."""

import numpy as np
import pytest
import torch

from pathveil.training.optimisers import Adadelta, Adam, gradient_norm

ROWS, WIDTH, STEPS = 40, 6, 300


def pair(kind, *, falls_over=None):
    """Our lazy optimiser and PyTorch's dense one on equal parameters: an embedding and a dense head."""
    start = {"embedding.weight": torch.randn(ROWS, WIDTH), "head": torch.randn(3, WIDTH)}
    ours = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    theirs = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    if kind == "adam":
        lazy = Adam(ours, lazy=("embedding.weight",), learning_rate=1e-2, falls_over=falls_over)
        dense = torch.optim.Adam(theirs.values(), lr=1e-2, betas=(0.9, 0.99))
    else:
        lazy = Adadelta(ours, lazy=("embedding.weight",), falls_over=falls_over)
        dense = torch.optim.Adadelta(theirs.values(), lr=1.0)
    return ours, theirs, lazy, dense


def gradients(rng, step):
    """Some rows have a gradient, most do not; row 0 only once, row 1 hardly ever, the last row never.

    None is so small that Adam's ε counts: what ε does is tested by itself.
    """
    rows = [row for row in range(2, ROWS - 1) if rng.random() < 0.1]
    rows = sorted(set(rows) | ({0} if step == 3 else set()) | ({1} if step % 97 == 5 else set()))
    values = torch.from_numpy(rng.normal(0, 0.05, (len(rows), WIDTH)).astype(np.float32))
    values = values.sign() * values.abs().clamp(min=1e-3)
    head = torch.from_numpy(rng.normal(0, 0.05, (3, WIDTH)).astype(np.float32))
    return torch.tensor(rows, dtype=torch.int64), values, head


def feed(ours, theirs, rows, values, head):
    ours["embedding.weight"].grad = torch.sparse_coo_tensor(
        rows[None], values, (ROWS, WIDTH), is_coalesced=True, check_invariants=True
    )
    dense = torch.zeros(ROWS, WIDTH)
    dense[rows] = values
    theirs["embedding.weight"].grad = dense
    ours["head"].grad, theirs["head"].grad = head.clone(), head.clone()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", ["adam", "adadelta"])
def test_lazy_equals_dense(kind, compiled):
    ours, theirs, lazy, dense = pair(kind, falls_over=STEPS)
    lazy.compiled = compiled
    rng = np.random.default_rng(0)
    for step in range(STEPS):
        rows, values, head = gradients(rng, step)
        if step == 150:  # a schedule must not break the sums of what rows missed
            lazy.learning_rate /= 4
        dense.param_groups[0]["lr"] = lazy.learning_rate * (1 - step / STEPS)
        # A forward pass reads these rows: they must be what the dense optimiser has, at every step.
        read = torch.unique(torch.cat([rows, torch.tensor([step % ROWS])]))
        lazy.touch(read)
        torch.testing.assert_close(
            ours["embedding.weight"][read], theirs["embedding.weight"][read], rtol=1e-5, atol=1e-5
        )
        feed(ours, theirs, rows, values, head)
        lazy.step()
        dense.step()
    lazy.settle()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-7])
def test_a_small_gradient_drifts_within_what_epsilon_allows(size, compiled):
    """The way a row moves while it is left alone differs from the dense one by at most ε ÷ √v, as the module says."""
    ours, theirs, lazy, dense = pair("adam")
    lazy.compiled = compiled
    with torch.no_grad():  # from 0, so that rounding is relative to the way
        ours["embedding.weight"].zero_()
        theirs["embedding.weight"].zero_()
    none = torch.tensor([], dtype=torch.int64)
    for step in range(100):
        rows, values = (
            (torch.tensor([5]), torch.full((1, WIDTH), size)) if step == 50 else (none, torch.zeros(0, WIDTH))
        )
        feed(ours, theirs, rows, values, torch.ones(3, WIDTH))
        lazy.step()
        dense.step()
    lazy.settle()
    way, expected = (weights["embedding.weight"][5].detach() for weights in (ours, theirs))
    root = size * 0.01**0.5  # √v after the only gradient, with β₂ = 0.99; it shrinks by √β₂ a step
    assert ((way - expected).abs() <= expected.abs() * (1e-8 / (root * 0.99**25) + 1e-5)).all()


def test_rows_without_gradient_are_left_alone():
    ours, theirs, lazy, _ = pair("adam")
    before = ours["embedding.weight"].detach().clone()
    rows, values, head = torch.tensor([4, 7]), torch.ones(2, WIDTH), torch.ones(3, WIDTH)
    for _ in range(5):
        lazy.touch(rows)
        feed(ours, theirs, rows, values, head)
        lazy.step()
    changed = (ours["embedding.weight"] != before).any(1).nonzero()[:, 0]
    assert changed.tolist() == [4, 7]


def test_momentum_moves_a_word_on_after_its_batch():
    """The drift that lazy optimisers usually drop: nearly ten more steps' worth."""
    ours, theirs, lazy, dense = pair("adam")
    start = ours["embedding.weight"][5].detach().clone()
    one, none = torch.tensor([5]), torch.tensor([], dtype=torch.int64)
    for step in range(200):
        rows, values = (one, torch.ones(1, WIDTH)) if step == 50 else (none, torch.zeros(0, WIDTH))
        feed(ours, theirs, rows, values, torch.ones(3, WIDTH))
        lazy.step()
        dense.step()
        if step == 50:
            first = (ours["embedding.weight"][5] - start).abs()
    lazy.settle()
    assert ((ours["embedding.weight"][5] - start).abs() > 8 * first).all()
    torch.testing.assert_close(ours["embedding.weight"][5], theirs["embedding.weight"][5], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["adam", "adadelta"])
def test_restored_state_goes_on_bit_for_bit(kind):
    results = []
    for stop in (None, 60):
        torch.manual_seed(0)
        ours, theirs, lazy, _ = pair(kind)
        rng = np.random.default_rng(1)
        for step in range(120):
            if step == stop:
                kept = {name: tensor.clone() for name, tensor in lazy.state().items()}
                fresh = {name: torch.nn.Parameter(value.detach().clone()) for name, value in ours.items()}
                lazy = type(lazy)(fresh, lazy=("embedding.weight",), learning_rate=lazy.learning_rate)
                lazy.restore(kept)
                ours = fresh
            rows, values, head = gradients(rng, step)
            lazy.touch(rows)
            feed(ours, theirs, rows, values, head)
            lazy.step(scale=0.5)
        results.append(ours)
    for name in results[0]:
        assert torch.equal(results[0][name], results[1][name])


@pytest.mark.parametrize("kind", ["adam", "adadelta"])
def test_scale_multiplies_the_gradients(kind):
    torch.manual_seed(3)
    scaled, _, first, _ = pair(kind)
    torch.manual_seed(3)
    plain, other, second, _ = pair(kind)
    rows, values, head = torch.tensor([4, 7]), torch.randn(2, WIDTH), torch.randn(3, WIDTH)
    for _ in range(3):
        feed(scaled, other, rows, values, head)
        first.step(scale=0.25)
        feed(plain, other, rows, values / 4, head / 4)
        second.step()
    for name in scaled:
        torch.testing.assert_close(scaled[name], plain[name])


def test_gradient_norm_agrees_with_torch():
    ours, theirs, _, _ = pair("adam")
    feed(ours, theirs, torch.tensor([1, 5]), torch.randn(2, WIDTH), torch.randn(3, WIDTH))
    expected = torch.nn.utils.get_total_norm([parameter.grad for parameter in theirs.values()])
    assert gradient_norm(ours) == pytest.approx(expected.item(), rel=1e-6)


def test_betas_under_which_momentum_never_fades_are_refused():
    with pytest.raises(ValueError, match="root of the second"):
        Adam({"w": torch.nn.Parameter(torch.zeros(1))}, betas=(0.99, 0.9))
