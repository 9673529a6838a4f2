"""Importing: from any source into one corpus, all or nothing, with an account of what was left out."""

import datetime
import gzip
import json
import os
import random
from pathlib import Path

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.labels import label_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.one_pass import OnePass
from pathveil.corpus.proposal import propose_mapping
from pathveil.corpus.schema import scan, validate
from pathveil.corpus.synth import SynthSettings, write_corpus
from pathveil.corpus.tables.opening import detect_format
from pathveil.errors import CorpusError, UsageError

KEY = b"a key of sixteen bytes"
SECRET = "Quastenflosser"


def hl7(number: int, *, text: str = f"Mrs. {SECRET}: benign", patient: str | None = None) -> str:
    return "\r".join(
        [
            "MSH|^~\\&||LAB|||||ORU^R01",
            f"PID|1||{patient or number + 10000}^^^H^MR||{SECRET}^Hildegard||19570706",
            f"OBR|1||S-{number}|11529-5|||20160502",
            f"OBX|1|TX|22637-3^final^LN||{text}",
            "",
        ]
    )


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "lab.csv"
    path.write_text(
        "report_id,case_id,registry,date,text,site,note\na,1,R1,2016-05-02,left breast,C50,x\nb,1,R1,,more,,y\n"
    )
    return path


def test_tables_and_messages_together(tmp_path, csv):
    (tmp_path / "m.hl7").write_text(hl7(1) + hl7(2, patient="10001") + "MSH|^~\\&||LAB\rPID|1||77\r", newline="")
    result = import_corpus([csv, tmp_path / "m.hl7"], out=tmp_path / "c.parquet", key=KEY)
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus["registry"].to_list() == ["R1", "R1", "LAB", "LAB"]
    assert corpus["date"].cast(pl.String).to_list() == ["2016-05-02", None, "2016-05-02", "2016-05-02"]
    assert corpus["note"].to_list() == ["x", "y", None, None] and corpus["report_number"].to_list()[2:] == [
        "S-1",
        "S-2",
    ]
    assert (result.reports, result.cases, result.registries) == (4, 2, {"LAB": 2, "R1": 2})
    assert result.hl7.messages == 3 and result.hl7.masked == 2
    assert result.to_dict()["hl7"]["skipped"] == [
        {"file": str(tmp_path / "m.hl7"), "message": 3, "line": 9, "reason": "holds no report text (OBX)"}
    ]
    page = result.summary()
    assert "message 3 (line 9) holds no report text (OBX)" in page and "in 2 places of 2 reports" in page
    assert SECRET not in page + result.to_json() + str(corpus.to_dicts())
    assert sorted(os.listdir(tmp_path)) == ["c.parquet", "lab.csv", "m.hl7"]


def test_a_message_whose_report_a_table_has_already_is_kept_once(tmp_path, csv):
    """As where a feed is added to what was imported of it before; the table's row may have labels."""
    feed, before = tmp_path / "m.hl7", tmp_path / "before.parquet"
    feed.write_text(hl7(1) + hl7(2), newline="")
    import_corpus(feed, out=before, key=KEY)
    pl.read_parquet(before).with_columns(site=pl.lit("C50")).write_parquet(before)
    feed.write_text(hl7(1) + hl7(2) + hl7(3), newline="")
    result = import_corpus([feed, before, csv], out=tmp_path / "c.parquet", key=KEY)
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus["report_number"].to_list() == ["S-1", "S-2", None, None, "S-3"]
    assert corpus["site"].to_list() == ["C50", "C50", "C50", None, None]
    assert (result.reports, result.hl7.messages, result.hl7.reports, result.hl7.repeated) == (5, 3, 1, 2)
    assert result.tables.skipped_total == 0 and "repeated  2 reports" in result.summary()


@pytest.mark.parametrize("content", ["OBX|1|TX|22637-3||its header was lost", "see the other folder", "%PDF-1.7"])
def test_a_file_with_the_name_of_messages_that_holds_none_does_not_stop_the_others(tmp_path, content):
    (tmp_path / "a.hl7").write_text(hl7(1), newline="")
    (tmp_path / "b.hl7").write_text(content)
    result = import_corpus(tmp_path, out=tmp_path / "out" / "c.parquet", key=KEY)
    assert result.reports == 1 and [(Path(one.file).name, one.reason) for one in result.hl7.skipped] == [
        ("b.hl7", "does not begin with MSH")
    ]
    with pytest.raises(CorpusError, match=r"1 message skipped, the first because it does not begin with MSH"):
        import_corpus(tmp_path / "b.hl7", out=tmp_path / "c.parquet", key=KEY)


