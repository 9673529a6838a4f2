"""How a house spells: British or American, hyphens or none, words in full or abbreviated.

Applied to the literal parts of a template when it is read, so that it costs nothing when reports are written.

>>> Spelling(british=True, hyphens=True, terse=False, key="R1").term("high grade tumor, poorly differentiated")
'high-grade tumour, poorly-differentiated'
"""

import re
from dataclasses import dataclass
from zlib import crc32

BRITISH = [
    ("tumor", "tumour"), ("esophag", "oesophag"), ("hemat", "haemat"), ("hemorrh", "haemorrh"), ("hemosid", "haemosid"),
    ("hemangio", "haemangio"), ("hemodil", "haemodil"), ("anemia", "anaemia"), ("leukem", "leukaem"),
    ("edema", "oedema"), ("fecal", "faecal"), ("color", "colour"), ("gray", "grey"), ("labeled", "labelled"),
    ("center", "centre"), ("celiac", "coeliac"), ("cecum", "caecum"), ("cecal", "caecal"), ("gynecolog", "gynaecolog"),
    ("gynecomast", "gynaecomast"), ("pediatric", "paediatric"), ("diarrhea", "diarrhoea"), ("fiber", "fibre"),
    ("goiter", "goitre"), ("molding", "moulding"), ("molded", "moulded"), ("keratiniz", "keratinis"),
    ("characteriz", "characteris"), ("localiz", "localis"), ("organiz", "organis"), ("generaliz", "generalis"),
    ("hyaliniz", "hyalinis"), ("recogniz", "recognis"), ("finaliz", "finalis"), ("favor", "favour"),
    ("thrombocythemia", "thrombocythaemia"), ("polycythemia", "polycythaemia"), ("macroglobulinemia",
    "macroglobulinaemia"), ("orchiectomy", "orchidectomy"), ("behavior", "behaviour"), ("fetal", "foetal"),
    ("leukocyt", "leucocyt"), ("saucerization", "saucerisation"), ("conization", "conisation"),
    ("virilization", "virilisation"),
]  # fmt: skip
BRITISH_WORDS = re.compile("|".join(american for american, _ in BRITISH), re.IGNORECASE)
BRITISH_FORM = dict(BRITISH)


def british(text: str) -> str:
    """A literal in British spelling.

    >>> british("Tumor of the esophagus, gray")
    'Tumour of the oesophagus, grey'
    """

    def turn(found: re.Match) -> str:
        word = BRITISH_FORM[found[0].lower()]
        return word.capitalize() if found[0][0].isupper() else word

    return BRITISH_WORDS.sub(turn, text)


HYPHENS = tuple(
    (pair, pair.replace(" ", "-"))
    for pair in ("well differentiated", "poorly differentiated", "moderately differentiated", "high grade", "low grade")
)
ABBREVIATIONS = (
    ("lymph nodes", "LNs"),
    ("lymph node", "LN"),
    ("biopsy", "bx"),
    ("history", "hx"),
    ("patient ", "pt "),
    ("diagnosis", "dx"),
    (" without ", " w/o "),
    (" with ", " w/ "),
    ("metastasis", "mets"),
    ("carcinoma", "ca"),
    ("status post", "s/p"),
    ("specimen is", "spec. is"),
)


@dataclass(frozen=True)
class Spelling:
    """The habits of one house."""

    british: bool
    hyphens: bool
    terse: bool
    key: str  # which half of the phrases a terse house abbreviates

    def term(self, text: str) -> str:
        """A medical term."""
        if self.hyphens:
            for plain, hyphened in HYPHENS:
                text = text.replace(plain, hyphened)
        return british(text) if self.british else text

    def phrase(self, text: str) -> str:
        """Any other text; a terse house abbreviates every other phrase."""
        if self.terse and crc32(f"{self.key}/{text}".encode()) % 2:
            for word, short in ABBREVIATIONS:
                text = text.replace(word, short)
        return self.term(text)
