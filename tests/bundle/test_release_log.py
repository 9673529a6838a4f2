"""The release log: every change to what was written is refused, and the line is named."""

import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from pathveil.bundle.release_log import START, add_line, check_in_log, head_of, read_log
from pathveil.errors import BundleError, UsageError
from pathveil.signatures import PrivateKey

KEY, OTHER = (PrivateKey(ec.generate_private_key(ec.SECP256R1())) for _ in range(2))


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "release-log.jsonl"
    for name in ("colon", "breast\u2028x", "lung"):
        add_line(path, {"what": "released", "name": name, "verdict": "fail", "signature": name}, key=KEY)
    return path


def test_lines_are_added_and_chained(log, tmp_path):
    lines = read_log(log, key=KEY.public)
    assert [line["name"] for line in lines] == ["colon", "breast\u2028x", "lung"]
    assert lines[0]["before"] == START and head_of(tmp_path / "none") == START
    assert [path.name for path in tmp_path.iterdir()] == [log.name]


def change(lines, number, **content):
    lines[number - 1] = json.dumps(json.loads(lines[number - 1]) | content)


def change_and_chain_again(lines):
    change(lines, 1, verdict="pass")
    for number in (2, 3):
        change(lines, number, before=hashlib.sha256(lines[number - 2].encode()).hexdigest())


def unsign(lines):
    line = json.loads(lines[2])
    del line["line_signature"]
    lines[2] = json.dumps(line)


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda lines: change(lines, 2, what="retracted"), "2 is not as it was signed"),
        (lambda lines: change(lines, 2, key=OTHER.public.sha256), "3 does not follow"),
        (lambda lines: change(lines, 3, verdict="pass"), "3 is not as it was signed"),
        (lambda lines: change(lines, 3, who="B. Other", model="00"), "3 is not as it was signed"),
        (lambda lines: lines.append(lines.pop() + " "), "3 is not as it was signed"),
        (unsign, "3 is not as it was signed"),
        (change_and_chain_again, "1 is not as it was signed"),
        (lambda lines: lines.pop(1), "2 does not follow"),
        (lambda lines: lines.insert(1, lines[0]), "2 does not follow"),
        (lambda lines: lines.reverse(), "1 does not follow"),
        (lambda lines: lines.append("no json"), "4 does not follow"),
    ],
)
def test_what_was_written_cannot_be_changed_unseen(log, spoil, line):
    lines = log.read_text().splitlines()
    spoil(lines)
    log.write_text("\n".join(lines) + "\n")
    with pytest.raises(BundleError, match=f"line {line}"):
        read_log(log, key=KEY.public)
    with pytest.raises(BundleError, match=f"line {line}"):
        add_line(log, {"what": "released"}, key=KEY)


def test_a_release_shows_that_the_end_was_cut_off(log):
    head = head_of(log)
    assert check_in_log(log, {"signature": "lung"}, key=KEY.public, before=None) == 0
    lines = log.read_text().splitlines()
    log.write_text("\n".join(lines[:2]) + "\n")
    with pytest.raises(BundleError, match="does not hold this release"):
        check_in_log(log, {"signature": "lung"}, key=KEY.public, before=None)
    with pytest.raises(BundleError, match="is not the log that this release was made with"):
        check_in_log(log, {"signature": "colon"}, key=KEY.public, before=head)


def test_lines_of_another_key_are_counted_and_checked_by_that_key(log):
    add_line(log, {"what": "released", "signature": "skin"}, key=OTHER)
    assert check_in_log(log, {"signature": "lung"}, key=KEY.public, before=None) == 1
    assert check_in_log(log, {"signature": "skin"}, key=OTHER.public, before=None) == 3


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "log").mkdir()
    with pytest.raises((UsageError, BundleError), match="log"):
        add_line(tmp_path / "log", {"what": "released"}, key=KEY)
