"""The schema: what a corpus must hold, and one sentence for every way in which it does not."""

import datetime
import gzip
import hashlib
import json
import subprocess
import sys

import polars as pl
import pytest

from pathveil.corpus import TASKS, content_sha256, scan, tasks_of, validate
from pathveil.corpus.schema import problems
from pathveil.errors import CorpusError

SECRET = "Hildegard Quastenflosser"
GOOD = {
    "report_id": ["a", "b", "c"],
    "case_id": ["1", "1", "2"],
    "registry": ["R1", "R1", "R2"],
    "text": [f"{SECRET} left breast", "addendum\nfollows", 'colon, "sigmoid"'],
    "site": ["C50", None, "C18"],
    "histology": ["8500", "8500", None],
}


def frame(**changes) -> pl.LazyFrame:
    return pl.LazyFrame({name: column for name, column in (GOOD | changes).items() if column is not None})


@pytest.fixture
def write(tmp_path):
    """Write a table in a form and return its path."""

    def to(name: str, columns: dict) -> object:
        path = tmp_path / name
        table = pl.DataFrame(columns)
        if ".parquet" in name:
            table.write_parquet(path)
        elif ".csv" in name:
            content = table.write_csv().encode()
            path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        else:
            content = "".join(json.dumps(row) + "\n" for row in table.to_dicts()).encode()
            path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        return path

    return to


def test_the_package_imports_without_polars():
    code = "import sys, pathveil.corpus; print('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.csv.gz", "r.jsonl", "r.jsonl.gz", "r.ndjson"])
def test_every_form_reads_alike(write, name):
    read = validate(scan(write(name, GOOD | {"date": ["2016-05-02", None, "20170101"]}))).collect()
    assert read.select(*GOOD).to_dict(as_series=False) == GOOD
    assert read["date"].to_list() == [datetime.date(2016, 5, 2), None, datetime.date(2017, 1, 1)]
    assert tasks_of(read) == ("site", "histology")


def test_several_files_and_a_folder_are_one_corpus(write, tmp_path):
    more = {
        "report_id": ["d"],
        "case_id": ["9"],
        "registry": ["R3"],
        "text": ["skin"],
        "behavior": ["3"],
        "note": ["x"],
    }
    first, second = write("1.parquet", GOOD), write("2.csv", more)
    (tmp_path / "readme.txt").write_text("not a table")
    (tmp_path / ".3.csv").write_text("hidden")
    (tmp_path / "4.parquet.part").write_text("unfinished")
    for paths in ([first, second], tmp_path, str(tmp_path)):
        read = validate(scan(paths)).collect()
        assert read["report_id"].to_list() == ["a", "b", "c", "d"]
        assert read["behavior"].to_list() == [None, None, None, "3"] and "note" in read.columns
    assert tasks_of(read) == ("site", "histology", "behavior")


def test_numbers_become_text_and_blanks_become_missing(write):
    columns = GOOD | {"report_id": [1, 2, 3], "histology": [8500, 8140, None], "site": [" C50 ", "", " "]}
    read = validate(scan(write("r.parquet", columns))).collect()
    assert read["report_id"].to_list() == ["1", "2", "3"]
    assert read["histology"].to_list() == ["8500", "8140", None]
    assert read["site"].to_list() == ["C50", None, None]
    grade = scan(write("g.parquet", GOOD | {"grade": [1, 2, None]}), tasks=["grade"])
    assert tasks_of(grade, ["grade"]) == ("grade",)
    assert grade.collect()["grade"].to_list() == ["1", "2", None]


@pytest.mark.parametrize("column", ["report_id", "case_id", "registry", "text"])
@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.jsonl"])
def test_a_missing_column_is_named_with_the_nearest(write, name, column):
    renamed = {column.upper() if name == column else name: values for name, values in GOOD.items()}
    path = write(name, renamed)
    with pytest.raises(CorpusError, match=rf"{name}: column '{column}' is missing \(did you mean '{column.upper()}'"):
        scan(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"report_id": ["a", "a", "c"]}, "column 'report_id': 1 id is used by more than one report (a)"),
        ({"report_id": ["a", None, "c"]}, "column 'report_id': 1 report has none (row 2)"),
        ({"case_id": [None, None, "2"]}, "column 'case_id': 2 reports have none (a, b)"),
        ({"registry": ["R1", "R1", None]}, "column 'registry': 1 report has none (c)"),
        ({"text": [SECRET, None, " \n\t"]}, "column 'text': 2 reports are empty (b, c)"),
        ({"text": ["\N{NO-BREAK SPACE} ~", "~", "\N{EM SPACE}"]}, "column 'text': 1 report is empty (c)"),
        ({"date": ["2016-05-02", "05/02/2016", "2016-02-30"]}, "column 'date': 2 reports cannot be read (b, c)"),
        ({"year": ["2016", "about 2016", " "]}, "column 'year': 1 report cannot be read (b)"),
    ],
)
def test_each_fault_is_one_sentence_without_text(changes, sentence):
    (found,) = problems(frame(**changes))
    assert found.startswith(sentence)
    with pytest.raises(CorpusError) as caught:
        validate(frame(**changes))
    assert "Hildegard" not in str(caught.value)