def test_a_text_in_the_place_of_a_sender_is_no_registry(tmp_path, csv):
    (tmp_path / "m.hl7").write_text(hl7(1) + hl7(2).replace("LAB", f"{SECRET} was seen " * 9), newline="")
    for sources in ([tmp_path / "m.hl7"], [tmp_path / "m.hl7", csv]):
        result = import_corpus(sources, out=tmp_path / "c.parquet", key=KEY)
        assert [one.reason for one in result.hl7.skipped] == [
            "has a text in the place of its sender's name (MSH-4); --registry says whose its reports are"
        ]
        assert SECRET not in result.to_json() and "LAB" in result.registries


def test_the_same_key_gives_the_same_ids_and_none_gives_new_ones(tmp_path):
    (tmp_path / "m.hl7").write_text(hl7(1), newline="")

    def ids(key):
        import_corpus(tmp_path / "m.hl7", out=tmp_path / "c.parquet", key=key)
        return pl.read_parquet(tmp_path / "c.parquet").select("report_id", "case_id").row(0)

    assert ids(KEY) == ids(KEY) != ids(KEY + b"x")
    assert ids(None) != ids(None)
    result = import_corpus(tmp_path / "m.hl7", out=tmp_path / "c.parquet")
    assert "match no other import" in result.summary()


def test_messages_sent_twice_are_kept_once_and_the_later_version_stands(tmp_path):
    again = hl7(1).replace("||LAB|||", "||LAB|||2016")  # the same report in a later transmission
    changed = hl7(1, text="corrected").replace("||LAB|||", "||LAB|||2017")
    (tmp_path / "a.hl7").write_text(changed + hl7(1), newline="")
    (tmp_path / "b.hl7.gz").write_bytes(gzip.compress(again.encode()))
    result = import_corpus(tmp_path, out=tmp_path / "new" / "c.parquet", key=KEY)
    assert result.reports == 1 and result.hl7.repeated == 1 and result.cases == 1
    assert "1 report sent more than once" in result.summary() and "1 report by a later version" in result.summary()
    corpus = pl.read_parquet(tmp_path / "new" / "c.parquet")
    assert corpus["text"].to_list() == ["FINAL DIAGNOSIS\ncorrected"]


@pytest.mark.parametrize("number", ["777", "00000777", "5", "99", "1111"])
def test_a_patient_whose_number_repeats_a_digit_is_one_case_by_any_name(tmp_path, number):
    messages = hl7(1, patient=number) + hl7(2, patient=number).replace(f"{SECRET}^", "Otherwise^")
    (tmp_path / "m.hl7").write_text(messages, newline="")
    result = import_corpus(tmp_path / "m.hl7", out=tmp_path / "c.parquet", key=KEY)
    assert (result.reports, result.cases, result.hl7.placeholders) == (2, 1, 0)
    (tmp_path / "labels.csv").write_text(f"patient,authority,site\n{number},H,C50\n")
    options = {"on": "patient", "key": KEY, "out": tmp_path / "l.parquet"}
    assert label_corpus(tmp_path / "c.parquet", tmp_path / "labels.csv", **options).matched == 2


@pytest.mark.parametrize("number", ["000000000", "0", "99999", "999-99-9999", "123456789", "UNKNOWN", "None", "TEST"])
def test_reports_with_a_placeholder_for_the_number_of_the_patient_are_counted(tmp_path, number):
    messages = [hl7(1, patient=number), hl7(2, patient=number).replace(f"{SECRET}^", "Otherwise^"), hl7(3)]
    messages += [hl7(1, patient=number, text="corrected").replace("||LAB|||", "||LAB|||2017")]
    (tmp_path / "m.hl7").write_text("".join(messages), newline="")
    result = import_corpus(tmp_path / "m.hl7", out=tmp_path / "c.parquet", key=KEY)
    assert (result.reports, result.cases, result.hl7.replaced, result.hl7.placeholders) == (3, 3, 1, 2)
    assert "2 reports with a placeholder (zeros, nines, UNKNOWN, …) and no number of the patient" in result.summary()


def test_a_file_whose_name_is_no_utf8(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/lab\xff.hl7"))
    path.write_text(hl7(1), newline="")
    import_corpus(tmp_path, out=tmp_path / "new" / "c.parquet", key=KEY)
    corpus = pl.read_parquet(tmp_path / "new" / "c.parquet")
    assert corpus["message_file"].to_list() == ["lab\ufffd.hl7"]
    with pytest.raises(UsageError, match="is not UTF-8; choose another name"):
        import_corpus(path, out=path.with_suffix(".parquet"))
    assert sorted(one.name for one in tmp_path.iterdir()) == [path.name, "new"]


def test_strict_stops_at_the_first(tmp_path):
    (tmp_path / "m.hl7").write_text(hl7(1) + "MSH|^~\\&||LAB\r" + hl7(2), newline="")
    with pytest.raises(CorpusError, match=r"m.hl7: message 2 \(line 5\) holds no report text"):
        import_corpus(tmp_path / "m.hl7", out=tmp_path / "c.parquet", strict=True)
    assert os.listdir(tmp_path) == ["m.hl7"]


def test_nothing_usable_is_an_error(tmp_path):
    (tmp_path / "m.hl7").write_text("MSH|^~\\&||LAB\r", newline="")
    with pytest.raises(CorpusError, match="no report could be read; 1 message skipped, the first because it holds no"):
        import_corpus(tmp_path / "m.hl7", out=tmp_path / "c.parquet")
    (tmp_path / "blank.hl7").write_text("\n\n")
    with pytest.raises(CorpusError, match=r"blank.hl7: holds no HL7 message"):
        import_corpus(tmp_path / "blank.hl7", out=tmp_path / "c.parquet", form="hl7")
    whole = gzip.compress((hl7(1) * 3000).encode())
    (tmp_path / "cut.hl7.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorpusError, match=r"cut.hl7.gz: is damaged after message"):
        import_corpus(tmp_path / "cut.hl7.gz", out=tmp_path / "c.parquet")
    assert not (tmp_path / "c.parquet").exists()


def test_a_bad_table_leaves_nothing(tmp_path, csv):
    csv.write_text(csv.read_text() + f"a,,R1,05/02/2016,{SECRET},,\n")
    with pytest.raises(CorpusError) as caught:
        import_corpus(csv, out=tmp_path / "c.parquet")
    report_id, case_id, date, limit = str(caught.value).split("\n")
    assert "lab.csv: 1 of 3 rows cannot be used, more than the 10 % that may be left out" in limit
    assert "column 'report_id': 1 id" in report_id and "column 'case_id': 1 report" in case_id and "'date'" in date
    assert SECRET not in str(caught.value) and os.listdir(tmp_path) == ["lab.csv"]
    csv.write_text("report_id,case_id,registry,text\n")
    with pytest.raises(CorpusError, match=r"lab.csv: no report found"):
        import_corpus(csv, out=tmp_path / "c.parquet")


def test_damaged_files_of_messages_are_imported_or_refused_in_a_sentence(tmp_path):
    """A small fuzz of the whole import: whatever was done to the bytes, no traceback and no patient."""
    rng, read = random.Random(5), 0
    whole = "".join(hl7(number) for number in range(6)).encode()
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(rng.randrange(1, 30)):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.randrange(3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(3)))
        (tmp_path / "m.hl7").write_bytes(damaged)
        try:
            told = repr(import_corpus(tmp_path / "m.hl7", out=tmp_path / "c.parquet", form="hl7", key=KEY))
            read += 1
        except CorpusError as error:
            told = str(error)
        assert SECRET not in told and "Hildegard" not in told and "19570706" not in told
    assert read > 20 and sorted(os.listdir(tmp_path)) == ["c.parquet", "m.hl7"]


def test_registry_and_column_options(tmp_path):
    table = tmp_path / "lab.tsv"
    table.write_text("ACC\tTUMOR\ttext\n1\t7\tcolon\n")
    columns = {"report_id": "ACC", "case_id": "TUMOR"}
    result = import_corpus(table, out=tmp_path / "c.parquet", registry="R9", columns=columns)
    assert result.registries == {"R9": 1} and result.columns == ["report_id", "case_id", "text", "registry"]
    with pytest.raises(UsageError, match="has no column 'CASE' to take case_id from"):
        import_corpus(table, out=tmp_path / "c.parquet", registry="R9", columns=columns | {"case_id": "CASE"})
    with pytest.raises(UsageError, match="has a column 'text' already"):
        import_corpus(table, out=tmp_path / "c.parquet", registry="R9", columns={"text": "ACC"})
    with pytest.raises(UsageError, match="has a column 'registry' already; leave out --registry"):
        import_corpus(tmp_path / "c.parquet", out=tmp_path / "d.parquet", registry="R1")
    with pytest.raises(CorpusError, match="column 'registry' is missing"):
        import_corpus(table, out=tmp_path / "d.parquet", columns=columns)


def test_usage(tmp_path, csv):
    with pytest.raises(UsageError, match=r"expected a name that ends in .parquet"):
        import_corpus(csv, out=tmp_path / "c.csv")
    with pytest.raises(UsageError, match="--format xml is not known; expected auto, hl7, fhir, parquet, csv, jsonl"):
        import_corpus(csv, out=tmp_path / "c.parquet", form="xml")
    with pytest.raises(CorpusError, match="no such file"):
        import_corpus(tmp_path / "none", out=tmp_path / "c.parquet")
    with pytest.raises(CorpusError, match="no file was given"):
        import_corpus([], out=tmp_path / "c.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="holds no table or HL7 file"):
        import_corpus(tmp_path / "empty", out=tmp_path / "c.parquet")


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b"MSH|^~\\&|", "hl7"),
        (b"\x0bMSH|^~\\&|", "hl7"),
        (b"\xef\xbb\xbfFHS|^~\\&|", "hl7"),
        ("MSH|^~\\&|".encode("utf-16"), "hl7"),
        (b"sent by LAB\nMSH|^~\\&|", "hl7"),
        (gzip.compress(b"MSH|^~\\&|", mtime=0), "hl7"),
        (b"PAR1....", "parquet"),
        (b'<?xml version="1.0"?>\n<NaaccrData baseDictionaryUri="x">', "naaccr"),
        (b"\xef\xbb\xbf<!-- by us --><n:NaaccrData>", "naaccr"),
    ],
)
def test_forms_are_told_by_content(tmp_path, content, form):
    path = tmp_path / "export.dat"
    path.write_bytes(content)
    assert detect_format(path) == form


