"""The model: shapes, random start, dropout, stacks, and documents that never depend on their batch mates."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.model import MTCNN, StackedMTCNN, TokenBatch

SMALL = {"vocabulary_size": 20, "classes": {"site": 5, "behavior": 2}, "dim": 6, "windows": (2, 3), "filters": 4}
documents = st.lists(st.lists(st.integers(1, 19), max_size=12), min_size=1, max_size=6)


def test_names_and_shapes_on_disk_stay():
    shapes = {name: tuple(tensor.shape) for name, tensor in MTCNN(**SMALL).state_dict().items()}
    assert shapes == {
        "embedding.weight": (20, 6),
        "convolution.weight": (5, 4, 6),
        "convolution.bias": (2, 4),
        "heads.site.weight": (5, 8),
        "heads.site.bias": (5,),
        "heads.behavior.weight": (2, 8),
        "heads.behavior.bias": (2,),
    }
    stacked = StackedMTCNN(models=3, **SMALL).state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in stacked.items()} == {n: (3, *s) for n, s in shapes.items()}


def same(one: MTCNN, two: MTCNN) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_the_random_start_follows_its_seed():
    torch.manual_seed(0)
    one = MTCNN(**SMALL, seed=1)
    assert same(one, MTCNN(**SMALL, seed=1)), "a seed ignores the global generator"
    assert not same(one, MTCNN(**SMALL, seed=2))
    assert not same(MTCNN(**SMALL), MTCNN(**SMALL)), "without a seed every model differs"
    assert not one.embedding.weight[0].any(), "padding starts, and stays, at zero"


def test_building_without_a_random_start():
    model = MTCNN(**SMALL, seed=1)
    with torch.device("meta"):
        empty = MTCNN(**model.architecture)
    empty.load_state_dict(model.state_dict(), assign=True)
    assert same(model, empty)
    assert all(parameter.requires_grad for parameter in empty.parameters())


@given(documents=documents)
@settings(max_examples=50, deadline=None)
def test_logits_never_depend_on_batch_mates(documents):
    model = MTCNN(**SMALL, seed=3).eval()
    with torch.no_grad():
        together = model(TokenBatch.of(documents))
        for number, document in enumerate(documents):
            alone = model(TokenBatch.of([document]))
            for task in SMALL["classes"]:
                torch.testing.assert_close(alone[task][0], together[task][number], atol=1e-5, rtol=1e-5)


def test_dropout_by_noise_is_a_documents_own():
    model = MTCNN(**SMALL, seed=3).train()
    documents = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11, 12]]
    noise = torch.tensor([1, -5, 2**62 + 3])
    together = model(TokenBatch.of(documents), noise=noise)["site"]
    alone = model(TokenBatch.of([documents[2]]), noise=noise[2:])["site"]
    torch.testing.assert_close(together[2:], alone)
    again = model(TokenBatch.of(documents), noise=noise)["site"]
    assert torch.equal(together, again)
    other = model(TokenBatch.of(documents), noise=noise + 1)["site"]
    assert not torch.equal(together, other)


def test_dropout_by_noise_keeps_the_right_share_everywhere():
    from pathveil.model.mtcnn import drop

    kept = drop(torch.ones(2000, 300), 0.3, torch.arange(2000) * 2**40).bool().double()
    # Three standard deviations and more of a fair draw: overall, by column, by document, and for neighbours.
    assert abs(kept.mean() - 0.7) < 0.003
    assert (kept.mean(0) - 0.7).abs().max() < 0.05
    assert (kept.mean(1) - 0.7).abs().max() < 0.13
    assert abs((kept[1:] * kept[:-1]).mean() - 0.49) < 0.005
    assert abs((kept[:, 1:] * kept[:, :-1]).mean() - 0.49) < 0.005


@pytest.mark.parametrize("training", [False, True])
def test_a_stack_answers_as_its_models_do(training):
    stacked = StackedMTCNN(models=3, seeds=[4, 5, 6], **SMALL).train(training)
    rng = np.random.default_rng(0)
    documents = [rng.integers(1, 20, n).tolist() for n in (5, 0, 9, 3, 1, 7)]
    noise = torch.arange(6)
    for models in (None, torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([2, 1, 2, 0, 1, 1])):
        logits = stacked(TokenBatch.of(documents), models, noise=noise)
        for number, owner in enumerate([0, 0, 1, 1, 2, 2] if models is None else models.tolist()):
            single = MTCNN(**SMALL, seed=4 + owner).train(training)
            alone = single(TokenBatch.of([documents[number]]), noise=noise[number : number + 1])
            for task in SMALL["classes"]:
                torch.testing.assert_close(logits[task][number], alone[task][0])


def test_a_model_taken_out_of_a_stack():
    stacked = StackedMTCNN(models=2, seeds=[4, 5], **SMALL)
    assert same(stacked.model(1), MTCNN(**SMALL, seed=5))
    with pytest.raises(ValueError, match="one seed for each of the 2 models; got 3"):
        StackedMTCNN(models=2, seeds=[1, 2, 3], **SMALL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary_size": 0}, "vocabulary_size must be at least 1; got 0"),
        ({"windows": ()}, "windows must be lengths of at least one word"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1; got 1.0"),
        ({"classes": {}}, "classes must name at least one task"),
        ({"classes": {"a.b": 3}}, "without dots"),
    ],
)
def test_shapes_that_cannot_be_built(change, message):
    with pytest.raises(ValueError, match=message):
        MTCNN(**(SMALL | change))


def test_a_model_learns_a_word():
    """Overfit: the label is whether word 7 is there."""
    rng = np.random.default_rng(1)
    documents = [rng.integers(8, 20, 15) for _ in range(60)]
    labels = torch.from_numpy(rng.integers(0, 2, 60))
    for document, label in zip(documents, labels.tolist(), strict=True):
        document[3] = 7 if label else 6
    batch = TokenBatch.of(documents)
    model = MTCNN(**(SMALL | {"dropout": 0.0}), seed=2)
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(40):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(batch)["behavior"], labels).backward()
        optimiser.step()
    assert (model(batch)["behavior"].argmax(1) == labels).all()