def test_all_faults_are_told_at_once_and_long_lists_end():
    many = pl.LazyFrame(
        {"report_id": [f"r{n}" for n in range(9)], "case_id": [None] * 9, "registry": ["R"] * 9, "text": [""] * 9}
    )
    case, text = problems(many.cast(pl.String))
    assert case.startswith("column 'case_id': 9 reports have none (r0, r1, r2, r3, r4, …)")
    assert text.startswith("column 'text': 9 reports are empty (")


def test_a_text_in_the_id_column_stays_out_of_the_message():
    long = f"pathology report of {SECRET}, born 1957, left breast"
    (found,) = problems(frame(report_id=[long, long, "c"]))
    assert "Hildegard" not in found


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"histology": [8500.0, 8140.0, None]}, "column 'histology' holds Float64, expected text"),
        ({"text": [["a"], ["b"], ["c"]]}, r"column 'text' holds List\(String\), expected text"),
        ({"date": [2016, 2017, 2018]}, "column 'date' holds Int64"),
        ({"year": [datetime.date(2016, 1, 1)] * 3}, "column 'year' holds Date"),
    ],
)
def test_a_column_of_another_type_is_refused(write, changes, match):
    with pytest.raises(CorpusError, match=match):
        scan(write("r.parquet", GOOD | changes))


def test_dates_and_years_of_other_types_are_taken(write):
    moment = datetime.datetime(2016, 5, 2, 12, 30)
    read = validate(scan(write("r.parquet", GOOD | {"date": [moment, None, moment], "year": [2016.0, None, 2017.0]})))
    assert read.collect()["date"].to_list() == [moment.date(), None, moment.date()]
    assert read.collect()["year"].to_list() == [2016, None, 2017]


def test_a_wrong_task_names_the_nearest():
    with pytest.raises(CorpusError, match=r"no task column 'hystology' \(did you mean 'histology'\?\); the corpus has"):
        tasks_of(frame(), ["site", "hystology"])
    with pytest.raises(CorpusError, match="no task column 'text'"):
        tasks_of(frame(), ["text"])
    with pytest.raises(CorpusError, match="no task column 'site'; the corpus has no labels at all: none of site, sub"):
        tasks_of(frame(site=None, histology=None), ["site"])
    assert tasks_of(frame(site=None, histology=None)) == ()
    assert set(TASKS) >= set(tasks_of(frame()))


@pytest.mark.parametrize("task", ["text", "report_id", "registry"])
def test_a_column_every_corpus_has_is_no_task(write, task):
    with pytest.raises(CorpusError, match=f"no task column '{task}'"):
        tasks_of(scan(write("r.parquet", GOOD), tasks=[task]), [task])


def test_files_that_are_not_there_or_not_tables(tmp_path):
    for name, content in {"a.parquet": b"PAR1" + SECRET.encode(), "b.csv": b"", "c.jsonl": b"", "d.xlsx": b"x"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CorpusError, match=name) as caught:
            scan(tmp_path / name)
        assert "Hildegard" not in str(caught.value)
    with pytest.raises(CorpusError, match="there is no such file"):
        scan(tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="the folder holds no"):
        scan(tmp_path / "empty")
    with pytest.raises(CorpusError, match="no file was given"):
        scan([])


def test_content_hash(write):
    first, second = write("1.csv", GOOD), write("2.csv", GOOD | {"site": ["C50"] * 3})
    assert content_sha256(first) == hashlib.sha256(first.read_bytes()).hexdigest()
    assert content_sha256([first, second]) != content_sha256([second, first])


def test_tcga_as_it_is(tcga):
    read = validate(scan(tcga))
    assert tasks_of(read) == TASKS
    assert read.select(pl.len()).collect().item() == 6453
    assert read.collect_schema()["year"] == pl.Int32


def test_a_damaged_page_of_any_column_is_found_by_validate(tmp_path):
    """It was found by whoever read that column first, and as a defect of ours."""
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame({"report_id": ["a"], "case_id": ["1"], "registry": ["R1"], "text": ["left"], "site": ["MARK"]})
    frame.write_parquet(path, compression="uncompressed", statistics=False)
    whole = path.read_bytes()
    assert whole.count(b"MARK") >= 1
    path.write_bytes(whole.replace(b"MARK", b"\xff\xff\xff\xff"))
    with pytest.raises(CorpusError, match="cannot be read to its end"):
        validate(scan(path))


def test_of_a_table_that_is_no_corpus_it_is_said_what_makes_one(tmp_path):
    path = tmp_path / "lab.csv"
    path.write_text("ReportNo,PatientID,Text\n1,7,colon\n")
    with pytest.raises(CorpusError) as refused:
        scan(path)
    assert str(refused.value).endswith(
        "a corpus needs report_id, case_id, registry, text; 'pathveil corpus import' makes one of other tables, "
        "and --map reads one by its mapping"
    )
