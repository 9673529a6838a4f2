"""JSON and JSON lines: read as tables with the fields of all objects, refused in sentences that quote nothing."""

import gzip
import json

import polars as pl
import pytest

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.proposal import propose_mapping
from pathveil.corpus.tables import json_files
from pathveil.corpus.tables.files import open_table
from pathveil.corpus.tables.json_files import nested_field, nested_names, open_json, open_jsonl
from pathveil.errors import CorpusError, UsageError
from pathveil.untrusted import bounds

SECRET = "Quastenflosser"


NESTED = [
    {
        "id": {"report": f"r{n}", "case": f"c{n}"},
        "report": {"sections": [{"name": "dx", "text": f"{SECRET} {n}"}, {"name": "gross", "text": "core"}]},
        "codes": ["C504", "8500/3"],
    }
    for n in range(3)
]
COLUMNS = {
    "report_id": "id.report",
    "case_id": "id.case",
    "text": "report.sections.text",
    "subsite": "codes.0",
    "histology": "codes.1",
}


@pytest.mark.parametrize("name", ["r.json", "r.json.gz", "r.jsonl", "wrapped.json", "wrapped twice.json"])
def test_fields_within_fields(tmp_path, name):
    lines = "\n".join(map(json.dumps, NESTED))
    content = lines if "jsonl" in name else json.dumps({"total": 3, "reports": NESTED} if "wrap" in name else NESTED)
    content = json.dumps({"export": json.loads(content)}) if "twice" in name else content
    (tmp_path / name).write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    import_corpus(tmp_path / name, out=tmp_path / "c.parquet", registry="R1", columns=COLUMNS)
    corpus = pl.read_parquet(tmp_path / "c.parquet")
    assert corpus["text"].to_list() == [f"{SECRET} {n}\ncore" for n in range(3)]
    assert corpus.select("report_id", "site", "subsite", "histology", "behavior").row(2) == (
        "r2", "C50", "C50.4", "8500", "3",
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"has no column 'id.nothing' to take case_id from"):
        import_corpus(tmp_path / name, out=tmp_path / "c.parquet", columns=COLUMNS | {"case_id": "id.nothing"})


def test_one_report_with_the_ids_of_several_is_refused(tmp_path):
    """A list that lies too deep to be found would be one report with everybody's texts."""
    (tmp_path / "r.json").write_text(json.dumps({"made": "2016", "export": {"reports": NESTED}}))
    columns = {ours: f"export.reports.id.{name}" for ours, name in (("report_id", "report"), ("case_id", "case"))}
    columns["text"] = columns["case_id"]
    with pytest.raises(CorpusError, match="column 'report_id': 1 report has none"):
        import_corpus(tmp_path / "r.json", out=tmp_path / "c.parquet", registry="R1", columns=columns)
    (tmp_path / "r.json").write_text(json.dumps({"made": "2016", "export": {"reports": NESTED[:1]}}))
    import_corpus(tmp_path / "r.json", out=tmp_path / "c.parquet", registry="R1", columns=columns)
    assert pl.read_parquet(tmp_path / "c.parquet")["report_id"].to_list() == ["r0"]


