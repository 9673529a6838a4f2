"""Parquet: honest files of every kind are read; one that lies or is damaged is refused in a sentence."""

import random

import polars as pl
import pytest

from pathveil.corpus.tables import files
from pathveil.corpus.tables.files import open_parquet, read_table
from pathveil.errors import CorpusError

SECRET = "Quastenflosser"


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"])
def test_honest_files_are_read(tmp_path, compression):
    rows = 3000
    columns = {
        "text": [f"left breast {number} ä" * (number % 7) for number in range(rows)],
        "missing": pl.Series([None] * rows, dtype=pl.String),
        "day": pl.Series(range(rows)).cast(pl.Date),
        "nested": [{"a": [1, 2], "b": {"c": "x"}}] * rows,
    }
    table = pl.DataFrame(columns)
    for some, size in ((table, None), (table, 500), (table.clear(), None)):
        some.write_parquet(tmp_path / "a.parquet", compression=compression, row_group_size=size)
        assert open_parquet(tmp_path / "a.parquet").collect().equals(some)


def test_a_file_that_lies_is_one_sentence(tmp_path):
    """Numbers of its footer and of its pages' headers are exchanged for others, some of them far too large."""
    path, draw = tmp_path / "a.parquet", random.Random(1)
    pl.DataFrame({"text": [f"{SECRET} {n}" for n in range(1000)]}).write_parquet(path, compression="uncompressed")
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    footer, body = whole[-8 - length : -8], whole[: -8 - length]
    refused = 0
    for _ in range(200):
        lie, at = draw.choice([b"\xff" * 5 + b"\x1f", b"\xff" * 8 + b"\x7f", b"\x09", b"\x00"]), draw.randrange(length)
        changed = footer[:at] + lie + footer[at + 1 :]
        start = draw.choice([body, body[:4] + lie + body[5:], body[: draw.randrange(4, 40)] + lie + body[40:]])
        path.write_bytes(start + changed + len(changed).to_bytes(4, "little") + b"PAR1")
        try:
            read_table(path)
        except CorpusError as error:
            refused += 1
            assert SECRET not in str(error) and str(error).startswith(f"{path}: ")
    assert refused > 150


@pytest.mark.parametrize("cut", [b"", b"PAR1PAR1", b"x" * 100, slice(-1), slice(9, None), slice(4, -20)])
def test_what_is_no_whole_file_is_called_that(tmp_path, cut):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": ["left breast"] * 9}).write_parquet(path)
    path.write_bytes(cut if isinstance(cut, bytes) else path.read_bytes()[cut])
    with pytest.raises(CorpusError, match=r"a\.parquet: (is not a Parquet file|cannot be read to its end)"):
        read_table(path)


def test_more_rows_than_bytes_can_hold_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FREE_ROWS", 1000)
    path = tmp_path / "a.parquet"
    pl.DataFrame({"site": ["C50"] * 100_000}).write_parquet(path)  # runs: a few hundred bytes
    with pytest.raises(CorpusError, match="more rows than so few bytes can hold"):
        open_parquet(path)
