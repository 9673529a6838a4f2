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


# Modules that have neither a test file of their own nor a doctest, and the test that covers them with others.
TESTED_WITH = {
    "callable_room.py": "test_api.py",  # what it makes callable is the API
    "cli/agree.py": "vocabulary/agree/test_usable.py",  # commands are tested in the room they are about
    "cli/audit.py": "audit/test_bundle_audit.py",
    "cli/cache.py": "vocabulary/test_cache.py",
    "cli/corpus.py": "corpus/test_intake.py",
    "cli/demo.py": "study/test_demo.py",
    "cli/federate.py": "federation/test_run.py",
    "cli/kits.py": "federation/flare/test_provision.py",
    "cli/serve.py": "serve/test_app.py",
    "cli/study.py": "study/test_study_file.py",
    "federation/flare/controller.py": "federation/flare/test_deployment.py",  # FLARE runs them, in processes of its own
    "federation/flare/duplicate_guard.py": "federation/flare/test_faults.py",
    "federation/flare/executor.py": "federation/flare/test_provision.py",
    "federation/flare/launcher.py": "federation/flare/test_deployment.py",
    "federation/flare/processes.py": "federation/flare/test_faults.py",
    "federation/flare/revocation.py": "federation/flare/test_certificates.py",
    "federation/flare/submit.py": "federation/flare/test_provision.py",
    "federation/protocol/course.py": "federation/protocol/test_hub_run.py",  # the hub drives both
    "federation/protocol/site_run.py": "federation/protocol/test_hub_run.py",
    "federation/protocol/site_work.py": "federation/test_embedded.py",
    "model/kernels/programs.py": "model/kernels/test_cuda.py",  # Triton's programs, through what launches them
    "training/linear_view.py": "training/test_ensemble.py",
    "training/plain_stack.py": "training/test_stacked.py",
    "training/programs.py": "training/test_stacked.py",
    "training/recording.py": "training/test_stacked.py",  # on a GPU alone
    "report/combined.py": "report/test_tables.py",  # a page's section
    "report/terms.py": "report/test_page.py",
    "serve/coding.py": "serve/test_app.py",  # the service, over HTTP
    "serve/accounts.py": "serve/test_casework.py",  # the store, as the page uses it
    "serve/admin_pages.py": "serve/test_pages.py",
    "serve/bodies.py": "serve/test_app.py",
    "serve/desk.py": "serve/test_casework.py",
    "serve/exports.py": "serve/test_pages.py",
    "serve/folder_feed.py": "serve/test_mllp_feed.py",
    "serve/incoming.py": "serve/test_mllp_feed.py",
    "serve/metrics.py": "serve/test_app.py",
    "serve/openapi.py": "serve/test_app.py",
    "serve/pool.py": "serve/test_app.py",
    "serve/review_pages.py": "serve/test_pages.py",
    "serve/sent.py": "serve/test_app.py",
    "serve/swap.py": "serve/test_pages.py",
    "bundle/encoder.py": "bundle/test_release.py",
    "study/combined.py": "study/test_study_file.py",  # a study is tested as a run
    "study/tables.py": "study/test_study_file.py",
    "study/vocabulary.py": "study/test_study_file.py",
    "vocabulary/agree/results.py": "vocabulary/agree/test_usable.py",  # what the commands print
}


def test_every_module_has_its_test():
    """``tests/<room>/test_<module>.py``, or doctests of its own, or a place above."""
    source, tests = ROOT / "src" / "pathveil", ROOT / "tests"
    for path in source.rglob("*.py"):
        name = path.relative_to(source)
        own = tests / name.with_name(f"test_{name.name}")
        if name.name not in ("__init__.py", "__main__.py") and not own.exists() and ">>> " not in path.read_text():
            assert name.as_posix() in TESTED_WITH, f"{name}: expected {own.relative_to(ROOT)}, or a doctest"
    for test in TESTED_WITH.values():
        assert (tests / test).is_file(), test


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
