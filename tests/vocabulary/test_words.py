"""A vocabulary: its file, what it shows, and what it refuses."""

import json

import pytest

from pathveil.errors import VocabularyError
from pathveil.vocabulary import FIRST_WORD, UNKNOWN, Vocabulary

WORDS = Vocabulary(words=("carcinoma", "kowalski", "left"), method="cases >= 4", source={"reports": 9})


def test_it_shows_no_word_unless_asked():
    assert repr(WORDS) == "3 words, by 'cases >= 4'" and "cases &gt;= 4" in WORDS._repr_html_()
    assert WORDS.to_frame().rows() == [(2, "carcinoma"), (3, "kowalski"), (4, "left")]
    assert [WORDS.id_of(word) for word in ("carcinoma", "zebra")] == [FIRST_WORD, UNKNOWN] and WORDS.size == 5


def test_its_file(tmp_path):
    WORDS.save(tmp_path / "new" / "v.json")
    again = Vocabulary.load(tmp_path / "new" / "v.json")
    assert again == WORDS and again.sha256 == WORDS.sha256
    assert json.loads(WORDS.to_json(tmp_path / "w.json")) == json.loads((tmp_path / "w.json").read_text())
    assert (tmp_path / "w.json").read_bytes() == (tmp_path / "new" / "v.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "other/1"}, "is not a vocabulary of format"),
        ({"words": "carcinoma"}, "'words' must be a list of strings"),
        ({"words": ["carcinoma", "left"]}, "the file was altered"),
        ({"words": ["left", "left"]}, "holds each word once; 1 repeat"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, change, sentence):
    (tmp_path / "v.json").write_text(json.dumps(WORDS.to_dict() | change))
    with pytest.raises(VocabularyError, match=sentence) as refused:
        Vocabulary.load(tmp_path / "v.json")
    assert "kowalski" not in str(refused.value)
