"""One reading of messy sources, held against a plain loop over their records; and what makes it read them again."""

import csv
import datetime
import io
import json
import random

import polars as pl
import pytest

from pathveil.corpus import one_pass
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.rows import RowCheck
from pathveil.errors import CorpusError
from pathveil.icdo.codes import PARSERS

COLUMNS = ["report_id", "case_id", "registry", "date", "text", "subsite", "histology", "laterality"]


def messy_records(count: int, *, seed: int) -> list[dict[str, str]]:
    """Records as laboratories export them, of which some cannot be used; days come before months."""
    draw = random.Random(seed)
    records = []
    for number in range(count):
        day = datetime.date(2014, 1, 1) + datetime.timedelta(draw.randrange(1_500))
        dates = [
            f"{day:%d/%m/%Y}",
            f"{day:%d/%m/%Y} 09:{number % 60:02}",
            day.isoformat(),
            "",
            " ",
            "soon",
            "31/31/2015",
        ]
        texts = ["polyp, 3 mm", 'so-called "polyp"', "line\nbreak", "", " \n\t", f"Präparat {number}", '"']
        values = {
            "report_id": draw.choices([f"S{number}", f"S{draw.randrange(count)}", " ", ""], [90, 4, 1, 1])[0],
            "case_id": draw.choices([f"P{number // 2}", " "], [98, 2])[0],
            "registry": draw.choices(["North", ""], [99, 1])[0],
            "date": draw.choices(dates, [60, 20, 10, 3, 3, 1, 1])[0],
            "text": draw.choices(texts, [40, 10, 10, 1, 1, 30, 5])[0],
            "subsite": draw.choices(["C504", "c50.4 breast", "C61", "C999", "Quastenflosser", ""])[0],
            "histology": draw.choices(["8500/3", "M-85003", "8140", "8500.0", "1234/3", ""])[0],
            "laterality": draw.choices(["0", "1", "links", "L", "up", ""])[0],
        }
        records.append(values)
    return records


def plain_import(records: list[dict[str, str]]) -> tuple[list[tuple], list[str]]:
    """What an import should make of them: the rows of the corpus, and why others are left out."""
    kept, reasons, ids = [], [], set()
    for record in records:
        given = {name: value if name == "text" else value.strip() or None for name, value in record.items()}
        date, fault = None, None
        if given["date"]:
            day = given["date"].split(" ")[0]
            try:
                date = datetime.date.fromisoformat("-".join(reversed(day.split("/"))) if "/" in day else day)
            except ValueError:
                fault = "has a date that cannot be read"
        blank = [name for name in COLUMNS[:3] if not given[name]] + ([] if given["text"].strip() else ["text"])
        fault = f"has no {blank[0]}" if blank else fault
        if not fault and given["report_id"] in ids:
            fault = "has the report_id of an earlier row"
        if fault:
            reasons.append(fault)
            continue
        ids.add(given["report_id"])
        codes = {task: PARSERS[task](given[task]) for task in COLUMNS[5:] if given[task]}
        labels = {}
        for task in ("subsite", "histology", "laterality"):
            if task in codes and not codes[task].unknown:
                labels = codes[task].labels | labels
        tasks = ("subsite", "histology", "laterality", "site", "behavior")
        kept.append((*(given[name] for name in COLUMNS[:3]), date, given["text"], *map(labels.get, tasks)))
    return kept, reasons


