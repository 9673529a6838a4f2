"""What the report says to each reader, of a defences study made by hand."""

import json

import pytest

from pathveil.studies.report import opening, readers
from pathveil.studies.result import Studies, read_run
from pathveil.studies.tables import DefencesResult


def interval(value, width=0.01):
    return {"value": value, "low": value - width, "high": value + width}


@pytest.fixture
def defended(made):
    """A defences study of two ways, the second of which finds less, codes a little worse and keeps to the limit."""
    points, rated = [], []
    lost = {"micro": {"value": -0.012, "low": -0.02, "high": 0.0}}
    for name, auc, found, micro, changes in (("none", 0.8, 0.15, 0.88, {}), ("release", 0.58, 0.024, 0.87, lost)):
        shared = {"name": name, "words": 900, "auc": interval(auc), "front": True}
        point = {"way": name, "vocabulary": "B", "worlds": 16, "strongest": "RMIA online", "rare_auc": None}
        point |= {"tpr_at_1": interval(found), "canaries": {"mislabelled": interval(auc + 0.1)}, "changes": changes}
        points.append(shared | point | {"micro": interval(micro), "macro": interval(micro - 0.2)})
        rated.append(shared | {"macro": micro - 0.2, "verdict": "pass" if auc < 0.6 else "fail"})
    recommended = {"sentence": "…", "use": "release", "within": True, "steps": [], "candidates": rated}
    settings = {"tolerated": 0.6, "minimum": 5, "seeds": [1], "test_share": 0.2}
    study = {"study": "defences", "settings": settings, "table": []}
    study |= {"points": points, "recommendation": recommended, "findings": [], "warnings": []}
    study["provenance"] = json.loads((made / "result.json").read_text())["studies"]["combined"]["provenance"]
    return DefencesResult.model_validate(study)


def test_the_defences_open_the_report_in_everyday_words(defended, made):
    studies = read_run(made / "result.json").studies.model_copy(update={"defences": defended})
    first = opening.opening_of(studies)
    assert first.sentence == (
        "A model trained with “release” keeps what an attacker can learn within the limit, and codes 87 of 100 unseen "
        "reports rightly. Of 100 people whose reports it learnt, the strongest attack finds 2.4 while it wrongly "
        "accuses one stranger in 100, where it finds 15 in one trained with “none”."
    )
    assert [fact.value for fact in first.facts] == ["2.4 of 100", "87 of 100", "1 of 100"]
    assert first.facts[2].note == "micro F1 −0.012 (−0.020 to +0.000): it may be chance"
    assert [row[:3] for row in readers.leave_table(defended).rows] == [
        ["none", "breaks the limit", "15"],
        ["release (recommended)", "keeps to the limit", "2.4"],
    ]
    assert "AUC of 0.68" in readers.exposed(defended)[0]
    assert opening.deciding_study(Studies()) is None and "no study" in opening.opening_of(Studies()).sentence
    small = f"A world has about {round(defended.provenance.reports * 0.4, -1):,.0f} reports here"
    assert small in readers.coding_section(defended, studies).text
    many = defended.provenance.model_copy(update={"reports": 6_453})
    assert "A world has" not in readers.coding_section(defended.model_copy(update={"provenance": many}), studies).text


def test_of_several_models_one_that_breaks_the_limit_breaks_it(made):
    """The interval that is shown goes from the lowest to the highest end of any model's, so part of it may lie within
    a limit that is broken: the page says how it judged."""
    studies = read_run(made / "result.json").studies
    alone = studies.model_copy(update={"defences": None, "combined": None})
    assert "a limit is broken where one of them surely breaks it" in opening.opening_of(alone).caption
    table = readers.leave_table(studies.vocabulary)
    assert "attacker's AUC (lowest, highest end)" in table.heads and "“Breaks”: there is a model" in table.note
    one = readers.leave_table(studies.combined)
    assert "attacker's AUC (95 %)" in one.heads and "“Breaks”: none of it does" in one.note
