"""A first proposal of a mapping: which column of a table is which, written down as a file to correct.

Columns are recognised by what they are called (NAACCR's names, those of laboratories, some German and French) and by
what they hold: a column called Topography is taken only where it does hold topography codes. The proposal names
columns and counts, never contents.

>>> import tempfile
>>> from pathveil.corpus.mapping import read_mapping
>>> with tempfile.TemporaryDirectory() as folder:
...     table = Path(folder) / "lab.csv"
...     _ = table.write_text("PatientID;ReportNo;Datum;Befund;ICDO\\n7;a;17/02/2016;Mammakarzinom;C504\\n")
...     result = propose_mapping(table, out=Path(folder) / "map.toml")
...     read_mapping(Path(folder) / "map.toml").columns == result.columns
True
>>> result.columns
{'text': 'Befund', 'report_id': 'ReportNo', 'case_id': 'PatientID', 'date': 'Datum', 'subsite': 'ICDO'}
>>> result.dates, result.missing
('dd/mm/yyyy', ['registry'])
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pathveil.corpus.codes import (
    known_histologies,
    read_behavior,
    read_laterality,
    read_morphology,
    read_topography,
)
from pathveil.corpus.csv_files import LONGEST_NAME, delimiter_of, first_lines
from pathveil.corpus.database import NAME as DATABASE
from pathveil.corpus.dates import ISO, ISO_DATE, find_format, formats_of
from pathveil.corpus.excel import other_sheets
from pathveil.corpus.mapping import TableMapping
from pathveil.corpus.opening import (
    MESSAGES,
    Source,
    column_of,
    heading_of_column,
    open_source,
    sources_of,
    title_above,
)
from pathveil.corpus.rows import Unread
from pathveil.corpus.schema import REQUIRED, TASKS
from pathveil.corpus.sections import SECTIONS, heading_for
from pathveil.corpus.sources import nested_names
from pathveil.corpus.tables import ROW, check_is_file, polars_faults
from pathveil.errors import CorpusError, UsageError
from pathveil.files import check_new, name_of, write_text
from pathveil.foreign import printable
from pathveil.results import Result
from pathveil.wording import counted, listed, whole_percent

ROWS = 2_000  # of a table that a proposal looks at
BIRTH = re.compile("birth|dob|geb|naissance|death|tod")
ISO_DAY = re.compile(r"(?a)\s*\d{4}(-?)(0[1-9]|1[0-2])\1(0[1-9]|[12]\d|3[01])([T ]?\d{2}.*)?\s*", re.DOTALL)
SHORT_YEAR = re.compile(r"(?a)\s*\d{1,2}([/.\-])(\d{1,2}|[A-Za-z]{3})\1\d{2}([T :].*)?\s*", re.DOTALL)

# What columns are called, without case and punctuation, the most telling name first.
NAMES = {
    "text": "text reporttext pathtext pathologytext reportbody fulltext textpathformaldx textdxprocpath"
    " textdxproclabtests befundtext befund bericht diagnosetext diagnosistext finaldiagnosis narrative"
    " compterendu report note body",
    "report_id": "reportid reportno reportnumber reportnr accessionnumber accession accessionno accno pathreportnumber"
    " pathreportnumber1 specimennumber specimenid befundnr befundnummer eingangsnummer labnumber labno documentid"
    " messageid id",
    "case_id": "caseid tumorid tumourid tumorrecordnumber caseno casenumber fallid fallnummer fallnr patientid"
    " patientidnumber patientno patientnumber patientnr patid patnr mrn medicalrecordnumber pid patient case",
    "date": "date reportdate specimendate collectiondate datecollected pathdatespeccollect1 pathdatespeccollect"
    " dateofspecimen receiveddate signoutdate befunddatum entnahmedatum eingangsdatum datum reportdatetime"
    " dateofdiagnosis diagnosisdate",
    "registry": "registry registryid registryname reportingfacility pathreportingfacility facility facilityid hospital"
    " laboratory lab institution institute sender source",
    "subsite": "subsite icdotopography icdo3topography topography topographycode icdotopo topo primarysite"
    " primarysitecode icdosite icdo3site lokalisation tumorlokalisation icdo",
    "site": "site organ sitecode",
    "histology": "histology icdomorphology icdo3morphology morphology morphologycode histologictypeicdo3"
    " histologicaltype histologytype histtype histologycode icdohistology icdo3histology morphologie histologie",
    "behavior": "behavior behaviour behaviorcodeicdo3 behaviorcode behaviourcode icdobehavior icdo3behavior dignity"
    " dignitaet dignität",
    "laterality": "laterality side lat seite lateralitycode seitenlokalisation seitenangabe lateralite lateralité",
}
PLACES = {field: {name: place for place, name in enumerate(names.split())} for field, names in NAMES.items()}
HINTS = {
    "text": r"text|befund|narrative",
    "report_id": r"report(no|nr|num|id)|accession",
    "case_id": r"patient|case|tumou?r",
    "date": r"dat(e|um)$|^dat(e|um)",
    "registry": r"registry|facility",
    "subsite": r"topograph|icdo.*site",
    "histology": r"morpholog|histolog",
    "behavior": r"behaviou?r",
    "laterality": r"lateral|^side|side$",
}
CONTENTS: Mapping[str, Callable[[str], object]] = {
    "date": lambda value: ISO_DAY.fullmatch(value) or formats_of(value) or SHORT_YEAR.fullmatch(value),
    "subsite": lambda value: (read_topography(value) or (None, None))[1],
    "site": read_topography,
    "histology": read_morphology,
    "behavior": read_behavior,
    "laterality": read_laterality,
}
# Told by their contents alone, where no column has such a name. Of four digits only ICD-O-3's own say a histology.
BY_CONTENT = {
    "date": CONTENTS["date"],
    "subsite": CONTENTS["subsite"],
    "site": CONTENTS["site"],
    "histology": lambda value: (read_morphology(value) or ("",))[0] in known_histologies(),
}
IDS = ("report_id", "case_id")  # by which a table of codes finds its reports, the surer one first
NUMBER = re.compile(r"(?=.*\d)\S{1,40}")  # an id by its form: no name of a person, no sentence
SENTENCE, SHORTEST = 20, 50  # characters of a section on average, and of all; less are codes and the names of diseases
TELLING = ("FINAL DIAGNOSIS", "MICROSCOPIC DESCRIPTION", "GROSS DESCRIPTION")  # one of these sections must be there
GERMAN = (
    ("nachtrag", "SUPPLEMENTAL REPORT"),
    ("mikroskop", "MICROSCOPIC DESCRIPTION"),
    ("makroskop", "GROSS DESCRIPTION"),
    ("klinisch|anamnese|vorgeschichte", "CLINICAL HISTORY"),
    ("diagnose|beurteilung", "FINAL DIAGNOSIS"),
    ("kommentar", "COMMENT"),
)
FEWEST_IDS = 10  # rows from which on a column is taken for ids since no two rows share one


class MappingResult(Result):
    """The proposal: which column is which, and what no column seems to be."""

    file: str
    out: str
    rows_read: int
    encoding: str | None
    delimiter: str | None
    dates: str | None
    undecided: str | None  # why the format of the dates must be told
    query: str | None
    sheet: str | None
    passed_over: int  # records that do not fit the header
    one_object: bool  # all of a JSON file is one object
    other_sheets: list[str]  # of a workbook whose first holds no reports
    columns: dict[str, str | list[str]]  # of the text also several
    reasons: dict[str, str]  # ours: why that column
    missing: list[str]  # what a corpus needs and no column looks like
    doubts: dict[str, str]  # ours: which column has such a name and other contents
    unused: int  # columns that are kept as they are

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "column": ours,
                "theirs": theirs if isinstance(theirs, str) else " + ".join(theirs),
                "reason": self.reasons[ours],
            }
            for ours, theirs in self.columns.items()
        ]

    def summary(self) -> str:
        lines = [f"A mapping of {self.file} in {self.out}; correct what is wrong there"]
        wide = max((len(theirs) for theirs in self.columns.values() if isinstance(theirs, str)), default=0)
        lines += [f"  {row['column']:<11} {row['theirs']:<{wide}}  {row['reason']}" for row in self.rows()]
        if self.unused:
            lines.append(f"  not used, but kept: {counted(self.unused, 'column')}")
        lines += [f"  not taken as {ours}: {reason}" for ours, reason in self.doubts.items()]
        if self.undecided:
            lines.append(f"  how dates are written must be told in the file: {self.undecided}")
        if self.passed_over:
            lines.append(f"  not looked at: {counted(self.passed_over, 'record')} that an import would skip")
        if self.one_object:
            lines.append(
                "  the file is one object, so one report; of several, give the list, or an object that holds it"
            )
        if self.other_sheets:
            lines.append(
                f"  the first sheet was read; there are others (--sheet): {', '.join(self.other_sheets)[:200]}"
            )
        source = "--database VARIABLE" if self.file == DATABASE else shlex.quote(self.file)
        out = shlex.quote(self.out)
        labels = any(task in self.columns for task in TASKS)
        if labels and "text" in self.missing and (shared := [name for name in IDS if name in self.columns]):
            lines.append("  no column looks like text: it can give its codes to reports from elsewhere")
            to = f"corpus label REPORTS {source} --on {shared[0]} --map {out} --out labelled.parquet"
            return "\n".join([*lines, f"Then: pathveil {to}"])
        if missing := [name for name in self.missing if name != "registry"]:
            lines.append(f"  no column looks like {listed(missing)}, which a corpus needs: name it in the file")
        registry = " --registry NAME" if "registry" in self.missing else ""
        lines.append(f"Then: pathveil corpus import {source} --map {out}{registry} --out corpus.parquet")
        return "\n".join(lines)


class Column(NamedTuple):
    """A column of a table as far as it was looked at."""

    name: str
    values: list[str]  # that are there
    rows: int


def propose_mapping(
    path: Path | None, *, out: Path, mapping: TableMapping | None = None, database: str | None = None
) -> MappingResult:
    """Look at the first rows of a table, and write which column seems to be which as a file to correct.

    The table is a file, or without one what the mapping's query gives of the ``database`` at that address.
    """
    check_new(out)  # it may have been corrected by hand
    given = mapping or TableMapping()
    if path is not None:
        check_is_file(path)
    (source,) = sources_of([] if path is None else [path], mapping=given, database=database if path is None else None)
    if source.form in MESSAGES:
        raise UsageError(f"{source.name}: messages need no mapping; give them to 'pathveil corpus import' as they are")
    encoding, delimiter = source.encoding, given.delimiter
    if path is not None and encoding is not None:
        delimiter = delimiter or delimiter_of(first_lines(path, encoding=encoding))
    given = given.changed(encoding=encoding, delimiter=delimiter)
    unread = Unread()
    columns = columns_of(source, given, database, unread=unread)
    if title := title_above([column.name for column in columns if column.values]):
        raise CorpusError(f"{source.name}: {title}")
    if any(holds_value(column.name) for column in columns):
        raise CorpusError(
            f"{source.name}: the names of its columns are dates or codes, as of a record; add a line with names"
        )
    if source.form in ("csv", "excel") and any(map(is_of_a_record, columns)):
        raise CorpusError(f"{source.name}: its first row seems to be a record; add a row with the names of the columns")
    chosen = propose_columns(columns)
    dates = given.dates
    if "date" in chosen and not dates:
        found = find_format(chosen["date"][0].values)
        dates = found if found != ISO else None
    names: dict[str, str | list[str]] = {ours: column.name for ours, (column, _) in chosen.items()}
    reasons = {ours: reason for ours, (_, reason) in chosen.items()}
    if sections := propose_sections(columns, chosen):
        theirs = [column.name for column in sections]
        names = {"text": theirs if len(theirs) > 1 else theirs[0]} | {k: v for k, v in names.items() if k != "text"}
        reasons["text"] = f"{sum(map(typical_length, sections)):,.0f} characters on average"
    rows = max((column.rows for column in columns), default=0)
    doubts = doubts_of(columns, chosen)
    for column in columns:
        if column.name in doubts and column.name in TASKS and column.values:  # such as a hospital's site
            names[f"other_{column.name}"] = column.name
            reasons[f"other_{column.name}"] = "few of its values are codes"
    result = MappingResult(
        file=str(source.name),
        out=str(out),
        rows_read=rows,
        encoding=None if encoding == "utf-8-sig" else encoding,
        delimiter=delimiter,
        dates=dates,
        undecided=None if dates or "date" not in chosen else why_undecided(chosen["date"][0].values),
        query=given.query,
        sheet=given.sheet,
        passed_over=len(unread.reasons),
        one_object=source.form == "json" and rows == 1,
        other_sheets=[]
        if "text" in names or source.form != "excel" or given.sheet
        else other_sheets(Path(source.name)),
        columns=names,
        reasons=reasons,
        missing=[name for name in REQUIRED if name not in names],
        doubts=doubts,
        unused=len(columns) - sum(1 if isinstance(theirs, str) else len(theirs) for theirs in names.values()),
    )
    write_text(out, mapping_text(result, others=[column.name for column in columns]))
    return result


def why_undecided(values: list[str]) -> str | None:
    """Why the contents of a column of dates do not tell their format, where they do not."""
    if find_format(values) is not None:
        return None
    if any(map(SHORT_YEAR.fullmatch, values)):
        return "years have two digits, so the format is not guessed: dd/mm/yy, mm/dd/yy or dd-mmm-yy"
    return "the contents do not say whether day or month is first: dd/mm/yyyy or mm/dd/yyyy"


def holds_value(name: str) -> bool:
    """Whether what stands for a column's name is a value, as in a table without a header."""
    return bool(ISO_DATE.fullmatch(name) or formats_of(name) or read_topography(name) or read_morphology(name))


