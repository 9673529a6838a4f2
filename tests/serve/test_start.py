"""A service from a real release: it tells what the form allows, and takes only whose signature is asked for."""

import socket

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from bundle.conftest import evidence_for
from pathveil.bundle.release_folder import Signing, write_release
from pathveil.cli import app
from pathveil.errors import PathveilError, UsageError
from pathveil.serve.app import make_app
from pathveil.serve.incoming import read_file
from pathveil.serve.settings import ServeSettings
from pathveil.serve.start import make_service
from pathveil.signatures import new_key, read_private_key
from serve.conftest import BEARER, TOKEN

TEXT = {"text": "Final diagnosis: invasive ductal carcinoma of the left breast."}


@pytest.fixture(scope="module")
def releases(model, tmp_path_factory):
    """A release a form, the keys of who signed them and of somebody else, and a file of tokens."""
    folder = tmp_path_factory.mktemp("releases")
    for name in ("officer", "stranger"):
        new_key(folder / f"{name}.pem")
    signing = Signing(key=read_private_key(folder / "officer.pem"), signer="A. Officer", days=30)
    for form in ("weights", "labels", "encoder"):
        write_release(model, folder / form, evidence=evidence_for(model), signing=signing, form=form)
    (folder / "tokens").write_text(f"lab {TOKEN}\n")
    (folder / "tokens").chmod(0o600)
    return folder


def ask(releases, form, **options):
    own = {"settings": ServeSettings(), "token_file": releases / "tokens"}
    own["require_signature"] = releases / "officer.pub.pem"
    with TestClient(make_app(make_service(releases / form, **own | options))) as client:
        facts = client.get("/v1/model", headers=BEARER).json()
        answer = client.post("/v1/code?explain=5", json=TEXT, headers=BEARER)
    return facts, answer.json()["results"][0]["codes"], answer.text


def test_answers_are_of_the_releases_form(releases, model):
    facts, codes, _ = ask(releases, "weights")
    assert (facts["form"], facts["detail"], facts["audited"]) == ("weights", "probabilities", True)
    assert codes["site"]["alternatives"] and codes["site"]["probability"] > 0.5
    assert all(code["places"] for code in codes.values())
    facts, fewer, text = ask(releases, "labels")
    assert (facts["form"], facts["detail"]) == ("labels", "labels")
    assert "probability" not in text and "places" not in text and not any(one["alternatives"] for one in fewer.values())
    assert {task: one["code"] for task, one in fewer.items()} == {task: one["code"] for task, one in codes.items()}
    assert ask(releases, "weights", detail="bands")[0]["detail"] == "bands"
    for form, detail, said in (("labels", "bands", "tell no bands"), ("encoder", None, "codes nothing")):
        with pytest.raises(PathveilError, match=said):
            ask(releases, form, detail=detail)


def test_a_release_that_another_signed_or_that_was_changed_is_not_served(releases, tmp_path):
    with pytest.raises(PathveilError):
        ask(releases, "weights", require_signature=releases / "stranger.pub.pem")
    with pytest.raises(UsageError, match="need --store"):
        make_service(releases / "weights", settings=ServeSettings(), feeds=[object()])


def test_nothing_is_said_to_be_served_where_the_port_is_taken(model_folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        told = CliRunner().invoke(
            app, ["serve", str(model_folder), "--store", str(tmp_path / "s"), "--port", str(port)]
        )
    assert isinstance(told.exception, UsageError) and "cannot listen" in str(told.exception)
    assert "Serving" not in told.output and "/setup" not in told.output


def test_a_wrong_place_is_named_with_its_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    for options, sentence in (
        (["--store", "s", "--queue", "none.csv"], "--queue none.csv: there is no such file; expected a table"),
        (["--store", "file"], "--store file: is a file; expected a folder"),
    ):
        told = CliRunner().invoke(app, ["serve", "model", *options])
        assert isinstance(told.exception, UsageError) and sentence in str(told.exception)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_queued_file_of_no_known_kind_leads_to_no_option_that_is_not_there(tmp_path):
    (tmp_path / "notes").write_text("neither one nor the other\n")
    with pytest.raises(PathveilError, match="nor HL7 by its name and beginning; let its name end in") as error:
        list(read_file(tmp_path / "notes", key=b"k" * 32))
    assert "--format" not in str(error.value)
