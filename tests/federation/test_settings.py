"""Every setting of a federated training is explained where users look."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from pathveil.federation.settings import FederationSettings

PAGE = Path(__file__).parents[2] / "docs" / "distribution.md"


def test_every_setting_is_in_the_docs_and_none_that_is_not_there():
    rows = [line.split("|")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(FederationSettings.model_fields)


def test_the_defaults_that_the_help_tells_are_the_settings():
    from pathveil.cli import deployment

    told = {"epochs": deployment.EPOCHS, "filters": deployment.FILTERS, "dim": deployment.DIM}
    for name, option in told.items():
        assert option.help.endswith(f"; {getattr(FederationSettings(), name)} if not given.")


def test_windows_can_be_written_on_a_command_line():
    assert FederationSettings.model_validate({"windows": "2, 3"}).windows == (2, 3)
    for wrong in ("0,3", "", "a", ()):
        with pytest.raises(ValidationError):
            FederationSettings.model_validate({"windows": wrong})
