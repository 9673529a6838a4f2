"""A site's secret is made once, is its own, and a damaged one is refused."""

import stat

import pytest

from pathveil.errors import UsageError
from pathveil.federation.protocol.secret import for_run, site_secret
from pathveil.rng import generator


def test_a_secret_is_made_once_and_private(tmp_path):
    first = site_secret(tmp_path)
    assert site_secret(tmp_path) == first and len(first) == 32
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert site_secret(tmp_path / "other") != first
    runs = [for_run(first, run) for run in ("ab", "ac")]
    assert generator(runs[0], 1).random() == generator(for_run(first, "ab"), 1).random()
    assert generator(runs[0], 1).random() != generator(runs[1], 1).random()
    assert all(0 <= number < 2**32 for number in runs[0]) and len(runs[0]) == 8


@pytest.mark.parametrize("content", ["", "ab", "x" * 64])
def test_a_damaged_secret_is_refused(tmp_path, content):
    (tmp_path / "secret").write_text(content)
    with pytest.raises(UsageError, match="is not the secret of a site"):
        site_secret(tmp_path)
