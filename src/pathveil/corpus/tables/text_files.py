r"""Reports that are files of their own: named by a column of a table, or by themselves.

A name is looked for within its folder and nowhere else, whatever it says. Texts are UTF-8 or UTF-16, else Windows-1252;
RTF and pages become plain text as everywhere.

>>> import polars as pl, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = (Path(folder) / "S16-1.txt").write_bytes("Präparat: Kolon".encode("cp1252"))
...     table = pl.LazyFrame({"text": ["S16-1", "S16-2", "../S16-1.txt"]})
...     with_texts_of_files(table, Path(folder), source="lab.csv").collect()["text"].to_list()
['Präparat: Kolon', None, None]
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pathveil.corpus.messages.hl7 import decode_text
from pathveil.corpus.tables.opening import TEXTS, in_utf8
from pathveil.errors import CorpusError, UsageError
from pathveil.untrusted import Refused, read_bytes

if TYPE_CHECKING:
    import polars as pl

LONGEST = 1 << 24  # bytes of a report
TRIED = 1_000  # names of which one must be a file's


def with_texts_of_files(frame: "pl.LazyFrame", folder: Path, *, source: Path | str) -> "pl.LazyFrame":
    """The frame with the contents of files of a folder in the place of their names in ``text``, with or without their
    endings; nothing where there is no such file."""
    import polars as pl

    if not folder.is_dir():
        raise UsageError(f"--texts {folder}: is no folder; expected the one that holds the files of the texts")
    if frame.collect_schema().get("text") != pl.String:
        raise UsageError(f"{source}: has no column 'text' with names of files; say which with --column text=ITS_NAME")
    first = frame.select(pl.col("text").drop_nulls().head(TRIED)).collect(engine="streaming")["text"]
    if len(first) and not any(file_named(name, folder) for name in first):
        raise UsageError(f"--texts {folder}: holds none of the files that the column text of {source} names")

    def contents(names: "pl.Series") -> "pl.Series":
        found = [name and (path := file_named(name, folder)) and text_of(path) for name in names.to_list()]
        return pl.Series(names.name, found, pl.String)

    return frame.with_columns(pl.col("text").map_batches(contents, return_dtype=pl.String, is_elementwise=True))


def file_named(name: str, folder: Path) -> Path | None:
    """The file of a folder that has this name, or this name and one of the usual endings."""
    home = folder.resolve()
    for ending in ("", *TEXTS):
        try:
            path = (home / f"{name.strip()}{ending}").resolve()
            if path.is_relative_to(home) and path.is_file():
                return path
        except (OSError, ValueError):  # a text, or what no file can be called
            return None
    return None


def text_of(path: Path) -> str:
    """What a file says."""
    try:
        content = read_bytes(path, most=LONGEST)
    except Refused as fault:
        raise CorpusError(f"{path}: {fault}") from None
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror})") from None
    return text_from(content)


def text_from(content: bytes) -> str:
    """The text that bytes are.

    >>> text_from("Präparat".encode()), text_from("Präparat".encode("cp1252")), text_from("Präparat".encode("utf-16"))
    ('Präparat', 'Präparat', 'Präparat')
    """
    return decode_text(in_utf8(content)).removeprefix("\ufeff")