def is_of_a_record(column: Column) -> bool:
    """Whether a column is called what a report may say or how its values are numbered: it must not be shown then.

    >>> is_of_a_record(Column("S16-1", ["S16-2", "S17-31"], 2)), is_of_a_record(Column("ICDO3", ["C504"], 1))
    (True, False)
    >>> is_of_a_record(Column("left", ["left", "right"], 2)), is_of_a_record(Column("Side", ["left", "right"], 2))
    (True, False)
    """
    if len(column.name) > LONGEST_NAME or re.search(r"\d{6}", column.name):
        return True
    if read_laterality(column.name) and share_of(column, read_laterality) >= 0.5:
        return True
    shape = re.sub(r"\d+", "9", column.name)
    if shape == column.name or re.fullmatch(r"\d{1,2}", column.name):  # programs number columns that have no names
        return False
    return share_of(column, lambda value: re.sub(r"\d+", "9", value.strip()) == shape) >= 0.5


def columns_of(source: Source, mapping: TableMapping, database: str | None, *, unread: Unread) -> list[Column]:
    """The columns of a table, and the fields within them, with the values of its first rows.

    Records that an import would skip are passed over here too, unless they are the greater part.
    """
    import polars as pl

    frame = open_source(source, mapping=mapping, database=database, note=unread).drop(ROW)
    schema = frame.collect_schema()
    found = {name: column_of(schema, name) for name in nested_names(schema)}
    fields = {name: field for name, field in found.items() if field is not None}
    try:
        table = (
            frame.head(ROWS).select(**{name: field for name, field in fields.items() if field is not None}).collect()
        )
    except polars_faults():
        raise CorpusError(f"{source.name}: cannot be read; is it cut short or damaged?") from None
    if len(unread.reasons) > table.height:
        row, reason = next(iter(unread.reasons.items()))
        raise CorpusError(
            f"{source.name}: the record at line {row:,} {reason}; is its first line the names of the columns?"
        )
    columns = []
    for name, dtype in table.schema.items():
        values = [] if dtype.is_nested() else table[name].cast(pl.String, strict=False).drop_nulls().to_list()
        columns.append(Column(name, [value for value in values if value.strip()], table.height))
    return columns


