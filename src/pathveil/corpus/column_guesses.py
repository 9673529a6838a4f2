"""Which column of a table is which, by what columns are called and what they hold.

Names are NAACCR's, those of laboratories, some German and French; a column called Topography is taken only where it
does hold topography codes.

>>> columns = [Column("PatNr", ["7", "7"], 2), Column("Befund", ["Mammakarzinom", "Kolonpolyp"], 2)]
>>> {field: (column.name, why) for field, (column, why) in propose_columns(columns).items()}
{'text': ('Befund', '12 characters on average'), 'case_id': ('PatNr', '1 different values in 2 rows')}
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pathveil.corpus.dates import ISO_DATE, formats_of
from pathveil.corpus.messages.sections import SECTIONS, TELLING, heading_of_name
from pathveil.corpus.report_rows import row_columns
from pathveil.corpus.tables.csv_files import LONGEST_NAME
from pathveil.corpus.tables.opening import heading_of_column
from pathveil.formatting import whole_percent
from pathveil.icdo.codes import known_histologies, parse_behavior, parse_laterality, parse_morphology, parse_topography

BIRTH = re.compile("birth|dob|geb|naiss|nacim|nasc|born|^(pat|patient|pt)?bdat|death|^dod|tod|deces|décès")
ISO_DAY = re.compile(r"(?a)\s*\d{4}(-?)(0[1-9]|1[0-2])\1(0[1-9]|[12]\d|3[01])([T ]?\d{2}.*|\.0)?\s*", re.DOTALL)
SHORT_YEAR = re.compile(r"(?a)\s*\d{1,2}([/.\-])(\d{1,2}|[A-Za-z]{3})\1\d{2}([T :].*)?\s*", re.DOTALL)
# What columns are called, without case and punctuation, the most telling name first.
NAMES = {
    "text": "text reporttext pathtext pathologytext reportbody fulltext textpathformaldx textdxprocpath"
    " textdxproclabtests befundtext befund bericht diagnosetext diagnosistext finaldiagnosis narrative"
    " compterendu report note body",
    "report_id": "reportid reportno reportnumber reportnr pathreportnumber pathreportnumber1 pathnumber"
    " accessionnumber accession accessionno accno accnumber specimennumber specimenid befundnr befundnummer"
    " eingangsnummer labnumber labno documentid acc accnum accessionnum specno noteid orderid ordernumber messageid id",
    "case_id": "caseid tumorid tumourid caseno casenumber patientid patientidnumber patientno patientnumber patientnr"
    " patientenid patientennummer patientennr patid patnr mrn medicalrecordnumber patmrnid medrecnum medrecno pid"
    " patient fallid fallnummer fallnr case",  # a Fall is mostly a stay in hospital
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
    "case_id": r"patient|case|tumou?r|mrn|med(ical)?rec",
    "date": r"dat(e|um)$|^dat(e|um)",
    "registry": r"registry|facility",
    "subsite": r"topograph|icdo.*site",
    "histology": r"morpholog|histolog",
    "behavior": r"behaviou?r|^beh(icdo3|o3)?$",
    "laterality": r"lateral|^side|side$",
}
CONTENTS: Mapping[str, Callable[[str], object]] = {
    "date": lambda value: ISO_DAY.fullmatch(value) or formats_of(value) or SHORT_YEAR.fullmatch(value),
    "subsite": lambda value: (parse_topography(value) or (None, None))[1],
    "site": parse_topography,
    "histology": parse_morphology,
    "behavior": parse_behavior,
    "laterality": parse_laterality,
}
# Told by their contents alone, where no column has such a name. Of four digits only ICD-O-3's own say a histology.
BY_CONTENT = {
    "date": CONTENTS["date"],
    "subsite": CONTENTS["subsite"],
    "site": CONTENTS["site"],
    "histology": lambda value: (parse_morphology(value) or ("",))[0] in known_histologies(),
}
NUMBER = re.compile(r"(?=.*\d)\S{1,40}")  # an id by its form: no name of a person, no sentence
SENTENCE, SHORTEST = 20, 50  # characters of a section on average, and of all; less are codes and the names of diseases
MOST_OF_A_CASE = 10  # reports on average; a column that tells fewer cases apart numbers the tumours of each patient
FEWEST_IDS = 10  # rows from which on a column is taken for ids since no two rows share one


class Column(NamedTuple):
    """A column of a table as far as it was looked at."""

    name: str
    values: list[str]  # that are there
    rows: int
    cells: Sequence[str | None] = ()  # of each row, without blanks around; none where it is empty


def holds_value(name: str) -> bool:
    """Whether what stands for a column's name is a value, as in a table without a header."""
    return bool(ISO_DATE.fullmatch(name) or formats_of(name) or parse_topography(name) or parse_morphology(name))


