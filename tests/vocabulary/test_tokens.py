"""The token store: right, cached by content, safe with two processes, never stale, never where it may not write."""

import fcntl
import json
import os
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pathveil.corpus import content_sha256, scan, validate
from pathveil.errors import CorpusError, UsageError
from pathveil.files import sha256_of_file
from pathveil.text.tokenizer import settings, tokenize
from pathveil.vocabulary import tokens as module
from pathveil.vocabulary.encoding import encode
from pathveil.vocabulary.tokens import cache_folder, case_number, tokens
from pathveil.vocabulary.words import Vocabulary


def corpus_of(path: Path, texts: list[str], **columns) -> Path:
    count = len(texts)
    table = {
        "report_id": [f"r{number}" for number in range(count)],
        "case_id": [f"c{number // 2}" for number in range(count)],
        "registry": [f"R{3 - number % 3}" for number in range(count)],
        "text": texts,
    }
    pl.DataFrame(table | columns).write_parquet(path)
    return path


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("PATHVEIL_CACHE", raising=False)
    return corpus_of(tmp_path / "reports.parquet", ["Left breast", "breast, left breast pT2", "...", "colon 8140/3"])


def reports(store) -> list[list[str]]:
    return [[store.words[i] for i in store.ids[a:b]] for a, b in pairwise(store.offsets)]


def test_holds_the_tokens_the_cases_and_the_registries(corpus):
    store = tokens(corpus)
    assert reports(store) == [tokenize(text) for text in pl.read_parquet(corpus)["text"]]
    assert list(store.words) == sorted(set(store.words))
    assert [store.registry_names[i] for i in store.registries] == ["R3", "R2", "R1", "R3"]
    assert store.registry_names == ("R1", "R2", "R3")
    assert store.cases.tolist() == [case_number(case) for case in ("c0", "c0", "c1", "c1")]
    assert store.provenance == {"corpus_sha256": content_sha256(corpus), "text": settings()}


def test_a_corpus_of_many_batches_and_files(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 7)
    monkeypatch.setattr(module, "BLOCK", 11)
    texts = [f"word{number % 17} left {number % 5}" for number in range(100)]
    ids = [f"x{number}" for number in range(50)]
    one = corpus_of(tmp_path / "a.parquet", texts[:50])
    two = corpus_of(tmp_path / "b.parquet", texts[50:], report_id=ids)
    assert reports(tokens([one, two])) == [tokenize(text) for text in texts]


def test_is_made_once_beside_the_corpus_for_its_owner_only(corpus, monkeypatch):
    first = tokens(corpus)
    folder = corpus.with_name("reports.parquet.pathveil")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setattr(module, "_build", lambda *_, **__: pytest.fail("tokenised again"))
    again = tokens(corpus)
    assert np.array_equal(first.ids, again.ids) and isinstance(again.ids, np.memmap)


def test_a_changed_corpus_or_setting_is_never_served_the_old_tokens(corpus):
    tokens(corpus)
    clipped = tokens(corpus, words=1)
    assert reports(clipped)[1] == ["breast"] and "pt2" not in clipped.words
    corpus_of(corpus, ["another text"])
    assert reports(tokens(corpus)) == [["another", "text"]]


@pytest.mark.parametrize("harm", ["cut", "missing", "json", "words", "zeros", "wild", "link"])
def test_a_damaged_store_is_made_again(corpus, harm):
    before = reports(tokens(corpus))
    (folder,) = corpus.with_name("reports.parquet.pathveil").glob("tokens-*")
    if harm == "cut":
        (folder / "ids.npy").write_bytes((folder / "ids.npy").read_bytes()[:-8])
    elif harm == "missing":
        (folder / "offsets.npy").unlink()
    elif harm == "json":
        (folder / "tokens.json").write_text("{")
    elif harm == "words":
        (folder / "words.txt").write_text("left\n")
    elif harm == "zeros":  # what a power cut leaves of pages that were never written
        whole = (folder / "ids.npy").read_bytes()
        (folder / "ids.npy").write_bytes(whole[:128] + bytes(len(whole) - 128))
    elif harm == "wild":  # with a matching hash: it would be followed out of the table
        whole = bytearray((folder / "ids.npy").read_bytes())
        whole[-4:] = (2_000_000_000).to_bytes(4, "little")
        (folder / "ids.npy").write_bytes(whole)
        about = json.loads((folder / "tokens.json").read_text())
        about["files"]["ids.npy"] = sha256_of_file(folder / "ids.npy")
        (folder / "tokens.json").write_text(json.dumps(about))
    else:
        (folder / "ids.npy").unlink()
        (folder / "ids.npy").symlink_to("/dev/zero")
    assert reports(tokens(corpus)) == before


def test_damaged_word_ids_are_made_again(corpus):
    words = Vocabulary(("breast", "left"), "by hand")
    before = np.array(encode(corpus, words).ids)
    (path,) = corpus.with_name("reports.parquet.pathveil").glob("ids-*.npy")
    whole = path.read_bytes()
    for harm in (whole[:128] + bytes(len(whole) - 128), whole[:-4], b""):
        path.write_bytes(harm)
        np.testing.assert_array_equal(encode(corpus, words).ids, before)


