"""The card says what a reader needs, and promises nothing that was not measured."""

from dataclasses import replace

import numpy as np

from pathveil.bundle.card import registries
from pathveil.bundle.folder import CARD
from pathveil.training.scores import NEVER


def test_the_card_says_what_a_reader_needs(folder, made):
    card = (folder / CARD).read_text()
    for wanted in (
        "160 reports of 80 cases",
        "2 registries (R1, R2)",
        "2 networks",
        "Not audited",
        "97.0%",
        "macro F1",
    ):
        assert wanted in card, wanted
    for task in made.tasks:
        assert f"| {task} |" in card


def test_a_model_without_a_defence_is_held_beside_release(made):
    source = dict(made.provenance)
    card = replace(made, provenance=source | {"preset": "default"}).card
    assert (
        "an AUC of 0.99 where a model is trained as preset `default`" in card
        and "of 0.63 with preset `release`" in card
    )
    assert "Trained without a defence" not in made.card  # nobody has measured its preset


def test_thresholds_stand_with_their_lower_bound(made):
    site = made.thresholds["site"].model_copy(update={"probability": 0.81, "accuracy": 0.968, "low": 0.913})
    never = made.thresholds["site"].model_copy(update={"probability": NEVER})
    card = replace(made, thresholds={"site": site, "histology": never}).card
    assert "| site | 0.810 | 96.8% (91.3%) |" in card and "| histology | never reached | – | 100 % |" in card


def test_a_model_without_thresholds_leaves_all_to_a_person(made):
    card = replace(made, thresholds={}, scores={}).card
    assert "Always: no cases were held out" in card and "Not measured" in card


def test_lifted_tasks_are_named(made):
    plain = {name: np.zeros_like(array) if name.startswith("lift.") else array for name, array in made.tensors.items()}
    lift = np.ones_like(made.tensors["lift.site"])
    assert "lifted" not in replace(made, tensors=plain).card
    assert "A rare code of site may be preferred" in replace(made, tensors=plain | {"lift.site": lift}).card


def test_a_name_in_the_card_is_text_and_nothing_more():
    """A registry's name comes from a corpus, and the card is shown as a page."""
    shown = registries(["R1 <script>alert(1)</script>", "[click](http://x)", "a|b", "x\x1b[2J\n# head"])
    assert "<" not in shown and "\x1b" not in shown and "\n" not in shown
    assert "\\[click\\](http" in shown and "a\\|b" in shown
