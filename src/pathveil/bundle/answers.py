"""What a model says about texts, ready to be shown: codes, what contradicts what, and the places behind each code.

A registry's server and its command line both answer from here. The places are offsets, in characters, into the very
text that was given; nothing of a text is kept.

>>> answer_of({"site": Code("C61", 0.9, False), "laterality": Code("left", 0.8, True)}).contradictions[0].sentence
'laterality left is a side, and C61 (prostate gland) is not one of a pair'
"""

from collections.abc import Iterable, Mapping, Sequence

from pathveil.bundle.coder import Code, Coder
from pathveil.bundle.explanation import Explanation, explain_codes
from pathveil.bundle.joint import Rules
from pathveil.corpus.combinations import Contradiction, contradictions
from pathveil.results import Part


class Answer(Part):
    """The codes of one report by task, the contradictions between them, and perhaps why."""

    codes: dict[str, Code]
    contradictions: tuple[Contradiction, ...]
    explanation: Explanation | None = None


def answer(coder: Coder, texts: Sequence[str], *, joint: Iterable[str] | None = None, explain: int = 0) -> list[Answer]:
    """An answer for each text.

    ``joint`` names rules (``pathveil.bundle.joint.RULES``) that the codes of a report must keep; ``explain`` is how
    many places of the text to give for each code.
    """
    rules = None if joint is None else Rules.of(coder.model.labels, joint)
    answers = map(answer_of, coder.code(texts, joint=rules))
    if not explain:
        return list(answers)
    return [
        one.model_copy(update={"explanation": explain_codes(coder.model, text, one.codes, top=explain)})
        for text, one in zip(texts, answers, strict=True)
    ]


def answer_of(codes: Mapping[str, Code]) -> Answer:
    """Codes and what they say against each other."""
    return Answer(codes=dict(codes), contradictions=contradictions_of(codes))


def contradictions_of(codes: Mapping[str, Code]) -> tuple[Contradiction, ...]:
    """Between the codes given, sure or not: one that is left to a person misleads as well."""
    return contradictions({task: code.code for task, code in codes.items()})
