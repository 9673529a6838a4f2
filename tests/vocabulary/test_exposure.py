"""Exposure: the numbers by hand, the page without a word of a report in it."""

import polars as pl
import pytest

from pathveil.errors import CorpusError, UsageError
from pathveil.vocabulary import Vocabulary
from pathveil.vocabulary.exposure import measure_exposure
from pathveil.vocabulary.exposure_page import draw, render, write_page

TEXTS = [
    ("R1", "1", "carcinoma of breast. Dr. Kowalski"),
    ("R1", "1", "carcinoma again"),
    ("R1", "2", "carcinoma of colon, own1"),
    ("R2", "3", "colon. Dr. Nowak and zq12345"),
    ("R2", "4", "carcinoma breast"),
]
VOCABULARIES = {
    "all": Vocabulary(
        words=("again", "breast", "carcinoma", "colon", "kowalski", "nowak", "own1", "zebra", "zq12345"),
        method="by hand",
    ),
    "few": Vocabulary(words=("carcinoma", "colon"), method="registries >= 2"),
}


@pytest.fixture
def corpus(tmp_path):
    rows = [(f"r{n}", case, registry, text) for n, (registry, case, text) in enumerate(TEXTS)]
    schema = ["report_id", "case_id", "registry", "text"]
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(tmp_path / "c.parquet")
    spans = [("r0", "name", TEXTS[0][2].index("Kow"), len(TEXTS[0][2])), ("r3", "name", 11, 16), ("r2", "site", 13, 18)]
    pl.DataFrame(spans, schema=["report_id", "kind", "start", "end"], orient="row").write_parquet(
        tmp_path / "t.parquet"
    )
    return tmp_path / "c.parquet"


def test_by_hand(corpus):
    result = measure_exposure(VOCABULARIES, corpus, truth=corpus.with_name("t.parquet"))
    every, few = result.vocabularies
    assert (result.reports, result.cases, result.words) == (5, 4, 11)
    assert every.words == 9 and every.not_in_corpus == 1
    # 18 words run: of, dr twice each and and are not kept.
    assert every.coverage == pytest.approx(13 / 18) and few.coverage == pytest.approx(6 / 18)
    assert every.by_cases == {"1": 5, "2–4": 3, "5–9": 0, "10–49": 0, "50+": 0}
    assert every.cases_with_own_word == 3 and few.cases_with_own_word == 0
    assert every.suspects["name"] == 2 and every.suspects["record number"] == 1
    assert every.planted["name"].to_dict() == {"planted": 2, "kept": 2, "share": 1.0}
    assert few.planted["name"].to_dict() == {"planted": 2, "kept": 0, "share": 0.0}
    assert "site" not in few.planted  # "colon" stands elsewhere too


def test_a_registry_left_out_is_not_looked_at(corpus):
    (every, _) = measure_exposure(VOCABULARIES, corpus, leave_out=["R2"]).vocabularies
    assert every.not_in_corpus == 3 and every.by_cases["1"] == 5 and every.cases_with_own_word == 2
    with pytest.raises(UsageError, match="no registry 'R9'"):
        measure_exposure(VOCABULARIES, corpus, leave_out=["R9"])


def test_scores_of_models_stand_beside_their_words(corpus):
    scores = {VOCABULARIES["few"].sha256: {"site": {"micro": {"value": 0.9}, "macro": {"value": 0.5}}}}
    result = measure_exposure(VOCABULARIES, corpus, scores=scores)
    assert [row.scores and row.scores.to_dict() for row in result.vocabularies] == [None, {"micro": 0.9, "macro": 0.5}]
    assert "0.900" in result.summary() and "0.900" in render(result) and "F1" in draw(result)


def test_words_are_shown_only_on_request_and_never_on_the_page(corpus, tmp_path):
    plain = measure_exposure(VOCABULARIES, corpus, truth=corpus.with_name("t.parquet"))
    shown = measure_exposure(VOCABULARIES, corpus, show_words=True)
    written = "".join(path.read_text() for path in write_page(shown, tmp_path / "page"))
    hidden = [plain.summary(), plain.to_json(), render(plain), draw(plain), written]
    for word in ("kowalski", "nowak", "zq12345", "own1"):
        assert word in shown.summary() and word in shown.to_json()
        assert not any(word in text.lower() for text in hidden)


def test_what_is_no_truth_file(corpus, tmp_path):
    with pytest.raises(CorpusError, match="is not a truth file"):
        measure_exposure(VOCABULARIES, corpus, truth=corpus)
    with pytest.raises(UsageError, match="no vocabulary"):
        measure_exposure({}, corpus)
