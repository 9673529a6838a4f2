"""A registry that joins later: the released encoder stays as it is to the bit, and only the private part learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from federation.test_run import QUICK, corpus
from pathveil.bundle import Model
from pathveil.errors import FederationError, UsageError
from pathveil.federation.join import bundle_of, only, train_beside
from pathveil.federation.release import Release, arrays_of
from pathveil.federation.run import run
from pathveil.federation.settings import FederationSettings
from pathveil.model import TokenBatch
from pathveil.model.shared_private import Private, Shared, merged
from pathveil.vocabulary.words import Vocabulary

WORDS = Vocabulary(tuple(f"word{number}" for number in range(38)), "by hand")
SHAPE = {"dim": QUICK["dim"], "windows": [3, 4, 5], "filters": QUICK["filters"]}


@pytest.fixture(scope="module")
def released():
    """The shared encoder of two registries that trained together; the third joins later."""
    reports = corpus()
    first = reports.take(np.flatnonzero(reports.registries < 2))
    settings = FederationSettings.strong(**QUICK | {"epochs": 6})
    outcome = run(first, mode="strong", settings=settings, seed=1)
    return Release(outcome.shared, SHAPE, reports.classes, "words 1500", WORDS, {"mode": "strong"})


def later():
    reports = corpus()
    reports = reports.take(np.flatnonzero(reports.registries == 2))
    provenance = {"corpus_sha256": "00", "text": "words 1500", "vocabulary_sha256": WORDS.sha256}
    return type(reports)(**{**reports.__dict__, "provenance": provenance})


def test_joining_learns_and_leaves_the_shared_encoder_alone(released, tmp_path):
    before = {name: array.copy() for name, array in released.tensors.items()}
    joined = train_beside(released, later(), settings=FederationSettings(**QUICK), seed=3)
    now = arrays_of(joined.shared)
    assert set(now) == set(before)
    for name, array in now.items():
        assert array.tobytes() == before[name].tobytes() == released.tensors[name].tobytes(), name
    scores = {row.mode: row.micro.value for row in joined.scores}
    assert set(scores) == {"joined", "single"} and scores["joined"] > 0.6
    started = Private(vocabulary_size=40, classes={"site": 4}, **SHAPE, seed=3).state_dict()
    assert all((joined.site.private.state_dict()[name] != start).any() for name, start in started.items())
    bundle = bundle_of(joined, WORDS, release=released, seed=3, device="cpu")
    bundle.save(tmp_path / "bundle")
    tests = later()
    (member,) = Model.load(tmp_path / "bundle").ensemble().members
    with torch.no_grad():
        answers = member(TokenBatch(ids=tests.ids, offsets=tests.offsets))["site"].numpy()
    np.testing.assert_allclose(answers, joined.site.logits(joined.shared, tests)["site"], atol=1e-4)


def test_common_heads_know_the_others_classes_and_nothing_of_new_ones(released):
    shared = released.shared({"site": 6, "side": 2})  # two of the registry's own, and a task that is new
    features = torch.rand(5, shared.encoder.width, generator=torch.Generator().manual_seed(1))
    scores = shared.logits(features)
    weight, bias = (torch.from_numpy(released.tensors[f"heads.site.{part}"]) for part in ("weight", "bias"))
    torch.testing.assert_close(scores["site"][:, :4], features @ weight.T + bias)
    assert not scores["site"][:, 4:].any() and not scores["side"].any()
    headless = {name: array for name, array in released.tensors.items() if name.startswith("encoder.")}
    assert not Release(headless, SHAPE, {}, "", WORDS).shared({"site": 6}).heads


def test_a_release_is_checked_and_holds_no_discriminator(released, tmp_path):
    folder = released.save(tmp_path / "shared")
    assert not any(name.startswith("discriminator") for name in released.tensors)
    assert any(name.startswith("heads.") for name in released.tensors)
    again = Release.load(folder)
    assert again.sha256 == released.sha256 and again.vocabulary.words == WORDS.words
    assert again.shape["windows"] == (3, 4, 5) and again.classes == released.classes
    path = folder / "shared.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(FederationError, match="missing or was altered"):
        Release.load(folder)
    with pytest.raises(UsageError, match="expected a folder that 'federate run' wrote"):
        Release.load(tmp_path)
    private = Vocabulary(WORDS.words, "agreed", source={"id_space": "ab"})
    folder = Release(released.tensors, SHAPE, released.classes, "", private).save(tmp_path / "other")
    assert not (folder / "vocabulary.json").exists() and Release.load(folder).id_space == "ab"


def test_reports_that_do_not_fit_are_refused(released):
    with pytest.raises(UsageError, match="R1, R2, R3: choose one"):
        train_beside(released, corpus(), settings=FederationSettings(**QUICK))
    with pytest.raises(UsageError, match="no registry 'R9'"):
        only(corpus(), "R9")
    other = later()
    with pytest.raises(UsageError, match="41 word ids, the shared encoder has 40"):
        train_beside(released, replace(other, vocabulary_size=41), settings=FederationSettings(**QUICK))


def test_cases_given_as_unseen_are_tested_on_and_nothing_is_learnt_from_them(released):
    reports, settings = later(), FederationSettings(**QUICK | {"epochs": 1})
    unseen = np.arange(reports.documents - 30, reports.documents)
    joined = train_beside(released, reports, settings=settings, seed=3, unseen=unseen)
    assert set(joined.training.cases) == set(reports.cases[: reports.documents - 30])
    assert {(row.mode, row.documents, row.cases) for row in joined.scores} == {
        ("joined", 30, 30),
        ("single", 30, 30),
    }
    few = train_beside(released, reports, settings=settings, seed=3, unseen=unseen[:9])
    assert few.scores == () and few.kept == 1  # nothing is told of fewer than ten cases
    with pytest.raises(UsageError, match="registry R3 has 4 cases with labels to train on and 76 to test on"):
        train_beside(released, reports, settings=settings, seed=3, unseen=np.arange(4, reports.documents))


@pytest.mark.parametrize("added", [False, True])
def test_two_encoders_are_one_network_of_twice_the_width(added):
    shape = {"vocabulary_size": 30, "classes": {"site": 4, "side": 2}, "windows": (1, 3)}
    shared = Shared(registries=3, seed=1, common_heads=True, dim=6, filters=5, **shape)
    private = Private(seed=2, dim=4, filters=3, shared_width=10, **shape)
    rng = np.random.default_rng(0)
    batch = TokenBatch.of([rng.integers(2, 30, length).tolist() for length in (9, 1, 0, 4)])
    features = shared.features(batch)
    apart = private.logits(features, private.features(batch))
    answers = merged(shared, private, added_heads=added).eval()(batch)
    for task, scores in answers.items():
        wanted = apart[task] + (shared.logits(features)[task] if added else 0)
        torch.testing.assert_close(scores, wanted, rtol=1e-4, atol=1e-5)
