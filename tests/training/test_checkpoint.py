"""Checkpoints: what comes back, and which files are refused."""

import json
import resource
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pathveil.errors import UsageError
from pathveil.training.checkpoint import FORMAT, fingerprint_of, load, save

TENSORS = {"weight": torch.arange(6.0).reshape(2, 3), "steps": torch.tensor([7])}


def test_tensors_and_counters_come_back_in_their_order(tmp_path):
    path = tmp_path / "run.safetensors"
    turned = TENSORS | {"turned": TENSORS["weight"].T}  # not contiguous
    save(path, turned, fingerprint="mine", content={"z": 1, "a": [0.5, None]})
    tensors, content = load(path, fingerprint="mine")
    assert {name: tensor.tolist() for name, tensor in tensors.items()} == {
        name: tensor.tolist() for name, tensor in turned.items()
    }
    assert list(content) == ["z", "a"] and content["a"] == [0.5, None]
    save(path, TENSORS, fingerprint="mine", content={"z": 2})
    assert load(path, fingerprint="mine")[1] == {"z": 2}
    assert [one.name for one in tmp_path.iterdir()] == ["run.safetensors"]


def test_a_full_disk_is_one_sentence_and_leaves_the_last_state(tmp_path):
    path = tmp_path / "run.safetensors"
    save(path, TENSORS, fingerprint="mine", content={})
    before = path.read_bytes()
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then the system refuses to write, as a full disk does
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, allowed[1]))
        with pytest.raises(UsageError, match=r"run\.safetensors: cannot be written \(File too large\)"):
            save(path, TENSORS, fingerprint="mine", content={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_none_yet_is_no_fault(tmp_path):
    assert load(tmp_path / "none", fingerprint="mine") is None


def test_another_runs_file_another_format_and_rubbish_are_refused_and_kept(tmp_path):
    path = tmp_path / "run.safetensors"
    save(path, TENSORS, fingerprint="mine", content={})
    with pytest.raises(UsageError, match="belongs to a run with other data, settings or seed"):
        load(path, fingerprint="another")
    other = json.dumps({"format": FORMAT + "0", "fingerprint": "mine", "content": {}})
    for metadata in ({"pathveil": other}, None):
        save_file(TENSORS, path, metadata=metadata)
        with pytest.raises(UsageError, match="is not a checkpoint of format"):
            load(path, fingerprint="mine")
    for rubbish in (b"", b"\x00" * 40, path.read_bytes()[:-5]):
        path.write_bytes(rubbish)
        with pytest.raises(UsageError, match="cannot be read as a checkpoint; remove it"):
            load(path, fingerprint="mine")
        assert path.read_bytes() == rubbish


def test_a_fingerprint_is_of_names_types_shapes_and_bytes():
    settings, ids = {"seed": 1, "epochs": 2}, np.arange(6, dtype=np.int32)
    one = fingerprint_of(settings, {"ids": ids})
    assert one == fingerprint_of({"epochs": 2, "seed": 1}, {"ids": ids[::-1][::-1]})
    others = [
        fingerprint_of(settings | {"seed": 2}, {"ids": ids}),
        fingerprint_of(settings, {"cases": ids}),
        fingerprint_of(settings, {"ids": ids.astype(np.uint32)}),  # the same bytes
        fingerprint_of(settings, {"ids": ids.reshape(2, 3)}),
        fingerprint_of(settings, {"ids": ids + 1}),
        fingerprint_of(settings, {}),
    ]
    assert len({one, *others}) == 7
