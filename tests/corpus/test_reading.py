"""Reading a corpus in Python: files in place, frames and messages through a private copy that goes with the object."""

import datetime
import gc
import math
import os
import pickle
import stat
import subprocess
import sys

import polars as pl
import pytest

from pathveil.corpus import Corpus, content_sha256, read
from pathveil.corpus.check import check
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.reading import synthetic_corpus
from pathveil.corpus.schema import scan
from pathveil.corpus.synth import SynthSettings
from pathveil.errors import CorpusError, UsageError
from pathveil.vocabulary.tokens import tokens

SECRET = "Quastenflosser"


def reports(number: int = 40) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "report_id": [f"r{i}" for i in range(number)],
            "case_id": [f"c{i // 2}" for i in range(number)],
            "registry": [f"R{i // 2 % 2 + 1}" for i in range(number)],
            "date": [datetime.date(2015, 1, 1) + datetime.timedelta(days=20 * i) for i in range(number)],
            "text": [f"{SECRET} left breast {i}" for i in range(number)],
            "site": [f"C{i // 2 % 3}0" for i in range(number)],
            "grade": [str(i % 2) for i in range(number)],
        }
    )


class PandasColumn:
    """What ``read`` uses of a pandas column, for this suite does without pandas."""

    def __init__(self, values):
        self.values = values

    def isna(self):
        return PandasColumn([value is None or value != value for value in self.values])

    def tolist(self):
        return list(self.values)


class PandasIndex:
    def __init__(self, levels):
        self.names, self._levels = list(levels), levels

    def get_level_values(self, name):
        return PandasColumn(self._levels[name])


class PandasFrame:
    def __init__(self, columns, index=None):
        self._columns, self.columns = columns, list(columns)
        self.index = PandasIndex(index or {None: range(40)})

    def __getitem__(self, name):
        return PandasColumn(self._columns[name])

    def to_dict(self):
        return self._columns


@pytest.fixture
def messages(tmp_path):
    path = tmp_path / "feed" / "m.hl7"
    path.parent.mkdir()
    segments = ["MSH|^~\\&||LAB|||||ORU^R01", f"PID|1||10001^^^H^MR||{SECRET}^Hildegard||19570706"]
    segments += ["OBR|1||S-1|11529-5|||20160502", f"OBX|1|TX|22637-3^final^LN||Mrs. {SECRET}: benign", ""]
    path.write_text("\r".join(segments), newline="")
    return path


def test_a_corpus_file_is_used_where_it_lies(tmp_path):
    path = tmp_path / "c.parquet"
    reports().write_parquet(path)
    corpus = read(str(path))
    assert corpus.paths == path and [file.name for file in tmp_path.iterdir()] == ["c.parquet"]
    assert content_sha256(corpus.paths) == content_sha256(path)
    assert len(corpus) == 40 and corpus.cases == 20 and corpus.registries == {"R1": 20, "R2": 20}
    assert corpus.tasks == ("site",) and read(path, tasks=["grade"]).tasks == ("grade",)
    assert corpus.to_frame().equals(reports())
    assert corpus.check() == check(scan(path))
    assert read(corpus) is corpus


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_other_tables_too_and_folders_and_several(tmp_path, form):
    folder = tmp_path / "parts"
    folder.mkdir()
    whole = reports().with_columns(pl.col("date").cast(pl.String))
    for name, part in (("a", whole[:10]), ("b", whole[10:])):
        part.write_csv(folder / f"{name}.csv") if form == "csv" else part.write_ndjson(folder / f"{name}.jsonl")
    (folder / "README.txt").write_text("not a message")
    for source in (folder, [folder / f"a.{form}", str(folder / f"b.{form}")]):
        corpus = read(source)
        assert corpus.to_frame().equals(reports())
        assert content_sha256(corpus.paths) == content_sha256(source)


