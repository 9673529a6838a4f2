"""The report in a browser: numbers as in result.json, two widths, dark, print. How it opens is in test_opening.py."""

import json

import pytest

from pathveil.studies.answer import answer, findings_counted, findings_listed
from pathveil.studies.report import page
from pathveil.studies.report.epochs import NOTE
from pathveil.studies.report.findings import MARKS
from pathveil.studies.report.tables import mean
from pathveil.studies.report.terms import terms
from pathveil.studies.result import Studies, StudyResult, read_run
from pathveil.studies.rows import Finding
from studies.report.conftest import cells

WIDTHS = (390, 1280)


def test_numbers_are_those_of_the_result(opened, made):
    result = json.loads((made / "result.json").read_text())
    told, first, *_ = opened.locator("#why p").all_text_contents()
    assert told == " ".join(answer(read_run(made / "result.json")))
    assert first == result["studies"]["vocabulary"]["recommendation"]["sentence"]
    strong = result["studies"]["distribution"]["findings_of_strong"]
    assert [finding["id"] for finding in strong] == ["B2", "B3", "B4", "B5"]
    assert opened.locator(".finding").count() == len(result["findings"]) + len(strong) == 16
    vocabulary = result["studies"]["vocabulary"]
    heads = opened.locator("#table1-cross-registry th").all_inner_texts()
    assert [head.split(" (")[0] for head in heads[3:]] == ["B", "I2", "MI5"]
    for bucket, shadows, members, *shown in cells(opened, "table1-cross-registry"):
        for name, value in zip(("B", "I2", "MI5"), shown, strict=True):
            place = {"protocol": "cross-registry", "attack": "shadow classifiers", "strategy": name, "bucket": bucket}
            place["shadows"] = int(shadows)
            rows = [row for row in vocabulary["table1"] if place.items() <= row.items() and "accuracy" in row]
            three = [mean([row[n] for row in rows]) for n in ("accuracy", "report_accuracy", "balanced_accuracy")]
            assert value == "{:.3f}\n({:.3f}, {:.3f})".format(*three)
            # What calling every report a member earns stands beside it.
            assert members == f"{mean([r['n_members'] / (r['n_members'] + r['n_non_members']) for r in rows]):.3f}"
    for name, _, micro, macro, *_ in cells(opened, "table2-mean"):
        for value, figure in ((micro, "micro"), (macro, "macro")):
            assert value == f"{mean([r[figure] for r in vocabulary['table2'] if r['strategy'] == name]):.3f}"
    first = result["studies"]["distribution"]["scores"][0]
    shown = {tuple(row[:2]): row[2] for row in cells(opened, f"scores-{first['registry']}")}
    micro = first["micro"]
    wanted = f"{micro['value']:.3f} ({micro['low']:.3f}, {micro['high']:.3f})"
    assert shown[first["task"], first["mode"]] == wanted
    for mode, *values in cells(opened, "scores"):
        own = [row for row in result["studies"]["distribution"]["scores"] if row["mode"] == mode]
        assert values == [f"{mean([row[figure]['value'] for row in own]):.3f}" for figure in ("micro", "macro")]
    for strategy, _, mode, *rest in cells(opened, "points"):
        points = result["studies"]["combined"]["points"]
        point = next(p for p in points if (p["strategy"], p["mode"]) == (strategy, mode))
        assert rest[1] == f"{point['macro']:.3f}" and (rest[-1] == "yes") is point["front"]


def test_every_figure_is_there_with_its_axes(opened):
    titles = " ".join(opened.locator("figure h3").all_inner_texts())
    for title in ("Figure 1", "Figure 2", "Figure 3", "Privacy against F1", "Can the registry be told"):
        assert title in titles
    for words in ("shadow models", "words in the vocabulary", "attacker's AUC", "registry named rightly"):
        assert opened.locator("figure svg text", has_text=words).count()
    assert opened.locator("figure svg").count() == opened.locator("figure").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_a_phone_and_a_desk_in_light_and_dark(browser, made, width, scheme, tmp_path):
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.goto((made / "report.html").as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width  # tables scroll in themselves
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) is (scheme == "dark")
    tab.screenshot(path=tmp_path / f"{width}-{scheme}.png", full_page=True)
    assert (tmp_path / f"{width}-{scheme}.png").stat().st_size > 50_000
    tab.close()


def test_on_paper_every_tab_is_there_and_no_button(browser, made):
    tab = browser.new_page()
    tab.goto((made / "report.html").as_uri())
    tab.emulate_media(media="print")
    panels = tab.locator(".panel")
    assert panels.count() > 5 and all(panel.is_visible() for panel in panels.all())
    assert tab.locator(".panel h4").first.is_visible()  # in place of the tab's button
    assert not any(button.is_visible() for button in tab.locator("button").all())
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert tab.evaluate(style.format(".wide", "overflowX")) == "visible"  # paper does not scroll
    assert float(tab.evaluate(style.format("#points", "fontSize"))[:-2]) < 11  # so tables are set small
    assert tab.locator("details pre").first.is_visible()  # what is folded on the screen is not on paper
    tab.close()


