"""A tabulated model answers as the model itself."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from model.oracle import cases
from pathveil.model import MTCNN, Tabulated, TokenBatch
from pathveil.model.kernels import choose


@given(case=cases())
@settings(max_examples=40, deadline=None)
def test_looking_up_is_the_forward_pass(case):
    embedding, weight, bias = (parameter[None] for parameter in case.parameters)
    for kernel in ("cpu", "reference"):
        module = choose(embedding, kernel)
        features, *_ = module.forward(case.ids, case.offsets, None, embedding, weight, bias, case.windows)
        table = module.tabulate(embedding, weight, case.windows)
        looked_up, positions = module.look_up(table, case.ids, case.offsets, bias, case.windows)
        torch.testing.assert_close(looked_up, features, atol=1e-6, rtol=1e-6)
        assert ((positions >= 0) == (looked_up > 0)).all()


def paper_model() -> tuple[MTCNN, TokenBatch]:
    rng = np.random.default_rng(0)
    documents = [rng.zipf(1.3, n).clip(1, 1999) for n in (0, 1, 2, 3, 4, 5, 40, 700, 3000)]
    model = MTCNN(vocabulary_size=2000, classes={"site": 70, "behavior": 4}, dim=300, filters=300, seed=0)
    return model.eval(), TokenBatch.of(documents)


def test_logits_of_the_papers_size_and_documents_of_any_length():
    model, batch = paper_model()
    with torch.no_grad():
        expected = model(batch)
    found = Tabulated(model)(batch)
    for task in expected:
        torch.testing.assert_close(found[task], expected[task], atol=1e-6, rtol=0)


def test_a_table_keeps_the_weights_it_was_made_from():
    model, batch = paper_model()
    table = Tabulated(model)
    before = table(batch)["site"]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert torch.equal(table(batch)["site"], before)


def test_words_outside_the_vocabulary_are_refused():
    table = Tabulated(paper_model()[0])
    for word in (-1, 2000):
        with pytest.raises(IndexError, match="word ids must be 0 … 1999"):
            table(TokenBatch.of([[1, 2, word]]))
    assert table(TokenBatch.of([]))["site"].shape == (0, 70)
