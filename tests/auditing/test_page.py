"""The page: complete, escaped, and usable in a browser at two widths."""

from types import SimpleNamespace

import pytest
from jinja2 import UndefinedError

from auditing.made import audit_of_predictions
from auditing.test_verdict import APPETITE, HOLDS, row, whole
from pathveil.auditing.audited_model import ModelStatement
from pathveil.auditing.page import number_rows, rarity_charts, render
from pathveil.auditing.result import Audit
from pathveil.auditing.verdict import judge
from pathveil.bundle.release import Override


@pytest.fixture(scope="module")
def audit():
    return audit_of_predictions()


def test_the_verdict_comes_first_and_every_number_is_there(audit):
    html = render(audit)
    body = html[html.index("<main>") :]
    sentence = audit.verdict.sentence.split(": ", 1)[1]
    assert 0 < body.replace("\u00a0", " ").index(sentence[1:]) < body.index("The worst numbers, and those that decided")
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
    assert page.locator("#numbers tbody tr").count() == len(number_rows(audit.verdict))
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


def test_it_says_which_model_whose_appetite_and_where_to_sign(audit):
    """An example is called one; a decision carries a name, and there is a block to sign."""
    html = render(audit)
    assert "Held against an example, not a decision" in html and "nobody: an example" in html
    decided = audit.appetite.changed(name="A. <b>Officer</b>", organisation="North", date="2026-11-16")
    model = ModelStatement(
        name="colon-2026", model_sha256="ab" * 32, written="2026-11-01", tasks=("site",), reports=1200, cases=900,
        registries=("North",), words=50, words_by="by hand", preset="release", defence="teachers",
    )  # fmt: skip
    signed = render(audit.model_copy(update={"appetite": decided, "model": model, "kind": "bundle"}))
    assert "an example" not in signed[signed.index("<main>") :] and "A. &lt;b&gt;Officer&lt;/b&gt;, North" in signed
    for told in ("colon-2026", "ab" * 32, "written 2026-11-01", "1,200 reports of 900 cases", 'id="sign"', "Signature"):
        assert told in signed
    assert "The bundle holds weights" in signed  # the appetite is about probabilities
    assert audit.changes and all(change.split("'")[0][:40] in signed for change in audit.changes)
    override = Override(reason="the board <i>decided</i>", refusals=["there is no audit"])
    assert "the board &lt;i&gt;decided&lt;/i&gt;" in render(audit, override=override)


def test_it_prints_on_a4_and_letter(audit, browser, tmp_path):
    path = tmp_path / "audit.html"
    path.write_text(render(audit), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # as a browser does: everything is unfolded
    for sheet, width in (("A4", 794 - 113), ("Letter", 816 - 113)):  # CSS pixels between the margins
        page.set_viewport_size({"width": width, "height": 1000})
        wide = page.evaluate(
            "[...document.querySelectorAll('main table, main th, main td')]"
            ".filter(e => e.getBoundingClientRect().right > innerWidth + 1 || e.scrollWidth > e.clientWidth + 1)"
            ".map(e => e.id || e.textContent.slice(0, 40))"
        )
        assert wide == [], sheet  # nothing is cut off at the right, and no cell runs into the next
        assert page.evaluate("getComputedStyle(document.getElementById('sign')).breakInside") == "avoid"
        assert not page.locator(".tools").is_visible() and page.locator("#all").is_visible()
        pdf = page.pdf(format=sheet)
        assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    page.close()


def test_rare_classes_are_drawn_on_the_task_that_decides():
    """All tasks together have so few rare cases that only bounds are known; the verdict takes the worst task."""
    rows = [row(0.0, None, 0.93, bucket="< 25"), row(0.67, 0.78, 0.85, bucket="< 25", task="subsite")]
    found = SimpleNamespace(appetite=APPETITE, protocols=["matched"], measured=rows)
    ((_, drawn),) = rarity_charts(found, 0.1)
    assert 'class="dot' in drawn


def test_the_worst_row_is_the_highest_share_and_a_surer_breach_is_named_one(audit):
    """Of rare codes more are found, of common ones more surely: the table has both rows, and the figure the worst."""
    common = row(0.70, 0.75, 0.80, bucket="≥ 100")
    rare = row(0.68, 0.97, 1.0, bucket="< 100", task="site")
    paper = row(0.9, 0.99, 1.0, bucket="< 100", attack="shadow classifiers", decides=False)
    rows = [*whole()[:3], common, rare, paper, row(0.69, 0.88, 0.94, bucket="< 100", attack="label only")]
    verdict = judge(rows, controls=HOLDS, appetite=APPETITE)
    shown = number_rows(verdict)
    assert [(name, number.value) for name, number in shown[2:]] == [
        ("Worst group of classes", 0.97),
        ("Surest breach: worst group of classes", 0.75),
    ]
    settings = audit.settings | {"fprs": [0.1]}
    failed = audit.model_copy(update={"verdict": verdict, "evidence": tuple(rows), "settings": settings})
    html = render(failed)
    assert (
        html.index("Worst group of classes")
        < html.index(">97\u00a0%<")
        < html.index("Surest breach")
        < html.index(">75")
    )
    figures = [
        rarity_charts(SimpleNamespace(appetite=APPETITE, protocols=["matched"], measured=some), 0.1)
        for some in (rows, [common, rare])
    ]
    assert figures[0] == figures[1]
