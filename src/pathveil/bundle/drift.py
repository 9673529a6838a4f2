"""How new reports differ from those a model was trained on: unknown words, what it leaves to people, the mix of codes.

A model goes on answering when laboratories change their templates, a new test comes up or another kind of case is sent;
its thresholds then promise what they cannot keep. New reports need no labels for a first look. They are held against
the bundle's own profile of its training reports (``pathveil.bundle.profile``) and what held-out cases were left to a
person, or against reports of an earlier time, answered by the same model. The mix is that of the model's codes; beside
training labels it may differ by the model's errors alone, at most by as many as held-out cases had, which is allowed
for: of a task that the model does badly, little can be seen without a reference.
"""

import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from pathveil.bundle.coder import NOTHING, Coder
from pathveil.bundle.evaluation_details import wilson
from pathveil.bundle.incoming import Incoming, OneReading, Reports, batches_of
from pathveil.bundle.model import Model
from pathveil.bundle.predictions import skipped_lines
from pathveil.bundle.profile import Profile, shares_told
from pathveil.corpus.intake import check_messages
from pathveil.corpus.mapping import AnyMapping
from pathveil.corpus.rows import MOST_SKIPPED, RowCounts
from pathveil.disclosure import FEWEST_CASES_TOLD, NOT_TOLD, TOO_FEW, may_be_told
from pathveil.errors import UsageError
from pathveil.formatting import counted, percent
from pathveil.icdo.combinations import find_term, with_term
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.rng import generator
from pathveil.training.blend import choose
from pathveil.training.scores import NEVER, Interval
from pathveil.vocabulary.words import UNKNOWN

MORE_UNKNOWN = 1.5  # times as many unknown words are worth a look, if they are also
UNKNOWN_POINTS = 0.02  # of all words, or of reports without one, more
ABSTAINED_POINTS = 0.05  # more left to people than expected
DRAWS = 200  # of a mix by chance
FEW_CASES = 100  # of fewer, only large differences can be told from chance


class Compared(Part):
    """A figure of the new reports and of the reference; none where the reference does not say."""

    new: float
    reference: float | None


class ComparedShare(Part):
    """A share of the new reports and of the reference; none where it is of fewer than ten cases, or is not known."""

    new: float | None
    reference: float | None


class CodeShare(Part):
    """How common a code is; none where fewer than ten cases have it, or where its share would tell of such a one."""

    code: str
    term: str
    new: float | None
    reference: float | None


class TaskDrift(Part):
    """A task of the new reports beside the reference."""

    abstained: ComparedShare  # share left to a person
    abstained_interval: Interval | None  # of the new reports, 95 % by case; none where the share is
    is_abstained_more: bool  # by more than chance, and by enough to matter
    probability: Compared  # mean of the chosen code
    mix_distance: float | None  # share of reports that would have to get another code for the mixes to be equal
    mix_expected: float | None  # the distance that 99 of 100 samples stay below where nothing changed
    codes: list[CodeShare]  # most changed first


class DriftFinding(Part):
    """Something worth a look."""

    kind: str  # words, abstention or mix
    task: str | None
    sentence: str


class Unused(Part):
    """What of an input was skipped."""

    messages: int
    tables: RowCounts | None  # what became of the rows of tables, where there were any

    @property
    def sentence(self) -> str:
        """How much that is, for a page; empty where it is nothing."""
        rows = self.tables.skipped_total if self.tables else 0
        counts = [counted(number, noun) for number, noun in ((rows, "row"), (self.messages, "message")) if number]
        if not counts:
            return ""
        return f"{' and '.join(counts)} could not be read and {'is' if rows + self.messages == 1 else 'are'} left out"

    def lines(self) -> list[str]:
        """As a summary tells it."""
        return skipped_lines(self.messages, self.tables)