def propose_columns(columns: list[Column]) -> dict[str, tuple[Column, str]]:
    """For each thing a corpus holds, the column that seems to be it, and why; the best pairs first."""
    pairs = []
    for field in NAMES:
        for column in columns:
            score, reason = judge(field, column, columns)
            if score > 0:
                pairs.append((score, field, column, reason))
    pairs.sort(key=lambda pair: -pair[0])
    chosen: dict[str, tuple[Column, str]] = {}
    for _, field, column, reason in pairs:
        if field not in chosen and all(column is not other for other, _ in chosen.values()):
            chosen[field] = column, reason
    return {field: chosen[field] for field in NAMES if field in chosen}


def propose_sections(columns: list[Column], chosen: Mapping[str, tuple[Column, str]]) -> list[Column]:
    """The columns of a report's sections, in their order, where a table has some and none for the whole text."""
    places = {heading: place for place, heading in enumerate(SECTIONS)}
    others = [column for field, (column, _) in chosen.items() if field != "text"]
    found = [
        (places[heading], column)
        for column in columns
        if (heading := section_of(column.name)) in places
        and holds_sentences(column)
        and all(column is not other for other in others)
    ]
    whole = chosen["text"][0] if "text" in chosen else None
    if whole is not None and all(column is not whole for _, column in found):
        return []
    if not {place for place, _ in found} & {places[name] for name in TELLING}:
        return []
    if sum(typical_length(column) for _, column in found) < SHORTEST:
        return []
    return [column for _, column in sorted(found, key=lambda one: one[0])]


