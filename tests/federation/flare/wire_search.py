"""Looks for what must not leave a site in the bytes that it sent.

``replay`` trains again in one process, by the classes that a deployment's hub and sites run, and keeps what each site
held in memory: its private part after every round, the features and answers of its documents, labels, word ids. The
training is the same to the bit, so its updates must be found in the recorded bytes, and nothing else may.

``Recorded`` searches at every byte, whatever frame, message or array it falls into. A secret counts as found where a
few values of it stand together, as they lie in memory or across it, in any of the number formats below.

>>> sent = Recorded(b"?" + np.array([0, 1.5, 2.5, 3.5, 4.5], np.float32).tobytes())
>>> sent.holds(np.array([[9, 1.5, 2.5, 3.5, 4.5, 8]])), sent.holds(np.array([1.5, 2.5, 3.5, 4.6]))
(True, False)
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from pathveil.federation import site as of_site
from pathveil.federation.flare.message import Message, read, write
from pathveil.federation.flare.plan import Plan
from pathveil.federation.flare.rounds import Rounds
from pathveil.federation.flare.station import Station
from pathveil.model.shared_private import Private, Shared
from pathveil.vocabulary.encoded import Encoded

ALLOWED = "update of the shared part"
LABELS, WORDS = "labels", "word ids"
# How many values together are a find: enough that chance does not bring them, fewer than any document or row has.
FLOATS = {"<f4": 4, ">f4": 4, "<f8": 4, "<f2": 8, "bfloat16": 8}
WORD_IDS = {"<i8": 8, "<i4": 8, "<u2": 8}
LABEL_IDS = {"<i8": 8, "<i4": 8, "<i2": 8, "i1": 8, "<f4": 8}
TEXT = 16  # bytes of a report

Memory = Mapping[str, list[Any]]  # kind: arrays that a site held; of updates, arrays by name
Tamper = Callable[[Station, Message], list[Message]]


class Recorded:
    """Bytes to search in."""

    def __init__(self, data: bytes):
        self.data, self.bytes = data, np.frombuffer(data, np.uint8).astype(np.uint64)
        self._hashes: dict[tuple[int, int], np.ndarray] = {}

    def holds(self, array: np.ndarray, formats: Mapping[str, int] = FLOATS) -> bool:
        return any(self.has(line, together) for form, together in formats.items() for line in lines(array, form))

    def whole(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether all of some arrays are there, every byte."""
        return all(array.astype("<f4").tobytes() in self.data for array in arrays.values())

    def quotes(self, text: str) -> bool:
        """Whether a part of a text is there, as written or in small letters."""
        return any(self.has(np.frombuffer(form.encode(), np.uint8), TEXT) for form in {text, text.lower()})

    def has(self, line: np.ndarray, together: int) -> bool:
        """Whether so many neighbours of a line of values stand in the bytes, wherever they begin."""
        starts = telling(line, together)
        if not len(starts) or together * line.itemsize > len(self.data):
            return False
        known = self.hashes(line.itemsize, together)
        wanted = hashed(line.view(f"<u{line.itemsize}").astype(np.uint64), together)[starts]
        found = known[np.minimum(np.searchsorted(known, wanted), len(known) - 1)] == wanted
        return any(line[start : start + together].tobytes() in self.data for start in starts[found])

    def hashes(self, size: int, together: int) -> np.ndarray:
        """The hash of every run of so many values of so many bytes each, sorted."""
        if (size, together) not in self._hashes:
            count = len(self.bytes) - size + 1
            values = sum(self.bytes[byte : byte + count] << np.uint64(8 * byte) for byte in range(size))
            self._hashes[size, together] = np.unique(hashed(values, together, step=size))
        return self._hashes[size, together]


def hashed(values: np.ndarray, together: int, *, step: int = 1) -> np.ndarray:
    """A number for each run of values, ``step`` places apart."""
    count = len(values) - (together - 1) * step
    result = np.zeros(count, np.uint64)
    for place in range(together):
        result = result * np.uint64(0x9E3779B97F4A7C15) + values[place * step : place * step + count]
    return result


def telling(line: np.ndarray, together: int) -> np.ndarray:
    """Where runs begin that say something: mostly not 0, and not one value again and again.

    >>> telling(np.array([0, 0, 0, 1, 2, 2, 3, 3, 3, 3]), 4)
    array([2, 3])
    """
    if len(line) < together:
        return np.zeros(0, np.int64)
    filled = np.cumsum(np.concatenate([[0], line != 0]))
    changes = np.cumsum(np.concatenate([[0], line[1:] != line[:-1]]))
    enough = filled[together:] - filled[:-together] > together / 2
    return np.flatnonzero(
        enough & (changes[together - 1 :] - changes[: len(line) - together + 1] >= 1 + (together < 8))
    )


