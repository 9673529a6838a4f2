"""The release log: every change to what was written breaks the chain at that line."""

import json

import pytest

from pathveil.bundle.release_log import START, add_line, check_in_log, head_of, read_log
from pathveil.errors import BundleError, UsageError


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "release-log.jsonl"
    for name in ("colon", "breast\u2028x", "lung"):
        add_line(path, {"what": "released", "name": name, "signature": name})
    return path


def test_lines_are_added_and_chained(log, tmp_path):
    lines = read_log(log)
    assert [line["name"] for line in lines] == ["colon", "breast\u2028x", "lung"]
    assert lines[0]["before"] == START and head_of(tmp_path / "none") == START
    assert [path.name for path in tmp_path.iterdir()] == [log.name]


def change(lines):
    lines[1] = lines[1].replace("released", "retracted")


def rehash_nothing(lines):
    lines[1] = json.dumps(json.loads(lines[1]) | {"name": "other"})


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (change, 3),
        (rehash_nothing, 3),
        (lambda lines: lines.pop(1), 2),
        (lambda lines: lines.insert(1, lines[0]), 2),
        (lambda lines: lines.reverse(), 1),
        (lambda lines: lines.append("no json"), 4),
    ],
)
def test_what_was_written_cannot_be_changed_unseen(log, spoil, line):
    lines = log.read_text().splitlines()
    spoil(lines)
    log.write_text("\n".join(lines) + "\n")
    with pytest.raises(BundleError, match=f"line {line} does not follow"):
        read_log(log)
    with pytest.raises(BundleError):
        add_line(log, {"what": "released"})


def test_a_release_shows_that_the_end_was_cut_off(log):
    head = head_of(log)
    check_in_log(log, signature="lung", before=None)
    lines = log.read_text().splitlines()
    log.write_text("\n".join(lines[:2]) + "\n")
    with pytest.raises(BundleError, match="does not hold this release"):
        check_in_log(log, signature="lung", before=None)
    with pytest.raises(BundleError, match="is not the log that this release was made with"):
        check_in_log(log, signature="colon", before=head)


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "log").mkdir()
    with pytest.raises((UsageError, BundleError), match="log"):
        add_line(tmp_path / "log", {"what": "released"})