def test_an_unknown_form_is_refused(tmp_path, csv):
    (tmp_path / "x.dat").write_bytes(b"%PDF-1.7")
    with pytest.raises(CorpusError, match="say which with --format"):
        import_corpus([tmp_path / "x.dat"], out=tmp_path / "out.parquet")
    with pytest.raises(CorpusError, match="by its name and beginning; let its name end in"):  # no such option there
        label_corpus(csv, tmp_path / "x.dat", on="case_id", out=tmp_path / "out.parquet")


def test_tcga_imports_as_it_is(tcga, tmp_path, pathveil):
    done = pathveil("corpus", "import", tcga, "--out", tmp_path / "t.parquet", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reports"] == 6453
    assert pl.read_parquet(tmp_path / "t.parquet").equals(pl.read_parquet(tcga))


def test_the_command(tmp_path, pathveil, hl7_samples):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef")
    done = pathveil(
        "corpus", "import", hl7_samples, "--registry", "X", "--key-file", key, "--out", tmp_path / "h.parquet"
    )
    assert done.returncode == 0 and "2 reports of 1 case" in done.stdout and "match no other" not in done.stdout
    wrong = pathveil("corpus", "import", hl7_samples, "--column", "case_id", "--out", tmp_path / "h.parquet")
    assert wrong.returncode == 2 and wrong.stderr.startswith("pathveil: --column takes NAME=THEIRS")


HEADER = "report_id,case_id,registry,date,text,site,histology\n"


@pytest.mark.parametrize("told", [None, "yyyy-mm-dd"])
def test_days_in_isos_order_may_lack_their_zeros(tmp_path, told):
    days = ["2016-5-2", "2016-12-31", "2016-5-17 9:30:00", "2016-05-02T10:00:00Z", ""]
    (tmp_path / "t.csv").write_text(HEADER + "".join(f"{n},1,R1,{day},x,C50,8500\n" for n, day in enumerate(days)))
    import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet", mapping=TableMapping(dates=told))
    read = pl.read_parquet(tmp_path / "c.parquet")["date"].cast(pl.String).to_list()
    assert read == ["2016-05-02", "2016-12-31", "2016-05-17", "2016-05-02", None]


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8-sig"),
        ("utf-8-sig", "utf-8-sig"),
        ("latin-1", "cp1252"),
        ("cp1252", "cp1252"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),  # without a mark
        ("utf-16-be", "utf-16-be"),
    ],
)
def test_encodings_are_found(tmp_path, encoding, found):
    (tmp_path / "t.csv").write_bytes((HEADER + "a,1,R1,2016-05-02,äußerer Quadrant,C50,8500\n").encode(encoding))
    result = import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
    assert (result.files[0].encoding == found and f"encoding  {found}" in result.summary()) or found == "utf-8-sig"
    assert pl.read_parquet(tmp_path / "c.parquet")["text"].to_list() == ["äußerer Quadrant"]


def test_other_encodings_are_told(tmp_path):
    (tmp_path / "t.csv").write_bytes((HEADER + "a,1,R1,,ü in DOS,C50,8500\n").encode("cp850"))
    with pytest.raises(CorpusError, match="is neither UTF-8 nor Windows-1252; say what it is with --encoding"):
        import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
    import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet", mapping=TableMapping(encoding="cp850"))
    assert pl.read_parquet(tmp_path / "c.parquet")["text"].to_list() == ["ü in DOS"]
    with pytest.raises(UsageError, match="--encoding klingon is not known"):
        TableMapping(encoding="klingon")


