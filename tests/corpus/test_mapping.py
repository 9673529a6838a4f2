"""Mappings: columns recognised by name and content, written as a file that the import takes."""

import gzip
import random

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping, mapping_of, read_mapping
from pathveil.corpus.proposal import propose_mapping
from pathveil.corpus.reading import read
from pathveil.errors import CorpusError, PathveilError, UsageError
from workbooks import workbook

SECRET = "Quastenflosser"


@pytest.fixture
def lab(tmp_path):
    """A registry's table as it is: Latin-1, semicolons, own names, undotted codes, day first."""
    rows = ["PatientID;GebDatum;ReportNo;Datum;ReportText;ICDO_Topography;ICDO_Morphology;Side;Grade"]
    for i in range(60):
        code = "C504;8500/3;L" if i % 2 else "c61.9;8140/3;R"
        rows.append(f"P{i // 2};01.02.1950;N{i};{13 + i % 15}/0{1 + i % 9}/2019;{SECRET} äußerer Quadrant {i};{code};2")
    path = tmp_path / "lab.csv"
    path.write_bytes("\n".join(rows).encode("latin-1"))
    return path


def test_a_messy_table_from_proposal_to_corpus(lab, tmp_path):
    result = propose_mapping(lab, out=tmp_path / "map.toml")
    assert result.columns == {
        "text": "ReportText",
        "report_id": "ReportNo",
        "case_id": "PatientID",
        "date": "Datum",
        "subsite": "ICDO_Topography",
        "histology": "ICDO_Morphology",
        "laterality": "Side",
    }
    assert (result.encoding, result.delimiter, result.dates) == ("cp1252", ";", "dd/mm/yyyy")
    assert result.missing == ["registry"] and result.unused == 2
    written = (tmp_path / "map.toml").read_text()
    assert SECRET not in written + result.summary() and "--registry NAME" in result.summary()
    mapping = read_mapping(tmp_path / "map.toml")
    assert mapping == TableMapping(encoding="cp1252", delimiter=";", dates="dd/mm/yyyy", columns=result.columns)
    done = import_corpus(lab, out=tmp_path / "c.parquet", registry="R1", mapping=mapping)
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus.height == 60 and corpus["text"][0] == f"{SECRET} äußerer Quadrant 0"
    assert corpus["date"].cast(pl.String)[:2].to_list() == ["2019-01-13", "2019-02-14"]
    assert corpus.select("site", "subsite", "histology", "behavior", "laterality").unique().sort("site").rows() == [
        ("C50", "C50.4", "8500", "3", "left"),
        ("C61", "C61.9", "8140", "3", "right"),
    ]
    assert done.files[0].encoding == "cp1252" and done.files[0].dates == "dd/mm/yyyy"
    assert "encoding  cp1252" in done.summary() and SECRET not in done.to_json()
    assert read(lab, mapping=tmp_path / "map.toml", registry="R1").to_frame().equals(corpus)


@pytest.mark.parametrize(
    ("header", "row", "columns"),
    [
        (
            "patientIdNumber,pathReportNumber1,pathDateSpecCollect1,primarySite,histologicTypeIcdO3,behaviorCodeIcdO3,"
            "laterality,textPathFormalDx",
            "7,a,20160502,C504,8500,3,1,left breast",
            "case_id report_id date subsite histology behavior laterality text",
        ),
        (
            "report_id,case_id,registry,date,text,site",
            "a,1,R1,2016-05-02,x,C50",
            "report_id case_id registry date text site",
        ),
        ("id,tumor_id,patient_id,hospital,note", f"1,2,3,A,{'x' * 200}", "report_id case_id - registry text"),
        ("a,b,c,d", f"1,C50.4,02-May-2016,{'long words ' * 20}", "- subsite date text"),
        ("text,topography,side", "x,banana,up", "text - -"),
        ("PAT_MRN_ID,ACCESSION_NUM,Result_Narrative", f"7,a,{'long words ' * 20}", "case_id report_id text"),
        ("med_rec_num,accession,text", "7,a,x", "case_id report_id text"),
        ("Fallnummer,PatientenID,Befundnr,Befund", "1,7,a,x", "- case_id report_id text"),
        (  # abstracts of a hospital's registry, which numbers its own
            "Accession Number,Med Rec #,Primary Site,Histology/Behavior,Path Report #",
            "202200001,7,C504,8500/3,S22-1",
            "- case_id subsite histology report_id",
        ),
        ("Acc/Seq,MRN,Site,Path #", "2022000001/00,7,C504,S22-1", "- case_id site report_id"),
        ("Acc#,Pt MRN,Report,BEH_O3", f"S22-1,7,{'long words ' * 20},3", "report_id case_id text behavior"),
        ("PATIENT ID,Date of Diagnosis [390],Path Text", f"7,20220105.0,{'x ' * 60}", "case_id date text"),
    ],
)
def test_what_columns_are_recognised(tmp_path, header, row, columns):
    (tmp_path / "t.csv").write_text(f"{header}\n{row}\n")
    expected = {ours: theirs for ours, theirs in zip(columns.split(), header.split(","), strict=True) if ours != "-"}
    assert propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml").columns == expected


