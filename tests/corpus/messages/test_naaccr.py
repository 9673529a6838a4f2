"""What a message means: the official samples, every quirk a registry meets, and no patient in any text."""

import datetime
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.messages.hl7 import UnusableMessage
from pathveil.corpus.messages.naaccr import Report, Skipped, read_message, read_messages
from pathveil.corpus.messages.versions import FINAL, PRELIMINARY

KEY = b"a key of sixteen bytes"
MSH = "MSH|^~\\&||LAB^33D^CLIA|||200407281339||ORU^R01^ORU_R01|1|P|2.5.1"
PID = (
    "PID|1||123456789^^^^SS~00466144^^^HOSP&1.2&ISO^MR||Quastenflosser^Hildegard^Maria||19570706|F||"
    "|495 East Overshoot Drive^^Delmar^NY^12054||(518)555-0137|||M"
)
OBR = "OBR|1||S-97-1|11529-5^Surgical Pathology^LN|||199707251630"
SECRETS = (
    "quastenflosser",
    "hildegard",
    "123456789",
    "00466144",
    "466144",
    "overshoot",
    "19570706",
    "555-0137",
    "12054",
)


def message(*segments: str) -> bytes:
    return "\n".join(segments).encode()


def read(*segments: str) -> Report:
    (report,) = read_message(message(*segments), key=KEY, registry=None)
    return report


def body(*segments: str) -> str:
    return read(MSH, PID, OBR, *segments).text


def test_the_official_samples(hl7_samples):
    with hl7_samples.open("rb") as file:
        messages = list(read_messages(file, key=KEY, registry="X"))
    (flow,), (text,), (parts,) = messages
    assert [flow.number, text.number, parts.number] == ["06-123456-MH", "97 810430", "97 810430"]
    assert [flow.kind, text.kind] == ["22049-1", "11529-5"]
    assert [flow.date, text.date] == [datetime.date(2005, 5, 2), datetime.date(2007, 7, 25)]
    assert flow.case_id == text.case_id == parts.case_id and len({flow.report_id, text.report_id, parts.report_id}) == 3
    headings = [line for line in flow.text.split("\n") if line.isupper()]
    assert headings == ["NATURE OF SPECIMEN", "CLINICAL HISTORY", "FINAL DIAGNOSIS", "COMMENT", "PHENOTYPE"]
    # The two forms of one report differ in how the parts are told, and in nothing else.
    assert parts.text.replace("Part 1: ", "").replace("Part 2: ", "").replace("Part 3: ", "") == text.text
    assert "1. Infiltrating duct carcinoma, left breast.\n2. Lymph node" in text.text
    joined = " ".join(report.text for (report,) in messages).lower()
    for word in ("mcmuffin", "candy", "123456789", "00466144", "overshoot", "\\.br\\", "<cr>", "|", "obx"):
        assert word not in joined


def test_columns():
    report = read(MSH, PID, OBR, "OBX|1|TX|22637-3^x^LN||benign")
    assert (report.registry, report.number, report.kind) == ("LAB", "S-97-1", "11529-5")
    assert (report.date, report.year) == (datetime.date(1997, 7, 25), 1997)
    assert read_message(message(MSH, PID, OBR, "OBX|1|TX|1||x"), key=KEY, registry="R9")[0].registry == "R9"


def test_sections_stand_in_one_order_whatever_came_first():
    sections = [
        "OBX|1|TX|22639-9^supplemental^LN||later",
        "OBX|2|TX|22634-0^gross^LN||a core",
        "OBX|3|TX|22049-1^phenotype^LN||kappa",
        "OBX|4|TX|22637-3^final^LN||carcinoma",
        "OBX|5|TX|22636-5^history^LN||lump",
        "OBX|6|TX|22635-7^micro^LN||glands",
        "OBX|7|TX|22633-2^specimen^LN||left breast",
        "OBX|8|TX|22638-1^comment^LN||reviewed",
        "OBX|9|TX|60568-3^synoptic^LN||pT1c",
    ]
    text = body(*sections)
    assert text == body(*reversed(sections))
    assert [line for line in text.split("\n") if line.isupper()] == [
        "NATURE OF SPECIMEN",
        "CLINICAL HISTORY",
        "FINAL DIAGNOSIS",
        "COMMENT",
        "SYNOPTIC REPORT",
        "MICROSCOPIC DESCRIPTION",
        "GROSS DESCRIPTION",
        "PHENOTYPE",
        "SUPPLEMENTAL REPORT",
    ]


