"""Words of a lexicon: cleaned as reports are, from a plain list or from UMLS."""

import pytest

from pathveil.errors import VocabularyError
from pathveil.vocabulary.corpus_counts import gather_counts
from pathveil.vocabulary.lexicon import read_lexicon
from pathveil.vocabulary.selection import Measures, select
from vocabulary.corpora import random_corpus


def test_a_lexicon_is_cleaned_as_reports_are(tmp_path):
    plain = tmp_path / "terms.txt"
    plain.write_text("Ductal carcinoma in-situ\nW01X\nKi-67 (antigen)\n")
    assert read_lexicon(plain) == {"ductal", "carcinoma", "in-situ", "w01x", "ki-67", "antigen"}
    corpus = random_corpus(tmp_path / "reports.parquet")
    measures = Measures(gather_counts([corpus]), lexicon=read_lexicon(plain))
    assert select(measures, "in lexicon").words == ("w01x",)
    rows = [
        f"C{number}|{language}|P|L|PF|S|Y|A||||NCI|PT|X|{term}|0|N||"
        for number, (language, term) in enumerate([("ENG", "Mucinous tumour"), ("SPA", "tumor mucinoso")])
    ]
    (tmp_path / "MRCONSO.RRF").write_text("\n".join(rows) + "\n")
    assert read_lexicon(tmp_path / "MRCONSO.RRF") == {"mucinous", "tumour"}
    for content, expected in (("", "no word"), ("C1|ENG|\n", "line 1 has 3 fields")):
        (tmp_path / "bad.txt").write_text(content)
        with pytest.raises(VocabularyError, match=expected):
            read_lexicon(tmp_path / "bad.txt")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VocabularyError, match="UTF-8"):
        read_lexicon(tmp_path / "bad.txt")
