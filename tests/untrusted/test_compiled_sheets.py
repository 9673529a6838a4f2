"""What compiled code takes of a sheet, expat reads the same; and it takes what programs write."""

import io
import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.tables import excel_cells
from pathveil.corpus.tables.excel_cells import (
    WHOLE,
    Block,
    Order,
    attributes_of,
    blocks_of_events,
    strings_of_events,
)
from pathveil.untrusted.compiled_sheets import find_cells, find_strings, texts_between
from pathveil.untrusted.xml import xml_events

CHARACTERS = ["a", "b ", " ", "\n", "\r", "\r\n", "\t", "é", "漢", "x" * 70, "&amp;", "&lt;", "&gt;", "&quot;"]
CHARACTERS += ["&apos;", "_x000D_", "_x00e9_", "_x0020_", "_x005F_x000A_", "_x00", "_", "_x00g0_"]
ODD = ["&#10;", "&eacute;", "_x0000_", "\0", "<b/>", "<!-- -->", "&", "<", ">", '"', "\x80", "<r>"]
ATTRIBUTES = ["", ' s="1"', ' t="s"', ' s="12" t="str"', ' t="b"', ' t="inlineStr"', ' cm="1"']
ODD_ATTRIBUTES = [" s='1'", ' s="1" ', ' t="&amp;"', ' s="é"', ' xmlns:y="z"', ' r="A1"', ' b=">"', "s", " s"]


ODD_PLACES = ["", ' r="A1"', ' r="AAAA3"', ' r="A"', ' r="3"', ' r="a3"']


def mostly(usual: st.SearchStrategy, odd: list[str]) -> st.SearchStrategy:
    """One of the usual, and now and then an odd one."""
    return st.integers(0, 60).flatmap(lambda number: st.sampled_from(odd) if not number else usual)


text = st.lists(mostly(st.sampled_from(CHARACTERS), ODD), max_size=6).map("".join)
tag = mostly(st.sampled_from(["<t>", '<t xml:space="preserve">']), ["<t/>", "<t >", '<t a="">'])
string = st.tuples(tag, text).map(lambda drawn: f"{drawn[0]}{drawn[1]}</t>")
formula = st.sampled_from(["", "", "<f>A1&amp;B2</f>", '<f t="shared" si="0"/>', "<f>&x;</f>", "<f>é</f>", "<fx/>"])
content = st.one_of(
    st.tuples(formula, text).map(lambda drawn: f"{drawn[0]}<v>{drawn[1]}</v>"),
    string.map(lambda one: f"<is>{one}</is>"),
    mostly(st.just(""), ["<v/>", "<is/>", " ", "<v>1</v><v>2</v>", "text"]),
)
attributes = mostly(st.sampled_from(ATTRIBUTES), ODD_ATTRIBUTES)
blank = st.sampled_from(["", "", "", "", "\r\n", "  "])


@st.composite
def sheets(draw) -> str:
    rows = ""
    for number in range(draw(st.integers(1, 4))):
        is_said, cells = draw(st.booleans()), ""
        for column in draw(st.lists(st.sampled_from("ABC"), unique=True, max_size=3).map(sorted)):
            place = draw(mostly(st.just(f' r="{column}{number + 3}"'), ODD_PLACES))
            start = f"<c{place if is_said else ''}{draw(attributes)}"
            cells += draw(blank) + draw(st.sampled_from([f"{start}/>", f"{start}>{draw(content)}</c>"]))
        said = draw(mostly(st.just(f' r="{number + 3}"'), [' r="1"', ' r="03"', ' r="é"', "", ' r="12345678"']))
        more = draw(mostly(st.sampled_from(["", ' spans="1:3"']), [' x="&lt;"', ' r="9"', " r = '9'", "x"]))
        rows += f"<row{said if is_said else ''}{more}>{cells}</row>{draw(blank)}"
    return rows


def by_column(block: Block) -> dict[int, list[tuple[str | None, str | None]]]:
    """The values of each column; how they are written, as expat's reader says it."""
    found = {}
    for number, column in block.columns.items():
        cells = []
        for value, how in zip(column.values, column.how, strict=True):
            said = attributes_of(how) or {}
            is_value = how.endswith(("<v>", WHOLE))
            kept = "".join(f' {key}="{said[key]}"' for key in ("s", "t") if key in said)
            cells.append((value, kept + how[how.index(">") :]) if is_value else (None, None))
        if any(how for _, how in cells):
            found[number] = cells
    return found


