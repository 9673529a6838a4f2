"""A hub and its sites as processes, for the tests of a file."""

import pytest

from federation.flare.deployment import running


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, inside):
    with running(tmp_path_factory.mktemp("deployment"), inside) as found:
        yield found
