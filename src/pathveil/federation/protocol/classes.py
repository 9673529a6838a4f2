"""Classes that sites agree on: each lists its labels, and the joined lists number them for everybody.

Codes of a public scheme such as ICD-O-3 say little, but a list shows that its site has a very rare one. Sites that mind
agree on labels as they agree on words (``agreement``): each counts its labels at home, as if "site=C50.9" were a
word; tags of them go through the key holders to a hub that counts sites; and what k sites have, each in m cases, is
known to all without anyone having shown a list. Or they take the scheme's whole list.

>>> joined([{"site": ["C50"]}, {"site": ["C18", "C50"], "behavior": ["3"]}])
{'site': ('C18', 'C50'), 'behavior': ('3',)}
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.errors import CorpusError, UsageError
from pathveil.files import check_file, check_new, write_json
from pathveil.results import Result
from pathveil.untrusted import parse_json, read_bytes
from pathveil.vocabulary.words import FORMAT

JOINT = "="  # between a task and its label, where the two are one word


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

    check_new(out)
    _, names = read_labels(list(corpora), tasks=tasks)
    if not names:
        raise CorpusError("the corpus has no task column with labels to list; name the columns with --tasks")
    found = ClassLists(classes=names)
    write_json(out, found.to_dict())
    return found


def write_class_counts(corpora: Sequence[Path], *, tasks: Iterable[str] | None, out: Path) -> ClassLists:
    """Count the cases of every label of corpora in a file for ``vocab agree``, which shows none of them to anyone."""
    from scipy import sparse

    from pathveil.corpus.schema import scan
    from pathveil.vocabulary.counts import FIRST, WordCounts
    from pathveil.vocabulary.encoding import read_labels

    check_file(out, renews=[FIRST.encode()], reads=corpora)
    labels, names = read_labels(list(corpora), tasks=tasks)
    if not names:
        raise CorpusError("the corpus has no task column with labels to count; name the columns with --tasks")
    columns = scan(list(corpora)).select("case_id").collect(engine="streaming")
    _, case = np.unique(columns["case_id"].to_numpy(), return_inverse=True)
    counted: dict[str, tuple[int, int]] = {}  # as a word: reports and cases that have it
    for task, known in names.items():
        for number, label in enumerate(known):
            if JOINT in task or not label.isprintable():
                raise CorpusError(f"task '{task}' has a label that cannot be agreed on: it must be printable text")
            rows = labels[task] == number
            counted[f"{task}{JOINT}{label}"] = int(rows.sum()), len(np.unique(case[rows]))
    words = tuple(sorted(counted))
    reports, cases = (np.array([[counted[word][place] for word in words]], np.int64) for place in (0, 1))
    WordCounts(
        words=words,
        registry_names=("labels",),
        classes={},
        total_reports=np.array([len(case)]),
        total_cases=np.array([case.max(initial=-1) + 1]),
        occurrences=reports,
        reports=reports,
        cases=cases,
        labels=np.zeros((1, 0), np.int64),
        joint=(sparse.csr_array((len(words), 0), dtype=np.int32),),
        source={"labels": list(names)},
    ).save(out)
    return ClassLists(classes=names)


def agreed_classes(content: Mapping[str, Any], file: Path) -> dict[str, list[str]]:
    """The labels by task that stand in an agreed vocabulary of labels.

    >>> agreed_classes({"words": ["site=C50", "behavior=3", "site=C18"]}, Path("agreed.json"))
    {'site': ['C50', 'C18'], 'behavior': ['3']}
    """
    classes: dict[str, list[str]] = {}
    for word in content["words"]:
        task, joint, label = str(word).partition(JOINT)
        if not joint or not task or not label:
            raise UsageError(
                f"{file}: does not list labels by task; it is a vocabulary, of words or of labels that not every site "
                "has published ('pathveil vocab agree publish')"
            )
        classes.setdefault(task, []).append(label)
    return classes


def read_classes(files: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """The joined lists of several files."""
    lists = []
    for file in files:
        try:
            content = parse_json(read_bytes(file))
            if isinstance(content, dict) and content.get("format") == FORMAT and isinstance(content.get("words"), list):
                content = agreed_classes(content, file)
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
