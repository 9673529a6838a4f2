"""Labels from another table: every report against plain Python, and never a guess between different answers."""

import datetime
import random

import polars as pl
import pytest

from pathveil.corpus.labels import label_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.errors import CorpusError, UsageError

SECRET = "Quastenflosser"


def day(number: int) -> datetime.date:
    return datetime.date(2016, 1, 1) + datetime.timedelta(days=number)


@pytest.fixture
def reports(tmp_path):
    path = tmp_path / "reports.parquet"
    pl.DataFrame(
        {
            "report_id": [f"r{i}" for i in range(8)],
            "case_id": [f"c{i // 2}" for i in range(8)],
            "registry": ["R1"] * 4 + ["R2"] * 4,
            "date": [day(10 * i) for i in range(8)],
            "text": [f"{SECRET} {i}" for i in range(8)],
            "report_number": [f"N{i}" for i in range(7)] + [None],
        }
    ).write_parquet(path)
    return path


def labels(tmp_path, rows: list[str], header: str = "report_number,site,histology") -> object:
    path = tmp_path / "labels.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_ids_that_became_decimals_match(tmp_path, form):
    """A table with gaps turns 12345 into 12345.0, as a number or, exported again, as text."""
    corpus, table = tmp_path / "r.csv", tmp_path / f"labels.{form}"
    corpus.write_text("report_id,case_id,registry,text,number\na,1,R,x,12345\nb,2,R,y,00777\n")
    rows = pl.DataFrame({"number": [12345.0, None, 777.0], "site": ["C50", "C61", "C18"]})
    rows.write_parquet(table) if form == "parquet" else rows.write_csv(table)
    label_corpus(corpus, table, on=["number"], out=tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["site"].to_list() == ["C50", "C18"]


def test_a_few_dates_that_are_none_cost_their_rows(reports, tmp_path):
    rows = [f"N{n},C50,2016-01-0{n + 1}" for n in range(5)] * 4
    table = labels(tmp_path, [*rows, "N6,C50,31.02.2016", "N7,C50,2016-05-99"], header="report_number,site,date")
    result = label_corpus(reports, table, on=["report_number"], days=400, out=tmp_path / "out.parquet")
    assert (result.matched, result.undated_rows) == (5, 2)


def test_a_blank_says_nothing(reports, tmp_path):
    out = tmp_path / "out.parquet"
    rows = ["N0,C504,8500/3", "N0,C504,", "N1,C61,8140", "N1,C619,8140/3", "N2,C50,", "N2,,8140", "N3,C50,8500"]
    rows += ["N3,C61,"]
    result = label_corpus(reports, labels(tmp_path, rows), on="report_number", out=out)
    assert (result.matched, result.ambiguous) == (3, 1)
    assert pl.read_parquet(out).select("site", "subsite", "histology", "behavior").rows()[:4] == [
        ("C50", "C50.4", "8500", "3"),
        ("C61", "C61.9", "8140", "3"),
        ("C50", None, "8140", None),
        (None, None, None, None),
    ]


def test_codes_that_are_all_unknown_are_told(reports, tmp_path):
    with pytest.raises(CorpusError, match=r"no row has a code that ICD-O-3 knows; site: 1 report \(C99.9 1\)"):
        label_corpus(reports, labels(tmp_path, ["N0,C99.9,"]), on="report_number", out=tmp_path / "out.parquet")


def test_by_report_number(reports, tmp_path):
    rows = [
        " N0 ,C504,8500/3",
        "N1,C61,8140",
        "N1,C189,8140/3",
        "N2,C18,8140",
        "N2,C18,8140",
        "N9,C50,8500",
        ",C50,",
        "N3,,",
    ]
    out = tmp_path / "out.parquet"
    result = label_corpus(reports, labels(tmp_path, rows), on=["report_number"], out=out)
    corpus = pl.read_parquet(out)
    assert corpus.drop("site", "subsite", "histology", "behavior").equals(pl.read_parquet(reports))
    assert corpus.select("site", "subsite", "histology", "behavior").rows() == [
        ("C50", "C50.4", "8500", "3"),
        (None, None, None, None),  # of N1 the rows say different things
        ("C18", None, "8140", None),
        *[(None, None, None, None)] * 5,
    ]
    assert (result.reports, result.matched, result.ambiguous, result.unmatched) == (8, 2, 1, 5)
    assert (result.rows_read, result.empty_rows, result.unused_rows) == (8, 2, 1)
    assert "rows      8 read, 2 without a code or without report_number, 1 match no report" in result.summary()
    assert result.labelled == {"site": 2, "histology": 2, "subsite": 1, "behavior": 1}
    assert "2 of 8 reports labelled" in result.summary() and SECRET not in result.to_json()


def test_capitals_and_leading_zeros_matter_only_where_they_tell_ids_apart(reports, tmp_path):
    rows = ["n0,C50,8500", "00N1,C61,8140", "N2,C18,8140"]
    result = label_corpus(reports, labels(tmp_path, rows), on=["report_number"], out=tmp_path / "a.parquet")
    assert (result.matched, result.loosely) == (3, 2)
    assert "by        report_number, 2 with capitals or leading zeros aside" in result.summary()
    corpus = pl.read_parquet(tmp_path / "a.parquet")
    assert corpus["site"].to_list()[:3] == ["C50", "C61", "C18"] and corpus["report_number"][0] == "N0"
    rows.append("N1,C20,8140")  # now 00N1 and N1 are two; of n0 that says nothing
    result = label_corpus(reports, labels(tmp_path, rows), on=["report_number"], out=tmp_path / "b.parquet")
    assert (result.matched, result.loosely, result.unused_rows) == (3, 1, 1)
    assert pl.read_parquet(tmp_path / "b.parquet")["site"].to_list()[:3] == ["C50", "C20", "C18"]
    header = "report_id,site,histology"
    for rows in (["R0,C50,8500"], ["r0,C50,8500"]):  # by the id of the corpus itself, which stays as it is
        label_corpus(reports, labels(tmp_path, rows, header), on=["report_id"], out=tmp_path / "c.parquet")
        assert pl.read_parquet(tmp_path / "c.parquet")["site"].to_list() == ["C50"] + [None] * 7


def test_dates_of_which_only_a_part_is_known_are_no_days(reports, tmp_path):
    dates = ["20160101", "201601", "2016", "20160199", "20169999", "2016-01", ""]
    rows = [f"N{n},{date},C50" for n, date in enumerate(dates)]
    table = labels(tmp_path, rows, "report_number,date,site")
    result = label_corpus(reports, table, on=["report_number"], days=400, out=tmp_path / "out.parquet")
    assert (result.matched, result.undated_rows, result.unused_rows, result.rows_read) == (1, 6, 0, 7)
    assert "rows      7 read, 6 without a day, 0 match no report" in result.summary()


def test_records_that_do_not_fit_are_skipped_and_named(reports, tmp_path):
    rows = [f"N{n},C50,8500" for n in range(20)] + ["", "20 rows selected."]
    result = label_corpus(reports, labels(tmp_path, rows), on=["report_number"], out=tmp_path / "out.parquet")
    assert (result.matched, result.rows_read, result.skipped_rows, result.unused_rows) == (7, 21, 1, 13)
    assert "rows      21 read, 1 skipped, 13 match no report" in result.summary()
    assert "labels.csv: line 23 has 1 field, its header has 3" in result.summary()
    table = labels(tmp_path, [f"N0,C50,8500,{SECRET}", "N1,C50,8500"])
    with pytest.raises(CorpusError, match="line 2 has 4 fields, its header has 3; 1 of 2 rows cannot be") as caught:
        label_corpus(reports, table, on=["report_number"], out=tmp_path / "none.parquet")
    assert SECRET not in str(caught.value) and not (tmp_path / "none.parquet").exists()


def test_words_for_nothing_are_no_codes(reports, tmp_path):
    table = labels(tmp_path, ["N0,C50,NULL", "N1,.,NULL", "NULL,C61,8140"])
    result = label_corpus(reports, table, on=["report_number"], out=tmp_path / "out.parquet")
    assert (result.matched, result.empty_rows, result.codes.unknown) == (1, 2, [])


def test_why_nothing_was_labelled(reports, tmp_path):
    for rows, hint in ((["X,C50,"], "do both write it alike?"), (["N0,C50,", "N0,C61,"], "with --days the row")):
        with pytest.raises(CorpusError, match=f"ambiguous.; {hint[:-1]}"):
            label_corpus(reports, labels(tmp_path, rows), on=["report_number"], out=tmp_path / "out.parquet")
    table = labels(tmp_path, ["N0,201601,C50"], "report_number,date,site")
    with pytest.raises(CorpusError, match="no row with codes has a day"):
        label_corpus(reports, table, on=["report_number"], days=30, out=tmp_path / "out.parquet")
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(CorpusError, match=r"x\.csv: is a folder; expected one table"):
        label_corpus(reports, tmp_path / "x.csv", on=["report_number"], out=tmp_path / "out.parquet")


def test_by_patient_and_the_nearest_day(reports, tmp_path):
    rows = ["c0,05/01/2016,C50", "c0,15/01/2016,C61", "c1,01/01/2016,C18", "c2,10/02/2016,C20", "c2,20/02/2016,C34"]
    table = labels(tmp_path, rows, "case_id,Datum,site")
    mapping = TableMapping(columns={"date": "Datum"})
    out = tmp_path / "out.parquet"
    result = label_corpus(reports, table, on=["case_id"], days=5, out=out, mapping=mapping)
    # r0 is 4 days from C50, r1 (11 January) 4 from C61 and 6 from C50; r4 and r5 (10 and 20 February) are on the day.
    assert pl.read_parquet(out)["site"].to_list() == ["C50", "C61", None, None, "C20", "C34", None, None]
    assert (result.matched, result.unused_rows) == (4, 1)
    tie = labels(tmp_path, ["c0,05/01/2016,C50", "c0,17/01/2016,C61"], "case_id,Datum,site")
    result = label_corpus(reports, tie, on=["case_id"], days=6, out=out, mapping=mapping)
    assert pl.read_parquet(out)["site"][:2].to_list() == ["C50", None] and result.ambiguous == 1


def test_against_plain_python(tmp_path):
    rng = random.Random(11)
    rows = [(f"r{i}", f"p{rng.randrange(30)}", day(rng.randrange(100))) for i in range(200)]
    table = [(f"p{rng.randrange(40)}", day(rng.randrange(100)), rng.choice(["C50", "C61"])) for _ in range(120)]
    frame = pl.DataFrame(rows, schema=["report_id", "case_id", "date"], orient="row")
    frame.with_columns(pl.lit("R").alias("registry"), pl.lit("x").alias("text")).write_parquet(tmp_path / "r.parquet")
    pl.DataFrame(table, schema=["case_id", "date", "site"], orient="row").write_csv(tmp_path / "l.csv")
    label_corpus(tmp_path / "r.parquet", tmp_path / "l.csv", on=["case_id"], days=10, out=tmp_path / "o.parquet")
    expected = []
    for _, case, date in rows:
        near = [(abs((date - when).days), site) for other, when, site in table if other == case]
        near = [pair for pair in near if pair[0] <= 10 and pair[0] == min(near)[0]]
        sites = {site for _, site in near}
        expected.append(sites.pop() if len(sites) == 1 else None)
    assert pl.read_parquet(tmp_path / "o.parquet")["site"].to_list() == expected


def test_several_columns_and_other_tasks(reports, tmp_path):
    table = labels(tmp_path, ["R1,c0,2", "R2,c0,3", "R2,c2,1"], "registry,case_id,grade")
    out = tmp_path / "out.parquet"
    result = label_corpus(reports, table, on=["registry", "case_id"], tasks=["grade"], out=out)
    assert pl.read_parquet(out)["grade"].to_list() == ["2", "2", None, None, "1", "1", None, None]
    assert result.unused_rows == 1 and result.labelled == {"grade": 4}


def test_a_row_may_have_several_report_numbers(reports, tmp_path):
    """As abstracts have, in as many columns."""
    table = labels(tmp_path, ["N0,N1,,C50", "N2,,,C61", ",,N3,C18", "N9,,,C20"], header="first,second,third,site")
    told = TableMapping(columns={"report_number": "first+second + third"})
    result = label_corpus(reports, table, on="report_number", out=tmp_path / "out.parquet", mapping=told)
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found["site"].to_list() == ["C50", "C50", "C61", "C18", *[None] * 4]
    assert (result.matched, result.unused_rows) == (4, 1)
    with pytest.raises(UsageError, match="has no column 'fourth'"):
        told = TableMapping(columns={"report_number": "first+fourth"})
        label_corpus(reports, table, on="report_number", out=tmp_path / "o.parquet", mapping=told)


def test_tasks_that_are_told_are_all_that_is_taken(reports, tmp_path):
    """So a corpus that has sites gets histologies from a table that has both."""
    coded, out = tmp_path / "coded.parquet", tmp_path / "out.parquet"
    pl.read_parquet(reports).with_columns(site=pl.lit("C18")).write_parquet(coded)
    table = labels(tmp_path, ["N0,C50,8500/3"])
    result = label_corpus(coded, table, on="report_number", tasks="histology", out=out)
    assert result.labelled == {"histology": 1}
    assert pl.read_parquet(out).select("site", "histology").row(0) == ("C18", "8500")
    assert "behavior" not in pl.read_parquet_schema(out)
    table = labels(tmp_path, ["N0,C50.4,8500/3"], "report_number,subsite,histology")
    told = label_corpus(reports, table, on="report_number", tasks=["site", "behavior"], out=out)
    assert told.labelled == {"site": 1, "behavior": 1}  # by what the others say
    with pytest.raises(UsageError, match="has no column 'laterality'"):
        label_corpus(reports, table, on="report_number", tasks="laterality", out=out)


def test_a_report_number_of_two_laboratories_labels_neither(tmp_path):
    """Each numbers its own: the row of one patient's breast was the label of another's skin."""
    corpus = tmp_path / "r.csv"
    rows = ["report_id,case_id,registry,date,text,report_number", "a,1,A,2016-05-01,x,S-1", "b,1,A,2016-05-02,x,S-1"]
    rows += ["c,2,A,2016-05-01,x,S-2", "d,3,B,2016-05-01,x,S-2", "e,4,B,2017-05-01,x,S-3", "f,5,A,2016-05-01,x,S-3"]
    corpus.write_text("\n".join(rows) + "\n")
    table = labels(tmp_path, [f"A,S-{n},2016-05-01,C50" for n in (1, 2, 3)], "registry,report_number,date,site")

    def labelled(**options):
        result = label_corpus(corpus, table, out=tmp_path / "out.parquet", **options)
        return result, pl.read_parquet(tmp_path / "out.parquet").drop_nulls("site")["report_id"].to_list()

    result, found = labelled(on="report_number")
    assert (result.matched, result.unmatched, result.ambiguous, result.shared, found) == (2, 0, 0, 4, ["a", "b"])
    assert "4 whose number other cases have too" in result.summary()
    assert labelled(on="report_number", days=30)[1] == ["a", "b", "f"]
    assert labelled(on=["registry", "report_number"])[1] == ["a", "b", "c", "f"]
    table.write_text("report_number,site\nS-2,C50\n")
    with pytest.raises(CorpusError, match=r"2 reports ambiguous\); reports of several cases have one number: --on reg"):
        labelled(on="report_number")


@pytest.mark.parametrize(
    ("header", "row", "options", "sentence"),
    [
        ("report_number,site", "N0,C50", {"on": ["number"]}, "--on: the reports have no column 'number'"),
        ("report_number,site", "N0,C50", {"on": ["text"]}, "--on text: reports are not compared by their texts"),
        ("report_number,site", "N0,C50", {"on": []}, "--on names no column"),
        ("ReportNumber,site", "N0,C50", {}, "has no column 'report_number' (did you mean 'ReportNumber'?)"),
        ("report_number,note", f"N0,{SECRET}", {}, "has no column of labels"),
        (
            "report_number,site",
            "N99,C50",
            {},
            "no report found its label by report_number (1 row, 0 reports ambiguous)",
        ),
        ("report_id,site", "N0,C50", {"on": ["report_id"]}, "messages have the laboratory's number: try --on"),
        ("report_number,date,site", "N0,01/02/2016,C50", {"days": 3}, "1 row cannot be read (the first is row 1)"),
        ("report_number,site", "N0,C50", {"out": "x.csv"}, "expected a name that ends in .parquet"),
        ("report_number,site", "N0,C50", {"out": "reports.parquet"}, "is among what is read; choose another name"),
    ],
)
def test_mistakes_are_sentences(reports, tmp_path, header, row, options, sentence):
    given = {"on": ["report_number"]} | options
    given["out"] = tmp_path / given.get("out", "out.parquet")
    with pytest.raises((CorpusError, UsageError)) as caught:
        label_corpus(reports, labels(tmp_path, [row], header), **given)
    assert sentence in str(caught.value) and SECRET not in str(caught.value)
    assert not (tmp_path / "out.parquet").exists()


def test_labels_that_are_there_are_not_replaced(reports, tmp_path):
    table = labels(tmp_path, ["N0,C50,8500"])
    label_corpus(reports, table, on=["report_number"], out=tmp_path / "out.parquet")
    with pytest.raises(CorpusError, match="the reports have labels of site, histology already"):
        label_corpus(tmp_path / "out.parquet", table, on=["report_number"], out=tmp_path / "again.parquet")


def test_the_command_from_messages_to_labels(tmp_path, pathveil):
    message = ["MSH|^~\\&||LAB|||||ORU^R01", f"PID|1||10001^^^H^MR||{SECRET}^Hildegard||19570706"]
    message += ["OBR|1||S-1|11529-5|||20160502", f"OBX|1|TX|22637-3^final^LN||Mrs. {SECRET}: ductal carcinoma", ""]
    (tmp_path / "m.hl7").write_text("\r".join(message), newline="")
    (tmp_path / "abstracts.csv").write_text("AccNo;primarySite;histologicTypeIcdO3;laterality\nS-1;C504;8500;2\n")
    assert pathveil("corpus", "import", tmp_path / "m.hl7", "--out", tmp_path / "r.parquet").returncode == 0
    columns = ["report_number=AccNo", "subsite=primarySite", "histology=histologicTypeIcdO3"]
    options = [word for column in columns for word in ("--column", column)]
    done = pathveil(
        "corpus", "label", tmp_path / "r.parquet", tmp_path / "abstracts.csv", "--on", "report_number", *options,
        "--out", tmp_path / "l.parquet",
    )  # fmt: skip
    assert done.returncode == 0 and "1 of 1 report labelled" in done.stdout, done.stderr
    tasks = pl.read_parquet(tmp_path / "l.parquet").select("site", "subsite", "histology", "laterality")
    assert tasks.row(0) == ("C50", "C50.4", "8500", "left")


def test_rows_with_codes_and_no_number_are_told_as_such(reports, tmp_path):
    table = labels(tmp_path, [",C50,8500", ",C61,8140"])
    with pytest.raises(CorpusError, match=r"\(0 rows, 0 reports ambiguous\); no row with a code has a report_number"):
        label_corpus(reports, table, on="report_number", out=tmp_path / "out.parquet")


def test_days_without_marks_between_their_parts_are_days(reports, tmp_path):
    first = pl.read_parquet(reports)["date"][0]
    rows = [f"N0,{first:%d%m%Y},C50", "N1,17022000,C61", "N2,20169999,C61"]
    result = label_corpus(
        reports,
        labels(tmp_path, rows, "report_number,date,site"),
        on="report_number",
        days=3,
        out=tmp_path / "o.parquet",
    )
    assert (result.matched, result.undated_rows, result.unused_rows) == (1, 1, 1)
