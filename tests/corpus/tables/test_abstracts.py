"""NAACCR XML as labels: tumours with their patient's number, nothing else of the patient, and damage in sentences."""

import gzip
import random

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.labels import label_corpus
from pathveil.corpus.tables.abstracts import COLUMNS, open_abstracts
from pathveil.errors import CorpusError

SECRET = "Quastenflosser"


def item(name: str, value: str) -> str:
    return f'<Item naaccrId="{name}">{value}</Item>'


def tumour(site: str, histology: str, *numbers: str, side: str = "2", date: str = "20160502") -> str:
    codes = item("primarySite", site) + item("histologicTypeIcdO3", histology) + item("behaviorCodeIcdO3", "3")
    reports = "".join(item(f"pathReportNumber{n}", number) for n, number in enumerate(numbers, start=1))
    return f"<Tumor>{codes}{item('laterality', side)}{item('dateOfDiagnosis', date)}{reports}</Tumor>"


def patient(number: int, *tumours: str) -> str:
    return f"<Patient>{item('patientIdNumber', f'{number:08}')}{item('nameLast', SECRET)}{''.join(tumours)}</Patient>"


def document(*patients: str) -> bytes:
    start = '<?xml version="1.0"?>\n<NaaccrData xmlns="http://naaccr.org/naaccrxml" recordType="I">'
    return f"{start}{item('registryId', '0000001544')}{''.join(patients)}</NaaccrData>".encode()


WHOLE = document(
    patient(7, tumour("C504", "8500", "S-1", "S-2"), tumour("C619", "8140", "S-3", side="0", date="2017")),
    patient(8, tumour("C999", "8140")),
    patient(9),
)


@pytest.mark.parametrize("name", ["a.xml", "a.xml.gz"])
def test_tumours_are_rows(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(WHOLE) if name.endswith("gz") else WHOLE)
    table = open_abstracts(tmp_path / name).collect()
    assert tuple(table.columns) == COLUMNS and SECRET not in str(table.to_dicts())
    assert table.select("patient_id", "registry", "date", "subsite", "laterality", "report_number").rows() == [
        ("00000007", "0000001544", "20160502", "C504", "2", "S-1"),
        ("00000007", "0000001544", "20160502", "C504", "2", "S-2"),
        ("00000007", "0000001544", None, "C619", "0", "S-3"),
        ("00000008", "0000001544", "20160502", "C999", "2", None),
    ]


def test_reports_get_the_codes_of_abstracts(tmp_path):
    (tmp_path / "a.xml").write_bytes(WHOLE)
    numbers = ["S-3", "S-2", "S-9"]
    columns = {"report_id": numbers, "case_id": numbers, "registry": ["R"] * 3, "text": [SECRET] * 3}
    pl.DataFrame(columns | {"report_number": numbers}).write_parquet(tmp_path / "r.parquet")
    result = label_corpus(tmp_path / "r.parquet", tmp_path / "a.xml", on=["report_number"], out=tmp_path / "l.parquet")
    labelled = pl.read_parquet(tmp_path / "l.parquet").select("site", "subsite", "histology", "behavior", "laterality")
    assert labelled.rows() == [
        ("C61", "C61.9", "8140", "3", "not_paired"),
        ("C50", "C50.4", "8500", "3", "left"),
        (None,) * 5,
    ]
    assert (result.matched, result.unmatched, result.unused_rows) == (2, 1, 1)
    assert result.codes.unknown[0].codes == {"C999": 1}
    with pytest.raises(CorpusError, match="holds labels, no reports; give it to 'pathveil corpus label'"):
        import_corpus(tmp_path / "a.xml", out=tmp_path / "c.parquet")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (WHOLE[:-40], "is no XML, or is cut short, at line 2"),
        (f"{SECRET}".encode(), "is no XML, or is cut short, at line 1"),
        (b"<a/>", "holds no tumour"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "declares a document type"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "cannot be read as XML"),
        (b"<a>" * 100_000, "is nested more than 32 levels deep"),
        (b"<!--" + b" " * 70_000 + b'--><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "declares a document type"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'.encode("utf-16"), "declares a document type"),
        (b"<a " + b"b" * 3_000_000, "holds a tag or a text without an end"),
    ],
)
def test_files_that_are_no_abstracts(tmp_path, content, sentence):
    (tmp_path / "a.xml").write_bytes(content)
    with pytest.raises(CorpusError) as caught:
        open_abstracts(tmp_path / "a.xml")
    assert sentence in str(caught.value) and SECRET not in str(caught.value)


def test_damage_is_read_or_refused_in_a_sentence(tmp_path):
    rng = random.Random(4)
    for _ in range(60):
        damaged = bytearray(WHOLE)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "a.xml").write_bytes(damaged)
        try:
            open_abstracts(tmp_path / "a.xml")
        except CorpusError as error:
            assert SECRET not in str(error)
