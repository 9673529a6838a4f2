"""The page: complete, escaped, and usable in a browser at two widths."""

import pytest
from jinja2 import UndefinedError

from audit.made import audit_of_predictions
from pathveil.audit.page import render
from pathveil.audit.result import Audit


@pytest.fixture(scope="module")
def audit():
    return audit_of_predictions()


def test_the_verdict_comes_first_and_every_number_is_there(audit):
    html = render(audit)
    body = html[html.index("<main>") :]
    sentence = audit.verdict.sentence.split(": ", 1)[1]
    assert 0 < body.replace("\u00a0", " ").index(sentence[1:]) < body.index("The numbers that decided")
    assert html.count("<svg") >= 3 and "http://" not in html and "https://" not in html


def test_a_label_with_markup_is_escaped(audit):
    spoiled = Audit.model_validate_json(audit.to_json().replace("matched", "<b>matched</b>"))
    assert "<b>matched</b>" not in render(spoiled) and "&lt;b&gt;matched" in render(spoiled)


def test_a_missing_number_is_an_error_and_not_a_gap(audit):
    broken = audit.model_copy(update={"settings": {"fprs": audit.settings["fprs"]}})
    with pytest.raises(UndefinedError):
        render(broken)


@pytest.mark.parametrize("width", [1100, 390])
def test_in_a_browser(audit, browser, tmp_path, width):
    path = tmp_path / "audit.html"
    path.write_text(render(audit), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(path.as_uri())
    assert audit.verdict.answer.lower() in page.inner_text("#verdict").lower()
    assert page.locator("#numbers tbody tr").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out sideways
    page.click("#figures summary")
    shown = page.locator("#all tbody tr:not([hidden])")
    everything = shown.count()
    assert everything == len(audit.measured)
    page.select_option("select[data-column='0']", "matched")
    matched = [row for row in audit.measured if row.protocol == "matched"]
    assert shown.count() == len(matched) < everything
    page.click("#all th:text-is('AUC')")
    areas = [
        float(text.split()[0])
        for text in page.locator("#all tbody tr:not([hidden]) td:nth-child(11)").all_inner_texts()
    ]
    assert areas == sorted(areas, reverse=True)
    assert areas[0] == pytest.approx(max(row.auc.value for row in matched), abs=0.001)
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000
    assert problems == []
    page.close()
