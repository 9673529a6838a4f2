"""The loop: it learns, stops early, keeps the best weights, and goes on after a kill as if nothing had happened."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pathveil.errors import UsageError
from pathveil.training.loop import fit, judged, logits_of, validate, validation_scores
from pathveil.training.settings import TrainingSettings
from training.corpora import encoded

SMALL = TrainingSettings(dim=12, filters=8, batch_size=16, learning_rate=0.01, epochs=6, patience=None)


def weights(fitted):
    return {name: tensor.clone() for name, tensor in fitted.model.state_dict().items()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


@pytest.mark.parametrize("optimiser, rate", [("adam", 0.01), ("adadelta", 1.0)])
def test_it_learns(optimiser, rate):
    corpus = encoded(300, missing=0.2)
    settings = SMALL.changed(optimiser=optimiser, learning_rate=rate, epochs=25, clip=5.0)
    fitted = fit(corpus, settings, seed=1)
    assert fitted.history[-1]["loss"] < 0.5 * fitted.history[0]["loss"]
    fresh = encoded(300, seed=9, missing=0.0)
    scores = logits_of(fitted.model, fresh)
    readable = fresh.lengths >= 6
    for task in fresh.tasks:
        assert (scores[task].argmax(1) == fresh.labels[task])[readable].mean() > 0.9


def test_same_seed_same_weights_whatever_the_global_generators():
    corpus = encoded()
    torch.manual_seed(1)
    np.random.seed(1)
    first = weights(fit(corpus, SMALL.changed(word_dropout=0.1), seed=3))
    torch.manual_seed(2)
    np.random.seed(2)
    assert_same(first, weights(fit(corpus, SMALL.changed(word_dropout=0.1), seed=3)))
    other = weights(fit(corpus, SMALL.changed(word_dropout=0.1), seed=4))
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_best_weights_are_kept_and_patience_ends_it():
    # Labels that say nothing: the validation loss soon rises.
    corpus = encoded(80)
    rng = np.random.default_rng(0)
    shuffled = {task: rng.permutation(label) for task, label in corpus.labels.items()}
    corpus = encoded(80).__class__(**{**vars(corpus), "labels": shuffled})
    fitted = fit(corpus, SMALL.changed(epochs=60, patience=3, learning_rate=0.02), seed=2)
    losses = [entry["validation_loss"] for entry in fitted.history]
    assert fitted.best_epoch == int(np.argmin(losses)) + 1
    assert len(losses) == fitted.best_epoch + 3 < 60
    again = validate(fitted.model, corpus, fitted.validation)
    assert again["validation_loss"] == pytest.approx(min(losses), rel=1e-6)


def test_validation_loss_is_the_sum_of_masked_means():
    corpus = encoded(60, missing=0.4)
    fitted = fit(corpus, SMALL.changed(epochs=1))
    rows = fitted.validation
    expected = 0.0
    for task, scores in logits_of(fitted.model, corpus, rows).items():
        labels = torch.from_numpy(corpus.labels[task][rows])
        expected += torch.nn.functional.cross_entropy(torch.from_numpy(scores), labels, ignore_index=-1).item()
    assert fitted.history[0]["validation_loss"] == pytest.approx(expected, rel=1e-5)


def test_held_out_cases_are_a_tenth_and_whole():
    corpus = encoded(200, reports_a_case=4)
    fitted = fit(corpus, SMALL.changed(epochs=1))
    held = corpus.cases[fitted.validation]
    assert len(np.unique(held)) == 5 and len(held) == 20


def test_held_out_words_are_not_learnt():
    """A word found in validation documents only keeps its start."""
    corpus = encoded(60)
    held = np.arange(50, 60)
    ids = corpus.ids.copy()
    ids[corpus.offsets[50] :] = 59
    ids[: corpus.offsets[50]] = np.minimum(ids[: corpus.offsets[50]], 58)
    corpus = corpus.__class__(**{**vars(corpus), "ids": ids})
    start = np.random.default_rng(0).normal(size=(60, 12)).astype(np.float32)
    fitted = fit(corpus, SMALL, held_out=held, vectors=start)
    moved = (fitted.model.embedding.weight.detach().numpy() != start).any(1)
    assert not moved[59] and moved[2:9].all()


class Stop(Exception):
    pass


@pytest.mark.parametrize("optimiser", ["adam", "adadelta"])
@pytest.mark.parametrize("at", [1, 9, 20])
def test_a_stopped_run_continues_bit_for_bit(tmp_path, optimiser, at):
    corpus = encoded()
    settings = SMALL.changed(optimiser=optimiser, clip=1.0, word_dropout=0.05, class_balance=0.5, smoothing=0.05)
    whole = fit(corpus, settings, seed=5)

    def stop(stage, done, total):
        if done == at:
            raise Stop

    path = tmp_path / "run.safetensors"
    with pytest.raises(Stop):
        fit(corpus, settings, seed=5, checkpoint=path, save_seconds=0.0, progress=stop)
    continued = fit(corpus, settings, seed=5, checkpoint=path)
    assert_same(weights(whole), weights(continued))
    assert whole.history == continued.history and whole.best_epoch == continued.best_epoch
    # A finished run is only read.
    seen = []
    assert_same(
        weights(whole), weights(fit(corpus, settings, seed=5, checkpoint=path, progress=lambda *s: seen.append(s)))
    )
    assert len(seen) == 1


SCRIPT = """
import hashlib, json, sys
from dataclasses import replace
from pathlib import Path
from training.corpora import encoded
from pathveil.training.loop import fit
from pathveil.training.settings import TrainingSettings
settings = TrainingSettings(dim=12, filters=8, batch_size=16, learning_rate=0.01, epochs=6, patience=None)
def tell(stage, done, total):
    print(done, flush=True)
    if done == 17 and "wait" in sys.argv:
        sys.stdin.read()  # until the test kills this process