class Drift(Result):
    """New reports beside those that a model was trained on, or others."""

    documents: int
    cases: int
    model_sha256: str
    reference: str  # training, or reports
    words_per_report: Compared
    unknown_words: Compared  # share of words
    without_known_word: float | None  # share of the new reports; none where it is of fewer than ten cases
    tasks: dict[str, TaskDrift]
    findings: list[DriftFinding]
    skipped: Unused | None = None  # of the new reports
    reference_skipped: Unused | None = None

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "task": task,
                "abstained": one.abstained.new,
                "abstained_reference": one.abstained.reference,
                "mix_distance": one.mix_distance,
                "mix_expected": one.mix_expected,
            }
            for task, one in self.tasks.items()
        ]

    def summary(self) -> str:
        against = "the reports it was trained on" if self.reference == "training" else "the reference"
        lines = [f"{counted(self.documents, 'report')} of {counted(self.cases, 'case')} beside {against}"]
        lines += self.skipped.lines() if self.skipped else []
        if self.reference_skipped and (skipped := self.reference_skipped.lines()):
            lines += ["of the reference:", *skipped]
        lines.append("")
        lines += two_columns(self.figures())
        for task, one in self.tasks.items():
            if one.mix_distance is not None and one.mix_expected is not None:
                expected = f"up to {percent(one.mix_expected)} is expected"
                lines.append(f"{task + ' mix differs by':<26}{percent(one.mix_distance):>9}   ({expected})")
        told = [f"! {one.sentence}" for one in self.findings] or ["Nothing differs enough to be worth a look."]
        return "\n".join([*lines, "", *told, *([self.caution] if self.caution else [])])

    def figures(self) -> list[tuple[str, str, str]]:
        """What is compared, the new figure and the reference's."""
        words, unknown = self.words_per_report, self.unknown_words
        rows = [("", "new", "reference"), ("words a report", f"{words.new:.0f}", number(words))]
        rows.append(("unknown words", percent(unknown.new), share(unknown)))
        if self.without_known_word != 0:
            rows.append(("nothing it can read", shown(self.without_known_word), "–"))
        for task, one in self.tasks.items():
            rows.append((f"{task} left to people", shown(one.abstained.new), self.left_before(one)))
        return rows

    def left_before(self, one: TaskDrift) -> str:
        """The reference's share left to people; reports of an earlier time always have one, but perhaps of few."""
        return shown(one.abstained.reference) if self.reference == "reports" else share(one.abstained)

    @property
    def caution(self) -> str:
        """What is to be thought of where nothing was found among few cases."""
        few = self.cases < FEW_CASES and not self.findings
        return (
            f"Among {self.cases} cases only large differences can be told from chance; look again at more."
            if few
            else ""
        )

    def page(self) -> str:
        """The same with figures, as one HTML page that needs nothing else."""
        from pathveil.bundle.drift_page import render

        return render(self)


def two_columns(rows: list[tuple[str, str, str]]) -> list[str]:
    """A table, its columns as wide as they must be."""
    new, old = (max([least, *(len(row[place]) + 2 for row in rows)]) for place, least in ((1, 9), (2, 11)))
    return [f"{name:<26}{now:>{new}}{before:>{old}}" for name, now, before in rows]


def share(pair: Compared | ComparedShare) -> str:
    return "–" if pair.reference is None else percent(pair.reference)


def number(pair: Compared) -> str:
    return "–" if pair.reference is None else f"{pair.reference:.0f}"


