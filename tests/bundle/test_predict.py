"""Reports in any form to codes in any form; the XML against the shape of the NAACCR standard, written out here."""

import csv
import gzip
import json
import re
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax

from bundle.conftest import people, reports
from pathveil.bundle.coder import Coder
from pathveil.bundle.predict import predict_to_file
from pathveil.corpus import read
from pathveil.errors import CorpusError, UsageError

CODE_FIELDS = ("code", "probability", "abstained", "lifted", "term", "alternatives", "adjusted")
NAACCR = "{http://naaccr.org/naaccrxml}"
# Item, where it belongs and what it holds, from the standard's dictionary for version 25.
ITEMS = {
    "patientIdNumber": ("Patient", r"\d{8}"),
    "primarySite": ("Tumor", r"C\d{3}"),
    "laterality": ("Tumor", r"[0-59]"),
    "histologicTypeIcdO3": ("Tumor", r"\d{4}"),
    "behaviorCodeIcdO3": ("Tumor", r"\d"),
    "pathReportNumber1": ("Tumor", r".{1,20}"),
}


def check_naaccr(path) -> list[ElementTree.Element]:
    """Everything the standard's schema and dictionary ask of a file; its patients."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{NAACCR}NaaccrData"
    assert re.fullmatch(r"http://naaccr\.org/naaccrxml/naaccr-dictionary-\d{3}\.xml", root.attrib["baseDictionaryUri"])
    assert root.attrib["recordType"] in ("A", "M", "C", "I")
    assert re.fullmatch(r"1\.\d", root.attrib["specificationVersion"])
    allowed = {"NaaccrData": ["Item", "Patient"], "Patient": ["Item", "Tumor"], "Tumor": ["Item"], "Item": []}

    def walk(element):
        name = element.tag.removeprefix(NAACCR)
        order = []
        seen = set()
        for child in element:
            if not child.tag.startswith(NAACCR):
                order.append("other")  # of another namespace: allowed between the items and what follows them
                continue
            kind = child.tag.removeprefix(NAACCR)
            assert kind in allowed[name], (name, kind)
            order.append(kind)
            if kind == "Item":
                item = child.attrib["naaccrId"]
                parent, shape = ITEMS[item]
                assert parent == name and re.fullmatch(shape, child.text), (item, child.text)
                assert item not in seen
                seen.add(item)
            else:
                walk(child)
        rank = [{"Item": 0, "other": 1}.get(kind, 2) for kind in order]
        assert rank == sorted(rank)

    walk(root)
    return root.findall(f"{NAACCR}Patient")


@pytest.fixture(scope="module")
def table():
    return reports(50, seed=21).with_columns(report_id=pl.format("p{}", "report_id"))


@pytest.fixture(scope="module")
def answers(bundle, table):
    return dict(zip(table["report_id"], Coder(bundle).code(table["text"].to_list()), strict=True))


def write(table, path):
    if path.suffix == ".parquet":
        table.write_parquet(path)
    elif path.name.endswith(".csv.gz"):
        path.write_bytes(gzip.compress(table.write_csv().encode()))
    elif path.suffix == ".csv":
        table.write_csv(path)
    else:
        table.write_ndjson(path)


@pytest.mark.parametrize("name", ["in.parquet", "in.csv", "in.csv.gz", "in.jsonl"])
def test_tables_to_csv(bundle, table, answers, tmp_path, name):
    write(table, tmp_path / name)
    result = predict_to_file(bundle, tmp_path / name, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["report_id"] for row in rows] == table["report_id"].to_list()
    assert [row["case_id"] for row in rows] == table["case_id"].to_list()
    for row in rows:
        for task, code in answers[row["report_id"]].items():
            assert row[task] == code.code
            assert float(row[f"{task}_probability"]) == pytest.approx(code.probability, abs=1e-3)
            assert row[f"{task}_abstained"] in ("true", "false") and row[f"{task}_lifted"] == str(code.lifted).lower()
    assert result.reports == 50
    for task in bundle.tasks:
        taken = sum(row[f"{task}_abstained"] == "false" for row in rows)
        assert result.to_dict()["tasks"][task] == {"coded": taken, "abstained": 50 - taken}
    assert "left to a person" in repr(result)


def test_jsonl_and_no_text_in_any_output(bundle, table, answers, tmp_path):
    write(table, tmp_path / "in.parquet")
    for name in ("out.jsonl", "out.csv", "out.xml"):
        predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / name)
        content = (tmp_path / name).read_text().lower()
        assert "specimen" not in content and "diagnosis" not in content
        assert not [n for number in range(50) for n in people(number) if n.lower() in content]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(lines) == 50
    for line in lines:
        assert set(line) == {"report_id", "case_id", "codes"}
        for task, code in answers[line["report_id"]].items():
            assert line["codes"][task]["code"] == code.code
            assert set(line["codes"][task]) == set(CODE_FIELDS)


def test_a_table_of_text_alone(bundle, tmp_path):
    pl.DataFrame({"text": ["carcinoma of the left breast", None, "colon"]}).write_parquet(tmp_path / "in.parquet")
    predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["report_id"] for line in lines] == ["1", "2", "3"]
    assert all(code["abstained"] for code in lines[1]["codes"].values())


def test_cases_are_answered_from_all_their_reports(bundle, table, tmp_path):
    shuffled = table.sample(fraction=1.0, shuffle=True, seed=1)
    write(shuffled, tmp_path / "in.parquet")
    result = predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.jsonl", by_case=True)
    lines = {line["case_id"]: line for line in map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())}
    assert result.answers == len(lines) == 25
    case = lines["case-3"]
    assert sorted(case["report_ids"]) == ["pr6", "pr7"]
    texts = table.filter(pl.col("case_id") == "case-3")["text"].to_list()
    said, _ = Coder(bundle).read(texts)
    for task, logs in said.items():
        mean = log_softmax(logs.mean(0))
        best = int((mean + bundle.ensemble().lift[task]).argmax())
        assert case["codes"][task]["code"] == bundle.labels[task][best]
        assert case["codes"][task]["probability"] == pytest.approx(np.exp(mean[best]), abs=1e-5)


def test_naaccr_xml_keeps_the_standards_shape(bundle, table, tmp_path):
    write(table.with_columns(case_id=pl.col("case_id").str.replace("case-", "12")), tmp_path / "in.parquet")
    predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.xml")
    patients = check_naaccr(tmp_path / "out.xml")
    assert len(patients) == 25
    items = [item.attrib["naaccrId"] for item in patients[0].iter(f"{NAACCR}Item")]
    assert items[0] == "patientIdNumber" and patients[0].find(f"{NAACCR}Item").text == "00000120"


def test_hl7_in_naaccr_xml_out(bundle, hl7_samples, tmp_path):
    result = predict_to_file(bundle, hl7_samples, tmp_path / "out.xml", key=b"0123456789abcdef")
    patients = check_naaccr(tmp_path / "out.xml")
    # The three samples are reports of one patient.
    assert result.reports == 3 and len(patients) == 1
    assert len(patients[0].findall(".//{urn:pathveil:coded:1}report")) == 3
    assert result.format == "naaccr-xml"
    again = tmp_path / "again.xml"
    predict_to_file(bundle, hl7_samples, again, key=b"0123456789abcdef")
    assert again.read_bytes() == (tmp_path / "out.xml").read_bytes()


def test_bad_input_is_one_sentence_and_leaves_nothing(bundle, tmp_path):
    pl.DataFrame({"txt": ["a"]}).write_parquet(tmp_path / "in.parquet")
    with pytest.raises(CorpusError, match="column 'text' is missing"):
        predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.csv")
    pl.DataFrame({"text": []}, schema={"text": pl.String}).write_parquet(tmp_path / "none.parquet")
    with pytest.raises(CorpusError, match="holds no report"):
        predict_to_file(bundle, tmp_path / "none.parquet", tmp_path / "out.csv")
    with pytest.raises(CorpusError, match="no such file"):
        predict_to_file(bundle, tmp_path / "nowhere.csv", tmp_path / "out.csv")
    with pytest.raises(UsageError, match="expected csv, jsonl or naaccr-xml"):
        predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.xlsx")
    with pytest.raises(UsageError, match="--format docx is not known"):
        predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.csv", input_format="docx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "none.parquet"]


def test_texts_frames_files_and_corpora_are_coded_alike(bundle, table, answers, tmp_path):
    write(table, tmp_path / "in.parquet")
    expected = [answers[name] for name in table["report_id"]]
    texts = bundle.predict(table["text"].to_list())
    assert [result.report_ids for result in texts.results] == [(str(number),) for number in range(1, 51)]
    sources = (table, table.lazy(), read(table), tmp_path / "in.parquet")
    named = [bundle.predict(source) for source in sources]
    for predictions in (texts, *named, bundle.predict(str(tmp_path / "in.parquet"))):
        for result, codes in zip(predictions.results, expected, strict=True):
            for task, code in codes.items():
                assert result.codes[task].code == code.code
                assert result.codes[task].probability == pytest.approx(code.probability, abs=1e-5)
    for predictions in named:
        assert [result.report_ids[0] for result in predictions.results] == table["report_id"].to_list()
        assert [result.case_id for result in predictions.results] == table["case_id"].to_list()


def test_a_pandas_frame_is_coded(bundle, table):
    pandas = pytest.importorskip("pandas").DataFrame(table.to_dict(as_series=False))
    assert bundle.predict(pandas) == bundle.predict(table)


def test_predictions_are_a_result(bundle, table):
    predictions = bundle.predict(table)
    frame = predictions.to_frame()
    assert frame["report_id"].equals(table["report_id"]) and len(predictions) == frame.height == 50
    assert frame["site"].to_list() == [result.codes["site"].code for result in predictions.results]
    assert json.loads(predictions.to_json())["results"][0]["codes"]["site"]["code"] == frame["site"][0]
    assert "50 reports" in repr(predictions) and "<pre>" in predictions._repr_html_()
    cases = bundle.predict(table, by_case=True).to_frame()
    assert cases.height == 25 and cases["reports"].to_list() == [2] * 25


@pytest.mark.parametrize(
    "source, message",
    [
        ("nowhere.csv", "give a list of texts"),
        ("long " * 9000, "give a list of texts"),
        ([1, 2], "expected a list of texts"),
        (7, "got int"),
    ],
    ids=["no file", "a text", "numbers", "a number"],
)
def test_what_cannot_be_coded_is_one_sentence(bundle, source, message):
    with pytest.raises(UsageError, match=message):
        bundle.predict(source)
