"""What hub and sites say to each other: a few numbers and named arrays, as one safetensors block. No pickle.

``outgoing`` is a site's gate: the only way from a site's code to the transport. It lets through the facts listed here,
by name and type, and arrays that are exactly the shared parameters (``wire.check``); anything else is refused.

>>> import numpy as np
>>> sent = outgoing({"round": 3, "documents": 20}, {"w": np.zeros(2, np.float32)}, manifest={"w": (2,)}, sender="north")
>>> message = read(sent, sender="north")
>>> message.facts, message.arrays["w"].tolist()
({'round': 3, 'documents': 20}, [0.0, 0.0])
>>> outgoing({"round": 3, "label": "C50"}, {}, manifest={}, sender="north")
Traceback (most recent call last):
pathveil.errors.FederationError: north: 'label' is not among what a site may say; nothing was sent
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from pathveil.errors import FederationError
from pathveil.federation import wire

# Faults a site may report: a word each, never a message, because a message could name a file of the site's.
FAULTS = {
    "words": "its vocabulary is not the one the run agreed on",
    "corpus": "its corpus cannot be used; its own log says why",
    "state": "it does not have its part of the run from where the hub has it",
    "gate": "its gate refused what it was about to send; its own log says what",
    "defect": "its program failed; its own log says where",
}
# Everything that a site may say beside its arrays.
SAYS: dict[str, type] = {
    "run": str,  # the plan's hash
    "session": str,  # a random number of the process
    "round": int,
    "waiting": bool,  # nothing new: asks again for the next round
    "documents": int,  # that the arrays rest on
    "loss": float,  # on the site's validation cases, one number an epoch
    "feature_norm": float,  # mean norm of their shared features
    "saved": list,  # rounds whose state the site has on disk
    "fault": str,
}


@dataclass(frozen=True)
class Message:
    facts: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def outgoing(facts: Mapping[str, Any], arrays: wire.Arrays, *, manifest: wire.Manifest, sender: str) -> bytes:
    """A site's message as bytes, if all of it may leave."""
    for name, value in facts.items():
        if name not in SAYS:
            raise FederationError(f"{sender}: '{name}' is not among what a site may say; nothing was sent")
        if type(value) is not SAYS[name] or (name == "fault" and value not in FAULTS):
            raise FederationError(f"{sender}: '{name}' is of the wrong kind; nothing was sent")
        if (
            isinstance(value, str)
            and name != "fault"
            and not (len(value) <= 64 and set(value) <= set("0123456789abcdef"))
        ):
            raise FederationError(f"{sender}: '{name}' is not a hash; nothing was sent")
        if isinstance(value, list) and not all(type(part) is int for part in value):
            raise FederationError(f"{sender}: '{name}' holds something else than numbers; nothing was sent")
    wire.check(arrays, manifest, sender=sender)
    return write(Message(facts, arrays))


def write(message: Message) -> bytes:
    arrays = {name: np.ascontiguousarray(array) for name, array in message.arrays.items()}
    return save(arrays, metadata={"pathveil": json.dumps(dict(message.facts))})


def read(data: bytes, *, sender: str) -> Message:
    """A message from bytes; faults name the sender."""
    try:
        arrays = load(data)
        length = int.from_bytes(data[:8], "little")
        facts = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["pathveil"])
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise FederationError(f"{sender}: sent something that is not a message of ours") from None
    if not isinstance(facts, dict):
        raise FederationError(f"{sender}: sent a message without facts")
    return Message(facts, arrays)


def number(message: Message, name: str, *, sender: str) -> float:
    """A fact that must be a finite number, none below 0 but a loss."""
    value = message.facts.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise FederationError(f"{sender}: its '{name}' is not a number")
    if value < 0:
        raise FederationError(f"{sender}: its '{name}' is below 0")
    return value
