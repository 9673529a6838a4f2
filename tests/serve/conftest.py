"""A tiny model behind a service, and clients of it."""

import contextlib
import os
import shutil
import signal
import subprocess

import pytest
from starlette.testclient import TestClient

from bundle.conftest import TINY, reports
from conftest import free_port
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


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory):
    """A PostgreSQL server of our own, where the machine has one."""
    programs = shutil.which("initdb") and shutil.which("pg_ctl")
    if not programs:
        pytest.skip("needs PostgreSQL's programs on the path")
    folder, port = tmp_path_factory.mktemp("postgresql"), free_port()
    as_user = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    if as_user:
        for parent in folder.parents[:-2]:  # below the system's own folder for temporary files
            parent.chmod(0o755)
        folder.chmod(0o777)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    data = folder / "data"
    made = subprocess.run([*as_user, "initdb", "-D", data, "-U", "pathveil", "-A", "trust", "--no-sync"], **quiet)
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
    if (
        made.returncode
        or subprocess.run([*as_user, "pg_ctl", "-D", data, "-w", "-o", options, "start"], **quiet).returncode
    ):
        pytest.skip("PostgreSQL does not start here")
    server = int((data / "postmaster.pid").read_text().split()[0])
    yield f"postgresql://pathveil@127.0.0.1:{port}/postgres"
    with contextlib.suppress(ProcessLookupError):  # it ends by itself where its folder was cleared away
        os.kill(server, signal.SIGQUIT)  # at once; its user may no longer see the folder, by which pg_ctl would stop it


@pytest.fixture
def empty_postgresql(postgresql):
    """The address of a database with nothing in it."""
    import psycopg

    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgresql
