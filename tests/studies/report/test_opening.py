"""How the report opens, in a browser: the answer as a picture, contents in sight, words explained, figures enlarged."""

import csv
import io
import re
from importlib.resources import files

import pytest
from playwright.sync_api import expect

from pathveil.studies.report import page, readers
from pathveil.studies.report.findings import size_line, size_of
from pathveil.studies.result import read_run
from pathveil.studies.rows import Difference, Finding

BOX = "one => { const box = one.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom] }"


def test_the_first_screen_is_the_answer_as_a_picture(opened, made):
    """Picture, sentence and three figures before any scrolling; then a way in for each reader; findings in a strip."""
    picture = opened.locator("#answer figure svg").first
    _, top, _, bottom = picture.evaluate(BOX)
    assert top < 140 and bottom < 900
    below = "top => [...document.querySelectorAll('main table, main dl, main .finding')].filter(one => "
    below += "one.checkVisibility()).every(one => one.getBoundingClientRect().top > top)"
    assert opened.evaluate(below, bottom)
    assert picture.locator("#recommended").count() == 1 and picture.locator("text", has_text="tolerated").count() == 1
    assert opened.locator("#answer .sentence").evaluate(BOX)[3] < 900
    facts = opened.locator(".facts > div")
    assert facts.count() == 3 and facts.last.evaluate(BOX)[3] < 900
    for reader, link in zip(readers.READERS, opened.locator(".readers a").all(), strict=True):
        assert reader.who in link.inner_text()
        assert opened.locator(link.get_attribute("href")).count() == 1
    strip = opened.locator("#findings")
    _, top, _, bottom = strip.evaluate(BOX)
    assert bottom - top < 140 and strip.locator(".chip").count() == 12  # those of the paper's adversary
    assert not strip.locator(".finding").first.is_visible()
    strip.locator("summary").click()
    assert strip.locator(".finding").first.is_visible()


def test_the_contents_stay_in_sight_and_say_where_one_is(opened):
    opened.locator("#terms").scroll_into_view_if_needed()
    opened.evaluate("scrollTo(0, document.body.scrollHeight)")
    _, top, _, bottom = opened.locator("nav").evaluate(BOX)
    assert 0 <= top < bottom <= 900
    opened.wait_for_function("document.querySelector('nav a[aria-current]')?.hash === '#terms'")
    for link in opened.locator("nav a").all():
        assert opened.locator(link.get_attribute("href")).count() == 1
    opened.set_viewport_size({"width": 390, "height": 800})
    _, top, _, bottom = opened.locator("nav").evaluate(BOX)
    assert 0 <= top < bottom < 60
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390


def test_words_are_explained_where_they_stand_and_at_the_end(opened):
    terms = opened.locator("a.term")
    assert terms.count() > 5 and opened.locator("th .term").count() > 3
    for link in terms.all():
        meaning = opened.locator(f"{link.get_attribute('href')} dd").text_content()
        assert meaning == link.get_attribute("data-tip")
    first = opened.locator("#answer a.term").first
    for show in (first.hover, first.focus):
        opened.mouse.move(0, 0)
        show()
        assert opened.locator("#tip").inner_text() == first.get_attribute("data-tip")
    opened.emulate_media(media="print")
    assert not opened.locator("#tip").is_visible() and opened.locator("#term-1").is_visible()


def test_a_figure_is_enlarged_brought_nearer_and_closed(opened):
    figure = opened.locator("figure").nth(1)
    svg, whole = figure.locator("svg"), figure.locator("svg").get_attribute("viewBox")
    figure.locator(".zoom").click()
    left, top, right, bottom = figure.evaluate(BOX)
    assert (left, top, right, bottom) == (0, 0, 1280, 900)
    opened.mouse.move(600, 400)
    opened.mouse.wheel(0, -300)
    opened.wait_for_function(
        "whole => document.querySelector('figure:target svg').getAttribute('viewBox') !== whole", arg=whole
    )
    assert float(svg.get_attribute("viewBox").split()[2]) < float(whole.split()[2])
    opened.keyboard.press("Escape")
    opened.wait_for_function("!document.querySelector('figure:target')")
    expect(svg).to_have_attribute("viewBox", whole)  # the browser tells the page a moment after it has closed it


