"""Reports: a label is not simply there to be read."""

from pathveil.icdo.lists import code_lists


def look_up(text: str, names: dict[str, list[str]]) -> str:
    """The class whose name fills most of the text: what a simple rule would answer."""
    text = text.lower()
    return max(names, key=lambda code: max(len(name) * text.count(name.lower()) for name in names[code]))


def test_labels_cannot_simply_be_read_off(made):
    _, names, terms, _, _ = code_lists()
    histologies: dict[str, list[str]] = {}
    for code, said in terms.items():
        histologies.setdefault(code[:4], []).extend(said)
    reports = made[0].head(250)
    for task, classes in (("subsite", names), ("histology", histologies)):
        rows = reports.drop_nulls(task).select("text", task).rows()
        right = sum(look_up(text, classes) == label for text, label in rows) / len(rows)
        assert 0.3 < right < 0.75, (task, right)
    coded = made[0]["text"].str.contains(r"\bC\d\d\.\d\b|\bM-\d{5}\b").mean()
    assert 0 < coded < 0.1
