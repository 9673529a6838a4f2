"""Reports to be coded, each with what leads back to where it was."""

import polars as pl
import pytest

from pathveil.bundle.incoming import BATCH, batches_of, read_files
from pathveil.corpus.messages import Tally
from pathveil.errors import CorpusError, UsageError

KEY = b"0123456789abcdef"


def incoming(reports):
    return [one for batch in batches_of(reports, key=KEY, tally=Tally()) for one in batch]


def test_files_of_a_folder_keep_their_own_positions(tmp_path):
    pl.DataFrame({"text": ["a", "b"], "report_number": ["S1", None]}).write_csv(tmp_path / "1.csv")
    pl.DataFrame({"text": ["c"], "report_id": ["mine"], "message_id": ["M7"]}).write_parquet(tmp_path / "2.parquet")
    found = [one for batch in read_files(tmp_path, form="auto", key=KEY, tally=Tally()) for one in batch]
    assert [(one.origin.report_id, one.origin.position) for one in found] == [("1", 1), ("2", 2), ("mine", 1)]
    assert [one.origin.file for one in found] == [str(tmp_path / name) for name in ("1.csv", "1.csv", "2.parquet")]
    assert found[0].origin.report_number == "S1" and found[2].origin.message_id == "M7"
    assert found[0].case.startswith("report 1,") and found[0].case_id is None


def test_a_report_without_a_case_id_is_a_case_of_its_own(tmp_path):
    """Whatever its id: one that repeats, or the number of a row that has none."""
    (tmp_path / "in.csv").write_text("report_id,text\n1,a\n1,b\n,c\n3,d\n")
    found = [one for batch in read_files(tmp_path, form="auto", key=KEY, tally=Tally()) for one in batch]
    assert [one.origin.report_id for one in found] == ["1", "1", "3", "3"] and len({one.case for one in found}) == 4


def test_texts_and_frames(tmp_path):
    texts = [f"text {number}" for number in range(BATCH + 1)]
    found = incoming(texts)
    assert [one.text for one in found] == texts and found[-1].origin.position == BATCH + 1
    assert [one.case for one in incoming(pl.DataFrame({"text": ["x"], "case_id": [7]}))] == ["case 7"]
    with pytest.raises(CorpusError, match="column 'text' is missing"):
        incoming(pl.DataFrame({"txt": ["x"]}))
    with pytest.raises(UsageError, match="got int"):
        incoming(7)


def test_blank_ids_are_none_and_decimals_are_numbers():
    """A blank would make one case of all patients without an id; a table with gaps turns 1234 into 1234.0."""
    found = incoming(pl.DataFrame({"text": ["x", "y"], "case_id": ["  ", "\t"], "report_number": [" ", "S1"]}))
    assert [one.case_id for one in found] == [None, None] and len({one.case for one in found}) == 2
    assert [one.origin.report_number for one in found] == [None, "S1"]
    decimals = pl.DataFrame({"text": ["x"] * 4, "case_id": [1234.0, None, float("nan"), 2.5]})
    assert [one.case_id for one in incoming(decimals)] == ["1234", None, None, "2.5"]
    with pytest.raises(CorpusError, match="column 'text' holds List"):
        incoming(pl.DataFrame({"text": [["x"]]}))
