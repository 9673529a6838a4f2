"""Reports to be coded, each with what leads back to where it was."""

import json

import polars as pl
import pytest

from pathveil.bundle.incoming import BATCH, OneReading, batches_of, read_files
from pathveil.corpus import read
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.tables.opening import open_source, sources_of
from pathveil.errors import CorpusError, UsageError

KEY = b"0123456789abcdef"


def incoming(reports):
    return [one for batch in batches_of(reports, key=KEY, reading=OneReading()) for one in batch]


def test_files_of_a_folder_keep_their_own_positions(tmp_path):
    pl.DataFrame({"text": ["a", "b"], "report_number": ["S1", None]}).write_csv(tmp_path / "1.csv")
    pl.DataFrame({"text": ["c"], "report_id": ["mine"], "message_id": ["M7"]}).write_parquet(tmp_path / "2.parquet")
    found = [one for batch in read_files(tmp_path, form="auto", key=KEY, reading=OneReading()) for one in batch]
    assert [(one.origin.report_id, one.origin.position) for one in found] == [("1", 1), ("2", 2), ("mine", 1)]
    assert [one.origin.file for one in found] == [str(tmp_path / name) for name in ("1.csv", "1.csv", "2.parquet")]
    assert found[0].origin.report_number == "S1" and found[2].origin.message_id == "M7"
    assert found[0].case.startswith("report 1,") and found[0].case_id is None


def test_a_report_without_a_case_id_is_a_case_of_its_own(tmp_path):
    """Whatever its id: one that repeats, or the number of a row that has none."""
    (tmp_path / "in.csv").write_text("report_id,text\n1,a\n1,b\n,c\n3,d\n")
    found = [one for batch in read_files(tmp_path, form="auto", key=KEY, reading=OneReading()) for one in batch]
    assert [one.origin.report_id for one in found] == ["1", "1", "3", "3"] and len({one.case for one in found}) == 4


def test_texts_and_frames(tmp_path):
    texts = [f"text {number}" for number in range(BATCH + 1)]
    found = incoming(texts)
    assert [one.text for one in found] == texts and found[-1].origin.position == BATCH + 1
    assert [one.case for one in incoming(pl.DataFrame({"text": ["x"], "case_id": [7]}))] == ["case 7"]
    with pytest.raises(CorpusError, match=r"column 'text' is missing; .* give that column alone, or rename it"):
        incoming(pl.DataFrame({"txt": ["x"]}))
    with pytest.raises(UsageError, match="got int"):
        incoming(7)


def test_words_for_nothing_are_no_ids(tmp_path):
    """As an import takes them: NULL would make one case of all patients without an id."""
    (tmp_path / "in.csv").write_text("report_id,case_id,text\nNULL,NULL,left breast\nr3,7,null\nr2,N/A,colon\n")
    reading = OneReading(most_skipped=0.5)
    (found,) = batches_of(tmp_path / "in.csv", key=KEY, reading=reading)
    assert [(one.origin.report_id, one.case_id, one.text) for one in found] == [
        ("1", None, "left breast"),
        ("r2", None, "colon"),
    ]
    assert [(one.row, one.reason) for one in reading.rows.skipped] == [(3, "has no text")]


def test_a_message_without_a_sender_is_coded(tmp_path):
    """It needs no registry, and the ids are those of the same key."""
    message = "MSH|^~\\&||{}|||20200101||ORU^R01|M1\rPID|1||4661^^^LAB^MR\rOBR|1||S1\rOBX|1|TX|22637-3||colon\r"
    (tmp_path / "a.hl7").write_text(message.format(""))
    (tmp_path / "b.hl7").write_text(message.format("LAB"))
    assert [one.text for one in incoming(tmp_path / "a.hl7")] == ["FINAL DIAGNOSIS\ncolon"]
    (one,) = read(tmp_path / "b.hl7", key=KEY).to_frame()["report_id"]
    assert [found.origin.report_id for found in incoming(tmp_path / "b.hl7")] == [one]
    patient = {"resourceType": "Patient", "id": "p", "identifier": [{"value": "4661"}]}
    report = {"resourceType": "DiagnosticReport", "id": "r", "status": "final", "subject": {"reference": "#p"}}
    report |= {"conclusion": "colon", "contained": [patient]}
    (tmp_path / "c.json").write_text(json.dumps(report))
    assert [one.text for one in incoming(tmp_path / "c.json")] == ["FINAL DIAGNOSIS\ncolon"]
    (tmp_path / "d.json").write_text(json.dumps(report | {"performer": [{"display": "LAB"}]}))
    (one,) = read(tmp_path / "d.json", key=KEY).to_frame()["report_id"]
    assert [found.origin.report_id for found in incoming(tmp_path / "d.json")] == [one]