def test_ids_and_histologies_are_recognised_by_what_they_hold(tmp_path):
    lines = [f"A {row};L{row:04d};{row:02d}.01.1950;8500/{row % 4};{62000 + row};{row}" for row in range(1, 21)]
    (tmp_path / "t.csv").write_text("\n".join(["Name;Nr;Geb;Morpho;PLZ;n", *lines]))
    result = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert result.columns == {"report_id": "Nr", "histology": "Morpho"}
    assert result.reasons["report_id"] == "20 different values in 20 rows; its name says nothing"


def test_an_empty_column_is_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("report_id,case_id,text\n1,,x\n2,,y\n")
    assert propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml").missing == ["case_id", "registry"]
    (tmp_path / "t.csv").write_text("report_id,case_id,text\n")  # nor is one judged by rows that are not there
    assert propose_mapping(tmp_path / "t.csv", out=tmp_path / "n.toml").missing == ["registry"]


def test_a_table_of_codes_without_texts_labels_a_corpus(tmp_path):
    (tmp_path / "t.csv").write_text("Accession,PatientID,Primary Site\nA1,7,C50.4\n")
    told = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml").summary()
    assert told.endswith(
        f"corpus label REPORTS {tmp_path}/t.csv --on report_id --map {tmp_path}/m.toml --out labelled.parquet"
    )


def test_a_mapping_that_is_there_may_have_been_corrected(tmp_path):
    (tmp_path / "t.csv").write_text("text,Side\nx,L\n")
    (tmp_path / "m.toml").write_text("# by hand")
    with pytest.raises(UsageError, match=r"m\.toml: is there already"):
        propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert (tmp_path / "m.toml").read_text() == "# by hand"


def test_undecided_dates_and_missing_columns_are_written_down(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"Datum,Befundtext\n01/02/2016,x\n"))
    result = propose_mapping(tmp_path / "t.csv.gz", out=tmp_path / "m.toml")
    text = (tmp_path / "m.toml").read_text()
    assert "# dates = …  # the contents do not say whether day or month is first" in text
    assert "# case_id = …  # no column looks like it, and a corpus needs it" in text
    assert "no column looks like report_id and case_id" in result.summary()
    assert read_mapping(tmp_path / "m.toml").columns == {"date": "Datum", "text": "Befundtext"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("columns = [", "is not TOML"),
        ("a = " + "[" * 5000 + "]" * 5000, "is nested more than 64 levels deep"),
        ("colums = {}", "there is no such setting; did you mean 'columns'?"),
        ("dates = 'day first'", "is no format of dates"),
        ("encoding = 'klingon'", "is not known; expected utf-8"),
        ("delimiter = ';;'", "expected one character such as ; or tab"),
        ("[columns]\ntext = 3", "'columns.text'"),
    ],
)
def test_a_wrong_mapping_is_one_sentence(tmp_path, content, sentence):
    (tmp_path / "m.toml").write_text(content)
    with pytest.raises(UsageError) as caught:
        read_mapping(tmp_path / "m.toml")
    assert sentence in str(caught.value)


def test_a_misspelt_column_of_ours_is_told(tmp_path):
    """It made another column, and a corpus without that task."""
    (tmp_path / "m.toml").write_text('[columns]\nbehaviour = "BEH"\n')
    with pytest.raises(UsageError, match=r"m\.toml: .*'columns\.behaviour' is no column of a corpus; did you mean"):
        read_mapping(tmp_path / "m.toml")
    with pytest.raises(UsageError, match="did you mean 'case_id'"):
        TableMapping().with_columns({"caseid": "Fall"})
    assert TableMapping(columns={"other_site": "site", "dx_date": "x", "report_number": "y", "date2": "z"}).columns


