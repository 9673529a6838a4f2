"""What a patient's fields are used for, and nothing else: a keyed case id, and taking their own values out of the text.

``case_id`` is an HMAC-SHA256 of the patient's number under a secret key: without the key nobody can test a guessed
number against it, and with the same key the same patient gets the same id in every import. HL7 names no tumour, so
here a case is a patient; a split by it is at least as strict as one by patient and tumour.

``Mask`` finds what the message itself says about its patient (names, numbers, birth date, street) where it stands in
the report's text. It is a net under careless reports, not de-identification: it knows nothing that PID and NK1 do not
say, and leaves physicians, laboratories and misspellings as they are.

>>> case_id(b"a secret of the registry", "MR", "HOSPITAL", "00466144")
'case-9ed5096925395299ef73d97b'
>>> mask = Mask(names=[("McMuffin", "Candy")], numbers=["00466144"], births=["19570706"])
>>> mask("Ms. McMuffin (MR 466144, born 7/6/1957) noticed a lump")
('Ms. [patient] (MR [number], born [date]) noticed a lump', 3)
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pathveil.errors import UsageError

# Names that are also words of reports, or bits of other names. Alone they are left, since masking them would blank
# "small bowel" or "Barrett" and give the name away by doing so; beside a title or the patient's other name they are
# masked like any.
WORDS = frozenset(
    "ann april arm art august barrett bell best bill black bone bowen bright broad brown burkitt bush case "
    "cell chance clear cord crohn cross cushing dark day del den der dos early east ewing field fine fish flat "
    "foot forest frank free gland glass gleason good grace graft grant grave graves gray green grey hall hand "
    "hard head heart high hill hodgkin hope house june kaposi king large las light little long los low lung "
    "major mark marsh may merkel mole moles neck north page paget park pat pearl pink pool ray red rich rob "
    "root rose san sharp short silver skin small south spring still stone strong summer sun tall temple true "
    "van von wall ward white will wilms winter wolf wood young".split()
)
TITLE = r"(?:mr|mrs|ms|miss|mister|master|patient|pt|name)\b[.:,]*\s+"
SHORTEST_KEY = 16
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Every way in which reports write a date: 1957-07-06, 19570706, 7/6/57, July 6th, 1957, 6-JUL-1957.
WRITTEN_DATE = re.compile(
    r"(?ai)(?<!\w)(?:(\d{4})[-/.]?(\d{2})[-/.]?(\d{2})|(\d{1,2})\s?[-/.]\s?(\d{1,2})\s?[-/.]\s?(\d{4}|\d{2})"
    rf"|({'|'.join(MONTHS)})[a-z]*\.?[\s-]+(\d{{1,2}})(?:st|nd|rd|th)?,?[\s-]+(\d{{4}}|\d{{2}})"
    rf"|(\d{{1,2}})[\s-]*({'|'.join(MONTHS)})[a-z]*\.?,?[\s-]*(\d{{4}}|\d{{2}}))(?!\w)"
)


LETTERS = re.compile(r"[^\W_]+")
NAME_BREAK = re.compile(r"[\s'’-]+")
STREET = re.compile(r"\s*\S+[\s@]+\S")
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
        for name in names:
            parts = [part.strip() for part in name if len(part.strip()) >= 2]
            self.pairs += [(one, other) for one in parts for other in parts if one != other]
            self.single |= {word for part in parts for word in (part, *NAME_BREAK.split(part)) if len(word) >= 3}
        self.streets = [street.strip() for street in streets if STREET.match(street)]
        bare = {squeeze(number) for number in numbers}
        bare |= {number.lstrip("0") for number in bare}
        self.numbers = {number for number in bare if len(number) >= 5 and any(map(str.isdigit, number))}
        self.births = {birth[:8] for birth in births if birth[:8].isascii() and birth[:8].isdigit() and len(birth) > 7}

    def __call__(self, text: str) -> tuple[str, int]:
        """The text without the patient, and how many places were replaced."""
        # Nearly all texts name nobody, and a look at the squeezed text tells so: patterns are made for those that may.
        squeezed = squeeze(text)

        held: dict[str, bool] = {}  # parts of names recur in pairs

        def may_hold(phrase: str) -> bool:
            if phrase not in held:
                held[phrase] = squeeze(phrase) in squeezed
            return held[phrase]

        single = sorted(filter(may_hold, self.single), key=len, reverse=True)
        ordinary = [re.escape(word) for word in single if word.lower() in WORDS]
        names = [side_by_side(one, other) for one, other in self.pairs if may_hold(one) and may_hold(other)]
        names += [phrase_pattern(word) for word in single if word.lower() not in WORDS]
        numbers = [number for number in sorted(self.numbers, key=len, reverse=True) if number in squeezed]
        searches = [
            ([phrase_pattern(street) for street in self.streets if may_hold(street)], "[address]"),
            (names, "[patient]"),
            ([r"[-\s./()]{0,2}".join(map(re.escape, number)) for number in numbers], "[number]"),
        ]
        text, total = self._without_births(text, squeezed)
        for patterns, by in searches:
            if patterns:
                text, count = re.subn(rf"(?i)(?<!\w)(?:{'|'.join(patterns)})(?!\w)", by, text)
                total += count
        if ordinary:
            text, count = re.subn(rf"(?i)(\b{TITLE})(?:{'|'.join(ordinary)})(?!\w)", r"\1[patient]", text)
            total += count
        return text, total

    def _without_births(self, text: str, squeezed: str) -> tuple[str, int]:
        if not any(may_be_written(birth, squeezed) for birth in self.births):
            return text, 0
        count = 0

        def replacement(found: re.Match[str]) -> str:
            nonlocal count
            if not self.births & possible_days(found):
                return found[0]
            count += 1
            return "[date]"

        return WRITTEN_DATE.sub(replacement, text), count


def may_be_written(birth: str, squeezed: str) -> bool:
    """Whether a squeezed text can hold a day, YYYYMMDD: a quick look before every date of the text is found.

    >>> [may_be_written("19570706", squeeze(text)) for text in ("born 7/6/57", "July 6th, 1957", "5 of 12 nodes")]
    [True, True, False]
    """
    month, day = str(int(birth[4:6])), str(int(birth[6:8]))
    for year in (birth[:4], birth[2:4]):
        if year not in squeezed:
            continue
        if month.isdigit() and 0 < int(month) <= 12 and MONTHS[int(month) - 1] in squeezed:
            return True
        for one in {month, birth[4:6]}:
            for other in {day, birth[6:8]}:
                if any(written in squeezed for written in (one + other + year, other + one + year, year + one + other)):
                    return True
    return False


def squeeze(text: str) -> str:
    """Letters and digits alone, so that one look tells whether a phrase can be there in any spacing."""
    if text.isascii():
        return text.lower().encode().translate(None, SIGNS).decode()
    return "".join(LETTERS.findall(text.lower()))


def side_by_side(one: str, other: str) -> str:
    """Two parts of a name in this order, with at most a comma and an initial between them."""
    return rf"{phrase_pattern(one)},?\s+(?:\w\.?\s+)?{phrase_pattern(other)}"


def phrase_pattern(phrase: str) -> str:
    """A pattern for the phrase, however its words are spaced or hyphenated."""
    return r"[\s-]+".join(map(re.escape, re.split(r"[\s-]+", phrase)))


def possible_days(found: re.Match[str]) -> set[str]:
    """The days, as YYYYMMDD, that a written date can mean: day and month in either order, in either century."""
    parts = [part for part in found.groups() if part is not None]
    named = [MONTHS.index(part.lower()) + 1 if part.lower() in MONTHS else int(part) for part in parts]
    if found[1] is not None:
        return {"".join(parts)}
    one, other, year = named
    years = {year} if len(parts[2]) == 4 else {1900 + year, 2000 + year}
    return {f"{y}{a:02}{b:02}" for y in years for a, b in ((one, other), (other, one))}
