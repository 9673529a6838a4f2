"""The sections of a report: what their codes and names mean, and one text of them all.

A text has them under headings in one fixed order: what a coder reads first stands first, and so survives the clipping
of long reports. HL7 and FHIR name sections in the same LOINC codes.

>>> heading_for(["22637-3"], []), heading_for([], ["Clinical diagnosis"]), heading_for([], ["Frozen section"])
('FINAL DIAGNOSIS', 'CLINICAL HISTORY', 'FROZEN SECTION')
>>> print(render({"GROSS DESCRIPTION": {"1": ["One core."]}, "FINAL DIAGNOSIS": {"1": ["Ductal", "carcinoma."]}}))
FINAL DIAGNOSIS
Ductal
carcinoma.
<BLANKLINE>
GROSS DESCRIPTION
One core.
"""

import re
from collections.abc import Iterable

from pathveil.corpus.messages.markup import plain_text

# Headings in the order in which sections are put, with their LOINC codes.
SECTIONS = {
    "NATURE OF SPECIMEN": ("22633-2",),
    "CLINICAL HISTORY": ("22636-5", "10164-2"),
    "FINAL DIAGNOSIS": ("22637-3", "34574-4"),
    "COMMENT": ("22638-1",),
    "SYNOPTIC REPORT": ("60568-3",),
    "MICROSCOPIC DESCRIPTION": ("22635-7",),
    "GROSS DESCRIPTION": ("22634-0",),
    "OTHER": (),  # where sections of any other name stand, in order of appearance
    "SUPPLEMENTAL REPORT": ("22639-9", "35265-8"),
}
CODES = {code: heading for heading, codes in SECTIONS.items() for code in codes}
# What a section's name says where its code is unknown; the first that fits ("clinical diagnosis" is history).
HINTS = (
    (r"supplement|addend|amend", "SUPPLEMENTAL REPORT"),
    (r"frozen|intra-?op", ""),  # a section of its own, under its name
    (r"synoptic|checklist", "SYNOPTIC REPORT"),
    (r"\bmicro", "MICROSCOPIC DESCRIPTION"),
    (r"\bgross|macroscop", "GROSS DESCRIPTION"),
    (r"history|clinical|\bhx\b|operative|\b(?:pre|post)-?op", "CLINICAL HISTORY"),
    (r"diagnosis|\bdx\b|impression|^final(?: text)?$", "FINAL DIAGNOSIS"),
    (r"specimen|site of origin", "NATURE OF SPECIMEN"),
    (r"comment|\bnotes?\b", "COMMENT"),
)
TELLING = {"FINAL DIAGNOSIS", "MICROSCOPIC DESCRIPTION", "GROSS DESCRIPTION"}  # a report has one of these at least
GERMAN = (
    ("nachtrag", "SUPPLEMENTAL REPORT"),
    ("mikroskop", "MICROSCOPIC DESCRIPTION"),
    ("makroskop", "GROSS DESCRIPTION"),
    ("klinisch|anamnese|vorgeschichte", "CLINICAL HISTORY"),
    ("diagnose|beurteilung", "FINAL DIAGNOSIS"),
    ("kommentar", "COMMENT"),
)
INVISIBLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\ufeff]")
WHOLE = 40  # characters from which on a text is taken for the whole report


def heading_for(codes: Iterable[str], names: Iterable[str]) -> str:
    """The heading that codes or, where they are unknown, names of a section stand for."""
    for code in codes:
        if code in CODES:
            return CODES[code]
    name = next((part for part in names if re.search(r"[^\W\d_]{2}", part)), "")
    hinted = next((heading for hint, heading in HINTS if re.search(hint, name.lower())), None)
    return hinted or " ".join(name.upper().split())[:60] or "OTHER"


def heading_of_name(name: str) -> str:
    """The heading that a section's name in a table stands for, in English or German.

    >>> heading_of_name("Final diagnosis"), heading_of_name("Makroskopie"), heading_of_name("Frozen section")
    ('FINAL DIAGNOSIS', 'GROSS DESCRIPTION', 'FROZEN SECTION')
    """
    words = name.lower()
    return next((heading for hint, heading in GERMAN if re.search(hint, words)), None) or heading_for((), (words,))


def render(sections: dict[str, dict[str, list[str]]]) -> str:
    """The sections under their headings, in one order; parts are named where the specimens are numbered."""
    numbered = [part for part in sections.get("NATURE OF SPECIMEN", {}) if part]
    others = [heading for heading in sections if heading not in SECTIONS or heading == "OTHER"]
    blocks = []
    for place in SECTIONS:
        for heading in others if place == "OTHER" else [place]:
            if heading not in sections:
                continue
            parts = sections[heading]
            texts = [plain_text("\n".join(lines)) for lines in parts.values()]
            if len(numbered) > 1:
                texts = [with_part_name(part, text, numbered) for part, text in zip(parts, texts, strict=True)]
            body = tidy("\n".join(texts))
            if body:
                blocks.append(f"{heading}\n{body}")
    return "\n\n".join(blocks)


def with_part_name(part: str, text: str, numbered: list[str]) -> str:
    """``Part 2: …``, unless the text says so itself or the part is none of the specimens."""
    if part not in numbered or re.match(rf"(?i)\s*+(?:part|specimen)?\s*+#?\s*+{re.escape(part)}(?!\w)", text):
        return text
    return f"Part {part}: {text}"


def tidy(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    if not text.isascii() or not text.replace("\n", "").isprintable():
        text = INVISIBLE.sub("", text)
    if " \n" in text or text[-1:].isspace() or not text.isascii():
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    return (re.sub(r"\n{3,}", "\n\n", text) if "\n\n\n" in text else text).strip("\n")
