"""What a model says about texts, ready to be shown: codes, what contradicts what, and the places behind each code.

A registry's server and its command line both answer from here. The places are offsets, in characters, into the very
text that was given; nothing of a text is kept.

>>> answer_of({"site": Code("C61", 0.9, False), "laterality": Code("left", 0.8, True)}).contradictions[0].sentence
'laterality left is a side, and C61 (prostate gland) is not one of a pair'
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pathveil.bundle.coder import Code, Coder, decide
from pathveil.bundle.explanation import Explanation, explain_reading, read_to_explain
from pathveil.bundle.joint import Rules
from pathveil.formatting import width_of
from pathveil.icdo.combinations import Contradiction, find_contradictions
from pathveil.results import Result

NOTHING_READ = "the model can read nothing of this text (no word it knows, or too few): these codes say nothing of it"


class Answer(Result):
    """The codes of one report by task, the contradictions between them, and perhaps why."""

    codes: dict[str, Code]
    contradictions: tuple[Contradiction, ...]
    explanation: Explanation | None = None
    unread: bool = False  # the model reads nothing of the text: no word that it knows, or too few

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"task": task, "code": one.code, "term": one.term, "probability": one.probability, "abstained": left}
            for task, code in self.codes.items()
            for one, left in ((code, code.abstained), *((other, True) for other in code.alternatives))
        ]

    def summary(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        return answer_lines(self.codes, self.contradictions) + (["! " + NOTHING_READ] if self.unread else [])

    def shown_in(self, text: str) -> str:
        """The same for a person who has the text: the words behind each code beside it."""
        lines = self._lines()
        if self.explanation:
            lines.append("")
            wide = width_of(self.explanation.tasks)
            for task, reasons in self.explanation.tasks.items():
                words = (f"{' '.join(text[at.start : at.end].split())} {at.weight:+.2f}" for at in reasons.places)
                lines.append(f"{task:<{wide}}{', '.join(words) or '–'}")
        return "\n".join(lines)


def answer_lines(codes: Mapping[str, Code], contradictions: Sequence[Contradiction]) -> list[str]:
    """The codes of one report as a table: the code, its term, and the next probable ones; then what contradicts."""
    lines, wide = [], width_of(codes)
    long = width_of((one.code for code in codes.values() for one in (code, *code.alternatives)), least=16)
    for task, code in codes.items():
        flags = (("left to a person", code.abstained), ("lifted", code.lifted), ("for the others", code.adjusted))
        notes = ", ".join(note for note, holds in flags if holds)
        lines.append(
            f"{task:<{wide}}{code.code:<{long}}{code.probability:<8.3f}{code.term}{f' ({notes})' if notes else ''}"
        )
        lines += [f"{'':<{wide}}{one.code:<{long}}{one.probability:<8.3f}{one.term}" for one in code.alternatives]
    return [line.rstrip() for line in lines] + [f"! {one.sentence}" for one in contradictions]


def answer(coder: Coder, texts: Sequence[str], *, joint: Iterable[str] | None = None, explain: int = 0) -> list[Answer]:
    """An answer for each text.

    ``joint`` names rules (``pathveil.bundle.joint.RULES``) that the codes of a report must keep; ``explain`` is how
    many places of the text to give for each code.
    """
    rules = None if joint is None else Rules.of(coder.model.labels, joint)
    if explain:
        logs, empty, readings = read_to_explain(coder, texts)
    else:
        (logs, empty), readings = coder.read(texts), [None] * len(texts)
    answers = []
    decided = decide(coder.model, logs, empty=empty, joint=rules)
    for codes, reading, unread in zip(decided, readings, empty.tolist(), strict=True):
        why = explain_reading(coder, reading, codes, top=explain) if reading else None
        answers.append(answer_of(codes, explanation=why, unread=unread))
    return answers


def answer_of(codes: Mapping[str, Code], *, explanation: Explanation | None = None, unread: bool = False) -> Answer:
    """Codes and what they say against each other."""
    against = contradictions_of(codes)
    return Answer(codes=dict(codes), contradictions=against, explanation=explanation, unread=unread)


def contradictions_of(codes: Mapping[str, Code]) -> tuple[Contradiction, ...]:
    """Between the codes given, sure or not: one that is left to a person misleads as well."""
    return find_contradictions({task: code.code for task, code in codes.items()})
