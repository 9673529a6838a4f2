"""What names people and days is found by its form, clinical forms are left alone, and every path hides the same."""

import time
from itertools import pairwise
from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import hostile
from pathveil.corpus.synth import SynthSettings, write_corpus
from pathveil.text import identifier_patterns as form
from pathveil.text import identifiers
from pathveil.text.bulk import BulkTokenizer, Numbers
from pathveil.text.identifiers import TOKENS, find_identifiers, hide
from pathveil.text.tokenizer import read_settings, tokenize, tokenize_spans
from pathveil.vocabulary import Vocabulary
from pathveil.vocabulary.corpus_counts import write_counts
from pathveil.vocabulary.counts import WordCounts
from pathveil.vocabulary.encoding import encode, encode_texts
from pathveil.vocabulary.selection import Measures, select
from pathveil.vocabulary.tokens import tokens


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("received 03/12/2008, 12-3-98 and 2008-03-12", ["date"] * 3),
        ("on 7 January 2015, March 2nd, 2009, JAN 4, 2011 and Oct 2009", ["date"] * 4),
        ("12.03.2008", ["date"]),
        ("fixed at 14:05, 9:12 a.m. and 11:19:08", ["time"] * 3),
        ("call (217) 555-0134, 217-555-0134, 217.555.0134 or 01645 555799", ["phone"] * 4),
        ("SSN 555-12-3456, record 636-18-10", ["number"] * 2),
        ("S08-12345 SP-2008-06231 10:S5285 11SP94490 H16/1234 13-S-14353 MR-5223256 H820713", ["number"] * 8),
        ("MRN: 00466144, Accession #: 4711-22", ["number"] * 2),
        ("uuid 5f8c3768-31f8-4566-8ebf-21e7f4e6499d", ["number"]),
        ("lives at 4133 Spring Place, Valedale, Q2 8XQ", ["address"]),
        ("Apt 5644, Arbor Avenue, Redglen 5625", ["address"]),
        ("mail cjackson@mail.example", ["email"]),
        ("Dr. Ada Quarbescu, Mrs. O'Brien and DR. KOWALSKI", ["name"] * 3),
        ("John B. Smith, M.D.", ["name"]),
        ('labeled "Sadokojian, Albert"', ["name"]),
        ("Patient: PERKINS, VICTOR\nlater Perkins, and PERKINS again", ["name"] * 2),
        ("Electronically signed out *** Justin Brzezunik", ["name"]),
        ("Daughter Jennifer Martin came", ["name"]),
        ("Mrs Smith, Mr Jones, Ms Brown, Herr Meier and Frau Schulz", ["name"] * 5),
        ("Dr. van der Berg, Dr. J. de Groot and Prof. Dr. Jürgen Groß", ["name"] * 3),
        ("Name: SMITH, JOHN", ["name"]),
        ("Gross\nName : Jane Doe", ["name"]),
        ("Pt: Jones, Mary\nPatient's name: Ada Jones", ["name"] * 2),
        ("cc: John Smith\nElectronic signature: Ada Byron 2/3/2008", ["name", "name", "date"]),
        ("Discussed with Ada Byron. We informed John Smith, at the request of Mary Jones", ["name"] * 3),
        ("Paitent: Parks, Karen  MRN: 00466144", ["name", "number"]),
        ("labeled Ada Byron and the number 327-43-00", ["name", "number"]),
        ("Carol Ingram, 3052 Harbor Place, Elderbank", ["name", "address"]),
        ("Unremarkable.\nAda Byron\nAttending pathologist 2/3/2008", ["name", "date"]),
        ("J. SMITH, M.D. and Jane Doe RN", ["name"] * 2),
        ("12 Main St, Toronto, ON M5V 3L9", ["address"]),
        ("fixed at 9:12, on 2/3/2008 9:14 and 09:28", ["time", "date", "time", "time"]),
    ],
)
def test_found_by_form(text, found):
    assert [kind for _, _, kind in find_identifiers(text)] == found