def document(inside: str, prefix: str) -> tuple[str, bytes]:
    inside = re.sub(r"<(/?)(?=[a-z])", rf"<\1{prefix}", inside)
    return inside, f'<{prefix}a xmlns{prefix and ":" + prefix[:-1]}="b">{inside}</{prefix}a>'.encode()


@settings(max_examples=600, deadline=None)
@given(sheets(), st.sampled_from(["", "x:"]))
def test_cells_that_are_taken_are_those_of_expat(rows, prefix):
    inside, whole = document(f"<sheetData>{rows}</sheetData>", prefix)
    piece = inside[len(f"<{prefix}sheetData>") : -len(f"</{prefix}sheetData>")].encode()
    order, again = Order(), Order()
    if (block := excel_cells.found_block(piece, prefix, order)) is None:
        return
    if any(odd in rows for odd in ('x="&', "<f>&x;")):  # what stands in formulas and other attributes is not read
        return
    blocks = list(blocks_of_events(xml_events(io.BytesIO(whole)), again))
    assert len(blocks) == 1 and order.last == again.last and block.height == blocks[0].height
    assert by_column(block) == by_column(blocks[0])
    assert all(set(column.how) == column.ways for column in block.columns.values())


@settings(max_examples=600, deadline=None)
@given(st.lists(string.map(lambda one: f"<si>{one}</si>"), max_size=5), blank, st.sampled_from(["", "x:"]))
def test_strings_that_are_taken_are_those_of_expat(strings, between, prefix):
    inside, whole = document(between.join(strings), prefix)
    if (found := find_strings(inside.encode(), prefix)) is None:
        return
    data, ends = np.frombuffer(found[0], np.uint8), found[1]
    texts = texts_between(data, np.concatenate([[0], ends[:-1]]), ends) if len(ends) else []
    assert [texts] == list(strings_of_events(xml_events(io.BytesIO(whole))))


def test_what_programs_write_is_taken():
    full = '<row r="1" spans="1:3" x14ac:dyDescent="0.25"><c r="A1" s="1" t="s"><v>0</v></c>\n'
    full += '<c r="C1" t="str"><f>A1&amp;"é"</f><v>&lt;b\r\n</v></c></row>'.replace("é", "e")
    rows = full + '<row r="3"/><row r="4"><c r="B4" s="2"/><c r="C4" t="inlineStr"><is><t> x_x000D_ </t></is></c></row>'
    for prefix in ("", "x:", "a" * 300 + ":"):
        found = find_cells(document(rows, prefix)[0].encode(), prefix, last=0)
        assert found.texts == ["0", "<b\n", "", "x\r"] and found.columns.tolist() == [0, 2, 1, 2]
        assert found.rows.tolist() == [0, 0, 2, 2] and (found.height, found.last) == (3, 4)
    assert find_cells(rows.encode(), "", last=1) is None and find_cells(b"", "", last=7).last == 7


def test_pieces_that_are_cut_are_left():
    piece = b'<row r="2"><c r="A2" t="inlineStr"><f>1</f><is><t xml:space="preserve">_x000D_</t></is></c></row>'
    assert find_cells(piece, "", last=0).texts == ["\r"]
    assert not any(find_cells(piece[:end], "", last=0) for end in range(1, len(piece)))
    item = b'<si><t xml:space="preserve">&amp;</t></si>'
    assert find_strings(item, "")[0] == b"&"
    assert not any(find_strings(item[:end], "") for end in range(1, len(item)))


def test_many_ways_and_columns_are_left():
    cells = "".join(f'<c s="{number}"/>' for number in range(65))
    assert find_cells(f"<row>{cells}</row>".encode(), "", last=0) is None
    assert len(find_cells(b"<row>" + b"<c/>" * 16_384 + b"</row>", "", last=0).texts) == 16_384
    assert find_cells(b"<row>" + b"<c/>" * 16_385 + b"</row>", "", last=0) is None
    assert find_cells(b'<row r="1"><c r="XFE1"/></row>', "", last=0) is None


def test_bytes_that_are_no_text_are_left():
    assert find_cells(b"<row><c><v>\xff</v></c></row>", "", last=0) is None
    assert find_strings(b"<si><t>\xed\xa0\x80</t></si>", "") is None
    assert texts_between(np.frombuffer(b"a\0b", np.uint8), np.array([0]), np.array([3])) is None
