"""What is kept of a corpus is found, counted and removed; nothing else in the folder is."""

import os
import sys

import polars as pl
import pytest

from pathveil.cli import main
from pathveil.errors import UsageError
from pathveil.vocabulary import Vocabulary
from pathveil.vocabulary.cache import clear_cache, show_cache
from pathveil.vocabulary.encoding import encode
from pathveil.vocabulary.tokens import tokens, users_cache


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.delenv("PATHVEIL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    path = tmp_path / "data" / "reports.parquet"
    path.parent.mkdir()
    row = {"report_id": ["a"], "case_id": ["1"], "registry": ["R1"], "text": ["left breast zebrowska"]}
    pl.DataFrame(row).write_parquet(path)
    return path


def test_shown_and_removed(corpus):
    encode(corpus, Vocabulary(words=("left",), method="by hand"))
    folder = corpus.with_name("reports.parquet.pathveil")
    (folder / "mine.txt").write_text("not yours")
    shown = show_cache([corpus])
    assert [(one.folder, one.stores) for one in shown.folders] == [(str(folder), 2)] and shown.folders[0].bytes > 100
    assert "zebrowska" not in shown.summary() and "words of reports" in shown.summary()
    assert clear_cache([corpus]).folders == shown.folders
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    (folder / "mine.txt").unlink()
    tokens(corpus)  # made again
    clear_cache([corpus])
    assert not folder.exists() and corpus.exists() and show_cache([corpus]).folders == []
    with pytest.raises(UsageError, match="no such corpus"):
        show_cache([corpus.with_name("none")])


def test_what_is_kept_is_found_by_a_folder_by_its_own_name_and_without_its_corpus(corpus):
    """Whoever removes reports must be able to remove their words, and is never told that there are none."""
    other = corpus.with_name("other.parquet")
    pl.read_parquet(corpus).with_columns(report_id=pl.lit("b")).write_parquet(other)
    tokens(corpus), tokens(other), tokens(corpus.parent)
    beside = [path.with_name(f"{path.name}.pathveil") for path in (corpus.parent, other, corpus)]
    assert [one.folder for one in show_cache([corpus.parent, corpus]).folders] == list(map(str, beside))
    assert [one.folder for one in show_cache([beside[1]]).folders] == [str(beside[1])]
    corpus.unlink()
    assert [one.folder for one in clear_cache([corpus]).folders] == [str(beside[2])] and not beside[2].exists()
    clear_cache([corpus.parent])
    assert not any(path.exists() for path in beside) and other.exists()
    assert show_cache([other]).summary() == f"there is no cache in {beside[1]}"


def test_what_cannot_be_removed_is_not_called_removed(corpus, monkeypatch):
    tokens(corpus)

    def refused(*_, **__):
        raise PermissionError

    monkeypatch.setattr("shutil.rmtree", refused)
    with pytest.raises(UsageError, match=r"tokens-\w+: cannot be removed \(PermissionError\)"):
        clear_cache([corpus])


def test_a_folder_that_cannot_be_written_to(corpus):
    corpus.parent.chmod(0o500)
    try:
        tokens(corpus)
        assert [path.name for path in corpus.parent.iterdir()] == ["reports.parquet"]
        (kept,) = show_cache().folders
        assert kept.folder.endswith("home/pathveil") and kept.stores == 1
        clear_cache()
        assert show_cache().folders == []
    finally:
        corpus.parent.chmod(0o700)


def test_another_place_by_option_or_variable(corpus, tmp_path, monkeypatch, capsys):
    def pathveil(*arguments) -> str:
        monkeypatch.setattr(sys, "argv", ["pathveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, capsys.readouterr().err
        return capsys.readouterr().out

    monkeypatch.setenv("PATHVEIL_CACHE", "")  # put back when the test ends
    elsewhere = tmp_path / "elsewhere"
    pathveil("--cache", elsewhere, "vocab", "count", corpus, "--out", tmp_path / "c.npz")
    assert os.environ["PATHVEIL_CACHE"] == str(elsewhere) and any(elsewhere.iterdir())
    assert not corpus.with_name("reports.parquet.pathveil").exists()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert users_cache() == elsewhere  # put there by the option
    pathveil("--cache=~/words", "cache")  # a shell leaves such a sign as it is
    assert os.environ["PATHVEIL_CACHE"] == str(tmp_path / "home" / "words")
    monkeypatch.setenv("PATHVEIL_CACHE", "~/mine")
    assert users_cache() == tmp_path / "home" / "mine"
    monkeypatch.setenv("PATHVEIL_CACHE", str(elsewhere))
    assert "1 entry" in pathveil("cache") and "removed 1 entry" in pathveil("cache", "--clear")
    assert "there is no cache" in pathveil("cache")