def section_of(name: str) -> str:
    """The heading of the section that a column's name speaks of."""
    words = heading_of_column(name).lower()
    return next((heading for hint, heading in GERMAN if re.search(hint, words)), None) or heading_for((), (words,))


def holds_sentences(column: Column) -> bool:
    return typical_length(column) >= SENTENCE and share_of(column, lambda value: " " in value.strip()) >= 0.8


def judge(field: str, column: Column, columns: list[Column]) -> tuple[float, str]:
    """How much a column looks like a field (0: not at all), and why."""
    name = re.sub(r"[\W_]+", "", column.name.lower())
    if (field == "date" and BIRTH.search(name)) or (column.rows and not column.values):
        return 0, ""
    share = share_that_fits(field, column)
    if share < 0.5:
        return 0, ""
    filled = f"{whole_percent(share)} of {len(column.values):,} values fit" if field in CONTENTS else ""
    if column.name == field:
        return 1000, filled or "its name"
    if name in PLACES[field]:
        return 200 - PLACES[field][name] + share, filled or describe(field, column)
    if field in HINTS and re.search(HINTS[field], name):
        return 60 + share, filled or describe(field, column)
    if field in BY_CONTENT and column.values and share_of(column, BY_CONTENT[field]) >= 0.95:
        return 20 + share, f"{filled}; its name says nothing"
    if field == "report_id" and holds_ids(column):
        return 10.0, f"{describe(field, column)}; its name says nothing"
    if field == "text" and typical_length(column) >= 100:
        longest = max(columns, key=typical_length)
        return (20.0, f"{describe(field, column)}; its name says nothing") if column is longest else (0, "")
    return 0, ""


