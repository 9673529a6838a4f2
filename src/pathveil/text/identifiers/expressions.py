"""The forms of dates, times, phones, addresses, numbers and names, as expressions; and words that are no names.

Those that were otherwise in version 1 are in ``first_version.py``; what came later says so.

>>> [NUMERIC_FORM.match(text).lastgroup for text in ("03/12/2008", "14:05", "217-555-0134", "10-S-5285")]
['day', 'time', 'phone', 'accession']
"""

import re

import numpy as np

# The expressions that begin a search, in the order in which what they find is told.
NUMERIC, LETTERED, DATED, LABELLED, EMAIL, BOX, TITLED, BESIDE, NAMES = map(np.int64, range(9))
AHEAD = 72  # bytes that loops look at behind a text, and before it: 64 at once, from up to eight places further on

LATIN = "À-ÖØ-öø-ɏ"  # letters of names beyond ASCII
_MONTH = (
    r"(?:J(?:an(?:uary)?|AN(?:UARY)?|une?|UNE?|uly?|ULY?)|F(?:eb(?:ruary)?|EB(?:RUARY)?)|M(?:ar(?:ch)?|AR(?:CH)?|ay|AY)"
    r"|A(?:pr(?:il)?|PR(?:IL)?|ug(?:ust)?|UG(?:UST)?)|S(?:ept?(?:ember)?|EPT?(?:EMBER)?)|O(?:ct(?:ober)?|CT(?:OBER)?)"
    r"|N(?:ov(?:ember)?|OV(?:EMBER)?)|D(?:ec(?:ember)?|EC(?:EMBER)?))\.?"
)
_YEAR = r"(?:(?:19|20)[0-9]{2}|'?[0-9]{2})(?![0-9])"
_STREET = (
    r"(?:Street|Avenue|Road|Lane|Drive|Boulevard|Court|Terrace|Highway|Place|Square|Close|Crescent|Parkway|Circle|Way"
    r"|STREET|AVENUE|ROAD|LANE|DRIVE|BOULEVARD|TERRACE|HIGHWAY|CRESCENT|PARKWAY|S[Tt]\.?|A(?:ve|VE)\.?|R[Dd]\.?"
    r"|B(?:lvd|LVD)\.?|Ln\.?|Hwy\.?)"
)
_POSTCODE = (
    r"(?:[0-9]{5}(?:-[0-9]{4})?|[0-9]{4}|[A-Z]{1,2}[0-9][A-Z0-9]? [0-9][A-Z]{2}|[A-Z][0-9][A-Z] [0-9][A-Z][0-9])"
    r"(?![0-9A-Za-z])"
)
_PLACE = rf"(?:,? [A-Z][a-z]+(?: [A-Z][a-z]+)?(?:,? [A-Z]{{2}}(?![A-Za-z]))?(?:,? {_POSTCODE})?)?"
_ROAD = rf"(?: [A-Z][A-Za-z.'-]*){{1,3}} {_STREET}(?![A-Za-z]){_PLACE}"


def numeric_form(road: str) -> re.Pattern[str]:
    """What begins with a digit. The first one is taken before the alternatives, so that the search leaps to digits."""
    return re.compile(
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
        rf"|(?P<address>[0-9]{{0,4}}{road})"
        r")"
    )


def box_form(road: str) -> re.Pattern[str]:
    return re.compile(rf"(?:Apt\.? |P\.? ?O\.? Box )[0-9]{{1,6}}(?:,{road})?")


