"""Reports that come several times: which version stands, in HL7 and FHIR, whatever order they come in."""

import itertools
import json
import random

import polars as pl
import pytest

from pathveil.bundle.incoming import OneReading, read_files
from pathveil.corpus.intake import import_corpus
from pathveil.corpus.messages.versions import (
    ALL,
    APPENDED,
    BITS,
    CORRECTED,
    FINAL,
    PRELIMINARY,
    RENEWED,
    WITHDRAWN,
    Version,
    Versions,
    bits_of,
    outdated,
)
from pathveil.errors import CorpusError

KEY = b"a key of sixteen bytes"
WHOLE = ("FINAL DIAGNOSIS", "GROSS DESCRIPTION")


def version(state: int, day: int, *headings: str, key: int = 1, length: int = 100) -> Version:
    bits = bits_of(headings) if headings else ALL
    return Version(key=key, state=state, issued=day, sent=0, sections=bits, length=length)


@pytest.mark.parametrize(
    ("versions", "replaced", "withdrawn"),
    [
        ([(PRELIMINARY, 1, "GROSS DESCRIPTION"), (FINAL, 2, "FINAL DIAGNOSIS")], [0], []),
        ([(FINAL, 1, *WHOLE), (FINAL, 2, *WHOLE, "COMMENT")], [0], []),
        ([(FINAL, 1, *WHOLE), (FINAL, 2, "FINAL DIAGNOSIS")], [], []),  # what it lacks may not be lost
        ([(FINAL, 1, *WHOLE), (CORRECTED, 2, "FINAL DIAGNOSIS")], [0], []),
        ([(FINAL, 1, *WHOLE), (CORRECTED, 2, "GROSS DESCRIPTION")], [], []),
        ([(FINAL, 1, *WHOLE), (CORRECTED, 2, "SUPPLEMENTAL REPORT", "COMMENT")], [], []),
        ([(FINAL, 1, *WHOLE), (FINAL, 2, "SUPPLEMENTAL REPORT"), (CORRECTED, 3, *WHOLE)], [0], []),
        ([(FINAL, 1, "SUPPLEMENTAL REPORT"), (CORRECTED, 3, *WHOLE, "SUPPLEMENTAL REPORT")], [0], []),
        ([(PRELIMINARY, 1, "SUPPLEMENTAL REPORT"), (FINAL, 2, "SUPPLEMENTAL REPORT")], [0], []),
        ([(FINAL, 2, *WHOLE), (PRELIMINARY, 3, *WHOLE)], [1], []),
        ([(FINAL, 2, *WHOLE), (PRELIMINARY, 3, "SUPPLEMENTAL REPORT")], [], []),
        ([(FINAL, 1), (FINAL, 2), (WITHDRAWN, 3)], [0], [1]),
        ([(FINAL, 1), (WITHDRAWN, 2), (FINAL, 3)], [], [0]),
        ([(WITHDRAWN, 2), (FINAL, 3)], [], []),
        ([(FINAL, 1), (RENEWED, 2), (FINAL, 2)], [], [0]),
        ([(FINAL, 1, "TUMOUR BOARD"), (FINAL, 2, "TUMOUR BOARD")], [0], []),
    ],
)
def test_what_stands(versions, replaced, withdrawn):
    """In whatever order they arrive: what counts is when they were issued."""
    for order in itertools.permutations(range(len(versions))):
        found = outdated([version(*versions[place]) for place in order])
        assert [sorted(order[place] for place in places) for places in found] == [replaced, withdrawn]


@pytest.mark.parametrize("day", [0, 5])
def test_versions_of_one_time_or_none_count_by_what_they_are(day):
    assert outdated([version(CORRECTED, day), version(FINAL, 5)]) == ([1], [])
    assert outdated([version(FINAL, 5), version(CORRECTED, day)]) == ([0], [])
    assert outdated([version(FINAL, day), version(PRELIMINARY, 5)]) == ([1], [])
    assert outdated([version(WITHDRAWN, day), version(FINAL, 5)]) == ([], [1])
    assert outdated([version(FINAL, day, length=20), version(FINAL, 5, length=10)]) == ([1], [])


def test_a_section_that_is_lost_is_noticed_by_its_name():
    names = [f"SECTION {number}" for number in range(300)]
    pairs = list(itertools.pairwise(names))
    noticed = [bits_of([one]) & ~bits_of([other]) != 0 for one, other in pairs]
    assert sum(noticed) > 0.99 * len(pairs)
    first, second = version(FINAL, 1, *WHOLE, "FLOW CYTOMETRY"), version(FINAL, 2, *WHOLE, "FISH")
    assert outdated([first, second]) == ([], [])


def test_an_appended_report_that_is_shorter_holds_the_addition_alone():
    assert outdated([version(FINAL, 1, length=90), version(APPENDED, 2, length=100)]) == ([0], [])
    assert outdated([version(FINAL, 1, *WHOLE, length=90), version(APPENDED, 2, *WHOLE, length=20)]) == ([], [])


