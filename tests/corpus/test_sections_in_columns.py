"""Reports whose sections are columns: proposed, named, put together, wherever tables are read."""

import polars as pl
import pytest

import pathveil
from pathveil.bundle.incoming import OneReading, batches_of
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.labels import label_corpus
from pathveil.corpus.mapping import TableMapping, read_mapping
from pathveil.corpus.proposal import propose_mapping
from pathveil.corpus.tables.opening import rename_columns
from pathveil.errors import UsageError

FIRST = (
    "FINAL DIAGNOSIS\nColon, resection: adenocarcinoma 0, moderately differentiated.\n\n"
    "MICRO\nMalignant glands infiltrate the muscle.\n\nGROSS DESCRIPTION\nA segment of colon, 12 cm, with a mass."
)
COLUMNS = {
    "report_id": "acc",
    "case_id": "patient",
    "text": ["FINAL_DIAGNOSIS", "comment", "micro", "GrossDescription"],
}


@pytest.fixture
def lab(tmp_path):
    table = {
        "acc": [f"S{n}" for n in range(20)],
        "patient": [f"7{n}" for n in range(20)],
        "Clinical_History": ["Rectal bleeding for three months."] * 20,
        "GrossDescription": ["{\\rtf1 A segment of colon, 12 cm, with a mass.}"] * 20,
        "micro": ["Malignant glands infiltrate the muscle."] * 20,
        "FINAL_DIAGNOSIS": [f"Colon, resection: adenocarcinoma {n}, moderately differentiated." for n in range(20)],
        "comment": ["NULL", *["Reviewed by a second pathologist."] * 19],
    }
    path = tmp_path / "lab.csv"
    pl.DataFrame(table).write_csv(path)
    return path


def test_sections_are_proposed_and_imported(lab, tmp_path):
    result = propose_mapping(lab, out=tmp_path / "m.toml")
    assert result.columns["text"] == ["Clinical_History", "FINAL_DIAGNOSIS", "comment", "micro", "GrossDescription"]
    assert "  text        Clinical_History + FINAL_DIAGNOSIS + comment + micro + GrossDescription  " in result.summary()
    assert "not used" not in result.summary() and read_mapping(tmp_path / "m.toml").columns == result.columns
    import_corpus(lab, out=tmp_path / "c.parquet", registry="R", mapping=read_mapping(tmp_path / "m.toml"))
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus.columns == ["report_id", "case_id", "text", "registry"]
    assert corpus["text"][0].startswith(
        "CLINICAL HISTORY\nRectal bleeding for three months.\n\nFINAL DIAGNOSIS\nColon,"
    )
    assert "COMMENT" not in corpus["text"][0] and "COMMENT\nReviewed" in corpus["text"][1]


@pytest.mark.parametrize("given", [COLUMNS["text"], "FINAL_DIAGNOSIS+comment + micro+GrossDescription"])
def test_every_way_in_takes_them(lab, tmp_path, given):
    columns = COLUMNS | {"text": given}
    import_corpus(lab, out=tmp_path / "c.parquet", registry="R", columns=columns)
    assert pl.read_parquet(tmp_path / "c.parquet")["text"][0] == FIRST
    assert pathveil.read(lab, registry="R", columns=columns).to_frame()["text"][0] == FIRST
    assert pathveil.read(pl.read_csv(lab), registry="R", columns=columns).to_frame()["text"][0] == FIRST
    mapping = TableMapping(columns=columns)
    (batch,) = batches_of(lab, key=b"0123456789abcdef", reading=OneReading(), mapping=mapping)
    assert batch[0].text == FIRST and batch[0].origin.report_id == "S0"


def test_labels_of_a_table_with_sections(lab, tmp_path):
    import_corpus(lab, out=tmp_path / "c.parquet", registry="R", columns=COLUMNS)
    table = pl.read_csv(lab).with_columns(site=pl.lit("C18"))
    table.write_csv(tmp_path / "labels.csv")
    result = label_corpus(
        tmp_path / "c.parquet", tmp_path / "labels.csv", on=["report_id"], out=tmp_path / "d.parquet",
        mapping=TableMapping(columns=COLUMNS),
    )  # fmt: skip
    assert result.matched == 20


def put_together(frame: pl.DataFrame, **columns) -> pl.DataFrame:
    return rename_columns(frame.lazy(), source="t.csv", columns=columns).collect()


