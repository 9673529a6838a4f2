"""Clinical text, which a report is full of, has no place where an identifier is looked for."""

import numpy as np
import pytest

from pathveil.text.identifiers import encoded
from pathveil.text.identifiers.marks import NAME_ENDS, find_marks


@pytest.mark.parametrize(
    "text",
    [
        "Invasive carcinoma of the Left Breast, Grade 2, 1.5 x 2 cm, ER positive 90%, Ki-67 20-30%, CD20. pT2 N0",
        "FINAL DIAGNOSIS: LYMPH NODE, RIGHT AXILLA: 0/12. Department of Pathology. Gleason 3+4 at 12 o'clock",
        "Größe 3,5 cm – „Mamma links“ · no metastasis",
    ],
)
def test_clinical_text_has_no_mark(text):
    data, _ = encoded([text])
    counts = np.zeros(NAME_ENDS + 1, np.int64)
    find_marks(data, np.empty((len(counts), len(data)), np.int64), counts)
    assert not counts.any()
