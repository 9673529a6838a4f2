"""XML without document types, bounded in depth and in what has no end."""

import io

import pytest

from pathveil.untrusted import Refused
from pathveil.untrusted.xml import xml_events


def test_names_lose_their_namespace_and_texts_are_whole():
    text = '<x:a xmlns:x="u">' + "<x:b k='v'>left\n&lt;breast&gt; ä</x:b>" * 30_000 + "</x:a>"
    events = list(xml_events(io.BytesIO(text.encode())))
    assert len(events) == 60_002
    assert events[1:3] == [("start", "b", {"k": "v"}), ("end", "b", "left\n<breast> ä")]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"<a>" * 40, "32 levels"),
        (b"<!DOCTYPE a><a/>", "document type"),
        (b'<!DOCTYPE a [<!ENTITY b "&c;&c;"><!ENTITY c "lol">]><a>&b;</a>', "document type"),
        (b"<a>&b;</a>", "is no XML"),
        (b"<a><b></a>", "at line 1"),
        (b"<a " + b"x" * (3 << 20), "without an end"),
        (b"<a><![CDATA[" + b"x" * (20 << 20), "without an end"),
        (b"<!--" + b"x" * (3 << 20), "without an end"),
        (b"", "is no XML"),
    ],
)
def test_what_is_refused(data, why):
    with pytest.raises(Refused, match=why):
        list(xml_events(io.BytesIO(data)))
