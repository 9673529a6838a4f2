"""The risk appetite: the example explains itself and names nobody; one's own is read back, or refused."""

import tomllib

import pytest
from typer.testing import CliRunner

from pathveil.auditing.appetite import (
    AppetiteAnswers,
    asked_appetite,
    default_appetite_text,
    new_appetite,
    parse_appetite,
    read_appetite,
    write_appetite,
)
from pathveil.cli import app
from pathveil.errors import UsageError

MINE = {"name": 'Anna "Ann" Ó\\\n[[limits]]', "organisation": "North", "date": "2026-11-16"}


def test_the_default_appetite_explains_every_setting():
    appetite = read_appetite(None)
    assert appetite.is_example and appetite.whose == "" and appetite.fprs == (0.1, 0.01)
    text = default_appetite_text()
    for name in ("release", "fpr", "overall", "worst_task", "worst_bucket", '"weights"', '"label"'):
        assert name in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("release = 'probabilities'", "limits"),
        ("release = 'everything'\n[[limits]]\nfpr = 0.1", "release"),
        (
            "release = 'label'\n[[limits]]\nfpr = 0.1\noveral = 0.2",
            "'limits.0.overal': there is no such setting; did you mean 'overall'",
        ),
        ("release = 'label'\n[[limits]]\nfpr = 7", "fpr"),
        ("release = ", "TOML"),
    ],
)
def test_a_bad_appetite_is_named(tmp_path, text, said):
    path = tmp_path / "appetite.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_appetite(path)


def test_a_missing_appetite_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read"):
        read_appetite(tmp_path / "none.toml")


@pytest.mark.parametrize("text", ["date = 5\n", "date = 'yesterday'\n", "valid_days = 0\n", "name = 3\n"])
def test_bad_names_and_days_are_named(text):
    with pytest.raises(UsageError, match=text.split()[0]):
        parse_appetite(text + default_appetite_text(), "mine.toml")


def test_ones_own_is_written_whole_and_read_back(tmp_path):
    answers = AppetiteAnswers(**MINE, at_ten=0.25, at_hundred=0.04, canary=0.6, valid_days=90, release="label")
    made = write_appetite(answers, tmp_path / "mine.toml")
    found = read_appetite(tmp_path / "mine.toml")
    assert found == made.appetite and not found.is_example and found.release == "label"
    assert found.name == 'Anna "Ann" Ó\\ [[limits]]' and found.whose.endswith("North, 2026-11-16")  # on one line
    assert found.limits[0].overall == found.limits[0].worst_task == 0.25 and found.limits[0].worst_bucket == 0.3
    assert found.limits[1].overall == 0.04 and found.worst_canary == 0.6 and found.valid_days == 90
    text = new_appetite(answers)
    for name, value in tomllib.loads(text).items():
        place = text.index(f"{name} = ") if name != "limits" else text.index("[[limits]]")
        before = text[:place]
        assert "#" in before.splitlines()[-1] or "#" in before[-600:], (name, value)  # explained
    with pytest.raises(UsageError, match="is there already"):
        write_appetite(answers, tmp_path / "mine.toml")


def test_what_will_be_released_must_be_what_the_appetite_is_about(tmp_path):
    write_appetite(AppetiteAnswers(**MINE), tmp_path / "mine.toml")
    assert asked_appetite(tmp_path / "mine.toml", "weights") == read_appetite(tmp_path / "mine.toml")
    with pytest.raises(UsageError, match="is about a release of weights"):
        asked_appetite(tmp_path / "mine.toml", "label")
    assert asked_appetite(None, None) is None and asked_appetite(None, "label").release == "label"


def test_the_command_takes_options_or_asks(tmp_path, monkeypatch):
    run = CliRunner().invoke
    given = ["appetite", "new", "--out", str(tmp_path / "a.toml"), "--organisation", "North"]
    refused = run(app, given)
    assert isinstance(refused.exception, UsageError) and "give --name" in str(refused.exception)
    assert run(app, [*given, "--name", "A. Officer", "--date", "2026-11-16"]).exit_code == 0
    assert read_appetite(tmp_path / "a.toml").whose == "A. Officer, North, 2026-11-16"
    whose = ["appetite", "new", "--out", str(tmp_path / "b.toml"), "--name", "A", "--organisation", "N"]
    for limits, said in (
        (["--at-10", "0.05"], "written: --at-10: "),
        (["--at-10", "1"], "written: --at-10: "),  # everybody may be found: no limit
        (["--at-10", "0.2", "--at-100", "0.3"], "so it limits nothing"),
        (["--shadows", "1"], "written: --shadows: "),
    ):
        bad = run(app, [*whose, *limits])
        assert isinstance(bad.exception, UsageError) and said in str(bad.exception)
        assert not (tmp_path / "b.toml").exists()
    import pathveil.cli.release as commands

    asked = []
    monkeypatch.setattr(commands.sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(
        commands.typer, "prompt", lambda question, default, err: asked.append(question) or default or "typed"
    )
    commands.new_appetite(
        out=tmp_path / "c.toml", name=None, organisation=None, date=None, release_form=None, at_ten=None,
        rare_at_ten=None, at_hundred=None, canary=None, valid_days=None, shadows=None, as_json=False,
    )  # fmt: skip
    assert len(asked) == 9 and read_appetite(tmp_path / "c.toml").name == "typed"