@pytest.mark.parametrize(
    ("identifier", "heading"),
    [
        ("GROSS^Gross Description^L", "GROSS DESCRIPTION"),
        ("99999-9^Final Pathologic Diagnosis^LN", "FINAL DIAGNOSIS"),
        ("FDX^Dx^L^22637-3^x^LN", "FINAL DIAGNOSIS"),
        ("^Clinical Diagnosis", "CLINICAL HISTORY"),
        ("^PRE-OP DIAGNOSIS", "CLINICAL HISTORY"),
        ("^Postop Dx", "CLINICAL HISTORY"),
        ("IOC^Intraoperative Consultation", "INTRAOPERATIVE CONSULTATION"),
        ("FS^Frozen Section Diagnosis", "FROZEN SECTION DIAGNOSIS"),
        ("Addendum Diagnosis", "SUPPLEMENTAL REPORT"),
        ("MIC^Microscopic", "MICROSCOPIC DESCRIPTION"),
        ("77^Tumour board", "TUMOUR BOARD"),
        ("12345-6", "OTHER"),
        ("", "OTHER"),
    ],
)
def test_wrong_codes_go_by_the_name(identifier, heading):
    assert body(f"OBX|1|TX|{identifier}||words").split("\n")[0] == heading


@pytest.mark.parametrize(
    ("obx", "expected"),
    [
        ("OBX|1|TX|22637-3||two~lines", "two\nlines"),
        (r"OBX|1|FT|22637-3||a \T\ b\.br\c", "a & b\nc"),
        ("OBX|1|ST|22637-3||plain", "plain"),
        ("OBX|1||22637-3||no type", "no type"),
        ("OBX|1|QQ|22637-3||odd type", "odd type"),
        ("OBX|1|CWE|22637-3||8500/3^Ductal carcinoma^ICDO3", "Ductal carcinoma"),
        ("OBX|1|CE|22637-3||8500/3", "8500/3"),
        ("OBX|1|NM|22637-3||2.5|cm^centimetre", "2.5 cm"),
        ("OBX|1|SN|22637-3||<^2|mm", "<2 mm"),
        ("OBX|1|TX|22637-3||a\x00b\x07\tc  ", "ab c"),
    ],
)
def test_values_of_every_type(obx, expected):
    assert body(obx) == f"FINAL DIAGNOSIS\n{expected}"


def test_people_and_files_are_no_text():
    assert body(
        "OBX|1|TX|22637-3||benign",
        "OBX|2|XCN|22637-3||77^Healing^B.J.",
        "OBX|3|ED|22637-3||^application^pdf^Base64^JVBERi0",
        "OBX|4|TX|22637-3||withdrawn||||||D",
    ) == ("FINAL DIAGNOSIS\nbenign")


def test_repeated_and_restarted_obx():
    long = "Sections show an infiltrating ductal carcinoma of the breast."
    text = body(
        "OBX|1|TX|22637-3||A. Benign.",
        f"OBX|2|TX|22637-3||{long}",
        f"OBX|2|TX|22637-3||{long}",  # sent twice
        f"OBX|3|TX|22637-3||{long}",  # sent twice under a new number
        "OBX|1|TX|22637-3||Negative.",  # numbering starts again
        "OBX|4|TX|22637-3||Negative.",  # a short line may recur
    )
    assert text == f"FINAL DIAGNOSIS\nA. Benign.\n{long}\nNegative.\nNegative."


CARCINOMA = "- INVASIVE DUCTAL CARCINOMA, GRADE 2."
PAIR = ["A. LEFT BREAST, CORE BIOPSY:", CARCINOMA, "B. RIGHT BREAST, CORE BIOPSY:", CARCINOMA, "C. NODE:", "- BENIGN."]


@pytest.mark.parametrize("numbers", [range(1, 7), [1] * 6, [""] * 6, [1, 2, 1, 2, 1, 2]])
def test_a_line_that_recurs_within_a_section_is_kept(numbers):
    lines = [f"OBX|{number}|TX|22637-3||{line}" for number, line in zip(numbers, PAIR, strict=True)]
    assert body(*lines) == "FINAL DIAGNOSIS\n" + "\n".join(PAIR)
    orders = [lines[0], lines[1], OBR.replace("|1|", "|2|"), *lines[2:4], OBR.replace("|1|", "|3|"), *lines[4:]]
    assert body(*orders) == body(*lines)


