"""gzip by what it inflates to."""

import gzip
import io
import zipfile

import pytest

from pathveil.corpus.tables.files import UNREADABLE
from pathveil.untrusted import Refused, bounds
from pathveil.untrusted.archives import check_members, open_archive, open_bytes, read_member


def test_zipped_or_not_the_bytes_are_the_same(tmp_path):
    text = b"report_id,text\n1,left\n" * 9000
    (tmp_path / "a.csv").write_bytes(text)
    (tmp_path / "b.csv").write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    for name in ("a.csv", "b.csv"):
        with open_bytes(tmp_path / name) as file:
            assert file.readline() == b"report_id,text\n" and file.read() == text[15:]


def test_a_bomb_ends_as_damage_does(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "FREE", 1 << 16)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(bytes(1 << 22)))
    with pytest.raises(UNREADABLE), open_bytes(tmp_path / "bomb.csv.gz") as file:
        while file.read(1 << 12):
            pass
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"left breast" * 99)[:-9])
    with pytest.raises(UNREADABLE), open_bytes(tmp_path / "cut.csv.gz") as file:
        file.read()


def test_members_are_few_named_once_and_of_their_declared_size(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a", b"1")
        archive.writestr("a", b"2")
    with pytest.raises(Refused, match="holds a file twice"), open_archive(file.getvalue()):
        pass
    archive = zipfile.ZipFile(io.BytesIO(file.getvalue()))
    archive.filelist = [zipfile.ZipInfo(str(number)) for number in range(bounds.MEMBERS + 1)]
    with pytest.raises(Refused, match="more than 20,000 files"):
        check_members(archive, 10**9)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"left breast")
    shorter = file.getvalue().replace((11).to_bytes(4, "little"), (5).to_bytes(4, "little"))
    with pytest.raises(Refused), open_archive(shorter) as archive:
        read_member(archive, "a")
