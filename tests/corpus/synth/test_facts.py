"""What one report knows: nothing that contradicts itself."""

from random import Random

from pathveil.corpus.synth.cases import draw_case
from pathveil.corpus.synth.codes import select_classes
from pathveil.corpus.synth.facts import report_facts
from pathveil.corpus.synth.houses import Mix, clashes


def test_a_marker_is_not_both_positive_and_negative():
    assert clashes(("CD5", ["ER, ", "5%"]), ("ER (weak)", "CD3")) == [(1, 0)]
    classes = select_classes(sites=1, histologies=1, subsites=1)
    mixes = [Mix(classes, 0, seed=4, rarity=1)]
    for number in range(40):
        case = draw_case(number, classes=classes, mixes=mixes, shares=[1.0], seed=4)
        facts = report_facts(
            case, "biopsy", case.diagnosed, Random(number).random, names=classes.names, terms=classes.terms
        )
        pos, neg = facts["pos"].options, facts["neg"].options
        assert pos and neg and not clashes(tuple(pos), tuple(neg))
