"""The forms of dates, times, phones, addresses, numbers and names, as expressions; and words that are not names.

This is the one source of what is hidden. Every quantifier has a bound, so the time for a text grows with its length.

>>> [NUMERIC.match(text).lastgroup for text in ("03/12/2008", "14:05", "217-555-0134", "10-S-5285")]
['day', 'time', 'phone', 'accession']
"""

import re
from collections.abc import Iterable
from itertools import product

# Letters of names: those of Latin scripts, and accents that stand as characters of their own.
_LATIN = [chr(code) for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)) if chr(code).isalpha()]
CAPITALS = "A-Z" + "".join(filter(str.isupper, _LATIN))
SMALL = "a-z" + "".join(letter for letter in _LATIN if not letter.isupper()) + "\u0300-\u036f"
NAME_LETTERS = rf"{CAPITALS}{SMALL}'’\-"
BEFORE = 30  # characters in which a label stands

# ------------------------------------------------------------------------------------- dates, times, phones, numbers

_MONTH = (
    r"(?:J(?:an(?:uary)?|AN(?:UARY)?|une?|UNE?|uly?|ULY?)|F(?:eb(?:ruary)?|EB(?:RUARY)?)|M(?:ar(?:ch)?|AR(?:CH)?|ay|AY)"
    r"|A(?:pr(?:il)?|PR(?:IL)?|ug(?:ust)?|UG(?:UST)?)|S(?:ept?(?:ember)?|EPT?(?:EMBER)?)|O(?:ct(?:ober)?|CT(?:OBER)?)"
    r"|N(?:ov(?:ember)?|OV(?:EMBER)?)|D(?:ec(?:ember)?|EC(?:EMBER)?))\.?"
)
_YEAR = r"(?:(?:19|20)[0-9]{2}|'?[0-9]{2})(?![0-9])"
_UUID = r"[0-9A-Fa-f]{7}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"  # behind its first character
_STREET = (
    r"(?:Street|Avenue|Road|Lane|Drive|Boulevard|Court|Terrace|Highway|Place|Square|Close|Crescent|Parkway|Circle|Way"
    r"|STREET|AVENUE|ROAD|LANE|DRIVE|BOULEVARD|TERRACE|HIGHWAY|CRESCENT|PARKWAY|S[Tt]\.?|A(?:ve|VE)\.?|R[Dd]\.?"
    r"|B(?:lvd|LVD)\.?|Ln\.?|Hwy\.?)"
)
_POSTCODE = (
    r"(?:[0-9]{5}(?:-[0-9]{4})?|[0-9]{4}|[A-Z]{1,2}[0-9][A-Z0-9]? [0-9][A-Z]{2}|[A-Z][0-9][A-Z] [0-9][A-Z][0-9])"
    r"(?![0-9A-Za-z])"
)
_PLACE = rf"(?:,? [A-Z][a-z]{{1,40}}(?: [A-Z][a-z]{{1,40}})?(?:,? [A-Z]{{2}}(?![A-Za-z]))?(?:,? {_POSTCODE})?)?"
_ROAD = rf"(?: [A-Z][A-Za-z.'-]{{0,40}}){{1,3}} {_STREET}(?![A-Za-z]){_PLACE}"

