"""Worlds in several pieces of work are the worlds of one."""

import pytest

from pathveil.studies.defences import DefencesSettings, DefencesStudy
from pathveil.studies.scheduler import run_in_folder

SETTINGS = DefencesSettings(
    ways={"taught": {"preset": "release", "teachers": 2, "unseen": 1, "fewest_steps": 40}},
    worlds=5,
    tasks=("site",),
    training={"dim": 8, "filters": 4, "patience": None, "learning_rate": 0.02, "epochs": 1},
)


@pytest.fixture(scope="module")
def results(small_corpus, tmp_path_factory):
    """The same study with all worlds in one piece, and with two or three in each."""
    found = {}
    for most in (5, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pathveil.studies.defences.TOGETHER", {"cpu": most})
            study = DefencesStudy(small_corpus, SETTINGS, out=tmp_path_factory.mktemp(f"by-{most}"))
            names = [unit.name for unit in study.units(device="cpu")]
            found[most] = names, run_in_folder(study), study
    return found


def test_worlds_in_pieces_give_the_figures_of_one_piece(results):
    (whole_names, whole, _), (names, pieces, _) = results.values()
    assert whole_names == ["worlds taught, cases >= 5, seed 1", "attacks taught, cases >= 5, seed 1"]
    assert names == [f"worlds taught, cases >= 5, seed 1, {some}" for some in ("1–2", "3–5")] + whole_names[1:]
    assert pieces.table == whole.table


def test_only_what_attacks_need_stays_of_the_pieces(results):
    (_, _, whole), (_, _, pieces) = results.values()
    assert len([*pieces.cells.folder.iterdir()]) == len([*whole.cells.folder.iterdir()])
    took = [cell["seconds"] for cell in pieces.seconds()]
    assert len(took) == 2
    assert took[0] > 0
    assert [unit.cells for unit in pieces.units(device="cpu")] == [unit.cells for unit in whole.units(device="cpu")]
