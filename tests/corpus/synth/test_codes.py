"""Codes: as many classes as asked for, common ones first, word lists that fit together."""

import pytest

from corpus.synth.made import frames
from pathveil.corpus.synth import SynthSettings
from pathveil.corpus.synth.cases import draw_case
from pathveil.corpus.synth.codes import chapters, families, looks, select_classes
from pathveil.corpus.synth.houses import Mix
from pathveil.errors import UsageError
from pathveil.icdo.lists import LATERALITIES, code_lists


def test_class_counts_are_the_papers_and_every_class_can_be_drawn():
    classes = select_classes()
    assert (len(classes.sites), len(classes.subsites), len(classes.histologies)) == (70, 326, 639)
    drawn = {code[:4] for mix in classes.morphology_weights.values() for code, weight in mix.items() if weight > 0}
    assert drawn == set(classes.histologies)
    assert {sub for mix in classes.subsite_weights.values() for sub in mix} == set(classes.subsites)
    assert {code[-1] for mix in classes.morphology_weights.values() for code in mix} == set("0123")
    mixes = [Mix(classes, number, seed=1, rarity=1) for number in range(7)]
    cases = [
        draw_case(number, classes=classes, mixes=mixes, shares=[1 / 7] * 7, seed=1).labels for number in range(12_000)
    ]
    seen = {task: {labels[task] for labels in cases} - {None} for task in cases[0]}
    assert seen["laterality"] == set(LATERALITIES) and seen["behavior"] == set("0123")
    assert len(seen["site"]) > 66 and len(seen["subsite"]) > 240 and len(seen["histology"]) > 300


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"sites": 5, "subsites": 12, "histologies": 20, "lateralities": 4, "behaviors": 2}, (5, 12, 20, 4, 2)),
        ({"sites": 1, "subsites": 1, "histologies": 1, "lateralities": 3, "behaviors": 1}, (1, 1, 1, 3, 1)),
        ({"sites": 70, "subsites": 330, "histologies": 639}, (70, 330, 639, 7, 4)),
    ],
)
def test_fewer_classes(counts, expected):
    classes = SynthSettings(reports=1, **counts).classes()
    found = (classes.sites, classes.subsites, classes.histologies, classes.lateralities, classes.behaviors)
    assert tuple(map(len, found)) == expected
    reports, _ = frames(200, reports=200, **counts)
    for task, most in zip(("site", "subsite", "histology", "laterality", "behavior"), expected, strict=True):
        assert reports[task].drop_nulls().n_unique() <= most


def test_rarity_bends_the_tail():
    def share_of_commonest(rarity: float) -> float:
        counts = frames(600, reports=600, rarity=rarity)[0]["site"].value_counts(sort=True)["count"]
        return counts[0] / counts.sum()

    assert share_of_commonest(0) < 0.08 < share_of_commonest(1) < share_of_commonest(2)


def test_word_lists_fit_together():
    sites, names, terms, _, plausible = code_lists()
    assert set(plausible) == set(names) and set(families()) == set(terms)
    assert {site.chapter for site in sites.values()} == set(chapters())
    keys = {key for body in chapters().values() for key in body if "." not in key}
    assert all(keys <= set(body) for body in chapters().values())
    assert len({frozenset(body) for body in looks().values()}) == 1


def test_bad_counts_in_the_library():
    with pytest.raises(UsageError, match="'lateralities' must be from 1 to 7"):
        select_classes(lateralities=9)
