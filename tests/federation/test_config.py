"""Every setting of a federated training is explained where users look."""

import re
from pathlib import Path

from pathveil.federation.config import FederationConfig

PAGE = Path(__file__).parents[2] / "docs" / "distribution.md"


def test_every_setting_is_in_the_docs_and_none_that_is_not_there():
    rows = [line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(FederationConfig.model_fields)