def test_a_mapping_in_python_may_be_its_content():
    assert (
        mapping_of({"dates": "dd/mm/yyyy"})
        == TableMapping(dates="dd/mm/yyyy")
        == mapping_of(mapping_of(TableMapping(dates="dd/mm/yyyy")))
    )
    with pytest.raises(UsageError, match="the mapping: 'colums': there is no such setting"):
        mapping_of({"colums": {}})


def test_a_column_whose_contents_are_not_what_its_name_says_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("text,Side\nx,up\ny,down\nz,L\n")
    result = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert result.doubts == {"laterality": "Side, of whose 3 values only 33% fit"} and "site" not in result.columns
    assert "# laterality = …  # perhaps Side, of whose 3 values only 33% fit" in (tmp_path / "m.toml").read_text()
    assert "not taken as laterality: Side" in result.summary()


def test_records_that_an_import_skips_do_not_stop_a_proposal(tmp_path):
    header, record = "Accession,PatientID,Befundtext\n", "A{0},{0},mamma\n"
    (tmp_path / "t.csv").write_text(header + "".join(map(record.format, range(20))) + "\n20 rows selected.\n")
    result = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert (result.columns["text"], result.rows_read, result.passed_over) == ("Befundtext", 20, 1)
    assert "not looked at: 1 record that an import would skip" in result.summary()


@pytest.mark.parametrize("title", ["Extract of May\n\n", "Extract of May,,,\n,,,\n", "sep=,\n"])
def test_a_title_above_the_names_of_columns_is_told(tmp_path, title):
    rows = "".join(f"A{n},{n},17/02/2016,{SECRET}\n" for n in range(20))
    (tmp_path / "t.csv").write_text(f"{title}Accession,PatientID,Datum,Befundtext\n{rows}")
    with pytest.raises(
        CorpusError, match=r"remove what stands above their names|is its first line the names of|remove that line"
    ) as caught:
        propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert SECRET not in str(caught.value) and not (tmp_path / "m.toml").exists()
    (tmp_path / "t.csv").write_text(
        f"Accession,PatientID,Befundtext,,,,\nA1,1,{SECRET},,,,\n"
    )  # empty columns are none
    assert propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml").missing == ["registry"]


def test_years_of_two_digits_are_proposed_and_must_be_told(tmp_path):
    for dates, forms in (
        (["17/02/16", "18/02/16"], "dd/mm/yy or mm/dd/yy"),
        (["17.02.16", "18.02.16"], "dd.mm.yy or mm.dd.yy"),
        (["17-FEB-16 10.11.12 AM", "18-FEB-16"], "dd-mmm-yy"),
    ):
        (tmp_path / "t.csv").write_text("Datum,text\n" + "".join(f"{date},x\n" for date in dates))
        (tmp_path / "m.toml").unlink(missing_ok=True)
        result = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
        assert result.columns["date"] == "Datum"
        assert "must be told in the file: years have two digits" in result.summary()
        assert result.undecided and result.undecided.endswith(f"is not guessed: {forms}")
        assert "# dates = …  # years have two digits" in (tmp_path / "m.toml").read_text()
    told = TableMapping(dates="dd-mmm-yy")
    result = propose_mapping(tmp_path / "t.csv", out=tmp_path / "n.toml", mapping=told)
    assert result.undecided is None and result.dates == "dd-mmm-yy"


def test_what_is_no_single_table_is_told(tmp_path):
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(CorpusError, match=r"x\.csv: is a folder; expected one table"):
        propose_mapping(tmp_path / "x.csv", out=tmp_path / "m.toml")
    (tmp_path / "t.json").write_text('{"made": {}, "data": {"reports": [{"text": "a"}, {"text": "b"}]}}')
    assert (
        "the file is one object, so one report"
        in propose_mapping(tmp_path / "t.json", out=tmp_path / "m.toml").summary()
    )
    (tmp_path / "t.csv").write_text("text,Side,date\nx,,1462000000\ny,,1462086400\n")  # seconds since 1970 are no days
    doubts = propose_mapping(tmp_path / "t.csv", out=tmp_path / "n.toml").doubts
    assert doubts["laterality"] == "Side, which is empty" and "date" in doubts