def test_each_file_has_its_own_format_of_dates(tmp_path):
    for name, day in (("a", "17/02/2016"), ("b", "02/17/2016"), ("c", "2016-02-17")):
        (tmp_path / f"{name}.csv").write_text(f"{HEADER}{name},1,R1,{day},x,C50,8500\n")
    result = import_corpus(tmp_path, out=tmp_path / "new" / "o.parquet")
    assert pl.read_parquet(tmp_path / "new" / "o.parquet")["date"].cast(pl.String).to_list() == ["2016-02-17"] * 3
    assert [file.dates for file in result.files] == ["dd/mm/yyyy", "mm/dd/yyyy", None]


def test_dates_that_may_be_two_days_are_refused_unless_told(tmp_path):
    (tmp_path / "t.csv").write_text(HEADER + "a,1,R1,05/02/2016,x,C50,8500\n")
    with pytest.raises(CorpusError, match=r"or their format told with --dates \(dd/mm/yyyy"):
        import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
    import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet", mapping=TableMapping(dates="mm/dd/yyyy"))
    assert str(pl.read_parquet(tmp_path / "c.parquet")["date"][0]) == "2016-05-02"
    (tmp_path / "t.csv").write_text(HEADER + "a,1,R1,17/02/2016,x,C50,8500\nb,2,R1,2016-02-18,x,C50,8500\n")
    with pytest.raises(
        CorpusError, match=r"1 report cannot be read \(a\); expected mm/dd/yyyy, as told with --dates, or 2"
    ):
        import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet", mapping=TableMapping(dates="mm/dd/yyyy"))


def test_unknown_codes_are_told_and_left_out_unless_kept(tmp_path):
    rows = f"a,1,R1,,x,C504,8500/3\nb,1,R1,,x,banana,8888\nc,2,R1,,x,{SECRET} of Hildegard,8500.0\n"
    (tmp_path / "t.csv").write_text(HEADER + rows)
    result = import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus.select("site", "subsite", "histology", "behavior").rows() == [
        ("C50", "C50.4", "8500", "3"),
        (None, None, None, None),
        (None, None, "8500", None),
    ]
    assert "site: 2 reports (what looks like no code 2)" in result.summary()
    assert "histology: 1 report (8888 1)" in result.summary() and SECRET not in result.summary() + result.to_json()
    result = import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet", keep_unknown_codes=True)
    assert pl.read_parquet(tmp_path / "c.parquet")["site"].to_list() == ["C50", "banana", f"{SECRET} of Hildegard"]
    assert "were kept" in result.summary()


def test_histologies_of_a_spreadsheet_are_whole_numbers_again(tmp_path):
    columns = {
        "report_id": [1, 2],
        "case_id": [1, 2],
        "registry": ["R"] * 2,
        "text": ["x"] * 2,
        "histology": [8500.0, None],
    }
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    import_corpus(tmp_path / "t.parquet", out=tmp_path / "c.parquet")
    assert pl.read_parquet(tmp_path / "c.parquet")["histology"].to_list() == ["8500", None]


def test_ids_that_became_decimals_are_numbers_again(tmp_path):
    columns = {"report_id": [1.0, 2.0], "case_id": [1234567.0, 2.5], "registry": ["R"] * 2, "text": ["x"] * 2}
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    import_corpus(tmp_path / "t.parquet", out=tmp_path / "c.parquet")
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus["report_id"].to_list() == ["1", "2"] and corpus["case_id"].to_list() == ["1234567", "2.5"]


def test_a_blank_site_and_behavior_are_filled_from_subsite_and_histology(tmp_path):
    rows = ["1,7,R,x,,C504,8500/3, ", "2,8,R,x, ,C61.9,8140,3", "3,9,R,x,C18,C50.4,8140/3,2"]
    header = "report_id,case_id,registry,text,site,subsite,histology,behavior"
    (tmp_path / "t.csv").write_text("\n".join([header, *rows]))
    import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
    labels = pl.read_parquet(tmp_path / "c.parquet").select("site", "subsite", "histology", "behavior")
    # The last row contradicts itself, and stays as it is for 'check' to count.
    assert labels.rows() == [
        ("C50", "C50.4", "8500", "3"),
        ("C61", "C61.9", "8140", "3"),
        ("C18", "C50.4", "8140", "2"),
    ]


def test_a_synthetic_corpus_imports_as_it_is(tmp_path):
    """But for sites that are missing where the subsite tells them."""
    write_corpus(SynthSettings(reports=200, seed=3), out=tmp_path / "s.parquet")
    result = import_corpus(tmp_path / "s.parquet", out=tmp_path / "c.parquet")
    made = pl.read_parquet(tmp_path / "s.parquet")
    filled = made.with_columns(pl.coalesce("site", pl.col("subsite").str.head(3)))
    assert pl.read_parquet(tmp_path / "c.parquet").equals(filled) and made["site"].null_count()
    assert not result.codes.unknown and not result.codes.rewritten


