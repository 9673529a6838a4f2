"""Finished units are kept whole, found again, and never mixed up; one process at a time."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from pathveil.errors import UsageError
from pathveil.files import only_process
from pathveil.studies.store import Cells, key_of

JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
)


@given(some.dictionaries(some.text(max_size=4), JSON, max_size=4))
def test_a_key_depends_on_content_not_order(parts):
    assert key_of(parts) == key_of(dict(reversed(parts.items())))
    assert key_of(parts) != key_of({**parts, "one more": 1})


def test_a_unit_is_found_by_its_inputs_and_knows_its_making(tmp_path):
    cells, parts = Cells(tmp_path / "cells"), {"mode": "single", "seed": 1}
    assert not cells.has(parts)
    cells.write(parts, {"f1": 0.5}, about={"seconds": 2.5})
    assert cells.has(parts) and cells.read(parts)[0] == {"f1": 0.5} and cells.about(parts) == {"seconds": 2.5}
    assert not cells.has(parts | {"seed": 2})


def test_arrays_come_back(tmp_path):
    cells = Cells(tmp_path)
    cells.write({"a": 1}, {"x": 1}, {"logits": np.arange(3, dtype=np.float16)})
    values, arrays = cells.read({"a": 1})
    assert values == {"x": 1} and arrays["logits"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"inputs": {}}'])
def test_a_damaged_unit_is_named_with_what_to_do(tmp_path, content):
    cells, parts = Cells(tmp_path), {"a": 1}
    cells.write(parts, {"x": 1})
    (tmp_path / key_of(parts) / "cell.json").write_text(content)
    for look in (cells.read, cells.about):
        with pytest.raises(UsageError, match="is damaged; remove this folder, and the same command makes it again"):
            look(parts)


def test_what_a_killed_process_left_is_not_a_unit(tmp_path):
    (tmp_path / f".part-{key_of({'a': 1})}-1").mkdir()
    cells = Cells(tmp_path)
    assert not cells.has({"a": 1})
    cells.clean()
    assert not list(tmp_path.iterdir())


def test_the_same_unit_finished_twice_is_one(tmp_path):
    cells = Cells(tmp_path)
    cells.write({"a": 1}, {"x": 1})
    cells.write({"a": 1}, {"x": 1})
    assert cells.read({"a": 1})[0] == {"x": 1} and len(list(tmp_path.iterdir())) == 1


def test_a_second_process_is_refused(tmp_path):
    code = (
        "import sys, pathlib\nfrom pathveil.files import only_process\nfrom pathveil.errors import UsageError\n"
        "try:\n    with only_process(pathlib.Path(sys.argv[1])): print('in')\nexcept UsageError as e: print(e)"
    )
    with only_process(tmp_path):
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert "another process is working in this folder" in done.stdout, done.stderr
    with only_process(tmp_path):
        pass
    with only_process(tmp_path), pytest.raises(UsageError), only_process(tmp_path):
        pass