def test_a_column_of_exactly_that_name_wins():
    frame = pl.DataFrame({"ER+PR": ["positive"], "ER": ["a"], "PR": ["b"], "text": ["c"]})
    assert put_together(frame, text="ER+PR", other="text")["text"].to_list() == ["positive"]
    found = put_together(frame.drop("ER+PR"), text=["text", "ER", "PR"])
    assert found.to_dict(as_series=False) == {"text": ["TEXT\nc\n\nER\na\n\nPR\nb"]}
    assert put_together(frame, text=["ER+PR"], other="text")["text"].to_list() == ["positive"]


def test_fields_within_fields_and_blank_rows():
    frame = pl.DataFrame({"path": [{"dx": "carcinoma", "gross": " "}, {"dx": "", "gross": None}], "n": [3, None]})
    found = put_together(frame, text=["path.dx", "path.gross", "n"])
    assert found["text"].to_list() == ["DX\ncarcinoma\n\nN\n3", None]


def test_mistakes_are_one_sentence(lab, tmp_path, pathveil):
    pathveil("corpus", "import", lab, "--registry", "R", "--column", "report_id=acc", "--column", "case_id=patient",
             "--column", "text=FINAL_DIAGNOSIS+micro", "--out", tmp_path / "c.parquet")  # fmt: skip
    assert pl.read_parquet(tmp_path / "c.parquet")["text"][0] == FIRST.split("\n\nGROSS")[0]
    wrong = pathveil("corpus", "import", lab, "--column", "text=micro+macro", "--out", tmp_path / "d.parquet")
    assert wrong.returncode == 2 and "has no column 'macro' to take text from (did you mean 'micro'?)" in wrong.stderr
    frame = pl.DataFrame({"a": ["x"], "b": ["y"], "text": ["z"]})
    with pytest.raises(UsageError, match="has a column 'text' already, so 'a' and 'b' cannot take its place"):
        put_together(frame, text=["a", "b"])
    for columns, sentence in [
        ('site = ["a", "b"]', "'columns.site' names several columns; only the text is put together of several"),
        ("text = []", "'columns.text' is no name of a column"),
        ('text = ["a", "a"]', "'columns.text' names a column twice"),
    ]:
        (tmp_path / "m.toml").write_text(f"[columns]\n{columns}\n")
        with pytest.raises(UsageError, match=sentence):
            read_mapping(tmp_path / "m.toml")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("report_text gross", "report_text"),  # the whole text is there
        ("Makroskopie Diagnose", ["Diagnose", "Makroskopie"]),
        ("comment clinical_history", "comment"),  # neither is a report's own text
        ("gross", "gross"),
        ("gross_text final_text micro_text", ["final_text", "micro_text", "gross_text"]),
        ("dx acc", "dx"),
        ("gross diagnosis_date", "gross"),
    ],
)
def test_what_is_proposed(tmp_path, names, expected):
    long = "A sentence of a report that is long enough to be told from a code, and from a name or two of somebody."
    values = {name: [f"{long} {n}" for n in range(20)] for name in names.split()}
    if "diagnosis_date" in values:
        values["diagnosis_date"] = ["2016-05-17"] * 20
    if "clinical_history" in values:
        values["comment"] = [f"{value} and on" for value in values["comment"]]
    pl.DataFrame(values).write_csv(tmp_path / "t.csv")
    if "acc" in values:  # shorter than texts of other names must be
        values = {"acc": [f"S{n}" for n in range(20)], "dx": ["Skin of the back, excision: malignant melanoma."] * 20}
        values["dx"] = [f"{value} Breslow 2 mm." for value in values["dx"]]
    pl.DataFrame(values).write_csv(tmp_path / "t.csv")
    assert propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml").columns["text"] == expected


def test_the_names_of_diseases_are_no_texts(tmp_path):
    table = {
        "acc": [f"S{n}" for n in range(20)],
        "diagnosis": ["Malignant neoplasm of breast"] * 20,
        "topo": ["C504"] * 20,
    }
    pl.DataFrame(table).write_csv(tmp_path / "t.csv")
    result = propose_mapping(tmp_path / "t.csv", out=tmp_path / "m.toml")
    assert "text" not in result.columns and "it can give its codes to reports" in result.summary()
