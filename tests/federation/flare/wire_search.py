"""Looks for what must not leave a site in the bytes that it sent.

``replay`` trains again in one process, by the classes that a deployment's hub and sites run, and keeps what each site
held in memory: its private part after every step, its optimisers, the features and answers of its documents, labels,
word ids. The training is the same to the bit, so its updates must be found in the recorded bytes, and nothing else may.

``Recorded`` searches at every byte, whatever frame, message or array it falls into. A secret counts as found where a
few values of it stand together, as they lie in memory or across it, in any of the number formats below; also where
those bytes are written in base64, and where the numbers are written out in digits, one after the other.

>>> sent = Recorded(b"?" + np.array([0, 1.5, 2.5, 3.5, 4.5], np.float32).tobytes())
>>> sent.holds(np.array([[9, 1.5, 2.5, 3.5, 4.5, 8]])), sent.holds(np.array([1.5, 2.5, 3.5, 4.6]))
(True, False)
>>> few = np.array([1.5, 2.5, 3.5, 4.5], np.float32)
>>> Recorded(base64.b64encode(few.tobytes() * 2)).holds(few)
True
>>> Recorded(b'{"x": [1.5001, 2.5, -3.25e-2, 4.5]}').holds(np.array([7, 1.5001, 2.5, -0.0325, 4.5]))
True
"""

import base64
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from pathveil.federation import site as of_site
from pathveil.federation.protocol.hub_run import HubRun
from pathveil.federation.protocol.message import Message, read, write
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.protocol.site_run import SiteRun
from pathveil.federation.sums import Sums
from pathveil.model.shared_private import Private, Shared
from pathveil.rng import Seed
from pathveil.vocabulary.encoded import EncodedCorpus

ALLOWED = "update of the shared part"
LABELS, WORDS, MOVED = "labels", "word ids", "private changes"
UNMASKED, WHOLE = "update before it is masked", "update in whole numbers"  # where there are masks, they stay too
# How many values together are a find: enough that chance does not bring them, fewer than any document or row has.
FLOATS = {"<f4": 4, ">f4": 4, "<f8": 4, "<f2": 8, "bfloat16": 8}
# Adam moves every word that a batch holds once by the same size, in the private part as in the shared one: of changes
# more values together are needed.
CHANGES = {"<f4": 8, ">f4": 8, "<f8": 8, "<f2": 12, "bfloat16": 12}
WHOLE_NUMBERS = {"<i8": 8, "<i4": 8}
WORD_IDS = {"<i8": 8, "<i4": 8, "<u2": 8}
LABEL_IDS = {"<i8": 8, "<i4": 8, "<i2": 8, "i1": 8, "<f4": 8}
TEXT = 16  # bytes of a report
BASE64 = re.compile(rb"[A-Za-z0-9+/]{32,}")
NUMBER = rb"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
NUMBERS = re.compile(rb"(?:" + NUMBER + rb"[\s,;|\[\]]{1,12}){3,}" + NUMBER)  # at least four, with little between them
DIGITS = 4  # that a number is known by when it is written out

Memory = Mapping[str, list[Any]]  # kind: arrays that a site held; of updates, arrays by name
Tamper = Callable[[SiteRun, Message], list[Message]]


