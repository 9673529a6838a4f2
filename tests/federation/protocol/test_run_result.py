"""The account of a run: read as it was written, and readable."""

import pytest

from federation.protocol.test_hub_run import plan_of
from pathveil.errors import FederationError
from pathveil.federation.protocol.run_result import RunResult, write_run

TOLD = {
    "run": "ab",
    "mode": "strong",
    "finished": True,
    "stopped": "",
    "again": False,
    "documents": {"north": 1, "south": 2},
    "best_epoch": 3,
    "validation_loss": [0.5, 0.25, 0.75],
    "feature_norm": [],
    "epsilon": [],
    "delta": 1e-5,
    "rounds": 8,
    "updates": 11,
    "bytes_to_sites": 8_000_000,
    "bytes_to_hub": 16_000_000,
    "refused": [],
    "resumed_at": -1,
    "seconds": 1.5,
}


def test_the_summary_tells_the_loss_of_the_epoch_that_was_kept():
    text = str(RunResult(**TOLD))
    assert "best epoch 3 (validation loss 0.7500)" in text and "ε" not in text
    assert "2.00 MB a round to the hub, 1.00 MB from it" in text
    noisy = str(RunResult(**TOLD | {"epsilon": [9.0, 12.5]}))
    assert "ε = 12.5 at δ = 1e-05, of 11 updates" in noisy
    nothing = TOLD | {"best_epoch": 0, "validation_loss": [], "rounds": 0, "documents": {}}
    assert "no epoch was kept" in str(RunResult(**nothing))


def test_an_account_is_read_as_it_was_written_and_anything_else_refused(tmp_path):
    result = RunResult(**TOLD)
    write_run(tmp_path, plan_of("fedavg"), result)
    assert RunResult.load(tmp_path / "history.json") == result
    assert not (tmp_path / "parameters.safetensors").exists()
    (tmp_path / "history.json").write_text('{"rounds": 3}')
    with pytest.raises(FederationError, match="is not the account of a run"):
        RunResult.load(tmp_path / "history.json")
