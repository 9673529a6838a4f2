"""The one door for bytes that another party may have made: they are measured here before they are believed.

Counts, encoded folders, vocabularies, bundles, agreements, study files, tables and messages come from people we do not
control, or from disks that fail. Every module reads them through this one, which bounds them *before* anything is
built from them: bytes, depth, members, how far an archive inflates, the shapes that headers declare; and which refuses
numbers that are none. Only then do native libraries see them. ``tests/untrusted/test_one_door.py`` finds a module that
goes round it.

    bounds.py    how much is too much, and ``Refused``: what is wrong, never what was found
    text.py      bytes, JSON and TOML of a bounded size and depth; text that is safe to print
    body.py      a request's body: so many bytes, within so many seconds
    gate.py      who may hold a server's connections, and how long
    archives.py  gzip and ZIP by what they inflate to
    arrays.py    ``.npy`` and ``.npz``: declared shapes held against real bytes; offsets, indices, ranges
    tensors.py   safetensors by its library: names, shapes and types as expected, all weights finite
    xml.py       XML without document types, a few levels deep
    apart.py     a reader of many formats in a process of its own, with a bound on its memory

A refusal is a ``Refused``, whose text continues a sentence that begins with the file's name; rooms raise it as their
own error.

>>> from pathveil.untrusted import Refused, parse_json
>>> parse_json(b'{"words": 2}')
{'words': 2}
>>> try:
...     parse_json(b"[" * 5000)
... except Refused as why:
...     print(f"agreement.json: {why}")
agreement.json: is nested more than 64 levels deep
"""

from pathveil.untrusted import bounds
from pathveil.untrusted.bounds import Refused
from pathveil.untrusted.text import are_names, parse_json, parse_toml, printable, read_bytes, read_text

__all__ = ["Refused", "are_names", "bounds", "parse_json", "parse_toml", "printable", "read_bytes", "read_text"]
