"""The search through a release: planted names, ids, pieces of text and caches are found in every kind of file."""

import shutil

import polars as pl
import pytest

from bundle.conftest import people
from pathveil.bundle.release_folder import files_of
from pathveil.bundle.release_scan import read_names, scan_release
from pathveil.errors import BundleError, UsageError

KINDS = ["card.md", "release.json", "audit.html", "appetite.toml", "model.sig", "model.safetensors", "vocabulary.json"]


@pytest.fixture
def copy(released, tmp_path):
    return shutil.copytree(released, tmp_path / "copy")


@pytest.fixture(scope="module")
def expected(bundle):
    from bundle.conftest import evidence_for

    return files_of("weights", evidence_for(bundle))


def test_a_clean_release_is_searched_whole(released, corpus, expected):
    found = scan_release(released, expected=expected, reports=corpus, names=["Quillfeather", "Zebedee Smith"])
    assert (found.files, found.reports, found.names) == (len(list(released.iterdir())), 160, 2)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_planted_is_found_in_every_kind_of_file(copy, corpus, expected, name):
    path, report = copy / name, pl.read_parquet(corpus).row(7, named=True)
    first, _ = people(7)
    before = path.read_bytes()
    planted = {
        "names that may not leave": first,
        "ids of reports or cases": f" {report['case_id']} ",
        "pieces of reports": " ".join(report["text"].split()[6:16]),
    }
    for told, secret in planted.items():
        path.write_bytes(before + b"\n" + secret.encode() + b"\n")
        with pytest.raises(BundleError, match=f"{name}.*: holds .*{told}") as raised:
            scan_release(copy, expected=expected, reports=corpus, names=[first])
        assert first not in str(raised.value) and report["case_id"] not in str(raised.value)
    path.write_bytes(before)
    scan_release(copy, expected=expected, reports=corpus, names=[first])


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (lambda folder: (folder / "cache.npy").write_bytes(b"x"), r"cache\.npy: has no place in a release"),
        (lambda folder: (folder / ".hidden").write_bytes(b"x"), r"\.hidden: has no place"),
        (lambda folder: (folder / "reports.pathveil").mkdir(), "is a link or a folder"),
        (lambda folder: (folder / "card.md").write_bytes(b"PAR1 table"), r"card\.md: is a Parquet table"),
        (lambda folder: (folder / "card.md").write_bytes(b"\x80\x04 x"), r"card\.md: is a pickle"),
        (lambda folder: (folder / "card.md").write_text("see /home/anna/reports"), "path of somebody's home folder"),
    ],
)
def test_caches_and_foreign_files_have_no_place(copy, expected, place, said):
    place(copy)
    with pytest.raises(BundleError, match=said):
        scan_release(copy, expected=expected)


def test_a_list_of_names_is_read(tmp_path):
    (tmp_path / "names.txt").write_text("Kowalski\n\n Smith \nLi\nSmith\n")
    assert read_names(tmp_path / "names.txt") == ["Kowalski", "Smith"]
    (tmp_path / "short.txt").write_text("Li\n")
    for path in (tmp_path / "short.txt", tmp_path / "none.txt"):
        with pytest.raises(UsageError, match=r"one (name )?a line"):
            read_names(path)