@pytest.mark.parametrize(
    "text",
    [
        "Gleason 3+4=7, 0/12 and 2/3/5 nodes, 20-30%, grade 2-3, 1.2 x 0.5 x 0.3 cm, 10-12 mitoses per 10 HPF",
        "left breast at 2:00, 10:30 position, 12:15 o'clock, ratio 1:20",
        "C50.4, 8500/3, M-85003, T-53000, pT2 pN1a(2/14), Ki-67, CD31, HER2 3+, p53, MIB-1, CAM5.2, AE1/AE3",
        "Barrett, Paget and Crohn. Gross Description: received Fresh. Reviewed by pathologist. See note. Left Breast",
        "1,250 g 101 007 0100 12345678, block A1-A12, slides 1-14, levels 3.4.5, 45,XY,del(5)",
        "FINAL DIAGNOSIS: LEFT BREAST, MASTECTOMY. PATIENT NAME: REDACTED. PROCEDURE: EXCISION, LYMPH NODE",
        "may 5 of 2010 slides; march 3; in 2008 the patient",
        "nodes (positive:total): 5:31, two of fourteen (2:14), Gleason 4:80%, 5:20%, level 2:11, Cancer 3:249-255",
        "IHC P16-88342, KI67-88360, CD31-88342/, CK818-88342, S100-88342, ER-88360",
        "Labeled Right Ovary and the number of nodes. Marked Chronic Inflammation. Labeled Sigmoid Colon, 3 cm",
        "Discussed with Tumor Board. Seen by Light Microscopy. Informed Consent. cc: Left Breast. 20 cc: Clear Fluid",
        "Perineural Invasion\nVascular Invasion: Estrogen Receptor\nPathologist to review. MR Enterography, MS Plaque",
        "Größe 3,5 cm – „Mamma links“ · Ödem, Übersicht. Ähnliche Läsion; Médecin à voir: Épithélium Éosinophile",
    ],
)
def test_clinical_forms_stay(text):
    assert hide(text) == text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Seen by Dr. Étienne Girard and Dr. Çelik.", ["Étienne Girard", "Çelik"]),
        ("Mrs. Ángel Sánchez, Frau Özdemir, Prof. Öberg", ["Ángel Sánchez", "Özdemir", "Öberg"]),
        ("Dr. É. Girard, DR. MÜLLER, DR. ÇELIK, Dr. van Ørsted", ["É. Girard", "MÜLLER", "ÇELIK", "van Ørsted"]),
        ("Mr. O'Brien-Núñez; Mr. O’Éireann; Mr. D'Ângelo", ["O'Brien-Núñez", "O’Éireann", "D'Ângelo"]),
        ("Patient: ÖZTÜRK, ŞULE\nlater Öztürk, and ÖZTÜRK again", ["ÖZTÜRK, ŞULE", "ÖZTÜRK"]),
        ("Pt: Łukasz Żak\nPatient's name: Şule Öz", ["Łukasz Żak", "Şule Öz"]),
        ("Étienne Girard, M.D., É. GIRARD, MD and Øystein Ås RN", ["Étienne Girard", "É. GIRARD", "Øystein Ås"]),
        ("Discussed with Ángel Sánchez. cc: Çiğdem Çelik", ["Ángel Sánchez", "Çiğdem Çelik"]),
        ('labeled "Čapek, Öykü" and labeled Čapek Öykü, 327-43-00', ["Čapek, Öykü", "Čapek Öykü", "327-43-00"]),
        ("Paitent: Ñandú, Íñigo  MRN: 00466144", ["Ñandú, Íñigo", "00466144"]),
        ("Daughter Ümit Ünal came. Signed out by: Nguyễn Ánh", ["Ümit Ünal", "Nguyễn Ánh"]),
        ("Unremarkable.\nÉlodie Byron\nAttending pathologist", ["Élodie Byron"]),
        ("Dr. Çelik saw it. É. Çelik and Élodie Çelik agree; d'Çelik", ["Çelik", "É. Çelik", "Élodie Çelik", "Çelik"]),
        ("Dr. E\u0301tienne Girard, Dr. Mu\u0308ller", ["E\u0301tienne Girard", "Mu\u0308ller"]),
    ],
)
def test_names_with_letters_beyond_a_to_z(text, names):
    assert [text[start:end] for start, end, _ in find_identifiers(text)] == names


