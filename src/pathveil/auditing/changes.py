"""What would change an audit's answer, by the evidence at hand: another form, fewer codes or tasks, a defence, words,
more cases.

Forms, codes and tasks are judged by the audit's own rows: what is left when they are taken away is held against the
same limits. Of defences and words an audit of one model knows nothing; there it tells what they did to public reports
(docs/defences.md). Nothing here is a promise: a model that is trained otherwise is another model and has an audit of
its own. How many cases would decide an open limit is reckoned from the interval's width, which shrinks with the root
of their number.

>>> cases_to_decide(value=0.12, high=0.25, tolerated=0.20, cases=300)
793
>>> cases_to_decide(value=0.21, high=0.30, tolerated=0.20, cases=300) is None
True
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pathveil.auditing import metrics
from pathveil.auditing.appetite import RELEASES, Appetite, ReleaseForm
from pathveil.auditing.audited_model import ModelStatement
from pathveil.auditing.evidence import ALL, TOGETHER, MeasuredRow, Row
from pathveil.auditing.verdict import CRITERIA, Answer, Number, Verdict, found_share, judge
from pathveil.bundle.defence import LEAK_OF_PRESET
from pathveil.formatting import listed, percent

ORDER: tuple[ReleaseForm, ...] = ("weights", "probabilities", "label")  # each tells less than the one before


class Measured(NamedTuple):
    """What was found of models on halves of TCGA's reports, by the strongest attack; means of two seeds."""

    found: float  # share of members at 1 % false accusations
    auc: float
    micro: float  # F1


# docs/defences.md: 'Measured with the product', 'Other ways', and words without a defence.
UNDEFENDED, TEACHERS, PRIVATE = Measured(0.50, 0.94, 0.87), Measured(0.039, 0.63, 0.87), Measured(0.027, 0.60, 0.52)
ALL_WORDS, FEWER_WORDS, FEW_WORDS = Measured(0.46, 0.93, 0.87), Measured(0.46, 0.92, 0.87), Measured(0.11, 0.72, 0.79)


def what_would_change(
    verdict: Verdict,
    rows: Sequence[Row],
    *,
    appetite: Appetite,
    by_release: Mapping[ReleaseForm, Answer],
    model: ModelStatement | None,
) -> list[str]:
    """Sentences, the most telling first; what a pass rests on where it is a pass."""
    if verdict.answer == "pass":
        return what_a_pass_rests_on(verdict, appetite)
    found = []
    if verdict.answer == "fail":
        found += other_forms(appetite, by_release)
        found += fewer_codes(verdict, rows, appetite)
        found += fewer_tasks(verdict, rows, appetite)
        found += defences(model, appetite)
        found += other_words()
        found += [limits_not_kept(verdict)]
        if all(by_release[form] != "pass" for form in ORDER):
            found.append("No form of release passes by this evidence: the model itself has to change.")
    else:
        found += [cases_needed(number, rows) for number in verdict.numbers if number.state == "open"]
        if verdict.canary is not None and verdict.canary.state == "open":
            found.append("More canaries, or more models with them (--canaries, --models), would decide their limit.")
        found += [f"To be mended first: {reason}." for reason in verdict.reasons if reason.startswith("control failed")]
        found += [
            f"More cases that the model never saw are needed: {reason}."
            for reason in verdict.reasons
            if "too few non-member cases" in reason
        ]
        found += other_forms(appetite, by_release)
    return list(dict.fromkeys(one for one in found if one))


def what_a_pass_rests_on(verdict: Verdict, appetite: Appetite) -> list[str]:
    tightest = max(verdict.numbers, key=lambda number: number.high / number.tolerated, default=None)
    found = []
    if tightest is not None:
        found.append(
            f"The tightest limit is that of {CRITERIA[tightest.criterion]}: {found_share(tightest)} found where "
            f"{percent(tightest.tolerated)} is tolerated; a limit below {percent(tightest.high)} would not be kept."
        )
    found.append(
        "A new audit is needed when the model is trained again, when more is released than "
        f"{RELEASES[appetite.release]}, or when a stronger attack becomes known."
    )
    return found


