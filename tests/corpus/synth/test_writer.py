"""The synthetic corpus: repeatable on every machine, its truth exact, its mistakes one sentence."""

import hashlib
import sys

import pytest

from corpus.synth.made import REPORTS, frames
from pathveil.corpus.synth import KINDS, SynthSettings, configure, write_corpus
from pathveil.corpus.synth.people import CLOSE, OPEN
from pathveil.errors import UsageError


def test_a_seed_repeats_whatever_the_chunks_and_a_shorter_corpus_is_its_beginning(made):
    reports, truth = frames(64, reports=REPORTS, seed=7)
    assert reports.equals(made[0]) and truth.equals(made[1])
    assert frames(50, reports=120, seed=7)[0].equals(reports.head(120))


def test_every_machine_makes_this():
    """A digest recorded once: it changes when the generator is meant to change, never with machine or version."""
    reports, truth = frames(100, reports=200, seed=1)
    lines = [*map(str, reports.drop("text").rows()), *reports["text"], *map(str, truth.rows())]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest[:16] == "fd9cc9b65c89b498"


def test_another_seed_differs(made):
    other, _ = frames(500, reports=200, seed=8)
    assert not set(other["text"]) & set(made[0]["text"])


def test_another_process_makes_the_same_bytes(tmp_path, pathveil):
    write_corpus(SynthSettings(reports=300, seed=3), out=tmp_path / "a.parquet", truth=tmp_path / "a-truth.parquet")
    done = pathveil(
        "corpus", "synth", "--reports", 300, "--seed", 3,
        "--out", tmp_path / "b.parquet", "--truth", tmp_path / "b-truth.parquet",
        env={"PYTHONHASHSEED": "12345", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("", "-truth"):
        assert (tmp_path / f"a{name}.parquet").read_bytes() == (tmp_path / f"b{name}.parquet").read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_planted_spans_are_exact_do_not_overlap_and_every_kind_is_there(made):
    texts = dict(made[0].select("report_id", "text").iter_rows())
    truth = made[1]
    last = ("", 0)
    for report_id, _, _, start, end, text in truth.iter_rows():
        assert texts[report_id][start:end] == text != ""
        assert last[0] != report_id or start >= last[1]
        last = (report_id, end)
    assert set(truth["kind"]) == set(KINDS)
    assert not any(sign in text for text in texts.values() for sign in (OPEN, CLOSE, "{", "}", "[", "]", "|]", ">"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--classes", "sites=2,subsites=1"], "'subsites' must be from 2 to"),
        (["--classes", "sites=80"], "'sites'"),
        (["--classes", "sites=3,histologies=400"], "'histologies' must be from"),
        (["--classes", "organs=3"], "expected name=number"),
        (["--out", "x.csv"], "ends in .parquet"),
        (["--out", "."], "ends in .parquet"),
        (["--out", "/dev/null/x.parquet"], "cannot be written"),
        (["--truth", "x.parquet"], "two different files"),
        (["--registries", "0"], "registries"),
        (["--reports", "0"], "reports"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, pathveil, options, sentence):
    given = ["--reports", 10, "--out", "x.parquet", *options]
    done = pathveil("corpus", "synth", *given, cwd=tmp_path)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_made_up_reports_never_take_the_place_of_a_file(tmp_path):
    (tmp_path / "reports.parquet").write_bytes(b"PAR1 real ones")
    for places in (
        {"out": tmp_path / "reports.parquet"},
        {"out": tmp_path / "x.parquet", "truth": tmp_path / "reports.parquet"},
    ):
        with pytest.raises(UsageError, match=r"reports\.parquet: is there already; choose another name, or remove it"):
            write_corpus(configure(reports=5), **places)
    assert [path.name for path in tmp_path.iterdir()] == ["reports.parquet"]
