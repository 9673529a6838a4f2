"""Which device is meant, with and without GPUs."""

import os

import pytest
import torch

from pathveil.errors import UsageError
from pathveil.training.device import DIVIDED, SHARE, choose_device, memory_share, take_device


def test_one_judge_of_devices(monkeypatch):
    def refused(device: str, **options) -> str:
        with pytest.raises(UsageError) as error:
            choose_device(device, **options)
        return str(error.value)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == "cpu"
    assert "no GPU that PyTorch can use" in refused("cuda:1")
    for odd in ("tpu", "cpu:9", "cuda:", "cuda:x", ""):
        assert f"'{odd}' is not one of auto, cpu, cuda" in refused(odd)
    assert choose_device("cuda", here=False) == "cuda" and "say cpu or cuda" in refused("auto", here=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto") == "cuda" and choose_device("cuda:1") == "cuda:1"
    assert "has 2 GPUs, from cuda:0 on" in refused("cuda:2")


def test_several_devices_are_of_one_kind_each_there_once(monkeypatch):
    def refused(devices: str, **options) -> str:
        with pytest.raises(UsageError) as error:
            choose_device(devices, several=True, **options)
        return str(error.value)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:0, cuda:1", several=True) == "cuda:0,cuda:1"
    assert choose_device("cpu,cpu", several=True) == "cpu,cpu"
    assert "mixes kinds" in refused("cpu,cuda:1") and "must say which cards" in refused("cuda,cuda:1")
    assert "names cuda:1 twice" in refused("cuda:1,cuda:1") and "has 2 GPUs" in refused("cuda:0,cuda:2")
    for odd in ("cuda:0,", "cuda:0,tpu", "cpu,auto", "cuda:0,cuda:x"):
        assert "is no card; name cards, as cuda:0,cuda:1" in refused(odd)
    assert "start a worker for each" in refused("cuda:0,cuda:1", here=False)
    with pytest.raises(UsageError, match="is not one of auto, cpu, cuda"):
        choose_device("cuda:0,cuda:1")  # where one model is trained


def test_a_worker_takes_its_card_and_its_share_of_it(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    monkeypatch.setenv(SHARE, "1")
    take_device("cuda:0,cuda:1", 3, workers=4)
    assert workers_view() == ("6", DIVIDED / 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    take_device("cuda:0,cuda:1", 2, workers=2)
    assert workers_view() == ("0", DIVIDED / 2)  # two workers on two cards have one each: nothing new is said of shares
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    take_device("cuda:1", 0, workers=3)
    assert workers_view() == ("4,6", DIVIDED / 3)  # one card by name stays what it is called
    monkeypatch.setenv(SHARE, "1")
    take_device("cpu,cpu", 1, workers=2)
    assert workers_view() == ("4,6", 1.0)


def workers_view() -> tuple[str, float]:
    return os.environ["CUDA_VISIBLE_DEVICES"], memory_share()
