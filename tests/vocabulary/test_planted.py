"""Planted words found by the fast path equal those found token by token."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.errors import CorpusError
from pathveil.text.tokenizer import tokenize_spans
from pathveil.vocabulary.planted import cut_out_spans, planted_words

PIECES = st.sampled_from("Kowalski|Dr.|May|S16-45357|left|May's|(Ann|Smith/Jones|1.5|ﬁ|12 Elm| |, ".split("|"))


@settings(deadline=None, max_examples=150)
@given(st.lists(PIECES, max_size=12).map("".join), st.data())
def test_equals_looking_at_every_token(text, data):
    spans = []
    for _ in range(data.draw(st.integers(0, 3)) if text else 0):
        start = data.draw(st.integers(0, len(text) - 1))
        spans.append(
            (start, data.draw(st.integers(start + 1, len(text))), data.draw(st.sampled_from(["name", "number"])))
        )
    expected: dict = {"outside": []}
    for word, start, end in tokenize_spans(text, identifiers=False):
        kinds = {kind for begin, stop, kind in spans if begin < end and start < stop}
        for kind in kinds or {"outside"}:
            expected.setdefault(kind, []).append(word)
    plain, touched = cut_out_spans(text, spans)
    found: dict = {"outside": [word for word, _, _ in tokenize_spans(plain, identifiers=False)]}
    for piece, here in touched:
        for word, start, end in tokenize_spans(piece, identifiers=False):
            kinds = {kind for begin, stop, kind in here if begin < end and start < stop}
            for kind in kinds or {"outside"}:
                found.setdefault(kind, []).append(word)
    assert {kind: set(words) for kind, words in found.items()} == {kind: set(words) for kind, words in expected.items()}


def test_of_a_synthetic_corpus(tmp_path):
    from pathveil.corpus.synth import SynthSettings, write_corpus

    write_corpus(SynthSettings(reports=300, seed=4), out=tmp_path / "c.parquet", truth=tmp_path / "t.parquet")
    spans: dict = {}
    for report, kind, start, end in (
        pl.read_parquet(tmp_path / "t.parquet").select("report_id", "kind", "start", "end").iter_rows()
    ):
        spans.setdefault(report, []).append((start, end, kind))
    inside: dict = {}
    outside = set()
    for report, text in pl.read_parquet(tmp_path / "c.parquet").select("report_id", "text").iter_rows():
        for word, start, end in tokenize_spans(text, words=10**9, identifiers=False):
            kinds = [kind for begin, stop, kind in spans.get(report, ()) if begin < end and start < stop]
            for kind in kinds:
                inside.setdefault(kind, set()).add(word)
            if not kinds:
                outside.add(word)
    found = planted_words(tmp_path / "c.parquet", tmp_path / "t.parquet")
    assert found.only == {kind: words - outside for kind, words in inside.items()}
    assert found.also == {kind: words & outside for kind, words in inside.items()}


def test_the_truth_of_other_reports_is_refused_without_their_text(tmp_path):
    text = "Seen by May Kowalski in May."
    truth = pl.DataFrame({"report_id": ["a"], "kind": ["name"], "start": [8], "end": [20], "text": ["May Kowalski"]})
    truth.write_parquet(tmp_path / "t.parquet")
    for name, content, said in (("a", "x" + text, "1 of 1 places hold other text"), ("b", text, "names none of these")):
        columns = {"report_id": [name], "case_id": ["1"], "registry": ["R1"], "text": [content]}
        pl.DataFrame(columns).write_parquet(tmp_path / "c.parquet")
        with pytest.raises(CorpusError, match=said) as refused:
            planted_words(tmp_path / "c.parquet", tmp_path / "t.parquet")
        assert "Kowalski" not in str(refused.value)
