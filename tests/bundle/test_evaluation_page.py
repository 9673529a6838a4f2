"""The page of an evaluation: everything on it, nothing fetched, nothing of a report."""

import polars as pl
import pytest

from bundle.conftest import people
from pathveil.bundle.evaluation import CodedShare
from pathveil.errors import UsageError


@pytest.fixture(scope="module")
def page(bundle, fresh, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "years.parquet"
    table = pl.read_parquet(fresh).with_columns(year=pl.Series([2015, 2016, 2016, 2017] * 15))
    table.with_columns(
        registry=pl.when(pl.col("registry") == "R1").then(pl.lit("<b>R1")).otherwise("registry")
    ).write_parquet(path)
    return bundle.evaluate(path, resamples=20).page()


def test_the_page_says_it_all_and_escapes(page, bundle):
    for words in ("How the model does on 60 reports", "micro F1", "Accuracy against coverage", "Share right by year"):
        assert words in page
    assert all(f'id="{task}"' in page for task in bundle.tasks) and "breast" in page
    assert "&lt;b&gt;R1" in page and "<b>R1" not in page
    assert not [name for number in range(60) for name in people(number) if name.lower() in page.lower()]


def test_nothing_is_fetched_and_a_phone_shows_it(page, browser, tmp_path):
    (tmp_path / "page.html").write_text(page)
    assert "http://" not in page and "https://" not in page and "<script" not in page
    phone = browser.new_page(viewport={"width": 360, "height": 740})
    faults = []
    phone.on("console", lambda message: faults.append(message.text))
    phone.goto((tmp_path / "page.html").as_uri())
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360
    assert phone.locator("svg[role=img]").count() >= 12 and faults == []
    phone.close()


def test_the_training_reports_are_warned_of(bundle, corpus):
    result = bundle.evaluate(corpus, resamples=10)
    assert "reports that the model was trained on" in result.warnings[0] and "Note: these are" in repr(result)
    assert "These are the reports that the model was trained on" in result.page()


def test_a_page_that_is_handed_on_warns_too(bundle, fresh):
    """Of training cases among the reports, and of codes that are less often right than the thresholds promise."""
    result = bundle.evaluate(fresh, resamples=10)
    for cases, words in ((10, "20 of these reports belong to cases"), (9, "Some of these reports belong to cases")):
        assert words in result.model_copy(update={"training_reports": 20, "training_cases": cases}).page()
    alike = result.model_copy(update={"training_reports": 0, "training_texts": 1, "training_text_cases": 1}).page()
    assert "Some of these reports read word for word like one" in alike and "belong to cases" not in alike
    share = {"share": 0.5, "accuracy": 0.7}
    site = result.tasks["site"].model_copy(update={"coded": CodedShare(**share, cases=15), "wanted": 0.97})
    page = result.model_copy(update={"tasks": {"site": site}}).page()
    assert "Site: 70.0 % of what is coded without a person is right, 97.0 % were promised." in page
    few = site.model_copy(update={"coded": CodedShare(**share, cases=3)})
    page = result.model_copy(update={"tasks": {"site": few}, "contradictions": 2, "contradicting_cases": 1}).page()
    assert "promised.</p>" not in page and "70.0 %" not in page and "Codes of fewer than 10 reports" in page
    assert '<td class="n">of fewer than 10 cases</td><td class="n">fewer than 10 cases</td>' in page
    several = {"contradictions": 12, "contradicting_cases": 6}
    page = result.model_copy(update=several).page()
    assert "Codes of reports of fewer than 10 cases contradict" in page and "12 reports" not in page


def test_cases_are_counted_not_reports(bundle, fresh):
    """31 reports with codes that the model does not know, 30 of them one patient's, are two cases."""
    table = pl.read_parquet(fresh)
    one = pl.concat([table[:1]] * 30).with_columns(
        report_id=pl.format("one-{}", pl.int_range(pl.len())), case_id=pl.lit("one"), histology=pl.lit("9999")
    )
    two = table[:1].with_columns(report_id=pl.lit("two"), case_id=pl.lit("two"), histology=pl.lit("9998"))
    result = bundle.evaluate(pl.concat([table, one, two]), resamples=10)
    score = result.tasks["histology"]
    assert (score.unseen_labels, score.unseen_cases) == (31, 2)
    assert "that the model does not know" not in result.page()
    assert result.tasks["site"].coded.cases <= result.cases == 32


def test_shares_are_told_so_that_a_promise_can_be_judged(bundle, fresh):
    """96.5 % is less than 97, nothing is promised of what is left to people, and few unknown codes are not told."""
    result = bundle.evaluate(fresh, resamples=10)
    site = (
        result.tasks["site"]
        .model_copy(update={"coded": CodedShare(share=1.0, accuracy=0.965, cases=30), "wanted": 0.97, "threshold": 0.5})
        .model_copy(update={"unseen_labels": 20, "unseen_cases": 9})
    )
    page = result.model_copy(update={"tasks": {"site": site}}).page()
    assert '<td class="n">96.5 %</td><td class="n">97.0 %</td>' in page and "that the model does not know" not in page
    many = site.model_copy(update={"threshold": None, "unseen_cases": 10})
    page = result.model_copy(update={"tasks": {"site": many}}).page()
    assert '<td class="n">96.5 %</td><td class="n">–</td>' in page and "20 have a code that the model does not" in page


def test_registries_keep_apart_and_keep_their_counts(bundle, fresh, browser, tmp_path):
    """Names that are alike at both ends, and longer than a figure has room for."""
    names = [f"Krebsregister Baden-Württemberg, {part} und Umgebung, WWWW" for part in ("Nord", "Süd")]
    table = pl.read_parquet(fresh).with_columns(registry=pl.Series([names[number // 30] for number in range(60)]))
    page = bundle.evaluate(table, resamples=10).page()
    assert all(name in page for name in names)
    (tmp_path / "page.html").write_text(page)
    shown = browser.new_page()
    shown.goto((tmp_path / "page.html").as_uri())
    labels = shown.locator("svg[aria-label='subsite: share right by registry'] text.label")
    texts = labels.all_text_contents()
    assert len(set(texts)) == 2 and all(text.endswith("(30)") and text.startswith("Krebs") for text in texts)
    assert all(x >= 0 for x in labels.evaluate_all("all => all.map(one => one.getBBox().x)"))
    shown.close()


def test_no_task_of_few_cases_is_on_the_page(bundle, fresh, tmp_path):
    table = pl.read_parquet(fresh).with_row_index()
    some = table.with_columns(laterality=pl.when(pl.col("index") < 6).then("laterality"))
    some.drop("index").write_parquet(tmp_path / "some.parquet")
    result = bundle.evaluate(tmp_path / "some.parquet", resamples=10)
    page = result.page()
    assert result.tasks["laterality"].documents == 6 and result.tasks["laterality"].details.calibration_error is None
    assert "Not shown: laterality" in page and 'id="laterality"' not in page and 'id="site"' in page
    table.drop("index").head(6).write_parquet(tmp_path / "few.parquet")
    with pytest.raises(UsageError, match="cannot tell of fewer than 10 cases"):
        bundle.evaluate(tmp_path / "few.parquet", resamples=10).page()


def test_paper_has_all_of_it(page, browser, tmp_path):
    """No table is cut off at the edge of A4, and what is folded on a screen is unfolded."""
    (tmp_path / "page.html").write_text(page.replace("<details open>", "<details>"))
    paper = browser.new_page(viewport={"width": 700, "height": 1000})
    paper.emulate_media(media="print")
    paper.goto((tmp_path / "page.html").as_uri())
    widths = "[...document.querySelectorAll('table')].map(one => one.getBoundingClientRect().right)"
    assert max(paper.evaluate(widths)) <= 700
    seen = "[...document.querySelectorAll('details table')].every(one => one.checkVisibility())"
    assert paper.locator("details table").count() and paper.evaluate(seen)
    kept = "[...document.querySelectorAll('main h2')].map(one => getComputedStyle(one.parentElement).breakInside)"
    assert set(paper.evaluate(kept)) == {"avoid"}  # with the sentence and figures that follow it
    paper.close()


def test_registries_and_years_that_are_not_drawn_are_counted(bundle, fresh):
    result = bundle.evaluate(fresh, resamples=10)
    site = result.tasks["site"]
    year = site.details.registries[0]
    many = [year.model_copy(update={"name": str(number)}) for number in range(2001, 2019)]
    details = site.details.model_copy(update={"years": many, "small_groups": 3})
    page = result.model_copy(update={"tasks": {"site": site.model_copy(update={"details": details})}}).page()
    assert "Share right by year, the 15 largest of 18, with 95" in page
    assert "3 registries and years are not shown, so that nothing is told of fewer than ten cases." in page


def test_tasks_that_are_always_left_to_people_are_told(bundle, fresh):
    found = bundle.evaluate(fresh, resamples=10)
    tasks = {
        task: one.model_copy(update={"threshold": None if task in ("site", "histology") else 0.9})
        for task, one in found.tasks.items()
    }
    result = found.model_copy(update={"tasks": tasks})
    told = "All reports are left to a person for site and histology: no threshold was found"
    assert told in result.summary() and told in result.page()
    sure = result.model_copy(update={"tasks": {"subsite": tasks["subsite"]}})
    assert "left to a person for" not in sure.summary() + sure.page()