NUMERIC_FORM, BOX_FORM = numeric_form(_ROAD), box_form(_ROAD)
LETTERED_FORM = re.compile(
    r"[A-Z](?:"
    r"(?P<accession>[A-Z]{0,3}(?:-[0-9]{4}-[0-9]{3,8}|-?[0-9]{2,4}[-:/][0-9]{3,8}|(?<=R)-?[0-9]{5,9}|-[0-9]{7,9}"
    r"|[0-9]{6,8}))(?![0-9A-Za-z])"
    r"|(?P<uuid>[0-9A-Fa-f]{7}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})"
    r"|(?P<barcode>CGA-[A-Z0-9]{2}-[A-Z0-9]{4}[A-Z0-9-]*)"
    r")"
)
DATED_FORM = re.compile(rf"{_MONTH}[ -](?:[0-9]{{1,2}}(?:st|nd|rd|th)?(?:, ?| |-){_YEAR}|(?:19|20)[0-9]{{2}}(?![0-9]))")
MAILBOX, DOMAIN = re.compile(r"[\w.+-]+$"), re.compile(r"@[\w-]+(?:\.[\w-]+)+")
# A number or a name behind its label: the search leaps to the colon, and the label is looked for before it.
LABELLED_FORM = re.compile(r"[:#][ \t#:]*(?P<number>[A-Za-z]{0,3}-?[0-9][0-9A-Za-z]*(?:[-/ ][0-9]{2,})*)")
NUMBER_LABEL = re.compile(
    r"(?i)\b(?:mrn|medical record|record|accession|acc|chart|account|acct|patient id|hospital|unit|ref)"
    r"\.?[ \t]*(?:numbers?|no|num|id)?\.?[ \t]*$"
)
_PART = rf"[A-Z](?:[a-z{LATIN}]+|['’][A-Z])[A-Za-z{LATIN}'’-]*"  # of a name: Ada, O'Brien, McDowell, Müller
_CAPITALS = rf"[A-Z][A-Z{LATIN}'’-]+(?![a-z])"
_LAST = rf"(?:(?:v[ao]n(?: de[nr]?)?|de(?: la)?|de[lnr]|ter) )?{_PART}"  # van der Berg
TITLED_FORM = re.compile(
    r"(?:D(?:rs?\.?|R\.)|M(?:rs?\.?|s\.?|RS?\.|S\.|iss)|P(?:rof\.?)(?: Dr\.?)?|Herr|Frau) "
    rf"(?P<name>(?:[A-Z]\.? ){{1,2}}{_LAST}|{_LAST}(?: (?:[A-Z]\.? )?{_LAST})?|(?:[A-Z]\. ?)?{_CAPITALS})"
)
# What can be a name by its form; what stands before or behind it decides.
CANDIDATE = re.compile(
    r"[A-Z](?:"
    rf"\.? (?:[A-Z]\.? )?(?:{_PART}|{_CAPITALS}(?=,? M\.?D))"
    rf"|(?:[a-z{LATIN}]+|['’][A-Z])[A-Za-z{LATIN}'’-]*"
    rf"(?:, {_PART}(?: [A-Z]\.?(?![A-Za-z]))?|(?: [A-Z]\.?)? {_PART}(?: {_PART})?)"
    rf"|[A-Z{LATIN}'’-]+(?:, {_CAPITALS}(?: [A-Z]\.?(?![A-Za-z]))?| (?:[A-Z]\. )?{_CAPITALS}(?=,? M\.?D))"
    r")"
)
KIN = re.compile(r"(?:Son|Daughter|Brother|Sister|Wife|Husband|Mother|Father|Spouse|Contact|Per|Cc) ")
BEFORE_NAME = re.compile(
    r"(?im)(?:\b(?:patient(?:['’]s)?(?: name)?|pt\.?(?: name)?|physician(?:\(s\))?|pathologist|surgeon|consultant"
    r"|provider|clinician|requesting|attending|resident|fellow|cc|electronic signature|e?-?signed(?: out)?(?: by)?)"
    r"[ \t]*(?::|\*+)[ \t]*"
    r"|\b(?:signed(?: out)?|dictated|reviewed|reported|ordered|requested|submitted|authori[sz]ed|transcribed"
    r"|finali[sz]ed|verified|interpreted|approved|seen"
    r"|called|sent|faxed|given|telephoned|communicated|cop(?:y|ies)) (?:by|to):? "
    r"|\b(?:spoke|spoken|discussed|consulted) with |\b(?:informed|notified) "
    r"|\b(?:son|daughter|brother|sister|wife|husband|mother|father|next of kin|contact|per|the name|the label"
    r"|filed under|chart of|request of) |^name[ \t]*:[ \t]*)$"
)
# "labeled Ada Smith and the number 123456", "Smith, Ada  MRN: 123456"
MARKED = re.compile(r"(?i)\b(?:labell?ed|marked) $")
NUMBERED = re.compile(r"(?:,| and) (?:the )?(?:medical )?(?:record )?(?:number |MRN:? |#)?[A-Z]{0,3}-?[0-9][0-9-]{3}")
RECORDED = re.compile(r"[ ,;|(]{0,3}[ (](?:MRN|DOB|SSN)(?![A-Za-z])")
# Behind a name that begins a line: where somebody lives, or what somebody signs as.
HEADED = re.compile(
    rf",? [0-9]{{1,5}}(?= [A-Z][a-z]){_ROAD}"
    r"|[ \t\r]*\n[ \t]*(?:(?:Attending|Staff|Consult(?:ant|ing)) [Pp]|P)athologist"
)
# Before a part of a name that is known.
GIVEN = re.compile(rf"\b[A-Z][a-z{LATIN}]+ (?:[A-Z]\.? )?$")
INITIALS = re.compile(r"\b[A-Z]\.? (?:[A-Z]\.? )?$")
LABEL_BEFORE = re.compile(r"(?:\"|\| )$")  # of "Smith, Ada", which no sentence says
LICENCE = re.compile(r",? (?:M\.?D|D\.?O|MBBS|MBChB|DDS|DMD|RN|Ph\.?D|FCAP|FRCP(?:ath|C)?)(?![A-Za-z])")
WITHIN_NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'’-"
LATIN_LETTERS = "".join(map(chr, (*range(0xC0, 0xD7), *range(0xD8, 0xF7), *range(0xF8, 0x250))))  # since version 2
BEFORE = 30  # characters in which a label lies
# Words that stand where names stand, in headings and in sentences: what holds one is no name.
ORDINARY = frozenset(
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
MORE_ORDINARY = frozenset(  # since version 2
    "action adenocarcinoma analysis anterior apical as at atypical authorizing benign brother but by carcinoma "
    "carcinomas cc chronic client clinician clinicians codes concurs consent contact cytometry daughter digital "
    "dissection do document ductal electron entire estrogen father fee flow frau further generation grade has herr "
    "high husband hybridization if iliac image immunofluorescence inferior information invasion jar largest light "
    "list lobular low lymphoma malignant melanoma metastases metastasis metastatic microscopy miss mostly mother mr "
    "mrs ms notes nuclear nurse omentum on operating order orientation palpable paraffin per performed performing "
    "perineural photo polymerase prof progesterone protocol provide receptor receptors registrar request revision "
    "room sarcoma score separately sequencing signatures sister son special spouse squamous stage status studies "
    "study suggestion testing there they touch treating tumors urology validated vascular verified when wife "
    "yes".split()
)
CLOCK = re.compile(r"(?i)[ ]*(?:o'?clock|position|axis|region|aspect|radian)")
# Since version 2: minutes behind one to twelve hours are a time only here. 2:14 are nodes, 5:20% is a share.
TIME_LABEL = re.compile(r"(?:\b(?:[Aa]t|AT|[Tt]ime|TIME)[: \t\n]+|(?:[-/][0-9]{2}|(?:19|20)[0-9]{2}),?[ \t\n]+)$")
# Since version 2: a stain and the code it is billed by is no number of a specimen.
STAIN = re.compile(
    r"(?:P(?:16|40|53|57|63)|S-?100|KI-?67|HMB-?45|SOX-?1[01]|CD[0-9]{1,3}|CK[0-9]{1,4}|[EPA]R)[-/:]883[0-9]{2}"
    r"(?![0-9])"
)
EXPRESSIONS = (
    *(NUMERIC_FORM, LETTERED_FORM, DATED_FORM, LABELLED_FORM, DOMAIN, BOX_FORM, TITLED_FORM, NUMBER_LABEL, CANDIDATE),
    *(KIN, BEFORE_NAME, LICENCE, CLOCK, MARKED, NUMBERED, RECORDED, HEADED, GIVEN, INITIALS, TIME_LABEL, STAIN),
)