def test_what_is_folded_is_printed_and_folded_again(browser, made):
    tab = browser.new_page()
    tab.goto((made / "report.html").as_uri())
    assert tab.locator("details").count() and not tab.locator("details[open]").count()
    folded = len(tab.pdf(format="A4"))
    assert not tab.locator("details[open]").count()
    tab.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert folded == pytest.approx(len(tab.pdf(format="A4")), rel=0.005)
    tab.close()


def test_paper_is_white_and_its_colours_dark_whatever_the_screen_was(browser, made):
    tab = browser.new_page(color_scheme="dark")
    tab.goto((made / "report.html").as_uri())
    names = ["paper", "ink", "soft", "rule", "card", "good", "bad", "open", "link"]
    read = f"{json.dumps(names)}.map(n => getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim())"
    dark = tab.evaluate(read)
    tab.emulate_media(media="print", color_scheme="light")
    light = tab.evaluate(read)
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate(read) == light and not set(light) & set(dark)
    tab.close()


def test_provenance_names_corpus_machine_time_and_versions(opened, made):
    shown = opened.locator("table.about").first.inner_text()
    result = json.loads((made / "result.json").read_text())
    assert result["studies"]["vocabulary"]["provenance"]["corpus_sha256"] in shown
    registries = result["studies"]["vocabulary"]["provenance"]["registries"]
    assert len(registries) == 3 and ", ".join(f"{name} {count}" for name, count in registries.items()) in shown
    for words in (
        "study-file.toml",
        "time, by the clock",
        "cells on",
        "of work",
        "pathveil",
        "torch",
        "seeds, distribution",
    ):
        assert words in shown
    opened.locator("details.more > summary", has_text="Vocabularies").click()
    for row in result["studies"]["vocabulary"]["vocabularies"]:
        assert row["sha256"] in opened.locator("details.more", has_text="sha256").last.inner_text()
    assert "Pathveil developers (2026)" in opened.locator("pre").last.inner_text()


def test_provenance_tells_the_study_file_the_date_and_the_time_by_the_clock():
    began = ("2026-11-14T23:10:00+00:00", "2026-11-15T08:00:00+00:00")
    sessions = [{"began": one, "file": "mine.toml", "machine": "m", "seconds": 300.0} for one in began]
    told = dict(page.provenance(Studies(), {"sessions": sessions}))
    assert (told["study file"], told["date"]) == ("mine.toml", "2026-11-14 to 2026-11-15")
    assert told["time, by the clock"] == "10.0 min, in 2 sessions"
    assert "date" not in dict(page.provenance(Studies(), {}))


def test_who_was_trained_on_stands_in_a_table_where_it_was_asked(opened, made):
    rows = json.loads((made / "result.json").read_text())["studies"]["distribution"]["membership"]
    for row, shown in zip(rows, cells(opened, "membership"), strict=True):
        told = f"suppressed ({row['suppressed']})" if "suppressed" in row else f"{row['auc']['value']:.3f} ("
        assert shown[0] == row["mode"] and shown[2].startswith(told)


def test_a_finding_that_the_study_cannot_judge_is_not_called_undecided(browser, made, tmp_path):
    result = json.loads((made / "result.json").read_text())
    short = next(finding for finding in result["findings"] if finding["id"] == "B3")
    short |= {"holds": None, "evidence": {"test": "a test", "comparisons": [], "missing": "the study has no single"}}
    findings = StudyResult.model_validate(result).findings
    short = next(finding for finding in findings if finding.id == "B3")
    undecided = Finding(id="B1", claim="…", holds=None, evidence={"test": "a test", "comparisons": []})
    told = "B1 cannot be decided with this much data. B3 was not judged: the study lacks what it compares."
    assert findings_listed("Found:", [undecided, short]) == f"Found: {told}"
    counted = "none holds here, 1 cannot be decided with this much data and 1 was not judged"
    assert findings_counted([undecided, short]) == counted
    (tmp_path / "page.html").write_text(page.render(StudyResult.model_validate(result)))
    tab = browser.new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    tab.locator("#findings > summary").click()
    shown = tab.locator('.finding[data-id="B3"]').first
    assert shown.locator("strong").inner_text() == "not judged" and "the study has no single" in shown.inner_text()
    assert shown.locator("b").first.inner_text() == MARKS["unjudged"][1] != MARKS["open"][1]
    tab.close()


def test_every_name_on_the_page_is_explained(opened, made):
    studies = json.loads((made / "result.json").read_text())["studies"]
    told = dict(zip(opened.locator("dl dt").all_inner_texts(), opened.locator("dl dd").all_inner_texts(), strict=True))
    modes = {row["mode"] for row in studies["distribution"]["scores"]}
    assert modes <= set(told) and "fedavg" not in told  # what is not on the page is not explained
    assert {"B", "I2, I3 …", "MI and a number", "Attacker's AUC", "Macro F1", "RMIA", "Probe"} <= set(told)
    assert told["B"].endswith("at least 5 times.") and all(told.values())
    alone = dict(terms(Studies(combined=studies["combined"])))
    assert "Fold" not in alone and "centralized" in alone