# The first character is taken before the alternatives, so that a search leaps from one such character to the next.
NUMERIC = re.compile(
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
    rf"|(?P<uuid>{_UUID})"
    rf"|(?P<address>[0-9]{{0,4}}{_ROAD})"
    r")"
)
LETTERED = re.compile(
    r"[A-Z](?=[A-Z]{0,3}-?[0-9]{2}|[0-9A-Fa-f]{7}-|CGA-)(?:"
    r"(?P<accession>[A-Z]{0,3}(?:-[0-9]{4}-[0-9]{3,8}|-?[0-9]{2,4}[-:/][0-9]{3,8}|(?<=R)-?[0-9]{5,9}|-[0-9]{7,9}"
    r"|[0-9]{6,8}))(?![0-9A-Za-z]|-[0-9A-F]{4}-[0-9A-F]{12})"
    rf"|(?P<uuid>{_UUID})"
    r"|(?P<barcode>CGA-[A-Z0-9]{2}-[A-Z0-9]{4}[A-Z0-9-]{0,40})"
    r")"
)
# A stain and the code it is billed by, which is no number of a specimen.
STAIN = re.compile(
    r"(?:P(?:16|40|53|57|63)|S-?100|KI-?67|HMB-?45|SOX-?1[01]|CD[0-9]{1,3}|CK[0-9]{1,4}|[EPA]R)[-/:]883[0-9]{2}"
    r"(?![0-9])"
)
DATED = re.compile(rf"{_MONTH}[ -](?:[0-9]{{1,2}}(?:st|nd|rd|th)?(?:, ?| |-){_YEAR}|(?:19|20)[0-9]{{2}}(?![0-9]))")
# Behind hours and minutes that are a place on a breast; and before those that are a time of day: 2:14 may be nodes.
CLOCK = re.compile(r"(?i)[ ]{0,40}(?:o'?clock|position|axis|region|aspect|radian)")
TIME_LABEL = re.compile(
    r"(?:\b(?:[Aa]t|AT|[Tt]ime|TIME)[: \t\n]{1,30}|(?:[-/][0-9]{2}|(?:19|20)[0-9]{2}),?[ \t\n]{1,30})$"
)
# A number behind its label: the search leaps to the colon, and the label is looked for before it.
LABELLED = re.compile(r"[:#][ \t#:]{0,40}(?P<number>[A-Za-z]{0,3}-?[0-9][0-9A-Za-z]{0,40}(?:[-/ ][0-9]{2,40}){0,40})")
NUMBER_LABEL = re.compile(
    r"(?i)\b(?:mrn|medical record|record|accession|acc|chart|account|acct|patient id|hospital|unit|ref)"
    r"\.?[ \t]{0,30}(?:numbers?|no|num|id)?\.?[ \t]{0,30}$"
)
MAILBOX, DOMAIN = re.compile(r"[\w.+-]{1,40}+[\w.+-]{0,24}+$"), re.compile(r"@[\w-]{1,40}(?:\.[\w-]{1,40}){1,40}")
BOX = re.compile(rf"(?:Apt\.? |P\.? ?O\.? Box )[0-9]{{1,6}}(?:,{_ROAD})?")

# ------------------------------------------------------------------------------------------------------------- names

_PART = rf"[{CAPITALS}](?:[{SMALL}]{{1,40}}|['’][{CAPITALS}])[{NAME_LETTERS}]{{0,40}}"  # Ada, O'Brien, McDowell, Çelik
_CAPITALS = rf"[{CAPITALS}][{CAPITALS}\u0300-\u036f'’-]{{1,40}}(?![{SMALL}])"
_LAST = rf"(?:(?:v[ao]n(?: de[nr]?)?|de(?: la)?|de[lnr]|ter) )?{_PART}"  # van der Berg
_INITIAL = rf"[{CAPITALS}]\.?"
TITLED = re.compile(
    r"(?:D(?:rs?\.?|R\.)|M(?:rs?\.?|s\.?|RS?\.|S\.|iss)|P(?:rof\.?)(?: Dr\.?)?|Herr|Frau) "
    rf"(?P<name>(?:{_INITIAL} ){{1,2}}{_LAST}|{_LAST}(?: (?:{_INITIAL} )?{_LAST})?|(?:[{CAPITALS}]\. ?)?{_CAPITALS})"
)
# What can be a name by its form; what stands before or behind it decides.
CANDIDATE = re.compile(
    rf"[{CAPITALS}](?:"
    rf"\.? (?:{_INITIAL} )?(?:{_PART}|{_CAPITALS}(?=,? M\.?D))"
    rf"|(?:[{SMALL}]{{1,40}}|['’][{CAPITALS}])[{NAME_LETTERS}]{{0,40}}"
    rf"(?:, {_PART}(?: {_INITIAL}(?![A-Za-z]))?|(?: {_INITIAL})? {_PART}(?: {_PART})?)"
    rf"|[{CAPITALS}\u0300-\u036f'’-]{{1,40}}"
    rf"(?:, {_CAPITALS}(?: {_INITIAL}(?![A-Za-z]))?| (?:[{CAPITALS}]\. )?{_CAPITALS}(?=,? M\.?D))"
    r")"
)
# Where no name goes on, and what stands between a name and what announces it.
BREAK, BETWEEN, AROUND = re.compile(rf"[^{NAME_LETTERS}., ]| (?![{CAPITALS}])"), " ,;|(\t\r\n", 120
KIN = re.compile(r"(?:Son|Daughter|Brother|Sister|Wife|Husband|Mother|Father|Spouse|Contact|Per|Cc) ")