@pytest.mark.parametrize("first", [1, 7, 101])
def test_a_section_sent_twice_is_kept_once_whatever_its_numbers(first):
    lines = [f"OBX|{number}|TX|22637-3||{line}" for number, line in enumerate(PAIR, start=1)]
    again = [f"OBX|{number}|TX|22637-3||{line}" for number, line in enumerate(PAIR, start=first)]
    gross, more = "OBX|50|TX|22634-0||Three cores.", "OBX|200|TX|22637-3||See comment."
    assert body(*lines, gross, *again) == body(*lines, gross)
    assert body(*lines, *again, *again, more) == body(*lines, more)


def test_parts_and_specimen_blocks():
    text = body(
        "SPM|1|77&LAB||TISS^Tissue^HL70487||||^Left breast|||||||||199707251630",
        "OBX|1|TX|22637-3||Ductal carcinoma.",
        "OBX|2|TX|22634-0||One core.",
        "SPM|2|78||TISS^Tissue||||^Left axilla",
        "OBX|1|TX|22637-3||Two nodes, negative.",
        "OBX|2|TX|22634-0||Specimen #2: two nodes.",
    )
    assert text == (
        "NATURE OF SPECIMEN\nPart 1: Tissue, Left breast\nPart 2: Tissue, Left axilla\n\n"
        "FINAL DIAGNOSIS\nPart 1: Ductal carcinoma.\nPart 2: Two nodes, negative.\n\n"
        "GROSS DESCRIPTION\nPart 1: One core.\nSpecimen #2: two nodes."
    )
    assert body("SPM|1|||A", "OBX|1|TX|22637-3||" + "\\.br\\" * 50_000 + "x", "SPM|2|||B")  # in time
    interleaved = body("OBX|1|TX|22634-0|1|first", "OBX|2|TX|22634-0|2|second", "OBX|3|TX|22634-0|1|first goes on")
    assert interleaved == "GROSS DESCRIPTION\nfirst\nfirst goes on\nsecond"


def test_notes_follow_their_section_and_notes_about_the_patient_are_left():
    text = read(MSH, PID, "NTE|1||lives alone", OBR, "OBX|1|TX|22634-0||a core", "NTE|1||inked", "PV1|1").text
    assert text == "GROSS DESCRIPTION\na core\ninked"


def test_several_orders_and_patients_in_one_message():
    other = "PID|2||99887^^^HOSP^MR||Doe^Jo"
    reports = read_message(
        message(
            MSH, PID, OBR, "OBX|1|TX|22637-3||one", "OBR|2||S-97-1|x", "OBX|1|TX|22637-3||one, more",
            "OBR|3||S-97-2", "OBX|1|TX|22637-3||two", other, "OBR|1||S-97-3", "OBX|1|TX|22637-3||three",
        ),
        key=KEY,
        registry=None,
    )  # fmt: skip
    assert [report.number for report in reports] == ["S-97-1", "S-97-2", "S-97-3"]
    assert reports[0].text == "FINAL DIAGNOSIS\none\none, more"
    assert reports[0].case_id == reports[1].case_id != reports[2].case_id


def test_orders_with_one_number_are_one_report_wherever_they_stand():
    def numbered(*orders: tuple[str, str]) -> list[tuple[str | None, str]]:
        lines = [line for obr, text in orders for line in (obr, f"OBX|1|TX|22637-3||{text}")]
        reports = read_message(message(MSH, PID, *lines), key=KEY, registry=None)
        return [(report.number, report.text.partition("\n")[2]) for report in reports]

    assert numbered(("OBR|1||S-1", "one"), ("OBR|2||S-2", "two"), ("OBR|3||S-1", "more")) == [
        ("S-1", "one\nmore"),
        ("S-2", "two"),
    ]
    assert numbered(("OBR|1|P-1", "one"), ("OBR|2|P-2", "two")) == [("P-1", "one"), ("P-2", "two")]
    assert numbered(("OBR|1|P-1|S-1", "one"), ("OBR|2|P-1", "more")) == [("S-1", "one\nmore")]
    assert numbered(("OBR|1||S-1", "one"), ("OBR|2", "more")) == [("S-1", "one\nmore")]


