"""The first paragraph: short, one, and right about appetite, what travels, and training that was cut short."""

import json
import re

import pytest

from pathveil.report import answer, distribution, epochs, page
from report.conftest import cells


@pytest.fixture
def result(made):
    return json.loads((made / "result.json").read_text())


def test_it_is_one_short_paragraph_of_three_lines(result, browser, made):
    """Words, training, findings: three lines on a terminal, one paragraph on the page, the reasons in full below."""
    words, training, findings = page.answer(result)
    told = " ".join((words, training, findings))
    assert len(re.findall(r"\.( |$)", told)) <= 5 and len(told) < 800
    use = {name: study["recommendation"]["use"] for name, study in result["studies"].items() if name != "distribution"}
    assert use["vocabulary"] in words and use["combined"] in training and "0.6" in words
    assert findings.startswith(f"Of the papers' {len(result['findings'])} findings ")
    tab = browser.new_page(viewport={"width": 390, "height": 900})
    tab.goto((made / "report.html").as_uri())
    assert tab.locator("#answer p").count() == 1 and tab.locator("#answer").bounding_box()["height"] < 480
    tab.close()
    reasons = " ".join(answer.why(result))
    for name in ("vocabulary", "combined"):
        assert result["studies"][name]["recommendation"]["sentence"] in reasons
    assert "Of the strong adversary: " in reasons
    words_of = r"\((the [\d,]+ words that tell most|[\d,]+ words (of \d registries|used \d+ times) or more), macro F1"
    assert re.search(words_of, words)
    alone = result | {"studies": {"vocabulary": result["studies"]["vocabulary"]}, "findings": []}
    assert page.answer(alone)[0] == words


def study_of(**modes):
    """A distribution study of modes: macro F1, and the AUC of what is given away with its upper end."""
    scores, attacks = [], []
    for mode, (macro, auc, high) in modes.items():
        scores.append({"mode": mode, "registry": "R1", "task": "site", "seed": 1, "macro": {"value": macro}})
        for model in ("as trained", "encoder, public head"):
            right = (model == "as trained") is (mode in distribution.WHOLE)
            ends = {"value": auc, "low": auc - 0.02, "high": high} if right else dict.fromkeys(("value", "low"), 0.9)
            attacks.append({"mode": mode, "model": model, "seed": 1, "auc": ends | ({} if right else {"high": 0.95})})
    return {"settings": {}, "scores": scores, "probe": [], "membership": attacks}


def test_training_is_chosen_by_appetite():
    study = study_of(
        single=(0.3, 0.5, 0.5), centralized=(0.7, 0.6, 0.6), strong=(0.5, 0.55, 0.58), fedavg=(0.6, 0.62, 0.65)
    )
    told = answer.of_training(study, first=True)  # 0.6 where a result names nothing else
    assert told.startswith("Where an attacker's AUC up to 0.6 is tolerated (0.5 is guessing), train strong")
    assert "(macro F1 0.500 beside 0.700 centrally and 0.300 each alone; AUC of its encoder at most 0.580)" in told
    assert told.endswith("; tolerating 0.650 allows fedavg (0.600).")
    wide = answer.of_training(study | {"settings": {"tolerated": 0.7}}, first=False)
    assert wide.startswith("Where 0.7 is tolerated, train fedavg") and "AUC of its model at most 0.650" in wide
    none = answer.of_training(study | {"settings": {"tolerated": 0.51}}, first=False)
    assert none.startswith("No training without shared reports surely keeps to 0.51; strong leaks least (")
    (table,) = distribution.appetite(study)
    assert [(row[0], row[1]) for row in table.rows] == [("0.580", "strong"), ("0.650", "fedavg")]


@pytest.mark.parametrize("told", [False, True])
def test_models_kept_at_their_last_epoch_are_told_and_marked(result, shown, told):
    """Whether the rows say so themselves or the settings tell."""
    study = result["studies"]["distribution"]
    cap = study["settings"]["training"]["epochs"]
    for name, rows in epochs.ROWS.items():
        for row in result["studies"][name][rows]:
            last = row.get("mode") == "single" and name == "distribution"
            row["epoch"] = [cap, 1] if last else 1 if name == "vocabulary" else [1]
            row.pop("at_cap", None)
            if told:
                row["at_cap"] = [True, False] if last else False if name == "vocabulary" else [False]
        result["studies"][name].pop("warnings", None)
        if told:
            result["studies"][name]["warnings"] = []
    if told:
        study["warnings"] = ["1 of 2 models were best at the last epoch allowed, and might have learnt more"]
    (warning,) = epochs.warnings(result)
    assert warning.startswith("1 of ") and warning in page.answer(result)[-1]
    assert (f"Of the distribution study: {study.get('warnings', [''])[0]}." in answer.why(result)) is told
    tab = shown(page.render(result))
    head = tab.locator("#traffic th").all_inner_texts().index("best epoch")
    found = {row[0]: row[head] for row in cells(tab, "traffic")}
    assert found["single"] == f"{cap}†, 1" and found["centralized"] == "1"
    assert epochs.NOTE in tab.locator("#panel-traffic").inner_text()
    assert tab.locator("#panel-points .note").count() == 0


def test_any_other_warning_of_a_study_is_in_the_answer(result):
    result["studies"]["combined"]["warnings"] = ["mind this"]
    assert page.answer(result)[-1].endswith("Mind this.")


@pytest.mark.parametrize("settings", [{"fixed_epochs": 8}, {"training": {"epochs": 8, "keep_from": 0.9}}])
def test_fixed_epochs_are_no_warning(settings):
    study = {"settings": {"training": {"epochs": 8}} | settings, "points": [{"mode": "fedavg", "epoch": [8]}]}
    assert epochs.warnings({"studies": {"combined": study}}) == []
