"""Classes that sites agree on: each lists its labels, and the joined lists number them for everybody.

Codes of a public scheme such as ICD-O-3 say little, but a list shows that its site has a very rare one; sites that mind
take the scheme's whole list instead.

>>> joined([{"site": ["C50"]}, {"site": ["C18", "C50"], "behavior": ["3"]}])
{'site': ('C18', 'C50'), 'behavior': ('3',)}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pathveil.errors import CorpusError, UsageError
from pathveil.files import write_json
from pathveil.results import Result


class ClassLists(Result):
    """A corpus's labels, task by task; the JSON is the file that sites show each other."""

    classes: dict[str, tuple[str, ...]]

    def to_dict(self) -> dict[str, Any]:
        return {task: list(labels) for task, labels in self.classes.items()}

    def rows(self) -> list[dict[str, Any]]:
        return [{"task": task, "label": label} for task, labels in self.classes.items() for label in labels]

    def summary(self) -> str:
        return "\n".join(f"{task}: {len(labels)} classes" for task, labels in self.classes.items())


def write_classes(corpora: Sequence[Path], *, tasks: Iterable[str] | None, out: Path) -> ClassLists:
    """List the labels of corpora, task by task, in a file."""
    from pathveil.vocabulary.encoding import read_labels

    _, names = read_labels(list(corpora), tasks=tasks)
    if not names:
        raise CorpusError("the corpus has no task column with labels to list; name the columns with --tasks")
    found = ClassLists(classes=names)
    write_json(out, found.to_dict())
    return found


def read_classes(files: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """The joined lists of several files."""
    lists = []
    for file in files:
        try:
            content = json.loads(file.read_text("utf-8"))
            if not content or not all(isinstance(labels, list) and labels for labels in content.values()):
                raise ValueError
            if not all(isinstance(label, str) for labels in content.values() for label in labels):
                raise ValueError
        except OSError as error:
            raise UsageError(
                f"{file}: cannot be read ({error.strerror}); 'pathveil federate classes' writes such a file"
            ) from None
        except (ValueError, AttributeError, TypeError):
            raise UsageError(
                f"{file}: does not list labels by task ({{task: [labels]}}), as 'pathveil federate classes' writes"
            ) from None
        lists.append(content)
    return joined(lists)


def joined(lists: Sequence[Mapping[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """Every label that any of the lists has, task by task."""
    tasks = dict.fromkeys(task for one in lists for task in one)
    return {task: tuple(sorted({label for one in lists for label in one.get(task, ())})) for task in tasks}
