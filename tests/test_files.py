"""Files and folders: whole or not at all, one process at a time."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pathveil.errors import CorpusError, UsageError
from pathveil.files import (
    MANIFEST,
    WORDS,
    check_file,
    check_new,
    check_writable,
    move_into,
    new_file,
    new_folder,
    only_process,
    read_json,
    read_toml,
    scratch_file,
    sha256_of_file,
    write_json,
    write_text,
)


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError), new_file(path) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_tidies_up(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    code = (
        "import sys, time; from pathlib import Path; from pathveil.files import new_file\n"
        "with new_file(Path(sys.argv[1])) as part: part.write_text('half'); print('now', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "now\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new" and [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_a_private_file_is_its_owners_alone_from_the_first_byte(tmp_path):
    with new_file(tmp_path / "key", private=True) as part:
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        part.write_text("secret")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_of_two_that_write_one_file_at_once_the_last_stands_whole(tmp_path):
    path = tmp_path / "codes.csv"
    with new_file(path) as second:
        with new_file(path) as first:
            first.write_text("first, whole")
            second.write_text("second")
        assert path.read_text() == "first, whole"
        second.write_text("second, whole")
    assert path.read_text() == "second, whole" and list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CorpusError, match=r"a\.txt: cannot be written"),
        new_file(tmp_path / "file" / "a.txt", error=CorpusError),
    ):
        pass
    with pytest.raises(UsageError, match="cannot be written"), new_folder(tmp_path / "file" / "folder"):
        pass
    for folder in (tmp_path, Path()):
        with pytest.raises(UsageError, match="is a folder; expected the name of a file"), new_file(folder):
            pass
    with pytest.raises(UsageError, match="is a file; expected a folder"):
        check_writable(tmp_path / "file")
    check_writable(tmp_path / "new" / "deeper")


def test_a_file_gives_way_only_to_one_of_its_kind(tmp_path):
    """The one rule about where a command may write, asked before any work."""
    mine, theirs, empty = (tmp_path / name for name in ("a.json", "appetite.toml", "empty"))
    mine.write_text('{"format": "mine/1"}')
    theirs.write_text("release = 'weights'")
    empty.touch()
    (tmp_path / "model" / "deep").mkdir(parents=True)
    for name in (MANIFEST, WORDS):
        (tmp_path / "model" / name).write_text("{}")
    for path in (mine, empty, tmp_path / "new.json", tmp_path / "new folder" / "a.json"):
        check_file(path, renews=[b'"mine/1"'], reads=[theirs, None, 3])
    check_file(mine, renews=[re.compile(rb'\{"format"')])
    with pytest.raises(UsageError, match="is no file that this makes"):
        check_file(mine, renews=[re.compile(b'"format"')])  # a pattern speaks of the very beginning
    refused = {
        theirs: "appetite.toml: is there already, and is no file that this makes; choose another name",
        tmp_path: "is a folder; expected the name of a file to write",
        tmp_path / "model" / "deep" / "a.json": "lies in the model's folder model; choose a place beside it",
        tmp_path / "model" / WORDS: "lies in the model's folder model; choose a place beside it",
        mine / "a.json": "is a file; expected a folder",
        tmp_path / "\udcff.json": "is not UTF-8; choose another name",
    }
    for path, sentence in refused.items():
        with pytest.raises(UsageError, match=sentence):
            check_file(path, renews=[b'"mine/1"'])
    for reads in ([mine], [[theirs, str(mine)]]):
        with pytest.raises(UsageError, match=r"a\.json: is among what is read; choose another name"):
            check_file(mine, renews=[b'"mine/1"'], reads=reads)
    for refuse in (check_new, check_writable):
        with pytest.raises(UsageError, match="lies in the model's folder model"):
            refuse(tmp_path / "model" / "new")


def test_a_folder_comes_whole_and_takes_the_place_of_an_empty_one_only(tmp_path):
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out") as part:
        (part / "a").write_text("1")
    mode = stat.S_IMODE((tmp_path / "out").stat().st_mode)
    (tmp_path / "plain").mkdir()
    assert mode == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    with pytest.raises(UsageError, match="is there already"), new_folder(tmp_path / "out"):
        pass
    with pytest.raises(UsageError, match="is there already"):
        check_new(tmp_path / "out" / "a")
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "other") as part:
        (part / "a").write_text("1")
        raise ZeroDivisionError
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out", "plain"]
    with new_folder(tmp_path / "private", private=True):
        pass
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700


def test_a_folder_gives_way_when_the_new_one_is_whole_and_not_before(tmp_path):
    for content in ("old", "new"):
        with new_folder(tmp_path / "out", replace=True) as part:
            (part / content).write_text(content)
            assert content == "old" or (tmp_path / "out" / "old").exists()
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "out", replace=True) as part:
        raise ZeroDivisionError
    assert [one.name for one in tmp_path.rglob("*")] == ["out", "new"]


def test_of_processes_that_make_the_same_folder_the_first_ones_stays(tmp_path):
    with new_folder(tmp_path / "out", shared=True) as first, new_folder(tmp_path / "out", shared=True) as second:
        (first / "a").write_text("first")
        (second / "a").write_text("second")
    assert (tmp_path / "out" / "a").read_text() == "second"  # whose block ended first
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_files_that_move_together_are_marked_by_the_last(tmp_path):
    for folder, content in (("new", "2"), ("old", "1")):
        for name in ("a", "cache/b", "mark"):
            write_text(tmp_path / folder / name, content)
    move_into(tmp_path / "old", tmp_path / "new", ("a", "cache", "not there", "mark"))
    there = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert there == {"old/a": "2", "old/cache/b": "2", "old/mark": "2"}


def test_scratch_is_gone_however_its_block_ends(tmp_path):
    with pytest.raises(ZeroDivisionError), scratch_file(tmp_path / "a") as scratch:
        scratch.write_text("on its way")
        raise ZeroDivisionError
    with scratch_file(tmp_path / "a"):
        pass
    assert not list(tmp_path.iterdir())


def test_json_comes_back_and_what_is_no_object_is_refused(tmp_path):
    write_json(tmp_path / "a.json", {"ä": [1, None, True]})
    assert read_json(tmp_path / "a.json") == {"ä": [1, None, True]}
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert read_json(tmp_path / "a.json") == {"ä": [1, None, True]}
    for content in ("[1]", "{", "[" * 100_000):
        (tmp_path / "b.json").write_text(content)
        with pytest.raises(
            CorpusError, match=r"b\.json: (cannot be read as JSON|expected a JSON object|is nested more than 64)"
        ):
            read_json(tmp_path / "b.json", error=CorpusError)
    with pytest.raises(UsageError, match="No such file"):
        read_json(tmp_path / "none.json")


def test_toml_that_is_none_is_one_sentence(tmp_path):
    (tmp_path / "a.toml").write_text("name = 'x'\n[corpus]\nreports = 3\n")
    assert read_toml(tmp_path / "a.toml", expected="a study file") == {"name": "x", "corpus": {"reports": 3}}
    for content in (b"name = x", b"\xff\xfe", b"a = " + b"[" * 5000 + b"]" * 5000):
        (tmp_path / "b.toml").write_bytes(content)
        with pytest.raises(UsageError, match=r"b\.toml: is (not TOML|nested more than 64).*; expected a study file"):
            read_toml(tmp_path / "b.toml", expected="a study file")
    with pytest.raises(UsageError, match=r"cannot be read .*; expected a study file in TOML"):
        read_toml(tmp_path / "none.toml", expected="a study file")


def test_the_hash_is_that_of_sha256sum(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")  # the first example of FIPS 180-2
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of_file(tmp_path / "a") == expected


def test_one_process_works_in_a_folder_until_it_ends_however_it_ends(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from pathveil.files import only_process\n"
        "with only_process(Path(sys.argv[1])): print('mine', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path / "run"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "mine\n"
    with pytest.raises(UsageError, match="another process is working"), only_process(tmp_path / "run"):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    with only_process(tmp_path / "run"):
        (tmp_path / "run" / "a").write_text("")
    assert (tmp_path / "run").exists()


def test_a_folder_in_which_nothing_came_to_be_is_removed(tmp_path):
    with only_process(tmp_path / "a" / "run"):
        pass
    assert not (tmp_path / "a").exists()


def test_processes_that_write_one_shared_file_at_once_leave_a_whole_one(tmp_path):
    code = (
        "import sys; from pathlib import Path; from pathveil.files import new_file\n"
        "for n in range(40):\n"
        "    with new_file(Path(sys.argv[1]), shared=True) as part: part.write_text(sys.argv[2] * 10_000)"
    )
    path = tmp_path / "a"
    processes = [subprocess.Popen([sys.executable, "-c", code, path, letter]) for letter in "abc"]
    while any(process.poll() is None for process in processes):
        if path.exists():
            assert len(path.read_text()) == 10_000
        time.sleep(0.01)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert os.listdir(tmp_path) == ["a"] and len(set(path.read_text())) == 1
