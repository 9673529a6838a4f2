"""What a person reads of coded reports."""

from pathveil.bundle.coder import Code
from pathveil.bundle.incoming import Origin
from pathveil.bundle.predictions import Prediction, Predictions, PredictionSummary, TaskCounts
from pathveil.corpus.intake import SkippedMessage
from pathveil.icdo.combinations import find_contradictions


def prediction(number: int, *, side: str = "left", abstained: bool = False) -> Prediction:
    codes = {"site": Code("C61", 0.9, False, term="prostate gland"), "laterality": Code(side, 0.4, abstained)}
    against = find_contradictions({task: code.code for task, code in codes.items()})
    where = (Origin(f"r{number}"),)
    return Prediction(report_ids=(f"r{number}",), case_id=None, codes=codes, contradictions=against, reports=where)


def test_one_report_is_shown_and_many_are_counted():
    one = Predictions(model_sha256="", by_case=False, results=(prediction(1),))
    assert "prostate gland" in repr(one) and "! laterality left is a side" in repr(one)
    results = (prediction(1), prediction(2, side="not_paired", abstained=True))
    many = repr(Predictions(model_sha256="", by_case=False, results=results))
    assert "2 reports" in many and "1 answer has codes that contradict each other" in many
    assert many.splitlines()[4].split() == ["laterality", "1", "1", "(50%)"]


def test_a_summary_says_what_to_know():
    fields = {"by_case": True, "format": "naaccr-xml", "model_sha256": "", "joint": None, "contradictions": 2}
    skipped = SkippedMessage(file="lab.hl7", message=3, line=9, reason="holds no report text (OBX)")
    summary = PredictionSummary(
        reports=3, answers=2, cases=1, out="a.xml", sidecar="a.probabilities.jsonl", skipped_messages=1,
        skipped=[skipped], warnings=["mind this."], tasks={"site": TaskCounts(coded=1, abstained=1)}, **fields,
    )  # fmt: skip
    text = repr(summary)
    for words in (
        "3 reports coded into a.xml (2 tumours of 1 case)",
        "in a.probabilities.jsonl",
        "1 message skipped; the first, message 3 of lab.hl7, holds no report text (OBX)",
        "2 answers have codes that contradict",
        "Note: mind this.",
    ):
        assert words in text
    assert summary.rows() == [{"task": "site", "coded": 1, "abstained": 1}]
