"""What the documents say is there is there: the tree, the pages, the links, the notebooks."""

import re
import subprocess
import sys

import pytest

from conftest import ROOT
from notebooks import EXAMPLES, notebook

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def test_the_readme_is_read_in_a_minute():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90


def test_the_tree_in_the_architecture_page_is_what_a_reader_finds():
    """Every module once, in the place it has, and nothing that is not there."""
    listed, folders = [], []
    block = (DOCS / "architecture.md").read_text().partition("    src/pathveil/\n")[2].partition("\n\n")[0]
    for line in block.splitlines():
        indent, name = re.match(r"( +)(\S+)", line).groups()
        depth = len(indent) // 2 - 3
        folders = [*folders[:depth], name.rstrip("/")]
        if not name.endswith("/"):
            listed.append("/".join(folders))
    source = ROOT / "src" / "pathveil"
    modules = [path.relative_to(source).as_posix() for path in source.rglob("*.py")]
    there = sorted(name for name in modules if not name.endswith(("__init__.py", "__main__.py")))
    assert sorted(listed) == there


def test_the_index_leads_to_every_page():
    index = (DOCS / "index.md").read_text()
    for page in DOCS.rglob("*.md"):
        if page.name != "index.md":
            assert f"({page.relative_to(DOCS).as_posix()})" in index, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_holds_its_example(example):
    assert example.with_suffix(".ipynb").read_text() == notebook(example), "run 'make notebooks'"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path):
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
