"""gzip and ZIP by what they inflate to: a few kilobytes can say a terabyte.

A stream is counted as it is read; an archive's members are judged by what they declare before any is read, and hold no
more than that when they are.

>>> import io, zipfile
>>> file = io.BytesIO()
>>> with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
...     archive.writestr("a.txt", "left breast")
>>> with open_archive(file.getvalue()) as archive:
...     read_member(archive, "a.txt")
b'left breast'
"""

import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from pathveil.untrusted import bounds
from pathveil.untrusted.bounds import Refused
from pathveil.untrusted.text import open_regular

ZIP = b"PK\3\4"  # how an archive begins, and with it a spreadsheet of today
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others need memory that they declare themselves
FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError, ValueError, IndexError)


class Inflated(io.RawIOBase):
    """The bytes of a gzip stream, refused once they are out of proportion to the file."""

    def __init__(self, stream: IO[bytes], sent: int):
        self.stream, self.sent, self.given = stream, sent, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # ty: ignore[incompatible-method-override]
        piece = self.stream.read(len(buffer))
        self.given += len(piece)
        if not bounds.grown(self.given, sent=self.sent):
            raise zlib.error(f"inflates to more than {bounds.GROWTH} times its size")
        buffer[: len(piece)] = piece
        return len(piece)


@contextmanager
def open_bytes(path: Path) -> Generator[io.BufferedReader]:
    """A file's bytes, unzipped where it begins as gzip does, whatever its name; a bomb reads as a damaged file."""
    try:
        opened = open_regular(path)
    except Refused as fault:
        raise OSError(f"{path}: {fault}") from None
    with opened as file:
        if file.read(2) != b"\x1f\x8b":
            file.seek(0)
            yield file
            return
        file.seek(0)
        with gzip.GzipFile(fileobj=file) as stream:
            counted = Inflated(cast(IO[bytes], stream), os.fstat(file.fileno()).st_size)
            yield io.BufferedReader(counted, 1 << 16)


@contextmanager
def open_archive(source: Path | bytes, *, most: int = bounds.ARCHIVE_BYTES) -> Generator[zipfile.ZipFile]:
    """A ZIP archive whose members are few, plainly named, each there once, and bounded in what they declare."""
    try:
        file = io.BytesIO(source) if isinstance(source, bytes) else open_regular(source)
        with file:
            sent = file.seek(0, os.SEEK_END)
            file.seek(0)
            if sent > most:
                raise Refused(f"is larger than the {most:,} bytes that such a file may have")
            with zipfile.ZipFile(file) as archive:
                check_members(archive, sent)
                yield archive
    except Refused:
        raise
    except FAULTS as fault:
        if isinstance(fault, OSError) and fault.errno is not None:
            raise
        raise Refused("is no whole archive") from None


def check_members(archive: zipfile.ZipFile, sent: int) -> None:
    members = archive.infolist()
    if len(members) > bounds.MEMBERS:
        raise Refused(f"holds more than {bounds.MEMBERS:,} files")
    if len({member.filename for member in members}) < len(members):
        raise Refused("holds a file twice")
    for member in members:
        if member.compress_type not in METHODS or member.flag_bits & 1:
            raise Refused("is packed in a way that is not read (encrypted, or by another method than deflate)")
    if not bounds.grown(sum(member.file_size for member in members), sent=sent):
        raise Refused(f"inflates to more than {bounds.GROWTH} times its size")
    if sum(member.compress_size for member in members) > sent:
        raise Refused("its files overlap")


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's bytes, exactly as many as it declares, by its checksum."""
    info = archive.getinfo(name)
    with archive.open(info) as file:
        data = file.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise Refused("holds a file that is not of its declared size")
    return data