# What stands before a name: headings with a colon or asterisks, and words with a blank. "(a|b) (c|)" is all of
# "a c", "b c", "a" and "b".
_HEADINGS = (
    "(patient|patient's|patient’s|pt|pt.) (name|)",
    "(physician|physician[s]|pathologist|surgeon|consultant|provider|clinician|requesting|attending|resident|fellow|cc)",
    "electronic signature",
    "(signed|esigned) (out|) (by|)",
)
_WORDS = (
    "(signed|signed out|dictated|reviewed|reported|ordered|requested|submitted|authorised|authorized|transcribed"
    "|finalised|finalized|verified|interpreted|approved|seen|called|sent|faxed|given|telephoned|communicated"
    "|copy|copies) (by|to) (:|)",
    "(spoke|spoken|discussed|consulted) with",
    "(informed|notified|son|daughter|brother|sister|wife|husband|mother|father|next of kin|contact|per|the name"
    "|the label|filed under|chart of|request of)",
)


def _phrases(patterns: Iterable[str]) -> list[str]:
    """All phrases of some patterns.

    >>> _phrases(["(next of|) kin", "(chart|request) of (:|)"])
    ['next of kin', 'kin', 'chart of:', 'chart of', 'request of:', 'request of']
    """
    parts = [[part.split("|") for part in re.split(r" ?[()] ?", pattern) if part] for pattern in patterns]
    phrases = [" ".join(filter(None, words)) for choices in parts for words in product(*choices)]
    return [phrase.replace(" :", ":").replace("[s]", "(s)") for phrase in phrases]


def _backwards(patterns: Iterable[str]) -> str:
    return "|".join(re.escape(phrase[::-1]) for phrase in _phrases(patterns))


LABEL_ENDS = frozenset(phrase.rstrip(":")[-3:] for phrase in _phrases([*_HEADINGS, *_WORDS, "labeled", "marked"]))
# Matched against the text written backwards, in small letters, from where a name begins: one match instead of a search.
NAME_LABEL = re.compile(
    rf"\n?(?:[ \t]{{0,30}}(?::|\*{{1,30}})[ \t]{{0,30}}(?:{_backwards(_HEADINGS)})"
    rf"|[ \t]{{0,30}}:[ \t]{{0,30}}eman(?![^\n])| (?:{_backwards(_WORDS)}))(?!\w)"
)
MARKED = re.compile(r"\n? (?:dell?ebal|dekram)(?!\w)")  # so too: labeled, labelled, marked
QUOTED = re.compile(r"\n?(?:\"| \|)")  # before "Smith, Ada", which no sentence has
# Behind a name: a licence, the number of a record, a number behind "labeled Ada Smith"; and behind one that begins a
# line, where somebody lives or what somebody signs as.
LICENCE = re.compile(r",? (?:M\.?D|D\.?O|MBBS|MBChB|DDS|DMD|RN|Ph\.?D|FCAP|FRCP(?:ath|C)?)(?![A-Za-z])")
RECORDED = re.compile(r"[ ,;|(]{0,3}[ (](?:MRN|DOB|SSN)(?![A-Za-z])")
NUMBERED = re.compile(r"(?:,| and) (?:the )?(?:medical )?(?:record )?(?:number |MRN:? |#)?[A-Z]{0,3}-?[0-9][0-9-]{3}")
HEADED = re.compile(
    rf",? [0-9]{{1,5}}(?= [A-Z][a-z]){_ROAD}"
    r"|[ \t\r]{0,40}\n[ \t]{0,40}(?:(?:Attending|Staff|Consult(?:ant|ing)) [Pp]|P)athologist"
)
# Before a part of a name that is known: a given name, initials.
GIVEN = re.compile(rf"\b[{CAPITALS}][{SMALL}]{{1,40}} (?:{_INITIAL} )?$")
INITIALS = re.compile(rf"\b{_INITIAL} (?:{_INITIAL} )?$")
PART_OF_NAME = re.compile(rf"[{CAPITALS}][{NAME_LETTERS}]{{3,40}}+(?![{NAME_LETTERS}])")
WORD_OF_NAME = re.compile(rf"[{NAME_LETTERS}]{{1,40}}")