def test_a_column_of_our_name_with_other_contents_makes_room(tmp_path):
    rows = "".join(f"r{n},{n},St Mary,{SECRET},C504\n" for n in range(12))
    (tmp_path / "t.csv").write_text("report_id,case_id,site,text,topography\n" + rows)
    result = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert result.columns["other_site"] == "site" and "not taken as site: site" in result.summary()
    told = {"mapping": read_mapping(tmp_path / "m.toml"), "registry": "R"}
    imported = import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet", **told)
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert not imported.codes.unknown and set(corpus["site"]) == {"C50"} and set(corpus["other_site"]) == {"St Mary"}
    with pytest.raises(
        UsageError, match=r"has a column 'site' already.*give that another name too \(--column other_site"
    ):
        import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet", registry="R", columns={"site": "topography"})
    columns = {"site": "topography", "hospital": "site"}
    import_corpus(tmp_path / "t.csv", out=tmp_path / "c.parquet", registry="R", columns=columns)
    assert set(pl.read_parquet(tmp_path / "c.parquet")["subsite"]) == {"C50.4"}


def test_other_sheets_are_named_where_the_first_holds_no_texts(tmp_path):
    sheets = {"Summary": [["Month", "Reports"], ["May", 20]], "Data": [["acc", "text"], ["A1", SECRET]]}
    path = workbook(tmp_path / "t.xlsx", sheets)
    result = propose_mapping(path, out=tmp_path / "m.toml")
    assert "the first sheet was read; there are others (--sheet): Data" in result.summary()
    told = TableMapping(sheet="Data")
    assert propose_mapping(path, out=tmp_path / "n.toml", mapping=told).other_sheets == []


def test_files_that_are_no_tables(tmp_path):
    for name in ("none.csv", "x.pdf"):
        with pytest.raises(CorpusError, match=name):
            (tmp_path / "x.pdf").write_bytes(b"%PDF")
            propose_mapping(tmp_path / name, out=tmp_path / "m.toml")
    assert not (tmp_path / "m.toml").exists()


def test_a_table_without_a_header_is_refused_and_not_quoted(tmp_path):
    (tmp_path / "t.csv").write_text(f"P1;17/02/2016;{SECRET};C504\nP2;18/02/2016;{SECRET};C504\n")
    with pytest.raises(CorpusError, match="the names of its columns are dates or codes") as caught:
        propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert SECRET not in str(caught.value) and not (tmp_path / "m.toml").exists()


@pytest.mark.parametrize("row", [["S16-{}", "x{}", f"{SECRET} {{}} " + "carcinoma " * 8], ["S16-{}", f"{SECRET}{{}}"]])
def test_a_record_in_place_of_names_is_never_shown(tmp_path, row):
    rows = [[cell.format(n) for cell in row] for n in range(12)]
    (tmp_path / "t.csv").write_text("\n".join(map(",".join, rows)))
    for path in (tmp_path / "t.csv", workbook(tmp_path / "t.xlsx", {"S": rows})):
        with pytest.raises(CorpusError, match=r"seems to be a record; add a row with the names|no header") as caught:
            propose_mapping(path, out=tmp_path / "m.toml")
        assert SECRET not in str(caught.value) and not (tmp_path / "m.toml").exists()


def test_the_commands(lab, tmp_path, pathveil):
    done = pathveil("corpus", "map", lab, "--out", tmp_path / "map.toml")
    assert done.returncode == 0 and SECRET not in done.stdout, done.stderr
    out = tmp_path / "c.parquet"
    done = pathveil("corpus", "import", lab, "--map", tmp_path / "map.toml", "--registry", "R1", "--out", out)
    assert done.returncode == 0 and "60 reports of 30 cases" in done.stdout, done.stderr