def test_rtf_in_a_table_is_plain_text():
    reading = OneReading()
    frame = pl.DataFrame({"text": ["{\\rtf1 Colon:\\par polyp}", "plain", "{\\rtf1" + "{" * 20_000]})
    (batch,) = batches_of(frame, key=KEY, reading=reading)
    assert [one.text for one in batch] == ["Colon:\npolyp", "plain", ""] and reading.tally.rewritten == 2


def test_blank_ids_are_none_and_decimals_are_numbers():
    """A blank would make one case of all patients without an id; a table with gaps turns 1234 into 1234.0."""
    found = incoming(pl.DataFrame({"text": ["x", "y"], "case_id": ["  ", "\t"], "report_number": [" ", "S1"]}))
    assert [one.case_id for one in found] == [None, None] and len({one.case for one in found}) == 2
    assert [one.origin.report_number for one in found] == [None, "S1"]
    decimals = pl.DataFrame({"text": ["x"] * 4, "case_id": [1234.0, None, float("nan"), 2.5]})
    assert [one.case_id for one in incoming(decimals)] == ["1234", None, None, "2.5"]
    with pytest.raises(CorpusError, match="column 'text' holds List"):
        incoming(pl.DataFrame({"text": [["x"]]}))


def test_blanks_around_an_id_are_none_of_it():
    """Tables of fixed width have them; two cases would be made of one, where an import makes one."""
    found = incoming(pl.DataFrame({"text": ["x", "y"], "case_id": [" 7 ", "7"], "report_id": ["a", " b"]}))
    assert {one.case_id for one in found} == {"7"} and found[0].case == found[1].case
    assert [one.origin.report_id for one in found] == ["a", "b"]


def test_messages_in_a_column_are_not_coded():
    """Their headers name the patient, and a table's reader takes nothing out."""
    message = "MSH|^~\\&|LIS|||||ORU^R01\rPID|1||77||Quastenflosser^Ada\r"
    with pytest.raises(CorpusError, match=r"row 2 holds an HL7 message, no text; .* ends in .hl7") as caught:
        incoming(pl.DataFrame({"text": ["left breast", message]}))
    assert "Quastenflosser" not in str(caught.value)


def test_a_table_that_is_written_while_it_is_coded_is_refused(tmp_path):
    table = tmp_path / "lab.jsonl"
    table.write_text('{"text": "left breast"}\n')
    batches = read_files(table, form="auto", key=b"k", reading=OneReading())
    assert next(batches)[0].text == "left breast"
    table.write_text('{"text": "left breast"}\n{"text": "colon"}\n')
    with pytest.raises(CorpusError, match="changed while it was read"):
        list(batches)


def test_xml_is_called_what_it_is(tmp_path):
    abstracts, other = tmp_path / "abstracts.xml", tmp_path / "report.xml"
    abstracts.write_text('<NaaccrData xmlns="http://naaccr.org/naaccrxml"><Patient><Tumor/></Patient></NaaccrData>')
    other.write_text('<ClinicalDocument xmlns="urn:hl7-org:v3"/>')
    for path, sentence in (
        (abstracts, "NAACCR XML holds labels, no reports"),
        (other, "is no NAACCR XML"),
    ):
        with pytest.raises(CorpusError, match=sentence):
            list(read_files(path, form="auto", key=b"k", reading=OneReading()))
        with pytest.raises(CorpusError, match=sentence):
            import_corpus(path, out=tmp_path / "out.parquet")
    with pytest.raises(CorpusError, match="is no NAACCR XML"):
        open_source(*sources_of([other]), mapping=TableMapping())
