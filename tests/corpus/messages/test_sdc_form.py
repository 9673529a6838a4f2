"""Checklists of Structured Data Capture as text: what was answered, and nothing of what was not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.corpus.messages.sdc_form import text_of_form
from pathveil.untrusted import Refused

NAMESPACE = 'xmlns="urn:ihe:qrph:sdc:2016"'


def called(name: str) -> str:
    return f'<Property propName="reportText" val="{name}"/>'


def answer(title: str, content: str = "", *, selected: bool = True) -> str:
    return (
        f'<ListItem title="{title}"{" selected=" + chr(34) + "true" + chr(34) if selected else ""}>{content}</ListItem>'
    )


def question(title: str, *answers: str, content: str = "") -> str:
    return f'<Question title="{title}">{content}<ListField><List>{"".join(answers)}</List></ListField></Question>'


def typed(value: str, unit: str = "", *, kind: str = "decimal") -> str:
    units = f'<TextAfterResponse val="Centimeters (cm)"/><ResponseUnits val="{unit}"/>' if unit else ""
    return f'<ResponseField><Response><{kind} maxLength="40" val="{value}"/></Response>{units}</ResponseField>'


def form(*items: str, title: str = "COLON") -> bytes:
    note = '<DisplayedItem title="Explanatory note, of no report"/>'
    body = f"<Body><ChildItems>{note}{''.join(items)}</ChildItems></Body>"
    return f'<Package {NAMESPACE}><FormDesign formTitle="{title}">{body}</FormDesign></Package>'.encode()


def test_only_what_was_answered_is_told():
    side = question("Laterality", answer("Right", selected=False), answer("Left"))
    unanswered = question("Margins", answer("Free", selected=False))
    empty = f'<Section title="LYMPH NODES"><ChildItems>{unanswered}</ChildItems></Section>'
    specimen = f'<Section title="SPECIMEN"><ChildItems>{side}</ChildItems></Section>'
    assert text_of_form(form(specimen, empty)) == "COLON\nSPECIMEN\nLaterality: Left"
    assert text_of_form(form(unanswered)) == ""  # a title alone is no report


def test_several_answers_and_values_with_units_stand_on_one_line():
    size = question("Size (Note A)", answer("Greatest dimension", typed("3.5", "cm")), content=called("Tumor Size"))
    spread = question("Invasion", answer("Small vessel"), answer("Large &amp; renal vein"))
    free = f'<Question title="Comment">{typed("seen by two", kind="string")}</Question>'
    assert text_of_form(form(size, spread, free)).split("\n")[1:] == [
        "Tumor Size: Greatest dimension: 3.5 cm",
        "Invasion: Small vessel; Large & renal vein",
        "Comment: seen by two",
    ]


def test_items_are_called_as_in_a_report():
    other = answer("Other (specify)", called("{no text}") + typed("papillary", kind="string"))
    named = answer("Adenoma (Note B)", called("Adenoma"))
    bare = answer("Colon", called("{no text}"))
    text = text_of_form(form(question("Type", named, other), question("Site", bare, content=called("{no text}"))))
    assert text.split("\n")[1:] == ["Type: Adenoma; papillary", "Colon"]


def test_questions_about_an_answer_follow_it_however_deep():
    inner = question("Deepest", answer("yes"))
    for level in range(20, 0, -1):
        inner = question(f"Level {level}", answer("yes", f"<ChildItems>{inner}</ChildItems>"))
    lines = text_of_form(form(inner)).split("\n")[1:]
    assert lines == [*(f"Level {level}: yes" for level in range(1, 21)), "Deepest: yes"]


@pytest.mark.parametrize("wrong", [b"", b"left breast", b"<a><b/></a>", form()[:-9], b"<!DOCTYPE a><FormDesign/>"])
def test_other_and_damaged_xml_is_refused(wrong):
    with pytest.raises(Refused):
        text_of_form(wrong)


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_form_is_text_or_refused(data):
    whole = bytearray(form(question("Type", answer("Adenoma", typed("3", "cm")))))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    try:
        assert isinstance(text_of_form(bytes(whole)), str)
    except Refused:
        pass