def is_of_a_record(column: Column) -> bool:
    """Whether a column is called what a report may say or how its values are numbered: it must not be shown then.

    >>> is_of_a_record(Column("S16-1", ["S16-2", "S17-31"], 2)), is_of_a_record(Column("ICDO3", ["C504"], 1))
    (True, False)
    >>> is_of_a_record(Column("left", ["left", "right"], 2)), is_of_a_record(Column("Side", ["left", "right"], 2))
    (True, False)
    >>> is_of_a_record(Column("M", ["0", "1"], 2))  # of TNM; M alone would be a side
    False
    """
    if len(column.name) > LONGEST_NAME or re.search(r"\d{6}", column.name):
        return True
    if parse_laterality(column.name) and share_of(column, says_side) >= 0.5:
        return True
    shape = re.sub(r"\d+", "9", column.name)
    if shape == column.name or re.fullmatch(r"\d{1,2}", column.name):  # programs number columns that have no names
        return False
    return share_of(column, lambda value: re.sub(r"\d+", "9", value.strip()) == shape) >= 0.5


def says_side(value: str) -> bool:
    """Whether a value is a side in letters; numbers may be anything's."""
    return not value.strip()[:1].isdigit() and parse_laterality(value) is not None


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
        if (heading := heading_of_name(heading_of_column(column.name))) in places
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


def propose_rows(columns: list[Column], chosen: Mapping[str, tuple[Column, str]]) -> dict[str, str]:
    """The columns that number the rows of a report, or name their sections, where reports have several rows."""
    taken = [column for column, _ in chosen.values()]
    others = {column.name: column.cells for column in columns if all(column is not other for other in taken)}
    return row_columns(chosen["report_id"][0].cells, chosen["text"][0].cells, others)


def holds_sentences(column: Column) -> bool:
    return typical_length(column) >= SENTENCE and share_of(column, lambda value: " " in value.strip()) >= 0.8


def bare_name(column: Column) -> str:
    """A column's name without case and punctuation; # is a number."""
    return re.sub(r"[\W_]+", "", column.name.lower().replace("#", "number"))


def judge(field: str, column: Column, columns: list[Column]) -> tuple[float, str]:
    """How much a column looks like a field (0: not at all), and why."""
    name = bare_name(column)
    if (field == "date" and BIRTH.search(name)) or (column.rows and not column.values):
        return 0, ""
    share = share_that_fits(field, column)
    if share < 0.5:
        return 0, ""
    filled = f"{whole_percent(share)} of {len(column.values):,} values fit" if field in CONTENTS else ""
    if column.name == field:
        return 1000, filled or "its name"
    if field == "case_id" and MOST_OF_A_CASE * len(set(column.values)) < column.rows:
        return 0, ""
    if name in PLACES[field]:
        return 200 - PLACES[field][name] + share, filled or describe(field, column)
    if field in HINTS and re.search(HINTS[field], name):
        return 60 + share, filled or describe(field, column)
    told = column.values and share_of(column, BY_CONTENT[field]) >= 0.95 if field in BY_CONTENT else False
    if told and not (field == "site" and share_that_fits("subsite", column) >= 0.95):  # another tumour's, perhaps
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
            name = bare_name(column)
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
