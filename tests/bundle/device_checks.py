"""A model trained, written, opened, scored and asked on a device: on a CPU in every test run, also on a GPU where there
is one.

It starts from encoded arrays, so that it runs where neither polars nor pytest is installed:

    PYTHONPATH=src python tests/bundle/device_checks.py cuda
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pathveil.bundle import Model
from pathveil.bundle.evaluation import evaluate_encoded
from pathveil.bundle.train import make_model
from pathveil.text.tokenizer import settings as text_settings
from pathveil.text.tokenizer import tokenize
from pathveil.training.ensemble import train
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.encoded import EncodedCorpus
from pathveil.vocabulary.encoding import encode_texts
from pathveil.vocabulary.words import Vocabulary

SETTINGS = TrainingSettings(
    dim=16,
    filters=8,
    batch_size=16,
    learning_rate=0.01,
    epochs=8,
    patience=None,
    members=2,
    linear=True,
    validation_share=0.3,
)
KINDS = {
    "C50": "invasive ductal carcinoma of the left breast",
    "C18": "adenocarcinoma of the sigmoid colon",
    "C61": "prostate, adenocarcinoma, gleason 3+4=7",
}


def texts(count: int, *, seed: int) -> tuple[list[str], list[str]]:
    """Reports and their sites."""
    rng = np.random.default_rng(seed)
    sites = rng.choice(list(KINDS), count).tolist()
    filler = [" ".join(rng.choice(["specimen", "received", "margins", "negative"], 9)) for _ in sites]
    return [f"{words}. Diagnosis: {KINDS[site]}." for words, site in zip(filler, sites, strict=True)], sites


def encoded(reports: list[str], sites: list[str], vocabulary: Vocabulary) -> EncodedCorpus:
    ids, offsets = encode_texts(reports, vocabulary)
    return EncodedCorpus(
        ids=ids,
        offsets=offsets,
        cases=np.arange(len(reports)) // 2,
        registries=np.zeros(len(reports), np.int32),
        registry_names=("R1",),
        labels={"site": np.array([list(KINDS).index(site) for site in sites])},
        classes={"site": tuple(KINDS)},
        vocabulary_size=vocabulary.size,
        provenance={"corpus_sha256": "0" * 64, "text": text_settings()},
    )


def check(device: str) -> None:
    """Train, save, load, score and predict on the device; the CPU must say the same of the same model."""
    reports, sites = texts(90, seed=1)
    words = tuple(sorted({word for report in reports for word in tokenize(report)}))
    vocabulary = Vocabulary(words=words, method="all")
    corpus = encoded(reports, sites, vocabulary)
    trained = train(corpus, SETTINGS, seed=3, device=device)
    made = make_model(trained, corpus, vocabulary, settings=SETTINGS, preset="tiny", seed=3, device=device)
    with TemporaryDirectory() as folder:
        made.save(Path(folder) / "model")
        model = Model.load(Path(folder) / "model")
    new, truth = texts(60, seed=2)
    for given in (new, new[:3]):
        there, here = model.predict(given, device=device), model.predict(given)
        for one, other in zip(there.results, here.results, strict=True):
            assert one.codes["site"].code == other.codes["site"].code
            assert abs(one.codes["site"].probability - other.codes["site"].probability) < 1e-3
    scores = evaluate_encoded(model, encoded(new, truth, vocabulary), resamples=20, device=device)
    assert scores.tasks["site"].micro.value > 0.95, scores
    assert {member.device.type for member in model.ensemble(device).members} == {device.partition(":")[0]}
    assert model.explain(new[0]).tasks["site"].places


if __name__ == "__main__":
    check(*sys.argv[1:])
    print(f"{sys.argv[1]}: trained, saved, loaded, scored and asked")
