"""One opener: import, map and label take the same files and databases, and say alike what they do not take."""

import json
import sqlite3

import polars as pl
import pytest

from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.opening import Source, open_source, sources_of
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
