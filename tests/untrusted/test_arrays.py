"""Arrays: shapes that fit their bytes, numbers that lead nowhere else."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pathveil.untrusted import Refused
from pathveil.untrusted.arrays import (
    check_finite,
    check_offsets,
    check_range,
    check_sparse,
    parse_array,
    read_array,
    read_arrays,
)


def saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def packed(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.eye(3, dtype=np.float32)),
        np.empty((0, 4)),
        np.array(3),
        np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        np.array([True, False]),
    ],
)
def test_what_was_saved_is_read(array, tmp_path):
    np.save(tmp_path / "a.npy", array)
    for found in (
        read_array(tmp_path / "a.npy"),
        read_array(tmp_path / "a.npy", mapped=True),
        parse_array(saved(array)),
    ):
        assert found.dtype == array.dtype and found.shape == array.shape
        np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(read_arrays(packed(a_npy=saved(array)))["a"], array)


@pytest.mark.parametrize(
    "data",
    [
        saved(np.array([{"a": 1}], object)), saved(np.array(["text"])), saved(np.arange(3, dtype=">i4")),
        saved(np.zeros(2, [("a", "i4")])), saved(np.arange(9))[:-1], saved(np.arange(9)) + b"x", b"",
        saved(np.arange(3)).replace(b"(3,)", b"(-3,"), saved(np.arange(3)).replace(b"(3,), }", b"(1<<60,"),
        saved(np.arange(3)).replace(b"(3,), }      ", b"(999999999999"), b"\x93NUMPY\x01\x00",
        saved(np.arange(3)).replace(b"\x01\x00v", b"\x01\x00\xff"),
    ],
)  # fmt: skip
def test_no_array_no_number_no_wrong_shape(data, tmp_path):
    (tmp_path / "a.npy").write_bytes(data)
    for read in (lambda: parse_array(data), lambda: read_array(tmp_path / "a.npy", mapped=True)):
        with pytest.raises(Refused):
            read()


def test_a_bomb_is_refused_by_what_it_declares():
    """Eight megabytes once became eight gigabytes."""
    bomb = packed(a_npy=saved(np.zeros(12_000_000, np.float64)))  # 96 MB of zeros in 100 kB
    assert len(bomb) < 1 << 20
    with pytest.raises(Refused, match="inflates to more than 250 times its size"):
        read_arrays(bomb)


def test_an_archive_that_lies_is_refused():
    with pytest.raises(Refused, match="something else than arrays"):
        read_arrays(packed(a_py=b"import os"))
    whole = packed(a_npy=saved(np.arange(1000)))
    for start in (0, 30, len(whole) // 2, len(whole) - 60):
        damaged = bytearray(whole)
        damaged[start : start + 8] = b"\xff" * 8
        with pytest.raises(Refused):
            read_arrays(bytes(damaged))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", saved(np.arange(3)))
    with pytest.raises(Refused, match="by another method than deflate"):
        read_arrays(file.getvalue())


@given(st.integers(0, 6), st.integers(1, 5), st.data())
def test_sparse_tables_are_taken_exactly_when_scipy_takes_them(rows, columns, data):
    """SciPy's own full check is the oracle; beyond it no place may be there twice."""
    sizes = st.lists(st.integers(-1, 4), min_size=0, max_size=rows + 2)
    indptr = np.cumsum([0, *data.draw(sizes)])
    indices = np.array(data.draw(st.lists(st.integers(-1, columns), max_size=8)), np.int64)
    counts = np.ones(data.draw(st.sampled_from([len(indices), len(indices) + 1])), np.int64)
    try:
        check_sparse(counts, indices, indptr, shape=(rows, columns))
    except Refused:
        taken = False
    else:
        taken = True
    try:
        table = sparse.csr_array((counts, indices, indptr), shape=(rows, columns))
        table.check_format(full_check=True)
        fits = len(counts) == len(indices) == indptr[-1] and (indices >= 0).all()
        pairs = [(row, place) for row in range(rows) for place in indices[indptr[row] : indptr[row + 1]]]
        fits = bool(fits and len(set(pairs)) == len(pairs))
    except ValueError:
        fits = False
    assert taken == fits


def test_ranges_order_and_finiteness():
    check_range(np.array([], np.int32), low=0, below=0, what="ids")
    check_offsets(np.array([0, 0, 5]), end=5)
    for offsets in ([1, 5], [0, 4], [0, 6, 5], []):
        with pytest.raises(Refused):
            check_offsets(np.array(offsets, np.int64), end=5)
    for values in ([-1, 2], [0, 3]):
        with pytest.raises(Refused, match="its ids are out of range"):
            check_range(np.array(values), low=0, below=3, what="ids")
    check_finite({"a": np.array([np.finfo(np.float64).max] * 3), "b": np.array([1])})  # a sum that overflows is no NaN
    for value in (np.nan, np.inf, -np.inf):
        for kind in (np.float16, np.float32, np.float64):
            with pytest.raises(Refused, match="not all finite"):
                check_finite([np.array([[0, value]], kind)])
    with pytest.raises(Refused, match="not all finite"):
        check_finite([np.array([np.inf, -np.inf])])
