"""Filled-in checklists as text: the XML forms of IHE's Structured Data Capture, such as CAP's electronic checklists.

A form holds every question with all its possible answers; what was answered is marked ``selected`` or has a value. The
text has the questions that were answered, a line each, under the titles of their sections. Where the form says how an
item is called in a report (``reportText``), it is called so. (IHE QRPH, Structured Data Capture; CAP eCC.)

>>> answers = '<ListItem title="Right"/><ListItem title="Left" selected="true"/>'
>>> form = f'<FormDesign formTitle="ADRENAL GLAND"><Question title="Laterality">{answers}</Question></FormDesign>'
>>> print(text_of_form(form.encode()))
ADRENAL GLAND
Laterality: Left
"""

import io
from dataclasses import dataclass, field

from pathveil.untrusted import Refused
from pathveil.untrusted.xml import xml_events

FORM, ASKED = "FormDesign", ("Section", "Question", "ListItem")
NO_TEXT = "{no text}"  # of an item that a report leaves unnamed
NO_FORM = "holds its text in XML that is no form of Structured Data Capture, or is damaged"
DEPTH = 128  # elements within elements: each question about an answer to another is five deeper


@dataclass
class Item:
    """A section, a question or a possible answer that is being read."""

    kind: str
    title: str
    is_selected: bool
    line: int  # the place of its line: before those of what is within it
    called: str | None = None  # in a report
    value: str = ""  # as it was typed in
    unit: str = ""
    answers: list[str] = field(default_factory=list)  # those selected of a question

    def note(self, element: str, content: dict[str, str], *, is_value: bool) -> None:
        """Take what an element directly within this item says of it."""
        told = " ".join(content.get("val", "").split())
        if is_value:
            self.value = self.value or told
        elif element == "ResponseUnits" or (element == "TextAfterResponse" and not self.unit):
            self.unit = told
        elif element == "Property" and content.get("propName") == "reportText":
            self.called = told

    def named(self) -> str:
        """What it is called in a report: nothing where it is left unnamed."""
        return "" if self.called == NO_TEXT else self.called or self.title

    def answer(self) -> str:
        """A value with its unit, and its name before it; of a possible answer without one, the name alone."""
        value = f"{self.value} {self.unit}".strip() if self.value else ""
        return ": ".join(filter(None, (self.named(), value))) or self.title


def text_of_form(form: bytes) -> str:
    """The questions of a form that were answered, with their answers; ``Refused`` where it is no such form."""
    lines: list[str] = []
    open_items: list[Item] = []
    parents: list[str] = []  # the elements around the one that is read
    is_form = False
    for event, element, content in xml_events(io.BytesIO(form), depth=DEPTH):
        if event == "start":
            if element == FORM:
                is_form = True
                lines.append(" ".join(content.get("formTitle", "").split()))
            elif element in ASKED and is_form:
                title = " ".join(content.get("title", "").split())
                is_selected = content.get("selected") in ("true", "1")
                open_items.append(Item(element, title, is_selected, len(lines)))
                lines.append("")
            elif open_items:
                open_items[-1].note(element, content, is_value=parents[-1:] == ["Response"])
            parents.append(element)
        else:
            parents.pop()
            if element in ASKED and open_items:
                close(open_items.pop(), open_items, lines)
    if not is_form:
        raise Refused(NO_FORM)
    told = list(filter(None, lines))
    return "\n".join(told) if len(told) > 1 else ""  # a title alone answers nothing


def close(item: Item, around: list[Item], lines: list[str]) -> None:
    """Put an item that ends on its line, or an answer with its question."""
    if item.kind == "Section":
        lines[item.line] = item.named() if any(lines[item.line + 1 :]) else ""
    elif item.kind == "Question":
        answers = [*item.answers, *([f"{item.value} {item.unit}".strip()] if item.value else [])]
        if answers:
            lines[item.line] = ": ".join(filter(None, (item.named(), "; ".join(answers))))
    elif item.is_selected and around and around[-1].kind == "Question":
        around[-1].answers.append(item.answer())