def as_csv(records: list[dict[str, str]], delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def as_jsonl(records: list[dict[str, str]]) -> bytes:
    lines = [json.dumps({name: value or None for name, value in one.items()}, ensure_ascii=False) for one in records]
    return "\n".join(lines).encode() + b"\n"


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
def test_messy_rows_in_batches_are_what_a_plain_loop_makes_of_them(tmp_path, monkeypatch, form):
    records = messy_records(700, seed=len(form))
    if form == "csv":
        records[300]["text"] = "a \\ backslash"
    path = tmp_path / f"lab.{form}"
    if form == "parquet":
        pl.DataFrame([{name: value or None for name, value in one.items()} for one in records]).write_parquet(path)
    else:
        path.write_bytes(as_jsonl(records) if form == "jsonl" else as_csv(records, {"tsv": "\t"}.get(form, ",")))
    kept, reasons = plain_import([{name: value or "" for name, value in one.items()} for one in records])
    for rows, block in ((10_000, 1 << 22), (37, 4_096)):
        monkeypatch.setattr(one_pass, "AT_ONCE", rows)
        monkeypatch.setattr("pathveil.corpus.tables.csv_files.BLOCK", block)
        result = import_corpus(path, out=tmp_path / "c.parquet", most_skipped=0.5)
        corpus = pl.read_parquet(tmp_path / "c.parquet")
        order = [*COLUMNS[:5], "subsite", "histology", "laterality", "site", "behavior"]
        assert corpus.columns == order and corpus.rows() == kept
        assert [one.reason for one in result.tables.skipped] == reasons[:100] and len(reasons) > 50
        assert result.tables.rows == 700 and result.reports == len(kept)
        assert "Quastenflosser" not in result.summary() + result.to_json()


def test_what_only_later_rows_tell_is_learned_and_all_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(one_pass, "AT_ONCE", 5)
    head = "report_id,case_id,registry,date,text,histology\n"
    rows = [f"S{n},P{n},North,0{1 + n % 9}/02/2016,polyp,8140\n" for n in range(40)]
    rows[30] = "S30,P30,North,17/02/2016,polyp,8500/3\n"
    (tmp_path / "a.csv").write_text(head + "".join(rows))
    readings = []
    write = one_pass.OnePass.write
    monkeypatch.setattr(one_pass.OnePass, "write", lambda self, *paths: readings.append(1) or write(self, *paths))
    result = import_corpus(tmp_path / "a.csv", out=tmp_path / "c.parquet", most_skipped=0)
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert result.reports == 40 and result.files[0].dates == "dd/mm/yyyy" and len(readings) in (2, 3)
    assert corpus["date"][0] == datetime.date(2016, 2, 1) and corpus["behavior"].drop_nulls().to_list() == ["3"]
    assert [one.name for one in tmp_path.iterdir() if "parquet" in one.name] == ["c.parquet"]


def test_ids_of_the_same_hash_are_two_ids(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text(
        "report_id,case_id,registry,text\n" + "".join(f"S{n},P{n},North,polyp\n" for n in range(20))
    )
    made = RowCheck.__init__

    def with_a_hash(self, *, seed: int) -> None:
        """As if another id of the same hash as S7's came before; with another seed it has another."""
        made(self, seed=seed)
        self.seen.add_all(pl.Series(["S7"]).hash(0).to_numpy())

    monkeypatch.setattr(RowCheck, "__init__", with_a_hash)
    assert import_corpus(tmp_path / "a.csv", out=tmp_path / "c.parquet").reports == 20


def test_a_source_that_changes_each_time_it_is_read_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("report_id,case_id,registry,text\n1,2,North,polyp\n")
    times = iter(range(99))
    monkeypatch.setattr(one_pass.OnePass, "learned", lambda self, part: one_pass.Learned(seed=next(times) + 1))
    with pytest.raises(CorpusError, match=r"a.csv: changed while it was read"):
        import_corpus(tmp_path / "a.csv", out=tmp_path / "c.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]


HEAD = "report_id,case_id,registry,text"


def rows_of(text: str, count: int = 20) -> str:
    return "".join(f"R{n},K{n},North,{text} {n}\n" for n in range(count))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            f"{HEAD}\n{rows_of('Präparat')}".encode() + "R99,K9,North,Präparat\n".encode("latin-1"),
            "mixes UTF-8 and another",
        ),
        (f"{HEAD},{','.join(f'c{n}' for n in range(20_000))}\n".encode(), "has 20,004 columns"),
        (f"{HEAD}\n".encode(), "a.csv: no report found"),
    ],
)
def test_other_bad_tables_are_refused_in_a_sentence(tmp_path, content, sentence):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(CorpusError, match=sentence) as caught:
        import_corpus(tmp_path / "a.csv", out=tmp_path / "c.parquet")
    assert "Präparat" not in str(caught.value) and [one.name for one in tmp_path.iterdir()] == ["a.csv"]


def test_marks_of_byte_order_and_any_names_of_columns_are_taken(tmp_path):
    (tmp_path / "a.csv").write_text(f"\ufeff\ufeff{HEAD}\n{rows_of('polyp')}")
    line = '{"report_id": "%d", "case_id": "1", "registry": "N", "text": "polyp"}\n'
    (tmp_path / "b.jsonl").write_text("\ufeff" + "".join(line % number for number in range(20)))
    names = "row,reason,raw date,hash,len"
    rows = "".join(f"{row},1,2,3,4,5\n" for row in rows_of("polyp").splitlines())
    (tmp_path / "c.csv").write_text(f"{HEAD},{names}\n{rows}R1,K,North,again,1,2,3,4,5\n")
    for name, skipped in (("a.csv", 0), ("b.jsonl", 0), ("c.csv", 1)):
        result = import_corpus(tmp_path / name, out=tmp_path / "c.parquet")
        assert result.reports == 20 and result.tables.skipped_total == skipped
    assert result.columns == f"{HEAD},{names}".split(",")


def test_texts_with_signs_of_their_own_are_no_mixed_encodings(tmp_path):
    (tmp_path / "a.csv").write_bytes(f"{HEAD}\n{rows_of('Größe 3 × 4 mm bei 37 °C (§ 5)')}".encode("cp1252"))
    assert import_corpus(tmp_path / "a.csv", out=tmp_path / "c.parquet").files[0].encoding == "cp1252"
