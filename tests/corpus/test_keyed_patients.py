"""Record numbers of patients find the reports of messages, whose case ids were made of them with the key; nobody
else's do."""

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.labels import label_corpus
from pathveil.errors import CorpusError, UsageError

KEY = b"a secret of the registry, long enough"
PATIENTS = [  # sender, record number as PID-3 has it, day, text
    ("NORTH", "00466144^^^^MR", "20160502", "left breast, ductal carcinoma"),
    ("NORTH", "00466144^^^^MR", "20181011", "sigmoid colon, adenocarcinoma"),
    ("NORTH", "00500100^^^HOSP&1.2.3&ISO^MR", "20160502", "prostate, acinar adenocarcinoma"),
    ("SOUTH", "00466144^^^^MR", "20160503", "skin of the back, melanoma"),
    ("SOUTH", "~~987-65-4321^^^^SS", "20160504", "right lung, squamous cell carcinoma"),
]


@pytest.fixture
def reports(tmp_path):
    feed = tmp_path / "feed.hl7"
    feed.write_text(
        "".join(
            f"MSH|^~\\&|LIS|{sender}|||20160601||ORU^R01|M{n}|P|2.5.1\rPID|1||{number}||Doe{n}^Ann||19570706\r"
            f"OBR|1||S{n}|11529-5|||{day}\rOBX|1|TX|22637-3^final^LN||{text}\r"
            for n, (sender, number, day, text) in enumerate(PATIENTS)
        )
    )
    import_corpus(feed, out=tmp_path / "feed.parquet", key=KEY)
    return tmp_path / "feed.parquet"


def labelled(reports, rows: str, **told) -> tuple[dict[str, str | None], object]:
    table, out = reports.with_name("abstracts.csv"), reports.with_name("labelled.parquet")
    table.write_text(rows)
    result = label_corpus(reports, table, on="patient", out=out, **{"key": KEY} | told)
    return dict(pl.read_parquet(out).select("report_number", "subsite").iter_rows()), result


def test_patients_and_days_lead_from_abstracts_to_messages(reports):
    """Two tumours of a patient stay apart; a number says nothing of another hospital's patient; zeros may be lost."""
    rows = "patient,authority,date,subsite\n466144,NORTH,2016-04-20,C504\n00466144,north,2018-10-01,C187\n"
    rows += "500100,HOSP,2016-05-02,C619\n466144,SOUTH,2016-05-01,C445\n987654321,,2016-05-04,C349\n"
    rows += "77,NORTH,2016-05-02,C220\n"
    found, result = labelled(reports, rows, days=60)
    assert found == {"S0": "C50.4", "S1": "C18.7", "S2": "C61.9", "S3": "C44.5", "S4": "C34.9"}
    assert (result.matched, result.unused_rows, result.loosely, result.on) == (5, 1, 3, ["patient"])
    assert "466144" not in result.to_json()


def test_zeros_that_the_table_has_before_a_number_do_not_matter(reports):
    """As where a registry's system fills medical record numbers up."""
    found, result = labelled(reports, "patient,authority,subsite\n00000500100,HOSP,C619\n", authorities=["HOSP"])
    assert found["S2"] == "C61.9" and (result.matched, result.loosely) == (1, 1)


def test_a_number_of_two_hospitals_labels_neither_patient(reports):
    """Unless it is told whose it is."""
    rows = "patient,date,subsite\n00466144,2016-05-02,C504\n987-65-4321,2016-05-04,C349\n"
    found, result = labelled(reports, rows, days=60)
    assert found == {"S0": None, "S1": None, "S2": None, "S3": None, "S4": "C34.9"} and result.shared == 2
    found, _ = labelled(reports, rows, days=60, authorities=["NORTH"])
    assert [found["S0"], found["S3"]] == ["C50.4", None]
    with pytest.raises(CorpusError, match=r"several cases have one number: --column authority=THEIRS tells them apart"):
        labelled(reports, "patient,date,subsite\n00466144,2016-05-02,C504\n", days=60)


def test_what_is_missing_is_told(reports):
    rows = "patient,subsite\n00500100,C619\n"
    with pytest.raises(CorpusError, match=r"is this the key of the import, and did the senders give these numbers"):
        labelled(reports, rows)
    with pytest.raises(CorpusError, match=r"is this the key of the import"):
        labelled(reports, rows, key=b"another secret of the registry", authorities=["HOSP"])
    assert labelled(reports, rows, authorities=["HOSP"])[0]["S2"] == "C61.9"
    with pytest.raises(UsageError, match="of messages, --key-file finds patients by their numbers"):
        labelled(reports, rows, key=None)
    with pytest.raises(UsageError, match="--authority needs --key-file"):
        labelled(reports, rows, key=None, authorities=["HOSP"])
    with pytest.raises(UsageError, match="--key-file is for record numbers of patients: --on patient"):
        label_corpus(reports, reports, on="report_number", key=KEY, out=reports.with_name("o.parquet"))
