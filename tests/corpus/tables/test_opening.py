"""One opener: import, map and label take the same files and databases, and say alike what they do not take."""

import datetime
import gzip
import json
import sqlite3

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.tables.opening import Source, detect_format, open_source, sources_of
from pathveil.errors import CorpusError, UsageError

SECRET = "Quastenflosser"
QUERY = "select AccNo, Pat, Topo, Befund from abstracts"


@pytest.fixture
def database(tmp_path, monkeypatch):
    path = tmp_path / "registry.db"
    with sqlite3.connect(path) as opened:
        opened.execute("create table abstracts (AccNo, Pat, Topo, Befund)")
        rows = [(f"S{n}", n // 2, "C504", f"{SECRET} breast, ductal carcinoma, number {n}") for n in range(20)]
        opened.executemany("insert into abstracts values (?, ?, ?, ?)", rows)
    opened.close()
    monkeypatch.setenv("REGISTRY", f"sqlite:///{path}")
    return path


def test_map_import_and_label_read_a_database(database, tmp_path, inside):
    told = ["--database", "REGISTRY", "--query", QUERY]
    done = inside("corpus", "map", *told, "--out", tmp_path / "map.toml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["columns"]["subsite"] == "Topo" and SECRET not in done.stdout
    assert (
        "pathveil corpus import --database VARIABLE --map"
        in inside("corpus", "map", *told, "--out", tmp_path / "other.toml").stdout
    )
    columns = [f"--column={ours}={theirs}" for ours, theirs in (("report_id", "AccNo"), ("case_id", "Pat"))]
    columns.append("--column=text=Befund")
    query = ["--database", "REGISTRY", "--query", "select AccNo, Pat, Befund from abstracts"]
    out = ["--registry", "R", "--out", tmp_path / "reports.parquet"]
    assert inside("corpus", "import", *query, *columns, *out).returncode == 0
    for source in (told, [database]):  # by its address, and as a file
        labelled = tmp_path / f"labelled-{len(source)}.parquet"
        columns = ["--column", "report_id=AccNo", "--column", "subsite=Topo", "--on", "report_id"]
        done = inside("corpus", "label", tmp_path / "reports.parquet", *source, *columns, "--out", labelled)
        assert done.returncode == 0, done.stderr
        assert pl.read_parquet(labelled)["site"].to_list() == ["C50"] * 20


def test_what_is_no_table_is_told_by_all_alike(tmp_path, inside, database):
    message = tmp_path / "m.hl7"
    message.write_text(f"MSH|^~\\&||LAB\rPID|1||{SECRET}\r")
    done = inside("corpus", "map", message, "--out", tmp_path / "map.toml")
    assert done.returncode == 2 and "messages need no mapping" in done.stderr and SECRET not in done.stderr
    with pytest.raises(CorpusError, match="holds messages, no table"):
        open_source(Source(message, "hl7"), mapping=TableMapping())
    for given in ([], [message, "--database", "REGISTRY"]):
        done = inside("corpus", "map", *given, "--out", tmp_path / "map.toml")
        assert done.returncode == 2 and "give a file to read, or a database" in done.stderr
    with pytest.raises(UsageError, match="--format tape is not known"):
        sources_of([message], form="tape")
    assert not (tmp_path / "map.toml").exists()


TABLE = "report_id\tcase_id\ttext\n" + "".join(f"r{n}\t{n}\t{SECRET}, left\n" for n in range(3))


@pytest.mark.parametrize("name", ["m.msg", "m.oru", "m.out", "M20160502", "m.dat", "m.MSG.gz"])
def test_messages_in_a_folder_are_read_under_the_names_that_interfaces_give_them(tmp_path, name):
    folder = tmp_path / "in"
    folder.mkdir()
    content = b"MSH|^~\\&||LAB\rPID|1||7701^^^LAB^MR\rOBX|1|TX|22637-3||colon\r"
    (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    for other in ("LICENSE", "notes.msg"):
        (folder / other).write_text("no messages")
    result = import_corpus(folder, out=tmp_path / "c.parquet")
    assert result.reports == 1 and result.passed_over == ["LICENSE", "notes.msg"]


def test_of_a_folder_whose_texts_are_told_to_be_the_reports_nothing_else_is_read(tmp_path):
    for name in ("S16-1.txt", "S16-2.rtf", "index.csv", "lab.hl7"):
        (tmp_path / name).write_text(TABLE if name == "index.csv" else "left breast")
    assert [one.name.name for one in sources_of(tmp_path, form="text")] == ["S16-1.txt", "S16-2.rtf"]


def test_a_folder_of_folders_says_that_they_are_not_looked_into(tmp_path):
    (tmp_path / "in" / "2022").mkdir(parents=True)
    with pytest.raises(CorpusError, match=r"in: the folder holds no table or HL7 file; folders in it are not looked"):
        import_corpus(tmp_path / "in", out=tmp_path / "c.parquet")


def test_a_table_whose_lines_end_in_their_delimiter_is_one(tmp_path):
    (tmp_path / "lab.txt").write_text("report_id|case_id|registry|text|\n1|7|R|colon|\n2|8|R|lung|\n")
    result = import_corpus(tmp_path / "lab.txt", out=tmp_path / "c.parquet")
    assert result.reports == 2 and pl.read_parquet(tmp_path / "c.parquet")["text"].to_list() == ["colon", "lung"]


@pytest.mark.parametrize("name", ["lab.txt", "lab.dat", "lab.asc", "lab.txt.gz", "lab.xls"])
def test_a_table_without_the_name_of_one_is_told_by_its_contents(tmp_path, name):
    content = TABLE.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert detect_format(tmp_path / name) == "csv"
    assert import_corpus(tmp_path / name, out=tmp_path / "c.parquet", registry="R").reports == 3


def test_text_that_lies_beside_tables_is_not_read_but_named(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "lab.tsv").write_text(TABLE)
    (folder / "README.txt").write_text(f"Dear all, {SECRET}, here they are\n")
    (folder / "gone.csv").symlink_to(tmp_path / "nowhere")
    for name in ("empty.csv", "empty.hl7"):
        (folder / name).touch()
    result = import_corpus(folder, out=tmp_path / "c.parquet", registry="R")
    assert result.reports == 3 and result.passed_over == ["README.txt", "empty.csv", "empty.hl7", "gone.csv"]
    with pytest.raises(CorpusError, match=r"empty\.hl7: is empty; expected a table or messages"):
        detect_format(folder / "empty.hl7")


def test_lines_of_objects_under_the_name_of_json(tmp_path):
    rows = [{"report_id": f"r{n}", "case_id": n, "text": SECRET, "parts": [{"name": "A"}]} for n in range(3)]
    (tmp_path / "r.json").write_text("\n".join(map(json.dumps, rows)))
    assert import_corpus(tmp_path / "r.json", out=tmp_path / "c.parquet", registry="R").reports == 3
    (tmp_path / "r.json").write_text(json.dumps({"reports": rows}) + "\n")
    assert detect_format(tmp_path / "r.json") == "json"


def test_an_archive_under_the_name_of_csv_is_called_that(tmp_path):
    (tmp_path / "lab.csv").write_bytes(b"PK\3\4" + bytes(range(256)))
    with pytest.raises(CorpusError, match=r"lab\.csv: is no CSV but an archive or a spreadsheet; unpack it"):
        sources_of([tmp_path / "lab.csv"])


def test_a_page_under_the_name_of_a_spreadsheet_is_called_that(tmp_path):
    (tmp_path / "lab.xls").write_text(f"<html><table><tr><td>{SECRET}</td></tr></table></html>")
    with pytest.raises(CorpusError, match=r"lab\.xls: is a web page, no spreadsheet; open it in one and save"):
        sources_of([tmp_path / "lab.xls"])


def test_days_that_are_whole_numbers(tmp_path):
    table = {"report_id": ["a", "b"], "case_id": [1, 2], "registry": "R", "text": SECRET}
    for days in ([20160502, None], [20160502.0, None]):
        pl.DataFrame({**table, "date": days}).write_parquet(tmp_path / "r.parquet")
        import_corpus(tmp_path / "r.parquet", out=tmp_path / "c.parquet")
        assert pl.read_parquet(tmp_path / "c.parquet")["date"].to_list() == [datetime.date(2016, 5, 2), None]
    pl.DataFrame({**table, "date": [42_491, 42_492]}).write_parquet(tmp_path / "r.parquet")  # as Excel counts them
    with pytest.raises(CorpusError, match="column 'date': 2 reports cannot be read"):
        import_corpus(tmp_path / "r.parquet", out=tmp_path / "c.parquet")


def test_the_mapping_of_another_table_is_called_that(tmp_path):
    (tmp_path / "r.csv").write_text(TABLE)
    for theirs, hint in (("Befund", "; is the mapping that of another table?"), ("Text", " (did you mean 'text'?)")):
        with pytest.raises(UsageError) as caught:
            import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet", registry="R", columns={"text": theirs})
        assert str(caught.value).endswith(f"has no column '{theirs}' to take text from{hint}")


def test_a_resource_that_says_its_kind_last_is_one(tmp_path):
    """As a serialiser writes it that sorts names: a presented text of some kilobytes stands before its kind."""
    content = '{"presentedForm": [{"data": "%s"}], "resourceType": "DiagnosticReport"}\n' % ("QUFB" * 3_000)
    for name in ("r.json", "r.ndjson"):
        (tmp_path / name).write_text(content)
        assert detect_format(tmp_path / name) == "fhir"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "r.sas7bdat",
            "is a SAS dataset; export it as CSV, or give pathveil.read() the frame of pandas.read_sas()",
        ),
        ("r.MDB", "is an Access database; export the table as CSV or .xlsx"),
        ("r.tar.gz", "is an archive; unpack it, and give what is in it"),
        ("r.pdf", "is a document; give texts in a table"),
    ],
)
def test_what_others_keep_tables_in_is_named(tmp_path, name, sentence):
    (tmp_path / name).write_bytes(b"\0\1 Quastenflosser")
    with pytest.raises(CorpusError) as caught:
        detect_format(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: {sentence}") and "Quasten" not in str(caught.value)
