"""One honest file to one dishonest file: by bytes, by lines, and by what the format is made of.

A case is drawn from (seed, reader, number) alone, so that any one can be made again. Mutators that know a format keep
it whole around one lie: those get furthest into a reader.
"""

import gzip
import io
import json
import random
import struct
import zipfile
from typing import Any

import numpy as np

NUMBERS = [
    -1,
    0,
    1,
    2,
    127,
    255,
    256,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2_000_000_000,
    2**32,
    2**53,
    2**63 - 1,
    10**12,
    10**30,
]
ODD: list[Any] = [
    None, True, False, "", "x" * 5000, "\x1b[2J\x07", "\u202e", "\x00", [], {}, [[]], {"a": {}}, -1, 0, 2**31, 2**63,
    10**12, 10**30, 1e308, -0.0, 0.1, "NaN", "1e999", "../../etc/passwd", "/dev/zero", [None], ["a"] * 300,
    list(range(300)),
]  # fmt: skip
PIECES = [
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"null", b"true", b"[" * 300, b"{" * 300, b'{"a":' * 300, b"]" * 50,
    b"\x00",
    b"\x00" * 400, b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b[2J", b"\r", b"\n", b"\r\n", b'"', b"'", b"\\", b",", b";",
    b"|", b"\t",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"<a>" * 60, b"&b;", b"<CR>", b"MSH|^~\\&|", b"\x0b",
    b"\x1c\r", b"\\u0000", b"\\ud800",
    b"\xf0\x9f\x98\x80", b"A" * 3000, b"9" * 400, b"-", b"0x", b"2147483648", b"-1", b"1e400", b"\x80", b"\xc3",
    b"PAR1", b"PK\x03\x04", b"\x1f\x8b", b"\x93NUMPY", b"a.b.c.d." * 20, b"''''''", b'"""', b"#", b"[[a]]", b"inf",
    b"nan", b"../",
]  # fmt: skip


def mutated(data: bytes, kind: str, draw: random.Random) -> bytes:
    """A file of a kind with a lie or three in it."""
    by_format = {
        "json": json_lie,
        "jsonl": jsonl_lie,
        "npz": npz_lie,
        "npy": npy_lie,
        "tensors": tensors_lie,
        "gzip": gzip_lie,
        "archive": archive_lie,
    }
    if kind == "parquet" and draw.random() < 0.7:
        return parquet_lie(data, draw)
    if kind in by_format and draw.random() < 0.7:
        try:
            data = by_format[kind](data, draw)
        except (ValueError, KeyError, IndexError, zipfile.BadZipFile, OSError, struct.error):
            pass
        if draw.random() < 0.8:
            return data
    for _ in range(draw.choice([1, 1, 1, 2, 3, 8])):
        data = draw.choice(BLIND)(data, draw)
    return data


def flip(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def overwrite(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    at, size = draw.randrange(len(changed)), draw.choice([1, 1, 2, 4, 8, 40])
    changed[at : at + size] = draw.choice([draw.randbytes(size), b"\xff" * size, bytes(size), b"\x7f" * size])
    return bytes(changed)


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def remove(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + data[at + draw.choice([1, 2, 8, 100, 1000]) :]


def repeat(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    part = data[at : at + draw.choice([1, 8, 100, 1000])]
    return data[:at] + part * draw.choice([2, 2, 3, 50]) + data[at:]


def insert(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(PIECES) + data[at:]


def replace_number(data: bytes, draw: random.Random) -> bytes:
    """A run of digits somewhere becomes another number."""
    at = draw.randrange(len(data) + 1)
    start = next((place for place in range(at, len(data)) if data[place : place + 1].isdigit()), None)
    if start is None:
        return insert(data, draw)
    end = start
    while end < len(data) and data[end : end + 1].isdigit():
        end += 1
    return data[:start] + str(draw.choice(NUMBERS)).encode() + data[end:]


def integers(data: bytes, draw: random.Random) -> bytes:
    """Four or eight bytes become a number that a native reader may follow."""
    changed, size = bytearray(data + bytes(8)), draw.choice([2, 4, 8])
    at = draw.randrange(max(len(data), 1))
    changed[at : at + size] = (draw.choice(NUMBERS) & (256**size - 1)).to_bytes(size, draw.choice(["little", "big"]))
    return bytes(changed[: len(data)])


def lines(data: bytes, draw: random.Random) -> bytes:
    """Lines lost, doubled, swapped: a header without its table, a table without its header."""
    parts = data.splitlines(keepends=True)
    if len(parts) < 2:
        return insert(data, draw)
    one, two = draw.randrange(len(parts)), draw.randrange(len(parts))
    how = draw.randrange(4)
    if how == 0:
        del parts[draw.choice([0, one])]
    elif how == 1:
        parts.insert(one, parts[two])
    elif how == 2:
        parts[one], parts[two] = parts[two], parts[one]
    else:
        parts[one] = parts[one].rstrip(b"\r\n") + draw.choice([b"\r", b"", b"\x0b", b"\r\r\n", b"\x85"])
    return b"".join(parts)


BLIND = (flip, overwrite, overwrite, cut, remove, repeat, insert, insert, replace_number, integers, lines)


def json_lie(data: bytes, draw: random.Random) -> bytes:
    """One value of a JSON text becomes an odd one, or moves, or comes twice."""
    content = json.loads(data)
    places: list[tuple[Any, Any]] = []
    pending = [content]
    while pending and len(places) < 5000:
        value = pending.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            places.append((value, key))
            pending.append(value[key])
    if not places:
        return json.dumps(draw.choice(ODD)).encode()
    owner, key = draw.choice(places)
    how = draw.randrange(6)
    if how == 0 and isinstance(owner, dict):
        del owner[key]
    elif how == 1:
        other, name = draw.choice(places)
        owner[key] = json.loads(json.dumps(other.get(name) if isinstance(other, dict) else None))
    elif how == 2 and isinstance(owner, dict):
        owner[draw.choice(["x", "__metadata__", "", "\x1b[2J", "a" * 300])] = owner[key]
    elif how == 3 and isinstance(owner, list):
        owner.insert(key, owner[key])
    elif how == 4 and isinstance(owner[key], int | float):
        owner[key] = draw.choice([float("nan"), float("inf"), *NUMBERS])
    else:
        owner[key] = draw.choice(ODD)
    return json.dumps(content).encode()


def jsonl_lie(data: bytes, draw: random.Random) -> bytes:
    parts = data.splitlines()
    place = draw.randrange(len(parts))
    parts[place] = json_lie(parts[place], draw)
    return b"\n".join(parts)


def gzip_lie(data: bytes, draw: random.Random) -> bytes:
    """Within the gzip, or a bomb."""
    if draw.random() < 0.02:
        return gzip.compress(bytes(80 << 20), 1)
    return gzip.compress(draw.choice(BLIND)(gzip.decompress(data), draw), 1)


def archive_lie(data: bytes, draw: random.Random) -> bytes:
    """Within one file of an archive that is whole around it; or one is missing, doubled, or a bomb."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    # Files that hold more are lied about more.
    name = draw.choices(list(files), [len(content) for content in files.values()])[0]
    how = draw.random()
    if how < 0.05:
        del files[name]
    elif how < 0.1:
        files[draw.choice(list(files))] = files[name]
    elif how < 0.11:
        files[name] = bytes(80 << 20)
    else:
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            files[name] = draw.choice((*BLIND, tags))(files[name], draw)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, content in files.items():
            archive.writestr(each, content)
    return made.getvalue()


def tags(data: bytes, draw: random.Random) -> bytes:
    """A tag of XML is lost, comes twice, or stands in another's place."""
    parts = data.split(b"<")
    one, two = draw.randrange(len(parts)), draw.randrange(len(parts))
    how = draw.randrange(3)
    if how == 0:
        del parts[one]
    elif how == 1:
        parts.insert(one, parts[two])
    else:
        parts[one], parts[two] = parts[two], parts[one]
    return b"<".join(parts)


def npy_lie(data: bytes, draw: random.Random) -> bytes:
    return saved(array_lie(np.load(io.BytesIO(data)), draw))


def npz_lie(data: bytes, draw: random.Random) -> bytes:
    """One array of an archive lies, is missing, or is a bomb."""
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    name = draw.choice(sorted(arrays))
    if draw.random() < 0.1:
        del arrays[name]
    elif draw.random() < 0.02:
        arrays[name] = np.zeros(10_000_000, np.int64)
    elif arrays[name].dtype == np.uint8:
        raw = arrays[name].tobytes()
        raw = json_lie(raw, draw) if name == "about" and draw.random() < 0.8 else draw.choice(BLIND)(raw, draw)
        arrays[name] = np.frombuffer(raw, np.uint8)
    else:
        arrays[name] = array_lie(arrays[name], draw)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def array_lie(array: np.ndarray, draw: random.Random) -> np.ndarray:
    array = np.array(array)
    how = draw.randrange(7)
    if how <= 3 and array.size and array.dtype.kind in "iuf":
        limit = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
        for _ in range(draw.choice([1, 1, 3])):
            value = draw.choice([*NUMBERS, int(limit.max), int(limit.min)])
            array.flat[draw.randrange(array.size)] = min(max(value, int(limit.min)), int(limit.max))
        if array.dtype.kind == "f" and draw.random() < 0.5:
            array.flat[0] = draw.choice([np.nan, np.inf, -np.inf])
    elif how == 4:
        array = array.astype(draw.choice([np.float64, np.int8, np.uint64, np.bool_, ">i4", "U3", np.complex64]))
    elif how == 5:
        array = (
            array[draw.choice([slice(1, None), slice(None, -1), slice(0, 0), slice(None, None, -1)])]
            if array.ndim
            else array
        )
    else:
        array = draw.choice([array[None], array.reshape(-1), np.concatenate([array, array]) if array.ndim else array])
    return array


def saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def tensors_lie(data: bytes, draw: random.Random) -> bytes:
    """The header of a safetensors block lies, with its length mended, or a number of it is none."""
    length = struct.unpack("<Q", data[:8])[0]
    header, body = data[8 : 8 + length], bytearray(data[8 + length :])
    if draw.random() < 0.3 and len(body) >= 4:
        at = draw.randrange(len(body) // 4) * 4
        body[at : at + 4] = struct.pack("<f", draw.choice([float("nan"), float("inf"), 1e38, -1e38]))
    else:
        header = json_lie(header, draw)
    if draw.random() < 0.1:
        length = draw.choice(NUMBERS) & (2**64 - 1)
    else:
        length = len(header)
    return struct.pack("<Q", length) + header + bytes(body)


def parquet_lie(data: bytes, draw: random.Random) -> bytes:
    """Bytes of the footer, or of a page's header, with the length mended."""
    if len(data) < 16:
        return data
    length = int.from_bytes(data[-8:-4], "little")
    body, footer = bytearray(data[: -8 - length]), data[-8 - length : -8]
    if draw.random() < 0.6:
        for _ in range(draw.choice([1, 1, 2])):
            footer = draw.choice((flip, overwrite, remove, repeat, varint))(footer, draw)
    else:
        at = draw.randrange(4, max(len(body), 5))
        body[at : at + 1] = bytes([draw.randrange(256)])
    return bytes(body) + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def varint(data: bytes, draw: random.Random) -> bytes:
    """A number of Thrift's compact protocol in place of a byte."""
    value, parts = draw.choice([n for n in NUMBERS if 0 <= n < 2**63]), []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    at = draw.randrange(len(data) + 1)
    return data[:at] + bytes([*parts, value]) + data[at + 1 :]
