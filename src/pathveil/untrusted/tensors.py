"""safetensors of another party: the library reads them; names, shapes, types and numbers are checked here.

The library accounts for each byte of a file: no holes, no overlaps, no size that does not fit. ``expected`` holds the
names and shapes that an architecture needs, in float32.

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
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pathveil.untrusted import bounds
from pathveil.untrusted.bounds import Refused
from pathveil.untrusted.text import parse_json, read_bytes

if TYPE_CHECKING:
    import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1"}
TYPES |= {"U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "|b1"}
FIELDS = {"dtype", "shape", "data_offsets"}

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
    """Read the arrays and the metadata of a safetensors file; OSError where there is none."""
    return parse_tensors(read_bytes(path, most=most), expected=expected, finite=finite)


def parse_tensors(
    data: bytes | bytearray, *, expected: Shapes | None = None, finite: bool = True
) -> "tuple[dict[str, np.ndarray], dict[str, str]]":
    """Read the arrays and the metadata of a safetensors block."""
    import numpy as np
    from safetensors import SafetensorError, deserialize

    from pathveil.untrusted.arrays import check_finite

    try:
        entries = dict(deserialize(bytes(data)))
    except SafetensorError:
        raise Refused("is no whole safetensors file") from None
    if len(entries) > bounds.MEMBERS or any(entry["dtype"] not in TYPES for entry in entries.values()):
        raise Refused("holds a tensor of a type that is not read, or too many")
    header = parse_json(bytes(data[8 : 8 + int.from_bytes(data[:8], "little")]), depth=4)
    metadata = header.pop("__metadata__", {})
    if any(entry.keys() != FIELDS for entry in header.values()):  # the library passes over others
        raise Refused("says more of a tensor than its type, shape and place")
    arrays = {}
    for name, entry in entries.items():
        numbers = np.frombuffer(entry["data"], np.dtype(TYPES[entry["dtype"]]))
        if numbers.dtype == bool and (numbers.view(np.uint8) > 1).any():
            raise Refused("holds a truth value that is neither 0 nor 1")
        arrays[name] = numbers.reshape(entry["shape"])
    check_shapes(arrays, expected)
    if finite:
        check_finite(arrays, what="weights")
    return arrays, metadata


def check_shapes(arrays: "Mapping[str, np.ndarray]", expected: Shapes | None) -> None:
    """Refuse arrays that are not exactly those expected, in float32."""
    if expected is None:
        return
    if arrays.keys() != expected.keys():
        raise Refused("its tensors are not those that the architecture has")
    for name, shape in expected.items():
        if arrays[name].shape != tuple(shape):
            raise Refused(f"holds a tensor of shape {arrays[name].shape} where {tuple(shape)} is expected")
        if arrays[name].dtype != "<f4":
            raise Refused("holds a tensor that is not float32")
