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

from pathveil.errors import CorpusError
from pathveil.untrusted import Refused
from pathveil.untrusted.archives import open_bytes
from pathveil.untrusted.xml import xml_events

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


def open_abstracts(path: Path) -> "pl.LazyFrame":
    """The tumours of a NAACCR XML file as a lazy frame of strings, a row for each report number of a tumour."""
    import polars as pl

    try:
        with open_bytes(path) as file:
            rows = [row for tumour in tumours_of(file) for row in rows_of(tumour)]
    except Refused as fault:
        raise CorpusError(f"{path}: {fault}") from None
    if not rows:
        raise CorpusError(f"{path}: holds no tumour; expected NAACCR XML with Patient and Tumor")
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String), orient="row").lazy()


def tumours_of(file: IO[bytes]) -> Iterator[dict[str, str]]:
    """The items of each tumour, with those of its patient and of the file; a patient at a time is in memory."""
    general, patient, tumours = {}, {}, []
    inside: list[str] = []  # the names of the elements that are open
    for event, name, value in xml_events(file):
        if event == "start":
            inside.append(name)
            if name == "Item":
                wanted = value.get("naaccrId", "")
            elif name == "Patient":
                patient, tumours = {}, []
            elif name == "Tumor" and inside[-2:-1] == ["Patient"]:
                tumours.append({})
            continue
        inside.pop()
        text = value.strip() if name == "Item" else ""
        if text and (wanted in ITEMS or wanted in NUMBERS):
            if inside[-2:] == ["Patient", "Tumor"]:
                tumours[-1][wanted] = text
            elif inside[-1:] == ["Patient"]:
                patient[wanted] = text
            elif len(inside) == 1:
                general[wanted] = text
        if name == "Patient":
            yield from (general | patient | tumour for tumour in tumours)


def rows_of(items: dict[str, str]) -> Iterator[tuple[str | None, ...]]:
    """A tumour's row for each of its report numbers, or one without."""
    if not re.fullmatch(r"\d{8}", items.get("dateOfDiagnosis", "")):
        items = {name: value for name, value in items.items() if name != "dateOfDiagnosis"}  # a year alone is no day
    values = tuple(items.get(name) for name in ITEMS)
    for number in [items[name] for name in NUMBERS if name in items] or [None]:
        yield (*values, number)