# ------------------------------------------------------------------------------------------------------ where to look

# One pass over capitals, digits, colons and @ hints where which expression is worth a try: CUE lets through all that is
# an identifier, and little else. A name is looked for around each "name" (a licence, a relative, MRN stand here), each
# "label" (the end of a label, a colon or a quotation mark stand before), and before each "staff". For speed each
# alternative begins with a character, which rules most of them out, and an empty group at its end is the hint.
_NUMERIC_AHEAD = (
    r"(?=[0-9]{0,4}(?:[/:-][0-9A-Z]|\.[0-9]{1,3}[.-]|\) ?[0-9]{3}| (?:[A-Z]|[0-9]{3})|[A-Z]"
    r"|[ .-]{1,2}[JFMASOND][A-Za-z]{2}|(?:st|nd|rd|th)[ .-]| of )|[0-9A-Fa-f]{7}-)"
)
_LABEL_BEFORE = (
    r"(?:(?<=(?:[bB][yY]|[tT][oOhH]|[eE][dDrRlL]|[oO][nNfF]|[fFmM][eE]|[nN][dD]|[iI][nN]|[cC][tT]) .)"
    r"|(?<=[:*\t\"].)|(?<=[:*|\"][ \n].)|(?<=[:*|\"][ \t][ \t\n].)|(?<=[A-Za-z] \n.)|(?<=[ \t]{2}[ \t\n].))"
)
_AT_CAPITAL = (
    rf"[aceioprtu](?<=[SDBWHMFCP].)[a-z]{{0,6}}+(?= [{CAPITALS}])"
    r"(?:(?<=Son|ter|her|ife|and|use|act|Per)|(?<=Cc))(?P<name>)"
    r"|[DOBCMNRS](?<=[MDRFS].)[A-Za-z]{0,5}+(?<=MD|DO|BS|hB|DS|RN|AP|CP|th|PC|OB|SN)(?P<name2>)"
    r"|\.(?<=[MD].)(?=[DO](?![A-Za-z]))(?P<name3>)|h(?=\.?D(?![A-Za-z]))(?P<name4>)"
    r"|[0-9](?=[0-9])(?P<lettered>)|-(?=[0-9]{2})(?P<lettered2>)|[A-Z](?=[A-Z]{0,2}-?[0-9]{2}|GA-)(?P<lettered3>)"
    r"|[0-9A-Fa-f](?=[0-9A-Fa-f]{6}-)(?P<lettered4>)"
    r"|p(?=t\.? [0-9])(?P<box>)|[.O ](?= ?(?:O\.? )?Box )(?P<box2>)"
    r"|[AEUCOPaeucop][A-Za-z]{1,8}+(?=\.?[ -][0-9])(?P<dated>)"
    rf"|[rRsS][sS]?\.?(?= [{CAPITALS}dtv])(?P<titled>)|[ire](?=(?:ss|of\.?(?: Dr\.?)?|au|rr) )(?P<titled2>)"
    r"|[ato](?=thologist|(?:tending|aff|nsult(?:ant|ing)) [Pp]athologist)(?P<staff>)"
    rf"|(?=[^\s,.]{{0,40}}+[., ]{{1,2}}[{CAPITALS}]){_LABEL_BEFORE}(?P<label>)"
)
CUE = re.compile(
    rf"[{CAPITALS}0-9:#@](?<![A-Za-z0-9][A-Z0-9])(?:(?<=[{CAPITALS}])(?:{_AT_CAPITAL})|(?<=[0-9]){_NUMERIC_AHEAD}(?P<numeric>)"
    r"|(?<=[:#])(?=[ \t#:]{0,40}[A-Za-z]{0,3}-?[0-9])(?P<labelled>)|(?<=@)(?P<email>))"
)
HINTS = {number: name.rstrip("234") for name, number in CUE.groupindex.items()}
BY_HINT = {
    "numeric": NUMERIC, "lettered": LETTERED, "dated": DATED, "labelled": LABELLED, "email": DOMAIN, "box": BOX,
    "titled": TITLED,
}  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- words

