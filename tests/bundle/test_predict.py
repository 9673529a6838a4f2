"""Reports in any form to codes in any form."""

import csv
import gzip
import io
import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax

from bundle.conftest import KINDS, people, reports
from pathveil.bundle.coder import Coder
from pathveil.bundle.outputs import NAACCR_HEAD
from pathveil.bundle.predict import predict_to_file
from pathveil.corpus import read
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.errors import CorpusError, UsageError
from pathveil.training.scores import Threshold
from workbooks import workbook

CODE_FIELDS = ("code", "probability", "abstained", "lifted", "term", "alternatives", "adjusted")
IDS = {"report_id", "case_id", "report_number", "message_id", "file", "position"}


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
        assert set(line) == {*IDS, "codes", "contradictions"}
        for task, code in answers[line["report_id"]].items():
            assert line["codes"][task]["code"] == code.code
            assert set(line["codes"][task]) == set(CODE_FIELDS)


def test_a_table_of_text_alone(bundle, tmp_path):
    pl.DataFrame({"text": ["carcinoma of the left breast", "乳腺癌", "colon"]}).write_parquet(tmp_path / "in.parquet")
    predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["report_id"] for line in lines] == ["1", "2", "3"]
    assert all(code["abstained"] for code in lines[1]["codes"].values())


def test_reports_without_a_known_word_are_counted(bundle, tmp_path):
    pl.DataFrame({"text": ["carcinoma of the left breast", "癌", "乳腺癌"], "case_id": ["7"] * 3}).write_csv(
        tmp_path / "in.csv"
    )
    for by_case in (False, True):
        result = predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.csv", by_case=by_case)
        assert result.warnings[0].startswith("2 reports hold nothing the model can read")


def test_cases_are_answered_from_all_their_reports(bundle, table, tmp_path):
    shuffled = table.sample(fraction=1.0, shuffle=True, seed=1)
    write(shuffled, tmp_path / "in.parquet")
    options = {"by_case": True, "one_tumor": True}
    result = predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.jsonl", **options)
    lines = {line["case_id"]: line for line in map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())}
    assert result.answers == result.cases == len(lines) == 25
    case = lines["case-3"]
    assert sorted(case["report_ids"]) == ["pr6", "pr7"] and len(case["reports"]) == 2
    texts = table.filter(pl.col("case_id") == "case-3")["text"].to_list()
    said, _ = Coder(bundle).read(texts)
    for task, logs in said.items():
        mean = log_softmax(logs.mean(0))
        best = int((mean + bundle.ensemble().lift[task]).argmax())
        assert case["codes"][task]["code"] == bundle.labels[task][best]
        assert case["codes"][task]["probability"] == pytest.approx(np.exp(mean[best]), abs=1e-5)


def sure_of_everything(bundle):
    sure = {"wanted": 0.97, "accuracy": 1.0, "low": 0.9, "abstained": 0.0, "documents": 10}
    return replace(bundle, thresholds={task: Threshold(probability=0.4, **sure) for task in bundle.tasks})


def test_two_primaries_of_a_patient_stay_two_tumours(bundle, tmp_path):
    """Breast and prostate under one case id, and a second report of the breast: two tumours, each with its reports."""
    breast, prostate = (f"Final diagnosis: {KINDS[kind][4]}. {KINDS[kind][4]}." for kind in (0, 3))
    table = pl.DataFrame({"text": [breast, prostate, breast], "case_id": ["7"] * 3})
    table.write_csv(tmp_path / "in.csv")
    result = predict_to_file(sure_of_everything(bundle), tmp_path / "in.csv", tmp_path / "out.jsonl", by_case=True)
    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first["report_ids"], second["report_ids"]) == (["1", "3"], ["2"])
    assert [line["codes"]["site"]["code"] for line in (first, second)] == ["C50", "C61"]
    assert (second["tumor"], second["tumors"], second["case_id"]) == (2, 2, "7")
    assert (result.reports, result.answers, result.cases) == (3, 2, 1) and "(2 tumours of 1 case)" in repr(result)
    assert len(sure_of_everything(bundle).predict(table, by_case=True)) == 2
    assert len(sure_of_everything(bundle).predict(table, by_case=True, one_tumor=True)) == 1


