"""Which device is meant, with and without GPUs."""

import pytest
import torch

from pathveil.errors import UsageError
from pathveil.training.device import choose_device


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
