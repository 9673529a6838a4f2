"""The front door: which names there are, that they come lightly, and what they do."""

import copy
import importlib.resources
import inspect
import pathlib
import subprocess
import sys
from functools import partial

import polars as pl
import pytest
from typer.testing import CliRunner

import pathveil
from pathveil import api
from pathveil.cli import app
from pathveil.errors import CorpusError, UsageError
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
    import pathveil.auditing.metrics
    import pathveil.studies.findings

    assert callable(pathveil.audit) and pathveil.auditing.metrics.auc
    assert callable(pathveil.study) and pathveil.studies.findings
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


def test_one_name_is_a_name_and_not_its_letters(corpus, model):
    assert pathveil.read(corpus, tasks="site").tasks == ("site",)
    assert pathveil.read(corpus.to_frame(), tasks="site, histology").tasks == ("site", "histology")
    registry = next(iter(corpus.registries))
    words = pathveil.select_words(corpus, "top 9 by mutual-information", tasks="site", leave_out=registry)
    assert words.parameters["tasks"] == ["site"] and words.source["left_out"] == [registry]
    assert list(pathveil.evaluate(model, corpus, tasks="site").tasks) == ["site"]
    settings = {"preset": "small", "vocabulary": words, "dim": 8, "filters": 4, "epochs": 1, "device": "cpu"}
    assert pathveil.train(corpus, tasks="site", **settings).tasks == ("site",)
    with pytest.raises(CorpusError, match="there is no column 'surgery_day' of reference dates"):
        corpus.split(relevant_to="surgery_day")
    text = corpus.to_frame()["text"][0]
    assert model.answer(text, joint="usual") == model.answer(text, joint=("subsite", "histology"))
    assert model.predict([text], joint="subsite").to_frame().height == 1
    with pytest.raises(UsageError, match="'site' needs a list of codes"):
        pathveil.train(corpus, preset="private", public_classes={"site": "C50"})
    with pytest.raises(UsageError, match="tasks names nothing"):
        pathveil.read(corpus, tasks=" ,")
    with pytest.raises(UsageError, match="tasks: expected names; got int"):
        pathveil.read(corpus, tasks=[1])


def test_a_number_out_of_range_is_one_sentence_before_any_work(corpus, model, monkeypatch):
    train = partial(pathveil.train, corpus, preset="small", device="cpu")
    audit = partial(pathveil.audit, model, members=corpus, non_members=corpus, device="cpu")
    refused = {
        "seed: expected a whole number, 0 or more; got -1": [
            lambda: train(seed=-1),
            lambda: pathveil.evaluate(model, corpus, seed=-1),
            lambda: corpus.split(seed=-1),
        ],
        "seed: expected a whole number, 0 or more; got 1.5": [lambda: train(seed=1.5)],
        "seed: expected a whole number, 0 or more; got a str": [lambda: train(seed="7")],
        "accuracy: expected a number from 0.5 to 1; got 2": [lambda: train(accuracy=2)],
        "accuracy: expected a number from 0.5 to 1; got nan": [lambda: train(accuracy=float("nan"))],
        "workers: expected a whole number, 1 or more; got 0": [
            lambda: train(workers=0),
            lambda: pathveil.study("demo", corpus=corpus, workers=0),
        ],
        "fewest_cases: expected a whole number, 1 or more; got 0": [lambda: train(fewest_cases=0)],
        "resamples: expected a whole number, 10 or more; got 1": [
            lambda: pathveil.evaluate(model, corpus, resamples=1)
        ],
        "processes: expected a whole number, 1 or more; got 0": [lambda: audit(processes=0)],
        "training settings: 'epochs': Input should be greater than or equal to 1": [lambda: train(epochs=0)],
        "audit settings: 'shadows': Input should be greater than or equal to 2": [lambda: audit(shadows=0)],
        "audit settings: 'seed': Input should be greater than or equal to 0": [lambda: audit(seed=-1)],
        "'reports': Input should be greater than or equal to 1": [lambda: pathveil.synth(0)],
        "explain: expected a whole number, 0 or more; got -1": [lambda: model.answer("", explain=-1)],
        "top: expected a whole number, 1 or more; got 0": [lambda: model.explain("", top=0)],
        "expected the text of one report; got NoneType": [lambda: model.explain(None), lambda: model.answer(None)],
    }
    monkeypatch.setattr("pathveil.vocabulary.tokens._build", None)
    for sentence, calls in refused.items():
        for call in calls:
            with pytest.raises(UsageError) as told:
                call()
            assert str(told.value) == sentence
    for share in (1.5, -0.1, "0.2"):
        with pytest.raises(UsageError, match="is no share of the cases; expected 0 or more and below 1"):
            corpus.split(test=share)
    with pytest.raises(UsageError, match=r"chosen by a sentence.* got int"):
        pathveil.select_words(corpus, 5)


def test_texts_given_as_names_are_never_quoted(model, corpus):
    """A list of reports' texts in the place of a corpus: whatever is said about it may end in a log."""
    texts = [corpus.to_frame()["text"][0], "Zebulon Quackenbush, left breast, ductal carcinoma."]
    for given in (texts, texts[0], texts[1]):
        for call in (pathveil.read, partial(pathveil.evaluate, model), pathveil.train, model.evaluate):
            with pytest.raises(UsageError, match="is text, no file's name; give texts as a frame") as told:
                call(given)
            assert "Quackenbush" not in str(told.value)


def test_what_is_given_by_mistake_is_one_sentence(model, corpus):
    audit = partial(pathveil.audit, model, members=corpus, non_members=corpus)
    for call, sentence in (
        (lambda: pathveil.load(None), "expected the folder of a model; got NoneType"),
        (lambda: pathveil.evaluate(None, corpus), "expected the folder of a model; got NoneType"),
        (lambda: pathveil.tokenize(None), "expected the text of one report; got NoneType"),
        (lambda: pathveil.read(corpus, columns="case_id"), "columns: expected names such as"),
        (lambda: pathveil.train(corpus, vocabulary=["left"]), "vocabulary: expected what select_words gave"),
        (lambda: pathveil.train(corpus, device=None), "--device: expected auto, cpu or cuda; got NoneType"),
        (lambda: pathveil.audit(3), "int is neither"),
        (
            lambda: audit(attacks=[len]),
            "attacks: expected functions",
        ),
        (lambda: audit(appetite=3), "appetite: expected a risk"),
        (lambda: pathveil.study("demo", vocabularies=[3]), "vocabularies: expected vocabularies by name; got list"),
        (lambda: model.predict(["a", None]), "expected a list of texts; number 2 of 2 is of type NoneType"),
    ):
        with pytest.raises(UsageError, match=sentence):
            call()


def test_columns_of_texts_are_coded_as_lists_are(model, corpus):
    texts = corpus.to_frame()["text"][:3]
    wanted = model.predict(texts.to_list())
    for given in (texts, texts.to_numpy(), iter(texts.to_list()), tuple(texts)):
        assert model.predict(given) == wanted


def test_copies_outlast_what_they_were_made_of(corpus):
    given = pathveil.read(corpus.to_frame().head(9))
    copies = copy.copy(given), copy.deepcopy(given)
    del given
    assert [len(one.to_frame()) for one in copies] == [9, 9]
