"""What a report says of people and days, found by its form: dates, times, phones, addresses, numbers, names.

A model needs none of it, and a vocabulary that holds it betrays people. Each stretch becomes one token that says only
what stood there. What is found is what its form makes certain: a date with a valid day, a number that a specimen or a
record has, a street with its house, a name behind "Dr." or before "M.D.", and that name again wherever else the report
has it. Clinical forms stay: Gleason 3+4, 0/12 nodes, 2:00 position, 8500/3, C50.4, Ki-67, pT2, Paget.

>>> hide("Seen by Dr. Ada Quarbescu on 03/12/2008 at 14:05, S08-12345, (217) 555-0134. Quarbescu agrees.").split()[2:]
['Dr.', '\\ue106', 'on', '\\ue100', 'at', '\\ue101,', '\\ue104,', '\\ue102.', '\\ue106', 'agrees.']
>>> text = "Gleason 3+4, 0/12 nodes, left breast 2:00, 8500/3, 1.2 x 0.5 cm, HER2 3+, Ki-67 20-30%, grade 2-3/3."
>>> hide(text) == text
True
>>> [(kind, text) for _, _, kind, text in stretches("DOB: 1949-02-12 MRN: H699513, 995 Railroad Street Cranemere")]
[('date', '1949-02-12'), ('number', 'H699513'), ('address', '995 Railroad Street Cranemere')]
"""

import re
from collections.abc import Iterable, Iterator

from pathveil.corpus.patient import WORDS

VERSION = 1  # raised whenever another stretch would be found
FIRST = 0xE100  # the first of the private characters that stand for a stretch while a text is cut into tokens
KINDS = ("date", "time", "phone", "address", "number", "email", "name")
TOKENS = {chr(FIRST + number): f"identifier_{kind}" for number, kind in enumerate(KINDS)}
SIGN = {kind: chr(FIRST + number) for number, kind in enumerate(KINDS)}

_MONTH = (
    r"(?:J(?:an(?:uary)?|AN(?:UARY)?|une?|UNE?|uly?|ULY?)|F(?:eb(?:ruary)?|EB(?:RUARY)?)|M(?:ar(?:ch)?|AR(?:CH)?|ay|AY)"
    r"|A(?:pr(?:il)?|PR(?:IL)?|ug(?:ust)?|UG(?:UST)?)|S(?:ept?(?:ember)?|EPT?(?:EMBER)?)|O(?:ct(?:ober)?|CT(?:OBER)?)"
    r"|N(?:ov(?:ember)?|OV(?:EMBER)?)|D(?:ec(?:ember)?|EC(?:EMBER)?))\.?"
)
_YEAR = r"(?:(?:19|20)[0-9]{2}|'?[0-9]{2})(?![0-9])"
_STREET = (
    r"(?:Street|Avenue|Road|Lane|Drive|Boulevard|Court|Terrace|Highway|Place|Square|Close|Crescent|Parkway|Circle|Way"
    r"|STREET|AVENUE|ROAD|LANE|DRIVE|BOULEVARD|TERRACE|HIGHWAY|CRESCENT|PARKWAY|St\.|Ave\.?|Rd\.?|Blvd\.?|Ln\.?|Hwy\.?)"
)
_POSTCODE = r"(?:[0-9]{5}(?:-[0-9]{4})?|[0-9]{4}|[A-Z]{1,2}[0-9][A-Z0-9]? [0-9][A-Z]{2})(?![0-9A-Za-z])"
_PLACE = rf"(?:,? [A-Z][a-z]+(?: [A-Z][a-z]+)?(?:,? [A-Z]{{2}}(?![A-Za-z]))?(?:,? {_POSTCODE})?)?"
_ROAD = rf"(?: [A-Z][A-Za-z.'-]*){{1,3}} {_STREET}(?![A-Za-z]){_PLACE}"