def test_damaged_tables_are_read_or_refused_in_a_sentence(lab, tmp_path):
    """A small fuzz of map and import: whatever was done to the bytes, no traceback and no text."""
    rng, kinds = random.Random(8), {"t.csv": lab.read_bytes(), "t.csv.gz": gzip.compress(lab.read_bytes(), mtime=0)}
    marks, read_well = [b'"', b";", b"\n", b"\x00", b"\xff\xfe", b"\r", b""], 0
    for _ in range(60):
        name, damaged = rng.choice([(name, bytearray(whole)) for name, whole in kinds.items()])
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.randrange(4)] = rng.choice([*marks, bytes([rng.randrange(256)])])
        (tmp_path / name).write_bytes(damaged)
        (tmp_path / "m.toml").unlink(missing_ok=True)
        try:
            told = propose_mapping(tmp_path / name, out=tmp_path / "m.toml").summary()
            mapping = read_mapping(tmp_path / "m.toml")
            told += import_corpus(tmp_path / name, out=tmp_path / "c.parquet", registry="R", mapping=mapping).summary()
            read_well += 1
        except PathveilError as error:
            told = str(error)
        assert SECRET not in told
    assert 5 < read_well < 55


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('dates = "soon"', "m.toml: dates soon is no format of dates"),
        ('encoding = "klingon"', "m.toml: encoding klingon is not known"),
    ],
)
def test_a_wrong_value_is_told_with_the_mapping(tmp_path, line, sentence):
    (tmp_path / "m.toml").write_text(line)
    with pytest.raises(UsageError, match=sentence):
        read_mapping(tmp_path / "m.toml")


def test_the_command_to_go_on_with_can_be_pasted(tmp_path):
    (tmp_path / "my reports.csv").write_text("Accession,PatientID,Befundtext\n" + "A1,1,colon\n" * 9)
    result = propose_mapping(tmp_path / "my reports.csv", out=tmp_path / "m.toml")
    assert f"corpus import '{tmp_path}/my reports.csv' --map" in result.summary()


@pytest.mark.parametrize("name", ["two\nlines.csv", "no\udcffutf8.csv"])
def test_a_mapping_of_a_file_with_an_odd_name_can_be_read(tmp_path, name):
    (tmp_path / name).write_text("acc,case_id,registry,text\na,1,R,Polyp of the colon, benign.\n".replace(", b", " b"))
    propose_mapping(tmp_path / name, out=tmp_path / "map.toml")
    assert read_mapping(tmp_path / "map.toml").columns["text"] == "text"


def test_a_first_row_that_is_a_record_is_not_shown(tmp_path):
    rows = f"{SECRET};f;ductal carcinoma of the breast;left\nMeier;m;colon adenocarcinoma;right\n" * 3
    (tmp_path / "t.csv").write_text(rows)
    with pytest.raises(CorpusError, match="its first row seems to be a record") as caught:
        propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert SECRET not in str(caught.value)


def test_a_line_end_in_a_name_spoils_no_mapping(tmp_path):
    """A name that is broken over lines in a spreadsheet stands in a comment too, where it would be a line of TOML."""
    header = '"Report\nNo",PatientID,Befundtext,"Morphology\ncode\x7f","Side\x01"\n'
    (tmp_path / "a\nb.csv").write_text(header + "S1,1,colon,duct\x7f,x\n")
    result = propose_mapping(tmp_path / "a\nb.csv", out=tmp_path / "m.toml")
    assert "perhaps Morphology code" in (tmp_path / "m.toml").read_text()
    assert read_mapping(tmp_path / "m.toml").columns == result.columns and result.columns["report_id"] == "Report\nNo"


def test_columns_of_tnm_and_of_flags_are_no_record(tmp_path):
    rows = "a;1;left breast, duct carcinoma;1;0;0;1\nb;2;colon, adenocarcinoma of it;2;1;1;0\n"
    (tmp_path / "t.csv").write_text("acc;PatientID;Befundtext;T;N;M;left\n" + rows)
    columns = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml").columns
    assert columns == {"text": "Befundtext", "report_id": "acc", "case_id": "PatientID"}


def test_what_looks_like_a_field_and_is_another_is_not_proposed(tmp_path):
    """NAACCR numbers the tumours of each patient 01, 02; BDATE is a birth date; two topographies are two tumours'."""
    header = "patientIdNumber,tumorRecordNumber,BDATE,SPECDATE,topo1,topo2,Befundtext\n"
    rows = [f"{n // 2:08},{n % 2 + 1:02},17/07/1957,{n + 1:02}/03/2016,C504,C187,colon\n" for n in range(30)]
    (tmp_path / "t.csv").write_text(header + "".join(rows))
    columns = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml").columns
    assert columns == {"text": "Befundtext", "case_id": "patientIdNumber", "date": "SPECDATE", "subsite": "topo1"}
    (tmp_path / "t.csv").write_text(header.replace("patientIdNumber", "x") + "".join(rows))
    assert "case_id" not in propose_mapping(tmp_path / "t.csv", out=tmp_path / "m2.toml").columns
