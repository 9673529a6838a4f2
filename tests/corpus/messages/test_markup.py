"""RTF and pages as plain text, also hostile ones, wherever a report's text is taken."""

import base64
import time

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.intake import import_corpus
from pathveil.corpus.messages.fhir import read_resource
from pathveil.corpus.messages.hl7 import UnusableMessage
from pathveil.corpus.messages.markup import DEEPEST, plain_text, plain_texts, without_tags
from pathveil.corpus.messages.naaccr import read_message
from pathveil.corpus.messages.observations import UNREAD
from pathveil.untrusted import Refused

WORD = (
    r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss\fcharset0 Arial;}{\f1\fcharset238{\*\fname Arial;}Arial CE;}}"
    r"{\colortbl ;\red255\green0\blue0;}{\stylesheet{\s0 Normal;}}{\info{\author Dr. Quastenflosser}}"
    r"{\*\generator Msftedit 5.41;}{\header Page 1}\viewkind4\uc1\pard\lang1031\f0\fs20"
)


@pytest.mark.parametrize(
    ("rtf", "expected"),
    [
        (r"\b FINAL DIAGNOSIS:\b0\par Colon, biopsy.", "FINAL DIAGNOSIS:\nColon, biopsy."),
        (r"Pr\'e4parat, 3\'b0", "Präparat, 3°"),
        (r"{\f1 ra\'b3} \'b3", "rał ³"),  # the font says the code page, and only within its group
        (r"\u8804?2 mm, \u228\'e4, \uc0\u8805 3", "≤2 mm, ä, ≥3"),
        (r"\u-10179?\u-8704?.", "😀."),
        (r"{\uc2\u20013xy}\u20013xy", "中中y"),  # two stand-ins within the group, one behind it
        (r"A\cell B\cell\row 3\~mm, well\_known\tab x", "A\tB\t\n3 mm, well-known\tx"),
        ("soft\r\nline ends are none", "softline ends are none"),
        ("a hard\\\none", "a hard\none"),
        (r"\{1\} \\ 2", r"{1} \ 2"),
        (r"{\pict\wmetafile8 0123abcd}shown{\v hidden}{\deleted gone}{\*\unknown x}{\field{\*\fldinst y}{\fldrslt z}}",
         "shownz"),
        (r"before\bin7 {{{}}\\after", "beforeafter"),
        (r"never closed {\i at all", "never closed at all"),
        (r"\ansicpg99999 \'e4", "ä"),
    ],
)  # fmt: skip
def test_rtf(rtf, expected):
    assert plain_text(f"{WORD} {rtf}}}").strip(" ") == expected


def test_what_stands_around_rtf_stays():
    assert plain_text("See:\n{\\rtf1 one\\par}\nand {braces}\n{\\rtf1 two}") == "See:\none\n\nand {braces}\ntwo"
    assert plain_text("{\\rtf1 one}{\\rtf1 two} {\\rtf1 three}") == "one\ntwo\nthree"
    assert plain_text("\ufeff{\\rtf1 one}") == "one"
    assert plain_text("a word of {\\rtf1 in the middle}") == "a word of {\\rtf1 in the middle}"


@pytest.mark.parametrize(
    ("rtf", "expected"),
    [
        (r"\deff0{\fonttbl{\f0\fcharset238 Arial CE;}}\pard \'b3\plain \'b3{\f1 \'b3}", "łł³"),
        (r"\ansicpg1251\deff0{\fonttbl{\f0\fcharset0 Arial;}}\pard \'d0\'e0\'ea", "Рак"),
        (r"{\fonttbl{\f2\fcharset128 MS Mincho;}}\f2 \'83A\'83\'43 A\'8a\'e0", "アイ A癌"),
    ],
)
def test_code_pages_of_fonts(rtf, expected):
    assert plain_text(f"{{\\rtf1\\ansi{rtf}}}") == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<html><head><title>x</title><style>p{}</style></head><body><p>Colon:</p>adenoma</body>", "Colon:\nadenoma"),
        ("<table><tr><td>ER</td><td>95 %</td></tr><tr><td>PR</td></tr></table>", "ER 95 %\nPR"),
        ("one<br/>two &lt;3 mm<BR>three", "one\ntwo <3 mm\nthree"),
        ("<p>a<!-- b <p> -->c<!-- never closed", "ac never closed"),
        ("<head><body>shown", "shown"),
        ("<p>&#" + "9" * 5_000 + ";", "\ufffd"),
        ("margin <2 mm and < 3, p<b", "margin <2 mm and < 3, p<b"),
        ('<html><head><script src="x.js"/><title>T</title></head><body><p>shown</p>', "shown"),
        ('<div><style type="text/css"/><p>shown</p></div>', "shown"),
        ("<html><head/><div>shown</div>", "shown"),
        ("<head><meta charset='x'><div>shown</div>", "shown"),
        ('<p><script>var a="<style>"; document.write("<script><\\/script>")</script>shown', "shown"),
        ("<P><STYLE>p{}</STYLE>x</P><title>y</title>", "x"),
        ("<dl><dt>ER</dt><dd>95 %</dd></dl><blockquote>a</blockquote><center>b</center>c", "ER\n95 %\na\nb\nc"),
        ("<article>Left</article><article>Right</article>", "Left\nRight"),
        ("<!-- made - by -- x --> <html><body><p>shown</p>", "shown"),
        ('<a name="top"></a><section>shown</section>', "shown"),
        ("<p title=\"size > 2 cm\" id='>'>shown <b class=it's>too</b>", "shown too"),
        ("<div><my-tag>shown</my-tag></div>", "shown"),
        ("<p>pT<pN, if x<y then z>w</p>", "pT<pN, if x<y then z>w"),
    ],
)
def test_pages(page, expected):
    assert plain_text(page) == expected