# What begins with a digit. The first one is taken before the alternatives, so that the search leaps to digits.
_NUMERIC = re.compile(
    r"[0-9](?:"
    r"(?P<iso>[0-9]{3}(?P<i>[-/.])[0-9]{2}(?P=i)[0-9]{2})"
    r"|(?P<day>[0-9]?(?P<d>[/-])[0-9]{1,2}(?P=d)(?:[0-9]{4}|[0-9]{2}))(?![0-9/-])"
    r"|(?P<dots>[0-9]?\.[0-9]{1,2}\.(?:19|20)[0-9]{2})(?!\.?[0-9])"
    rf"|(?P<named>[0-9]?(?:st|nd|rd|th)?(?: of)?[ .-]{{1,2}}{_MONTH}[ ,-]{{1,2}}{_YEAR})"
    r"|(?P<time>[0-9]?:[0-5][0-9](?P<seconds>:[0-5][0-9])?"
    r"(?P<half> ?(?:[ap]\.?m\.?|[AP]\.?M\.?|hrs?|hours)(?![A-Za-z]))?)"
    r"|(?P<phone>[0-9]{2}[-. ][0-9]{3}[-.][0-9]{4}|[0-9]{2}\) ?[0-9]{3}[-. ][0-9]{4}|[0-9]{4} [0-9]{6})(?![0-9])"
    r"|(?P<social>[0-9]{2}-[0-9]{2}-(?:[0-9]{4}|[0-9]{2}))(?![0-9-])"
    r"|(?P<accession>[0-9](?:-?[A-Z]{1,3}-?|:[A-Z]{1,2}-?)[0-9]{3,8})(?![0-9A-Za-z])"
    r"|(?P<uuid>[0-9A-Fa-f]{7}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})"
    rf"|(?P<address>[0-9]{{0,4}}{_ROAD})"
    r")"
)
_LETTERED = re.compile(
    r"[A-Z](?:"
    r"(?P<accession>[A-Z]{0,3}(?:-[0-9]{4}-[0-9]{3,8}|-?[0-9]{2,4}[-:/][0-9]{3,8}|(?<=R)-?[0-9]{5,9}|-[0-9]{7,9}"
    r"|[0-9]{6,8}))(?![0-9A-Za-z])"
    r"|(?P<uuid>[0-9A-Fa-f]{7}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})"
    r"|(?P<barcode>CGA-[A-Z0-9]{2}-[A-Z0-9]{4}[A-Z0-9-]*)"
    r")"
)
_DATED = re.compile(rf"{_MONTH}[ -](?:[0-9]{{1,2}}(?:st|nd|rd|th)?(?:, ?| |-){_YEAR}|(?:19|20)[0-9]{{2}}(?![0-9]))")
_MAILBOX, _DOMAIN = re.compile(r"[\w.+-]+$"), re.compile(r"@[\w-]+(?:\.[\w-]+)+")
_BOX = re.compile(rf"(?:Apt\.? |P\.? ?O\.? Box )[0-9]{{1,6}}(?:,{_ROAD})?")
# A number or a name behind its label: the search leaps to the colon, and the label is looked for before it.
_LABELLED = re.compile(r"[:#][ \t#:]*(?P<number>[A-Za-z]{0,3}-?[0-9][0-9A-Za-z]*(?:[-/ ][0-9]{2,})*)")
_NUMBER_LABEL = re.compile(
    r"(?i)\b(?:mrn|medical record|record|accession|acc|chart|account|acct|patient id|hospital|unit|ref)"
    r"\.?[ \t]*(?:numbers?|no|num|id)?\.?[ \t]*$"
)
_PART = r"[A-Z](?:[a-z]+|['’][A-Z])[A-Za-z'’-]*"  # of a name: Ada, O'Brien, McDowell
_CAPITALS = r"[A-Z][A-Z'’-]+(?![a-z])"
_TITLED = re.compile(
    r"(?:D(?:rs?\.?|R\.)|M(?:rs?\.|s\.|RS?\.|S\.|iss)|P(?:rof\.?)) "
    rf"(?P<name>(?:[A-Z]\.? ){{1,2}}{_PART}|{_PART}(?: (?:[A-Z]\.? )?{_PART})?|(?:[A-Z]\. ?)?{_CAPITALS})"
)
# What can be a name by its form; what stands before or behind it decides.
_CANDIDATE = re.compile(
    r"[A-Z](?:"
    rf"\.? (?:[A-Z]\.? )?{_PART}"
    rf"|(?:[a-z]+|['’][A-Z])[A-Za-z'’-]*(?:, {_PART}(?: [A-Z]\.?(?![A-Za-z]))?|(?: [A-Z]\.?)? {_PART}(?: {_PART})?)"
    rf"|[A-Z'’-]+(?:, {_CAPITALS}(?: [A-Z]\.?(?![A-Za-z]))?| (?:[A-Z]\. )?{_CAPITALS}(?=,? M\.?D))"
    r")"
)
_KIN = re.compile(r"(?:Son|Daughter|Brother|Sister|Wife|Husband|Mother|Father|Spouse|Contact|Per|Cc) ")
_BEFORE_NAME = re.compile(
    r"(?i)(?:\b(?:patient(?: name)?|physician(?:\(s\))?|pathologist|surgeon|consultant|provider|clinician"
    r"|requesting|attending|e?-?signed(?: out)?(?: by)?)[ \t]*(?::|\*+)[ \t]*"
    r"|\b(?:signed(?: out)?|dictated|reviewed|reported|ordered|requested|submitted|authori[sz]ed|transcribed"
    r"|called|sent|faxed|given|telephoned|communicated|cop(?:y|ies)) (?:by|to):? "
    r"|\b(?:son|daughter|brother|sister|wife|husband|mother|father|next of kin|contact|per|the name|the label"
    r"|filed under|chart of) |\nname:[ \t]*)$"
)
_LABEL_BEFORE = re.compile(r"(?:\"|\| )$")  # of "Smith, Ada", which no sentence says
_LICENCE = re.compile(r",? (?:M\.?D|D\.?O|MBBS|Ph\.?D|FCAP|FRCPath)(?![A-Za-z])")
_WORD = re.compile(r"[A-Za-z'’-]+")
_CAPITALISED = re.compile(r"[A-Z][A-Za-z'’-]{3,}")
_BEFORE = 30  # characters in which a label lies
# Words that stand where names stand, in headings and in sentences: what holds one is no name.
_ORDINARY = frozenset(
    "addendum additional admission adrenal age also amended and anatomic antibody approximately artery attending "
    "biopsies biopsy bladder block blocks blood body bone bowel brain breast bronchus cancer carcinoma case "
    "cassette cassettes cell cells center central cervical cervix chart chief clinical code collected colon "
    "comment comments complete consultant consultation consults container copies copy cyst cytology date days "
    "department description diagnosed diagnoses diagnosis diagnostic dictated differential director doctor dr "
    "duct electronic electronically endometrium esophagus examination examined excision external fallopian fax "
    "female final findings first fixed fluid for formalin fresh from frozen gallbladder general gross histologic "
    "histology histopathology history hospital immunohistochemistry impression in interpretation intraoperative "
    "invasive kidney label laboratory larynx lateral left lesion liver lobe location lower lung lymph male margin "
    "margins mass medial medical method microscopic mid middle molecular mouth multiple muscle name neck negative "
    "no node nodes note number operation operative or ordering organ ovarian ovary page pager pancreas part parts "
    "path pathologic pathological pathologist pathologists pathology patient phone physician physicians pleura "
    "portion positive posterior post pre prior procedure procurement prostate provider received referring rec "
    "record renal report reported reporting reports requested resection resident responsible result results "
    "review reviewed right section sections see sentinel service sex side signature signed site skin slide slides "
    "soft source specimen specimens spinal spleen stage staff stain stains stomach street submitted summary "
    "superior supplemental surgeon surgical synoptic taken taking test testis the this thyroid time tissue to "
    "tongue total tube tumor tumour type upper ureter urinary uterus vagina version vulva was weight with".split()
)
_CLOCK = re.compile(r"(?i)[ ]*(?:o'?clock|position|axis|region|aspect|radian)")


