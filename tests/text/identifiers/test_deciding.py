"""What the compiled code finds is what the expressions find that ``re`` tries at every place."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.text.identifiers import expressions as form
from pathveil.text.identifiers import hide, hide_all, stretches
from text.identifiers.expressions_alone import found_everywhere

PIECES = (
    "Dr. |Dr |Drs. |DR. |Mr. |MRS. |Ms. |Miss |Prof. |Ada|Smith|O'Brien|O’Brien|McDowell|SMITH|JOHN|Son |Per |Cc |wife "
    "|patient: |Patient name: |PATIENT:|Physician(s): |pathologist ***|signed by |Signed out by: |copies to |chart of "
    '|filed under |\nname: |, MD| M.D.| Ph.D.|, FCAP| D.O.| "|¦ |Apt. 12|P.O. Box 77|PO Box 1, |Jan|MAR|June|Sept.|12|3'
    "|2008|1999|08|555|0134|123456|12345| |  |.|,|-|/|:|#|(|)|\n|\t|*|@|'|’|é|ſ|\u212a|ı|İ|S|SP|TCGA-|A1|B234|MRN"
    "|Accession #: |Main|Street|Rd.|Springfield|IL|62701|st|th| of |am| o'clock|deadbeef|DEADBEEF|€|\ud800|_"
    "|5f8c3768-31f8-4566-8ebf-21e7f4e6499d|left breast|LEFT BREAST|R|Herr |Frau |Mrs |van |der |de la |Müller|É"
    "|spoke with |notified |request of |name : |cc: |labeled | and the number "
    "|MRN: |DOB|(|\nStaff |pathologist|Pathologist|\r\n|, RN|, MBChB|at |2:14|09:28|P16-88342"
    "|CD31/88305|Main St|M5V 3L9|ø|J. |Prof. Dr. |Electronic signature: |axilla |Axilla |λ|×"
).split("|")
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(PIECES).map(lambda piece: piece.replace("¦", "|")), st.text("0123AZaz-/.:, ", max_size=6)
    ),
    max_size=30,
).map("".join)


@settings(max_examples=150)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_what_is_found_is_what_the_expressions_find_that_are_tried_everywhere(texts):
    for text in texts:
        assert [found[:3] for found in stretches(text)] == found_everywhere(text)
        assert [found[:3] for found in stretches(text, "1")] == found_everywhere(text, 1)
    data, ends = hide_all(texts)
    parts = [part.tobytes().decode("utf-8", "surrogatepass") for part in np.split(data, ends)]
    assert parts == [*(hide(text) + "\n" for text in texts), "\n" * form.AHEAD]
