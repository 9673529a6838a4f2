"""The account of a run over the network: what the hub writes when it ends, and what ``submit`` gives back.

plan.json                what hub and sites agreed on
history.json             the account
parameters.safetensors   of a finished run, the shared parameters of the best epoch: all that travelled
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import model_validator
from safetensors.numpy import save_file

from pathveil.errors import FederationError
from pathveil.federation.protocol.plan import Plan
from pathveil.files import new_file, read_json, write_json, write_text
from pathveil.results import Result
from pathveil.untrusted.tensors import written


class RunResult(Result):
    """What happened in a run; numbers and names of sites only."""

    run: str
    mode: str
    finished: bool
    stopped: str  # why it ended before its time; empty where it did not
    again: bool  # submitting it again may help
    documents: dict[str, int]  # site: how many it trains on
    best_epoch: int  # from 1; 0 where none was kept
    validation_loss: list[float]
    feature_norm: list[float]
    epsilon: list[float]  # privacy loss of a site's updates, epoch by epoch, where they have noise
    delta: float
    rounds: int
    updates: int
    bytes_to_sites: int
    bytes_to_hub: int
    refused: list[str]
    resumed_at: int  # the round that it went on from; -1 where it was never interrupted
    seconds: float
    bits: int = 0  # of a number in masked sums; 0: the hub saw each site's update
    clipped: int = 0  # numbers of updates that did not fit their range

    @model_validator(mode="after")
    def best_epoch_was_closed(self) -> "RunResult":
        if not 0 <= self.best_epoch <= len(self.validation_loss):
            raise ValueError("its best epoch is none of its epochs")
        return self

    def rows(self) -> list[dict[str, Any]]:
        """An epoch a line."""
        return [{"epoch": number, "validation_loss": loss} for number, loss in enumerate(self.validation_loss, 1)]

    def summary(self) -> str:
        rounds = max(self.rounds, 1)
        best = "no epoch was kept"
        if self.best_epoch:
            loss = self.validation_loss[self.best_epoch - 1]
            best = f"best epoch {self.best_epoch} (validation loss {loss:.4f})"
        lines = [
            f"{self.mode}: {self.rounds} rounds with {', '.join(self.documents)}, {best}",
            f"{self.bytes_to_hub / rounds / 1e6:.2f} MB a round to the hub, "
            f"{self.bytes_to_sites / rounds / 1e6:.2f} MB from it, all sites together",
        ]
        if self.bits:
            lines.append(f"masked sums of {self.bits} bits a number: the hub saw no site's update by itself")
        if self.epsilon:
            privacy = f"ε = {self.epsilon[-1]:.3g} at δ = {self.delta:g}"
            lines.append(f"privacy loss of a site's updates: {privacy}, of {self.updates} updates")
        return "\n".join(lines)

    @classmethod
    def load(cls, path: Path) -> "RunResult":
        """The account in a file."""
        try:
            return cls.model_validate(read_json(path, error=FederationError))
        except ValueError:
            raise FederationError(f"{path}: is not the account of a run as the hub writes it") from None


def write_run(folder: Path, plan: Plan, result: RunResult, arrays: Mapping[str, np.ndarray] | None = None) -> None:
    """Write a run's folder; ``arrays`` are the shared parameters of a finished one."""
    if arrays is not None:
        with new_file(folder / "parameters.safetensors") as part, written():
            save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, part)
    write_text(folder / "plan.json", plan.model_dump_json(indent=1) + "\n")
    write_json(folder / "history.json", result.to_dict())
