"""How much is too much, and how a refusal is told.

The bounds are far above what honest files need and far below what a machine cannot bear. A bound on what something
small may grow to has two parts: an amount that no machine minds, and a multiple of the bytes that were really sent.

>>> grown(100, sent=10), grown(1 << 40, sent=1 << 20)
(True, False)
"""

DEPTH = 64  # objects within objects, of any JSON or TOML; ours have six
TABLE_DEPTH = 24  # of JSON that is made into a table, whose types are built level by level
CONTAINERS = 2_000_000  # lists and objects in a JSON text: each takes twenty times the bytes it is written with
JSON_BYTES = 1 << 28  # a vocabulary of millions of words has some 50 MB
SMALL_BYTES = 1 << 20  # settings, terms, manifests: what a person could read
ARCHIVE_BYTES = 1 << 32  # a counts file or a spreadsheet
MEMBERS = 20_000  # files in an archive, tensors in a file
COLUMNS = 20_000  # of a table
WORDS = 1 << 23  # of a vocabulary; all languages' Wikipedias together come to more, a registry never
FREE = 1 << 26  # bytes that anything may grow to
GROWTH = 250  # times the bytes sent that an archive may inflate to: text reaches 10, tables of zeros 200
LONGEST_LINE = 1 << 26  # characters
COUNT = 1 << 40  # reports, cases or occurrences: sums of millions of them still fit 64 bits


class Refused(ValueError):
    """What is wrong with foreign bytes, as the end of a sentence that begins with their name; it never quotes them."""


def grown(size: int, *, sent: int) -> bool:
    """Whether something of ``size`` bytes may come of the bytes that were sent."""
    return size <= FREE + GROWTH * sent