@pytest.mark.parametrize("name", ["text", "lines"])
def test_json_with_a_list_of_lines(tmp_path, name):
    lines = ["left breast, core biopsy of a mass that was seen at mammography:"]
    lines.append("invasive ductal carcinoma of no special type, grade 2")
    report = {"report_id": "1", "case_id": "1", "registry": "R", name: lines, "codes": ["C50.4"]}
    (tmp_path / "r.json").write_text(json.dumps([report]))
    columns = {"subsite": "codes"} | ({"text": name} if name != "text" else {})
    import_corpus(tmp_path / "r.json", out=tmp_path / "c.parquet", columns=columns)
    assert pl.read_parquet(tmp_path / "c.parquet").select("text", "subsite").rows() == [("\n".join(lines), "C50.4")]
    (tmp_path / "r.json").write_text(json.dumps([report | {"report_id": f"r{n}"} for n in range(9)]))
    assert propose_mapping(tmp_path / "r.json", out=tmp_path / "m.toml").columns["text"] == name


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_json_on_lines_of_any_kind(tmp_path, line_end, ensure_ascii):
    """Objects are taken as they are written, whatever stands between their parts; so are escapes of all kinds."""
    texts = ['two\nlines, a "mark" and a \\ \t', "\u2028 ≤ 2 mm 🔬", "", None, "{[,:]}"]
    reports = [{"id": n, "share": n / 7, "text": text, "of": {"kinds": ["a\n"]}} for n, text in enumerate(texts)]
    written = json.dumps({"reports": reports}, indent=2, ensure_ascii=ensure_ascii).replace("\n", line_end)
    (tmp_path / "r.json").write_bytes(written.encode())
    assert open_json(tmp_path / "r.json").collect().to_dicts() == reports
    flat = [{"id": f"{n}", "text": text} for n, text in enumerate(texts)]
    written = json.dumps(flat, indent=1, ensure_ascii=ensure_ascii).replace("\n", line_end)
    (tmp_path / "r.json").write_bytes(written.encode())
    assert open_json(tmp_path / "r.json").collect().to_dicts() == flat


def test_lists_in_one_file_and_none_in_another_are_told(tmp_path):
    """It was asked whether the disk is full."""
    row = {"report_id": "a", "case_id": "1", "text": "colon"}
    for name, addenda in (("a", ["x"]), ("b", None), ("c", "x")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row | {"report_id": name, "addenda": addenda}))
    files = [tmp_path / f"{name}.jsonl" for name in "abc"]
    assert import_corpus(files[:2], out=tmp_path / "c.parquet", registry="R").reports == 2
    for some in (files, files[::-1]):
        with pytest.raises(CorpusError, match=r"a\.jsonl: column 'addenda' holds lists, and none in .*c\.jsonl"):
            import_corpus(some, out=tmp_path / "c.parquet", registry="R")


def test_names_of_fields_within_fields(tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(NESTED))
    schema = open_json(tmp_path / "r.json").collect_schema()
    names = ["id.report", "id.case", "report.sections.name", "report.sections.text", "codes"]
    assert nested_names(schema) == names
    assert all(nested_field(schema, name) is not None for name in names)
    assert nested_field(schema, "id.x") is None and nested_field(schema, "x.id") is None
    result = propose_mapping(tmp_path / "r.json", out=tmp_path / "m.toml")
    assert result.columns["text"] == "report.sections.text" and SECRET not in (tmp_path / "m.toml").read_text()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[" * 100_000, "nested more than 24 levels deep"),
        ('[{"a": ' + "[" * 100_000, "nested more than 24 levels deep"),
        ('[{"a": ' + "[" * 30 + "]" * 30 + "}]", "nested more than 24 levels deep"),
        ('{"a": [{"b": "c"}], "d": [{"e": "f"}]}', "several lists of objects"),
        ('{"x": {"a": [{"b": "c"}], "d": [{"e": "f"}]}}', "several lists of objects"),
        (
            json.dumps({f"{SECRET}{n}": {"text": "x"} for n in range(3)}),
            "holds an object for each report, or column, under a name of its own; expected a list of objects",
        ),
        (f'[{{"text": "{SECRET}"', "cannot be read as JSON"),
        (f'["{SECRET}"]', "expected a list of objects, one a report"),
        ("[]", "expected a list of objects"),
        ("7", "expected a list of objects"),
        (b"\xff\xfe\x00", "cannot be read as JSON"),
        (rf'[{{"text": "{SECRET} \ud83d"}}]', "holds half a character"),
        (f'[{{"text": "{SECRET}", "text": "b"}}]', "has a name twice in one object"),
        ('[{"a": 1},\n{"a": 2]', "cannot be read as JSON (line 2)"),
        ('[{"a": 1}, {"b": [1]}, {"b": "x"}]', "its objects differ in their types"),
        (json.dumps([{f"n{n}": 1} for n in range(5_000)]), "each object has other fields (5,000 in all)"),
        (f'[{{"text": "{SECRET}", "n": NaN}}]', "holds a number that is none"),
        (f'[{{"text": "{SECRET}\nb"}}]', "cannot be read as JSON"),
        (f'[{{"text": "{SECRET}" "b"}}]', "cannot be read as JSON"),
        (f'[{{"text": "{SECRET}"]]', "cannot be read as JSON"),
        (f'[{{"text": "{SECRET}"}},]', "cannot be read as JSON"),
    ],
)
def test_json_that_is_no_table(tmp_path, content, sentence):
    (tmp_path / "r.json").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(CorpusError) as caught:
        open_table(tmp_path / "r.json", form="json")
    assert sentence in str(caught.value) and SECRET not in str(caught.value)