def test_hostile_markup_is_read_in_time_or_refused():
    many = 100_000
    begun = time.process_time()
    for piece in ("\\", "\\a", "\\'e9", "\\u1", "\\bin9 ", "}{\\rtf1\n", "\\f1\\'e9", "{}", "\\uc255\\u1"):
        plain_text("{\\rtf1" + piece * many)
    for piece in ("<a ", "<a", "<!--", "<!", "<?", "&#", "<script>", "<br ", "&", "</", "<a b='", '<a b="x', "<head>"):
        plain_text("<p>" + piece * many)
    plain_text("<p>" + "<" + "a" * many)
    assert time.process_time() - begun < 20  # HTMLParser took 18 s for a fifth of the first page
    with pytest.raises(Refused, match="nested more than"):
        plain_text("{\\rtf1" + "{" * DEEPEST)


PIECES = ["{", "}", "\\", "\\u-1 ", "\\u-9999 ", "\\'", "\\'f0", "\\bin3 ", "\\*", "\n", "x", "<", ">", "<p>", "&#x"]
PIECES += ["\\ansicpg65001 ", "\\fonttbl", "\\f9", "\\fcharset128 ", "é"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_no_markup_makes_it_fall_over(pieces):
    text = "".join(pieces)
    for marked in ("{\\rtf1" + text, "<p>" + text):
        plain_text(marked).encode()  # and no half characters are left
    without_tags(text)


def test_columns_of_texts():
    texts = pl.Series(["{\\rtf1 a\\par b}", None, "plain {\\rtf", "{\\rtf1" + "{" * DEEPEST, "<p>c</p>"])
    assert plain_texts(texts).to_list() == ["a\nb", None, "plain {\\rtf", None, "c"]


def body(*obx: str) -> str:
    head = ["MSH|^~\\&||LAB|||||ORU^R01", "PID|1||1077^^^LAB^MR||Quastenflosser^Hilde", "OBR|1||S1|11529-5"]
    (report,) = read_message("\n".join([*head, *obx]).encode(), key=b"a key of sixteen", registry=None)
    return report.text


@pytest.mark.parametrize(
    "obx",
    [
        r"OBX|1|FT|22637-3||{\rtf1\ansi Colon\~of Quastenflosser:\par \'e4 \u8804?2 mm}||||||F",
        r"OBX|1|TX|22637-3||{\E\rtf1\E\ansi Colon of Quastenflosser:\E\par \E\'e4 \E\u8804?2 mm}||||||F",
        r"OBX|1|ST|22637-3||{\rtf1\ansi Colon of~ Quastenflosser:~\par \'e4 \u8804?2 mm}||||||F",
        "OBX|1|ED|22637-3||LAB^TEXT^RTF^Base64^"
        + base64.b64encode(rb"{\rtf1 Colon of Quastenflosser:\par \'e4 \u8804?2 mm}").decode()
        + "||||||F",
        r"OBX|1|ED|22637-3||LAB^AP^RTF^A^{\E\rtf1 Colon of Quastenflosser:\E\par \E\'e4 \E\u8804?2 mm}",
        "OBX|1|TX|22637-3||<p>Colon of Quastenflosser:</p><p>&auml; &le;2 mm</p>",
    ],
)
def test_rtf_and_pages_in_messages(obx):
    assert body(obx) == "FINAL DIAGNOSIS\nColon of [patient]:\nä ≤2 mm"


def test_rtf_over_several_obx():
    lines = ["{\\rtf1\\ansi{\\fonttbl{\\f0 Arial;}}", "\\f0 Colon ", "of\\par ", "the", "mus", "}", "and a line"]
    parts = [f"OBX|{n}|TX|22637-3|{n}|{line}||||||F" for n, line in enumerate(lines, start=1)]
    assert body(*parts) == "FINAL DIAGNOSIS\nColon of\nthemus\nand a line"
    assert body(*parts, *parts, "OBX|9|TX|22634-0||A core.") == f"{body(*parts)}\n\nGROSS DESCRIPTION\nA core."


CUT = (
    "{\\rtf1\\ansi\\ansicpg1252\\deff0{\\fonttbl{\\f0\\fswiss\\fcharset0 Arial;}}\\uc1\\pard\\f0\\fs20\\b "
    "Colon:\\b0\\par Adenocarcinoma, Pr\\'e4parat \\u8804?2 mm\\par\\tab pT2\\par}"
)


@pytest.mark.parametrize("width", [9, 16, 37, 61])
@pytest.mark.parametrize("is_escaped", [False, True, None])
def test_rtf_cut_anywhere(width, is_escaped):
    """As it is, with HL7's escapes put in after the cut, and before it."""
    text = CUT.replace("\\", "\\E\\") if is_escaped is None else CUT
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    pieces = [piece.replace("\\", "\\E\\") for piece in pieces] if is_escaped else pieces
    parts = [f"OBX|{n}|TX|22637-3||{piece}||||||F" for n, piece in enumerate(pieces, start=1)]
    assert body(*parts) == "FINAL DIAGNOSIS\nColon:\nAdenocarcinoma, Präparat ≤2 mm\n pT2"


def test_lines_that_recur_within_rtf_stay():
    lines = ["{\\rtf1\\ansi", "{\\b A. Colon", "\\par", "}", "{\\b B. Rectum", "\\par", "}", "both benign", "}"]
    parts = [f"OBX|1|TX|22637-3||{line}||||||F" for line in lines]
    assert body(*parts) == body(*parts, *parts) == "FINAL DIAGNOSIS\nA. Colon\nB. Rectum\nboth benign"


def test_attached_files_count_where_there_is_no_other_text():
    rtf = "OBX|1|ED|22637-3||^TEXT^RTF^Base64^" + base64.b64encode(b"{\\rtf1 Colon.}").decode()
    long = "Adenocarcinoma of the colon, moderately differentiated."
    assert body(rtf, f"OBX|2|TX|22637-3||{long}") == f"FINAL DIAGNOSIS\n{long}"
    assert body(rtf, "OBX|2|TX|22638-1||See file.") == "FINAL DIAGNOSIS\nColon.\n\nCOMMENT\nSee file."
    words = ["SPM|1|||TISS^Tissue^HL70487||||^Left breast, upper outer quadrant", rtf, "OBX|2|TX|22638-1||See file."]
    assert "FINAL DIAGNOSIS\nColon." in body(*words)  # what SPM and OBR-13 say is no text of the report's own
    pdf = "OBX|1|ED|22637-3||^AP^PDF^Base64^" + base64.b64encode(b"%PDF-1.7\0").decode()
    with pytest.raises(UnusableMessage) as fault:
        body(pdf)
    assert str(fault.value) == UNREAD
    with pytest.raises(UnusableMessage, match="RTF with groups nested"):
        body("OBX|1|FT|22637-3||{\\rtf1" + "{" * DEEPEST)


LONG = "Adenocarcinoma of the colon, moderately differentiated, invading the muscularis propria."


@pytest.mark.parametrize("text", [LONG, f"{{\\rtf1\\ansi {LONG}}}"])
@pytest.mark.parametrize("cut", [16, 41, 60])
@pytest.mark.parametrize("is_coded_whole", [True, False])
def test_attached_files_over_several_obx(text, cut, is_coded_whole):
    """Cut anywhere in the base64, or cut before it was made."""
    whole = base64.b64encode(text.encode()).decode()
    pieces = [whole[at : at + cut] for at in range(0, len(whole), cut)]
    if not is_coded_whole:
        cut -= cut % 3
        pieces = [base64.b64encode(text[at : at + cut].encode()).decode() for at in range(0, len(text), cut)]
    obx = [f"OBX|{n}|ED|22637-3||^TEXT^RTF^Base64^{piece}" for n, piece in enumerate(pieces, start=1)]
    assert body(*obx) == f"FINAL DIAGNOSIS\n{LONG}"


def test_attached_files_of_one_section_stay_apart():
    files = [base64.b64encode(text).decode() for text in (b"{\\rtf1 One.}", b"{\\rtf1 Two.}", b"{\\rtf1 Three.}")]
    assert body(*(f"OBX|1|ED|22637-3||^TEXT^RTF^Base64^{file}" for file in files)).endswith("One.\nTwo.\nThree.")


@pytest.mark.parametrize("kind", ["TX", "FT", "ST", ""])
@pytest.mark.parametrize("head", ["", "^application^pdf^Base64^", "LIS^AP^^base64^"])
def test_a_file_that_is_called_a_text_is_a_file(kind, head):
    """In base64 it would be words that nobody wrote, and whoever has them reads the patient's name."""
    pdf = base64.b64encode(b"%PDF-1.7 Quastenflosser\0" * 20).decode()
    rtf = base64.b64encode(rb"{\rtf1 Colon of Quastenflosser:\par adenoma, and so on until the end}").decode()
    note = "OBX|1|TX|22637-3||Colon, sigmoid: tubular adenoma, completely removed"
    for pieces in ([head + pdf], [head + pdf[:200], pdf[200:400], pdf[400:]]):
        obx = [f"OBX|{n}|{kind}|PDF^Report||{piece}" for n, piece in enumerate(pieces, start=2)]
        assert body(note, *obx) == "FINAL DIAGNOSIS\nColon, sigmoid: tubular adenoma, completely removed"
        with pytest.raises(UnusableMessage, match="in a form that is not read"):
            body(*obx)
    assert body(f"OBX|1|{kind}|RTF^Report||{head}{rtf}").startswith("REPORT\nColon of [patient]:\nadenoma, and")


def test_attached_files_that_cannot_be_decoded_are_named():
    broken, stub = "OBX|1|ED|22637-3||^TEXT^PLAIN^Base64^Q29sb24=*", "OBX|2|TX|22638-1||See file."
    for obx in ([broken], [broken, stub]):
        with pytest.raises(UnusableMessage, match="attached file that cannot be decoded"):
            body(*obx)
    assert body(broken, f"OBX|2|TX|22637-3||{LONG}") == f"FINAL DIAGNOSIS\n{LONG}"
    with pytest.raises(UnusableMessage, match="form that is not read"):
        body("OBX|1|ED|22637-3||^TEXT^PLAIN^Base64^" + base64.b64encode(b"\x01\x02\xff" * 9).decode())


def test_rtf_presented_in_fhir():
    def forms(*given: tuple[str, bytes]) -> list[dict]:
        return [{"contentType": kind, "data": base64.b64encode(text).decode()} for kind, text in given]

    def read(*given: tuple[str, bytes]) -> str:
        report = {
            "resourceType": "DiagnosticReport",
            "subject": {"reference": "Patient/7"},
            "presentedForm": forms(*given),
        }
        (found,) = read_resource(report, key=b"a key of sixteen", registry="North")
        return found.text

    rich = ("application/rtf", rb"{\rtf1 Colon, resection:\par adenocarcinoma, moderately differentiated.}")
    text = "Colon, resection:\nadenocarcinoma, moderately differentiated."
    assert read(rich) == read(("text/plain", rich[1])) == text
    assert read(("text/plain", text.encode()), rich) == text  # the same report in another form
    with pytest.raises(UnusableMessage, match="form that is not read"):
        read(("application/rtf", b"\xd0\xcf\x11\xe0 no RTF"))


def test_rtf_in_tables(tmp_path):
    table = {"report_id": ["a", "b", "c"], "case_id": ["1", "2", "3"], "registry": ["R"] * 3}
    texts = ["{\\rtf1\\ansi Colon:\\par adenoma}", "<p>Colon:</p><p>adenoma</p>", "Colon, {\\rtf"]
    pl.DataFrame(table | {"text": texts}).write_csv(tmp_path / "lab.csv")
    import_corpus(tmp_path / "lab.csv", out=tmp_path / "c.parquet")
    assert pl.read_parquet(tmp_path / "c.parquet")["text"].to_list() == ["Colon:\nadenoma"] * 2 + ["Colon, {\\rtf"]