def test_a_name_is_hidden_wherever_the_report_has_it_and_words_of_reports_are_not():
    text = "Dr. Kowalski and Mr. Small. Kowalski found small bowel; Small cell carcinoma."
    assert tokenize(text) == [
        *("dr", "identifier_name", "and", "mr", "identifier_name", "identifier_name", "found"),
        *("small", "bowel", "small", "cell", "carcinoma"),
    ]  # fmt: skip


def test_what_is_given_of_a_name_is_hidden_with_the_part_that_is_known():
    text = "Mr. Owens. Seen by Dr. Ada Quarbescu. Valerie Owens came; J. Quarbescu, Ada B. Quarbescu; Axilla Owens"
    assert [text[start:end] for start, end, _ in find_identifiers(text)] == [
        *("Owens", "Ada Quarbescu", "Valerie Owens", "J. Quarbescu", "Ada B. Quarbescu", "Owens"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    write_corpus(SynthSettings(reports=300, seed=4), out=folder / "c.parquet", truth=folder / "t.parquet")
    return folder


# docs/corpus.md has the shares of 20,000 reports. No form tells a laboratory or a story.
MOST = {"service_date": 0.01, "birth_date": 0.01, "phone": 0.01, "email": 0, "address": 0.02, "record_number": 0.01}
MOST |= {"relative_name": 0.05, "physician_name": 0.05, "patient_name": 0.05}


def test_of_what_was_planted_little_is_left(synthetic):
    texts = dict(pl.read_parquet(synthetic / "c.parquet").select("report_id", "text").iter_rows())
    hidden = {report: [(start, end) for start, end, _ in find_identifiers(text)] for report, text in texts.items()}
    left: dict[str, list[bool]] = {}
    for report, kind, start, end in (
        pl.read_parquet(synthetic / "t.parquet").select("report_id", "kind", "start", "end").iter_rows()
    ):
        rest = [texts[report][at] for at in range(start, end) if not any(a <= at < b for a, b in hidden[report])]
        words = set(tokenize("".join(rest), identifiers=False)) - {"large_integer"}  # which says nothing of a number
        left.setdefault(kind, []).append(bool(words))
    for kind, most in MOST.items():
        assert sum(left[kind]) / len(left[kind]) <= most, kind


def test_every_path_gives_the_same_tokens(synthetic):
    texts = pl.read_parquet(synthetic / "c.parquet")["text"].to_list()[:60]
    plain = [tokenize(text) for text in texts]
    numbers = Numbers()
    ids, offsets = BulkTokenizer(numbers.__getitem__, identifiers=True).add(texts)
    names = list(numbers)
    assert [[names[i] for i in ids[a:b]] for a, b in pairwise(offsets)] == plain
    for text, expected in zip(texts, plain, strict=True):
        spans = tokenize_spans(text)
        assert [token for token, _, _ in spans] == expected
        for token, start, end in spans:
            if token in TOKENS.values():
                assert (start, end) in {(a, b) for a, b, _ in find_identifiers(text)}
    store = tokens(synthetic / "c.parquet")
    assert [store.words[i] for i in store.ids[: store.offsets[1]]] == plain[0]
    assert set(TOKENS.values()) & set(store.words)


def test_a_vocabulary_says_how_its_text_was_cut(synthetic):
    path = synthetic / "c.parquet"
    old = Vocabulary(words=("12", "left"), method="by hand", source={"text": "pathveil-text/2 words=1500"})
    new = Vocabulary(words=("12", "left"), method="by hand")
    assert (old.identifiers, new.identifiers) == (False, True)
    assert encode(path, old).provenance["text"] == "pathveil-text/2 words=1500"
    assert read_settings(encode(path, new).provenance["text"]) == (1500, True)
    many = ["left 12/03/2008"] * 101
    for vocabulary, length in ((old, 4), (new, 2)):
        assert encode_texts(many[:1], vocabulary)[1].tolist() == [0, length]
        assert encode_texts(many, vocabulary)[1][-1] == 101 * length


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="AaBbMmDdr.-/: ,0123456789\"'@|#\nÄ\ue100", max_size=60))
def test_whatever_comes_is_cut_the_same_way(text):
    found = find_identifiers(text)
    assert all(a < b for a, b, _ in found) and all(x[1] <= y[0] for x, y in pairwise(found))
    assert [token for token, _, _ in tokenize_spans(text)] == tokenize(text)
    numbers = Numbers()
    ids, _ = BulkTokenizer(numbers.__getitem__, identifiers=True).add([text])
    assert [list(numbers)[i] for i in ids] == tokenize(text)


