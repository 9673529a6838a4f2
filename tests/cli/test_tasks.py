"""``--tasks "site, histology"``: every command that takes names with commas takes them with blanks too."""

import sys

import pytest
import typer

from pathveil.cli import app, main

COMMANDS = {
    ("corpus", "check"): ["{corpus}"],
    ("corpus", "label"): ["{corpus}", "{corpus}", "--on", "report_id", "--out", "{new}.parquet"],
    ("corpus", "split"): ["{corpus}", "--out", "{new}"],
    ("vocab", "count"): ["{corpus}", "--out", "{new}.npz"],
    ("vocab", "select"): ["{corpus}", "--method", "baseline", "--out", "{new}"],
    ("vocab", "folds"): ["{corpus}", "--out", "{new}"],
    ("train",): ["{corpus}", "--out", "{new}"],
    ("evaluate",): ["{model}", "{corpus}"],
    ("study", "encode"): ["{corpus}", "--out", "{new}"],
    ("federate", "run"): ["{corpus}", "--mode", "single", "--out", "{new}"],
    ("federate", "join"): ["{run}", "{corpus}", "--out", "{new}"],
    ("federate", "classes"): ["{corpus}", "--out", "{new}"],
    ("federate", "simulate"): ["{corpus}", "--vocab", "{words}", "--out", "{new}"],
}


def with_tasks(command, path=()):
    """The names of every command that has the option."""
    if inside := getattr(command, "commands", None):
        for name, other in inside.items():
            yield from with_tasks(other, (*path, name))
    elif any("--tasks" in parameter.opts for parameter in command.params):
        yield path


def call(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pathveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
            sys.exit(0)
    return left.value.code or 0


@pytest.fixture(scope="module")
def places(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("tasks")
    made = {name: folder / name for name in ("words", "model", "run", "new")} | {"corpus": folder / "reports.parquet"}
    small = ["--epochs", "1", "--filters", "2", "--set", "dim=4"]
    few = "sites=3,subsites=4,histologies=4"
    assert not call("corpus", "synth", "--reports", 240, "--registries", 2, "--classes", few, "--out", made["corpus"])
    assert not call("vocab", "select", made["corpus"], "--method", "baseline", "--out", made["words"])
    assert not call("train", made["corpus"], "--preset", "small", "--fixed-epochs", 1, "--out", made["model"])
    assert not call("federate", "run", made["corpus"], "--mode", "adversarial", *small, "--out", made["run"])
    return made


def test_every_command_with_tasks_is_tried_here():
    assert set(with_tasks(typer.main.get_command(app))) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_blanks_around_a_name_do_not_belong_to_it(command, places, capsys):
    """The first name is known with its blank, or the message would be about it; the second is not, and is quoted."""
    arguments = [part.format(**places) for part in COMMANDS[command]]
    assert call(*command, *arguments, "--tasks", " site , nonesuch ") == 2
    assert "'nonesuch'" in capsys.readouterr().err and not places["new"].exists()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_list_of_no_name_is_refused(command, places, capsys):
    arguments = [part.format(**places) for part in COMMANDS[command]]
    assert call(*command, *arguments, "--tasks", " , ") == 2
    assert "--tasks names nothing" in capsys.readouterr().err