def test_other_forms_in_a_folder_are_passed_over(tmp_path):
    columns = {"report_id": ["a"], "case_id": ["1"], "registry": ["R"], "text": ["x"]}
    pl.DataFrame(columns).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "split.json").write_text("{}")
    assert import_corpus(tmp_path, out=tmp_path / "out" / "c.parquet").reports == 1


def test_a_list_beyond_a_gigabyte_should_be_lines(tmp_path, monkeypatch):
    (tmp_path / "r.json").write_text('[{"report_id": "a"}]')
    monkeypatch.setattr(json_files, "LARGEST_LIST", 10)
    with pytest.raises(CorpusError, match=r"r\.json: is larger than .*; write JSON lines \(\.jsonl\)"):
        open_json(tmp_path / "r.json")


def test_lists_within_reports_are_not_counted(tmp_path, monkeypatch):
    """A model's or an agreement's JSON may hold so many lists and objects, a table may hold more."""
    monkeypatch.setattr(bounds, "CONTAINERS", 10)
    (tmp_path / "r.json").write_text(json.dumps([{"id": n, "codes": ["C50"]} for n in range(20)]))
    assert open_json(tmp_path / "r.json").collect().height == 20


def test_a_column_that_begins_late_is_there(tmp_path):
    """By default polars looks at the first hundred lines, and drops what comes later."""
    lines = [json.dumps({"id": n} if n < 6_000 else {"id": f"x{n}", "site": "C50"}) for n in range(6_001)]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    assert open_jsonl(tmp_path / "r.jsonl").collect().rows()[-2:] == [("5999", None), ("x6000", "C50")]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["{}", '{"a":' * 500 + "1" + "}" * 500], "line 2 is nested more than 24 levels deep"),
        (["{}", '{"a":' + "[" * 100_000], "line 2 is nested more than 24 levels deep"),
        ([json.dumps({f"n{n}": 1}) for n in range(5_000)], "has other names than those before"),
        (['{"id": "1"}', '{"id": "2", "text": "a", "text": "b"}'], "line 2 has a name twice in one object"),
        (['{"id": "1"}', f'{{"id": "{SECRET}'], "line 2 is not JSON"),
        (['{"id": "1"}', f'["{SECRET}"]'], "line 2 is not an object"),
        (['{"id": "1"}', f'{{"id": "{SECRET} \\ud83d"}}'], "line 2 is not JSON"),
        (['{"id": "1"}', b'{"id": "Pr\xe4parat"}'], "line 2 is not UTF-8"),
        (['{"id": [1]}', '{"id": {"a": 1}}'], "its lines differ in their types"),
    ],
)
def test_lines_that_are_no_table_are_named(tmp_path, lines, sentence):
    """Deep nesting ends polars by a signal; thousands of names take it minutes and gigabytes."""
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines))
    with pytest.raises(CorpusError) as caught:
        open_jsonl(path)
    assert f"r.jsonl: {sentence}" in str(caught.value) or sentence in str(caught.value)
    assert SECRET not in str(caught.value)


def test_halves_of_a_character_belong_together(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"id": "\\ud83d\\ude00"}\n{"id": "\\ud83d"}\n')
    noted = []
    table = open_jsonl(tmp_path / "r.jsonl", note=lambda line, reason: noted.append(line)).collect()
    assert table["id"].to_list() == ["\U0001f600", None] and noted == [2]
