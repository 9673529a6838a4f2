"""A training run on disk, to go on from after a kill: tensors and counters in one safetensors file, no pickle.

The file is written under another name and renamed, so it is whole at every moment. It names the run it belongs to by a
fingerprint of all that determines it; another run's file is refused instead of silently mixed in.

>>> import tempfile, torch
>>> from pathlib import Path
>>> path = Path(tempfile.mkdtemp()) / "run.safetensors"
>>> save(path, {"weight": torch.ones(2)}, fingerprint="abc", content={"epoch": 3})
>>> tensors, content = load(path, fingerprint="abc")
>>> tensors["weight"].tolist(), content
([1.0, 1.0], {'epoch': 3})
>>> load(path.with_name("other"), fingerprint="abc") is None
True
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pathveil.errors import UsageError
from pathveil.files import new_file
from pathveil.untrusted import parse_json
from pathveil.untrusted.tensors import written

FORMAT = "pathveil-checkpoint/1"


def save(path: Path, tensors: Mapping[str, Tensor], *, fingerprint: str, content: Mapping[str, Any]) -> None:
    """Replace the file at ``path`` by this state of the run. What it holds keeps its order: tasks are drawn in it."""
    metadata = {"format": FORMAT, "fingerprint": fingerprint, "content": content}
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with new_file(path) as part, written():
        save_file(flat, part, metadata={"pathveil": json.dumps(metadata)})


def load(path: Path, *, fingerprint: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The run's last state, or None where there is none yet."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = parse_json((file.metadata() or {}).get("pathveil", "{}"), finite=False)
            if metadata.get("format") != FORMAT:
                raise UsageError(f"{path}: is not a checkpoint of format {FORMAT}; remove it to start anew")
            if metadata["fingerprint"] != fingerprint:
                raise UsageError(
                    f"{path}: belongs to a run with other data, settings or seed; remove it to start anew, "
                    "or give back what that run had"
                )
            return {name: file.get_tensor(name) for name in file.keys()}, metadata["content"]
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path}: cannot be read as a checkpoint; remove it to start anew") from None


def fingerprint_of(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """sha256 of settings (as sorted JSON) and arrays (name, type, shape and bytes).

    >>> one = fingerprint_of({"seed": 1}, {"ids": np.arange(3)})
    >>> one == fingerprint_of({"seed": 1}, {"ids": np.arange(3)}), one == fingerprint_of({"seed": 2}, {})
    (True, False)
    """
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()
