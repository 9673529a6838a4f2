"""Agreed words are words like any other: a corpus is encoded with them, a model trained, and sites train together."""

import numba
import numpy as np
import polars as pl
import pytest
import torch

from pathveil.agreement.simulate import Outcome, by_registry, simulate
from pathveil.corpus.synth import SynthSettings, write_corpus
from pathveil.federation import embedded
from pathveil.federation.settings import FederationSettings
from pathveil.federation.site import Site
from pathveil.model.shared_private import Private, Shared
from pathveil.training.loop import fit
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary import FIRST_WORD, UNKNOWN, EncodedCorpus
from pathveil.vocabulary.corpus_counts import count_corpus
from pathveil.vocabulary.encoding import encode

REGISTRIES = 3


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Tiny models: threads would cost more than they give."""
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


@pytest.fixture(scope="module")
def agreed(tmp_path_factory) -> tuple[Outcome, dict[str, EncodedCorpus], dict[str, EncodedCorpus]]:
    """An agreement of three registries at two of them, and each registry's corpus encoded with its own vocabulary."""
    folder = tmp_path_factory.mktemp("sites")
    write_corpus(SynthSettings(reports=150, registries=REGISTRIES, seed=2), out=folder / "all.parquet")
    outcome = simulate(
        by_registry(count_corpus(folder / "all.parquet", tasks=())),
        threshold=2,
        min_cases=6,
        batch=128,
        allow_small_threshold=True,
        seed=b"",
    )
    classes = {"site": sorted(pl.read_parquet(folder / "all.parquet")["site"].drop_nulls().unique())}
    own, published = {}, {}
    for name, frame in pl.read_parquet(folder / "all.parquet").group_by("registry"):
        path = folder / f"{name[0]}.parquet"
        frame.write_parquet(path)
        own[name[0]] = encode(path, outcome.sites[name[0]], tasks=["site"], classes=classes)
        published[name[0]] = encode(path, outcome.vocabulary, tasks=["site"], classes=classes)
    return outcome, own, published


def test_an_id_is_the_same_word_at_every_site(agreed):
    outcome, own, published = agreed
    assert {one.vocabulary_size for one in own.values()} == {outcome.vocabulary.size}
    assert len({one.provenance["id_space"] for one in (*own.values(), *published.values())}) == 1
    assert len({one.provenance["vocabulary_sha256"] for one in own.values()}) == REGISTRIES
    unnamed = 0
    for name in own:
        mine, whole = own[name].ids, published[name].ids
        named = [not word.startswith("agreed word ") for word in outcome.sites[name].words]
        known = np.concatenate([np.ones(FIRST_WORD, bool), named])  # by id
        assert np.array_equal(mine, np.where(known[whole], whole, UNKNOWN))
        unnamed += np.sum(mine != whole)
    assert unnamed  # words that passed elsewhere, which a site has in too few cases to have asked


def test_a_model_is_trained_with_them(agreed):
    corpus = next(iter(agreed[2].values()))
    settings = TrainingSettings(dim=8, filters=4, epochs=2, batch_size=16, patience=None)
    trained = fit(corpus, settings=settings, seed=0)
    assert np.isfinite(trained.history[-1]["loss"])


def test_sites_train_together_each_with_its_own_file(agreed):
    outcome, own, _ = agreed
    config = FederationSettings(dim=8, filters=4, epochs=2, batch_size=24)
    shape = {
        "vocabulary_size": outcome.vocabulary.size,
        "classes": {"site": len(next(iter(own.values())).classes["site"])},
        "dim": 8,
        "filters": 4,
    }
    shared = Shared(registries=REGISTRIES, seed=1, sparse=True, **shape)
    before = shared.encoder.embedding.weight.detach().clone()
    sites = [
        Site(
            one, name=name, registry=number, private=Private(seed=number, sparse=True, **shape), settings=config, seed=3
        )
        for number, (name, one) in enumerate(sorted(own.items()))
    ]
    hub, history = embedded.train(sites, shared, settings=config, joint=False)
    assert np.isfinite(history.validation_loss).all() and history.refused == []
    moved = (hub.shared.encoder.embedding.weight.detach() != before).any(dim=1)
    used = torch.zeros(len(moved), dtype=torch.bool)
    used[np.unique(np.concatenate([one.ids for one in own.values()]))] = True
    assert moved[used].float().mean() > 0.5 and not moved[~used].any()  # a word is learned where it is known
