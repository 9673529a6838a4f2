r"""One report's text to tokens, by rules that keep the words clinicians need.

The cleaning is the distribution paper's (lowercase, runs of punctuation removed, decimals to ``decimal``, integers over
100 to ``large_integer``, clipped at 1500 words), made exact enough to leave grades, stages, markers and codes alone.
Every rule looks at one chunk only: what stands between white space and characters that always separate. Text is
Zipfian, so a long column needs the rules for its distinct chunks alone; `pathveil.text.bulk` lives on that.

Unicode comes first, one character at a time: ligatures, accents, dashes, quotes and non-breaking spaces become plain,
control characters and soft hyphens that OCR leaves behind vanish.

>>> tokenize("in\ufb01ltrating M\u00fcllerian\u00a0tumour \x00t\x00h\x00e\x00 ER\u2011positive 5\u00d73 \u22655")
['infiltrating', 'mullerian', 'tumour', 'the', 'er-positive', '5', 'x', '3', '>', '5']

Then the rules, in the order they are tried:

>>> tokenize("Carcinoma, NOS --- (see  comment!!)")          # lowercase; punctuation removed, in runs or alone
['carcinoma', 'nos', 'see', 'comment']
>>> tokenize("4.2x3.1X2 cm")                                 # times: the x of a measurement stands alone
['decimal', 'x', 'decimal', 'x', '2', 'cm']
>>> tokenize("C50.4 CAM5.2")                                 # code: short letters, digits, point, digits
['c50.4', 'cam5.2']
>>> tokenize("8500/3, M-8140/3")                             # morphology: an ICD-O-3 code with its behaviour
['8500/3', 'm', '8140/3']
>>> tokenize("weighs 1,250 g")                               # thousands: a large integer written with commas
['weighs', 'large_integer', 'g']
>>> tokenize("1.5cm .5 0.01%")                               # decimal
['decimal', 'cm', 'decimal', 'decimal', '%']
>>> tokenize("0/12 CA 19-9 20-30% Gleason 3+4=7")            # pair: two integers up to 100
['0/12', 'ca', '19-9', '20-30%', 'gleason', '3+4', '7']
>>> tokenize("10/12/2008 555-12-3456", identifiers=False)    # ... but dates and numbers of people fall apart
['10', '12', 'large_integer', 'large_integer', '12', 'large_integer']
>>> tokenize("5mm 58-year-old 30% HER2 3+ 100")              # small: integers up to 100, percentages, scores
['5', 'mm', '58', 'year-old', '30%', 'her2', '3+', '100']
>>> tokenize("101 007 8-12345")                              # large: integers over 100, and longer ones
['large_integer', 'large_integer', '8', 'large_integer']
>>> tokenize("H&E, n/a")                                     # letters: two letters around a sign
['h&e', 'n/a']
>>> tokenize("e.g. M.D.")                                    # initials: abbreviations with points
['e.g', 'm.d']
>>> tokenize("A. Breast B.LEFT")                             # specimen: a letter that names a part keeps its point
['a.', 'breast', 'b.', 'left']
>>> tokenize("G3 pT2 N0 Ki-67 CD20 ER/PR well-formed")       # word: letters and digits, hyphens inside
['g3', 'pt2', 'n0', 'ki-67', 'cd20', 'er', 'pr', 'well-formed']
>>> tokenize("Gleason's 12 o'clock")                         # ... apostrophes inside, but no possessive
['gleason', '12', "o'clock"]
>>> tokenize("<1% ER+ (+)")                                  # sign: below, above, plus and percent mean something
['<', '1%', 'er', '+', '+']

Before all that, what names people and days becomes a token that says only what stood there (``identifiers``), unless a
text is wanted as it is:

>>> tokenize("S08-12345, received 10/12/2008 from Dr. Ada Quarbescu (217) 555-0134")
['identifier_number', 'received', 'identifier_date', 'from', 'dr', 'identifier_name', 'identifier_phone']

Explanations need to know where a token stood:

>>> tokenize_spans("Stage: pT2.")
[('stage', 0, 5), ('pt2', 7, 10)]
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice

from pathveil.text.identifiers import TOKENS, find_identifiers, hide, replace_spans
from pathveil.text.identifiers import VERSION as HIDING

VERSION = 2  # raised whenever any text would give other tokens: caches and bundles carry it
WORDS = 1500  # a report is clipped here, in both papers
SEPARATORS = '()[]{}";:!?|\\~*#^_$@'  # beside white space, what ends a chunk wherever it stands

IDENTIFIERS: bool = True  # whether stretches that name people and days become tokens, unless told

DECIMAL, LARGE_INTEGER = "decimal", "large_integer"


def settings(*, words: int = WORDS, identifiers: bool = IDENTIFIERS) -> str:
    """What decides the tokens of a text, as a string for provenance and cache keys.

    >>> settings(), settings(identifiers=False)
    ('pathveil-text/2 identifiers=2 words=1500', 'pathveil-text/2 words=1500')
    """
    hiding = f" identifiers={HIDING}" if identifiers else ""
    return f"pathveil-text/{VERSION}{hiding} words={words}"


def read_settings(text: str) -> tuple[int, bool] | None:
    """The words a report is clipped at and whether identifiers are hidden; None for what this version cannot do.

    >>> read_settings("pathveil-text/2 words=1500"), read_settings("pathveil-text/1 words=1500")
    ((1500, False), None)
    """
    words = text.rpartition("words=")[2]
    if not words.isdecimal() or len(words) > 9:
        return None
    for identifiers in (False, True):
        if settings(words=int(words), identifiers=identifiers) == text:
            return int(words), identifiers
    return None


class _Plain(dict[int, str]):
    """A ``str.translate`` table that works out a character the first time it is met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if category in ("Cc", "Cf"):  # NUL, soft hyphen, zero-width space, byte order mark
            plain = ""
        elif category == "Pd":
            plain = "-"
        else:
            parts = unicodedata.normalize("NFKD", character.lower())
            plain = "".join(part for part in parts if not "\u0300" <= part <= "\u036f")
            plain = plain.lower().replace("\u2044", "/")  # ½ is 1⁄2
        self[code] = plain
        return plain


