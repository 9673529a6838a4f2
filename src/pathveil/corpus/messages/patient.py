"""What a patient's fields are used for, and nothing else: a keyed case id, and taking their own values out of the text.

``case_id`` is an HMAC-SHA256 of the patient's number under a secret key: without the key nobody can test a guessed
number against it, and with the same key the same patient gets the same id in every import. HL7 names no tumour, so
here a case is a patient; a split by it is at least as strict as one by patient and tumour.

``Mask`` finds what the message itself says about its patient (names, numbers, birth date, street) where it stands in
the report's text. It is a net under careless reports, not de-identification: it knows nothing that the message does
not say, and leaves physicians, laboratories and misspellings as they are.

>>> case_id(b"a secret of the registry", "MR", "HOSPITAL", "00466144")
'case-9ed5096925395299ef73d97b'
>>> mask = Mask(names=[("McMuffin", "Candy")], numbers=["00466144"], births=["19570706"])
>>> mask("Ms. McMuffin (MR 466144, born 7/6/1957) noticed a lump")
('Ms. [patient] (MR [number], born [date]) noticed a lump', 3)
"""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from pathveil.corpus.dates import WRITTEN_DATE, may_contain_day, possible_days
from pathveil.corpus.messages.sections import SECTIONS
from pathveil.errors import UsageError
from pathveil.text.identifier_patterns import TERMS, WORDS

TITLE = r"(?:mr|mrs|ms|miss|mister|master|herr|frau|patient|pt|name)\b[.:,]*\s+"
PERSON = r"(?:mr|mrs|ms|miss|mister|herr|frau|name)\b[.:,]*[^\S\n]+"
SHORTEST_KEY = 16
HEADING = re.compile(rf"(?m)^((?:{'|'.join(SECTIONS)}):?)$")
LETTERS = re.compile(r"[^\W_]+")
NAME_BREAK = re.compile(r"[\s.'’_-]+")
PREFIX = re.compile(r"(?i)^(O|D|Mac|Mc)(?=[^\W\d_]{3})")  # of a name; some systems drop the apostrophe behind it
PHONE = re.compile(r"\+?[0-9(][0-9()\s./-]{5,}")
STREET = re.compile(r"\s*\S+[\s@]+\S")
UMLAUTS = {"ae": "ä", "oe": "ö", "ue": "ü", "ss": "ß"}  # capitals or not: names are looked for in either
LETTERS_OF = {one: two for two, one in UMLAUTS.items()}
TWO_LETTERS, ONE_LETTER = re.compile("(?i)ae|oe|ue|ss"), re.compile("(?i)[äöüß]")
SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())


def read_key(path: Path) -> bytes:
    """The secret in a file, without the line end an editor may have added."""
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise UsageError(
            f"{path}: the key cannot be read ({error.strerror}); make one once, and keep it, with: "
            f'python -c "import secrets; print(secrets.token_hex(32))" > {path}'
        ) from None
    if key.startswith(b"-----BEGIN"):  # others need this secret too: who gave it to them would let them sign
        raise UsageError(f"{path}: is a key that signs or verifies; expected a secret of its own, of random characters")
    if len(key) < SHORTEST_KEY:
        raise UsageError(f"{path}: the key has {len(key)} bytes, expected at least {SHORTEST_KEY} random ones")
    return key


def case_id(key: bytes, *identity: str) -> str:
    """A name for a case that only the key's holder can link to a person."""
    return f"case-{keyed_hash(key, 'case', *identity)}"


def report_id(key: bytes, *content: str) -> str:
    """A name for a report: the same content under the same key gives the same name."""
    return f"report-{keyed_hash(key, 'report', *content)}"


def keyed_hash(key: bytes, *parts: str) -> str:
    message = b"".join([len(part).to_bytes(8, "big") + part for part in map(str.encode, parts)])
    return hmac.digest(key, message, hashlib.sha256).hex()[:24]