def test_a_polars_frame_lives_in_a_private_file_that_goes_with_the_object(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for source in (reports(), reports().lazy()):
        corpus = read(source)
        assert corpus.to_frame().equals(reports())
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert tokens(corpus.paths).documents == 40 and len(list(folder.iterdir())) == 2  # its cache lies there too
        del corpus
        gc.collect()
        assert not list(tmp_path.iterdir())


def test_the_same_frame_has_the_same_hash():
    one, other = read(reports()), read(reports())
    assert one.paths != other.paths and content_sha256(one.paths) == content_sha256(other.paths)


def test_a_forked_child_leaves_the_file_to_its_parent():
    corpus = read(reports())
    child = os.fork()
    if not child:
        del corpus
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(corpus.to_frame()) == 40


def test_a_pandas_frame():
    columns = {name: reports()[name].to_list() for name in reports().columns}
    columns["site"] = ["C50", math.nan, *columns["site"][2:]]
    columns["grade"] = [1, "2", None, *columns["grade"][3:]]  # of several types, as spreadsheets give
    columns["year"] = [2016.0, math.nan] * 20
    frame = read(PandasFrame(columns), tasks=["site", "grade"]).to_frame()
    assert frame["site"][:3].to_list() == ["C50", None, "C10"] and frame["grade"][:3].to_list() == ["1", "2", None]
    assert frame["year"].to_list() == [2016, None] * 20 and frame["date"].equals(reports()["date"])
    assert frame["text"].equals(reports()["text"])


def test_the_index_of_a_pandas_frame_is_a_column_where_it_has_a_name():
    columns = {name: reports()[name].to_list() for name in reports().columns}
    index = {"report_id": columns.pop("report_id"), "case_id": columns["case_id"], None: range(40)}
    frame = read(PandasFrame(columns, index)).to_frame()
    assert frame["report_id"].equals(reports()["report_id"]) and frame["case_id"].equals(reports()["case_id"])
    assert sorted(frame.columns) == sorted(reports().columns)


def test_messages_are_imported(messages, tmp_path):
    for source in (messages, messages.parent):
        corpus = read(source, key=b"a key of sixteen bytes")
        assert corpus.registries == {"LAB": 1} and SECRET not in str(corpus.to_frame().to_dicts())
    reports().write_parquet(messages.parent / "c.parquet")
    assert read(messages.parent).registries == {"LAB": 1, "R1": 20, "R2": 20}
    assert sorted(path.name for path in messages.parent.iterdir()) == ["c.parquet", "m.hl7"]


def test_columns_and_a_registry_can_be_named(tmp_path):
    theirs = reports().drop("registry").rename({"case_id": "TUMOR_ID"})
    theirs.write_csv(tmp_path / "lab.csv")
    for source in (tmp_path / "lab.csv", theirs):
        corpus = read(source, registry="North", columns={"case_id": "TUMOR_ID"})
        assert corpus.registries == {"North": 40} and corpus.cases == 20


def test_what_an_import_does_for_files_is_done_for_frames():
    written = reports().with_columns(pl.col("date").dt.strftime("%d/%m/%Y"), site=pl.lit("c504"))
    corpus = read(written)
    assert corpus.to_frame()["date"].equals(reports()["date"])
    assert set(corpus.to_frame()["site"]) == {"C50"} and set(corpus.to_frame()["subsite"]) == {"C50.4"}
    early = written.with_columns(date=pl.lit("05/02/2016"))
    with pytest.raises(CorpusError, match="column 'date': 40 reports cannot be read"):
        read(early)
    for dates, day in (("dd/mm/yyyy", datetime.date(2016, 2, 5)), ("mm/dd/yyyy", datetime.date(2016, 5, 2))):
        assert set(read(early, mapping=TableMapping(dates=dates)).to_frame()["date"]) == {day}
    gaps = reports().with_columns(text=pl.when(pl.col("report_id") != "r3").then("text"))
    corpus = read(gaps, most_skipped=0.1)
    assert len(corpus) == 39 and corpus.tables.skipped[0].sentence() == "the frame: row 4 has no text"


def test_every_file_that_is_given_is_read(tmp_path):
    whole = reports().with_columns(pl.col("date").cast(pl.String))
    whole[:10].write_csv(tmp_path / "a.csv")
    whole[10:].write_csv(tmp_path / "b.txt")
    for told in (None, TableMapping(delimiter=",")):
        assert len(read([tmp_path / "a.csv", tmp_path / "b.txt"], mapping=told)) == 40
    (tmp_path / "notes.hl7").write_text("no message")
    with pytest.raises(CorpusError, match=r"notes\.hl7: no report could be read; 1 message skipped"):
        read(tmp_path)


def test_a_table_that_is_no_corpus_yet_is_imported(tmp_path):
    written = reports().with_columns(pl.col("date").dt.strftime("%d.%m.%Y"), text=pl.lit("Präparat"))
    (tmp_path / "lab.csv").write_bytes(written.write_csv(separator=";").encode("cp1252"))
    frame = read(tmp_path / "lab.csv").to_frame()
    assert frame["date"].equals(reports()["date"]) and set(frame["text"]) == {"Präparat"}


def test_what_is_shown_are_counts():
    corpus = read(reports(20_000).with_columns(pl.lit("<b>").alias("registry")))
    assert repr(corpus) == "20,000 reports of 10,000 cases in <b>; tasks: site"
    shown = corpus._repr_html_()
    assert "<td>&lt;b&gt;</td><td>20,000</td><td>10,000</td>" in shown and SECRET not in shown + repr(corpus)


def test_split(tmp_path):
    train, validation, test = read(reports(200)).split(seed=1)
    assert sum(map(len, (train, validation, test))) == 200
    cases = [set(part.to_frame()["case_id"]) for part in (train, validation, test)]
    assert not (cases[0] & cases[1] or cases[0] & cases[2] or cases[1] & cases[2])
    parts = read(reports(200)).split(tmp_path / "s", seed=1, validation=0)
    assert parts.validation is None and (tmp_path / "s" / "split.json").exists()
    assert parts.test.to_frame().equals(test.to_frame())
    parts = read(reports(200)).split(test_from="2020")
    assert parts.test.to_frame()["date"].max() == reports(200)["date"].max() > parts.train.to_frame()["date"].max()


def test_an_invented_corpus(tmp_path):
    settings = SynthSettings(reports=30, seed=5)
    private = synthetic_corpus(settings)
    written = synthetic_corpus(settings, out=tmp_path / "c.parquet", truth=tmp_path / "t.parquet")
    assert len(private) == 30 and private.to_frame().equals(written.to_frame())
    assert written.paths == tmp_path / "c.parquet" and (tmp_path / "t.parquet").exists()
    place = private.paths
    del private
    gc.collect()
    assert not place.exists()


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        (reports().drop("text"), {}, "the frame: column 'text' is missing"),
        (reports().with_columns(pl.lit(" ").alias("text")), {}, "column 'text': 40 reports are empty"),
        (PandasFrame({"report_id": ["a"], "text": [SECRET]}), {}, "column 'case_id' is missing"),
        (reports(), {"tasks": ["stage"]}, "there is no task column 'stage'"),
        (reports(), {"registry": "R1"}, "has a column 'registry' already"),
        (17, {}, "reports are read from a path, paths, or a polars or pandas frame; got int"),
        ([reports()], {}, "got list"),
        ("nowhere.parquet", {}, "nowhere.parquet: there is no such file"),
        (__file__, {}, "is neither a table nor HL7"),
    ],
)
def test_mistakes_are_sentences(source, options, sentence):
    with pytest.raises((CorpusError, UsageError)) as caught:
        read(source, **options)
    assert sentence in str(caught.value) and SECRET not in str(caught.value)


def test_options_come_with_the_source():
    with pytest.raises(UsageError, match="was read already"):
        read(read(reports()), registry="R1")


def test_a_corpus_travels_to_another_process_by_its_paths():
    corpus = read(reports())
    again = pickle.loads(pickle.dumps(corpus))
    assert isinstance(again, Corpus) and again.to_frame().equals(corpus.to_frame())
    del again
    gc.collect()
    assert len(corpus.to_frame()) == 40


def test_pathveil_corpus_stays_light():
    code = "import sys, pathveil.corpus; print([m for m in ('polars', 'pydantic', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_frame_is_called_a_frame():
    frame = pl.DataFrame({"report_id": ["a"], "case_id": ["1"], "registry": ["R"], "text": ["colon"]})
    for given, sentence in (
        (frame.head(0), "the frame: no report found"),
        (frame.drop("text"), r'say which it is with columns={"text": "ITS NAME"}'),
        (frame.drop("registry"), r'say whose reports these are with registry="NAME"'),
        (frame.with_columns(pl.Series("extra", [object()], dtype=pl.Object)), "column 'extra' holds Python objects"),
    ):
        with pytest.raises(CorpusError, match=sentence):
            read(given)
