"""What every result can do, and that nothing of it is half a result."""

import importlib
import inspect
import json
import pkgutil
from contextlib import suppress

import polars as pl
import pytest

import pathveil
from pathveil.errors import MissingExtraError
from pathveil.results import Part, Result


class Scores(Result):
    scores: dict[str, float]

    def rows(self):
        return [{"task": task, "micro": value} for task, value in self.scores.items()]

    def summary(self):
        return f"<{len(self.scores)} tasks>"


def test_a_result_is_a_frame_a_file_a_sentence_and_a_notebooks_cell(tmp_path):
    found = Scores(scores={"site": 0.9, "subsite": 0.8})
    assert found.to_frame().equals(pl.DataFrame({"task": ["site", "subsite"], "micro": [0.9, 0.8]}))
    assert json.loads(found.to_json(tmp_path / "scores.json")) == {"scores": {"site": 0.9, "subsite": 0.8}}
    assert json.loads((tmp_path / "scores.json").read_text()) == found.to_dict()
    assert repr(found) == str(found) == "<2 tasks>" and "&lt;2 tasks&gt;" in found._repr_html_()


def test_a_number_that_json_does_not_know_is_never_written(tmp_path):
    with pytest.raises(ValueError):
        Scores(scores={"site": float("inf")}).to_json(tmp_path / "scores.json")
    assert not (tmp_path / "scores.json").exists()


def modules():
    for module in pkgutil.walk_packages(pathveil.__path__, "pathveil."):
        if not module.name.endswith(("__main__", "programs", "graphed")) and ".flare" not in module.name:
            with suppress(MissingExtraError):
                yield importlib.import_module(module.name)


def test_every_result_says_its_rows_and_its_summary():
    classes = {one for module in modules() for _, one in inspect.getmembers(module, inspect.isclass)}
    results = [one for one in classes if issubclass(one, Result) and not one.__subclasses__()]
    assert results
    for one in results:
        assert one.rows is not Result.rows and one.summary is not Result.summary, one


def test_a_part_refuses_what_it_does_not_know():
    class Row(Part):
        task: str

    with pytest.raises(ValueError):
        Row(task="site", other=1)  # ty: ignore[unknown-argument]