def test_messages_lead_back_to_where_they_were(tmp_path):
    first, second = (hl7(number).replace("|||||ORU^R01", f"|||||ORU^R01|MSG{number}") for number in (1, 2))
    (tmp_path / "feed.hl7").write_text(first + second, newline="")
    result = import_corpus(tmp_path / "feed.hl7", out=tmp_path / "c.parquet", key=KEY)
    assert result.columns[-3:] == ["message_id", "message_file", "message_position"]
    corpus = pl.read_parquet(tmp_path / "c.parquet").select(pl.col("^message_.*$"))
    assert corpus.rows() == [("MSG1", "feed.hl7", 1), ("MSG2", "feed.hl7", 2)]


def test_each_file_of_a_folder_has_its_own_encoding_and_dates(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    header = "report_id,case_id,registry,date,text\n"
    (folder / "a.csv").write_bytes((header + "a,1,R,17/02/2016,Kolonpräparat\n").encode("cp1252"))
    (folder / "b.csv").write_bytes((header + "b,2,R,02/18/2016,Kolonpräparat\n").encode("utf-16"))
    (folder / "c.tsv").write_bytes((header + "c,3,R,2016-02-19,Kolonpräparat\n").replace(",", "\t").encode())
    result = import_corpus(folder, out=tmp_path / "c.parquet")
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert set(corpus["text"]) == {"Kolonpräparat"}
    assert corpus["date"].cast(pl.String).to_list() == ["2016-02-17", "2016-02-18", "2016-02-19"]
    assert [(file.encoding, file.dates) for file in result.files] == [
        ("cp1252", "dd/mm/yyyy"),
        ("utf-16", "mm/dd/yyyy"),
        ("utf-8-sig", None),
    ]
    assert result.passed_over == [] and "not read" not in result.summary()


def test_what_a_folder_holds_besides_is_named(tmp_path):
    folder = tmp_path / "in"
    (folder / "2021").mkdir(parents=True)
    (folder / "a.csv").write_text(f"report_id,case_id,registry,text\na,1,R,{SECRET}\n")
    for name in ("notes.pdf", "old.xlsx", "_b.csv", ".hidden"):
        (folder / name).write_text(SECRET)
    result = import_corpus([folder], out=tmp_path / "c.parquet")
    assert result.reports == 1 and result.passed_over == ["2021/", "_b.csv", "notes.pdf", "old.xlsx"]
    assert "  not read  2021/, _b.csv, notes.pdf and old.xlsx of the folder; to read" in result.summary()


def test_a_corpus_is_not_written_over_what_is_read(tmp_path):
    (tmp_path / "a.csv").write_text(f"report_id,case_id,registry,text\na,1,R,{SECRET}\n")
    out = tmp_path / "c.parquet"
    import_corpus(tmp_path / "a.csv", out=out)
    before = out.read_bytes()
    with pytest.raises(UsageError, match=r"c\.parquet: is among what is read"):
        import_corpus(out, out=out)
    for name in ("c.parquet", "new.parquet"):  # the next import of the folder would have every report twice
        with pytest.raises(UsageError, match=rf"{name}: lies in the folder that is read"):
            import_corpus(tmp_path, out=tmp_path / name)
    assert out.read_bytes() == before and not (tmp_path / "new.parquet").exists()


def test_dates_of_two_kinds_in_one_file_are_told(tmp_path):
    dates = ["17/02/2016", "02/18/2016", "03/04/2016", "05/06/2016"]
    rows = "".join(f"r{number},1,R,{date},{SECRET}\n" for number, date in enumerate(dates))
    (tmp_path / "a.csv").write_text("report_id,case_id,registry,date,text\n" + rows)
    with pytest.raises(CorpusError, match=r"a\.csv mixes dd/mm/yyyy and mm/dd/yyyy") as caught:
        import_corpus(tmp_path / "a.csv", out=tmp_path / "c.parquet")
    assert SECRET not in str(caught.value)


def test_a_table_with_other_names_is_told_what_helps(tmp_path):
    (tmp_path / "a.csv").write_text("acc,pat,befund\n1,2,colon\n")
    with pytest.raises(CorpusError, match=r"'report_id' is missing.*'pathveil corpus map .*a.csv --out map.toml'"):
        import_corpus(tmp_path / "a.csv", out=tmp_path / "c.parquet")
    (tmp_path / "a.csv").write_text("Extract of May,,\nacc,pat,befund\n1,2,colon\n")
    with pytest.raises(CorpusError, match=r"its first row names 1 of 3 columns; remove what stands above their names"):
        import_corpus(tmp_path / "a.csv", out=tmp_path / "c.parquet", registry="R1")
    (tmp_path / "b.csv").write_text("report_id,case_id,text\n1,2,colon\n")
    with pytest.raises(CorpusError, match=r"'registry' is missing.*with --registry NAME"):
        import_corpus(tmp_path / "b.csv", out=tmp_path / "c.parquet")


def test_words_for_nothing_are_nothing(tmp_path):
    """As SQL, SAS and spreadsheets write it; in other columns they stay."""
    rows = [f"r{n},{n},R1,{date},{SECRET},C50,8500,{date}" for n, date in enumerate(["2016-05-02", "NULL", ".", "N/A"])]
    rows += [f"r{n},{n},R1,,{SECRET},NULL,.," for n in range(10, 40)] + [
        "r50,50,R1,,NULL,C50,8500,",
        "r51,NULL,R1,,x,C50,,",
    ]
    (tmp_path / "t.csv").write_text(HEADER.rstrip() + ",note\n" + "\n".join(rows) + "\n")
    result = import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
    assert result.tables is not None and result.tables.reasons == {"has no text": 1, "has no case_id": 1}
    assert result.codes.unknown == []
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus["date"].count() == 1 and corpus["note"].to_list()[:4] == ["2016-05-02", "NULL", ".", "N/A"]
    with pytest.raises(CorpusError, match="'text': 1 report is empty") as caught:  # and of its dates nothing is said
        import_corpus(tmp_path / "t.csv", out=tmp_path / "d.parquet", strict=True)
    assert "date" not in str(caught.value)


def test_a_dash_is_no_case_and_no_date(tmp_path):
    """Reports of many patients made one case of that name."""
    rows = [f"r{n},{n},R1,-,colon,C18,?\n" for n in range(30)] + ["r30,-,R1,2016-05-02,colon,--,8140\n"]
    (tmp_path / "t.csv").write_text(HEADER + "".join(rows))
    result = import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
    assert (result.reports, result.cases) == (30, 30) and result.codes.unknown == []
    assert result.tables.reasons == {"has no case_id": 1}


def test_years_that_became_decimals(tmp_path):
    """As pandas writes them to CSV where some are missing."""
    (tmp_path / "t.csv").write_text("report_id,case_id,registry,text,year\na,1,R,colon,2016.0\nb,1,R,colon,\n")
    import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet")
    assert pl.read_parquet(tmp_path / "c.parquet")["year"].to_list() == [2016, None]


def test_one_mistyped_date_of_many_reports_costs_its_row(tmp_path):
    """Also where the others are of few days."""
    rows = "".join(f"r{n},{n},R,{17 + n % 2}/02/2016,colon\n" for n in range(300))
    (tmp_path / "r.csv").write_text(f"report_id,case_id,registry,date,text\n{rows}x,x,R,31/31/2016,colon\n")
    result = import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet")
    assert (result.reports, result.tables.skipped_total, result.files[0].dates) == (300, 1, "dd/mm/yyyy")


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["", '{"report_id": "x", broken\n'])
def test_blank_lines_of_jsonl_are_no_reports(tmp_path, start, end):
    lines = [
        f'{{"report_id": "r{n}", "case_id": "{n}", "registry": "R", "text": "colon", "year": NaN}}\n' for n in range(12)
    ]
    (tmp_path / "r.jsonl").write_text(start + "\n" + "".join(lines) + "\n\n" + end + "\n")
    result = import_corpus(tmp_path / "r.jsonl", out=tmp_path / "c.parquet")
    assert (result.reports, result.tables.skipped_total) == (12, bool(end))
    assert pl.read_parquet(tmp_path / "c.parquet")["year"].null_count() == 12


