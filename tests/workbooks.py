"""Workbooks written by hand, so that tests can have them in any shape: as programs write them, and as none should."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def letters(column: int) -> str:
    """The name of a column, from 0."""
    return (letters(column // 26 - 1) if column >= 26 else "") + chr(65 + column % 26)


def cell(value: object) -> str:
    """A text or a number as a cell that does not say where it stands."""
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return "<c/>" if value is None else f"<c><v>{value}</v></c>"


def sheet_xml(rows: Sequence[Sequence[object]] | str) -> str:
    """A sheet of values, or of rows that are XML already."""
    inside = rows if isinstance(rows, str) else "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    return f'<worksheet xmlns="{MAIN}"><sheetData>{inside}</sheetData></worksheet>'


def opendocument(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    """A sheet of texts as OpenDocument has it, which another reader reads."""
    names = "urn:oasis:names:tc:opendocument:xmlns"
    cells = (
        "".join(f'<table:table-cell office:value-type="string"><text:p>{v}</text:p></table:table-cell>' for v in row)
        for row in rows
    )
    inside = "".join(f"<table:table-row>{row}</table:table-row>" for row in cells)
    kinds = " ".join(f'xmlns:{kind}="{names}:{kind}:1.0"' for kind in ("office", "table", "text"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "content.xml",
            f"<office:document-content {kinds}><office:body><office:spreadsheet><table:table table:name='S'>{inside}"
            "</table:table></office:spreadsheet></office:body></office:document-content>",
        )
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
    return path


def related(**targets: tuple[str, str]) -> str:
    inside = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{inside}</Relationships>'


def styles_xml(formats: Sequence[int | str]) -> str:
    """Styles of numbers, by the number of a usual format or by a code."""
    codes = {code: 164 + place for place, code in enumerate(formats) if isinstance(code, str)}
    custom = "".join(
        f'<numFmt numFmtId="{number}" formatCode="{escape(code, {chr(34): "&quot;"})}"/>'
        for code, number in codes.items()
    )
    used = "".join(f'<xf numFmtId="{code if isinstance(code, int) else codes[code]}"/>' for code in formats)
    xfs = f'<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs>{used}</cellXfs>'
    return f'<styleSheet xmlns="{MAIN}"><numFmts>{custom}</numFmts>{xfs}</styleSheet>'


def workbook(
    path: Path,
    sheets: Mapping[str, Sequence[Sequence[object]] | str | bytes],
    *,
    strings: Sequence[str] | str | bytes | None = None,
    formats: Sequence[int | str] = (),
    properties: str = "",
    packing: int = zipfile.ZIP_DEFLATED,
    **parts: str | bytes | None,
) -> Path:
    """A workbook; ``parts`` replace the files of that name (slashes and points as __), or leave them out."""
    numbered = {f"rId{number}": name for number, name in enumerate(sheets, start=1)}
    names = "".join(f'<sheet name="{name}" sheetId="{key[3:]}" r:id="{key}"/>' for key, name in numbered.items())
    links = {key: ("worksheet", f"worksheets/sheet{key[3:]}.xml") for key in numbered}
    links |= {"strings": ("sharedStrings", "sharedStrings.xml"), "styles": ("styles", "styles.xml")}
    files: dict[str, str | bytes | None] = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{TYPES}.sheet.main+xml"/></Types>',
        "_rels/.rels": related(rId1=("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">{properties}<sheets>{names}</sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": related(**links),
    }
    for number, rows in enumerate(sheets.values(), start=1):
        is_document = isinstance(rows, bytes) or (isinstance(rows, str) and "sheetData" in rows)
        files[f"xl/worksheets/sheet{number}.xml"] = rows if is_document else sheet_xml(rows)
    if strings is not None:
        listed = strings if isinstance(strings, str) else ""
        if not isinstance(strings, str | bytes):
            listed = "".join(f'<si><t xml:space="preserve">{escape(text)}</t></si>' for text in strings)
        document = f'<sst xmlns="{MAIN}" count="9" uniqueCount="9">{listed}</sst>'
        files["xl/sharedStrings.xml"] = strings if isinstance(strings, bytes) else document
    if formats:
        files["xl/styles.xml"] = styles_xml(formats)
    files |= {name.replace("__", "/").replace("-", "."): content for name, content in parts.items()}
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in files.items():
            if content is not None:
                archive.writestr(name, content)
    return path
