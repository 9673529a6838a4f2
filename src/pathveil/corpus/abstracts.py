"""Abstracts in NAACCR XML as a table of labels: one row a tumour, or a report number of it.

Only what labels need is read, and nothing else an abstract says about a patient: the codes, the date of diagnosis, the
numbers by which reports are found again (patient, tumour, pathology reports), and the registry.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "abstracts.xml"
...     _ = path.write_text('''<NaaccrData xmlns="http://naaccr.org/naaccrxml"><Patient>
...         <Item naaccrId="patientIdNumber">00000007</Item><Item naaccrId="nameLast">Doe</Item><Tumor>
...         <Item naaccrId="primarySite">C504</Item><Item naaccrId="histologicTypeIcdO3">8500</Item>
...         <Item naaccrId="pathReportNumber1">S-1</Item></Tumor></Patient></NaaccrData>''')
...     table = open_abstracts(path).collect()
>>> table.select("patient_id", "report_number", "subsite", "histology").rows()
[('00000007', 'S-1', 'C504', '8500')]
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING
from xml.etree import ElementTree

from pathveil.corpus.tables import open_bytes
from pathveil.errors import CorpusError

if TYPE_CHECKING:
    import polars as pl

ITEMS = {
    "patientIdNumber": "patient_id",
    "medicalRecordNumber": "medical_record_number",
    "tumorRecordNumber": "tumor_number",
    "registryId": "registry",
    "dateOfDiagnosis": "date",
    "primarySite": "subsite",
    "histologicTypeIcdO3": "histology",
    "behaviorCodeIcdO3": "behavior",
    "laterality": "laterality",
}
NUMBERS = tuple(f"pathReportNumber{number}" for number in range(1, 6))
COLUMNS = (*ITEMS.values(), "report_number")
START = 1 << 16  # bytes in which a document type would stand


def open_abstracts(path: Path) -> "pl.LazyFrame":
    """The tumours of a NAACCR XML file as a lazy frame of strings, a row for each report number of a tumour."""
    import polars as pl

    with open_bytes(path) as file:
        if re.search(rb"<!(DOCTYPE|ENTITY)", file.read(START)):
            raise CorpusError(f"{path}: declares a document type, which NAACCR XML has not; it is not read")
    try:
        with open_bytes(path) as file:
            rows = [row for tumour in tumours_of(file) for row in rows_of(tumour)]
    except ElementTree.ParseError as error:
        line = error.position[0] if hasattr(error, "position") else 1
        raise CorpusError(f"{path}: is no XML, or is cut short, at line {line:,}") from None
    except (LookupError, ValueError):  # an encoding that nobody knows
        raise CorpusError(f"{path}: cannot be read as XML") from None
    if not rows:
        raise CorpusError(f"{path}: holds no tumour; expected NAACCR XML with Patient and Tumor")
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String), orient="row").lazy()


def tumours_of(file: IO[bytes]) -> Iterator[dict[str, str]]:
    """The items of each tumour, with those of its patient and of the file; a patient at a time is in memory."""
    root, general = None, {}
    for event, element in ElementTree.iterparse(file, events=("start", "end")):
        root = element if root is None else root
        if event == "end" and name_of(element) == "Patient":
            patient = items_of(element)
            for tumour in element:
                if name_of(tumour) == "Tumor":
                    yield general | patient | items_of(tumour)
            root.clear()
        elif event == "start" and name_of(element) == "Patient":
            general |= items_of(root)


def name_of(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def items_of(element: ElementTree.Element) -> dict[str, str]:
    """The items directly under an element that labels need."""
    found = {}
    for item in element:
        name, value = item.get("naaccrId", ""), (item.text or "").strip()
        if name_of(item) == "Item" and value and (name in ITEMS or name in NUMBERS):
            found[name] = value
    return found


def rows_of(items: dict[str, str]) -> Iterator[tuple[str | None, ...]]:
    """A tumour's row for each of its report numbers, or one without."""
    if not re.fullmatch(r"\d{8}", items.get("dateOfDiagnosis", "")):
        items = {name: value for name, value in items.items() if name != "dateOfDiagnosis"}  # a year alone is no day
    values = tuple(items.get(name) for name in ITEMS)
    for number in [items[name] for name in NUMBERS if name in items] or [None]:
        yield (*values, number)