def test_messages_lead_back_to_their_reports(bundle, tmp_path):
    """Report number, message id, file and position of each; ids that no other run gives are warned of."""
    header = "MSH|^~\\&||LAB|||20200101||ORU^R01|MSG{0}\r"
    report = "PID|1||{0}00466144^^^^MR||McMuffin^Candy\rOBR|1||S-{0}\rOBX|1|TX|22637-3||left breast carcinoma {0}\r"
    (tmp_path / "lab.hl7").write_text("".join((header + report).format(number) for number in (1, 2)))
    result = predict_to_file(bundle, tmp_path / "lab.hl7", tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    links = [(row["report_number"], row["message_id"], row["position"]) for row in rows]
    assert links == [("S-1", "MSG1", "1"), ("S-2", "MSG2", "2")]
    assert {row["file"] for row in rows} == {str(tmp_path / "lab.hl7")}
    assert ["key that was not kept" in warning for warning in result.warnings] == [True] and "Note: " in repr(result)
    again = predict_to_file(bundle, tmp_path / "lab.hl7", tmp_path / "again.csv", key=b"0123456789abcdef")
    assert again.warnings == []
    with pytest.raises(UsageError, match="give that text along with --with-text"):
        predict_to_file(bundle, tmp_path / "lab.hl7", tmp_path / "out.jsonl", explain=2)
    assert not (tmp_path / "out.jsonl").exists()
    predict_to_file(bundle, tmp_path / "lab.hl7", tmp_path / "out.jsonl", explain=2, with_text=True)
    line = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert line["text"] == "FINAL DIAGNOSIS\nleft breast carcinoma 1"
    places = line["explanation"]["laterality"]["places"]
    assert places and all(place["end"] <= len(line["text"]) for place in places)


def test_codes_can_be_made_to_go_together(bundle, table, tmp_path):
    write(table, tmp_path / "in.parquet")
    rules = ("subsite", "histology", "laterality")
    result = predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "out.csv", joint=rules)
    assert result.contradictions == 0 and result.joint == rules
    assert "site_adjusted" in (tmp_path / "out.csv").read_text().splitlines()[0]
    assert not any(one.contradictions for one in bundle.predict(table, joint=rules).results)
    with pytest.raises(UsageError, match="'sides' is not known"):
        predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "no.csv", joint=["sides"])


def test_a_mapping_may_be_given_by_its_file(bundle, tmp_path):
    (tmp_path / "lab.csv").write_text("Nr;Befund\nA1;Polyp of the colon.\n")
    (tmp_path / "map.toml").write_text('[columns]\ntext = "Befund"\nreport_id = "Nr"\n')
    predict_to_file(bundle, tmp_path / "lab.csv", tmp_path / "codes.csv", mapping=str(tmp_path / "map.toml"))
    assert pl.read_csv(tmp_path / "codes.csv")["report_id"].to_list() == ["A1"]
    for wrong, sentence in (
        ({"mapping": 5}, "mapping: expected a file as 'pathveil corpus map' writes it; got int"),
        ({"most_skipped": "few"}, "expected a share such as 0.1"),
    ):
        with pytest.raises(UsageError, match=sentence):
            predict_to_file(bundle, tmp_path / "lab.csv", tmp_path / "other.csv", **wrong)


def test_reports_are_never_written_over(bundle, table, tmp_path):
    write(table, tmp_path / "in.csv")
    write(table, tmp_path / "in.probabilities.jsonl")
    before = (tmp_path / "in.csv").read_bytes()
    with pytest.raises(UsageError, match="is among what is read"):
        predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "in.csv")
    with pytest.raises(UsageError, match=r"in\.probabilities\.jsonl: is among"):
        predict_to_file(bundle, tmp_path / "in.probabilities.jsonl", tmp_path / "in.xml")
    for name in ("in.csv", "new.csv", "new.xml"):  # of XML for the second file beside it
        with pytest.raises(UsageError, match=r"(csv|jsonl): lies in the folder that is read"):
            predict_to_file(bundle, tmp_path, tmp_path / name)
    assert (tmp_path / "in.csv").read_bytes() == before and not (tmp_path / "in.xml").exists()


def test_a_file_whose_name_is_no_utf8_is_named_as_well_as_can_be(bundle, tmp_path):
    (tmp_path / "lab\udcff.csv").write_text("text\nPolyp of the colon.\n")
    for name in ("out.csv", "out.jsonl"):
        predict_to_file(bundle, tmp_path / "lab\udcff.csv", tmp_path / name)
        assert "lab\ufffd.csv" in (tmp_path / name).read_text()