def test_what_killed_writers_left_is_removed_and_nobody_elses(corpus):
    tokens(corpus)
    root = corpus.with_name("reports.parquet.pathveil")
    dead, young, mine = (root / f".tokens-{name}-abcdefgh.part" for name in ("dead", "young", "mine"))
    for folder in (dead, young, mine, root / ".tokens-backup"):
        folder.mkdir()
        (folder / "ids.raw").write_bytes(b"half")
    (root / "ids-1.npy.999999999.part").write_bytes(b"half")
    held = os.open(mine, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # as a process that is at work does
    for path in (dead, mine, root / ".tokens-backup", root / "ids-1.npy.999999999.part"):
        os.utime(path, (0, 0))
    try:
        tokens(corpus)
    finally:
        os.close(held)
    assert not dead.exists() and not (root / "ids-1.npy.999999999.part").exists()
    assert young.exists() and mine.exists() and (root / ".tokens-backup").exists()


def test_a_full_disk_is_one_sentence_and_leaves_nothing(corpus):
    """Files may not grow beyond a few kilobytes, as on a full disk: no signal, nothing half written."""
    corpus_of(corpus, [" ".join(f"word{number}" for number in range(900)) for _ in range(40)])
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pathlib import Path\nfrom pathveil.errors import PathveilError\n"
        "from pathveil.vocabulary.tokens import tokens\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try: tokens(Path(sys.argv[1]))\nexcept PathveilError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(corpus)], capture_output=True, text=True)
    assert done.returncode == 0 and "cannot be written (File too large)" in done.stdout, done.stderr
    assert not corpus.with_name("reports.parquet.pathveil").exists()


def test_a_read_only_folder_is_left_alone_even_for_root(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.parent / "home"))
    data = tmp_path / "data"
    data.mkdir()
    moved = corpus.rename(data / corpus.name)
    data.chmod(0o555)
    try:
        tokens(moved)
        assert [path.name for path in data.iterdir()] == ["reports.parquet"]
        assert list((tmp_path.parent / "home" / "pathveil").glob("tokens-*"))
    finally:
        data.chmod(0o755)


def test_the_environment_names_the_place(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("PATHVEIL_CACHE", str(tmp_path / "elsewhere"))
    tokens(corpus)
    assert list((tmp_path / "elsewhere").glob("tokens-*"))
    assert not corpus.with_name("reports.parquet.pathveil").exists()
    monkeypatch.setenv("PATHVEIL_CACHE", str(corpus))
    with pytest.raises(UsageError, match="PATHVEIL_CACHE"):
        cache_folder(corpus)


def test_a_folder_of_reports_is_cached_beside_the_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("PATHVEIL_CACHE", raising=False)
    (tmp_path / "many").mkdir()
    corpus_of(tmp_path / "many" / "a.parquet", ["left"])
    tokens(tmp_path / "many")
    tokens(tmp_path / "many")  # the cache is no part of the corpus
    assert (tmp_path / "many.pathveil").is_dir()


def test_a_bad_corpus_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.delenv("PATHVEIL_CACHE", raising=False)
    bad = corpus_of(tmp_path / "bad.parquet", ["left", " "])
    with pytest.raises(CorpusError, match="text"):
        tokens(bad)
    assert not (tmp_path / "bad.parquet.pathveil").exists()


def test_two_processes_at_once(tmp_path):
    texts = [f"word{number % 997} left {number}" for number in range(6000)]
    corpus = corpus_of(tmp_path / "reports.parquet", texts)
    code = "import sys; from pathveil.vocabulary.tokens import tokens; print(len(tokens(sys.argv[1]).ids))"
    environment = {name: value for name, value in os.environ.items() if name != "PATHVEIL_CACHE"}
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(corpus)], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=900)[0].strip() for process in running] == ["18000", "18000"]
    left = [path.name for path in corpus.with_name("reports.parquet.pathveil").iterdir()]
    assert len(left) == 1 and left[0].startswith("tokens-")


def test_progress_and_provenance_are_plain(corpus):
    seen = []
    tokens(corpus, progress=lambda *step: seen.append(step))
    assert seen[-1] == ("tokenising reports", 4, 4)
    (folder,) = corpus.with_name("reports.parquet.pathveil").glob("tokens-*")
    assert sorted(json.loads((folder / "tokens.json").read_text())["files"]) == sorted(
        path.name for path in folder.iterdir() if path.suffix != ".json"
    )


def test_long_texts_are_taken_a_few_at_a_time(corpus, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)
    monkeypatch.setattr(module, "HEAVY", 20)
    sizes = [batch.height for batch in module._batches(validate(scan(corpus)))]
    assert sum(sizes) == 4 and max(sizes) < 4
    assert reports(tokens(corpus)) == [tokenize(text) for text in pl.read_parquet(corpus)["text"]]
