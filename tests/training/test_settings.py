"""Settings: mistakes are sentences, and each setting stands in the docs."""

from pathlib import Path

import pytest

from pathveil.errors import UsageError
from pathveil.training.settings import PRESETS, NetworkSettings, TrainingSettings, preset_settings


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"filters": 0}, "'filters'"),
        ({"validation_share": 0.0}, "early stopping needs validation cases"),
        ({"windows": ()}, "windows must be"),
        ({"fitlers": 3}, "did you mean 'filters'"),
        ({"defence": {"kind": "teachers", "teacher": 3}}, "'defence.teachers.teacher': .* did you mean 'teachers'"),
        ({"defence": {"kind": "dp", "epsilan": 3}}, "did you mean 'epsilon'"),
    ],
)
def test_bad_settings_are_a_sentence(changes, message):
    with pytest.raises(UsageError, match=message):
        PRESETS["small"].changed(**changes)


def test_every_setting_is_in_the_docs():
    """The table of docs/training.md: no setting without a line, and each preset's value as it is."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for name, field in TrainingSettings.model_fields.items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[3] == field.description
        for cell, preset in zip(cells[1:3], ("small", "default"), strict=True):
            value = getattr(PRESETS[preset], name)
            words = {True: "yes", False: "no", None: "none"}
            shown = words[value] if value is None or isinstance(value, bool) else str(value).strip("()")
            assert cell in (shown, "") and (cell or value == getattr(PRESETS["small"], name)), name


def test_presets_are_found_by_name_and_changed():
    assert preset_settings("paper", epochs="3") == PRESETS["paper"].changed(epochs=3)
    with pytest.raises(UsageError, match="preset huge is not known; expected paper, small"):
        preset_settings("huge")


def test_a_shape_is_what_a_network_takes():
    assert NetworkSettings().shape() == {"dim": 300, "windows": (3, 4, 5), "filters": 100, "dropout": 0.5}
    assert TrainingSettings(filters=7).shape() == NetworkSettings(filters=7).shape()


def test_few_documents_are_gone_through_more_often_unless_epochs_are_named():
    default = PRESETS["default"]
    assert default.for_documents(100_000).epochs == 15
    assert default.for_documents(400).epochs == -(-650 // 3)  # a tenth is held out, which leaves three batches
    assert default.for_documents(400, held_out=10).epochs == -(-650 // 4)
    assert default.changed(epochs=2).for_documents(400).epochs == 2
    assert default.changed(filters=2).for_documents(400).epochs == -(-650 // 3)
