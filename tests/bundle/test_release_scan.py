"""The search through a release: planted names, ids, pieces of text and caches are found in every kind of file."""

import shutil

import polars as pl
import pytest

from bundle.conftest import people
from pathveil.bundle.release_folder import files_of
from pathveil.bundle.release_scan import read_names, scan_release
from pathveil.errors import BundleError, UsageError
from pathveil.vocabulary import Vocabulary
from pathveil.vocabulary.selection import select_words

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


BLOCKS, CODES = " ".join(f"C{number}" for number in range(10, 22)), [f"C{number}" for number in range(15, 21)]


@pytest.fixture
def listing(corpus, tmp_path):
    """The reports, of which one lists its blocks and counts what they hold."""
    frame = pl.read_parquet(corpus)
    text = pl.lit(f"Blocks: {BLOCKS}. 1021 1150 2033 1480 1771 1262 1133 g, 1 2 3 4 5 6 7 mm.")
    listed = pl.when(pl.col("report_id") == "r7").then(text).otherwise("text").alias("text")
    frame.with_columns(listed).write_parquet(tmp_path / "listing.parquet")
    return tmp_path / "listing.parquet"


def test_words_labels_and_numbers_of_a_model_are_no_piece_of_a_report(copy, listing, expected):
    select_words(listing, "cases >= 1").save(copy / "vocabulary.json")
    card = "\n".join([", ".join(CODES), "8010, 8013, 8140, 8500, 8520, 8522", "1 2 3 4 5 6"])
    (copy / "card.md").write_text(card)
    scan_release(copy, expected=expected, reports=listing, labels=[CODES])
    with pytest.raises(BundleError, match=r"card\.md: holds 1 pieces of reports"):
        scan_release(copy, expected=expected, reports=listing)


def test_words_of_the_list_that_a_report_has_in_a_row_are_named(copy, listing, expected):
    Vocabulary(tuple(sorted(BLOCKS.lower().split())), method="by hand").save(copy / "vocabulary.json")
    with pytest.raises(
        BundleError, match=r"holds 7 pieces of reports .* 'c10 c11 c12 c13 c14 c15' \(report r7\)"
    ) as raised:
        scan_release(copy, expected=expected, reports=listing)
    assert str(raised.value).count("(report r7)") == 3


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
