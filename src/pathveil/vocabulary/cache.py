"""List and clear the caches of corpora: their tokens, and their ids in a vocabulary.

A cache has every word of its reports, so it is as private as they are. A cleared cache is made again when it is needed.
Other files in its folder are never touched.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "reports.parquet").write_bytes(b"")
>>> (folder / "reports.parquet.pathveil" / ("tokens-" + "0" * 24)).mkdir(parents=True)
>>> show_cache([folder / "reports.parquet"]).folders[0].stores, clear_cache([folder / "reports.parquet"]).removed
(1, True)
>>> [path.name for path in folder.iterdir()]
['reports.parquet']
"""

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pathveil.corpus.tables.files import names_of
from pathveil.errors import UsageError
from pathveil.formatting import counted
from pathveil.results import Part, Result
from pathveil.vocabulary.tokens import BESIDE, beside, users_cache

# A corpus's tokens, its ids in a vocabulary, and what a killed run left of either.
OURS = re.compile(r"\.?(?:tokens-[0-9a-f]{24}(?:-\w+)?|ids-[0-9a-f]{24}\.(?:npy|json)(?:\.\w+)*)")


class CacheFolder(Part):
    """The cache in a folder."""

    folder: str
    stores: int
    bytes: int


class CacheResult(Result):
    """The caches of some corpora, or what was removed of them."""

    folders: list[CacheFolder]
    removed: bool
    looked_at: list[str]  # where one may lie

    def rows(self) -> list[dict[str, Any]]:
        return [folder.to_dict() for folder in self.folders]

    def summary(self) -> str:
        if not self.folders:
            return f"there is no cache in {names_of(self.looked_at)}"
        did = "removed " if self.removed else ""
        lines = [
            f"{one.folder}: {did}{counted(one.stores, 'entry', 'entries')}, {one.bytes / 2**20:,.1f} MiB"
            for one in self.folders
        ]
        if not self.removed:
            lines.append("A cache has words of reports and is as private as they are; --clear removes it.")
        return "\n".join(lines)


def show_cache(corpora: Sequence[Path] = ()) -> CacheResult:
    """List the caches beside corpora, or without any the user's cache."""
    places = list_folders(corpora)
    folders = [cache for cache in map(measure, places) if cache.stores]
    return CacheResult(folders=folders, removed=False, looked_at=list(map(str, places)))


def clear_cache(corpora: Sequence[Path] = ()) -> CacheResult:
    """Remove what ``show_cache`` shows, and a folder that is then empty."""
    shown = show_cache(corpora)
    for cache in shown.folders:
        folder = Path(cache.folder)
        for entry in list_entries(folder):
            try:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
            except OSError as error:
                raise UsageError(f"{entry}: cannot be removed ({type(error).__name__}); it is still there") from None
        with suppress(OSError):  # it holds something else
            folder.rmdir()
    return CacheResult(folders=shown.folders, removed=True, looked_at=shown.looked_at)


def list_folders(corpora: Sequence[Path]) -> list[Path]:
    """List the folders that may have a cache: beside each corpus, and of a folder beside each of its files.

    A corpus may be gone, and its cache not.
    """
    if not corpora:
        return [users_cache()]
    folders: dict[Path, None] = {}
    for path in corpora:
        is_cache = path.name.endswith(BESIDE) and path.is_dir()
        places = [path.resolve()] if is_cache else [beside(path)]
        if path.is_dir() and not is_cache:
            places += [one for one in sorted(path.resolve().glob(f"*{BESIDE}")) if one.is_dir()]
        if not path.exists() and not places[0].is_dir():
            raise UsageError(f"{path}: there is no such corpus")
        folders |= dict.fromkeys(places)
    return list(folders)


def list_entries(folder: Path) -> list[Path]:
    """List the files and folders of a cache; all others stay out of it."""
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if OURS.fullmatch(path.name) and not path.is_symlink()]


def measure(folder: Path) -> CacheFolder:
    """Count the entries of a folder's cache, and their bytes."""
    entries = list_entries(folder)
    files = [file for entry in entries for file in ([entry] if entry.is_file() else entry.rglob("*")) if file.is_file()]
    stores = sum(entry.suffix != ".json" for entry in entries)
    return CacheFolder(folder=str(folder), stores=stores, bytes=sum(file.stat().st_size for file in files))
