"""The page of an exposure: it stands on its own, says what was measured and shows no word."""

import re
from xml.etree import ElementTree

import polars as pl
import pytest

from pathveil.errors import UsageError
from pathveil.vocabulary import Vocabulary
from pathveil.vocabulary.exposure import measure_exposure
from pathveil.vocabulary.exposure_page import draw, render, write_page

TEXTS = ["carcinoma of breast. Dr. Kowalski", "carcinoma of colon", "colon. Dr. Nowak"]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    corpus = tmp_path_factory.mktemp("exposure") / "c.parquet"
    ids = [f"r{number}" for number in range(len(TEXTS))]
    pl.DataFrame({"report_id": ids, "case_id": ids, "registry": "R1", "text": TEXTS}).write_parquet(corpus)
    few = Vocabulary(words=("carcinoma", "colon"), method="registries >= 2 & <b>")
    every = Vocabulary(words=("breast", "carcinoma", "colon", "kowalski", "nowak"), method="by hand")
    return measure_exposure({"few": few, "every <one>": every}, corpus, show_words=True)


def test_the_page_stands_on_its_own(result):
    page = render(result)
    assert "<svg" in page and "<script" not in page
    assert not re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?(?:https?:)?//", page)  # nothing is fetched


def test_what_others_wrote_is_text_there_and_no_markup(result):
    page = render(result)
    assert "registries &gt;= 2 &amp; &lt;b&gt;" in page and "every &lt;one&gt;" in page and "<one>" not in page


def test_the_drawing_is_xml_and_the_same_each_time(result):
    assert ElementTree.fromstring(draw(result)).tag.endswith("svg")
    assert draw(result) == draw(result)


def test_both_files_are_written_and_no_word_is_in_them(result, tmp_path):
    written = write_page(result, tmp_path / "page")
    assert sorted(path.name for path in written) == ["exposure.html", "exposure.svg"]
    for path in written:
        assert "kowalski" not in path.read_text().lower() and "nowak" not in path.read_text().lower()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_page(result, tmp_path / "file")