def test_answers_give_way_to_answers_and_nothing_else_does(bundle, table, tmp_path):
    write(table, tmp_path / "in.parquet")
    for name in ("codes.csv", "codes.jsonl", "codes.xml"):
        for _ in range(2):
            predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / name)
    predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "codes.csv", by_case=True)
    for name in ("other.csv", "other.jsonl"):  # somebody's corpus
        write(table, tmp_path / name)
    (tmp_path / "abstracts.xml").write_text('<NaaccrData recordType="A" xmlns="http://naaccr.org/naaccrxml"/>')
    # Reports with our columns, codes under our name, abstracts with our head, and what happens to lie beside them.
    (tmp_path / "mine.csv").write_text("report_id,case_id,report_number,message_id,text\n1,1,S1,M1,my only copy\n")
    (tmp_path / "mine.jsonl").write_text('{"report_id": "1", "text": "my only copy", "codes": {"site": "C50"}}\n')
    whole = '<?xml version="1.0" encoding="UTF-8"?>\n%s\n  <Patient>\n    <Item naaccrId="sex">1</Item>\n'
    (tmp_path / "mine.xml").write_text(whole % NAACCR_HEAD)
    (tmp_path / "x.probabilities.jsonl").write_text('{"case_id": "1", "codes": {"site": "C50"}}\n')
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for name in ("other.csv", "other.jsonl", "abstracts.xml", "mine.csv", "mine.jsonl", "mine.xml", "x.xml"):
        with pytest.raises(UsageError, match="is there already, and is no file that this makes"):
            predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / name)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_case_of_many_reports_gives_way_to_its_renewal(bundle, tmp_path):
    """Its codes stand far behind its reports, in JSONL and beside XML; ids may be long, and hold any sign."""
    ids = [f'"{number}\\ü' + "x" * 200 for number in range(30)]
    table = reports(30).with_columns(case_id=pl.lit('12"]'), report_id=pl.Series(ids))
    table.write_parquet(tmp_path / "in.parquet")
    for name, by_case in (("a.jsonl", True), ("b.jsonl", False), ("c.csv", False), ("d.csv", True), ("e.xml", True)):
        for _ in range(2):
            predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / name, by_case=by_case)
    numbered = table.with_columns(case_id=pl.lit("12"), report_number=pl.lit('S}{"1'))
    numbered.write_parquet(tmp_path / "in.parquet")
    for name in ("e.xml", "e.xml"):
        predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / name)
    for _ in range(2):  # a name that says another form than what is written
        predict_to_file(bundle, tmp_path / "in.parquet", tmp_path / "f.csv", output_format="jsonl")


def test_a_stream_can_be_written(bundle, table, tmp_path):
    write(table, tmp_path / "in.csv")
    stream = io.StringIO()
    assert predict_to_file(bundle, tmp_path / "in.csv", stream).out == "-"
    predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.jsonl")
    assert stream.getvalue() == (tmp_path / "out.jsonl").read_text()
    with pytest.raises(UsageError, match="second file beside it"):
        predict_to_file(bundle, tmp_path / "in.csv", stream, output_format="naaccr-xml")


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
    cases = bundle.predict(table, by_case=True, one_tumor=True).to_frame()
    assert cases.height == 25 and cases["reports"].to_list() == [2] * 25


def test_a_frame_of_answers_leads_back_to_reports(bundle, hl7_samples, table):
    """Ids of messages match no other run: that is said, and number, message, file and position are there."""
    one = bundle.predict(hl7_samples)
    frame = one.to_frame()
    assert frame["report_number"].null_count() == frame["file"].null_count() == 0 and "match no other run" in repr(one)
    assert frame["position"].to_list() == [result.reports[0].position for result in one.results]
    row = bundle.predict(table, by_case=True, one_tumor=True).to_frame().row(0, named=True)
    assert len(row["report_ids"]) == len(row["report_numbers"]) == len(row["positions"]) == 2 and row["doubtful"] == []
    assert "Note: 1 report holds nothing the model can read" in repr(bundle.predict(["zzyzx"]))


def test_a_text_in_rtf_is_coded_alike_however_it_is_given(bundle, table, tmp_path):
    plain = table["text"][0]
    rtf = r"{\rtf1\ansi{\fonttbl{\f0 Breast;}}" + plain.replace("\n", r"\par ") + "}"
    page = f"<p>{plain}</p>"
    write(pl.DataFrame({"text": [plain, rtf, page]}), tmp_path / "in.parquet")
    expected, *others = [one.codes for one in bundle.predict(tmp_path / "in.parquet").results]
    given = [one.codes for one in bundle.predict([rtf, page]).results]
    for codes in (*others, *given, bundle.answer(rtf).codes, bundle.answer(page).codes):
        assert [code.probability for code in codes.values()] == pytest.approx(
            [code.probability for code in expected.values()], abs=1e-5
        )
    for ask in (lambda: bundle.answer(rtf, explain=2), lambda: bundle.explain(page)):
        with pytest.raises(UsageError, match="RTF or a page, and places would lie in what is made of it"):
            ask()


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


