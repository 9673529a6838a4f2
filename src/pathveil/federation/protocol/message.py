"""What hub and sites say to each other: a few numbers and named arrays, as one safetensors block. No pickle.

``outgoing`` is a site's gate: the only way from a site's code to the transport. It lets through the facts listed here,
by name and type, and arrays that are exactly those that the round moves (``wire.check``); anything else is refused. The
hub trusts no gate: ``heard`` holds every message against the same list when it arrives.

>>> import numpy as np
>>> sent = outgoing({"round": 3, "updates": 2}, {"w": np.zeros(2, np.float32)}, manifest={"w": (2,)}, sender="north")
>>> message = read(sent, sender="north")
>>> message.facts, message.arrays["w"].tolist()
({'round': 3, 'updates': 2}, [0.0, 0.0])
>>> outgoing({"round": 3, "label": "C50"}, {}, manifest={}, sender="north")
Traceback (most recent call last):
pathveil.federation.wire.GateError: north: 'label' is not among what a site may say; nothing was sent
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from pathveil.errors import CorpusError, FederationError, PathveilError, VocabularyError
from pathveil.federation import wire
from pathveil.untrusted import Refused, parse_json
from pathveil.untrusted.tensors import parse_tensors

# Faults a site may report: a word each, never a message, because a message could name a file of the site's.
FAULTS = {
    "words": "its vocabulary is not the one the run agreed on",
    "corpus": "its corpus cannot be used; its own log says why",
    "state": "it does not have its part of the run from where the hub has it",
    "gate": "its gate refused what it was about to send; its own log says what",
    "plan": "it was asked for something that it did not agree to, and refused; its own log says what",
    "hub": "it refused what the hub sent; its own log says what",
    "defect": "its program failed; its own log says where",
}
# The word for each kind of error, the first that fits; the error's own sentence stays in the site's log.
FAULT_OF: dict[type[Exception], str] = {
    VocabularyError: "words",
    CorpusError: "corpus",
    wire.GateError: "gate",
    wire.PlanError: "plan",
    wire.QuestionError: "hub",
    PathveilError: "state",
    Exception: "defect",
}
# Everything that a site may say beside its arrays.
SAYS: dict[str, type] = {
    "run": str,  # the plan's hash
    "session": str,  # a random number of the process
    "round": int,
    "waiting": bool,  # nothing new: asks again for the next round
    "documents": int,  # that the site trains on, told once
    "updates": int,  # that have left the site in this run, this one and those of repeated rounds included
    "loss": float,  # on the site's validation cases, one number an epoch
    "feature_norm": float,  # mean norm of their shared features
    "saved": list,  # rounds whose state the site has on disk
    "fault": str,
    "key": str,  # of the process, by which sites make masks
    "signature": str,  # on it, by the site's kit
    "certificate": str,  # of the kit
}
LENGTHS = {"signature": 2048, "certificate": 8192}  # the most hexadecimal digits, where they are more than 64
# What each message must say beside its run and session, and what it may; it says nothing else.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "hello": (("documents", "saved"), ()),
    "waiting": (("waiting",), ()),
    "fault": (("fault",), ()),
    "round": (("round", "updates"), ()),
    "epoch": (("round", "updates"), ()),
    "close": (("round", "loss"), ("feature_norm",)),
    "finish": (("round",), ()),
}
# Where answers are masked: a key with the greeting, and no fact of a site's own.
MASKED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = KINDS | {
    "hello": (("documents", "saved", "key"), ("signature", "certificate")),
    "close": (("round",), ()),
}
UPDATES = ("round", "epoch")  # the kinds that come with arrays
MOST = 1e9  # no count, loss or norm of an honest site is larger


@dataclass(frozen=True)
class Message:
    facts: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def outgoing(
    facts: Mapping[str, Any],
    arrays: wire.Arrays,
    *,
    manifest: wire.Manifest,
    sender: str,
    dtype: type[np.generic] = np.float32,
) -> bytes:
    """A site's message as bytes, if all of it may leave."""
    for name, value in facts.items():
        if name not in SAYS:
            raise wire.GateError(f"{sender}: '{name}' is not among what a site may say; nothing was sent")
        if not fits(name, value):
            raise wire.GateError(f"{sender}: '{name}' is not {meant(name)}; nothing was sent")
    wire.check(arrays, manifest, sender=sender, error=wire.GateError, dtype=dtype)
    return write(Message(facts, arrays))


def heard(message: Message, kind: str, *, sender: str, masked: bool = False) -> None:
    """Refuse a message that does not say exactly what one of its kind says, all of it in the right form."""
    facts = message.facts
    must, may = (MASKED if masked else KINDS)[kind]
    for name in ("run", "session", *must):
        if name not in facts:
            raise FederationError(f"{sender}: its message does not tell its '{name}'; refused")
    for name, value in facts.items():
        if name not in ("run", "session", *must, *may):
            raise FederationError(f"{sender}: its message says more than was asked for; refused")
        if not fits(name, value) or (isinstance(value, int | float) and not 0 <= value <= MOST):
            raise FederationError(f"{sender}: its '{name}' is not {meant(name)}; refused")
    if message.arrays and kind not in (*UPDATES, *(("close",) if masked else ())):
        raise FederationError(f"{sender}: sent arrays where none were asked for; refused")


def fault_of(error: Exception) -> str:
    """The word that the hub is told for what went wrong at a site.

    >>> fault_of(CorpusError("/data/smith.parquet: is empty")), fault_of(ZeroDivisionError())
    ('corpus', 'defect')
    """
    return next(word for kind, word in FAULT_OF.items() if isinstance(error, kind))


def fits(name: str, value: Any) -> bool:
    """Whether a fact is of its type and, where it could hold text, none but the few words and digits that it may."""
    if type(value) is not SAYS[name]:
        return False
    if name == "fault":
        return value in FAULTS
    if isinstance(value, str):
        return len(value) <= LENGTHS.get(name, 64) and set(value) <= set("0123456789abcdef")
    return not isinstance(value, list) or all(type(part) is int for part in value)


def meant(name: str) -> str:
    """The words for what a fact has to be."""
    if name == "fault":
        return "a fault that a site may tell"
    kinds: dict[type, str] = {
        str: "a hash",
        int: "a whole number",
        float: "a number",
        bool: "yes or no",
        list: "a list of rounds",
    }
    return kinds[SAYS[name]] + (f" from 0 to {MOST:g}" if SAYS[name] in (int, float) else "")


def write(message: Message) -> bytes:
    arrays = {name: np.ascontiguousarray(array) for name, array in message.arrays.items()}
    return save(arrays, metadata={"pathveil": json.dumps(dict(message.facts))})


def read(data: bytes, *, sender: str) -> Message:
    """A message from bytes; faults name the sender."""
    try:
        arrays, metadata = parse_tensors(data, finite=False)  # what is not finite is named by the rules
        facts = parse_json(metadata["pathveil"], finite=False)
    except (Refused, KeyError, TypeError):
        raise FederationError(f"{sender}: sent something that is not a message of ours") from None
    if not isinstance(facts, dict):
        raise FederationError(f"{sender}: sent a message without facts")
    return Message(facts, arrays)


def place(error: Exception) -> str:
    """An exception's kind, file and line; not its message, which may quote data."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return type(error).__name__ + where