def other_forms(appetite: Appetite, by_release: Mapping[ReleaseForm, Answer]) -> list[str]:
    """Narrower forms that pass under the same limits, and how to go there."""
    narrower = ORDER[ORDER.index(appetite.release) + 1 :]
    return [
        f"Released as {RELEASES[form]} ({form}) it would pass under the same limits, by the attacks tried here: "
        f"audit it against an appetite for that ('pathveil appetite new --release {form}') and release it with "
        "--form labels."
        for form in narrower
        if by_release[form] == "pass"
    ]


def left_over(rows: Sequence[Row], keep: Callable[[Row], bool], appetite: Appetite) -> str:
    """What the appetite's limits say of some of the rows: all kept, none broken, or still broken."""
    left = judge([row for row in rows if keep(row)], controls=[], appetite=appetite.changed(worst_canary=None))
    states = {number.state for number in left.numbers}
    return "broken" if "broken" in states or not states else "open" if "open" in states else "kept"


def fewer_codes(verdict: Verdict, rows: Sequence[Row], appetite: Appetite) -> list[str]:
    """Where only groups of rare classes break their limit: leave these codes to a person, as few as will do."""
    if {number.criterion for number in verdict.numbers if number.state == "broken"} != {"worst_bucket"}:
        return []
    groups = sorted({row.bucket for row in rows if row.bucket != ALL}, key=lambda name: _numbers(name)[0])
    buckets_alone = appetite.changed(
        limits=[limit.changed(overall=None, worst_task=None) for limit in appetite.limits if limit.worst_bucket]
    )
    for number, group in enumerate(groups[:-1], start=1):
        kept = set(groups[number:])
        state = left_over(rows, lambda row, kept=kept: row.bucket in kept, buckets_alone)
        if state != "broken":
            edge = _numbers(group)[-1] + (0 if group.startswith("<") else 1)
            others = "keep it" if state == "kept" else "do not break it, though more cases are needed to be sure"
            return [
                f"Only classes with fewer than {edge:,} training samples break their limit, the others {others}: "
                f"trained with --fewest-cases {edge} the model does not learn the rare ones, and their reports go to a "
                "person."
            ]
    return []


def fewer_tasks(verdict: Verdict, rows: Sequence[Row], appetite: Appetite) -> list[str]:
    """Where all tasks together keep their limit and only some alone break one: which could stay."""
    states = {number.criterion: number.state for number in verdict.numbers}
    tasks = list(dict.fromkeys(row.task for row in rows if row.task != TOGETHER))
    if len(tasks) < 2 or states.get("overall") == "broken" or "broken" not in states.values():
        return []
    found = {task: left_over(rows, lambda row, task=task: row.task == task, appetite) for task in tasks}
    broken = [task for task, state in found.items() if state == "broken"]
    others = [task for task in tasks if task not in broken]
    if not broken or not others:
        return []
    return [
        f"Of the tasks only {listed(broken)} {'breaks' if len(broken) == 1 else 'break'} a limit: trained with --tasks "
        f"{','.join(others)} the model does not learn {'it' if len(broken) == 1 else 'them'}."
    ]


def defences(model: ModelStatement | None, appetite: Appetite) -> list[str]:
    """What a defence that the model does not have did to public reports, held against this appetite."""
    if model is None:
        return []
    if model.defence is None:
        before = LEAK_OF_PRESET.get(model.preset, UNDEFENDED.auc)
        return [
            "The model was trained without a defence: 'pathveil train --preset release' teaches it by models that "
            f"never saw the case. On public reports it brought the strongest attack's AUC from {before:.2f} to "
            f"{LEAK_OF_PRESET['release']:.2f} (0.50 is guessing), and what it finds at 1 % false accusations from "
            f"{percent(UNDEFENDED.found)} to {percent(TEACHERS.found)}{_tolerated(appetite)}. Whether that "
            "passes here, its own audit tells."
        ]
    if model.defence == "teachers":
        return [
            "The model has teachers already. Differential privacy ('pathveil train --preset private --epsilon 8') left "
            f"{percent(PRIVATE.found)} found at 1 % false accusations on public reports{_tolerated(appetite)}, "
            f"but micro F1 fell from {UNDEFENDED.micro:.2f} to {PRIVATE.micro:.2f}: it wants many more cases."
        ]
    if model.defence == "dp":
        return ["The model is differentially private: a smaller --epsilon gives less away, and codes worse."]
    return []