def test_a_table_with_other_names_is_coded_by_its_mapping(bundle, table, answers, tmp_path):
    """A messy export: semicolons, Windows-1252, names of its own."""
    lines = ["ReportNo;PatientID;Befund;Straße"]
    rows = table.select("report_id", "case_id", "text").iter_rows()
    lines += [f"{number};{patient};{text};Allee" for number, patient, text in rows]
    (tmp_path / "lab.csv").write_bytes("\n".join(lines).encode("cp1252"))
    mapping = TableMapping(columns={"report_id": "ReportNo", "case_id": "PatientID", "text": "Befund", "site": "Ort"})
    predict_to_file(bundle, tmp_path / "lab.csv", tmp_path / "codes.csv", mapping=mapping)
    given = pl.read_csv(tmp_path / "codes.csv", infer_schema=False)
    assert given["report_id"].to_list() == list(answers) and given["case_id"].to_list() == table["case_id"].to_list()
    assert given["site"].to_list() == [codes["site"].code for codes in answers.values()]
    with pytest.raises(UsageError, match="has no column 'Text' to take text from"):
        predict_to_file(
            bundle, tmp_path / "lab.csv", tmp_path / "x.csv", mapping=TableMapping(columns={"text": "Text"})
        )
    assert not (tmp_path / "x.csv").exists()


def ragged(table, path):
    """A CSV of which the third record has a field too many and the seventh too few."""
    rows = list(csv.reader(io.StringIO(table.write_csv())))
    rows[3].append("Quillfeather")
    del rows[7][2:]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_rows_that_cannot_be_read_are_skipped_counted_and_named(bundle, table, answers, tmp_path):
    ragged(table, tmp_path / "in.csv")
    for options in ({}, {"by_case": True, "one_tumor": True}):
        result = predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.jsonl", **options)
        assert result.reports == 48 and (result.tables.rows, result.tables.skipped_total) == (50, 2)
        assert [(one.row, one.reason[:12]) for one in result.tables.skipped] == [
            (4, "has 10 field"),
            (8, "has 2 fields"),
        ]
        assert "50 read, 2 skipped" in repr(result) and "line 8 has 2 fields" in repr(result)
        assert "Quillfeather" not in repr(result) + result.to_json()
    predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    kept = [number for number in range(1, 51) if number not in (3, 7)]
    assert [line["position"] for line in lines] == kept  # which lead to the rows of the file, skipped ones counted
    assert [line["report_id"] for line in lines] == [table["report_id"][number - 1] for number in kept]
    assert all(line["codes"]["site"]["code"] == answers[line["report_id"]]["site"].code for line in lines)
    in_memory = bundle.predict(tmp_path / "in.csv")
    assert in_memory.tables.skipped_total == 2 and "2 skipped" in repr(in_memory)


def test_a_table_with_too_many_rows_that_cannot_be_read_is_refused(bundle, table, tmp_path):
    ragged(table.head(15), tmp_path / "in.csv")
    with pytest.raises(CorpusError, match="2 of 15 rows cannot be used, more than the 10 %"):
        predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.csv")
    with pytest.raises(CorpusError, match="record at line 4 has 10 fields"):
        predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.csv", strict=True)
    with pytest.raises(UsageError, match="--most-skipped 1: expected a share"):
        predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.csv", most_skipped=1)
    assert not (tmp_path / "out.csv").exists()
    assert predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.csv", most_skipped=0.2).reports == 13


def test_lines_that_are_no_json_are_skipped_and_have_a_position(bundle, table, tmp_path):
    lines = table.head(30).write_ndjson().splitlines()
    lines[4], lines[20] = '{"text": "Quillfeather', ""
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    result = predict_to_file(bundle, tmp_path / "in.jsonl", tmp_path / "out.csv")
    assert (result.reports, result.tables.rows, result.tables.skipped_total) == (28, 29, 1)  # a blank line is no row
    assert [(one.row, one.reason) for one in result.tables.skipped] == [(5, "is not JSON; expected one object a line")]
    assert pl.read_csv(tmp_path / "out.csv")["position"].to_list() == [*range(1, 5), *range(6, 30)]