def lines(array: np.ndarray, form: str) -> list[np.ndarray]:
    """An array's values in a format, row after row and column after column."""
    values = formed(np.asarray(array), form)
    across = [np.ascontiguousarray(values.T).reshape(-1)] if values.ndim > 1 and min(values.shape) > 1 else []
    return [values.reshape(-1), *across]


def formed(values: np.ndarray, form: str) -> np.ndarray:
    if form == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values.astype(form))


def leaks(sent: Recorded, memory: Memory) -> set[str]:
    """The kinds of things a site held that are among what it sent."""
    return {
        kind
        for kind, arrays in memory.items()
        if kind != ALLOWED and any(sent.holds(array, formats_of(kind)) for array in arrays)
    }


def formats_of(kind: str) -> Mapping[str, int]:
    return {LABELS: LABEL_IDS, WORDS: WORD_IDS}.get(kind, FLOATS)


def replay(
    plan: Plan, reports: Mapping[str, Encoded], folder: Path, *, tamper: Mapping[str, Tamper] | None = None
) -> tuple[Rounds, dict[str, Memory]]:
    """Train as the plan says, all in this process: the hub, and what each site held.

    ``tamper`` stands between a site's gate and the hub: it may change a message, or send others before it.
    """
    held: dict[str, dict[str, list[Any]]] = {name: defaultdict(list) for name in plan.sites}
    with pytest.MonkeyPatch.context() as patch:
        now = watched(patch)
        rounds = Rounds(plan, folder=folder / "hub", pause=1e9)
        stations = {
            name: Station(plan, reports[name], name=name, session="ab", folder=folder / name) for name in plan.sites
        }
        pending = {name: one.hello() for name, one in stations.items()}
        while pending:
            for name in list(pending):
                one, own = stations[name], held[name]
                said = read(pending[name], sender=name)
                for message in tamper[name](one, said) if tamper and name in tamper else [said]:
                    reply = rounds.exchange(name, write(message), wait=0)
                question = read(reply, sender="hub")
                if question.facts.get("end"):
                    del pending[name]
                    continue
                if question.facts.get("wait"):
                    pending[name] = one.say({"waiting": True})
                    continue
                before = arrays_of(one.work.site.private.state_dict())
                pending[name] = one.answer(question)
                after = arrays_of(one.work.site.private.state_dict())
                own["private parameters"] += [*before.values(), *after.values()]
                own["private changes"] += [after[key] - before[key] for key in after]
                own["private optimiser"] += arrays_of(one.work.site.optimiser.state()).values()
                for kind, arrays in now.items():
                    own[kind] += arrays
                now.clear()
                update = read(pending[name], sender=name).arrays
                own[ALLOWED] += [update] if update else []
    return rounds, {name: {kind: once(arrays) for kind, arrays in own.items()} for name, own in held.items()}


def once(arrays: list[Any]) -> list[Any]:
    """Without those that are equal to another."""
    return list({str(array) if isinstance(array, dict) else array.tobytes(): array for array in arrays}.values())


def arrays_of(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy().copy() for name, tensor in tensors.items() if tensor.is_floating_point()}


def watched(patch: pytest.MonkeyPatch) -> dict[str, list[np.ndarray]]:
    """Keeps, by kind, what sites work out about documents from now on."""
    seen: dict[str, list[np.ndarray]] = defaultdict(list)

    def keep(kind: str, tensors: Iterable[Tensor]) -> None:
        seen[kind] += [tensor.detach().numpy().copy() for tensor in tensors]

    def watch(owner: Any, name: str, look: Callable[[Any], None]) -> None:
        original = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            look(result)
            return result

        patch.setattr(owner, name, call)

    watch(Shared, "features", lambda features: keep("shared features", [features]))
    watch(Private, "features", lambda features: keep("private features", [features]))
    watch(of_site, "drop", lambda features: keep("features after dropout", [features]))
    watch(Private, "logits", lambda scores: keep("answers", scores.values()))
    watch(of_site.Site, "read", lambda documents: keep(LABELS, documents.labels.values()))
    watch(of_site.Site, "read", lambda documents: keep(WORDS, [documents.batch.ids]))
    return seen
