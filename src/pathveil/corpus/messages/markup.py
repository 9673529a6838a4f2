r"""RTF and web pages as plain text: laboratories' systems send both where a text is expected.

Of RTF (Microsoft's specification 1.9.1) the text is taken as it is shown: paragraphs and table rows on lines,
characters in the code page of the document or of their font, Unicode characters without their stand-ins; fonts, styles,
pictures, headers, footers, hidden and deleted text are left out. Of a page (HTML) the tags are. Both are read in one go
from left to right, in time proportional to their length, whatever they hold.

>>> plain_text(r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\f0 Pr\'e4parat:\par\b Karzinom\b0  \u8804 ?2 mm}")
'Präparat:\nKarzinom ≤2 mm'
>>> plain_text("<p>Colon &amp; rectum:<br>adenoma</p>"), plain_text("margin < 2 mm, Ki-67 <b 5%")
('Colon & rectum:\nadenoma', 'margin < 2 mm, Ki-67 <b 5%')
"""

import codecs
import html
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pathveil.untrusted import Refused

if TYPE_CHECKING:
    import polars as pl

RTF = "{\\rtf"
OPENS = re.compile(r"(?m)^(?:[^\S\n]|\ufeff)*+\{\\rtf")  # at the beginning of a text, or of a line of one
AGAIN = re.compile(r"[^\S\n]*+\{\\rtf")  # right behind another document
DEEPEST = 10_000  # groups within groups; documents have a dozen
TOKEN = re.compile(
    r"\\(?:(?P<word>[A-Za-z]++)(?P<number>-?[0-9]++)? ?|'(?P<code>[0-9A-Fa-f]{2})|(?P<sign>[\s\S]))"
    r"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]++)|[\r\n\\]"
)
CHARACTERS = {
    "par": "\n", "line": "\n", "sect": "\n", "page": "\n", "column": "\n", "row": "\n", "nestrow": "\n",
    "tab": "\t", "cell": "\t", "nestcell": "\t", "emspace": " ", "enspace": " ", "qmspace": " ",
    "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
}  # fmt: skip
SIGNS = {"\\": "\\", "{": "{", "}": "}", "~": " ", "_": "-", "\n": "\n", "\r": "\n", "\t": "\t"}
# Groups that hold no text of the report; so do all that begin with \*.
UNSHOWN = frozenset(
    "fonttbl colortbl stylesheet info pict nonshppict filetbl revtbl header headerl headerr headerf footer footerl "
    "footerr footerf ftnsep ftnsepc aftnsep aftnsepc tc xe objdata fldinst template listtable".split()
)
# Control words at which lines end; others at the end of a piece may be the beginning of one.
WORDS = CHARACTERS.keys() | UNSHOWN
WORDS |= set("b i ul ulnone pard plain ansi v intbl trowd ql qr qc qj super sub nosupersub strike caps".split())
BEGUN = re.compile(r"(?<!\\)(?:\\\\)*+\\(?:'[0-9A-Fa-f]?|(?P<word>[A-Za-z]+|u-?[0-9]+))\Z")
# What \fcharset says of a font's characters.
CHARSETS = {0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "cp936", 136: "cp950"}
CHARSETS |= {161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251"}
CHARSETS |= {222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850"}
# Code pages with characters of two codes, of which the second may stand as the letter that it is elsewhere.
DOUBLE = frozenset(("cp932", "cp949", "johab", "cp936", "cp950"))
SHEETS = {"ansi": "cp1252", "mac": "mac_roman", "pc": "cp437", "pca": "cp850"}

# An attribute's value may hold what ends a tag; none holds what begins one, so that each search ends at the next.
# Few tags have one letter: "if x <y and z> w" holds none.
TAG = re.compile(
    r"<(?:!--|(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]++|[ABIPQSUabipqsu])(?![^\s/>])"
    r"(?:(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+>|[^<>]*+>)|[!?][^<>]*+>)"
)
BREAK = re.compile(r"(?i)<br\s*+/?>")
PAGE = re.compile(
    r"(?i)[\s\ufeff]*+(?:<\?xml[^<>]*+>\s*+)?(?:<!--(?:[^-]++|-(?!->))*+-->\s*+)*+"
    r"<(?:!doctype html|(?:html|head|body|div|p|span|table|pre|font|b|i|u|strong|em|h[1-6]|ul|ol|dl|style|meta|title"
    r"|script|a|section|article|main|header|center|blockquote|hr)(?:\s[^<>]*+)?/?>)"
)
BLOCKS = frozenset(
    "p div br tr li ul ol table h1 h2 h3 h4 h5 h6 pre body section hr dl dt dd blockquote article center header footer "
    "main aside nav address figure figcaption caption form fieldset legend".split()
)
HIDDEN = {name: re.compile(rf"(?i)</{name}(?![^\s/>])") for name in ("script", "style", "title")}  # and their ends
IN_HEAD = frozenset("script style title meta link base noscript template".split())  # all else is behind it
HUGE = re.compile(r"&#(?:\d{8,}+|[xX][0-9A-Fa-f]{7,}+);?", re.ASCII)  # no character has such a number


def plain_text(text: str) -> str:
    """The text without markup where it is RTF (from some line on) or a page; else as it is.

    RTF that is nested beyond reason is ``Refused``.
    """
    if RTF in text and OPENS.search(text):
        return without_rtf(text)
    if "<" in text and (PAGE.match(text) or BREAK.search(text)):
        return without_tags(text)
    return text


def plain_texts(texts: "pl.Series") -> "pl.Series":
    """A column of texts without the markup that they begin with; one that is refused is missing."""
    import polars as pl

    marked = texts.str.starts_with(RTF) | texts.str.starts_with("<")
    if not marked.any():
        return texts
    places = marked.arg_true()
    return texts.scatter(places, pl.Series(list(map(plain_or_none, texts.gather(places))), dtype=pl.String))


def plain_or_none(text: str) -> str | None:
    """A table's text without the markup that it begins with; none where it is refused."""
    try:
        return plain_text(text) if text.startswith((RTF, "<")) else text
    except Refused:
        return None


def without_rtf(text: str) -> str:
    """A text with each RTF document in it as plain text; what stands around them stays."""
    pieces, at = [], 0
    while found := (AGAIN.match(text, at) if at else None) or OPENS.search(text, at):
        pieces.append(text[at : found.start()] if found.re is OPENS else "\n")
        document = RtfDocument()
        at = document.read(text, found.end() - len(RTF))
        pieces.append(document.text())
    return "".join([*pieces, text[at:]])


def are_cut(pieces: list[str]) -> bool:
    """Whether pieces of a text were cut at one width, and so anywhere; two tell nothing yet."""
    width = len(pieces[0])
    return len(pieces) > 2 and all(len(piece) == width for piece in pieces[1:-1]) and len(pieces[-1]) <= width


def join_rtf(pieces: list[str]) -> str:
    r"""One document of its pieces, which are its lines or were cut anywhere, also within a control word.

    A line end means nothing in RTF but that a control word ends there.

    >>> join_rtf([r"{\rtf1 one\par", "two}"]), join_rtf([r"{\rtf1 one\pa", r"r two \'e", "4}"])
    ('{\\rtf1 one\\par\ntwo}', "{\\rtf1 one\\par two \\'e4}")
    """
    if are_cut(pieces):
        return "".join(pieces)
    joined = pieces[:1]
    for last, piece in pairwise(pieces):
        begun = BEGUN.search(last, max(len(last) - 40, 0))
        is_within = begun and (begun["word"] or "") not in WORDS and (not begun["word"] or piece[:1].isalnum())
        joined.append(piece if is_within else f"\n{piece}")
    return "".join(joined)


class State(NamedTuple):
    """What holds within a group of RTF, and ends with it."""

    unshown: bool = False
    hidden: bool = False
    stand_ins: int = 1  # characters behind a Unicode one, for readers that know none
    encoding: str = "cp1252"
    in_fonts: bool = False


class RtfDocument:
    """One document being read, from its first brace to the one that closes it."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.bytes = bytearray()  # characters by their codes: some code pages need two for one
        self.state = State()
        self.outer: list[State] = []
        self.usual = "cp1252"
        self.usual_font: int | None = None  # whose characters count where none is named
        self.fonts: dict[int, str] = {}  # font: encoding
        self.font = 0  # that the table of fonts speaks of
        self.skip = 0  # stand-ins still to come

    def read(self, text: str, at: int) -> int:
        """Read from a brace on; gives the place behind the document."""
        while found := TOKEN.match(text, at):
            at = found.end()
            if brace := found["brace"]:
                self._characters("")
                self.skip = 0
                if brace == "{":
                    if len(self.outer) == DEEPEST:
                        raise Refused(f"holds RTF with groups nested more than {DEEPEST:,} deep")
                    self.outer.append(self.state)
                else:
                    was_in_fonts, self.state = self.state.in_fonts, self.outer.pop()
                    if was_in_fonts and not self.state.in_fonts:
                        self.state = self.state._replace(encoding=self._usual_encoding())
                    if not self.outer:
                        return at
            elif shown := found["text"]:
                self._show(shown)
            elif code := found["code"]:
                if self.skip:
                    self.skip -= 1
                elif not (self.state.unshown or self.state.hidden):
                    self.bytes.append(int(code, 16))
            elif sign := found["sign"]:
                if sign == "*":
                    self.state = self.state._replace(unshown=True)
                elif sign in SIGNS:
                    self._show(SIGNS[sign])
            elif word := found["word"]:
                number = found["number"]
                if word == "bin":
                    at += min(int(number[:9]), len(text)) if number and number[0] != "-" else 0
                else:
                    self._obey(word, None if number is None else int(number[:9]))
        return len(text)

    def text(self) -> str:
        self._characters("")
        text = "".join(self.pieces)
        if any("\ud800" <= piece <= "\udfff" for piece in self.pieces if len(piece) == 1):  # halves of characters
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def _show(self, text: str) -> None:
        if self.skip:
            left = text[self.skip :]
            self.skip -= len(text) - len(left)
            text = left
        if text and not (self.state.unshown or self.state.hidden):
            if self.bytes and self.state.encoding in DOUBLE and "?" < text[0] < "\x7f" and self._is_half():
                self.bytes.append(ord(text[0]))
                text = text[1:]
            self._characters(text)

    def _is_half(self) -> bool:
        """Whether the codes so far end in the first of two."""
        try:
            self.bytes.decode(self.state.encoding)
        except UnicodeDecodeError as error:
            return error.start == len(self.bytes) - 1
        return False

    def _usual_encoding(self) -> str:
        named = self.fonts.get(self.usual_font) if self.usual_font is not None else None
        return named if named and named != CHARSETS[0] else self.usual  # most fonts say 0, whatever the code page is

    def _characters(self, text: str) -> None:
        """Add text, behind the characters that came by their codes."""
        if self.bytes:
            self.pieces.append(self.bytes.decode(self.state.encoding, "replace"))
            self.bytes.clear()
        if text:
            self.pieces.append(text)

    def _obey(self, word: str, number: int | None) -> None:
        """What a control word says."""
        state = self.state
        if word in CHARACTERS:
            self.skip = 0 if CHARACTERS[word] in "\n\t" else self.skip  # a break stands in for no character
            self._show(CHARACTERS[word])
        elif word == "u" and number is not None:
            self.skip = 0
            self._show(chr(number % 65536 if number < 65536 else number) if number <= 0x10FFFF else "\ufffd")
            self.skip = state.stand_ins
        elif word == "uc" and number is not None:
            self.state = state._replace(stand_ins=min(max(number, 0), 255))
        elif word in UNSHOWN:
            self.state = state._replace(unshown=True, in_fonts=word == "fonttbl")
        elif word in ("v", "deleted"):
            self._characters("")
            self.state = state._replace(hidden=number != 0)
        elif word == "plain":
            self._characters("")
            self.state = state._replace(hidden=False, encoding=self._usual_encoding())
        elif word == "deff":
            self.usual_font = number
        elif word == "f" and number is not None:
            self.font = number
            if not state.in_fonts:
                self._characters("")
                self.state = state._replace(encoding=self.fonts.get(number, self.usual))
        elif word == "fcharset" and state.in_fonts and number in CHARSETS:
            self.fonts[self.font] = CHARSETS[number]
        elif word in SHEETS or (word == "ansicpg" and number is not None):
            name = SHEETS.get(word) or ("utf-8" if number == 65001 else f"cp{number}")
            if is_encoding(name):
                self.usual = name
                self.state = state._replace(encoding=name)


def is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True


def without_tags(page: str) -> str:
    """The text of a page, its blocks on lines of their own."""
    pieces, at, in_head, has_comments = [], 0, False, True
    while found := TAG.search(page, at):
        if not in_head:
            pieces.append(page[at : found.start()])
        at, name = found.end(), (found["name"] or "").lower()
        if found[0] == "<!--":
            end = page.find("-->", at) if has_comments else -1
            has_comments = end >= 0
            at = end + 3 if end >= 0 else at
        elif name == "head":
            in_head = not found["end"] and not found[0].endswith("/>")
        elif name and not found["end"]:
            in_head = in_head and name in IN_HEAD  # a head that was never closed hides nothing behind it
            if name in HIDDEN and not found[0].endswith("/>"):  # what is in it is no page, whatever it looks like
                end = HIDDEN[name].search(page, at)
                at = end.start() if end else len(page)
        if name in BLOCKS:
            pieces.append("\n")
        elif name in ("td", "th"):
            pieces.append(" ")
    if not in_head:
        pieces.append(page[at:])
    text = unescape_entities("".join(pieces))
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(filter(None, lines))


def unescape_entities(text: str) -> str:
    """Text in which ``&lt;`` and ``&#181;`` stand for characters with these in their place."""
    return html.unescape(HUGE.sub("\ufffd", text))