def with_notes(table, path):
    """A table in which a report has lost its text, and under which two notes stand, as people write them."""
    rows = table.head(40).select("report_id", "case_id", "registry", "text").rows()
    rows[20] = (*rows[20][:3], " ")
    rows += [("Stand: 3.4.2024, Fr. Quillfeather", None, None, None), (None, "Ende", None, None)]
    if path.suffix == ".xlsx":
        return workbook(path, {"S": [("report_id", "case_id", "registry", "text"), *rows]})
    write(pl.DataFrame(rows, schema=["report_id", "case_id", "registry", "text"], orient="row"), path)


@pytest.mark.parametrize("name", ["in.xlsx", "in.csv", "in.jsonl", "in.parquet"])
def test_rows_without_text_are_skipped_as_an_import_skips_them(bundle, table, tmp_path, name):
    with_notes(table, tmp_path / name)
    result = predict_to_file(bundle, tmp_path / name, tmp_path / "out.xml")
    tumours = ElementTree.parse(tmp_path / "out.xml").findall(".//{*}Tumor")
    assert result.reports == 39 and len(tumours) == result.answers and all(len(tumour) for tumour in tumours)
    assert "Quillfeather" not in (tmp_path / "out.probabilities.jsonl").read_text() + repr(result) + result.to_json()
    imported = import_corpus(tmp_path / name, out=tmp_path / "out.parquet").tables
    assert (result.tables.rows, result.tables.skipped_total) == (imported.rows, imported.skipped_total) == (42, 3)
    assert [(one.file, one.counted, one.row) for one in result.tables.skipped] == [
        (one.file, one.counted, one.row) for one in imported.skipped
    ]
    assert result.tables.reasons == {"has no text": 3} and "42 read, 3 skipped" in repr(result)
    predict_to_file(bundle, tmp_path / name, tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["position"] for line in lines] == [number for number in range(1, 41) if number != 21]
    with pytest.raises(CorpusError, match="has no text"):
        predict_to_file(bundle, tmp_path / name, tmp_path / "strict.csv", strict=True)
    with pytest.raises(CorpusError, match="3 of 42 rows cannot be used, more than the 5"):
        predict_to_file(bundle, tmp_path / name, tmp_path / "few.csv", most_skipped=0.05)


def test_strict_refuses_a_message_that_would_be_skipped(bundle, tmp_path):
    report = "MSH|^~\\&||LAB|||20200101||ORU^R01|M{0}\rPID|1||{0}4661^^^LAB^MR\rOBR|1||S{0}\rOBX|1|TX|22637-3||{1}\r"
    texts = ["colon carcinoma", "", "left breast"]
    (tmp_path / "lab.hl7").write_text("".join(report.format(number, text) for number, text in enumerate(texts)))
    result = predict_to_file(bundle, tmp_path / "lab.hl7", tmp_path / "out.csv")
    assert (result.reports, result.skipped_messages, result.tables) == (2, 1, None)
    with pytest.raises(CorpusError, match=r"message 2 .* without --strict it would be skipped"):
        predict_to_file(bundle, tmp_path / "lab.hl7", tmp_path / "out.csv", strict=True)
    (tmp_path / "none.hl7").write_text(report.format(1, ""))
    for use in (bundle.drift, lambda path: predict_to_file(bundle, path, tmp_path / "none.csv")):
        with pytest.raises(CorpusError, match="no report could be read; 1 message skipped, the first because it"):
            use(tmp_path / "none.hl7")


def test_reports_with_one_id_are_coded_and_warned_of(bundle, table, tmp_path):
    ids = ["a", "b", "a", "a", *map(str, range(46))]
    table.with_columns(report_id=pl.Series(ids)).write_csv(tmp_path / "in.csv")
    result = predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.csv")
    assert result.reports == 50 and result.warnings[0].startswith("2 reports have the report_id of an earlier one")
    assert "Note: 2 reports have the report_id" in repr(bundle.predict(tmp_path / "in.csv"))
    assert predict_to_file(bundle, tmp_path / "in.csv", tmp_path / "out.xml").warnings[0].startswith("2 reports have")


def test_an_output_that_is_none_is_refused(bundle, tmp_path):
    with pytest.raises(UsageError, match="out: expected the name of a file, or a stream; got NoneType"):
        predict_to_file(bundle, tmp_path / "in.csv", None)
