"""One report's codes with the places in its text that spoke for them, as the demo leaves them for its page.

Only places are kept in ``reasons.json``, no word of the text: whoever shows them needs the text from elsewhere, and the
page makes it anew (``studies.report.reasons``), which can be done of a made-up report alone.

>>> place = ExplainedWords(start=0, end=4, text="left", weight=1.5)
>>> code = ExplainedCode(truth="left", code="left", probability=0.9, places=[place])
>>> ExplainedReport(report_id="1", tasks={"laterality": code}).without_text()["tasks"]["laterality"]["places"]
[{'start': 0, 'end': 4, 'text': '', 'weight': 1.5}]
"""

from typing import Any

from pathveil.results import Part

REASONS = "reasons.json"  # in a run's folder


class ExplainedWords(Part):
    """A place in the explained report, and how much it spoke for the code."""

    start: int
    end: int
    text: str = ""
    weight: float


class ExplainedCode(Part):
    """A task's code of the explained report, beside its label."""

    truth: str | None
    code: str
    probability: float
    places: list[ExplainedWords]


class ExplainedReport(Part):
    """The codes of one report with the places that spoke for them."""

    report_id: str
    tasks: dict[str, ExplainedCode]

    def without_text(self) -> dict[str, Any]:
        """As it is kept: places, and no word of the text."""
        content = self.to_dict()
        for code in content["tasks"].values():
            code["places"] = [place | {"text": ""} for place in code["places"]]
        return content