@dataclass
class Seen:
    """What was seen of some reports, added up batch by batch: memory does not grow with their number but for cases."""

    documents: int = 0
    words: int = 0
    unknown: int = 0
    empty: int = 0
    empty_cases: set[int] = field(default_factory=set)  # the first ten of them
    cases: set[int] = field(default_factory=set)  # hashes
    abstained: dict[str, int] = field(default_factory=dict)  # task: documents
    left: dict[str, set[int]] = field(default_factory=dict)  # task: the first ten cases of these
    probability: dict[str, float] = field(default_factory=dict)  # task: sum
    codes: dict[str, np.ndarray] = field(default_factory=dict)  # task: documents of each class
    holders: dict[tuple[str, int], set[int]] = field(default_factory=dict)  # (task, class): its first ten cases
    skipped: Unused | None = None  # once all was read

    def is_told(self, task: str, label: int) -> bool:
        return may_be_told(len(self.holders.get((task, label), ())))

    def without_known_word(self) -> float | None:
        return told_share(self.empty, self.documents, self.empty_cases)

    def share_left(self, task: str) -> float | None:
        return told_share(self.abstained[task], self.documents, self.left.get(task, ()))

    def mix(self, task: str, names: Iterable[str]) -> dict[str, float]:
        """The share of each code of ten cases or more."""
        counts = self.codes[task].tolist()
        told = {name: counts[label] for label, name in enumerate(names) if self.is_told(task, label)}
        few = [held for (own, label), held in self.holders.items() if own == task and not self.is_told(task, label)]
        return shares_told(told, whole=sum(counts), other_cases=len(set().union(*few)))


def told_share(part: int, whole: int, cases: Collection[int]) -> float | None:
    """A share of the reports; none where it is of fewer than ten cases, and of more than none."""
    return part / whole if not part or may_be_told(len(cases)) else None


def add_cases(held: set[int], cases: Iterable[int]) -> None:
    """The first ten cases are enough to tell whether there are ten."""
    for case in cases:
        if len(held) >= FEWEST_CASES_TOLD:
            return
        held.add(case)


def look_at(
    coder: Coder,
    reports: Reports,
    *,
    reading: OneReading,
    mapping: AnyMapping = None,
    progress: Progress = silent,
) -> Seen:
    """Answer reports and add up what is said."""
    seen, model = Seen(), coder.model
    for batch in batches_of(reports, key=secrets.token_bytes(32), reading=reading, mapping=mapping):
        ids, offsets = coder.encode([report.text for report in batch])
        logs, empty = coder.read_encoded(ids, offsets)
        seen.words += len(ids)
        seen.unknown += int((ids == UNKNOWN).sum())
        seen.empty += int(empty.sum())
        cases = [case_number(report) for report in batch]
        seen.cases.update(cases)
        add_cases(seen.empty_cases, compress(cases, empty))
        for task, chosen in choose(logs, model.lift).items():
            add_task(seen, model, task, chosen, logs[task], empty, cases)
        seen.documents += len(batch)
        progress("reading reports", seen.documents, 0)
    check_messages({}, reading.tally)
    if not may_be_told(len(seen.cases)):
        raise UsageError(f"these reports are of {TOO_FEW}; give more")
    seen.skipped = Unused(messages=reading.tally.skipped_total, tables=reading.rows)
    return seen


def case_number(report: Incoming) -> int:
    """A case as a number, to save memory."""
    return hash(report.case)


def add_task(
    seen: Seen, model: Model, task: str, chosen: np.ndarray, logs: np.ndarray, empty: np.ndarray, cases: list[int]
) -> None:
    threshold = model.thresholds[task].probability if task in model.thresholds else NEVER
    probability = np.exp(logs[np.arange(len(chosen)), chosen].astype(np.float64))
    left = (probability < threshold) | empty
    seen.probability[task] = seen.probability.get(task, 0.0) + float(probability.sum())
    counts = np.bincount(chosen, minlength=logs.shape[1])
    seen.codes[task] = seen.codes.get(task, np.zeros_like(counts)) + counts
    seen.abstained[task] = seen.abstained.get(task, 0) + int(left.sum())
    add_cases(seen.left.setdefault(task, set()), compress(cases, left))
    for case, label in zip(cases, chosen.tolist(), strict=True):
        add_cases(seen.holders.setdefault((task, label), set()), [case])


