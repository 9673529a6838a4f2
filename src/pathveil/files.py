"""Files and folders written whole or not at all, JSON, hashes, and a folder that one process works in at a time.

A file or folder is written under a temporary name beside its place, flushed to disk and renamed. So a reader, or the
next run after a kill, finds the old content or the new one, never a part.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> write_json(folder / "a.json", {"words": 2})
>>> read_json(folder / "a.json"), sorted(path.name for path in folder.iterdir())
({'words': 2}, ['a.json'])
"""

import errno
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pathveil.errors import PathveilError, UsageError
from pathveil.untrusted import Refused, bounds, parse_json, parse_toml, read_bytes
from pathveil.untrusted.text import open_regular

MANIFEST, WORDS = "MANIFEST.json", "vocabulary.json"  # by which a model's folder is known
START = 4_096  # bytes in which a mark tells what made a file
FIRST_LINE = 1 << 16  # bytes that a pattern may need, of ids and paths as long as they come
YOUNG = 60  # seconds in which what is unfinished is left alone, whoever seems to own it


@contextmanager
def new_file(
    path: Path, *, private: bool = False, shared: bool = False, error: type[PathveilError] = UsageError
) -> Generator[Path]:
    """A temporary path to write to; it takes the place of ``path`` when the block ends well and vanishes otherwise.

    Each has a name of its own: of several that are written at once, the last to be whole stands. ``private``: only the
    owner may read it, from its first byte on. What a process that was killed left of this file goes at once, but for
    one that is ``shared``: processes of other machines may be writing it, see ``remove_leftovers``.
    """
    _check_no_folder(path, error)
    part = _unfinished(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in () if shared else _abandoned(path.parent, glob.escape(path.name)):
            left.unlink(missing_ok=True)
        if private:
            part.touch(mode=0o600)
        yield part
        _flush(part)
        os.replace(part, path)
    except OSError as fault:
        raise _unwritable(path, fault, error) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def scratch_file(path: Path) -> Generator[Path]:
    """A name beside ``path`` for content on its way there; whatever is written to it is gone when the block ends."""
    scratch = _unfinished(path)
    try:
        yield scratch
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def _unfinished(path: Path) -> Path:
    """A name that no other has for what is to become ``path``; it tells whose it is, see ``remove_leftovers``."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.{os.getpid()}.part")


@contextmanager
def new_folder(
    path: Path,
    *,
    private: bool = False,
    replace: bool = False,
    shared: bool = False,
    error: type[PathveilError] = UsageError,
) -> Generator[Path]:
    """A temporary folder to fill; it takes the place of ``path`` when the block ends well and vanishes otherwise.

    A folder that holds something already is refused, or with ``replace`` gives way when the new one is whole.
    ``private``: only the owner may open it. ``shared``: several processes may make this folder at once, all with the
    same content; the first one's stays.
    """
    if not replace and not shared:
        check_new(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, glob.escape(path.name))
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}-", suffix=".part", dir=path.parent))
    except OSError as fault:
        raise _unwritable(path, fault, error) from None
    held = _hold(part)
    try:
        if not private:
            part.chmod(0o777 & ~_umask())
        yield part
        if replace:
            _exchange(part, path)
        else:
            if path.exists():
                path.rmdir()
            os.replace(part, path)
    except OSError as fault:
        if not (shared and fault.errno in (errno.EEXIST, errno.ENOTEMPTY)):
            raise _unwritable(path, fault, error) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if held is not None:
            os.close(held)


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove what processes that were killed had half written in a folder, of the given name or pattern.

    An unfinished folder is held by the process that fills it, so one that can be held has nobody. An unfinished file
    has its process in its name; a disk may have processes of other machines, so it must be old.
    """
    for part in folder.glob(f".{name}-????????.part"):
        held = _hold(part) if part.is_dir() and _age(part) > YOUNG else None
        if held is not None:
            shutil.rmtree(part, ignore_errors=True)
            os.close(held)
    for part in _abandoned(folder, name):
        if _age(part) > YOUNG:
            part.unlink(missing_ok=True)


def _abandoned(folder: Path, name: str) -> list[Path]:
    """Unfinished files, of the given name or pattern, whose process this machine does not have."""
    found = [(part, part.name.split(".")[-2]) for part in folder.glob(f"{name}.*.part")]
    return [part for part, process in found if process.isdigit() and not _alive(int(process))]


def move_into(folder: Path, source: Path, names: Sequence[str]) -> None:
    """Move finished files and folders from ``source`` into ``folder``, each in the place of one of its name.

    The last of them is the mark that all are there: the old one goes first, the new one comes last.
    """
    (folder / names[-1]).unlink(missing_ok=True)
    for name in names:
        if not (source / name).exists():
            continue
        if (folder / name).is_dir():
            _exchange(source / name, folder / name)
        else:
            os.replace(source / name, folder / name)


def _exchange(new: Path, old: Path) -> None:
    """Put a folder in the place of another; a kill in between leaves the old one under a name beside it."""
    aside = new.with_name(f"{new.name}.before")
    if old.exists():
        os.replace(old, aside)
    os.replace(new, old)
    shutil.rmtree(aside, ignore_errors=True)


def check_outside(*outputs: str | Path | None) -> None:
    """Refuse to write into a model's folder: it opens only with the files of its manifest, and may be given away."""
    for out in outputs:
        place = None if out is None else Path(out).resolve()
        for folder in (place, *place.parents) if place else ():
            if (folder / MANIFEST).is_file() and (folder / WORDS).is_file():
                raise UsageError(f"{out}: lies in the model's folder {folder.name}; choose a place beside it")


def check_file(path: Path, *, renews: Sequence[bytes | re.Pattern[bytes]], reads: Iterable[Any] = ()) -> None:
    """Refuse, before any work, a place where a file may not be written.

    That is a name that is not UTF-8, a folder, a model's folder, one that cannot be written to, what is read meanwhile,
    and any file that the same command would not make: one of its own has a mark of ``renews`` near its beginning, or
    begins as a pattern of them says, and gives way to the new one, as an empty file does. ``reads``: see
    ``check_not_read``.
    """
    _check_name(path)
    check_outside(path)
    _check_no_folder(path, UsageError)
    check_writable(path.parent)
    check_not_read(path, reads)
    if path.exists() and not _is_one_of(path, renews):
        raise UsageError(f"{path}: is there already, and is no file that this makes; choose another name")


def check_not_read(path: Path, reads: Iterable[Any]) -> None:
    """Refuse to write over a file that is read; ``reads`` are sources of any kind, of which paths count."""
    given = [one for source in reads for one in (source if isinstance(source, list | tuple) else [source])]
    for one in given if path.exists() else ():
        if isinstance(one, str | Path) and Path(one).exists() and path.samefile(one):
            raise UsageError(f"{path}: is among what is read; choose another name")


def _check_name(path: Path) -> None:
    if name_of(path) != str(path):
        raise UsageError(f"{path}: is not UTF-8; choose another name")


def _check_no_folder(path: Path, error: type[PathveilError]) -> None:
    if path.is_dir():
        raise error(f"{path}: is a folder; expected the name of a file to write")


def _is_one_of(path: Path, marks: Sequence[bytes | re.Pattern[bytes]]) -> bool:
    """Whether a file has one of the marks near its beginning, begins as a pattern says, or is empty."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(FIRST_LINE)
    except OSError:
        return False
    return not start or any(
        mark in start[:START] if isinstance(mark, bytes) else mark.match(start) is not None for mark in marks
    )


def check_new(path: Path) -> None:
    """Refuse a name that is taken, is not UTF-8, or lies in a model's folder; an empty folder is not taken."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path}: is there already; choose another name, or remove it first")
    _check_name(path)
    check_outside(path)


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written, or is a model's, before hours of work whose result would go there."""
    check_outside(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; expected a folder")
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise UsageError(f"{folder}: cannot be written to; choose another folder")


def name_of(path: str | Path) -> str:
    """A path as text to write somewhere: a file's name need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    with new_file(path, private=private) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any, *, private: bool = False) -> None:
    """``content`` as indented JSON; a number that JSON does not know, such as NaN, is a defect of the caller."""
    write_text(path, json_text(content), private=private)


def json_text(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"


def read_json(path: Path, *, error: type[PathveilError] = UsageError) -> dict[str, Any]:
    """The object in a JSON file; anything else is refused in one sentence."""
    try:
        content = parse_json(read_bytes(path))
    except OSError as fault:
        raise error(f"{path}: cannot be read ({fault.strerror or type(fault).__name__})") from None
    except Refused as fault:
        raise error(f"{path}: {fault}") from None
    if not isinstance(content, dict):
        raise error(f"{path}: expected a JSON object")
    return content


def read_toml(path: Path, *, expected: str) -> dict[str, Any]:
    """The content of a TOML file; ``expected`` says in a sentence what it should have been, such as "a study file"."""
    try:
        return parse_toml(read_bytes(path, most=bounds.SMALL_BYTES))
    except OSError as fault:
        why = fault.strerror or type(fault).__name__
        raise UsageError(f"{path}: cannot be read ({why}); expected {expected} in TOML") from None
    except Refused as fault:
        raise UsageError(f"{path}: {fault}; expected {expected}") from None


def sha256_of_file(path: Path) -> str:
    """What ``sha256sum`` prints; of a file, since a device or a pipe may never end."""
    try:
        opened = open_regular(path)
    except Refused as fault:
        raise UsageError(f"{path}: {fault}") from None
    with opened as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(content: Any) -> str:
    """A hash of what determines something; the order of names does not count.

    >>> sha256_of_json({"a": 1, "b": 2}) == sha256_of_json({"b": 2, "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def claimed(path: Path) -> Generator[None]:
    """An empty file that no other process has made, to be written last; it vanishes where the block does not end well.

    It makes one thing of several files of a folder: a second process that is to write them is refused.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(exist_ok=False)
    except FileExistsError:
        raise UsageError(f"{path}: another process is writing it, or has; choose another folder") from None
    except OSError as fault:
        raise _unwritable(path, fault, UsageError) from None
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def only_process(folder: Path) -> Generator[None]:
    """Hold a folder, made where it is missing, so that no second process works in it.

    The hold ends with the process, however it ends. A folder in which nothing came to be is removed again.
    """
    from filelock import FileLock, Timeout

    new = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    try:
        lock = FileLock(path).acquire(blocking=False)
    except Timeout:
        raise UsageError(f"{folder}: another process is working in this folder; wait for it, or stop it") from None
    with lock:
        try:
            yield
        finally:
            if [*folder.iterdir()] == [path]:
                path.unlink()
                for place in new:
                    place.rmdir()


def _hold(folder: Path) -> int | None:
    """Hold a folder for this process, which the system ends with it; none where another does, or where none can."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        opened = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def _age(path: Path) -> float:
    """Seconds since it was changed."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _flush(path: Path) -> None:
    """Have the content on the disk before it gets its name: after a power cut the name must not stand for less."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _unwritable(path: Path, fault: OSError, error: type[PathveilError]) -> PathveilError:
    return error(f"{path}: cannot be written ({fault.strerror or type(fault).__name__})")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