def test_many_versions_against_plain_python():
    rng = random.Random(1)
    versions, groups = Versions(), {}
    for number in range(1, 3_000):
        one = version(rng.choice((PRELIMINARY, FINAL, CORRECTED)), rng.randrange(1, 9), key=rng.randrange(1_500))
        versions.add(one, number)
        groups.setdefault(one.key, []).append((number, one._replace(content=number)))
    settled = versions.settle()
    gone = {numbers[place] for numbers, ones in (zip(*group, strict=True) for group in groups.values())
            for place in outdated(list(ones))[0]}  # fmt: skip
    assert settled is not None and len(gone) > 500 and len(settled.replaced) == len(gone)
    assert all(settled.replaced.holds(number) == (number in gone) for number in range(1, 3_000))


def message(
    number: str,
    *obx: str,
    status: str = "F",
    issued: str = "",
    sent: str = "",
    patient: int = 7,
    kind: str = "11529-5",
) -> str:
    order = f"OBR|1||{number}|{kind}|||20160502" + "|" * 15 + f"{issued}|||{status}"
    lines = [f"OBX|{place}|TX|{one}" for place, one in enumerate(obx, start=1)]
    head = f"MSH|^~\\&||LAB|||{sent}||ORU^R01|M{number}"
    return "\r".join([head, f"PID|1||{patient}0466144^^^LAB^MR||Quastenflosser^Hilde", order, *lines]) + "\r"


def imported(tmp_path, *messages: str):
    (tmp_path / "feed.hl7").write_text("".join(messages), newline="")
    result = import_corpus(tmp_path / "feed.hl7", out=tmp_path / "c.parquet", key=KEY)
    assert result.hl7 is not None
    texts = pl.read_parquet(tmp_path / "c.parquet")["text"].to_list()
    assert len(texts) == result.reports == result.hl7.reports
    return result, texts


def test_versions_in_hl7(tmp_path):
    result, texts = imported(
        tmp_path,
        message("S1", "22637-3||carcinoma||||||P", status="P"),
        message("S1", "22637-3||carcinoma, grade 2||||||F", issued="20160510"),
        message("S1", "22637-3||carcinoma, grade 3||||||C", issued="201605120900"),  # told by its OBX
        message("S1", "22639-9||ADDENDUM: HER2 negative||||||F", issued="20160520"),
        message("S1", "22637-3||another patient's||||||F", patient=8),
        message("S1", "22637-3||cytology||||||F", kind="33716-2"),
        message("S2", "22637-3||waits||||||P", status="P"),
        message("S3", "22637-3||cancelled||||||F", issued="20160501"),
        message("S3", status="X", issued="20160502"),
        message("S4", "22637-3||wrong patient||||||F"),
        message("S4", "22637-3||wrong patient||||||W", "22634-0||x||||||D"),
        message("1", "22637-3||no number||||||F"),
        message("1", "22637-3||that tells reports apart||||||F"),
    )
    assert [text.split("\n")[1] for text in texts] == [
        "carcinoma, grade 3", "ADDENDUM: HER2 negative", "another patient's", "cytology", "waits", "no number",
        "that tells reports apart",
    ]  # fmt: skip
    assert result.hl7.replaced == 2 and result.hl7.withdrawn == 2 and result.hl7.repeated == 0
    assert [one.reason for one in result.hl7.skipped] == ["withdraws its report (OBR-25 X, or OBX-11 D, W or X)"] * 2
    summary = result.summary()
    assert (
        "  replaced  2 reports by a later version\n" in summary
        and "  withdrawn 2 reports by a later message" in summary
    )
    assert result.registries == {"LAB": 7} and result.cases == 2 and '"replaced": 2' in result.to_json()


FIRST = message("S1", "22637-3||first", sent="20160501")
AGAIN = message("S1", "22637-3||first", sent="20160503")
CHANGED = message("S1", "22637-3||changed", status="C", sent="20160502")


@pytest.mark.parametrize("order", list(itertools.permutations([FIRST, AGAIN, CHANGED])))
def test_what_is_sent_again_counts_from_when_it_was_first_sent(tmp_path, order):
    result, texts = imported(tmp_path, *order)
    assert [text.split("\n")[1] for text in texts] == ["changed"] and result.hl7.repeated == 1


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"issued": "20161106103000+0000"}, {"issued": "20161106070000-0500"}),
        ({"issued": "20160502100000.1"}, {"issued": "20160502100000.9"}),
        ({"sent": "20160503"}, {"issued": "20160502", "sent": "20160510"}),  # both have MSH-7 alone
        ({"status": "A", "issued": "20160503"}, {"issued": "20160502"}),
        ({"status": "P", "issued": "20160503"}, {"issued": "20160502"}),
    ],
)
def test_which_of_two_messages_is_the_later_version(tmp_path, first, last):
    state = "C" if first.get("status") == "P" else "F"
    messages = [
        message("S1", f"22637-3||first||||||{state}", **first),
        message("S1", "22637-3||last||||||F", **({"status": "C"} if "status" not in first else {}), **last),
    ]
    for order in (messages, messages[::-1]):
        _, texts = imported(tmp_path, *order)
        assert [text.split("\n")[1] for text in texts] == ["last"]