corpus = encoded()
parts = {name: dict(reversed(getattr(corpus, name).items())) for name in ("labels", "classes")}
fitted = fit(replace(corpus, **parts), settings, seed=5, checkpoint=Path(sys.argv[1]), save_seconds=0.0, progress=tell)
digest = hashlib.sha256()
for name, tensor in fitted.model.state_dict().items():
    digest.update(tensor.numpy().tobytes())
print(json.dumps({"sha256": digest.hexdigest(), "history": fitted.history}))
"""


def test_a_killed_process_continues_bit_for_bit(tmp_path):
    tests = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tests)!r})\n{SCRIPT}"]
    whole = subprocess.run([*command, tmp_path / "a"], capture_output=True, text=True, check=True).stdout
    with subprocess.Popen(
        [*command, tmp_path / "b", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            if line.strip() == "17":
                process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    continued = subprocess.run([*command, tmp_path / "b"], capture_output=True, text=True, check=True).stdout
    assert continued.split("\n")[0] == "17"  # step 17 had not been saved yet: it is the first to be made again
    assert whole.splitlines()[-1] == continued.splitlines()[-1]  # the order of tasks too: a figure follows it


def test_another_runs_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    fit(encoded(), SMALL.changed(epochs=1), seed=1, checkpoint=path)
    for corpus, settings, seed in [
        (encoded(), SMALL.changed(epochs=1), 2),
        (encoded(), SMALL.changed(epochs=2), 1),
        (encoded(seed=1), SMALL.changed(epochs=1), 1),
    ]:
        with pytest.raises(UsageError, match="other data, settings or seed"):
            fit(corpus, settings, seed=seed, checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UsageError, match="cannot be read as a checkpoint"):
        fit(encoded(), SMALL.changed(epochs=1), seed=1, checkpoint=path)


def test_divergence_is_a_sentence():
    with pytest.raises(UsageError, match="training diverged in epoch"):
        fit(encoded(), SMALL.changed(optimiser="adadelta", learning_rate=1e30))


def test_one_case_cannot_be_split():
    with pytest.raises(UsageError, match="one case"):
        fit(encoded(4, reports_a_case=4), SMALL)
    fit(encoded(4, reports_a_case=4), SMALL.changed(validation_share=0.0, epochs=1))


def test_empty_documents_and_tasks_without_labels_are_no_trouble():
    corpus = encoded(40, length=3)
    labels = dict(corpus.labels) | {"task1": np.full(40, -1)}
    corpus = corpus.__class__(**{**vars(corpus), "labels": labels})
    fitted = fit(corpus, SMALL.changed(epochs=2))
    assert "task1" not in fitted.history[-1]["validation_losses"]
    assert np.isfinite(fitted.history[-1]["loss"])


def test_training_imports_without_polars():
    code = (
        "import sys; sys.modules['polars'] = None\n"
        "import pathveil.training.loop, pathveil.training.metrics, pathveil.training.calibration"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_diverged_model_is_not_taken_for_one_without_labels():
    logits, labels = {"site": torch.full((3, 2), torch.nan)}, {"site": np.array([0, 1, -1])}
    scores = validation_scores({task: pairs.numpy() for task, pairs in judged(logits, labels).items()})
    assert np.isnan(scores["validation_loss"])