def measure_drift(
    model: Model,
    reports: Reports,
    *,
    reference: Reports | None = None,
    mapping: AnyMapping = None,
    reference_mapping: AnyMapping = None,
    most_skipped: float = MOST_SKIPPED,
    strict: bool = False,
    device: str = "cpu",
    progress: Progress = silent,
) -> Drift:
    """Hold new reports against the model's training reports, or against ``reference``, reports of another time.

    Both are whatever can be coded: texts, a frame with a column ``text``, a table, HL7, or a folder of them.
    ``mapping`` and ``reference_mapping`` say how the tables of each are written. Rows and messages that cannot be read
    are skipped and counted; ``strict`` refuses the first, and a table of which more than the share ``most_skipped`` is
    such rows is refused.
    """
    coder = Coder(model, device=device, labels_alone=True)  # shares and means over ten cases or more
    if reference is None and "profile" not in model.provenance:
        raise UsageError(
            "the bundle says nothing of its training reports (it is of an earlier version, or differentially private); "
            "give reports of an earlier time with --reference"
        )
    reading, earlier = OneReading(most_skipped=most_skipped, strict=strict), None
    seen = look_at(coder, reports, reading=reading, mapping=mapping, progress=progress)
    if reference is None:
        before = known_before(model)
    else:
        reading = OneReading(most_skipped=most_skipped, strict=strict)
        earlier = look_at(coder, reference, reading=reading, mapping=reference_mapping, progress=progress)
        before = seen_before(model, earlier)
    result = Drift(
        documents=seen.documents,
        cases=len(seen.cases),
        model_sha256=model.model_sha256,
        reference="training" if reference is None else "reports",
        words_per_report=Compared(new=seen.words / seen.documents, reference=before.words_per_report),
        unknown_words=Compared(new=seen.unknown / max(seen.words, 1), reference=before.unknown_words),
        without_known_word=seen.without_known_word(),
        tasks={task: compare_task(model, task, seen, before) for task in model.tasks},
        findings=[],
        skipped=seen.skipped,
        reference_skipped=earlier.skipped if earlier else None,
    )
    return result.model_copy(update={"findings": findings_of(result, unread_before=before.unread)})


@dataclass(frozen=True)
class Before:
    """What new reports are held against."""

    words_per_report: float
    unknown_words: float
    mix: dict[str, dict[str, float]]  # task: code: share
    abstained: dict[str, float]  # task: share
    probability: dict[str, float]  # task: mean; empty where it is not known
    cases: int  # behind the mix
    errors: dict[str, float]  # task: share of codes that may be wrong, where the mix is of labels
    unread: float = 0.0  # share of reports of which the model reads nothing
    untold: frozenset[str] = frozenset()  # tasks of which fewer than ten cases were left to people


def known_before(model: Model) -> Before:
    """What the bundle itself says of its training reports."""
    profile = Profile.model_validate(model.provenance["profile"])
    # By the threshold that the model has: those of folds are of fewer cases, and leave more to people where cases are
    # few.
    abstained = {task: one.abstained if one.left is None else one.left for task, one in model.thresholds.items()}
    cases = int(model.provenance.get("cases", 0))
    errors = {task: 1 - one.accuracy.value for task, one in model.scores.items()}
    return Before(profile.words_per_report, profile.unknown_words, profile.mix, abstained, {}, cases, errors)


def seen_before(model: Model, seen: Seen) -> Before:
    """What the same model says of reports of another time."""
    documents = seen.documents
    return Before(
        words_per_report=seen.words / documents,
        unknown_words=seen.unknown / max(seen.words, 1),
        mix={task: seen.mix(task, names) for task, names in model.labels.items()},
        abstained={task: number / documents for task, number in seen.abstained.items()},
        probability={task: total / documents for task, total in seen.probability.items()},
        cases=len(seen.cases),
        errors=dict.fromkeys(model.tasks, 0.0),
        unread=seen.empty / documents,
        untold=frozenset(task for task in seen.abstained if seen.share_left(task) is None),
    )


