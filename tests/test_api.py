"""The front door: which names there are, that they come lightly, and what they do."""

import importlib.resources
import inspect
import pathlib
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

import pathveil
from pathveil import api
from pathveil.cli import app
from pathveil.errors import UsageError
from pathveil.results import Result
from pathveil.training.defences import TeacherSettings

PUBLIC = [
    "audit",
    "audit_predictions",
    "evaluate",
    "load",
    "read",
    "select_words",
    "study",
    "synth",
    "tokenize",
    "train",
]


def test_the_public_names_change_on_purpose():
    assert sorted(pathveil.__all__) == PUBLIC
    assert set(PUBLIC) <= set(dir(pathveil))
    assert (importlib.resources.files("pathveil") / "py.typed").is_file()
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = pathveil.nonsense


def test_the_import_loads_nothing_heavy_and_neither_does_asking_for_a_name():
    heavy = ("torch", "polars", "numba", "matplotlib", "pandas", "scipy", "pydantic", "numpy")
    code = f"import sys, pathveil; [getattr(pathveil, name) for name in {PUBLIC!r}]; "
    code += f"print([module for module in {heavy!r} if module in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_a_function_with_a_signature_and_options_by_name(name):
    function = getattr(pathveil, name)
    assert callable(function) and function.__doc__
    for parameter in list(inspect.signature(function).parameters.values())[3:]:
        assert parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD), parameter


LOADED = "a loaded model"


class CalledError(Exception):
    """What a command called, and how."""


COMMANDS = {
    "corpus synth --reports 5 --classes sites=3 --out c.parquet": ("synth", [5], {"sites": 3, "rarity": 1.0}),
    "vocab select c.parquet --method baseline --out w": (
        "select_words",
        [["c.parquet"]],
        {"epsilon": None, "out": "w"},
    ),
    "vocab select c.parquet --epsilon 2 --out w": ("select_words", [["c.parquet"], None], {"epsilon": 2.0}),
    "train c.parquet --preset release --teachers 5 --fixed-epochs 3 --tasks site --out m": (
        "train",
        ["c.parquet"],
        {"defence": TeacherSettings(teachers=5), "epochs": 3, "patience": None, "tasks": ["site"], "out": "m"},
    ),
    "train c.parquet --plan": ("plan_training", ["c.parquet"], {"defence": "none"}),
    "evaluate m c.parquet --resamples 50": ("evaluate", [LOADED, "c.parquet"], {"resamples": 50, "device": "auto"}),
    "predict m c.parquet --out o.csv": ("load", ["m"], {}),
    "audit m --members a --non-members b --models 4 --attach --out o": (
        "audit",
        ["m"],
        {"members": "a", "non_members": "b", "shadows": 4, "attach": True, "store": "o.shadows"},
    ),
    "audit m --members a --non-members b --plan": ("plan_audit", ["m"], {"members": "a", "shadows": 20}),
    "audit --predictions p --records r --out o": ("audit_predictions", ["p"], {"records_file": "r", "out": "o"}),
    "study run s.toml --workers 2 --out o": ("study", ["s.toml"], {"workers": 2, "engine": "local", "out": "o"}),
    "study run s.toml --plan --out o": ("plan_study", ["s.toml"], {"workers": None}),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_are_made_of_the_public_functions(command, monkeypatch):
    """Each hands its options to the function of its name, which does the rest."""

    def recorder(name):
        signature = inspect.signature(getattr(api, name))

        def record(*given, **options):
            signature.bind(*given, **options)  # the function takes them
            if name == "load" and COMMANDS[command][0] != "load":
                return LOADED  # for the function that the command is about
            raise CalledError(name, given, options)

        return record

    for name in (*PUBLIC, "plan_training", "plan_audit", "plan_study"):
        monkeypatch.setattr(api, name, recorder(name))
    name, given, options = COMMANDS[command]
    error = CliRunner().invoke(app, command.split()).exception
    assert isinstance(error, CalledError), error
    called, arguments, told = error.args
    plain = [[str(path) for path in one] if isinstance(one, list) else one for one in arguments[: len(given)]]
    assert called == name
    assert [one if isinstance(one, int | list | None) else str(one) for one in plain] == given
    as_text = {key: str(value) if isinstance(value, pathlib.Path) else value for key, value in told.items()}
    assert {key: as_text[key] for key in options} == options


def test_a_room_is_a_function_and_still_a_room():
    import pathveil.audit.metrics
    import pathveil.study.findings

    assert callable(pathveil.audit) and pathveil.audit.metrics.auc
    assert callable(pathveil.study) and pathveil.study.findings
    with pytest.raises(UsageError, match="needs its records and their labels"):
        pathveil.audit(type("Estimator", (), {"predict_proba": None})())


@pytest.fixture(scope="module")
def corpus():
    return pathveil.synth(260, registries=2, seed=4, sites=5, subsites=8, histologies=8)


@pytest.fixture(scope="module")
def model(corpus):
    words = pathveil.select_words(corpus, lambda measures: measures("cases") >= 3)
    return pathveil.train(corpus, vocabulary=words, preset="small", dim=16, filters=8, epochs=3, device="cpu")


def test_from_reports_to_codes_in_memory(corpus, model, tmp_path):
    frame = corpus.to_frame()
    assert repr(corpus).startswith("260 reports of")
    scores = pathveil.evaluate(model, frame.head(80))
    assert isinstance(scores, Result) and scores.to_frame()["task"].to_list()[0] == "site"
    codes = model.predict(frame["text"].to_list()[:3]).to_frame()
    assert isinstance(codes, pl.DataFrame) and codes.height == 3
    assert repr(model.explain(frame["text"][0]))
    assert model.labels["site"] and model.words and "site" in model.card
    model.save(tmp_path / "model")
    again = pathveil.load(str(tmp_path / "model"))
    assert again.predict(frame["text"].to_list()[:3]).to_frame().equals(codes)


def test_results_show_themselves_without_a_word_of_a_report(corpus, model):
    text = corpus.to_frame()["text"][0]
    shown = [corpus, model, pathveil.evaluate(model, corpus), pathveil.select_words(corpus, "cases >= 3")]
    for one in shown:
        for told in (repr(one), one._repr_html_()):
            assert told and text[:40] not in told


def test_paths_are_strings_or_paths_and_mistakes_one_sentence(corpus, tmp_path):
    corpus.to_frame().write_parquet(tmp_path / "c.parquet")
    assert len(pathveil.read(str(tmp_path / "c.parquet"))) == len(pathveil.read(tmp_path / "c.parquet")) == 260
    vocabulary = pathveil.select_words(str(tmp_path / "c.parquet"), "cases >= 3", out=str(tmp_path / "w.json"))
    assert (tmp_path / "w.json").is_file() and vocabulary.words
    with pytest.raises(UsageError, match="did you mean 'epochs'"):
        pathveil.train(corpus, preset="small", epoch=3)
    with pytest.raises(UsageError, match="needs members"):
        pathveil.audit("model")
    with pytest.raises(UsageError, match="bound to it"):
        pathveil.audit("model", members="a", non_members="b", attach=True, unbound=True)
    with pytest.raises(UsageError, match="by itself"):
        pathveil.select_words(corpus, "cases >= 3", epsilon=2)
    with pytest.raises(UsageError, match="need --defence dp"):
        pathveil.train(corpus, public_words=tmp_path / "w.txt")
