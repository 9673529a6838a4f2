"""safetensors: what the library writes is read to the bit; nothing else is."""

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load, save

from pathveil.untrusted import Refused
from pathveil.untrusted.tensors import parse_tensors, read_tensors

ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "n": np.array([1, -2], np.int64),
    "empty": np.empty((0, 3), np.float32),
    "flag": np.array([True, False]),
}


def block(header: object, data: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_what_the_library_writes_is_read(tmp_path):
    data = save(ARRAYS, metadata={"a": "b"})
    (tmp_path / "a.safetensors").write_bytes(data)
    known = load(data)
    for arrays, metadata in (parse_tensors(data), read_tensors(tmp_path / "a.safetensors")):
        assert metadata == {"a": "b"} and arrays.keys() == known.keys()
        for name, array in known.items():
            assert arrays[name].dtype == array.dtype
            np.testing.assert_array_equal(arrays[name], array)
    assert read_tensors(tmp_path / "a.safetensors")[0]["w"].flags.writeable


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x00" * 8, struct.pack("<Q", 1 << 60) + b"{}", block(b"[" * 10_000), block([]), block({"a": 1}),
        block({"a": entry([2], 0, 4)}, b"1234"), block({"a": entry([1], 0, 4)}, b"12345"),
        block({"a": entry([1], 4, 8)}, b"12345678"), block({"a": entry([1], 0, 4), "b": entry([1], 0, 4)}, b"1234"),
        block({"a": entry([1 << 40, 1 << 40], 0, 4)}, b"1234"), block({"a": entry([-1], 0, -4)}),
        block({"a": entry([1.0], 0, 4)}, b"1234"), block({"a": entry([True], 0, 4)}, b"1234"),
        block({"a": entry([1], 0, 4, "F33")}, b"1234"), block({"a": entry([2], 0, 2, "BOOL")}, b"\x01\x02"),
        block({"a": entry([1], 0, 4) | {"more": 1}}, b"1234"), block({"__metadata__": {"a": {"b": "c"}}}),
        block({f"t{number}": entry([0], 0, 0) for number in range(20_001)}),
    ],
)  # fmt: skip
def test_headers_that_do_not_account_for_every_byte(data, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(data)
    for read in (lambda: parse_tensors(data), lambda: read_tensors(tmp_path / "a.safetensors")):
        with pytest.raises(Refused):
            read()


def test_shapes_are_the_architectures_before_a_number_is_read():
    data = save({"w": np.zeros((2, 3), np.float32)})
    for expected, why in (
        ({"w": (3, 2)}, "shape"),
        ({"v": (2, 3)}, "architecture"),
        ({"w": (2, 3), "v": (1,)}, "archi"),
    ):
        with pytest.raises(Refused, match=why):
            parse_tensors(data, expected=expected)
    with pytest.raises(Refused, match="not float32"):
        parse_tensors(save({"w": np.zeros(2)}), expected={"w": (2,)})


def test_what_is_not_finite_is_refused_unless_asked_for():
    data = save({"w": np.array([1, np.nan], np.float32)})
    with pytest.raises(Refused, match="its weights are not all finite"):
        parse_tensors(data)
    assert np.isnan(parse_tensors(data, finite=False)[0]["w"][1])
