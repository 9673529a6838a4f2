r"""RTF and web pages as plain text: laboratories' systems send both where a text is expected.

Of RTF (Microsoft's specification 1.9.1) the text is taken as it is shown: paragraphs and table rows on lines,
characters in the code page of the document or of their font, Unicode characters without their stand-ins; fonts, styles,
pictures, headers, footers, hidden and deleted text are left out. Of a page (HTML) the tags are. Both are read once
from left to right, so that time is proportional to their length.

>>> plain_text(r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\f0 Pr\'e4parat:\par\b Karzinom\b0  \u8804 ?2 mm}")
'Präparat:\nKarzinom ≤2 mm'
>>> plain_text("<p>Colon &amp; rectum:<br>adenoma</p>"), plain_text("margin < 2 mm, Ki-67 <b 5%")
('Colon & rectum:\nadenoma', 'margin < 2 mm, Ki-67 <b 5%')
"""

import codecs
import html
import re
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

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
# Groups without text of the report; all that begin with \* are others.
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
# Code pages with characters of two codes; the second may be written as a letter.
DOUBLE = frozenset(("cp932", "cp949", "johab", "cp936", "cp950"))
CODE_PAGES = {"ansi": "cp1252", "mac": "mac_roman", "pc": "cp437", "pca": "cp850"}

# An attribute's value may contain ">", never "<", so that each search ends at the next "<".
# Few tags have one letter: "if x <y and z> w" has none.
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
    """Return a text without markup where it is RTF (from some line on) or a page; else as it is.

    RTF that is nested beyond reason is ``Refused``.
    """
    if RTF in text and OPENS.search(text):
        return without_rtf(text)
    if "<" in text and (PAGE.match(text) or BREAK.search(text)):
        return without_tags(text)
    return text


def plain_texts(texts: "pl.Series") -> "pl.Series":
    """Remove the markup that a column's texts begin with; a text that is refused is missing."""
    import polars as pl

    marked = texts.str.starts_with(RTF) | texts.str.starts_with("<")
    if not marked.any():
        return texts
    places = marked.arg_true()
    return texts.scatter(places, pl.Series(list(map(plain_or_none, texts.gather(places))), dtype=pl.String))


def plain_or_none(text: str) -> str | None:
    """Remove the markup that a table's text begins with; return None where it is refused."""
    try:
        return plain_text(text) if text.startswith((RTF, "<")) else text
    except Refused:
        return None


def without_rtf(text: str) -> str:
    """Replace each RTF document in a text by its plain text."""
    pieces, at = [], 0
    while head := (AGAIN.match(text, at) if at else None) or OPENS.search(text, at):
        pieces.append(text[at : head.start()] if head.re is OPENS else "\n")
        document = RtfDocument()
        at = document.read(text, head.end() - len(RTF))
        pieces.append(document.text())
    return "".join([*pieces, text[at:]])


def are_cut(pieces: list[str]) -> bool:
    """Return true if the pieces of a text have one width, so that cuts may lie anywhere; of two, nothing is known."""
    width = len(pieces[0])
    return len(pieces) > 2 and all(len(piece) == width for piece in pieces[1:-1]) and len(pieces[-1]) <= width