class Recorded:
    """Bytes to search in."""

    def __init__(self, data: bytes):
        self.data, self.bytes = data, np.frombuffer(data, np.uint8).astype(np.uint64)
        self._hashes: dict[tuple[int, int], np.ndarray] = {}

    @cached_property
    def unpacked(self) -> "Recorded":
        """The bytes that stand in base64, from each of the four places where it may begin."""
        runs = [run[start:] for run in BASE64.findall(self.data) for start in range(4)]
        return Recorded(b"\0".join(base64.b64decode(run[: len(run) // 4 * 4]) for run in runs))

    @cached_property
    def written(self) -> "Recorded":
        """The numbers that stand in digits, as ``formed`` tells them."""
        runs = [[float(number) for number in re.findall(NUMBER, run)] for run in NUMBERS.findall(self.data)]
        return Recorded(b"\xff".join(formed(np.array(run), "digits").tobytes() for run in runs))

    def holds(self, array: np.ndarray, formats: Mapping[str, int] = FLOATS) -> bool:
        places = {form: (self, self.unpacked) for form in formats} | {"digits": (self.written,)}
        formats = {**formats, "digits": min(formats.values())}
        for line in lines(array):
            told = {together: tells(line, together) for together in set(formats.values())}
            for form, together in formats.items():
                values = formed(line, form)  # in which small numbers may have become 0, and say nothing any more
                starts = np.flatnonzero(told[together] & tells(values, together))
                if any(place.has(values, starts, together) for place in places[form]):
                    return True
        return False

    def whole(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether all of some arrays are there, every byte."""
        return all(array.astype("<f4").tobytes() in self.data for array in arrays.values())

    def quotes(self, text: str) -> bool:
        """Whether a part of a text is there, as written or in small letters."""
        forms = [np.frombuffer(form.encode(), np.uint8) for form in {text, text.lower()}]
        return any(self.has(form, telling(form, TEXT), TEXT) for form in forms)

    def has(self, line: np.ndarray, starts: np.ndarray, together: int) -> bool:
        """Whether so many neighbours of a line of values, from one of the starts on, stand anywhere in the bytes."""
        if not len(starts) or together * line.itemsize > len(self.data):
            return False
        known = self.hashes(line.itemsize, together)
        wanted = hashed(line.view(f"<u{line.itemsize}").astype(np.uint64), together)[starts]
        asked = np.sort(wanted)  # neighbours are looked up in neighbouring places, which is many times quicker
        found = asked[known[np.minimum(np.searchsorted(known, asked), len(known) - 1)] == asked]
        there = starts[np.isin(wanted, found)] if len(found) else ()
        return any(line[start : start + together].tobytes() in self.data for start in there)

    def hashes(self, size: int, together: int) -> np.ndarray:
        """The hash of every run of so many values of so many bytes each, sorted."""
        if (size, together) not in self._hashes:
            count = len(self.bytes) - size + 1
            values = sum(self.bytes[byte : byte + count] << np.uint64(8 * byte) for byte in range(size))
            self._hashes[size, together] = np.sort(hashed(values, together, step=size))
        return self._hashes[size, together]


def hashed(values: np.ndarray, together: int, *, step: int = 1) -> np.ndarray:
    """A number for each run of values, ``step`` places apart."""
    count = len(values) - (together - 1) * step
    result = np.zeros(count, np.uint64)
    for place in range(together):
        result = result * np.uint64(0x9E3779B97F4A7C15) + values[place * step : place * step + count]
    return result


def telling(line: np.ndarray, together: int) -> np.ndarray:
    """Where runs begin that say something: mostly not 0, and not one size again and again. Adam's first steps all have
    one size, whatever they are steps of, and signs alone come up by chance.

    >>> telling(np.array([0, 0, 0, 1, 2, 2, 3, 3, 3, 3]), 4), telling(np.array([0.1, -0.1, 0.1, 0.2, 0.3, 0.3]), 4)
    (array([2, 3]), array([1, 2]))
    """
    return np.flatnonzero(tells(line, together))


def tells(line: np.ndarray, together: int) -> np.ndarray:
    """Of each place in a line whether such a run begins there."""
    if len(line) < together:
        return np.zeros(0, bool)
    size = np.abs(line.astype(np.float64))
    filled = np.cumsum(np.concatenate([[0], line != 0]))
    changes = np.cumsum(np.concatenate([[0], np.abs(np.diff(size)) > 1e-3 * np.maximum(size[1:], size[:-1])]))
    enough = filled[together:] - filled[:-together] > together / 2
    wanted = 1 + (together < 8) if np.issubdtype(line.dtype, np.integer) else together // 2
    return enough & (changes[together - 1 :] - changes[: len(line) - together + 1] >= wanted)


def lines(array: np.ndarray) -> list[np.ndarray]:
    """An array's values, row after row and column after column."""
    values = np.asarray(array)
    across = [np.ascontiguousarray(values.T).reshape(-1)] if values.ndim > 1 and min(values.shape) > 1 else []
    return [values.reshape(-1), *across]


def formed(values: np.ndarray, form: str) -> np.ndarray:
    if form == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    if form == "digits":  # the first of them, the sign and the power of ten, as one whole number
        numbers = np.ascontiguousarray(values, np.float64)
        power = np.floor(np.log10(np.abs(numbers), out=np.zeros(numbers.shape), where=numbers != 0))
        return (np.round(numbers / 10.0 ** (power - DIGITS + 1)) * 1000 + power).astype(np.int64)
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
    known = {LABELS: LABEL_IDS, WORDS: WORD_IDS, MOVED: CHANGES, UNMASKED: CHANGES, WHOLE: WHOLE_NUMBERS}
    return known.get(kind, FLOATS)


def replay(
    plan: Plan,
    reports: Mapping[str, EncodedCorpus],
    folder: Path,
    *,
    secrets: Mapping[str, Seed],
    tamper: Mapping[str, Tamper] | None = None,
) -> tuple[HubRun, dict[str, Memory]]:
    """Train as the plan says, all in this process: the hub, and what each site held. ``secrets`` are the sites' own.

    ``tamper`` stands between a site's gate and the hub: it may change a message, or send others before it.
    """
    held: dict[str, dict[str, list[Any]]] = {name: defaultdict(list) for name in plan.sites}
    with pytest.MonkeyPatch.context() as patch:
        now = watched(patch)
        rounds = HubRun(plan, folder=folder / "hub", pause=1e9)
        stations = {
            name: SiteRun(plan, reports[name], name=name, session="ab", folder=folder / name, secret=secrets[name])
            for name in plan.sites
        }
        pending = {name: one.hello() for name, one in stations.items()}
        while pending:
            for name in list(pending):
                one, own = stations[name], held[name]
                said = read(pending[name], sender=name)
                for message in tamper[name](one, said) if tamper and name in tamper else [said]:
                    reply = rounds.exchange(name, write(message), wait=0)
                taken(now, own)  # what a tampering site worked out is its own, whoever answers next
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
                own[MOVED] += [after[key] - before[key] for key in after]
                own["private optimiser"] += arrays_of(one.work.site.optimiser.state()).values()
                if one.work.site.local:
                    own["local optimiser"] += arrays_of(one.work.site.local.encoder.state()).values()
                taken(now, own)
                update = read(pending[name], sender=name).arrays
                own[ALLOWED] += [update] if update and not plan.masked else []
    return rounds, {name: {kind: once(arrays) for kind, arrays in own.items()} for name, own in held.items()}


def taken(now: dict[str, list[Any]], own: dict[str, list[Any]]) -> None:
    """Move what was seen to whom it belongs."""
    for kind, arrays in now.items():
        own[kind] += arrays
    now.clear()


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

    advance = of_site.Site.advance

    def advanced(site: of_site.Site, turn: of_site.Turn, *, every: int) -> None:
        advance(site, turn, every=every)
        keep("private parameters", site.private.parameters())  # between two local steps too

    patch.setattr(of_site.Site, "advance", advanced)
    of_update = Sums.of_update

    def added(sums: Sums, arrays: Mapping[str, np.ndarray], **options: Any) -> Any:
        part = of_update(sums, arrays, **options)
        seen[UNMASKED] += [array.copy() for array in arrays.values()]
        seen[WHOLE].append(part.update.copy())  # masks are put on it in place
        return part

    patch.setattr(Sums, "of_update", added)
    watch(Shared, "features", lambda features: keep("shared features", [features]))
    watch(Private, "features", lambda features: keep("private features", [features]))
    watch(of_site, "drop", lambda features: keep("features after dropout", [features]))
    watch(Private, "logits", lambda scores: keep("answers", scores.values()))
    watch(of_site.Site, "read", lambda documents: keep(LABELS, documents.labels.values()))
    watch(of_site.Site, "read", lambda documents: keep(WORDS, [documents.batch.ids]))
    return seen