# Words that stand where names stand, in headings and in sentences: what has one is no name.
ORDINARY = frozenset(
    "action addendum additional adenocarcinoma admission adrenal age also amended analysis anatomic and anterior "
    "antibody apical approximately artery as at attending atypical authorizing benign biopsies biopsy bladder block "
    "blocks blood body bone bowel brain breast bronchus brother but by cancer carcinoma carcinomas case cassette "
    "cassettes cc cell cells center central cervical cervix chart chief chronic client clinical clinician clinicians "
    "code codes collected colon comment comments complete concurs consent consultant consultation consults contact "
    "container copies copy cyst cytology cytometry date daughter days department description diagnosed diagnoses "
    "diagnosis diagnostic dictated differential digital director dissection do doctor document dr duct ductal "
    "electron electronic electronically endometrium entire esophagus estrogen examination examined excision external "
    "fallopian father fax fee female final findings first fixed flow fluid for formalin frau fresh from frozen "
    "further gallbladder general generation grade gross has herr high histologic histology histopathology history "
    "hospital husband hybridization if iliac image immunofluorescence immunohistochemistry impression in inferior "
    "information interpretation intraoperative invasion invasive jar kidney label laboratory largest larynx lateral "
    "left lesion light list liver lobe lobular location low lower lung lymph lymphoma male malignant margin margins "
    "mass medial medical melanoma metastases metastasis metastatic method microscopic microscopy mid middle miss "
    "molecular mostly mother mouth mr mrs ms multiple muscle name neck negative no node nodes note notes nuclear "
    "number nurse omentum on operating operation operative or order ordering organ orientation ovarian ovary page "
    "pager palpable pancreas paraffin part parts path pathologic pathological pathologist pathologists pathology "
    "patient per performed performing perineural phone photo physician physicians pleura polymerase portion positive "
    "post posterior pre prior procedure procurement prof progesterone prostate protocol provide provider rec received "
    "receptor receptors record referring registrar renal report reported reporting reports request requested "
    "resection resident responsible result results review reviewed revision right room sarcoma score section sections "
    "see sentinel separately sequencing service sex side signature signatures signed sister site skin slide slides "
    "soft son source special specimen specimens spinal spleen spouse squamous staff stage stain stains status stomach "
    "street studies study submitted suggestion summary superior supplemental surgeon surgical synoptic taken taking "
    "test testing testis the there they this thyroid time tissue to tongue total touch treating tube tumor tumors "
    "tumour type upper ureter urinary urology uterus vagina validated vascular verified version vulva was weight when "
    "wife with yes".split()
)
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
# Words of every report that are names of people too. "patient" before one is no title: "from the patient. Gross: …".
TERMS = frozenset(
    "abdomen ankle anterior apex appendix arch axilla back base benign biopsy bladder block blocks blood body brain "
    "breast calf canal cancer cap central cervix cheek chest chin colon comment core crest cyst diagnosis duct ear "
    "elbow eye face fat final flank gall grade groin gross hair heel hip inner kidney knee left leg lesion lip lips "
    "liver lobe lower lymph margin marrow mass middle muscle nail needle nerve node nodes nose note ovary palm part "
    "pelvis penis polyp posterior prostate punch rectum rib right scalp section shave shin shoulder sinus site slide "
    "sole spleen stage stain stomach temporal testis thigh thorax tip tissue toe tongue tonsil trunk tumor tumour "
    "ulcer upper uterus vein vulva wedge wrist".split()
)
