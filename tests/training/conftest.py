"""Training in these tests is of tiny models."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def quiet(one_thread):
    """Tiny models need no threads."""
