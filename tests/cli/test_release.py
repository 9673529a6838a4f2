"""The commands of a release: what each says and its exit code, from refusal to verification."""

import json

import pytest
from typer.testing import CliRunner

from audit.made import ready_to_release
from pathveil.cli import app
from pathveil.errors import UsageError


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return ready_to_release(tmp_path_factory.mktemp("commands"))


def test_the_commands(place, tmp_path):
    def run(*arguments):
        return CliRunner().invoke(app, [str(one) for one in arguments])

    evidence = ["--audit", place / "audit", "--appetite", place / "mine.toml"]
    refused = run("release", place / "m", "--audit", tmp_path, "--key", place / "k.pem", "--out", tmp_path / "r")
    assert refused.exit_code == 3 and "not released" in refused.output and not (tmp_path / "r").exists()
    wrong = run("release", place / "m", *evidence, "--key", place / "k.pub.pem", "--out", tmp_path / "r")
    assert isinstance(wrong.exception, UsageError) and "is a public key" in str(wrong.exception)
    done = run("release", place / "m", *evidence, "--key", place / "k.pem", "--out", tmp_path / "r", "--form", "labels",
               "--signer", "B. Signer", "--valid-days", 7)  # fmt: skip
    assert done.exit_code == 0 and "by B. Signer" in done.output and "no reports were searched" in done.output
    checked = run(
        "verify", tmp_path / "r", "--key", place / "k.pub.pem", "--log", tmp_path / "release-log.jsonl", "--json"
    )
    assert checked.exit_code == 0 and json.loads(checked.stdout)["release"]["form"] == "labels"
    again = run("release", place / "m", *evidence, "--key", place / "k.pem", "--out", tmp_path / "r")
    assert "is there already" in str(again.exception)
    made = run("keys", "new", "--out", tmp_path / "new.pem", "--kind", "ed25519")
    assert made.exit_code == 0 and (tmp_path / "new.pub.pem").exists()
    foreign = run("verify", tmp_path / "r", "--key", tmp_path / "new.pub.pem")
    assert "is not signed by this key" in str(foreign.exception)
    for command in (["evaluate"], ["audit", "--members", "x", "--non-members", "y", "--out", tmp_path / "o"]):
        name, *rest = command
        source = [place / "a.parquet"] if name == "evaluate" else []
        told = run(name, place / "m", *source, *rest, "--require-signature", place / "k.pub.pem")
        assert "is not signed" in str(told.exception), command
