"""What we depend on is pinned by hash, listed, and looked up among known defects without a network."""

import datetime
import importlib.util
import json

import pytest

from conftest import ROOT

spec = importlib.util.spec_from_file_location("supply", ROOT / "tools" / "supply.py")
supply = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supply)


def test_every_pin_has_its_hash_and_is_the_constraint():
    locked, wanted = supply.pins(supply.LOCK.read_text()), supply.pins(supply.CONSTRAINTS.read_text())
    assert locked and all(len(hashes) == 1 for _, hashes in locked.values())
    for name, (version, _) in wanted.items():
        assert name in locked and locked[name][0].partition("+")[0] == version, f"{name}: run 'make lock'"


def test_what_the_product_asks_for_itself_is_pinned():
    locked = supply.pins(supply.LOCK.read_text())
    for extra, names in supply.extras().items():
        for name in names:
            assert name in locked, f"{name} (extra {extra or 'core'}) has no pin in constraints.txt"


def test_the_pins_can_be_installed_where_pytorch_is_not_the_build_for_cpus():
    """On a machine with PyPI alone, ``make demo`` ends at its first step where these two differ."""
    wanted = {name: version for name, (version, _) in supply.pins(supply.CONSTRAINTS.read_text()).items()}
    required = {"2.13.0": "3.7.1"}  # of PyTorch's file for Linux: look it up for a newer one
    assert wanted["triton"] == required[wanted["torch"]]


def test_the_list_of_parts_is_what_the_lock_says():
    assert json.loads(supply.SBOM.read_text()) == supply.sbom(), "run 'make sbom'"


def test_no_pin_is_known_to_be_defective():
    locked = supply.pins(supply.LOCK.read_text())
    for advisory in supply.advisories(supply.ADVISORIES):
        assert not list(supply.affected(advisory, locked)), advisory["id"]


def test_every_stored_advisory_says_where_it_is_from_and_when_it_was_looked_up():
    known = list(supply.advisories(supply.ADVISORIES))
    locked = supply.pins(supply.LOCK.read_text())
    assert len({one["id"] for one in known}) == len(known) > 15
    for one in known:
        assert one["references"][0]["url"].startswith("http"), one["id"]
        datetime.date.fromisoformat(one["database_specific"]["looked_up"])
        assert {entry["package"]["name"] for entry in one["affected"]} <= set(locked), one["id"]


def test_advisories_are_taken_from_an_export_of_either_form(tmp_path):
    """Those of our parts alone, and what is not looked at stays behind; a withdrawn one too."""
    part = {"package": {"ecosystem": "PyPI", "name": "A.b"}, "ranges": [], "versions": ["1.0"], "more": "text"}
    told = {"id": "X-1", "summary": "s", "details": "long", "affected": [part], "references": [{"url": "https://x"}]}
    other = {"id": "X-2", "affected": [part | {"package": {"ecosystem": "PyPI", "name": "c"}}]}
    (tmp_path / "a-b").mkdir()
    (tmp_path / "a-b" / "X-1.yaml").write_text(json.dumps(told))  # every JSON text is a YAML one
    (tmp_path / "more.json").write_text(json.dumps([other, told | {"id": "X-3", "withdrawn": "2026-01-01"}, {"id": 1}]))
    (kept,) = supply.refreshed(tmp_path, {"a-b"}, day="2026-11-16")
    assert kept["id"] == "X-1" and "details" not in kept and "more" not in kept["affected"][0]
    assert kept["database_specific"] == {"looked_up": "2026-11-16"}
    assert list(supply.affected(kept, {"a-b": ("1.0", [])})) == ["a-b"]


@pytest.mark.parametrize(
    ("events", "inside", "outside"),
    [
        ([{"introduced": "0"}, {"fixed": "2.6.0"}], ["1.0", "2.5.1", "2.6.0rc1"], ["2.6.0", "2.10"]),
        ([{"introduced": "1.2"}, {"last_affected": "1.4"}], ["1.2", "1.4"], ["1.1", "1.4.1"]),
        ([{"introduced": "0"}, {"fixed": "1"}, {"introduced": "2"}, {"fixed": "2.5"}], ["0.5", "2.4"], ["1.5", "2.5"]),
    ],
)
def test_ranges_of_an_advisory(events, inside, outside):
    for version in inside:
        assert supply.within(supply.Version(version), events), version
    for version in outside:
        assert not supply.within(supply.Version(version), events), version
