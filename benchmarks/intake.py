"""Reports in: how fast each format is imported, beside a plain read by polars or a peer, and in how much memory.

Files are made of invented reports of about ``--words`` words, with codes as registries write them. By default each
format is imported, read plainly by polars (or the database's driver) and, so read, written as an import writes, all
alternately, in CPU seconds and by the clock; HL7 is read by python-hl7 where that can be imported (a peer, never a
dependency: pip install hl7 in an environment of your own). ``--memory`` imports each format in a process of its own, at
a fifth of ``--rows`` and at all of them, and tells its greatest memory. PostgreSQL is used where PATHVEIL_DATABASE
holds the address of one in which tables may be made.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _timing import alternate
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.reading import read
from pathveil.corpus.synth import SynthSettings, synthesise
from pathveil.errors import UsageError
from pathveil.progress import Progress

if TYPE_CHECKING:
    import polars as pl

FORMATS = {
    "csv": "csv",
    "tsv": "tsv",
    "parquet": "parquet",
    "excel": "xlsx",
    "excel-shared": "xlsx",
    "sqlite": "db",
    "postgresql": "",
    "jsonl": "jsonl",
    "json": "json",
    "nested": "json",
    "fhir": "ndjson",
    "hl7": "hl7",
}
EXCEL_ROWS = 1_048_575  # beside the header
CHUNK = 10_000
VARIABLE = "PATHVEIL_DATABASE"
NESTED = {"report_id": "report.id", "case_id": "patient", "text": "report.sections.text"}  # of the form "nested"
QUERY = "select * from pathveil_bench"
KEY = b"a key for the benchmark"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--formats", default=",".join(FORMATS), help="formats, separated by commas (default: all)")
    parser.add_argument("--rows", type=int, default=20_000, help="reports in each file (default 20,000)")
    parser.add_argument("--words", type=int, default=150, help="words a report (default 150)")
    parser.add_argument("--corpus", type=Path, help="whole reports of this corpus instead of invented ones")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds (default 3)")
    parser.add_argument("--memory", action="store_true", help="instead, watch memory at a fifth of the rows and at all")
    parser.add_argument("--folder", type=Path, help="where files are made (default: a temporary folder)")


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    chosen = [name for name in options.formats.split(",") if name != "postgresql" or os.environ.get(VARIABLE)]
    if unknown := [name for name in chosen if name not in FORMATS]:
        raise UsageError(f"--formats: there is no {unknown[0]}; expected some of {', '.join(FORMATS)}")
    reports = base_reports(options.words, most=options.rows, corpus=options.corpus)
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name in chosen:
            if options.memory:
                sizes = [options.rows // 5, options.rows]
                counts = [min(size, EXCEL_ROWS) if FORMATS[name] == "xlsx" else size for size in sizes]
                measured = [memory(name, reports, count, Path(folder), progress=progress) for count in counts]
                rows.append({"format": name, "imports": measured})
            else:
                rows.append(speed(name, reports, Path(folder), options, progress=progress))
    kind = "memory" if options.memory else "speed"
    return {"words": None if options.corpus else options.words, kind: rows}


def base_reports(words: int, *, most: int = 2_000, corpus: Path | None = None) -> "pl.DataFrame":
    """Two thousand invented reports cut to so many words, or the whole ones of a corpus, with codes as tables write
    them."""
    import polars as pl

    text = pl.col("text")
    if corpus is not None:
        made = read(corpus).to_frame()
        made = made if "date" in made.columns else made.with_columns(date=pl.date("year", 5, 17))
    else:
        settings = SynthSettings(reports=min(2_000, most), registries=3, seed=1)
        made = pl.concat(reports for reports, _ in synthesise(settings))
        text = text.str.extract(rf"(?s)^((?:\S+\s+){{0,{words - 1}}}\S+)")
    return made.select(
        text.alias("text"),
        pl.col("registry"),
        pl.col("date").dt.strftime("%d/%m/%Y"),
        pl.col("subsite").str.replace(".", "", literal=True),
        pl.concat_str("histology", pl.lit("/"), "behavior").alias("histology"),
        pl.col("laterality").replace(["not_paired", "right", "left"], ["0", "1", "2"]),
    )


def tables(reports: "pl.DataFrame", rows: int) -> Iterator["pl.DataFrame"]:
    """So many rows, some at a time; no two have the same number and text."""
    import polars as pl

    for start in range(0, rows, CHUNK):
        size = min(CHUNK, rows - start)
        table = pl.concat([reports] * -(-size // reports.height)).head(size).with_row_index("n", offset=start)
        number = pl.col("n").cast(pl.String)
        yield table.select(
            (pl.lit("S") + number).alias("report_id"),
            (pl.lit("P") + (pl.col("n") // 2).cast(pl.String)).alias("case_id"),
            pl.exclude("n", "text"),
            (pl.col("text") + pl.lit(" Block ") + number + pl.lit(".")).alias("text"),
        )


def write(name: str, reports: "pl.DataFrame", rows: int, path: Path) -> None:
    """A file of one format."""
    import polars as pl

    if name == "parquet":
        frame = pl.concat([table.lazy() for table in tables(reports, rows)])
        frame.sink_parquet(path, row_group_size=50_000)
    elif name == "sqlite":
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            for number, table in enumerate(tables(reports, rows)):
                if not number:
                    database.execute(f"create table reports ({', '.join(table.columns)})")
                database.executemany(f"insert into reports values ({', '.join('?' * table.width)})", table.iter_rows())
    elif name == "postgresql":
        write_postgresql(reports, rows)
    elif FORMATS[name] == "xlsx":
        write_excel(reports, rows, path, shared=name == "excel-shared")
    else:
        with path.open("wb") as file:
            for number, table in enumerate(tables(reports, rows)):
                file.write(part_of(name, table, first=not number))
            file.write({"json": b"]}", "nested": b"]"}.get(name, b""))


def part_of(name: str, table: "pl.DataFrame", *, first: bool) -> bytes:
    """Some rows as a text format writes them."""
    if name in ("csv", "tsv"):
        return table.write_csv(separator="\t" if name == "tsv" else ",", include_header=first).encode()
    if name == "jsonl":
        return table.write_ndjson().encode()
    if name == "json":
        lines = table.write_ndjson().encode().replace(b"\n", b",\n").removesuffix(b",\n")
        return (b'{"exported": "2016-05-02", "reports": [' if first else b",") + lines
    if name == "nested":
        objects = (json.dumps(nested_report(row)) for row in table.iter_rows(named=True))
        return (b"[" if first else b",") + ",\n".join(objects).encode()
    message = hl7_message if name == "hl7" else fhir_report
    return "".join(message(row) for row in table.iter_rows(named=True)).encode()


def nested_report(row: dict[str, Any]) -> dict[str, Any]:
    """A report as an interface writes it: fields within fields, its text in sections."""
    half = len(row["text"]) // 2
    sections = [{"name": "gross", "text": row["text"][:half]}, {"name": "diagnosis", "text": row["text"][half:]}]
    labels = {name: row[name] for name in ("registry", "date", "subsite", "histology", "laterality")}
    return {"report": {"id": row["report_id"], "sections": sections}, "patient": row["case_id"], **labels}


def hl7_message(row: dict[str, Any]) -> str:
    """An ORU^R01 as laboratories send it: a line of text an OBX, in three sections."""
    number = row["report_id"][1:]
    day = "".join(reversed(row["date"].split("/"))) if row["date"] else ""
    lines = [line for line in row["text"].replace("|", "/").replace("\\", "/").replace("&", "+").split("\n") if line]
    sections = ("22636-5^Clinical history^LN", "22634-0^Gross description^LN", "22637-3^Final diagnosis^LN")
    obx = [
        f"OBX|{place}|TX|{sections[place * 3 // (len(lines) + 1)]}||{line}||||||F"
        for place, line in enumerate(lines, start=1)
    ]
    return "\r".join(
        [
            f"MSH|^~\\&|LIS|{row['registry']}^99D1234567^CLIA|REG|STATE|20160503101500||ORU^R01|M{number}|P|2.5.1",
            f"PID|1||{row['case_id']}77^^^{row['registry']}^MR||Quastenflosser^Hildegard^M||19570706|F|||12 Long Lane^^"
            f"Springfield^IL^62701||(217)555-0142|||||||987-65-{number[-4:]:0>4}",
            f"ORC|RE||{row['report_id']}",
            f"OBR|1||{row['report_id']}^LIS|11529-5^Surgical pathology^LN|||{day}1015",
            *obx,
            "",
        ]
    )


def fhir_report(row: dict[str, Any]) -> str:
    day = "-".join(reversed(row["date"].split("/"))) if row["date"] else ""
    patient = {"resourceType": "Patient", "id": "p", "identifier": [{"value": f"{row['case_id']}77"}]}
    patient["name"] = [{"family": "Quastenflosser", "given": ["Hildegard"]}]
    report = {
        "resourceType": "DiagnosticReport",
        "id": row["report_id"],
        "identifier": [{"value": row["report_id"]}],
        "code": {"coding": [{"code": "11529-5"}]},
        "subject": {"reference": "#p"},
        "effectiveDateTime": day,
        "performer": [{"display": row["registry"]}],
        "presentedForm": [{"contentType": "text/plain", "data": base64.b64encode(row["text"].encode()).decode()}],
        "contained": [patient],
    }
    return json.dumps(report) + "\n"


def write_postgresql(reports: "pl.DataFrame", rows: int) -> None:
    import psycopg

    with psycopg.connect(os.environ[VARIABLE]) as connection:
        connection.execute("drop table if exists pathveil_bench")
        for number, table in enumerate(tables(reports, rows)):
            if not number:
                columns = ", ".join(f"{name} text" for name in table.columns)
                connection.execute(f"create table pathveil_bench ({columns})")  # ty: ignore[invalid-argument-type]
            with connection.cursor().copy("copy pathveil_bench from stdin") as copy:
                for row in table.iter_rows():
                    copy.write_row(row)


def write_excel(reports: "pl.DataFrame", rows: int, path: Path, *, shared: bool) -> None:
    """A sheet with its texts in place, or by their numbers in a list as Excel itself does, written as it goes: packed
    XML needs no library."""
    import zipfile
    from xml.sax.saxutils import escape

    spreadsheet = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{kind}.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" '
        f'ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{spreadsheet}" xmlns:r="{office}"><sheets><sheet name="Reports" '
        'sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
    }

    known: dict[str, int] = {}  # of short texts, which come again and again
    count = 0

    def number_of(value: str) -> int:
        nonlocal count
        if value not in known:
            strings.write(f'<si><t xml:space="preserve">{escape(value)}</t></si>')
            count += 1
            if len(value) > 20:
                return count - 1
            known[value] = count - 1
        return known[value]

    def row_of(values: Any) -> str:
        if shared:
            cells = (f'<c t="s"><v>{number_of(value or "")}</v></c>' for value in values)
        else:
            cells = (f'<c t="inlineStr"><is><t>{escape(value or "")}</t></is></c>' for value in values)
        return f"<row>{''.join(cells)}</row>"

    listed = path.with_suffix(".strings")
    with (
        listed.open("w", encoding="utf-8") as strings,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        strings.write(f'<sst xmlns="{spreadsheet}">')
        for name, content in parts.items():
            archive.writestr(name, content)
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as raw:
            file = io.TextIOWrapper(raw, encoding="utf-8")
            file.write(f'<worksheet xmlns="{spreadsheet}"><sheetData>')
            for number, table in enumerate(tables(reports, rows)):
                if not number:
                    file.write(row_of(table.columns))
                file.writelines(row_of(row) for row in table.iter_rows())
            file.write("</sheetData></worksheet>")
            file.flush()
        if shared:
            strings.write("</sst>")
            strings.flush()
            archive.write(listed, "xl/sharedStrings.xml")
    listed.unlink()


def speed(
    name: str, reports: "pl.DataFrame", folder: Path, options: argparse.Namespace, *, progress: Progress
) -> dict[str, Any]:
    """An import beside a plain read of the same file, alternately."""
    path, out = folder / f"reports.{FORMATS[name]}", folder / "corpus.parquet"
    write(name, reports, options.rows, path)
    things = {"import": lambda: imported(name, path, out)} | plain_readers(name, path, out)
    elapsed: dict[str, list[float]] = {thing: [] for thing in things}

    def watched(thing: str) -> None:
        start = time.perf_counter()
        things[thing]()
        elapsed[thing].append(time.perf_counter() - start)

    watching = {thing: partial(watched, thing) for thing in things}
    seconds = alternate(watching, rounds=options.rounds, stage=name, progress=progress, clock=time.process_time)
    path.unlink(missing_ok=True)
    own = statistics.median(elapsed["import"])
    return {
        "format": name,
        "rows": options.rows,
        "rows_per_cpu_second": {thing: round(options.rows / value) for thing, value in seconds.items()},
        "ratio_to_import": {thing: round(value / seconds["import"], 2) for thing, value in seconds.items()},
        "ratio_by_the_clock": {thing: round(statistics.median(some) / own, 2) for thing, some in elapsed.items()},
    }


def imported(name: str, path: Path, out: Path) -> None:
    database = os.environ[VARIABLE] if name == "postgresql" else None
    mapping = TableMapping(query=QUERY) if database else TableMapping(columns=NESTED if name == "nested" else {})
    import_corpus([] if database else [path], out=out, key=KEY, database=database, mapping=mapping)


def plain_readers(name: str, path: Path, out: Path) -> dict[str, Any]:
    """What else reads such a file: polars, alone and into a Parquet file as an import writes one; of HL7 a peer."""
    import polars as pl

    # A frame that is not read until it must be, or one in memory.
    frames: dict[str, Any] = {
        "csv": lambda: pl.scan_csv(path, infer_schema=False),
        "tsv": lambda: pl.scan_csv(path, infer_schema=False, separator="\t"),
        "parquet": lambda: pl.scan_parquet(path),
        "excel": lambda: pl.read_excel(path, engine="calamine").lazy(),
        "excel-shared": lambda: pl.read_excel(path, engine="calamine").lazy(),
        "sqlite": lambda: pl.read_database("select * from reports", sqlite3.connect(path)).lazy(),
        "postgresql": lambda: fetched().lazy(),
        "jsonl": lambda: pl.scan_ndjson(path),
        "json": lambda: pl.read_json(path).lazy(),
        "nested": lambda: pl.read_json(path).lazy(),
    }
    if name in frames:
        reader = "psycopg" if name == "postgresql" else "polars"
        kept = {"compression": "zstd", "row_group_size": 5_000}
        return {
            f"{reader}, reading and writing": lambda: frames[name]().sink_parquet(out, **kept),
            f"{reader}, reading alone": lambda: frames[name]().collect(engine="streaming"),
        }
    if name == "hl7":
        with contextlib.suppress(ImportError):
            import hl7  # ty: ignore[unresolved-import]

            def parsed() -> None:
                for message in path.read_text().split("\rMSH"):
                    for segment in hl7.parse(("" if message.startswith("MSH") else "MSH") + message):
                        [str(field) for field in segment]

            return {"python-hl7, parsed only": parsed}
    return {}


def fetched() -> "pl.DataFrame":
    """What the driver's own cursor gives, as a frame."""
    import polars as pl
    import psycopg

    with psycopg.connect(os.environ[VARIABLE]) as connection, connection.cursor() as cursor:
        cursor.execute(QUERY)  # ty: ignore[invalid-argument-type]
        names = [column.name for column in cursor.description or ()]
        return pl.DataFrame(cursor.fetchall(), schema=dict.fromkeys(names, pl.String), orient="row")