def test_counts_and_words_chosen_from_them_keep_what_they_were_told_to(synthetic, tmp_path):
    for keep in (False, True):
        write_counts([synthetic / "c.parquet"], tmp_path / f"{keep}.npz", tasks=(), identifiers=not keep)
        chosen = select(Measures(WordCounts.load(tmp_path / f"{keep}.npz")), "occurrences >= 1")
        assert chosen.identifiers is not keep
        assert bool(set(TOKENS.values()) & set(chosen.words)) is not keep


PIECES = (
    "Dr. |Dr |Drs. |DR. |Mr. |MRS. |Ms. |Miss |Prof. |Ada|Smith|O'Brien|O’Brien|McDowell|SMITH|JOHN|Son |Per |Cc |wife "
    "|patient: |Patient name: |PATIENT:|Physician(s): |pathologist ***|signed by |Signed out by: |copies to |chart of "
    '|filed under |\nname: |, MD| M.D.| Ph.D.|, FCAP| D.O.| "|¦ |Apt. 12|P.O. Box 77|PO Box 1, |Jan|MAR|June|Sept.|12|3'
    "|2008|1999|08|555|0134|123456|12345| |  |.|,|-|/|:|#|(|)|\n|\t|*|@|'|’|é|ſ|\u212a|ı|İ|S|SP|TCGA-|A1|B234|MRN"
    "|Accession #: |Main|Street|Rd.|Springfield|IL|62701|st|th| of |am| o'clock|deadbeef|DEADBEEF|€|\ud800|_"
    "|5f8c3768-31f8-4566-8ebf-21e7f4e6499d|left breast|LEFT BREAST|R|Herr |Frau |Mrs |van |der |de la |Müller|É"
    "|Çelik|Émile |ÖZ|spoke with |notified |request of |name : |cc: |labeled | and the number "
    "|MRN: |DOB|(|\nStaff |pathologist|Pathologist|\r\n|, RN|, MBChB|at |2:14|09:28|P16-88342"
    "|CD31/88305|Main St|M5V 3L9|ø|J. |Prof. Dr. |Electronic signature: |axilla |Axilla |λ|×"
).split("|")
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(PIECES).map(lambda piece: piece.replace("¦", "|")), st.text("0123AZaz-/.:, ", max_size=6)
    ),
    max_size=30,
).map("".join)


@settings(max_examples=300)
@given(TEXTS)
def test_the_pass_over_capitals_and_digits_leaves_nothing_out(text):
    """What is tried nowhere else would be found nowhere else: every expression is tried at every place here."""
    hints: dict[int, str] = {match.start(): form.HINTS[match.lastindex or 0] for match in form.CUE.finditer(text)}
    for hint, expression in form.BY_HINT.items():
        for place in range(len(text)):
            match = expression.match(text, place)
            if match and identifiers._READERS[hint](match, text):
                wanted = {hint, "name"} if hint == "lettered" else {hint}
                is_within_word = text[max(0, place - 1) : place].isalnum()
                assert hints.get(place) in wanted or is_within_word, (hint, match)
    found = find_identifiers(text)
    with mock.patch.object(identifiers, "_runs", lambda text, places: [(0, len(text))]):
        assert find_identifiers(text) == found


def processor_time(text: str) -> float:
    began = time.process_time()
    hostile.read(text)
    return time.process_time() - began


@pytest.mark.parametrize("name", hostile.TEXTS)
def test_twice_the_text_takes_twice_the_time(name):
    short, long = hostile.TEXTS[name](100_000), hostile.TEXTS[name](200_000)
    assert any(processor_time(long) < 3 * processor_time(short) + 0.05 for _ in range(5))
