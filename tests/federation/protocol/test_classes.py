"""Classes that sites agree on, as files."""

import json

import pytest

from pathveil.errors import UsageError
from pathveil.federation.protocol.classes import ClassLists, joined, read_classes


def test_joined_lists_number_every_label_once():
    lists = [{"site": ["C50"]}, {"site": ["C18", "C50"], "behavior": ["3"]}]
    assert joined(lists) == {"site": ("C18", "C50"), "behavior": ("3",)}


def test_the_result_is_the_file_that_is_read_again(tmp_path):
    found = ClassLists(classes={"site": ("C18", "C50"), "side": ("left",)})
    found.to_json(tmp_path / "a.json")
    assert json.loads(found.to_json()) == {"site": ["C18", "C50"], "side": ["left"]}
    assert read_classes([tmp_path / "a.json"]) == found.classes
    assert str(found) == "site: 2 classes\nside: 1 classes" and len(found.rows()) == 3


@pytest.mark.parametrize("content", ["[1]", "{}", '{"site": "C50"}', '{"site": []}', '{"site": [1]}', '{"words": {}}'])
def test_classes_are_lists_of_labels_by_task(tmp_path, content):
    (tmp_path / "classes.json").write_text(content)
    with pytest.raises(UsageError, match="does not list labels by task"):
        read_classes([tmp_path / "classes.json"])
    with pytest.raises(UsageError, match=r"other\.json: cannot be read \(No such file or directory\)"):
        read_classes([tmp_path / "other.json"])