def test_a_figure_is_saved_as_drawing_picture_and_numbers(opened, made):
    rows = opened.locator("#figure-files tr")
    assert rows.count() == opened.locator("figure").count()

    def saved(kind):
        with opened.expect_download() as waiting:
            rows.first.locator(f'button[data-file="{kind}"]').click()
        assert waiting.value.suggested_filename == f"figure-answer-1.{kind}"
        return waiting.value.path().read_bytes()

    drawing = saved("svg").decode()
    assert drawing.startswith("<svg") and "var(--" not in drawing and "#14703c" in drawing
    assert saved("png")[:8] == b"\x89PNG\r\n\x1a\n"
    head, *lines = csv.reader(io.StringIO(saved("csv").decode()))
    candidates = read_run(made / "result.json").studies.combined.recommendation.candidates
    assert head[2:4] == ["attacker's AUC", "macro F1"]
    assert sorted(float(line[3]) for line in lines) == [
        pytest.approx(v, abs=1e-6) for v in sorted(one.macro for one in candidates)
    ]


def test_it_is_read_and_enlarged_without_scripts(browser, made):
    tab = browser.new_page(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    tab.goto((made / "report.html").as_uri())
    assert all(panel.is_visible() for panel in tab.locator(".panel").all())
    assert not any(button.is_visible() for button in tab.locator("button").all())
    tab.locator("#findings > summary").click()
    assert tab.locator(".finding").first.is_visible()
    assert tab.locator("a.term").first.get_attribute("title")
    tab.locator("figure .zoom").first.click()
    assert tab.locator("figure:target").bounding_box()["width"] == 1280
    tab.locator("figure:target .close").click()
    assert tab.locator("figure:target").count() == 0
    tab.close()


def test_nothing_is_fetched_and_no_words_of_reports_are_there(made, small_corpus):
    text = (made / "report.html").read_text()
    assert not re.search(r"(?:src|href)=.(?:https?:)?//|@import|url\((?!#)|<link|<iframe", text)
    assert re.findall(r"https?://[^\s\"'<>)]+", text.replace("http://www.w3.org/", "")) == []


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_text_stands_out_from_its_ground():
    style = (files("pathveil.studies.report") / "page.css").read_text()
    schemes = re.findall(r":root \{(.*?)\}", style, re.S)
    assert len(schemes) == 3  # light, dark, paper
    for scheme in schemes:
        colours = {
            name: value if len(value) == 7 else "#" + "".join(2 * c for c in value[1:])
            for name, value in re.findall(r"--([a-z0-9]+): (#[0-9a-f]+)", scheme)
        }
        for ground in ("paper", "card"):
            for name in ("ink", "soft", "good", "bad", "open", "link"):
                light, dark = sorted((luminance(colours[ground]), luminance(colours[name])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ground)


def test_what_would_decide_an_open_finding_is_told():
    about = {"compared": "x", "alone": None, "confidence": 0.95, "units": 4}
    one = Difference(difference=0.02, low=-0.01, high=0.05, **about)
    finding = Finding(id="A3", claim="x", holds=None, evidence={"test": "t", "comparisons": [one]})
    assert size_of(one) == (False, 10) and "about 10 registries like these instead of 4" in size_line(finding)
    level = Difference(difference=0.0, low=-0.01, high=0.01, **about)
    told = Finding(id="A3", claim="x", holds=None, evidence={"test": "t", "comparisons": [level]})
    assert "hardly help" in size_line(told)
    assert page.made_up_sentence(0) == "" and "no patient" in page.made_up_sentence(90)