def compare_task(model: Model, task: str, seen: Seen, before: Before) -> TaskDrift:
    """A task's figures; codes of fewer than ten cases are one group in both mixes."""
    new, old = seen.mix(task, model.labels[task]), before.mix.get(task, {})
    left, was_left = seen.share_left(task), before.abstained.get(task)
    interval = wilson(seen.abstained[task] / seen.documents, min(seen.documents, len(seen.cases)))
    distance = expected = None
    if new and old and task in before.errors:  # where no code has ten cases, there is no mix to compare
        names = [*dict.fromkeys([*new, *old])]
        # What one side does not tell apart belongs to the rest on that side; only codes that both tell can be compared.
        both = [name for name in names if name in new and name in old]
        shares = [np.array([side[name] for name in both]) for side in (new, old)]
        now, then = (np.append(one, max(0.0, 1 - one.sum())) for one in shares)
        # A code that only the new reports tell was at most as common before as all that was not told apart then.
        unheard = sum(one for name, one in new.items() if name not in old) - max(0.0, 1 - sum(old.values()))
        gained = np.maximum(now - then, 0.0)[:-1].sum() + max(0.0, unheard)
        distance = float(max(abs(now - then).sum() / 2, gained))
        expected = mix_by_chance(then, len(seen.cases), before.cases) + before.errors[task]
    changed = sorted(dict.fromkeys([*new, *old]), key=lambda name: -abs(new.get(name, 0.0) - old.get(name, 0.0)))
    return TaskDrift(
        abstained=ComparedShare(new=left, reference=None if task in before.untold else was_left),
        abstained_interval=None if left is None else interval,
        is_abstained_more=was_left is not None and interval.low > was_left + ABSTAINED_POINTS,
        probability=Compared(new=seen.probability[task] / seen.documents, reference=before.probability.get(task)),
        mix_distance=distance,
        mix_expected=expected,
        codes=[
            CodeShare(code=name, term=find_term(task, name), new=new.get(name), reference=old.get(name))
            for name in changed
        ],
    )


def mix_by_chance(mix: np.ndarray, new: int, old: int) -> float:
    """The distance between two samples of cases of one mix that 99 of 100 stay below; the same for the same numbers."""
    rng = generator(0, new, old)
    mix = mix / mix.sum()
    samples = [rng.multinomial(number, mix, DRAWS) / number for number in (new, max(old, 1))]
    return float(np.quantile(abs(samples[0] - samples[1]).sum(1) / 2, 0.99))


def findings_of(drift: Drift, *, unread_before: float = 0.0) -> list[DriftFinding]:
    """What differs by more than chance and by enough to matter."""
    found = []
    unknown, unread = drift.unknown_words, drift.without_known_word
    if unread is not None and unread > unread_before + UNKNOWN_POINTS:
        sentence = f"{percent(unread)} of the reports hold {NOTHING}"
        found.append(DriftFinding(kind="words", task=None, sentence=sentence))
    if unknown.reference is not None and unknown.new > max(
        MORE_UNKNOWN * unknown.reference, unknown.reference + UNKNOWN_POINTS
    ):
        told = f"{percent(unknown.new)} of the words are unknown to the model, {percent(unknown.reference)} were"
        found.append(DriftFinding(kind="words", task=None, sentence=told))
    for task, one in drift.tasks.items():
        if one.is_abstained_more:
            before = shown(one.abstained.reference)
            told = f"{task}: {shown(one.abstained.new)} are left to people, {before} were expected"
            found.append(DriftFinding(kind="abstention", task=task, sentence=told))
        if one.mix_distance is not None and one.mix_expected is not None and one.mix_distance > one.mix_expected:
            first = next((code for code in one.codes if code.new is not None or code.reference is not None), None)
            most = ""
            if first:
                before, now = how_common(first.reference), how_common(first.new)
                most = f"; most of all {with_term(task, first.code)}, {before} before and {now} now"
            told = f"{task}: the mix of codes differs by {percent(one.mix_distance)}{most}"
            found.append(DriftFinding(kind="mix", task=task, sentence=told))
    return found


def shown(value: float | None) -> str:
    return TOO_FEW if value is None else percent(value)


def how_common(share: float | None) -> str:
    """How common a code is; one that is not told may have ten cases and hide a rarer one."""
    return NOT_TOLD if share is None else percent(share)