def share_that_fits(field: str, column: Column) -> float:
    """How many of a column's values can be what a field holds; all where anything can."""
    reader = CONTENTS.get(field)
    return share_of(column, reader) if reader else 1.0


def share_of(column: Column, fits: Callable[[str], object]) -> float:
    return sum(bool(fits(value)) for value in column.values) / max(1, len(column.values))


def holds_ids(column: Column) -> bool:
    """Whether each row has a number of its own that is no date."""
    different = set(column.values)
    if not FEWEST_IDS <= len(different) == column.rows:
        return False
    return all(NUMBER.fullmatch(value) for value in different) and not any(map(CONTENTS["date"], different))


def doubts_of(columns: list[Column], chosen: Mapping[str, object]) -> dict[str, str]:
    """Columns whose name says that they are a field that none was chosen for, and whose contents do not."""
    doubts = {}
    for field in NAMES:
        for column in columns:
            name = re.sub(r"[\W_]+", "", column.name.lower())
            if field not in chosen and name in PLACES[field] and (share := share_that_fits(field, column)) < 0.5:
                held = f"of whose {len(column.values):,} values only {whole_percent(share)} fit"
                doubts[field] = f"{column.name}, {held if column.values else 'which is empty'}"
    return doubts


def typical_length(column: Column) -> float:
    return sum(map(len, column.values)) / max(1, len(column.values))


