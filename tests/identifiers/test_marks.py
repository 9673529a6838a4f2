"""The compiled pass marks every place where an expression finds something: the expressions alone find nothing more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.identifiers import expressions as form
from pathveil.identifiers import hide, hide_all
from pathveil.identifiers.finding import _marks_of, _spans, encoded

PIECES = (
    "Dr. |Dr |Drs. |DR. |Mr. |MRS. |Ms. |Miss |Prof. |Ada|Smith|O'Brien|O’Brien|McDowell|SMITH|JOHN|Son |Per |Cc |wife "
    "|patient: |Patient name: |PATIENT:|Physician(s): |pathologist ***|signed by |Signed out by: |copies to |chart of "
    '|filed under |\nname: |, MD| M.D.| Ph.D.|, FCAP| D.O.| "|¦ |Apt. 12|P.O. Box 77|PO Box 1, |Jan|MAR|June|Sept.|12|3'
    "|2008|1999|08|555|0134|123456|12345| |  |.|,|-|/|:|#|(|)|\n|\t|*|@|'|’|é|ſ|\u212a|ı|İ|S|SP|TCGA-|A1|B234|MRN"
    "|Accession #: |Main|Street|Rd.|Springfield|IL|62701|st|th| of |am| o'clock|deadbeef|DEADBEEF|€|\ud800|_"
    "|5f8c3768-31f8-4566-8ebf-21e7f4e6499d|left breast|LEFT BREAST|R"
).split("|")
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(PIECES).map(lambda piece: piece.replace("¦", "|")), st.text("0123AZaz-/.:, ", max_size=6)
    ),
    max_size=30,
).map("".join)


def found_everywhere(text):
    """What the expressions find where each is tried at each place."""
    tried = [[0, kind, place, place] for kind in range(form.NAMES) for place in range(len(text))]
    return _spans(text, [*tried, [0, form.NAMES, 0, len(text)]])


@settings(max_examples=150)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_nothing_is_found_where_no_mark_is(texts):
    for text in texts:
        assert _spans(text, _marks_of(*encoded([text]))) == found_everywhere(text)
    data, ends = hide_all(texts)
    parts = [part.tobytes().decode("utf-8", "surrogatepass") for part in np.split(np.frombuffer(data, np.uint8), ends)]
    assert parts == [*(hide(text) + "\n" for text in texts), "\n" * form.AHEAD]


@pytest.mark.parametrize(
    "text",
    [
        "Invasive carcinoma of the Left Breast, Grade 2, 1.5 x 2 cm, ER positive 90%, Ki-67 20-30%, CD20. pT2 N0",
        "FINAL DIAGNOSIS: LYMPH NODE, RIGHT AXILLA: 0/12. Department of Pathology. Gleason 3+4 at 12 o'clock",
        "Größe 3,5 cm – „Mamma links“ · no metastasis",
    ],
)
def test_clinical_text_has_no_mark(text):
    assert _marks_of(*encoded([text])) == []


def test_marks_of_several_texts_are_counted_in_characters_of_each():
    texts = ["é 3/12/2008", "", "no", "’’, Patient: Ada B’yron"]
    marks = _marks_of(*encoded(texts))
    assert [(mark[0], mark[1]) for mark in marks] == [(0, form.NUMERIC), (3, form.BESIDE), (3, form.NAMES)]
    assert [texts[text][first:] for text, _, first, _ in marks] == ["3/12/2008", "Ada B’yron", " Ada B’yron"]
