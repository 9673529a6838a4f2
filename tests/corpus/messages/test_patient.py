"""The patient's fields: ids that cannot be turned back, and a mask that finds the patient but spares the report."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pathveil.corpus.messages.patient import Mask, case_id, read_key, report_id
from pathveil.errors import UsageError


def test_ids_are_an_hmac_of_parts_that_cannot_run_together():
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in (b"case", b"number", b"LAB", b"77"))
    assert case_id(b"k", "number", "LAB", "77") == "case-" + hmac.new(b"k", framed, hashlib.sha256).hexdigest()[:24]
    assert case_id(b"k", "number", "LAB7", "7") != case_id(b"k", "number", "LAB", "77")
    assert case_id(b"k", "a") != case_id(b"l", "a")
    assert case_id(b"k", "a").split("-")[1] != report_id(b"k", "a").split("-")[1]


def test_a_key_is_read_without_its_line_end_and_must_be_long(tmp_path):
    path = tmp_path / "key"
    path.write_text("0123456789abcdef0123\n")
    assert read_key(path) == b"0123456789abcdef0123"
    path.write_text("short")
    with pytest.raises(UsageError, match="the key has 5 bytes, expected at least 16"):
        read_key(path)
    with pytest.raises(UsageError, match=r"cannot be read .*token_hex"):
        read_key(tmp_path / "none")
    path.write_text("-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n")
    with pytest.raises(UsageError, match="is a key that signs or verifies; expected a secret of its own"):
        read_key(path)


NAME = ("Quastenflosser", "Hildegard", "Maria")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hildegard Quastenflosser, 47", "[patient], 47"),
        ("QUASTENFLOSSER, HILDEGARD M", "[patient] M"),
        ("Quastenflosser H: breast", "[patient] H: breast"),
        ("Hildegard M. Quastenflosser", "[patient]"),
        ("Mrs. quastenflosser's mass", "Mrs. [patient]'s mass"),
        ("hildegardian unquastenflosser", "hildegardian unquastenflosser"),
        ("MRN 00466144 / 466144 / 0046-6144", "MRN [number] / [number] / [number]"),
        ("SSN 123-45-6789, 123456789", "SSN [number], [number]"),
        ("1234567890 and 99123456789", "1234567890 and 99123456789"),
        ("lives at 495 East  Overshoot Drive now", "lives at [address] now"),
        ("call (518) 555-0137 or 518.555.0137", "call ([number] or [number]"),
        ("+15185550137, +1 518 555 0137, 001", "+1[number], +1 [number], 001"),
        ("at home 555-0137, 555.0137; block 5550137", "at home [number], [number]; block 5550137"),
        ("MRN00466144, MRN:00466144", "MRN[number], MRN:[number]"),
        ("QUASTENFLOSSER,HILDEGARD; Hildegard/Quastenflosser", "[patient]; [patient]"),
        ("photo QUASTENFLOSSER_HILDEGARD_1.jpg, MRN_00466144", "photo [patient]_1.jpg, MRN_[number]"),
        ("2 of 14 nodes, 0.4 cm", "2 of 14 nodes, 0.4 cm"),
    ],
)
def test_what_is_masked(text, expected):
    mask = Mask(
        names=[NAME],
        numbers=["00466144", "123-45-6789", "(518)555-0137", "12", ""],
        streets=["495 East Overshoot Drive", ""],
    )
    masked, count = mask(text)
    assert masked == expected
    assert count == sum(expected.count(mark) for mark in ("[patient]", "[number]", "[address]"))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("O'Brien", "O’Brien, OBRIEN, O' BRIEN; Brien", "[patient], [patient], [patient]; [patient]"),
        ("OBRIEN", "Mrs. O'Brien, O’Brien", "Mrs. [patient], [patient]"),
        ("MCDONALD", "Mc Donald, McDonald, Donald", "[patient], [patient], Donald"),
        ("Smith-Jones", "SMITHJONES, Smith Jones", "[patient], [patient]"),
        ("De La Cruz", "Delacruz, de la Cruz", "[patient], [patient]"),
        ("St. Clairemont", "STCLAIREMONT, St Clairemont", "[patient], [patient]"),
        ("Le Sion", "Le Sion: one lesion", "[patient]: one lesion"),
        ("---", "3 - 4 --- 5", "3 - 4 --- 5"),
    ],
)
def test_names_as_other_systems_join_and_part_them(name, text, expected):
    assert Mask(names=[(name,)])(text)[0] == expected


@pytest.mark.parametrize(
    "written",
    [
        "6 July '57",
        "July 6, ’57",
        "1957-07-06",
        "19570706",
        "07/06/1957",
        "7/6/57",
        "6.7.1957",
        "July 6, 1957",
        "6 Jul 1957",
        "06-JUL-57",
        "Jul. 6th, 1957",
        "6th July 1957",
        "6th of July, 1957",
        "6. Juli 1957",
        "1957/7/6",
        "07 06 1957",
    ],
)
def test_birth_dates_as_people_write_them(written):
    mask = Mask(births=["19570706120000"])
    assert mask(f"DOB {written}.") == ("DOB [date].", 1)
    assert mask(f"12 {written}, DOB{written}") == ("12 [date], DOB[date]", 2)
    assert mask(f"born {written}T00:00")[0] == "born [date]T00:00"
    assert Mask(births=["19570306"])("6. März 1957, 6. MÄRZ 1957") == ("[date], [date]", 2)


def test_no_text_keeps_the_search_for_a_date_busy():
    """A run of months took minutes."""
    for piece in ("jan", "1-", "jan-", "1 1 ", "6th of "):
        assert Mask(births=["19570106"])(piece * 50_000 + " jan 1957")[1] == 0


def test_other_dates_are_left():
    assert Mask(births=["19570706", "1957", ""])("seen 7/7/1957 and 1957-08-06")[1] == 0
    assert Mask(births=["19570306"])("6. Maerz 1957, 6. März 1957, March 6, 1957, 6. Mai 1957")[1] == 3
    assert Mask(births=["19571306"])("13/06/1957, 1957-13-06, Foo 6 1957") == ("[date], [date], Foo 6 1957", 2)


def test_names_that_are_words_of_reports():
    mask = Mask(names=[("Small", "Barrett")])
    assert mask("small bowel, Barrett esophagus")[1] == 0
    assert mask("Mr. Small, small bowel") == ("Mr. [patient], small bowel", 1)
    assert mask("Barrett Small: small bowel") == ("[patient]: small bowel", 1)
    assert mask("Patient: SMALL, BARRETT") == ("Patient: [patient]", 1)


def test_names_that_are_words_of_every_report():
    colon, gross = Mask(names=[("Colon", "Maria")]), Mask(names=[("Gross", "Peter")])
    assert colon("Colon, biopsy: adenocarcinoma of the sigmoid colon.")[1] == 0
    assert colon("Mrs. Colon; COLON,MARIA; the colon") == ("Mrs. [patient]; [patient]; the colon", 2)
    assert gross("Taken from the patient. Gross: a mass.")[1] == 0
    headed = gross("FINAL DIAGNOSIS\nof Gross, Peter, seen by Peter\n\nGROSS DESCRIPTION\nGross: a mass.")
    assert headed == ("FINAL DIAGNOSIS\nof [patient], seen by [patient]\n\nGROSS DESCRIPTION\nGross: a mass.", 2)


def test_names_in_one_part_or_in_other_characters():
    assert Mask(names=[("McMuffin, Candy", "")])("Mrs. McMuffin; Candy McMuffin")[0] == "Mrs. [patient]; [patient]"
    composed, split = "M\u00fcller", "Mu\u0308ller"
    for name in (composed, split):
        mask = Mask(names=[(name, "J\u00f6rg")])
        assert mask(f"{composed}; {split}; JO\u0308RG") == ("[patient]; [patient]; [patient]", 3)
    for written in ("Mueller, Joerg", "Muller; JORG", "MÜLLER; JOERG"):
        assert "ller" not in mask(written)[0].lower() and "rg" not in mask(written)[0].lower(), written
    two = Mask(names=[("MUELLER", "Voß")])
    assert two("Frau Müller, mueller; Voss, Voß")[0] == "Frau [patient], [patient]; [patient], [patient]"
    assert Mask(numbers=["+1 (518) 555-0137"])("518-555-0137 or 555-0137")[0] == "[number] or [number]"
    assert Mask(names=[("Quast", "")])(split) == (split, 0)  # a text that names nobody stays as it is
    assert Mask(names=[("Ng", "Li")])("Mrs. Ng, NG,LI, from ng to mg")[0] == "Mrs. [patient], [patient], from ng to mg"


def test_names_of_several_words_and_very_short_ones():
    mask = Mask(names=[("van der Berg-Svensson", "Li")])
    assert mask("Svensson; Van Der Berg Svensson; li")[0] == "[patient]; [patient]; li"
    assert mask("Li van der Berg-Svensson")[0] == "[patient]"
    assert mask("von Willebrand, van Gogh")[1] == 0


@given(st.text(max_size=80), st.lists(st.text(max_size=12), max_size=3), st.text(max_size=12))
def test_no_name_or_number_breaks_the_mask(text, name, number):
    masked, count = Mask(names=[name], numbers=[number], births=[number], streets=[number])(text)
    assert (masked == text) or count


@given(st.from_regex(r"[A-Za-z]{5,9}", fullmatch=True), st.text(max_size=40))
def test_a_name_between_spaces_never_survives(name, around):
    word = f"x{name}"  # no word of reports begins so
    masked, _ = Mask(names=[(word, "")])(f"{around} {word} {around}")
    assert f" {word} " not in masked