# What is mapped from files is memory that the system may take back, so it is not counted.
WATCHED = """
import resource, sys, threading, time
from pathveil.cli import main
greatest = 0
def watch():
    global greatest
    while True:
        held = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
        greatest = max(greatest, int(held.split()[1]))
        time.sleep(.02)
threading.Thread(target=watch, daemon=True).start()
try:
    main()
finally:
    print("greatest", greatest, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


def memory(name: str, reports: "pl.DataFrame", rows: int, folder: Path, *, progress: Progress) -> dict[str, Any]:
    """One import by the command, in a process of its own: its seconds, and the most memory it and its children held."""
    progress(f"{name}, {rows:,} rows", 0, 0)
    path = folder / f"reports.{FORMATS[name]}"
    write(name, reports, rows, path)
    given = ["--database", VARIABLE, "--query", QUERY] if name == "postgresql" else [path]
    if name == "nested":
        given += [word for ours, theirs in NESTED.items() for word in ("--column", f"{ours}={theirs}")]
    (folder / "key").write_bytes(KEY)
    command = ["corpus", "import", *map(str, given), "--key-file", folder / "key", "--out", folder / "corpus.parquet"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", WATCHED, *map(str, command)], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    size = path.stat().st_size if path.exists() else 0
    path.unlink(missing_ok=True)
    if done.returncode:
        return {"rows": rows, "failed": done.stderr[-300:]}
    own, children = map(int, done.stderr.rpartition("greatest")[2].split())
    return {
        "rows": rows,
        "file_megabytes": size >> 20,
        "seconds": round(seconds, 1),
        "rows_per_second": round(rows / seconds),
        "greatest_megabytes": own >> 10,
        "greatest_megabytes_of_readers_apart": children >> 10,
    }


def describe(result: dict[str, Any]) -> str:
    lines = []
    for row in result.get("speed", ()):
        figures = [f"{thing} {value:,}/s" for thing, value in row["rows_per_cpu_second"].items()]
        clock = inverse(row["ratio_by_the_clock"])
        ratios = [
            f"{value:.2f}× the time of {thing} ({clock[thing]:.2f}× by the clock)"
            for thing, value in inverse(row["ratio_to_import"]).items()
        ]
        lines.append(f"{row['format']:<11} {', '.join(figures)}   {', '.join(ratios)}")
    for row in result.get("memory", ()):
        for one in row["imports"]:
            if "failed" in one:
                lines.append(f"{row['format']:<11} {one['rows']:>9,} rows  failed: {one['failed']}")
                continue
            apart = one["greatest_megabytes_of_readers_apart"]
            lines.append(
                f"{row['format']:<11} {one['rows']:>9,} rows {one['file_megabytes']:>6,} MB {one['seconds']:>7.1f} s "
                f"{one['rows_per_second']:>8,}/s {one['greatest_megabytes']:>6,} MB"
                + (f" + {apart:,}" if apart else "")
            )
    return "\n".join(lines)


def inverse(ratios: dict[str, float]) -> dict[str, float]:
    return {name: 1 / value for name, value in ratios.items() if name != "import" and value}
