"""Databases: PostgreSQL from its real server, others through SQLAlchemy; only read, streamed, no row quoted."""

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.tables.database import address_from_environment, open_database
from pathveil.errors import CorpusError, UsageError

QUERY = "select acc as report_id, pat as case_id, taken as date, body as text, topo as site from reports order by acc"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A PostgreSQL server of our own, on a socket in a folder; its address."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(shutil.which("initdb") or "/none/x").parent]
    if not (found[-1] / "initdb").exists():
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    folder = tmp_path_factory.mktemp("pg")
    owner = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("there is no account 'postgres' to run the server")
        owner = {"user": "postgres", "group": account.pw_gid, "extra_groups": []}
        for parent in (folder, *folder.parents[:-2]):  # below the system's own folder for temporary files
            parent.chmod(0o755)
        (folder / "run").mkdir()
        os.chown(folder / "run", account.pw_uid, account.pw_gid)
    else:
        (folder / "run").mkdir()
    place = folder / "run"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place, **owner}
    make = [found[-1] / "initdb", "-D", place / "data", "-U", "tester", "--no-sync", "-A", "trust", "-E", "UTF8"]
    subprocess.run([*map(str, make), "--no-instructions"], check=True, **quiet)
    process = subprocess.Popen(
        [found[-1] / "postgres", "-D", place / "data", "-k", place, "-c", "listen_addresses=", "-c", "fsync=off"],
        **quiet,
    )
    address = f"postgresql://tester@/postgres?host={place}"
    import psycopg

    for _ in range(600):
        try:
            connection = psycopg.connect(address, autocommit=True)
            break
        except psycopg.OperationalError:
            time.sleep(0.1)
    else:
        pytest.fail("the server did not start")
    with connection:
        connection.execute("create table reports (acc text, pat int, taken date, body text, topo text, scan bytea)")
        connection.execute(
            "insert into reports select 'S' || n, n / 2, '2016-05-02', 'zebrowska colon ' || n, 'C18', '\\xff' "
            "from generate_series(1, 12000) n"
        )
    connection.close()
    yield address
    process.terminate()
    process.wait(timeout=60)


def test_postgresql_is_imported(server, tmp_path):
    result = import_corpus(
        [], out=tmp_path / "c.parquet", registry="R1", database=server, mapping=TableMapping(query=QUERY)
    )
    assert (result.reports, result.cases, result.registries) == (12_000, 6_001, {"R1": 12_000})
    assert result.files[0].file == "the database" and "tester" not in result.to_json()
    head = open_database(server, query=QUERY).head(1).collect()
    assert head.row(0) == ("S1", "0", "2016-05-02", "zebrowska colon 1", "C18")


def test_days_that_python_does_not_have_cost_their_row(server, tmp_path):
    """It was said of a whole table that its database cannot be reached."""
    days = "case n when 7 then 'infinity' when 8 then '-infinity' else '2016-05-02' end"
    for kind in ("date", "timestamp", "timestamptz"):
        query = f"select n as report_id, n as case_id, 'colon' as text, ({days})::{kind} as date"
        mapping = TableMapping(query=f"{query} from generate_series(1, 30) n")
        result = import_corpus([], out=tmp_path / "c.parquet", registry="R", database=server, mapping=mapping)
        assert result.reports == 28 and result.tables.reasons == {"has a date that cannot be read": 2}
    style = f"{server}&options=-cdatestyle%3DSQL%2CDMY"
    assert open_database(style, query="select '2016-05-02'::date as date").collect().item() == "2016-05-02"


def test_columns_of_lists_and_objects_are_texts(server):
    query = """select array['C504', 'C509'] as codes, '{"a": 1}'::jsonb as whole, 8.5::numeric as size, true as done"""
    assert open_database(server, query=query).collect().row(0) == ("['C504', 'C509']", "{'a': 1}", "8.5", "True")


def test_a_refusal_says_how_a_mapping_is_made(server, tmp_path):
    with pytest.raises(CorpusError, match="pathveil corpus map --database VARIABLE --out"):
        import_corpus([], out=tmp_path / "c.parquet", database=server, mapping=TableMapping(query="select 1 as x"))


def test_rows_come_a_batch_at_a_time(server):
    """The client never holds the whole answer: a query of three million rows starts at once."""
    frame = open_database(server, query="select n::text as text from generate_series(1, 3000000) n")
    assert frame.head(3).collect()["text"].to_list() == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("select nothing from reports", 'the query cannot be run \\(column "nothing" does not exist'),
        ("selekt", "the query cannot be run"),
        ("drop table reports", "the query cannot be run|change something"),
        ("select 1 as a; drop table reports", "the query cannot be run"),
        ("select body, body from reports", "two of one name"),
        ("", "--query"),
    ],
)
def test_a_bad_query_is_one_sentence(server, query, reason):
    with pytest.raises(UsageError, match=reason):
        open_database(server, query=query)


@pytest.mark.parametrize("query", ["select body::int as text from reports", "select scan as text from reports"])
def test_a_fault_on_the_way_quotes_nothing(server, tmp_path, query):
    with pytest.raises((CorpusError, UsageError)) as error:
        import_corpus([], out=tmp_path / "c.parquet", database=server, mapping=TableMapping(query=query))
    assert "zebrowska" not in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "c.parquet").exists()


def test_the_address_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("LAB_DATABASE", "postgresql://x@nowhere.invalid/lab")
    assert address_from_environment("LAB_DATABASE").endswith("/lab")
    for wrong, reason in (
        ("postgresql://me:secret@host/lab", "can be seen by others"),
        ("NOT_SET", "holds no database's address"),
    ):
        with pytest.raises(UsageError, match=reason) as error:
            address_from_environment(wrong)
        assert "secret" not in str(error.value)


def test_a_database_that_cannot_be_reached(tmp_path):
    pytest.importorskip("psycopg")
    with pytest.raises(UsageError, match="cannot be reached") as error:
        open_database(f"postgresql://me:secret@/lab?host={tmp_path}", query="select 1 as text")
    assert "secret" not in str(error.value)


def test_others_go_through_sqlalchemy(tmp_path):
    pytest.importorskip("sqlalchemy")
    import sqlite3

    with sqlite3.connect(tmp_path / "lab.db") as database:
        database.execute("create table reports (acc text, body text)")
        database.executemany("insert into reports values (?, ?)", [(f"S{n}", f"colon {n}") for n in range(7_000)])
    address = f"sqlite+pysqlite:///{tmp_path / 'lab.db'}"
    frame = open_database(address, query="select acc as report_id, body as text from reports")
    assert frame.collect().height == 7_000 and frame.head(1).collect().row(0) == ("S0", "colon 0")
    assert open_database(f"sqlite:///{tmp_path / 'lab.db'}", query="select acc from reports").collect().height == 7_000
    for wrong in ("selekt", "create table x (y int)"):
        with pytest.raises(UsageError, match=r"cannot be run|gives no rows"):
            open_database(address, query=wrong)
    with pytest.raises(UsageError, match="knows no such address"):
        open_database("nothing+none://x/y", query="select 1")


def test_without_a_driver_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Exception, match=r"pathveil\[postgresql\]"):
        open_database("postgresql://x/y", query="select 1 as text")
