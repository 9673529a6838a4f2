"""Arrays on disk: declared shapes held against real bytes, then ranges and order, before anything native follows them.

An array that is followed (offsets of documents, indices of a sparse table, ids of words) leads native code to an
address; one entry out of range is a read or a write outside of it. So whoever loads such arrays calls the check that
says what they are.

>>> import numpy as np
>>> check_offsets(np.array([0, 2, 3]), end=3)
>>> check_offsets(np.array([0, 2_000_000_000, 3]), end=3)
Traceback (most recent call last):
pathveil.untrusted.bounds.Refused: its offsets are not in order
"""

import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pathveil.untrusted import bounds
from pathveil.untrusted.archives import open_archive, read_member
from pathveil.untrusted.bounds import Refused
from pathveil.untrusted.text import open_regular

if TYPE_CHECKING:
    import numpy as np

KINDS = "biufM"  # truth, whole numbers, fractions, days: never objects, which are programs
HEADER = 4_096  # bytes of a header; it holds a type, an order and a shape


def read_header(file: IO[bytes]) -> "tuple[tuple[int, ...], bool, np.dtype]":
    """Shape, order and type that a ``.npy`` declares; the file then stands where the numbers begin."""
    import numpy as np

    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = readers[version](file, max_header_size=HEADER)
    except Exception:  # a header is a Python literal, and what its parser raises is not documented
        raise Refused("is no whole array") from None
    if dtype.kind not in KINDS or dtype.hasobject or dtype.names or dtype.subdtype or not dtype.isnative:
        raise Refused("holds something else than numbers")
    if not all(type(length) is int and length >= 0 for length in shape) or len(shape) > 4:
        raise Refused("is no whole array")
    return shape, fortran, dtype


def parse_array(data: bytes) -> "np.ndarray":
    """The array in the bytes of a ``.npy``, which must be exactly as many as its shape needs."""
    import numpy as np

    file = io.BytesIO(data)
    shape, fortran, dtype = read_header(file)
    if len(data) - file.tell() != math.prod(shape) * dtype.itemsize:
        raise Refused("holds an array whose shape does not fit its size")
    numbers = np.frombuffer(data, dtype, offset=file.tell())
    return numbers.reshape(shape, order="F" if fortran else "C")


def read_array(path: Path, *, mapped: bool = False) -> "np.ndarray":
    """The array in a ``.npy`` file, in memory or mapped; OSError where there is none."""
    import numpy as np

    with open_regular(path) as file:
        shape, fortran, dtype = read_header(file)
        offset, end = file.tell(), file.seek(0, io.SEEK_END)
        if end - offset != math.prod(shape) * dtype.itemsize:
            raise Refused("holds an array whose shape does not fit its size")
        if not mapped or not math.prod(shape):  # no bytes cannot be mapped
            file.seek(0)
            return parse_array(file.read())
        order = "F" if fortran else "C"
        return np.memmap(file, dtype, mode="r", offset=offset, shape=shape, order=order)


def read_arrays(source: Path | bytes, *, most: int = bounds.ARCHIVE_BYTES) -> "dict[str, np.ndarray]":
    """All arrays of an ``.npz`` file, by name, no more of them and no larger than the file can honestly hold."""
    with open_archive(source, most=most) as archive:
        names = archive.namelist()
        if not all(name.endswith(".npy") for name in names):
            raise Refused("holds something else than arrays")
        return {name.removesuffix(".npy"): parse_array(read_member(archive, name)) for name in names}


def check_whole(array: "np.ndarray", *, dimensions: int = 1) -> None:
    """Refuse what is not an array of whole numbers of so many dimensions."""
    if array.ndim != dimensions or array.dtype.kind not in "iu" or array.dtype == "uint64":  # which is not safe to add
        raise Refused(
            f"holds {array.dtype} of {array.ndim} dimensions where whole numbers of {dimensions} are expected"
        )


def check_range(array: "np.ndarray", *, low: int, below: int, what: str) -> None:
    """Refuse whole numbers outside ``low`` … ``below`` − 1; ``what`` names them in the sentence."""
    check_whole(array, dimensions=array.ndim)
    if array.size and (int(array.min()) < low or int(array.max()) >= below):
        raise Refused(f"its {what} are out of range")


def check_offsets(offsets: "np.ndarray", *, end: int) -> None:
    """Refuse offsets that do not lead from 0 to ``end``, never backwards."""
    check_whole(offsets)
    if not len(offsets) or int(offsets[0]) != 0 or int(offsets[-1]) != end or (offsets[1:] < offsets[:-1]).any():
        raise Refused("its offsets are not in order")


def check_sparse(data: "np.ndarray", indices: "np.ndarray", indptr: "np.ndarray", *, shape: tuple[int, int]) -> None:
    """Refuse the three arrays of a compressed sparse table that do not describe one of this shape, each place once."""
    import numpy as np

    check_whole(data)
    check_whole(indices)
    check_offsets(indptr, end=len(indices))
    if len(indptr) != shape[0] + 1 or len(data) != len(indices):
        raise Refused("holds a table whose parts do not fit each other")
    check_range(indices, low=0, below=shape[1], what="places in a table")
    row = np.repeat(np.arange(shape[0]), np.diff(indptr.astype(np.int64)))
    place = np.sort(row * shape[1] + indices)
    if (place[1:] == place[:-1]).any():
        raise Refused("holds a table with a place twice")


def check_finite(arrays: "Mapping[str, np.ndarray] | Iterable[np.ndarray]", *, what: str = "numbers") -> None:
    """Refuse NaN and infinity: comparisons with them are false, so that what rests on one passes every threshold."""
    import numpy as np

    values: Any = arrays.values() if isinstance(arrays, Mapping) else arrays
    for array in values:
        if array.dtype.kind != "f":
            continue
        with np.errstate(all="ignore"):
            total = array.sum(dtype=np.float64)
        # It is NaN or infinite where an entry is, or where finite ones are absurdly large: then they are looked at.
        if not np.isfinite(total) and not np.isfinite(array).all():
            raise Refused(f"its {what} are not all finite")