def test_versions_over_several_files_and_in_predict(tmp_path):
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "2016-05.hl7").write_text(message("S1", "22637-3||grade 2", issued="20160510"), newline="")
    (feed / "2016-06.hl7").write_text(message("S1", "22637-3||grade 3", status="C", issued="20160602"), newline="")
    (feed / "2016-07.hl7").write_text(message("S1", "22637-3||grade 1", status="P", issued="20160501"), newline="")
    result = import_corpus(feed, out=tmp_path / "c.parquet", key=KEY)
    assert result.reports == 1 and result.hl7 is not None and result.hl7.replaced == 2
    reading = OneReading()
    reports = [one for batch in read_files(feed, form="auto", key=KEY, reading=reading) for one in batch]
    assert [one.text for one in reports] == ["FINAL DIAGNOSIS\ngrade 3"] and reading.tally.replaced == 2


def test_what_is_taken_out_counts_as_if_it_were_never_read(tmp_path):
    """Beside a table the sources are read a second time, without what does not stand: both ways say the same."""
    draw = random.Random(3)
    times = [f"201605{n // 24 + 1:02}{n % 24:02}" for n in range(120)]
    messages = [
        message(f"S{draw.randrange(40)}", f"22637-3||Hilde Quastenflosser {n}", status=draw.choice("PFCX"), issued=when)
        for n, when in enumerate(times)
    ]
    alone, _ = imported(tmp_path, *messages, messages[0])
    (tmp_path / "t.csv").write_text("report_id,case_id,registry,text\nt,t,T,colon\n")
    rows = pl.read_parquet(tmp_path / "c.parquet")
    both = import_corpus([tmp_path / "feed.hl7", tmp_path / "t.csv"], out=tmp_path / "b.parquet", key=KEY)
    assert alone.hl7 == both.hl7 and alone.hl7.replaced > 20 and alone.hl7.withdrawn > 5
    assert (
        alone.hl7.masked_reports == alone.reports < 40 and alone.cases == 1 and alone.registries == {"LAB": rows.height}
    )
    beside = pl.read_parquet(tmp_path / "b.parquet").filter(pl.col("report_id") != "t").select(rows.columns)
    assert beside.sort("report_id").equals(rows.sort("report_id"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.parquet", "c.parquet", "feed.hl7", "t.csv"]


def test_all_reports_withdrawn(tmp_path):
    with pytest.raises(CorpusError, match=r"all reports that were sent are withdrawn \(1\)"):
        imported(tmp_path, message("S1", "22637-3||x", issued="20160501"), message("S1", status="X", issued="20160502"))
    assert not (tmp_path / "c.parquet").exists()


def resource(conclusion: str, **change) -> dict:
    return {
        "resourceType": "DiagnosticReport", "id": "r1", "status": "final", "subject": {"reference": "Patient/p1"},
        "identifier": [{"value": "S16-0431"}], "code": {"coding": [{"code": "11526-1"}]},
        "issued": "2016-05-02T10:00:00Z", "conclusion": conclusion, **change,
    }  # fmt: skip


def test_versions_in_fhir(tmp_path):
    other = {"identifier": [{"value": "S16-0999"}]}
    third = {"identifier": [{"value": "S16-0777"}], "issued": ""}
    resources = [
        resource("amended last", status="amended", issued="2016-05-03T09:00:00+02:00"),
        resource("first", status="final"),
        resource("before", status="preliminary", issued="2016-05-01T10:00:00Z"),
        resource("wrong patient", **other),
        resource("", status="entered-in-error", **other, issued="2016-05-04T10:00:00Z"),
        resource("newer by its version", **third, meta={"versionId": "10"}),
        resource("older by its version", **third, meta={"versionId": "9"}),
    ]
    (tmp_path / "reports.ndjson").write_text("\n".join(map(json.dumps, resources)))
    result = import_corpus(tmp_path / "reports.ndjson", out=tmp_path / "c.parquet", registry="North", key=KEY)
    texts = pl.read_parquet(tmp_path / "c.parquet")["text"].to_list()
    assert [text.split("\n")[1] for text in texts] == ["amended last", "newer by its version"]
    assert result.hl7 is not None and (result.hl7.replaced, result.hl7.withdrawn) == (3, 1)


def test_a_number_of_very_many_reports_is_no_number():
    """Each would be held against all before it: a file could keep an import busy for hours."""
    versions = Versions()
    for number in range(200_000):
        versions.add(
            Version(key=7, state=FINAL, issued=1, sent=1, sections=BITS["SUPPLEMENTAL REPORT"], length=9), number
        )
    assert versions.settle() is None
