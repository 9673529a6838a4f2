"""Which reports tell of different tumours; the rules' own examples, and grouping worked out by hand."""

from itertools import permutations

import numpy as np
import pytest

from pathveil.bundle import tumours
from pathveil.bundle.coder import Code
from pathveil.bundle.tumours import different_tumours, doubtful_reports, group_reports


def codes(said: str) -> dict[str, str]:
    """``C50.4 8500 left`` as codes by task."""
    found = {}
    for word in said.split():
        if word.startswith("C"):
            found["subsite" if "." in word else "site"] = word
        else:
            found["histology" if word.isdigit() else "laterality"] = word
    return found


@pytest.mark.parametrize(
    "one, other, why",
    [
        ("C42 9732", "C50 8500", "blood or lymph, and a solid tumour"),  # marrow and breast of one patient
        ("C77.0 9680", "C42.1 9680", None),  # one lymphoma, found in two places
        ("C77.0 9680", "C42.1 9732", "two kinds of blood or lymph"),
        ("C77.0 9591", "C77.3 9680", None),  # lymphoma, not otherwise specified
        ("C50.4 8500", "C34.1 8070", "two sites"),
        ("C18.7", "C20.9", "two sites"),
        ("C18.0 8140", "C18.7 8140", "two places of a site"),  # caecum and sigmoid
        ("C44.3 8720", "C44.5 8720", "two places of a site"),
        ("C49.1", "C49.2", "two places of a site"),
        ("C18.0 8140", "C18.9 8140", None),  # colon, no more said
        ("C18.2 8140", "C18.8 8140", None),  # overlapping
        ("C18.2 8140", "C18 8140", None),
        ("C34.1 8070", "C34.3 8070", None),  # two lobes
        ("C44.6 9140 left", "C21.1 9140 right", None),  # Kaposi sarcoma
        ("C44.6 9140", "C44.6 8720", "two histologies"),
        ("C50.4 8500", "C77.3 8500", None),  # a node of it
        ("C50.4 8500", "C80", None),
        ("C67.9 8120", "C66.9 8130", None),  # urothelial
        ("C67.9 8070", "C66.9 8130", "two sites"),
        ("C56.9 8441", "C48.2 8461", None),
        ("C56.9 8441 left", "C56.9 8441 right", None),
        ("C56.9 9060 left", "C56.9 9060 right", "two sides"),
        ("C50.4 8500 left", "C50.9 8500 right", "two sides"),
        ("C50.4 8500 left", "C50.9 8500 bilateral", None),
        ("C61.9 8140 left", "C61.9 8140 right", None),  # no paired site
        ("C64.9 8960 left", "C64.9 8960 right", None),
        ("C50.4 8500", "C50.4 8520", None),  # duct and lobular
        ("C18.2 8140", "C18.2 8263", None),  # in its polyp
        ("C18.2 8140", "C18.2 8240", None),  # the general word
        ("C34.1 8140", "C34.1 8070", "two histologies"),
        ("C34.1 8041", "C34.1 8070", "two histologies"),
        ("C34.1 8010", "C34.1 8070", None),
        ("C44.5 8720", "C44.5 8000", None),
        ("C50.4 8500", "", None),
        ("8500", "8070", None),  # without a place nothing is known
        ("C34.1 8070 left", "C34.1", None),
    ],
)
def test_the_rules(one, other, why):
    assert different_tumours(codes(one), codes(other)) == why
    assert different_tumours(codes(other), codes(one)) == why


def test_labels_that_are_no_codes_make_no_tumours():
    assert different_tumours({"site": "lung", "histology": "x"}, {"site": "C50", "histology": "8500"}) is None


LABELS = {"site": ("C50", "C34", "C42"), "laterality": ("left", "right")}


def case(*reports: tuple[str, float, str, float]):
    """Reports (site, its probability, side, its probability); below .9 they are unsure."""
    coded, logs = [], {task: [] for task in LABELS}
    for site, sure, side, sided in reports:
        coded.append({"site": Code(site, sure, sure < 0.9), "laterality": Code(side, sided, sided < 0.9)})
        for task, label, probability in (("site", site, sure), ("laterality", side, sided)):
            rest = (1 - probability) / (len(LABELS[task]) - 1)
            logs[task].append([np.log(probability if name == label else rest) for name in LABELS[task]])
    return coded, {task: np.array(rows) for task, rows in logs.items()}, LABELS


def test_reports_are_grouped_by_what_they_say():
    assert group_reports(*case(("C50", 0.99, "left", 0.99), ("C50", 0.95, "left", 0.6))) == [[0, 1]]
    assert group_reports(*case(("C50", 0.99, "left", 0.99), ("C34", 0.95, "left", 0.6))) == [[0], [1]]
    assert group_reports(*case(("C50", 0.99, "left", 0.99), ("C34", 0.5, "left", 0.6))) == [[0, 1]]  # doubt: one


def test_a_case_of_many_reports_is_soon_done(monkeypatch):
    """As where a wrong column names the case: reports that are sure of the same are compared once."""
    compared = []
    monkeypatch.setattr(tumours, "different_tumours", lambda *pair: compared.append(pair) or different_tumours(*pair))
    reports = [("C50", 0.99, "left", 0.99), ("C34", 0.95, "left", 0.6), ("C50", 0.99, "right", 0.99)] * 100
    assert [len(group) for group in group_reports(*case(*reports))] == [100, 100, 100]
    assert len(compared) < 10


def test_an_unsure_report_joins_the_tumour_it_fits():
    """Left and right breast, and a report that is not sure of the side but leans to the right; whatever the order."""
    left, right, leaning = ("C50", 0.99, "left", 0.99), ("C50", 0.99, "right", 0.99), ("C50", 0.99, "right", 0.7)
    assert group_reports(*case(left, right, leaning)) == [[0], [1, 2]]
    assert group_reports(*case(leaning, left, right)) == [[0, 2], [1]]
    nothing = ("C34", 0.4, "right", 0.6)
    assert group_reports(*case(nothing, nothing)) == [[0, 1]]


def test_the_order_of_reports_changes_no_tumour():
    """Each is sure of one thing: the last would take whichever tumour it met first."""
    reports = ("C50", 0.99, "left", 0.6), ("C34", 0.95, "left", 0.6), ("C34", 0.5, "left", 0.92)
    for order in permutations(range(3)):
        groups = group_reports(*case(*(reports[place] for place in order)))
        assert sorted(sorted(order[row] for row in group) for group in groups) == [[0], [1, 2]]


def test_an_unsure_report_that_tells_of_another_tumour_is_named():
    coded, _, _ = case(("C50", 0.99, "left", 0.99), ("C34", 0.5, "left", 0.6), ("C50", 0.5, "left", 0.6))
    assert doubtful_reports(coded, coded[0]) == [1]


def test_a_guess_at_the_fourth_character_is_no_doubt():
    """Of the colon's parts a guess is too often wrong to keep a report's number out of the XML."""
    said = (("C18.0", "8140"), ("C18.7", "8140"), ("C34.1", "8140"), ("C18.0", "8936"))
    guesses = [{"subsite": Code(place, 0.4, True), "histology": Code(type_, 0.4, True)} for place, type_ in said]
    assert doubtful_reports(guesses, guesses[1]) == [2, 3]
