"""Classes that sites agree on, as files."""

import json

import pytest

from pathveil.errors import CorpusError, UsageError
from pathveil.federation.protocol.classes import ClassLists, joined, read_classes, write_class_counts


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


def test_labels_are_agreed_on_like_words_without_showing_a_list(tmp_path):
    """Three sites: what all have in two cases each is agreed on; a code of one site, or of one case, is nowhere."""
    from pathveil.agreement.simulate import simulate
    from pathveil.agreement.site import cases_of
    from pathveil.vocabulary.counts import WordCounts
    from pathveil.vocabulary.words import Vocabulary

    own = {
        "north": ["C50", "C50", "C18", "C18", "C69", "C69"],
        "south": ["C50", "C50", "C18", "C18", "C18", "C50"],
        "west": ["C50", "C50", "C18", "C50", "C50", "C50"],  # C18 in one case only
    }
    counts = {}
    for site, labels in own.items():
        rows = [f"{number},{number},{site},words,{label},3" for number, label in enumerate(labels)]
        table = ["report_id,case_id,registry,text,site,behavior", *rows, ""]
        (tmp_path / f"{site}.csv").write_text("\n".join(table))
        found = write_class_counts([tmp_path / f"{site}.csv"], tasks=["site", "behavior"], out=tmp_path / f"{site}.npz")
        assert set(found.classes) == {"site", "behavior"}
        counts[site] = cases_of(WordCounts.load(tmp_path / f"{site}.npz"))
    assert counts["west"] == {"behavior=3": 6, "site=C18": 1, "site=C50": 5}
    outcome = simulate(counts, threshold=3, min_cases=2, batch=4, seed=b"labels")
    outcome.vocabulary.save(tmp_path / "agreed.json")
    assert read_classes([tmp_path / "agreed.json"]) == {"behavior": ("3",), "site": ("C50",)}
    assert "C69" not in (tmp_path / "agreed.json").read_text()
    # A site's own part has no names for others' labels, and an ordinary vocabulary has no tasks.
    Vocabulary(("site=C50", "agreed word 1"), "by hand").save(tmp_path / "part.json")
    with pytest.raises(UsageError, match="of labels that not every site has published"):
        read_classes([tmp_path / "part.json"])


def test_a_label_that_cannot_be_a_word_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text('report_id,case_id,registry,text,site\n1,1,A,words,"C5\n0"\n')
    with pytest.raises(CorpusError, match="a label that cannot be agreed on"):
        write_class_counts([tmp_path / "a.csv"], tasks=["site"], out=tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists()
