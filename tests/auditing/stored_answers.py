"""Answers of sixteen real models, stored so that attacks can be compared on them in a moment.

``answers.npz`` was made once by ``python tests/audit/stored_answers.py`` (a few minutes on two cores): 1,000 synthetic
reports, a tenth of whose labels are wrong, sixteen networks of the ``small`` preset with 30 filters, each on one half
of the cases (models 2k and 2k + 1 on the two halves of one split). Of each model and report: the log-probability of the
label, the same with logits divided by two (LeakPro's temperature), and the margin log(p / (1 − p)), all float16.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

PATH = Path(__file__).parent / "answers.npz"
REPORTS, MODELS, TASKS = 1000, 16, ("subsite", "histology")


def stored() -> dict[str, np.ndarray]:
    """``inside`` (models, reports) bool, and a task's ``log_p``, ``half`` and ``margin`` (models, reports), of the
    reports that have a label of both tasks."""
    with np.load(PATH) as content:
        arrays = {name: content[name].astype(np.float64) for name in content.files if name != "inside"}
        inside = np.unpackbits(content["inside"], axis=1, count=arrays[f"margin {TASKS[0]}"].shape[1]).astype(bool)
    labelled = ~np.isnan([arrays[f"margin {task}"][0] for task in TASKS]).any(axis=0)
    return {name: values[:, labelled] for name, values in (arrays | {"inside": inside}).items()}


def make() -> None:
    import subprocess
    import sys

    from pathveil.auditing.attacks import confidence_margin, log_softmax, of_label
    from pathveil.auditing.shadows import jobs_of, train_here
    from pathveil.progress import silent
    from pathveil.training.settings import preset_settings
    from pathveil.vocabulary.encoding import encode
    from pathveil.vocabulary.selection import select_words

    with TemporaryDirectory() as folder:
        path = Path(folder) / "reports.parquet"
        command = [sys.executable, "-m", "pathveil", "corpus", "synth", "--reports", str(REPORTS), "--seed", "0"]
        subprocess.run([*command, "--out", str(path)], check=True)
        corpus = encode(path, select_words(path, "occurrences >= 5"), tasks=TASKS)
    rng = np.random.default_rng(0)
    for task in TASKS:
        labels = np.array(corpus.labels[task])
        wrong = rng.random(len(labels)) < 0.1
        labels[wrong] = rng.permutation(labels[wrong])
        corpus.labels[task][:] = labels
    jobs = jobs_of(corpus, np.arange(corpus.documents), count=MODELS, seed=0)
    settings = preset_settings("small", filters=30, dim=100, epochs=60, patience=None, validation_share=0.0)
    arrays = {f"{name} {task}": [None] * MODELS for name in ("log_p", "half", "margin") for task in TASKS}
    for number, logits in train_here(corpus, jobs, settings, silent, ""):
        print(number, {task: float((logits[task].argmax(1) == corpus.labels[task]).mean()) for task in TASKS})
        for task in TASKS:
            label = np.asarray(corpus.labels[task]).astype(np.int64)
            arrays[f"log_p {task}"][number] = of_label(log_softmax(logits[task]), label)
            arrays[f"half {task}"][number] = of_label(log_softmax(logits[task] / 2), label)
            arrays[f"margin {task}"][number] = confidence_margin(logits[task], label)
    inside = np.zeros((MODELS, corpus.documents), bool)
    for job in jobs:
        inside[job.number, job.rows] = True
    kept = {name: np.stack(values).astype(np.float16) for name, values in arrays.items()}
    np.savez_compressed(PATH, inside=np.packbits(inside, axis=1), **kept)


if __name__ == "__main__":
    make()