def test_the_strong_adversarys_tests_speak_of_it(opened):
    opened.locator("#findings > summary").click()
    told = opened.locator("h3:has-text('claims of the strong adversary') ~ .finding")
    lines = [one.inner_text() for one in told.all()]
    assert len(lines) == 4 and not any("of adversarial" in line for line in lines)
    assert "of strong alike centralized" in lines[0] and "of strong above single" in lines[1]


def test_the_appetites_of_the_result_stand_in_tables(opened, made):
    studies = json.loads((made / "result.json").read_text())["studies"]
    for name, table in (("vocabulary", "words-appetites"), ("combined", "appetites")):
        steps = studies[name]["recommendation"]["steps"]
        assert [row[1] for row in cells(opened, table)] == [step["use"] for step in steps] != []
        assert "the fewest words" in opened.locator(f"#panel-{table} .note").inner_text()
    shown = {row[0]: row[4] for row in cells(opened, "verdicts")}
    assert shown == studies["vocabulary"]["recommendation"]["verdicts"]


def test_what_has_too_few_cases_is_left_out_or_called_suppressed(made, shown):
    """Rows that are missing, and attacks that only say that they are suppressed."""
    result = json.loads((made / "result.json").read_text())
    study, few = result["studies"]["distribution"], {"suppressed": "fewer than 10 cases"}
    study["scores"] = [
        row for row in study["scores"] if row["registry"] != "R3" and (row["registry"], row["mode"]) != ("R2", "strong")
    ]
    study["classes"], study["per_class"] = study["classes"][1:], []
    study["membership"][0] = {k: study["membership"][0][k] for k in ("mode", "model", "seed", "attack")} | few
    vocabulary = result["studies"]["vocabulary"]
    vocabulary["table2"] = [row for row in vocabulary["table2"] if row["strategy"] != "I2"]
    tab = shown(page.render(StudyResult.model_validate(result)))
    tab.locator("#tab-scores-R2").click()
    assert ["site", "strong", *["suppressed (fewer than 10 cases)"] * 2] in cells(tab, "scores-R2")
    assert "fewer than 10 cases were tested on: R3" in tab.locator("#panel-scores .note").text_content()
    assert tab.locator("#scores-R3").count() == 0
    assert "suppressed (fewer than 10 cases)" in [row[2] for row in cells(tab, "membership")]
    assert ["I2", "–"] == [cells(tab, "table2-mean")[1][place] for place in (0, 2)]
    vocabulary["table2"], study["scores"], study["classes"] = [], [], []
    vocabulary["recommendation"] = {"sentence": "No vocabulary can be recommended.", "steps": []}
    assert "No vocabulary can be recommended." in page.render(StudyResult.model_validate(result))


def test_models_kept_at_their_last_epoch_are_told_and_marked(made, shown):
    result = json.loads((made / "result.json").read_text())
    for row in result["studies"]["vocabulary"]["vocabularies"]:
        row |= {"epoch": 1, "at_cap": False}
    for row in (*result["studies"]["distribution"]["traffic"], *result["studies"]["combined"]["points"]):
        row |= (
            {"epoch": [2, 1], "at_cap": [True, False]} if row["mode"] == "single" else {"epoch": [1], "at_cap": [False]}
        )
    warning = {"kind": "last epoch", "text": "1 of 2 models were best at the last epoch allowed"}
    for name, study in result["studies"].items():
        study["warnings"] = [warning] if name == "distribution" else []
    typed = StudyResult.model_validate(result)
    assert "1 of " in answer(typed)[-1] and "was kept at its last epoch (†)" in answer(typed)[-1]
    assert warning["text"] not in answer(typed)[-1]  # it stands among the reasons
    tab = shown(page.render(typed))
    head = tab.locator("#traffic th").all_inner_texts().index("best epoch")
    found = {row[0]: row[head] for row in cells(tab, "traffic")}
    assert found["single"] == "2†, 1" and found["centralized"] == "1"
    assert NOTE in tab.locator("#panel-traffic").inner_text()
    assert tab.locator("#panel-points .note").count() == 0
    assert f"Of the distribution study: {warning['text']}." in tab.locator("#why p").all_text_contents()


def test_a_run_in_which_nothing_codes_has_a_page_that_recommends_nothing(made):
    result = json.loads((made / "result.json").read_text())
    told = "No vocabulary can be recommended: none codes better than always answering the commonest code"
    for study in result["studies"].values():
        if study is not None:
            study["recommendation"] |= {"sentence": f"{told}.", "use": None, "within": False, "steps": []}
            study["recommendation"]["without_pooling"] = None
    shown = page.render(StudyResult.model_validate(result))
    assert told in shown and "(recommended)" not in shown and 'gid="recommended"' not in shown
    assert told in str(StudyResult.model_validate(result))