class Mask:
    """Replaces a patient's own names, numbers, birth dates and street in a text."""

    def __init__(
        self,
        *,
        names: Iterable[Sequence[str]] = (),  # (family, given, middle…) each
        numbers: Iterable[str] = (),
        births: Iterable[str] = (),  # YYYYMMDD…
        streets: Iterable[str] = (),
    ):
        self.pairs: list[tuple[str, str]] = []  # two parts of a name that may stand side by side
        self.single: set[str] = set()
        self.short: set[str] = set()
        for name in names:
            whole = ",".join(name)  # some send all of a name as one part of it
            for spelled in spellings(whole):
                parts = [part for one in spelled.split(",") if len(part := one.strip()) >= 2]
                self.pairs += [(one, other) for one in parts for other in parts if one != other]
                self.single |= {word for part in parts for word in (part, *NAME_BREAK.split(part)) if len(word) >= 3}
                self.short |= {part for part in parts if len(part) == 2}
        self.streets = [street.strip() for street in streets if STREET.match(street)]
        bare = {squeeze(number) for number in numbers}
        bare |= {number.lstrip("0") for number in bare}
        bare |= {number[1:] for number in bare if len(number) == 11 and number[0] == "1"}  # a phone with its country
        self.numbers = {number for number in bare if len(number) >= 5 and any(map(str.isdigit, number))}
        self.births = {birth[:8] for birth in births if birth[:8].isascii() and birth[:8].isdigit() and len(birth) > 7}

    def __call__(self, text: str) -> tuple[str, int]:
        """The text without the patient, and how many places were replaced."""
        if text.isascii():
            return self._masked(text)
        masked, total = self._masked(unicodedata.normalize("NFC", text))
        return (masked, total) if total else (text, 0)

    def _masked(self, text: str) -> tuple[str, int]:
        # Nearly all texts name nobody, and a look at the squeezed text tells so: patterns are made for those that may.
        squeezed = squeeze(text)

        held: dict[str, bool] = {}  # parts of names recur in pairs

        def may_hold(phrase: str) -> bool:
            if phrase not in held:
                bare = squeeze(phrase)  # none where dashes stand for a name
                held[phrase] = bool(bare) and bare in squeezed
            return held[phrase]

        single = sorted(filter(may_hold, self.single), key=len, reverse=True)
        ordinary = [re.escape(word) for word in single if word.lower() in WORDS]
        terms = [re.escape(word) for word in (*single, *filter(may_hold, self.short)) if is_term(word)]
        names = [side_by_side(one, other) for one, other in self.pairs if may_hold(one) and may_hold(other)]
        names += [name_pattern(word) for word in single if word.lower() not in WORDS and not is_term(word)]
        numbers = [number for number in sorted(self.numbers, key=len, reverse=True) if number in squeezed]
        written = [r"[-\s./()]{0,2}".join(map(re.escape, number)) for number in numbers]
        # A phone within its area: the last seven of ten digits, as they are written and no other number is.
        local = {number[-7:] for number in self.numbers if len(number) == 10 and number.isdigit()}
        written += [f"{number[:3]}[-. ]{number[3:]}" for number in sorted(local) if number in squeezed]
        searches = [
            ("", [phrase_pattern(street) for street in self.streets if may_hold(street)], "[address]"),
            ("", names, "[patient]"),
            # A label may stand right before a number, or a phone's country: MRN00466144, +15185550123.
            (r"[a-z]{0,5}?(?:\+[0-9]{1,3})?", written, "[number]"),
            (TITLE, ordinary, "[patient]"),
            (PERSON, terms, "[patient]"),
        ]
        text, total = self._without_births(text, squeezed)
        for before, patterns, by in searches:
            if patterns:
                # A file's name has _ between its words: MCMUFFIN_CANDY_1.jpg, MRN_00466144.
                pattern = re.compile(rf"(?i)(?<![^\W_])({before})(?:{'|'.join(patterns)})(?![^\W_])")
                pieces = HEADING.split(text)  # with the headings between them, which stay as they are
                done = [pattern.subn(rf"\1{by}", piece) for piece in pieces[::2]]
                pieces[::2] = [piece for piece, _ in done]
                text, total = "".join(pieces), total + sum(count for _, count in done)
        return text, total

    def _without_births(self, text: str, squeezed: str) -> tuple[str, int]:
        if not any(may_contain_day(squeezed, birth) for birth in self.births):
            return text, 0
        count = 0

        def replacement(date: re.Match[str]) -> str:
            nonlocal count
            if not self.births & possible_days(date):
                return date[0]
            count += 1
            return "[date]"

        return WRITTEN_DATE.sub(replacement, text), count


def spellings(name: str) -> set[str]:
    """A name as other systems write it: without accents, and with umlauts as two letters or as one.

    >>> sorted(spellings("Müller")), sorted(spellings("Mueller")), spellings("Strauch")
    (['Mueller', 'Muller', 'Müller'], ['Mueller', 'Müller'], {'Strauch'})
    """
    joined = TWO_LETTERS.sub(lambda found: UMLAUTS[found[0].lower()], name)
    if name.isascii():
        return {name, joined}
    name = unicodedata.normalize("NFC", name)
    bare = "".join(letter for letter in unicodedata.normalize("NFD", name) if not unicodedata.combining(letter))
    return {name, joined, bare, ONE_LETTER.sub(lambda found: LETTERS_OF[found[0].lower()], name)}


def is_term(word: str) -> bool:
    """Whether a name says nothing alone: a word of every report, or two letters."""
    return len(word) == 2 or word.lower() in TERMS


def squeeze(text: str) -> str:
    """Letters and digits alone, so that one look tells whether a phrase can be there in any spacing."""
    if text.isascii():
        return text.lower().encode().translate(None, SIGNS).decode()
    return "".join(LETTERS.findall(text.lower()))


def side_by_side(one: str, other: str) -> str:
    """Two parts of a name in this order, with at most a comma and an initial between them."""
    return rf"{name_pattern(one)}(?:\s*+[,/_]\s*+|\s++)(?:\w\.?\s+)?{name_pattern(other)}"


def name_pattern(name: str) -> str:
    """A pattern for a name as any system writes it: O'Brien, O’Brien and OBRIEN, Smith-Jones and SmithJones.

    >>> [bool(re.fullmatch(name_pattern("OBRIEN"), text, re.I)) for text in ("O'Brien", "O’BRIEN", "Brien", "no brien")]
    [True, True, False, False]
    """
    words = [word for word in NAME_BREAK.split(name) if word]
    bare = "".join(words).lower()
    apart = "+" if len(bare) < 6 or bare in WORDS or bare in TERMS else "*"  # Le Sion is no lesion
    return rf"[\s.'’_-]{apart}".join(PREFIX.sub(r"\1['’ ]?", re.escape(word)) for word in words)


def phrase_pattern(phrase: str) -> str:
    """A pattern for the phrase, however its words are spaced or hyphenated."""
    return r"[\s-]+".join(map(re.escape, re.split(r"[\s-]+", phrase)))


def phone_number(text: str) -> str:
    """A phone without what stands before and behind its digits.

    >>> phone_number("(518)555-0123X22"), phone_number("tel:+1 518 555 0124 ext. 7"), phone_number("none")
    ('(518)555-0123', '+1 518 555 0124 ', 'none')
    """
    found = PHONE.search(text)
    return found[0] if found else text
