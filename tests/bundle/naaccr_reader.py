"""What the standard's own reader asks of a NAACCR XML file, in Python; held against what it said of the files in
``naaccr_reader.json``, one for each thing that it refuses."""

import re
from xml.etree import ElementTree

NAMESPACE = "http://naaccr.org/naaccrxml"
NAACCR = f"{{{NAMESPACE}}}"
# Item: its parent, record types, length, type; from the standard's dictionary for version 25.
ITEMS = {
    "patientIdNumber": ("Patient", "AMCI", 8, "digits"),
    "primarySite": ("Tumor", "AMCI", 4, "text"),
    "laterality": ("Tumor", "AMCI", 1, "digits"),
    "histologicTypeIcdO3": ("Tumor", "AMCI", 4, "digits"),
    "behaviorCodeIcdO3": ("Tumor", "AMCI", 1, "digits"),
    **{f"pathReportNumber{number}": ("Tumor", "AM", 20, "text") for number in range(1, 6)},
}
VERSIONS = ("140", "150", "160", "180", "210", "220", "230", "240", "250", "260")
SPECIFICATIONS = tuple(f"1.{number}" for number in range(9))
ATTRIBUTES = {"baseDictionaryUri", "recordType", "specificationVersion", "timeGenerated", "userDictionaryUri"}


def refusals(xml: str) -> list[str]:
    """Everything the reader would not take; empty where it reads the file without a fault."""
    try:
        root = ElementTree.fromstring(xml.encode())
    except ElementTree.ParseError:
        return ["is no XML"]
    found = []
    if root.tag != f"{NAACCR}NaaccrData":
        return ["another root or namespace"]
    # Namespaces beside the standard's must have been told to the reader before.
    found += ["a namespace of its own"] if re.search(r"xmlns:\w+=", xml) else []
    found += ["an attribute of the root"] if set(root.attrib) - ATTRIBUTES else []
    uri = root.get("baseDictionaryUri", "")
    version = re.fullmatch(r"http://naaccr\.org/naaccrxml/naaccr-dictionary-(\d{3})\.xml", uri)
    found += ["the dictionary"] if not version or version[1] not in VERSIONS else []
    found += ["the specification"] if root.get("specificationVersion", "1.0") not in SPECIFICATIONS else []
    found += ["the record type"] if root.get("recordType") not in tuple("AMCI") else []
    kind = root.get("recordType", "A")
    for child in root:
        if child.tag != f"{NAACCR}Patient":
            found.append("no patient")
            continue
        found += inside(child, "Patient", kind)
        for tumour in child.findall(f"{NAACCR}Tumor"):
            found += inside(tumour, "Tumor", kind)
    return found


def inside(element: ElementTree.Element, name: str, kind: str) -> list[str]:
    """Faults of a patient or a tumour: its attributes, the order of what is in it, its items."""
    found = [f"an attribute of {name}"] if element.attrib else []
    tags = [child.tag.removeprefix(NAACCR) for child in element]
    allowed = ["Item", "Tumor"] if name == "Patient" else ["Item"]
    if any(tag not in allowed for tag in tags) or tags != sorted(tags):
        found.append(f"what stands in {name}")
    names = [child.get("naaccrId") for child in element.findall(f"{NAACCR}Item")]
    found += ["an item twice"] if len(set(names)) < len(names) else []
    for child in element.findall(f"{NAACCR}Item"):
        parent, kinds, length, dtype = ITEMS.get(child.get("naaccrId", ""), (name, "", 0, ""))
        value = child.text or ""
        if not kinds or kind not in kinds:
            found.append("an unknown item")
        elif parent != name:
            found.append("an item at the wrong level")
        elif len(value.encode("utf-16-le")) > 2 * length or value != value.strip(" "):  # as Java counts
            found.append("a value that does not fit")
        elif dtype == "digits" and not re.fullmatch(rf"[0-9]{{{length}}}", value):
            found.append("a value that is no number of this length")
    return found
