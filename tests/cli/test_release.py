"""The commands of a release: what each says and its exit code, from refusal to verification."""

import json

import pytest
from typer.testing import CliRunner

from auditing.made import ready_to_release
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
    longer = run(
        "release", place / "m", *evidence, "--key", place / "k.pem", "--out", tmp_path / "s", "--valid-days", 999
    )
    assert "lets a verdict be good for 365 days" in str(longer.exception) and not (tmp_path / "s").exists()
    again = run("release", place / "m", *evidence, "--key", place / "k.pem", "--out", tmp_path / "r")
    assert "is there already" in str(again.exception)
    made = run("keys", "new", "--out", tmp_path / "new.pem", "--kind", "ed25519")
    assert made.exit_code == 0 and (tmp_path / "new.pub.pem").exists()
    foreign = run("verify", tmp_path / "r", "--key", tmp_path / "new.pub.pem")
    assert "is not signed by this key" in str(foreign.exception)


OPENING = {  # every command that opens a model, with what else it needs
    "audit": ["M", "--members", "A", "--non-members", "A", "--out", "OUT"],
    "drift": ["M", "A", "--page", "PAGE"],
    "evaluate": ["M", "A", "--page", "PAGE"],
    "predict": ["M", "A", "--out", "OUT"],
    "serve": ["M", "--port", 1],
    "vocab exposure": ["M/vocabulary.json", "A", "--bundle", "M", "--out", "OUT"],
}


@pytest.mark.parametrize("command", OPENING)
def test_whatever_opens_a_model_can_ask_for_a_signature(place, tmp_path, inside, command):
    paths = {"M": place / "m", "A": place / "a.parquet", "OUT": tmp_path / "out.csv"}
    paths["PAGE"] = tmp_path / "page.html"
    paths["M/vocabulary.json"] = place / "m" / "vocabulary.json"
    given = [*command.split(), *(paths.get(one, one) for one in OPENING[command])]
    told = inside(*given, "--require-signature", place / "k.pub.pem")
    assert told.returncode == 2 and "is not signed (model.sig is missing)" in told.stderr
    assert not told.stdout and not paths["OUT"].exists() and not paths["PAGE"].exists()


def test_no_command_that_opens_a_model_is_without_it():
    """A release is made from a bundle at home, which nobody signed."""
    from typer.main import get_command

    def commands(group, name=""):
        for key, one in group.commands.items():
            yield from commands(one, f"{name}{key} ") if hasattr(one, "commands") else [(name + key, one)]

    def opens(parameter):
        return "BUNDLE" in (parameter.metavar or "") and parameter.name != "out"

    found = {name: one.params for name, one in commands(get_command(app)) if any(map(opens, one.params))}
    assert set(found) == {*OPENING, "release"}
    without = [name for name, params in found.items() if "require_signature" not in {one.name for one in params}]
    assert without == ["release"]
