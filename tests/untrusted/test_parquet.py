"""Parquet: honest files of every kind pass; a declared size that is not there does not."""

import polars as pl
import pytest

from pathveil.corpus.tables.files import open_parquet
from pathveil.errors import CorpusError
from pathveil.untrusted import Refused, parquet
from pathveil.untrusted.parquet import Thrift, check_parquet


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"])
def test_honest_files_pass(tmp_path, compression):
    rows = 3000
    table = pl.DataFrame(
        {
            "text": [f"left breast {number} ä" * (number % 7) for number in range(rows)],
            "same": ["C50"] * rows,
            "missing": pl.Series([None] * rows, dtype=pl.String),
            "day": pl.Series(range(rows)).cast(pl.Date),
            "nested": [{"a": [1, 2], "b": {"c": "x"}}] * rows,
            "share": [number / 7 for number in range(rows)],
        }
    )
    for size in (None, 500):
        table.write_parquet(tmp_path / "a.parquet", compression=compression, row_group_size=size)
        assert check_parquet(tmp_path / "a.parquet") == rows
    table.clear().write_parquet(tmp_path / "a.parquet", compression=compression)
    assert check_parquet(tmp_path / "a.parquet") == 0
    table.lazy().sink_parquet(tmp_path / "b.parquet", compression=compression, row_group_size=700)
    assert check_parquet(tmp_path / "b.parquet") == rows


def number(value: int) -> bytes:
    """A whole number as Thrift's compact protocol writes it."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def test_declared_sizes_that_are_not_there_are_refused(tmp_path):
    """A reader would allocate them: the process ended by a signal."""
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": [f"left breast {n}" for n in range(1000)]}).write_parquet(path, compression="uncompressed")
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    footer, body = whole[-8 - length : -8], whole[: -8 - length]
    tried = 0
    for declared in (1000, *(of for of in sizes(footer) if of > 1000)):
        for lie in (1 << 40, (1 << 62) - 1, -5):
            changed = footer.replace(number(declared), number(lie))
            if changed == footer:
                continue
            path.write_bytes(body + changed + len(changed).to_bytes(4, "little") + b"PAR1")
            with pytest.raises(Refused):
                check_parquet(path)
            tried += 1
    assert tried >= 6
    for data in (
        b"",
        b"PAR1PAR1",
        whole[:-1],
        whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        b"x" * 100,
        whole[:4] + whole[20:],
    ):
        path.write_bytes(data)
        with pytest.raises(CorpusError, match="is not a Parquet file"):
            open_parquet(path)


def sizes(footer: bytes) -> set[int]:
    fields, _ = Thrift(footer).structure()
    about = fields[parquet.ROW_GROUPS][0][parquet.COLUMNS][0][parquet.ABOUT]
    return {about[field] for field in (parquet.VALUES, parquet.UNPACKED, parquet.PACKED)}


def test_more_rows_than_bytes_can_hold_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS", 1000)
    path = tmp_path / "a.parquet"
    pl.DataFrame({"site": ["C50"] * 100_000}).write_parquet(path)  # runs: a few hundred bytes
    with pytest.raises(Refused, match="more rows than so few bytes can hold"):
        check_parquet(path)


def test_lists_within_lists_of_a_footer_are_bounded():
    """They were followed as deep as the stack goes."""
    with pytest.raises(Refused):
        Thrift(b"\x19" + b"\x19" * 10_000).structure()