def test_a_number_that_the_common_order_alone_has_is_the_reports():
    one, two = "OBX|1|TX|22637-3||one", "OBX|1|TX|22637-3||two"
    reports = read_message(
        message(MSH, PID, "ORC|RE|P-1|S-1", "OBR|1|||SP", one, "ORC|RE||S-2", "OBR|2", two), key=KEY, registry=None
    )
    assert [(report.number, report.text) for report in reports] == [
        ("S-1", "FINAL DIAGNOSIS\none"), ("S-2", "FINAL DIAGNOSIS\ntwo"),
    ]  # fmt: skip
    assert read(MSH, PID, "ORC|RE|P-1|X-1", OBR, one).number == "S-97-1"


def test_a_document_has_its_number_kind_and_day_in_its_header():
    head, body = MSH.replace("ORU^R01^ORU_R01", "MDM^T02"), "OBX|1|TX|22637-3||carcinoma"
    txa = "TXA|1|SP^Surgical pathology|TX|199707251630||||||||DOC-55^^LAB|||S-97-1^LAB||AU"
    found = read(head, "EVN|T02", PID, "PV1|1", txa, body)
    assert (found.number, found.kind, found.date) == ("S-97-1", "SP", datetime.date(1997, 7, 25))
    assert read(head, PID, txa.replace("S-97-1^LAB", ""), body).number == "DOC-55"
    assert read(head, PID, OBR.replace("S-97-1", "S-97-2"), txa, body).number == "S-97-2"
    dictated = read(head, PID, txa.replace("|AU", "|DI"), body)
    assert dictated.version and found.version and dictated.version.key == found.version.key
    assert (dictated.version.state, found.version.state) == (PRELIMINARY, FINAL)


@pytest.mark.parametrize("statuses", ["XF", "FX", "XFX"])
def test_a_cancelled_order_adds_nothing_to_its_report(statuses):
    orders = []
    for status in statuses:
        text = "never done" if status == "X" else "carcinoma"
        orders.append(f"OBR|1||S-1|{status}|||||||||{text}" + "|" * 12 + status)
        orders += [f"SPM|1|||TISS^{text}", f"OBX|1|TX|22637-3||{text}||||||F", f"NTE|1||{text}"]
    report = read(MSH, PID, *orders)
    assert "never done" not in report.text and "FINAL DIAGNOSIS\ncarcinoma" in report.text and report.kind == "F"
    with pytest.raises(UnusableMessage, match="withdraws its report"):
        read(MSH, PID, *(order for order in orders if "carcinoma" not in order))


def test_a_report_without_a_patient_does_not_take_the_others_with_it():
    content = message(MSH, PID, OBR, "OBX|1|TX|1||fine", "PID|2", "OBR|1||S-97-2", "OBX|1|TX|1||whose?")
    skipped, (report,) = read_messages(io.BytesIO(content), key=KEY, registry=None)
    assert report.text == "OTHER\nfine"
    assert isinstance(skipped, Skipped) and skipped.part and "has no PID with a number" in skipped.reason
    with pytest.raises(UnusableMessage, match="has no PID"):  # a sender that waits for an answer is told
        read_message(content, key=KEY, registry=None)


def test_what_may_be_absent():
    assert read(MSH, PID, "OBX|1|TX|22637-3||no order").number is None
    assert read(MSH, "OBX|1|TX|22637-3||PID comes last", PID).text.endswith("PID comes last")
    undated = read(MSH, PID, "OBR|1||S|x", "OBX|1|TX|1||x")
    assert (undated.date, undated.year) == (None, None)
    assert read(MSH, PID, "OBR|1||S|x|||1997", "OBX|1|TX|1||x").year == 1997
    assert read(MSH, PID, "OBR|1||S|x|||19971399|||||||19980102", "OBX|1|TX|1||x").date == datetime.date(1998, 1, 2)


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        ([PID, OBR, "OBX|1|TX|1||x"], "does not begin with MSH"),
        ([MSH, OBR, "OBX|1|TX|1||x"], "has no PID with a number"),
        ([MSH, "PID|1||999-99-9999^^^^SS~UNKNOWN||Doe^Jo", OBR, "OBX|1|TX|1||x"], "has no PID with a number"),
        ([MSH, PID, OBR], "holds no report text"),
        ([MSH, PID, OBR, "OBX|1|TX|22637-3||  "], "holds no report text"),
        ([MSH, PID, OBR, "OBX|1|TX|22637-3||\x00\x07"], "holds no report text"),
        ([MSH, PID, OBR + "||||||a lump", "SPM|1|||TISS^Tissue"], "holds no report text"),
        (["MSH|^~\\&||||||ACK", PID, "MSA|AA"], "names no sender"),
    ],
)
def test_broken_messages_say_why_and_nothing_else(segments, reason):
    with pytest.raises(UnusableMessage, match=reason) as caught:
        read_message(message(*segments), key=KEY, registry=None)
    assert not any(secret in str(caught.value).lower() for secret in (*SECRETS, "doe^jo", "999"))


