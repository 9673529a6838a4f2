"""The report's tests read one small run's report."""

import numba
import pytest
import torch

from pathveil.studies import study_file
from pathveil.studies.report import page
from studies.conftest import small_corpus
from studies.test_study_file import STUDY

__all__ = ["small_corpus"]

TRAINING = "dim = 8\nfilters = 4\nepochs = 4\nlearning_rate = 0.01\n"  # enough to code better than the commonest code


@pytest.fixture(scope="session")
def made(tmp_path_factory, small_corpus):
    """A small run's folder with its report."""
    out = tmp_path_factory.mktemp("report")
    text = STUDY.format(corpus=small_corpus, training=TRAINING)
    text = text.replace("[distribution]", "[distribution]\nclass_samples = 10")
    text = text.replace("sizes = [5]", 'sizes = [5]\nfolds = ["R1", "R2"]').replace(
        '"adversarial"]', '"adversarial", "strong"]'
    )
    (out / "study-file.toml").write_text(text)
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)  # for tiny models threads cost more than they give
    numba.set_num_threads(1)
    result = study_file.run(out / "study-file.toml", out=out / "run")
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])
    page.write(result, out / "run" / "report.html")
    return out / "run"


@pytest.fixture
def opened(browser, made):
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    complaints, asked = [], []
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto((made / "report.html").as_uri())
    yield tab
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "blob:"))] == []  # nothing is fetched
    tab.close()


@pytest.fixture
def shown(browser, tmp_path):
    """A tab that shows a page given as text."""
    tabs = []

    def show(text):
        path = tmp_path / f"page-{len(tabs)}.html"
        path.write_text(text, encoding="utf-8")
        tabs.append(browser.new_page(viewport={"width": 1280, "height": 900}, accept_downloads=True))
        tabs[-1].goto(path.as_uri())
        return tabs[-1]

    yield show
    for tab in tabs:
        tab.close()


def cells(tab, table):
    """A table's cells as text, by row."""
    return [row.locator("td").all_inner_texts() for row in tab.locator(f"#{table} tbody tr").all()]
