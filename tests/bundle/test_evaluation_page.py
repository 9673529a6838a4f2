"""The page of an evaluation: everything on it, nothing fetched, nothing of a report."""

import polars as pl
import pytest

from bundle.conftest import people


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
