"""What a site looks at before it takes part in a run."""

import json

import pytest

from federation.protocol.test_hub_run import plan_of
from pathveil.federation.wire import PlanError

pytest.importorskip("nvflare", reason="needs NVIDIA FLARE: pip install 'pathveil[federation]'")

from typer.testing import CliRunner

from pathveil.cli import app
from pathveil.errors import FederationError, VocabularyError
from pathveil.federation.flare.executor import open_run
from pathveil.federation.flare.signed_kit import described
from pathveil.federation.protocol.course import exchanges_of
from pathveil.federation.protocol.plan import read_plan
from pathveil.vocabulary.words import Vocabulary


def settings_in(kit):
    """A site's kit whose hub is hub.example.org, with settings that name no reports; the settings and their file."""
    path = kit / "local" / "pathveil.json"
    settings = {"corpus": ["none"], "vocabulary": str(kit / "none.json"), "registries": []}
    startup = described("site", "north", host="hub.example.org", port=8002)
    for file, content in ((path, settings), (kit / "startup" / "fed_client.json", startup)):
        file.parent.mkdir()
        file.write_text(json.dumps(content))
    return settings, path


def test_a_site_takes_part_without_masks_only_where_it_was_told_so(tmp_path, caplog):
    own, path = settings_in(tmp_path)
    with pytest.raises(PlanError, match="the plan has no masks: the hub would see this site's updates by themselves"):
        open_run(plan_of("adversarial"), "A", session="ab", root=tmp_path)
    # Masked, or where it was told so, it goes on to read its words and reports.
    for plan, told in ((plan_of("adversarial", bits=32, sites=2), {}), (plan_of("cyclic"), {"unmasked": True})):
        path.write_text(json.dumps(own | told))
        with pytest.raises(VocabularyError):
            open_run(plan, "A", session="ab", root=tmp_path)
    assert "with two sites masks hide nothing from the other" in caplog.text


def test_a_site_takes_part_in_the_plans_it_was_told_alone(tmp_path):
    """A plan goes from 'submit --plan' to the site as a file; another one, were it of the same name, is refused."""
    Vocabulary(("a", "b", "c"), "by hand").save(tmp_path / "words.json")
    (tmp_path / "classes.json").write_text('{"site": ["C50", "C18"]}')
    call = ["federate", "submit", "kit", "--site", "north", "--site", "south", "--out", tmp_path / "run"]
    call += [
        "--vocab",
        tmp_path / "words.json",
        "--classes",
        tmp_path / "classes.json",
        "--plan",
        tmp_path / "plan.json",
    ]
    ended = CliRunner().invoke(app, [str(part) for part in call])
    assert ended.exit_code == 0 and "nothing was submitted" in ended.output and not (tmp_path / "run").exists()
    plan = read_plan(tmp_path / "plan.json")
    assert plan.sites == ("north", "south") and plan.masked
    own, path = settings_in(tmp_path)
    path.write_text(json.dumps(own | {"plans": [plan.model_dump(mode="json")]}))
    with pytest.raises(VocabularyError):  # goes on to read its words
        open_run(plan, "north", session="ab", root=tmp_path)
    with pytest.raises(PlanError, match="not of a plan that this site was told to take part in"):
        open_run(plan.model_copy(update={"seed": 2}), "north", session="ab", root=tmp_path)
    (tmp_path / "plan.json").write_text('{"mode": "strong"}')
    with pytest.raises(FederationError, match="is not a plan"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        (("hub.example.org",), "counts the hub, 'hub.example.org', among its sites; refused"),
        (("south", "hub.example.org"), "counts the hub, 'hub.example.org'"),
        (("south", "lead@example.org"), "counts an administrator, 'lead@example.org'"),
    ],
)
def test_a_site_refuses_a_plan_that_counts_the_hub_or_an_administrator_as_sites(tmp_path, others, sentence):
    """Their certificates are the authority's too; alone with them, a site would show its update in the sum."""
    settings_in(tmp_path)
    plan = plan_of("adversarial", bits=32).model_copy(update={"sites": ("north", *others)})
    with pytest.raises(PlanError, match=sentence):
        open_run(plan, "north", session="ab", root=tmp_path)


@pytest.mark.parametrize("content", ["{}", '{"servers": []}', '{"servers": [{"name": "pathveil"}]}'])
def test_a_kit_that_does_not_name_the_hub_stops_the_site(tmp_path, content):
    settings_in(tmp_path)
    (tmp_path / "startup" / "fed_client.json").write_text(content)
    with pytest.raises(FederationError, match="does not name the hub"):
        open_run(plan_of("adversarial", bits=32), "A", session="ab", root=tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"epochs": 10**9}, "plans a 'epochs' of more than 10,000"),
        ({"discriminator_steps": 10**9}, "plans a 'discriminator_steps' of more than 1,000"),
        ({"dim": 10**9}, "plans a 'dim' of more than 16,384"),
        ({"dim": 10_000, "filters": 10_000}, "numbers of a network"),
        ({"windows": [3] * 65}, "more than 64 windows"),
    ],
)
def test_a_plan_that_would_fill_a_sites_memory_is_not_begun(tmp_path, change, sentence):
    plan = plan_of("adversarial", bits=32).model_dump(mode="json")
    plan["settings"] |= change
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(FederationError, match=sentence):
        read_plan(tmp_path / "plan.json")


def test_counts_that_would_make_a_run_of_endless_steps_are_refused():
    """Within what a plan may say, and what a hub may tell of the other sites."""
    plan = plan_of("adversarial", bits=32, epochs=10_000, discriminator_steps=1_000, batch_size=1, largest_weight=None)
    with pytest.raises(FederationError, match="would have more than 2,000,000 steps"):
        exchanges_of(plan, [10**6] * 3)