def describe(field: str, column: Column) -> str:
    if field == "text":
        return f"{typical_length(column):,.0f} characters on average"
    different = len(set(column.values))
    if field == "report_id" and different < column.rows:
        return f"but only {different:,} different values in {column.rows:,} rows"
    return f"{different:,} different values in {column.rows:,} rows"


def mapping_text(result: MappingResult, *, others: list[str]) -> str:
    """The mapping as a commented TOML file."""

    def line(name: str, value: str | list[str] | None, remark: str) -> str:
        return f"{name} = {json.dumps(value, ensure_ascii=False)}  # {remark}" if value else f"# {name} = …  # {remark}"

    called = " ".join(printable(name_of(Path(result.file).name)).split())  # a name may have several lines
    lines = [
        f"# Which column of {called} is which: a proposal from its first {result.rows_read:,} rows.",
        "# Correct what is wrong, then: pathveil corpus import FILE --map THIS --out corpus.parquet",
        "",
        line("encoding", result.encoding, "found" if result.encoding else "UTF-8"),
        line("delimiter", result.delimiter, "what separates the fields of a CSV file"),
    ]
    if result.undecided:
        lines.append(f"# dates = …  # {result.undecided}")
    else:
        lines.append(line("dates", result.dates, "found" if result.dates else "2016-05-02 or 20160502"))
    for name in ("query", "sheet"):
        if told := getattr(result, name):
            lines.append(line(name, told, "as told"))
    if "registry" not in result.columns:
        lines.append(line("registry", None, "whose reports these are; no column looks like it"))
    lines += ["", "[columns]  # ours = theirs; other columns are kept as they are"]
    for field in (*NAMES, *(name for name in result.columns if name not in NAMES)):
        if field in result.columns:
            lines.append(line(field, result.columns[field], result.reasons[field]))
        elif field in result.doubts:
            lines.append(f"# {field} = …  # perhaps {result.doubts[field]}")
        elif field in REQUIRED and field != "registry":
            lines.append(f"# {field} = …  # no column looks like it, and a corpus needs it")
    taken = [theirs if isinstance(theirs, list) else [theirs] for theirs in result.columns.values()]
    rest = [name for name in others if not any(name in some for some in taken)]
    if rest:
        lines += ["", "# Not used: " + ", ".join(json.dumps(name, ensure_ascii=False) for name in rest)]
    return "\n".join(lines) + "\n"