_PLAIN = _Plain(zip(map(ord, "‘’‚′`´“”„×≤≥−⁄∕™®©\x85\n"), ["'"] * 6 + ['"'] * 3 + list("x<>-//    \n"), strict=True))


class _Parted(dict[int, str]):
    """The same table, with what ends a chunk as the end of a line."""

    def __missing__(self, code: int) -> str:
        ends = chr(code).isspace() or chr(code) in SEPARATORS
        self[code] = plain = "\n" if ends else chr(code).translate(_PLAIN)
        return plain


PARTED = _Parted()

# Letters and digits (no underscore), and what must not follow for a word to end here.
_W, _END = r"[^\W_]", r"(?![^\W_])"
_SMALL = r"(?:100|[0-9]{1,2})"
# An integer ends where a word would, before a unit glued to it, or before the x of a measurement.
_INTEGER_END = rf"(?:{_END}|(?=(?:[cmuμ]m|ml|cc|gm?|[mk]g|hpf){_END}|x\.?[0-9]))"

_RULES = {
    "identifier": f"[{''.join(TOKENS)}]",  # what `identifiers` left in the place of a stretch
    "times": r"(?:(?<=[0-9])x(?=\.?[0-9])|(?<![^\W_])x(?=[0-9]*\.[0-9]))",
    "code": rf"[a-z]{{1,3}}[0-9]{{1,2}}\.[0-9]{{1,2}}(?!\.[0-9]){_END}",
    "morphology": rf"m?[89][0-9]{{3}}/[0-9]{{1,2}}(?!/){_END}",
    "thousands": r"[0-9]{1,3}(?:,[0-9]{3}){1,40}+(?![0-9])",
    "decimal": r"(?:[0-9]++|(?<![^\Wx_.]))\.[0-9]++",
    "pair": rf"(?<![0-9][-/+.]){_SMALL}[-/+]{_SMALL}(?![-/+.][0-9])(?:%|{_END})",
    "small": rf"{_SMALL}(?:[%+]|{_INTEGER_END})",
    "large": rf"[0-9]++{_INTEGER_END}",
    "letters": rf"(?<![^\W_])[a-z][/&][a-z]{_END}",
    "initials": rf"(?<![^\W_])[a-z](?:\.[a-z]){{1,40}}+{_END}",
    "specimen": r"(?<![^\W_])[a-z]\.(?!\.)",
    "word": rf"{_W}++(?:['-](?!s{_END}|[0-9]{{4}}){_W}++)*+",
    "sign": r"[<>](?==?\.?[0-9])|(?<![-+=/])\+(?![-+=/])|%",
}
# In front, for speed, what most places hold: the end of a chunk (a token of its own, see `scan_chunks`), a word of
# letters that no other rule wants, and punctuation that none looks at. That, and a possessive 's, is consumed outside
# the group and so gives no token.
_QUICK = rf"\n|[a-z]{{2,}}+(?!['-]|{_W})"
_TOKEN = re.compile(rf"({_QUICK}|{'|'.join(_RULES.values())})|[^\w\s.<>+%']++|'s{_END}")
CHUNK = re.compile(rf"[^\s{re.escape(SEPARATORS)}]+")


