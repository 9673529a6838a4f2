"""XML as events, without document types (whose entities multiply), a few levels deep, and no tag without an end.

>>> import io
>>> for event in xml_events(io.BytesIO(b'<a><b c="1">left &amp; right</b></a>')):
...     print(event)
('start', 'a', {})
('start', 'b', {'c': '1'})
('end', 'b', 'left & right')
('end', 'a', '')
"""

from collections.abc import Iterator
from typing import IO, Any
from xml.parsers import expat

from pathveil.untrusted.bounds import Refused

DEPTH = 32
PIECE = 1 << 16  # bytes read at a time
LONGEST_TAG = 1 << 20  # bytes without an event: the parser looks at an unfinished tag again with each piece
LONGEST_TEXT = 1 << 24  # characters of an element


def xml_events(file: IO[bytes], *, depth: int = DEPTH) -> Iterator[tuple[str, str, Any]]:
    """``("start", name, attributes)`` and ``("end", name, text)`` of each element, names without their namespace."""
    found: list[tuple[str, str, Any]] = []
    texts: list[list[str]] = []
    seen = 0  # whether the parser got on since it was last asked

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(texts) == depth:
            raise Refused(f"is nested more than {depth} levels deep")
        texts.append([])
        found.append(("start", local(name), attributes))

    def end(name: str) -> None:
        found.append(("end", local(name), "".join(texts.pop())))

    def text(piece: str) -> None:
        nonlocal seen
        seen += 1
        texts[-1].append(piece)

    def refuse(*_: Any) -> None:
        raise Refused("declares a document type; it is not read")

    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    silent = 0
    try:
        while True:
            piece = file.read(PIECE)
            parser.Parse(piece, not piece)
            silent = 0 if found or seen else silent + len(piece)
            if silent > LONGEST_TAG or any(sum(map(len, parts)) > LONGEST_TEXT for parts in texts):
                raise Refused("holds a tag or a text without an end")
            yield from found
            found.clear()
            seen = 0
            if not piece:
                return
    except expat.ExpatError as fault:
        raise Refused(f"is no XML, or is cut short, at line {fault.lineno:,}") from None
    except (LookupError, UnicodeError):  # an encoding that nobody knows
        raise Refused("cannot be read as XML: its encoding is not known") from None


def local(name: str) -> str:
    return name.rpartition("}")[2]