def test_an_empty_column_of_registries_is_filled_in(tmp_path):
    rows = "".join(f"r{n},{n}, ,colon\n" for n in range(3))
    (tmp_path / "r.csv").write_text(f"report_id,case_id,registry,text\n{rows}")
    import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet", registry="North")
    assert set(pl.read_parquet(tmp_path / "c.parquet")["registry"]) == {"North"}
    (tmp_path / "r.csv").write_text(f"report_id,case_id,registry,text\n{rows}r3,3,South,colon\n")
    with pytest.raises(UsageError, match="has a column 'registry' already"):
        import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet", registry="North")


def test_dates_that_became_decimals(tmp_path):
    (tmp_path / "r.csv").write_text("report_id,case_id,registry,date,text\na,1,R,20160502.0,colon\nb,2,R,,colon\n")
    import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet")
    assert pl.read_parquet(tmp_path / "c.parquet")["date"].to_list() == [datetime.date(2016, 5, 2), None]


@pytest.mark.parametrize(("option", "what"), [("sheet", "spreadsheet"), ("query", "database")])
def test_what_is_for_another_form_is_not_passed_over(tmp_path, option, what):
    (tmp_path / "r.csv").write_text("report_id,case_id,registry,text\na,1,R,colon\n")
    with pytest.raises(UsageError, match=f"--{option}, or {option} in a mapping, is for a {what}; .*r.csv is none"):
        import_corpus(tmp_path / "r.csv", out=tmp_path / "c.parquet", mapping=TableMapping(**{option: "Reports"}))


