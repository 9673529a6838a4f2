"""Reports that are files of their own: found by name within their folder, and nowhere else."""

import polars as pl
import pytest

from pathveil.bundle.incoming import OneReading, read_files
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.tables.opening import passed_over
from pathveil.errors import CorpusError, UsageError

SECRET = "Quastenflosser"
COLUMNS = {"report_id": "ACC", "case_id": "PAT", "text": "FILE"}


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    (folder / "2016").mkdir(parents=True)
    (folder / "a.txt").write_bytes("Präparat: Kolon, Adenom".encode("cp1252"))
    (folder / "b.rtf").write_text(r"{\rtf1\ansi Left breast,\par ductal carcinoma}")
    (folder / "c.html").write_text("<p>Prostate:<br>acinar adenocarcinoma</p>")
    (folder / "2016" / "d.txt").write_bytes("Größe: 2 cm".encode("utf-16"))
    (tmp_path / "secret.txt").write_text(SECRET)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


def imported(tmp_path, names: list[str], **told):
    rows = {"ACC": [f"S{n}" for n in range(len(names))], "PAT": list(range(len(names))), "FILE": names}
    pl.DataFrame(rows).write_csv(tmp_path / "index.csv")
    mapping = TableMapping(columns=COLUMNS, texts=str(tmp_path / "texts"))
    result = import_corpus(tmp_path / "index.csv", out=tmp_path / "c.parquet", registry="R", mapping=mapping, **told)
    return pl.read_parquet(tmp_path / "c.parquet")["text"].to_list(), result


def test_a_table_names_the_files(tmp_path, texts):
    found, _ = imported(tmp_path, ["a.txt", "b", "c.html", "2016/d.txt"])
    assert found[:2] == ["Präparat: Kolon, Adenom", "Left breast,\nductal carcinoma"]
    assert found[2:] == ["Prostate:\nacinar adenocarcinoma", "Größe: 2 cm"]


@pytest.mark.parametrize("name", ["../secret.txt", "link", "/etc/hostname", "none.txt", "2016", "a\0b", "x" * 5_000])
def test_no_name_leads_out_of_the_folder(tmp_path, texts, name):
    found, result = imported(tmp_path, ["a", name, "b"], most_skipped=0.5)
    assert len(found) == 2 and SECRET not in "".join(found)
    assert [(one.row, one.reason) for one in result.tables.skipped] == [(3, "has no text")]


def test_a_folder_that_is_another_is_told(tmp_path, texts):
    with pytest.raises(UsageError, match=r"texts: holds none of the files that the column text of .*index.csv names"):
        imported(tmp_path, ["x", "y"])
    mapping = TableMapping(columns=COLUMNS, texts=str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"--texts .*nowhere: is no folder"):
        import_corpus(tmp_path / "index.csv", out=tmp_path / "d.parquet", registry="R", mapping=mapping)


def test_a_folder_of_texts_is_coded_and_never_imported(tmp_path, texts):
    """Each report is named by its file; what else lies there is named, and tables or messages go before."""
    (texts / "notes.pdf").write_bytes(b"%PDF")
    (texts / "link.txt").unlink()
    told = {"key": b"", "reading": OneReading()}
    coded = [one for batch in read_files(texts, form="auto", **told) for one in batch]
    assert [one.origin.report_id for one in coded] == ["a", "b", "c"] and coded[1].text.startswith("Left breast,\n")
    assert [one.origin.file for one in coded] == [str(texts / name) for name in ("a.txt", "b.rtf", "c.html")]
    assert passed_over(texts) == ["2016/", "notes.pdf"]
    (one,) = next(read_files(texts / "a.txt", form="text", **told))
    assert one.text == coded[0].text
    with pytest.raises(CorpusError, match=r"a.txt: a text does not say whose it is; give a table .* --texts"):
        import_corpus(texts, out=tmp_path / "d.parquet", registry="R")
    (texts / "table.txt").write_text("report_id;case_id;text\n1;1;colon\n2;2;breast\n")
    with pytest.raises(CorpusError, match="the folder holds no table or HL7 file"):  # it may be either
        next(read_files(texts, form="auto", **told))
    (texts / "more.csv").write_text("report_id,text\n9,lung\n")
    assert [one.origin.report_id for batch in read_files(texts, form="auto", **told) for one in batch] == ["9"]
