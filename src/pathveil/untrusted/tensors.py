"""safetensors: named arrays behind a JSON header, read by ourselves, each byte accounted for.

    8 bytes   length of the header, little endian
    header    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {…}}
    numbers   the arrays end to end

The header is JSON of a foreign party, so it is bounded as such; arrays must lie end to end, without holes and to the
last byte, and each be as large as its shape says. ``expected`` holds names and shapes that an architecture needs: it is
compared with the header before any number is read.

>>> import numpy as np
>>> from safetensors.numpy import save
>>> data = save({"w": np.ones((2, 2), np.float32)}, metadata={"pathveil": "{}"})
>>> arrays, metadata = parse_tensors(data, expected={"w": (2, 2)})
>>> arrays["w"].tolist(), metadata
([[1.0, 1.0], [1.0, 1.0]], {'pathveil': '{}'})
>>> parse_tensors(data, expected={"w": (3, 2)})
Traceback (most recent call last):
pathveil.untrusted.bounds.Refused: holds a tensor of shape (2, 2) where (3, 2) is expected
"""

import errno
import math
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathveil.untrusted import bounds
from pathveil.untrusted.bounds import Refused
from pathveil.untrusted.text import open_regular, parse_json

if TYPE_CHECKING:
    import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1"}
TYPES |= {"U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "|b1"}
HEADER = 1 << 24  # bytes
WRONG = "is no whole safetensors file"

Shapes = Mapping[str, tuple[int, ...]]


@contextmanager
def written() -> Generator[None]:
    """While safetensors writes: what the disk refuses is an OSError, as it is of any other file.

    >>> from safetensors import SafetensorError
    >>> with written():
    ...     raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device
    """
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as fault:
        told = re.search(r"os error (\d+)", str(fault))
        code = int(told[1]) if told else errno.EIO
        raise OSError(code, os.strerror(code)) from None


def read_tensors(
    path: Path, *, expected: Shapes | None = None, finite: bool = True, most: int = bounds.ARCHIVE_BYTES
) -> "tuple[dict[str, np.ndarray], dict[str, str]]":
    """Arrays and metadata of a safetensors file; OSError where there is none."""
    check_tensors(path, expected=expected)
    with open_regular(path) as file:
        size = file.seek(0, 2)
        if size > most:
            raise Refused(f"is larger than the {most:,} bytes that such a file may have")
        file.seek(0)
        data = bytearray(size)  # arrays that share it can be written to
        if file.readinto(data) != size:
            raise Refused(WRONG)
    return parse_tensors(data, expected=expected, finite=finite)


def check_tensors(path: Path, *, expected: Shapes | None = None) -> dict[str, str]:
    """Hold a file's header against its size and what is expected, without reading the numbers; its metadata."""
    with open_regular(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= length <= min(HEADER, size - 8):
            raise Refused(WRONG)
        tensors, metadata = read_header(file.read(length), size - 8 - length)
    check_shapes(tensors, expected)
    return metadata


def parse_tensors(
    data: bytes | bytearray, *, expected: Shapes | None = None, finite: bool = True
) -> "tuple[dict[str, np.ndarray], dict[str, str]]":
    """Arrays, which share the memory of ``data``, and metadata of a safetensors block."""
    import numpy as np

    from pathveil.untrusted.arrays import check_finite

    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= length <= min(HEADER, len(data) - 8):
        raise Refused(WRONG)
    tensors, metadata = read_header(bytes(data[8 : 8 + length]), len(data) - 8 - length)
    check_shapes(tensors, expected)
    arrays = {}
    for name, (kind, shape, begin) in tensors.items():
        numbers = np.frombuffer(data, np.dtype(kind), count=math.prod(shape), offset=8 + length + begin)
        if kind == "|b1" and (numbers.view(np.uint8) > 1).any():
            raise Refused(WRONG)
        arrays[name] = numbers.reshape(shape)
    if finite:
        check_finite(arrays, what="weights")
    return arrays, metadata


def read_header(raw: bytes, room: int) -> tuple[dict[str, tuple[str, tuple[int, ...], int]], dict[str, str]]:
    """Type, shape and place of every tensor, and the metadata; they must fill the ``room`` behind the header."""
    content = parse_json(raw.rstrip(b" "), depth=4)
    if not isinstance(content, dict) or len(content) > bounds.MEMBERS:
        raise Refused(WRONG)
    metadata = content.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Refused(WRONG)
    places = sorted((*placed(entry), name) for name, entry in content.items())
    end = 0
    for begin, stop, *_ in places:
        if begin != end:
            raise Refused(WRONG)
        end = stop
    if end != room:
        raise Refused(WRONG)
    return {name: (kind, shape, begin) for begin, _, kind, shape, name in places}, metadata


def placed(entry: Any) -> tuple[int, int, str, tuple[int, ...]]:
    """Where a tensor begins and ends, its type and its shape, as its entry in the header says."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise Refused(WRONG)
    kind, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in TYPES or not isinstance(shape, list) or len(shape) > 8:
        raise Refused("holds a tensor of a type or shape that is not read")
    if not isinstance(place, list) or len(place) != 2:
        raise Refused(WRONG)
    if not all(type(number) is int and 0 <= number < 1 << 48 for number in (*shape, *place)):
        raise Refused(WRONG)
    kind = TYPES[kind]
    if place[1] - place[0] != math.prod(shape) * int(kind[2:]):
        raise Refused("holds a tensor whose shape does not fit its size")
    return place[0], place[1], kind, tuple(shape)


def check_shapes(tensors: Mapping[str, tuple[str, tuple[int, ...], int]], expected: Shapes | None) -> None:
    """Refuse tensors that are not exactly those expected, in float32."""
    if expected is None:
        return
    if len(tensors) != len(expected) or not all(name in tensors for name in expected):
        raise Refused("its tensors are not those that the architecture has")
    for name, shape in expected.items():
        kind, found, _ = tensors[name]
        if found != tuple(shape):
            raise Refused(f"holds a tensor of shape {found} where {tuple(shape)} is expected")
        if kind != "<f4":
            raise Refused("holds a tensor that is not float32")