def test_broken_messages_are_named_by_position():
    good = message(MSH, PID, OBR, "OBX|1|TX|22637-3||fine")
    content = good + b"\n\n" + message(MSH, PID) + b"\n" + good
    first, broken, last = read_messages(io.BytesIO(content), key=KEY, registry=None)
    assert broken == Skipped(message=2, line=6, reason="holds no report text (OBX)")
    assert isinstance(first, list) and isinstance(last, list)


def case(pid: str, *, key: bytes = KEY, header: str = MSH) -> str:
    return read_message(message(header, pid, OBR, "OBX|1|TX|1||x"), key=key, registry=None)[0].case_id


def test_case_ids_follow_the_patient_and_the_key():
    plain = case("PID|1||00466144^^^HOSP^MR||Doe^Jo||19570706")
    assert plain == case("PID|1||123456780^^^^SS~00466144^^^HOSP^MR||Other^Name||19991231")
    assert plain == case("PID|1||0046-6144^^^HOSP&1.2.3&ISO^PI")
    assert plain != case("PID|1||00466144^^^ELSEWHERE^MR") and plain != case(
        "PID|1||00466144^^^HOSP^MR", key=KEY + b"x"
    )
    assert case("PID|1||7788^^^^MR") != case("PID|1||7788^^^^MR", header=MSH.replace("LAB", "OTHER"))
    assert case("PID|1||123456780^^^^SS") == case("PID|1||||||||||||||||||123-45-6780", header=MSH.replace("LAB", "B"))
    assert case("PID|1||||Doe^Jo||19570706") == case("PID|1||000000||DOE^JO||195707061200")
    assert case("PID|1|7788") == case("PID|1||7788")
    # A visit's number is no patient's, wherever it stands.
    assert plain == case("PID|1||V100^^^HOSP^VN~00466144^^^HOSP^MR") == case("PID|1||00466144^^^HOSP^MR~A7^^^HOSP^AN")
    assert plain == case("PID|1||77^^^HOSP^XX~00466144^^^HOSP^PT") == case("PID|1||V100^^^HOSP^VN~00466144^^^HOSP")
    # An authority may be told by its number alone: two of them have two patients under one number.
    assert case("PID|1||7788^^^&1.2.3&ISO^MR") != case("PID|1||7788^^^&1.2.4&ISO^MR")
    named = "||Doe^Jo||19570706"
    assert case(f"PID|1||V100^^^HOSP^VN{named}") == case(f"PID|1||V101^^^HOSP^VN{named}") != case("PID|1||V100^^^H^VN")


def test_the_patient_does_not_reach_the_text():
    report = read(
        MSH, PID, "NK1|1|Quastenflosser^Eberhard|SPO|||(518)555-0199", OBR,
        "OBX|1|TX|22636-5||Mrs. Quastenflosser (DOB 7/6/1957, MRN 466144) of 495 East Overshoot Drive.",
        "OBX|2|TX|22634-0||Labelled HILDEGARD QUASTENFLOSSER; husband Eberhard, 518-555-0199.",
        "OBX|3|TX|Quastenflosser^Quastenflosser||heading",
    )  # fmt: skip
    assert not any(secret in report.text.lower() for secret in (*SECRETS, "eberhard", "0199", "7/6/1957"))
    assert report.masked == 8
    assert "Labelled [patient]; husband [patient], [number]." in report.text


def test_bars_that_a_laboratory_did_not_escape_are_text():
    text = "ER | PR|HER2 positive"
    for behind in ("||||||F", "|||N|||F|||200505021212", "||||||c"):
        assert read(MSH, PID, OBR, f"OBX|1|TX|22637-3||{text}{behind}").text == f"FINAL DIAGNOSIS\n{text}"
    # Where the status stands where it should, or nowhere, what lies behind the text is none of it.
    for behind in ("|unit|range||||F|more|F", "||||||||20050502||F", "||||||", f"||||||||||{SECRETS[0]}|||||||F"):
        assert read(MSH, PID, OBR, f"OBX|1|TX|22637-3||polyp{behind}").text == "FINAL DIAGNOSIS\npolyp"


