"""What would change an audit's answer, by the evidence at hand: another form, a defence, fewer codes, more cases.

Nothing here is a promise: a model that is trained otherwise is another model and has an audit of its own. How many
cases would decide an open limit is reckoned from the interval's width, which shrinks with the root of their number.

>>> cases_to_decide(value=0.12, high=0.25, tolerated=0.20, cases=300)
793
>>> cases_to_decide(value=0.21, high=0.30, tolerated=0.20, cases=300) is None
True
"""

import math
from collections.abc import Mapping, Sequence

from pathveil.audit import metrics
from pathveil.audit.appetite import RELEASES, Appetite, ReleaseForm
from pathveil.audit.audited_model import ModelStatement
from pathveil.audit.evidence import ALL, MeasuredRow, Row
from pathveil.audit.verdict import CRITERIA, Answer, Number, Verdict, found_share
from pathveil.bundle.defence import LEAK_OF_PRESET
from pathveil.wording import percent

ORDER: tuple[ReleaseForm, ...] = ("weights", "probabilities", "label")  # each tells less than the one before


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
        found += fewer_codes(verdict)
        found += defences(model)
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
    """Narrower forms that pass under the same limits."""
    narrower = ORDER[ORDER.index(appetite.release) + 1 :]
    return [
        f"Released as {RELEASES[form]} ({form}) it would pass under the same limits, by the attacks tried here."
        for form in narrower
        if by_release[form] == "pass"
    ]


def fewer_codes(verdict: Verdict) -> list[str]:
    """Where only a group of rare classes breaks its limit: leave these codes to a person."""
    broken = [number for number in verdict.numbers if number.state == "broken"]
    if not broken or any(number.criterion != "worst_bucket" for number in broken):
        return []
    bucket = broken[0].bucket
    if bucket == ALL or not bucket.startswith("< "):
        return []
    edge = bucket.removeprefix("< ").replace(",", "")
    return [
        f"Only classes with {bucket} training samples break their limit: trained with --fewest-cases {edge} the model "
        "does not learn them, and their reports go to a person."
    ]


def defences(model: ModelStatement | None) -> list[str]:
    """A defence that is known to lower the leak, where the model has none."""
    if model is None or model.defence is not None:
        return []
    before = LEAK_OF_PRESET.get(model.preset)
    measured = (
        f" On public reports it brought the strongest attack's AUC from {before:.2f} to "
        f"{LEAK_OF_PRESET['release']:.2f} (0.50 is guessing)."
        if before is not None
        else ""
    )
    return [
        "The model was trained without a defence: 'pathveil train --preset release' teaches it by models that never "
        f"saw the case.{measured} Whether that passes here, its own audit tells."
    ]


def limits_not_kept(verdict: Verdict) -> str:
    broken = [number for number in verdict.numbers if number.state == "broken"]
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
