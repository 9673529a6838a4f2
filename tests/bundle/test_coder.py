"""Codes, thresholds and abstention."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bundle.conftest import reports
from pathveil.bundle.coder import Coder, decide
from pathveil.bundle.explanation import read_to_explain
from pathveil.bundle.text_answers import answer
from pathveil.errors import BundleError
from pathveil.training.scores import Threshold


def threshold(probability):
    return Threshold(probability=probability, wanted=0.97, accuracy=1.0, low=0.9, abstained=0.0, documents=10)


def test_codes_are_what_the_model_says(bundle):
    texts = reports(40, seed=9)["text"].to_list()
    coder = Coder(bundle)
    said, empty = coder.read(texts)
    assert not empty.any()
    for row, codes in enumerate(coder.code(texts)):
        for task, code in codes.items():
            best = int((said[task][row] + bundle.ensemble().lift[task]).argmax())
            assert code.code == bundle.labels[task][best]
            assert code.probability == pytest.approx(np.exp(said[task][row, best]))
            assert code.abstained == (code.probability < bundle.thresholds[task].probability)
            assert code.lifted == (best != int(said[task][row].argmax()))


def test_a_probability_that_is_none_is_left_to_a_person(bundle):
    """Comparisons with NaN are false: once such reports were coded as sure."""
    logs = {task: np.full((2, len(names)), np.nan, np.float32) for task, names in bundle.labels.items()}
    for codes in decide(bundle, logs, empty=np.zeros(2, bool)):
        assert all(code.abstained for code in codes.values())


def test_one_text_is_coded_as_among_many(bundle):
    texts = reports(30, seed=9)["text"].to_list()
    many = Coder(bundle).code(texts)
    for text, codes in zip(texts[:5], many, strict=False):
        (alone,) = Coder(bundle).code([text])
        for task, code in alone.items():
            assert code.code == codes[task].code
            assert code.probability == pytest.approx(codes[task].probability, abs=1e-5)


def test_a_report_without_a_known_word_is_left_to_a_person(bundle):
    sure = replace(bundle, thresholds={task: threshold(0.0) for task in bundle.tasks})
    for codes in Coder(sure).code(["", "zyx wvu", "   "]):
        assert all(code.abstained for code in codes.values())
    assert not any(code.abstained for code in Coder(sure).code(["carcinoma of the left breast"])[0].values())


def test_a_report_shorter_than_what_networks_look_at_is_left_to_a_person(bundle):
    """Of two words nothing reaches networks that look at three; a linear view reads each."""
    everything = {task: threshold(0.0) for task in bundle.tasks}
    texts = ["breast", "breast carcinoma", "left breast carcinoma"]
    for linear, left in ((True, [False, False, False]), (False, [True, True, False])):
        blend = {task: numbers[: 1 + linear] for task, numbers in bundle.blend.items()}
        shape = {**bundle.architecture, "linear": linear}
        model = replace(bundle, thresholds=everything, architecture=shape, blend=blend)
        assert [codes["site"].abstained for codes in Coder(model).code(texts)] == left
        assert [one.unread for one in answer(Coder(model), texts)] == left
        assert read_to_explain(Coder(model), texts)[1].tolist() == left


def test_without_thresholds_everything_is_left_to_a_person(bundle):
    bare = replace(bundle, thresholds={})
    assert all(code.abstained for code in Coder(bare).code(["carcinoma of the left breast"])[0].values())


def test_text_cut_by_other_rules_is_refused(bundle):
    with pytest.raises(BundleError, match="text settings"):
        Coder(replace(bundle, text="pathveil-text/0 words=1500"))


def test_decide_takes_the_likeliest(bundle):
    logs = {task: np.log(np.full((1, len(names)), 0.1 / len(names))) for task, names in bundle.labels.items()}
    logs["site"][0, 2] = np.log(0.9)
    codes = decide(bundle, logs, empty=np.array([False]))[0]
    assert codes["site"].code == bundle.labels["site"][2] and codes["site"].probability == pytest.approx(0.9)


def test_a_code_that_is_not_the_most_probable_says_so(bundle):
    """Two classes, the rarer one lifted: its probability stays the chance that it is right, below a half."""
    tensors = dict(bundle.tensors) | {"lift.behavior": np.array([0.0, 2.0], np.float32)}
    two = replace(bundle, labels=dict(bundle.labels) | {"behavior": ("3", "2")}, tensors=tensors)
    logs = {"behavior": np.log([[0.73, 0.27], [0.95, 0.05], [0.1, 0.9]])}
    lifted, plain, rare = (codes["behavior"] for codes in decide(two, logs, empty=np.zeros(3, bool)))
    assert (lifted.code, round(lifted.probability, 2), lifted.lifted) == ("2", 0.27, True)
    assert (plain.code, round(plain.probability, 2), plain.lifted) == ("3", 0.95, False)
    assert (rare.code, round(rare.probability, 2), rare.lifted) == ("2", 0.9, False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_files_and_many_texts_are_read_on_a_gpu(bundle, fresh):
    texts = reports(130, seed=9)["text"].to_list()
    here, there = Coder(bundle).read(texts)[0], Coder(bundle, device="cuda").read(texts)[0]
    for task in bundle.tasks:
        np.testing.assert_allclose(there[task], here[task], atol=1e-3)
    assert bundle.predict(fresh, device="cuda").results and bundle.evaluate(fresh, device="cuda", resamples=10).tasks
