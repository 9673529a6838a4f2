"""The grammar: alternatives, slots and decks."""

from random import Random

import pytest

from pathveil.corpus.synth.grammar import Deck, compile_rules, expand


def test_rules_expand():
    draw = Random(2).random
    rules = compile_rules({"a": ["[x|[y|{b}]] {B}."], "b": ["one"], "c": ["{deck}{deck}{deck}"]}, spell=str.lower)
    said: list[str] = []
    for _ in range(50):
        expand(rules["a"], rules, draw, said.append)
        said.append("\n")
    assert set("".join(said).split("\n")) == {"x One.", "y One.", "one One.", ""}
    dealt: list[str] = []
    expand(rules["c"], {"deck": Deck(("p", "q", "r"), 1)}, draw, dealt.append)
    assert "".join(dealt) == "rpq"
    with pytest.raises(ValueError, match="unbalanced"):
        compile_rules({"bad": ["a ] b"]})