def _tolerated(appetite: Appetite) -> str:
    """What this appetite tolerates at 1 %, to hold a measured share against."""
    asked = [limit.overall for limit in appetite.limits if limit.fpr == 0.01 and limit.overall is not None]
    return f" ({percent(min(asked))} is tolerated here)" if asked else ""


def other_words() -> list[str]:
    return [
        f"Other words alone would hardly do it: on public reports words of six registries of seven changed the AUC "
        f"from {ALL_WORDS.auc:.2f} to {FEWER_WORDS.auc:.2f}, and 1,600 words by mutual information to "
        f"{FEW_WORDS.auc:.2f}, for a micro F1 of {FEW_WORDS.micro:.2f} instead of {ALL_WORDS.micro:.2f}. Words that "
        "many cases hold keep names out of the model, which is another matter."
    ]


def _numbers(bucket: str) -> list[int]:
    """The edges in a bucket's name.

    >>> _numbers("1,000 to 9,999"), _numbers("< 100"), _numbers("≥ 10,000")
    ([1000, 9999], [0, 100], [10000])
    """
    found = [int(part) for part in bucket.replace(",", "").split() if part.isdigit()]
    return [0, *found] if bucket.startswith("<") else found


def limits_not_kept(verdict: Verdict) -> str:
    both = zip(verdict.numbers, verdict.worst, strict=True)
    broken = [worst for number, worst in both if number.state == "broken"]
    if not broken:
        return ""
    told = "; ".join(
        f"{CRITERIA[number.criterion]} {found_share(number)}, tolerated {percent(number.tolerated)}"
        for number in broken
    )
    return f"What would have to come down, at false accusations of {percent(broken[0].fpr)}: {told}."


def cases_needed(number: Number, rows: Sequence[Row]) -> str:
    """How many cases would decide an open limit."""
    where = CRITERIA[number.criterion]
    row = next((row for row in rows if isinstance(row, MeasuredRow) and _is(row, number)), None)
    if row is None:
        return ""
    if number.value is None:
        needed = metrics.non_members_needed(number.fpr)
        return (
            f"For {where}, false accusations of {percent(number.fpr)} can be measured with about {needed:,} cases that "
            f"the model never saw; there are {row.non_member_cases:,}."
        )
    fewest = min(row.member_cases, row.non_member_cases)
    needed = cases_to_decide(value=number.value, high=number.high, tolerated=number.tolerated, cases=fewest)
    if needed is None:
        return (
            f"For {where}, the estimate {found_share(number)} is not below the {percent(number.tolerated)} that is "
            "tolerated: more cases would more likely show a fail than a pass."
        )
    return (
        f"For {where}, about {needed:,} cases on each side would decide, if the estimate stays at "
        f"{percent(number.value)}; there are {row.member_cases:,} members' and {row.non_member_cases:,} others'."
    )


def cases_to_decide(*, value: float, high: float, tolerated: float, cases: int) -> int | None:
    """Cases a side with which the interval's upper end would come down to the limit; none where the estimate itself
    is not below it."""
    room = tolerated - value
    if room <= 0:
        return None
    return math.ceil(cases * max((high - value) / room, 1.0) ** 2)


def _is(row: MeasuredRow, number: Number) -> bool:
    return all(getattr(row, name) == getattr(number, name) for name in ("protocol", "attack", "task", "unit", "bucket"))