def scan_chunks(chunks: Iterable[str]) -> list[str]:
    """What the rules find in all chunks, in one pass: line ends part the chunks, "" is no token."""
    return _TOKEN.findall("\n".join(chunks).translate(_PLAIN))


def word_for(token: str) -> str:
    """``decimal`` and ``large_integer`` for the numbers they stand for, and the names of identifiers; no other rule's
    token looks like one."""
    if token[0] > "9":
        return TOKENS.get(token, token)
    if token.isdecimal():
        return LARGE_INTEGER if len(token) > 2 and token != "100" else token
    if token[0] >= "0" or token[0] == ".":
        return DECIMAL if "." in token else LARGE_INTEGER if "," in token else token
    return token


def tokenize(text: str, *, words: int = WORDS, identifiers: bool = IDENTIFIERS) -> list[str]:
    """Tokens of a report, at most ``words`` of them; ``identifiers``: what names people and days as such tokens."""
    text = hide(text) if identifiers else text
    return [word_for(token) for token in scan_chunks(CHUNK.findall(text)) if token and token != "\n"][:words]


def chunks(text: str) -> Iterator[tuple[int, int]]:
    """Where the chunks lie that the rules look at, one at a time: (start, end) of each."""
    return (match.span() for match in CHUNK.finditer(text))


def tokenize_spans(text: str, *, words: int = WORDS, identifiers: bool = IDENTIFIERS) -> list[tuple[str, int, int]]:
    """The tokens of :func:`tokenize`, each with the (start, end) of the characters of ``text`` it stands for."""
    hidden = find_identifiers(text) if identifiers else []
    if not hidden:
        return list(islice(_spans(text), words))
    # Where each character of the text with its stretches hidden begins and ends in the text itself.
    begins, ends, last = [], [], 0
    for start, end, _ in hidden:
        begins += [*range(last, start), start]
        ends += [*range(last + 1, start + 1), end]
        last = end
    begins += range(last, len(text))
    ends += range(last + 1, len(text) + 1)
    spans = islice(_spans(replace_spans(text, hidden)), words)
    return [(token, begins[start], ends[end - 1]) for token, start, end in spans]


def _spans(text: str) -> Iterator[tuple[str, int, int]]:
    if all(len(character.translate(_PLAIN)) == 1 for character in set(text)):  # each keeps its place: one pass will do
        for match in _TOKEN.finditer(text.translate(PARTED)):
            token = match.group(1)
            if token and token != "\n":
                yield word_for(token), match.start(), match.end()
        return
    for chunk in CHUNK.finditer(text):
        # A character may become none, one or several: place[i] is where character i of the plain chunk came from.
        pieces = [character.translate(_PLAIN) for character in chunk.group()]
        place = [start for start, piece in enumerate(pieces, start=chunk.start()) for _ in piece]
        for match in _TOKEN.finditer("".join(pieces)):
            if match.group(1):
                yield word_for(match.group()), place[match.start()], place[match.end() - 1] + 1
