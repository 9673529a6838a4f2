"""A tiny model behind a service, and clients of it."""

import pytest
from starlette.testclient import TestClient

from bundle.conftest import TINY, reports
from pathveil.bundle import Model
from pathveil.bundle.train import train_model
from pathveil.serve.app import Service, make_app
from pathveil.serve.coding import Answerer
from pathveil.serve.pool import Pool
from pathveil.serve.settings import ServeSettings
from pathveil.serve.tokens import Clients, digest_of

TOKEN = "a-token-of-a-client-0123456789"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module", autouse=True)
def quiet(one_thread):
    """Tiny models need no threads."""


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    reports(160).write_parquet(folder / "train.parquet")
    train_model(folder / "train.parquet", TINY, preset="tiny", seed=3).save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="session")
def model(model_folder):
    return Model.load(model_folder)


def service_of(model, *, detail="probabilities", **changes) -> Service:
    settings = ServeSettings().changed(**changes)
    pool = Pool(Answerer(model, detail=detail), waiting=settings.waiting_requests, seconds=settings.answer_seconds)
    return Service(pool=pool, clients=Clients({"lab": digest_of(TOKEN)}), settings=settings, key=b"k" * 32)


@pytest.fixture(scope="module")
def client(model):
    with TestClient(make_app(service_of(model))) as found:
        yield found
