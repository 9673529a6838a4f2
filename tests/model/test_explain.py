"""Explanations: exact sums, the right windows, and spans into the text."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.model import MTCNN, Tabulated, TokenBatch
from pathveil.model.explain import explain, spans
from pathveil.text.tokenizer import tokenize_spans

SHAPE = {"vocabulary_size": 40, "classes": {"site": 6, "behavior": 2}, "dim": 10, "filters": 30}


@given(seed=st.integers(0, 1000), ids=st.lists(st.integers(1, 39), max_size=40), tabulated=st.booleans())
@settings(max_examples=40, deadline=None)
def test_windows_and_bias_add_up_to_the_logit(seed, ids, tabulated):
    model = MTCNN(**SHAPE, seed=seed).eval()
    logits = model(TokenBatch.of([ids]))
    for task in SHAPE["classes"]:
        why = explain(Tabulated(model) if tabulated else model, ids, task=task)
        expected = logits[task][0].max().item()
        assert why.label == logits[task][0].argmax()
        assert why.logit == pytest.approx(expected, abs=1e-5)
        assert why.bias + sum(window.weight for window in why.windows) == pytest.approx(expected, abs=1e-5)
        assert len({(window.start, window.end) for window in why.windows}) == len(why.windows)
        assert all(0 <= window.start < window.end <= len(ids) for window in why.windows)


def test_the_window_that_decides_is_named():
    """One filter of window 2 that answers to words 3 4 in a row, and one class that listens to it."""
    model = MTCNN(vocabulary_size=6, classes={"site": 2}, dim=6, windows=(2,), filters=1).eval()
    with torch.no_grad():
        model.embedding.weight.copy_(torch.eye(6))
        model.convolution.weight.zero_()
        model.convolution.weight[0, 0, 3] = model.convolution.weight[1, 0, 4] = 1.0
        model.convolution.bias.fill_(-1.5)
        model.heads["site"].weight.copy_(torch.tensor([[0.0], [8.0]]))
        model.heads["site"].bias.copy_(torch.tensor([0.5, 0.25]))
    why = explain(model, [5, 3, 5, 3, 4, 5], task="site")
    assert (why.label, why.logit, why.bias) == (1, 4.25, 0.25)
    assert [(w.start, w.end, w.weight) for w in why.windows] == [(3, 5, 4.0)]
    other = explain(model, [5, 3, 5, 3, 4, 5], task="site", label=0)
    assert other.logit == 0.5 and sum(window.weight for window in other.windows) == 0


def test_spans_lie_on_the_words_of_the_text():
    text = "FINAL DIAGNOSIS: Invasive ductal carcinoma, grade 3; left breast."
    tokens = tokenize_spans(text)
    model = MTCNN(**SHAPE, seed=1).eval()
    why = explain(model, np.arange(2, 2 + len(tokens)).tolist(), task="site")
    places = [(start, end) for _, start, end in tokens]
    for window, (start, end, weight) in zip(why.windows, spans(why, places), strict=True):
        words = [token for token, _, _ in tokens[window.start : window.end]]
        assert [token for token, _, _ in tokenize_spans(text[start:end])] == words
        assert weight == window.weight


def test_a_document_without_windows_has_only_the_bias():
    model = MTCNN(**SHAPE, seed=1).eval()
    for ids in ([], [4], [4, 5]):
        why = explain(model, ids, task="behavior")
        assert why.windows == () and why.logit == why.bias