def test_nothing_is_no_text_and_a_number_keeps_its_unit():
    with pytest.raises(UnusableMessage, match="holds no report text"):
        read(MSH, PID, OBR, 'OBX|1|TX|22637-3||""||||||F')
    assert body("OBX|1|ST|X^Size^L||>2.5|cm||||F") == "SIZE\n>2.5 cm"
    assert body("OBX|1|ST|X^Size^L||two|cm||||F") == "SIZE\ntwo"


def test_a_day_that_stands_for_none_is_none():
    report = read(
        MSH, PID, OBR.replace("199707251630", "00010101000000") + "|" * 7 + "19970801", "OBX|1|TX|22637-3||polyp"
    )
    assert (report.date, report.year) == (datetime.date(1997, 8, 1), 1997)


def test_addresses_phones_and_people_in_the_other_places_where_messages_have_them():
    """A street in pieces, a phone with its extension or unformatted, a contact, a guarantor, who is insured."""
    home, phones = "12 Elmtree Road&Elmtree Road&12^^Delmar", "(518)555-0123X22~^PRN^PH^^1^^^^^^^518 555 0144"
    pid = f"PID|1||77^^^H^MR||McMuffin^Jo||19570706||||{home}||{phones}"
    kin = "NK1|1|" + "|" * 28 + "Zanders^Quilby|^PRN^PH^^1^518^5550188|9 Oakroot Lane"
    others = ["GT1|1||Tarkington^Rob", "IN1|1" + "|" * 15 + "Vandermolen^Ute"]
    text = "of 12 Elmtree Road, 518-555-0123, 555-0144; Zanders, 518.555.0188, 9 Oakroot Lane, Tarkington, Ute, "
    report = read(MSH, pid, kin, *others, OBR, f"OBX|1|TX|22636-5||{text}Mc\u00adMuffin")
    assert report.text.split("\n")[1] == (
        "of [address], [number], [number]; [patient], [number], [address], [patient], [patient], [patient]"
    )


def test_a_kind_in_words_does_not_name_the_patient():
    assert read(MSH, PID, OBR.replace("11529-5^", "^Biopsy of QUASTENFLOSSER, "), "OBX|1|TX|1||x").kind == (
        "Biopsy of [patient], Surgical Pathology"
    )


SEGMENTS = [
    PID,
    "ORC|RE",
    OBR,
    "OBX|1|TX|22636-5^history^LN||Lump of Hildegard",
    r"OBX|2|FT|22637-3^final^LN|1|ductal\.br\carcinoma||||||F",
    "SPM|1|||TISS^Tissue",
    "OBX|1|CWE|22633-2^specimen^LN|2|C50.4^Left breast",
]


@given(
    order=st.permutations(SEGMENTS),
    cuts=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 6), st.binary(max_size=6)), max_size=8),
)
@settings(max_examples=400, deadline=None)
def test_no_damage_makes_it_fall_over(order, cuts):
    content = message(MSH, *order, MSH, *SEGMENTS)
    for place, length, insert in cuts:
        content = content[:place] + insert + content[place + length :]
    for outcome in read_messages(io.BytesIO(content), key=KEY, registry="R"):
        if isinstance(outcome, Skipped):
            assert not any(secret in outcome.reason.lower() for secret in SECRETS)
        else:
            for report in outcome:
                assert report.text.strip() and report.case_id.startswith("case-")


@given(
    order=st.permutations(SEGMENTS[1:]), place=st.integers(0, 6), damage=st.text("PIDX|?#0 ", min_size=1, max_size=4)
)
@settings(max_examples=300, deadline=None)
def test_a_damaged_pid_is_never_text(order, place, damage):
    """A second PID line whose name is garbled stands anywhere: its fields stay out of every text."""
    garbled = f"{damage}|1||88123^^^HOSP^MR||Zebrowski^Xaver||19440101"  # values the mask has not been told of
    segments = [*order[:place], garbled, *order[place:]]
    for outcome in read_messages(io.BytesIO(message(MSH, PID, *segments)), key=KEY, registry="R"):
        for report in outcome if isinstance(outcome, list) else []:
            assert not any(secret in report.text.lower() for secret in ("88123", "zebrowski", "xaver", "19440101"))