def join_rtf(pieces: list[str]) -> str:
    r"""Join the pieces of a document, which are its lines or were cut anywhere, also within a control word.

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


class Group(NamedTuple):
    """Properties of a group of RTF, which end with it."""

    skipped: bool = False  # a picture, a style sheet, …
    hidden: bool = False  # text that is not shown
    stand_ins: int = 1  # characters behind a Unicode one, for readers that know none
    encoding: str = "cp1252"
    in_fonts: bool = False


class RtfDocument:
    """The text of one RTF document, from its first brace to the one that closes it."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.codes = bytearray()  # characters by their codes: some code pages need two for one
        self.group = Group()
        self.outer: list[Group] = []
        self.code_page = "cp1252"
        self.default_font: int | None = None
        self.fonts: dict[int, str] = {}  # font: encoding
        self.font = 0  # of the entry in the table of fonts
        self.stand_ins = 0  # still to be passed over

    def read(self, text: str, at: int) -> int:
        """Read from a brace on; return the place behind the document."""
        while token := TOKEN.match(text, at):
            at = token.end()
            word, number = token["word"], token["number"]
            if token["brace"] == "{":
                if len(self.outer) == DEEPEST:
                    raise Refused(f"holds RTF with groups nested more than {DEEPEST:,} deep")
                self.flush()
                self.outer.append(self.group)
                self.stand_ins = 0
            elif token["brace"]:
                ends_fonts = self.group.in_fonts and not self.outer[-1].in_fonts
                self.change(self.outer.pop())
                if ends_fonts:
                    self.change(encoding=self.usual_encoding())
                self.stand_ins = 0
                if not self.outer:
                    return at
            elif token["text"]:
                self.show(token["text"])
            elif token["code"]:
                if self.stand_ins:
                    self.stand_ins -= 1
                elif not (self.group.skipped or self.group.hidden):
                    self.codes.append(int(token["code"], 16))
            elif token["sign"] == "*":
                self.change(skipped=True)
            elif token["sign"] in SIGNS:
                self.show(SIGNS[token["sign"]])
            elif word == "bin":
                at += min(int(number[:9]), len(text)) if number and number[0] != "-" else 0
            elif word:
                self.control(word, None if number is None else int(number[:9]))
        return len(text)

    def text(self) -> str:
        self.flush()
        return "".join(self.pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def flush(self) -> None:
        """Decode the characters that came by their codes."""
        if self.codes:
            self.pieces.append(self.codes.decode(self.group.encoding, "replace"))
            self.codes.clear()

    def change(self, group: Group | None = None, **values: Any) -> None:
        """Change properties: to those of another group, or some of them."""
        self.flush()
        self.group = (group or self.group)._replace(**values)

    def show(self, text: str) -> None:
        """Add text, without the stand-ins it begins with."""
        if self.stand_ins:
            passed, text = text[: self.stand_ins], text[self.stand_ins :]
            self.stand_ins -= len(passed)
        if text and not (self.group.skipped or self.group.hidden):
            if self.codes and self.group.encoding in DOUBLE and "?" < text[0] < "\x7f":
                decoder = codecs.getincrementaldecoder(self.group.encoding)("replace")
                decoder.decode(self.codes)
                if decoder.getstate()[0]:  # the first of two codes
                    self.codes.append(ord(text[0]))
                    text = text[1:]
            self.flush()
            self.pieces.append(text)

    def usual_encoding(self) -> str:
        encoding = self.fonts.get(self.default_font) if self.default_font is not None else None
        # Most fonts have character set 0, in documents of any code page.
        return encoding if encoding and encoding != CHARSETS[0] else self.code_page

    def control(self, word: str, number: int | None) -> None:
        """Follow a control word."""
        if word in CHARACTERS:
            self.stand_ins = 0 if CHARACTERS[word] in "\n\t" else self.stand_ins  # a break stands in for no character
            self.show(CHARACTERS[word])
        elif word == "u" and number is not None:
            self.stand_ins = 0
            self.show(chr(number % 65536 if number < 65536 else number) if number <= 0x10FFFF else "\ufffd")
            self.stand_ins = self.group.stand_ins
        elif word == "uc" and number is not None:
            self.change(stand_ins=min(max(number, 0), 255))
        elif word in UNSHOWN:
            self.change(skipped=True, in_fonts=word == "fonttbl")
        elif word in ("v", "deleted"):
            self.change(hidden=number != 0)
        elif word == "plain":
            self.change(hidden=False, encoding=self.usual_encoding())
        elif word == "deff":
            self.default_font = number
        elif word == "f" and number is not None:
            self.font = number
            if not self.group.in_fonts:
                self.change(encoding=self.fonts.get(number, self.code_page))
        elif word == "fcharset" and self.group.in_fonts and number in CHARSETS:
            self.fonts[self.font] = CHARSETS[number]
        elif word in CODE_PAGES or (word == "ansicpg" and number is not None):
            name = CODE_PAGES.get(word) or ("utf-8" if number == 65001 else f"cp{number}")
            with suppress(LookupError):  # a code page that Python does not know
                codecs.lookup(name)
                self.code_page = name
                self.change(encoding=name)


def without_tags(page: str) -> str:
    """Return the text of a page, its blocks on lines of their own.

    Python's HTMLParser takes "pT<pN, if x<y then z>" for a tag, and time that grows with the square of "<br <br <br …".
    """
    pieces, at, in_head, comments_end = [], 0, False, page.rfind("-->")
    while tag := TAG.search(page, at):
        if not in_head:
            pieces.append(page[at : tag.start()])
        at, name, is_whole = tag.end(), (tag["name"] or "").lower(), tag[0].endswith("/>")
        if tag[0] == "<!--":
            at = page.index("-->", at) + 3 if at <= comments_end else at
        elif name == "head":
            in_head = not tag["end"] and not is_whole
        elif name and not tag["end"]:
            in_head = in_head and name in IN_HEAD  # a head that was never closed hides nothing behind it
            if name in HIDDEN and not is_whole:  # its content is no page
                end = HIDDEN[name].search(page, at)
                at = end.start() if end else len(page)
        if name in BLOCKS:
            pieces.append("\n")
        elif name in ("td", "th"):
            pieces.append(" ")
    if not in_head:
        pieces.append(page[at:])
    lines = (" ".join(line.split()) for line in unescape_entities("".join(pieces)).split("\n"))
    return "\n".join(filter(None, lines))


def unescape_entities(text: str) -> str:
    """Replace entities such as ``&lt;`` and ``&#181;`` by their characters."""
    return html.unescape(HUGE.sub("\ufffd", text))
