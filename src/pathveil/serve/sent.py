"""One report as it came, from whichever door."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sent:
    """A report to code. ``rewritten``: its text was put together from the fields of a message, or made
    from RTF or a page."""

    report_id: str
    text: str
    case_id: str | None = None
    registry: str | None = None
    date: str | None = None  # 2016-05-02
    number: str | None = None  # the laboratory's own
    rewritten: bool = False
    place: int = 0  # in its case, where it lies in a store