def rows_of_jsonl(count):
    return "".join(
        json.dumps({"report_id": f"r{n}", "case_id": f"c{n}", "registry": "R", "text": "left breast"}) + "\n"
        for n in range(count)
    )


@pytest.mark.parametrize("name", ["lab.jsonl", "lab.csv"])
def test_a_table_that_is_written_while_it_is_read_is_refused(tmp_path, monkeypatch, name):
    table = tmp_path / name
    table.write_text(rows_of_jsonl(3))
    if name.endswith(".csv"):
        pl.read_ndjson(table).write_csv(table)
    prepared = OnePass.prepared

    def meanwhile(one, batch):
        lines = table.read_text().splitlines(keepends=True)
        table.write_text("".join(lines[:2]))  # as where an export begins again
        return prepared(one, batch)

    monkeypatch.setattr(OnePass, "prepared", meanwhile)
    with pytest.raises(CorpusError, match=f"{name}: changed while it was read"):
        import_corpus(table, out=tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_what_other_programs_write_around_cells_is_none_of_them(tmp_path):
    table = tmp_path / "lab.csv"
    records = [f'="00{n}",="0{n}",="2016-05-{n + 10}",left breast,="C504",North\n' for n in range(15)]
    rule = "----,-----,----------,------------------,----,-------\n"  # of sqlcmd
    table.write_text("report_id,case_id,date,text,subsite,registry\n" + rule + "".join(records))
    result = import_corpus(table, out=tmp_path / "out.parquet")
    assert [one.sentence() for one in result.tables.skipped] == [f"{table}: line 2 has no report_id"]
    made = pl.read_parquet(tmp_path / "out.parquet")
    row = made.select("report_id", "case_id", "date", "subsite", "registry").row(0)
    assert row == ("000", "00", datetime.date(2016, 5, 10), "C50.4", "North")


def test_a_registry_called_null_is_none(tmp_path):
    table = tmp_path / "lab.csv"
    rows = [f"r{n},c{n},left breast,{'NULL' if n == 3 else 'North'}\n" for n in range(15)]
    table.write_text("report_id,case_id,text,registry\n" + "".join(rows))
    result = import_corpus(table, out=tmp_path / "out.parquet")
    assert result.registries == {"North": 14} and result.tables.reasons == {"has no registry": 1}
    table.write_text(table.read_text().replace("North", "NULL"))
    assert import_corpus(table, out=tmp_path / "out.parquet", registry="South").registries == {"South": 15}


def test_messages_in_a_column_are_no_texts(tmp_path):
    table = tmp_path / "engine.jsonl"
    message = f"MSH|^~\\&|LIS|LAB|||20160502||ORU^R01|1|P|2.5.1\rPID|1||7^^^LAB^MR||{SECRET}\r"
    rows = [{"report_id": f"r{n}", "case_id": "c", "registry": "R", "text": message} for n in range(20)]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for way in (lambda: import_corpus(table, out=tmp_path / "o.parquet"), lambda: validate(scan(table))):
        with pytest.raises(CorpusError, match="column 'text': 20 reports are HL7 messages") as caught:
            way()
        assert SECRET not in str(caught.value)
    with pytest.raises(CorpusError, match=r"column 'text' holds HL7 messages, no texts; write them .* ends in \.hl7"):
        propose_mapping(table, out=tmp_path / "map.toml")
    rows[1:] = [row | {"text": "left breast"} for row in rows[1:]]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = import_corpus(table, out=tmp_path / "o.parquet")
    assert result.tables.reasons == {"holds an HL7 message in the place of its text": 1}


def test_a_text_in_the_place_of_an_id_or_a_registry_is_not_shown(tmp_path):
    table = tmp_path / "lab.csv"
    text = f"1) {SECRET} in 3 pieces"
    table.write_text("report_id,case_id,registry,text\n" + "".join(f"{text},c,R,\n" for _ in range(20)))
    with pytest.raises(CorpusError, match="an id of 29 characters") as caught:
        import_corpus(table, out=tmp_path / "o.parquet")
    assert SECRET not in str(caught.value)
    for registry in (f'"{text}\nof skin"', text * 5):
        table.write_text("report_id,case_id,registry,text\n" + "".join(f"r{n},c,{registry},x\n" for n in range(20)))
        with pytest.raises(
            CorpusError, match="column 'registry': 20 reports have a text in the place of a name"
        ) as caught:
            import_corpus(table, out=tmp_path / "o.parquet")
        with pytest.raises(CorpusError, match="on one line and of at most 100 characters"):
            validate(scan(table))
        assert SECRET not in str(caught.value)
