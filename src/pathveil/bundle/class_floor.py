"""A floor for codes: those of fewer cases than asked for are not learnt, and their reports are left to a person.

A code of three cases is where a model remembers most and knows least. What it was not taught it cannot name; it answers
such a report with a code it knows, which counts as wrong when scores and thresholds are worked out.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pathveil.disclosure import may_be_told
from pathveil.errors import UsageError
from pathveil.formatting import counted, listed
from pathveil.results import Part
from pathveil.vocabulary.encoded import MISSING, EncodedCorpus


class UnlearntCodes(Part):
    """What of a task is not learnt."""

    codes: int
    named: list[str]  # those whose own number of cases may be told
    reports: int | None  # that have one of the codes; None where they are of too few cases to be told


class ClassFloor(Part):
    """The fewest cases of a code that is learnt, and what that leaves out."""

    fewest_cases: int
    tasks: dict[str, UnlearntCodes]


def without_rare_codes(corpus: EncodedCorpus, fewest_cases: int) -> tuple[EncodedCorpus, EncodedCorpus, ClassFloor]:
    """The corpus to learn from, without labels of rarer codes; the same with these labels numbered after the codes that
    are learnt, to judge by; and what is left out."""
    classes, learnt, judged, left_out = {}, {}, {}, {}
    for task, names in corpus.classes.items():
        labels = np.asarray(corpus.labels[task])
        pairs = np.unique(np.stack([labels, corpus.cases])[:, labels >= 0], axis=1)
        cases = np.bincount(pairs[0], minlength=len(names))
        frequent = cases >= fewest_cases
        if not frequent.any():
            raise UsageError(
                f"task '{task}': no code has {fewest_cases} cases; lower --fewest-cases, or leave it out with --tasks"
            )
        order = np.argsort(~frequent, kind="stable")
        number = np.append(np.argsort(order), MISSING)  # the last for a report without a label
        known = int(frequent.sum())
        classes[task] = tuple(names[place] for place in order[:known])
        judged[task] = number[labels].astype(np.int32)
        learnt[task] = np.where(judged[task] < known, judged[task], MISSING).astype(np.int32)
        rows = judged[task] >= known
        left_out[task] = UnlearntCodes(
            codes=len(names) - known,
            named=[names[place] for place in order[known:] if may_be_told(cases[place])],
            reports=int(rows.sum()) if may_be_told(len(np.unique(corpus.cases[rows]))) else None,
        )
    base = replace(corpus, classes=classes, labels=learnt)
    floor = ClassFloor(fewest_cases=fewest_cases, tasks=left_out)
    return base, replace(base, labels=judged), floor


def floor_lines(provenance: Mapping[str, Any]) -> list[str]:
    """The card's paragraph on codes that were not learnt."""
    if not provenance.get("class_floor"):
        return []
    floor = ClassFloor(**provenance["class_floor"])
    left_out = {task: found for task, found in floor.tasks.items() if found.codes}
    if not left_out:
        return ["", f"Every code has at least {floor.fewest_cases} cases; all are learnt."]
    lines = [
        "",
        f"Codes of fewer than {floor.fewest_cases} cases were not learnt. The model answers their reports with a code",
        "that it knows; scores and thresholds count that as wrong, so that most such reports are left to a person:",
        "",
    ]
    for task, found in left_out.items():
        reports = "few reports" if found.reports is None else counted(found.reports, "report")
        named = f", among them {listed(found.named)}" if found.named else ""
        lines.append(f"- {task}: {counted(found.codes, 'code')} of {reports}{named}")
    return lines