def hide(text: str) -> str:
    """The text with each stretch replaced by a private character that stands for its kind."""
    return hide_stretches(text, stretches(text))


def hide_stretches(text: str, found: Iterable[tuple[int, int, str, str]]) -> str:
    """The text with the given stretches replaced, which lie in order and apart."""
    pieces, last = [], 0
    for start, end, kind, _ in found:
        pieces += [text[last:start], SIGN[kind]]
        last = end
    return "".join([*pieces, text[last:]])


def stretches(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Where each stretch begins and ends, its kind, and its text."""
    return ((start, end, kind, text[start:end]) for start, end, kind in _spans(text))


def _spans(text: str) -> list[tuple[int, int, str]]:
    """Stretches in order, none within another: the earlier wins, of two that begin together the longer."""
    found = [*_numbers(text), *_names(text)]
    found.sort(key=lambda span: (span[0], -span[1]))
    kept, last = [], 0
    for span in found:
        if span[0] >= last:
            kept.append(span)
            last = span[1]
    return kept


def _numbers(text: str) -> Iterator[tuple[int, int, str]]:
    for match in _NUMERIC.finditer(text):
        start, end = match.span()
        before = text[start - 1 : start]
        if before.isalnum() or (before in "./:-" and before and text[start - 2 : start - 1].isalnum()):
            continue
        if kind := _kind(match, text):
            # The bracket before the area code is a phone's too.
            yield start - (kind == "phone" and before == "("), end, kind
    for match in _LETTERED.finditer(text):
        if not text[match.start() - 1 : match.start()].isalnum():
            yield *match.span(), "number"
    for match in _DATED.finditer(text):
        if not text[match.start() - 1 : match.start()].isalnum():
            yield *match.span(), "date"
    for match in _LABELLED.finditer(text):
        start = match.start()
        if sum(map(str.isdigit, match["number"])) >= 4 and _NUMBER_LABEL.search(text, max(0, start - _BEFORE), start):
            yield *match.span("number"), "number"
    at = text.find("@")
    while at >= 0:
        box, domain = _MAILBOX.search(text, max(0, at - 64), at), _DOMAIN.match(text, at)
        if box and domain:
            yield box.start(), domain.end(), "email"
        at = text.find("@", at + 1)
    for match in _BOX.finditer(text):
        yield *match.span(), "address"


def _kind(match: re.Match[str], text: str) -> str | None:
    """What a match that begins with a digit is, or None where its numbers cannot be that."""
    name, found = match.lastgroup, match.group()
    if name in ("seconds", "half", "time"):
        return "time" if _is_time(match, text) else None
    if match["iso"]:
        return (
            "date" if found[:2] in ("19", "20") and 0 < int(found[5:7]) <= 12 and 0 < int(found[8:10]) <= 31 else None
        )
    if match["day"] or match["dots"]:
        one, other = map(int, re.split(r"[/.-]", found)[:2])
        valid = 0 < min(one, other) <= 12 and max(one, other) <= 31
        return "date" if valid else "number" if match["social"] else None
    if match["phone"]:
        return "phone" if found[0] == "0" or found[5:6].isdigit() or not found[4].isdigit() else None
    return {"named": "date", "address": "address"}.get(name or "", "number")


def _is_time(match: re.Match[str], text: str) -> bool:
    """Whether hours and minutes are a time of day: 2:00 and 10:30 may be places on a breast."""
    hour, minute = match.group().split(":")[:2]
    if int(hour) > 23 or _CLOCK.match(text, match.end()):
        return False
    sure = match["seconds"] or match["half"] or int(hour) > 12
    return bool(sure) or (int(hour) > 1 and minute[:2] not in ("00", "30"))  # 1:40 dilutes an antibody


def _names(text: str) -> list[tuple[int, int, str]]:
    """Names where something beside them says so, and their parts wherever else the text has them."""
    found = [
        match.span("name") for match in _TITLED.finditer(text) if not text[match.start() - 1 : match.start()].isalnum()
    ]
    for match in _CANDIDATE.finditer(text):
        start, end = match.span()
        if text[start - 1 : start].isalnum():
            continue
        if kin := _KIN.match(text, start, end):
            start = kin.end()
        near = max(0, start - _BEFORE), start
        if (
            kin
            or _BEFORE_NAME.search(text, *near)
            or _LICENCE.match(text, end)
            or ("," in match.group() and _LABEL_BEFORE.search(text, *near))
        ):
            found.append((start, end))
    found = [span for span in found if not _ORDINARY & {word.lower() for word in _WORD.findall(text, *span)}]
    parts = {part for span in found for part in _CAPITALISED.findall(text, *span) if part.lower() not in WORDS}
    if parts:
        found += [match.span() for match in _CAPITALISED.finditer(text) if match.group() in parts]
    return [(*span, "name") for span in found]
