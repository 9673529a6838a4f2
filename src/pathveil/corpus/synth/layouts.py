"""What laboratories choose between: headings and the order of sections, how numbers, dates and sizes are written.

>>> all(sorted(order) == sorted(HEADINGS) for order in ORDERS)
True
"""

from pathveil.corpus.synth.grammar import Table

HEADINGS = {
    "specimen": (
        "SPECIMEN(S) SUBMITTED:",
        "Specimens:",
        "SOURCE OF SPECIMEN:",
        "NATURE OF SPECIMEN",
        "Specimen Received:",
    ),
    "history": (
        "CLINICAL HISTORY:",
        "Clinical Information:",
        "CLINICAL DATA",
        "History:",
        "Pre-op diagnosis and history:",
    ),
    "gross": ("GROSS DESCRIPTION:", "Gross:", "MACROSCOPIC DESCRIPTION:", "GROSS EXAMINATION", "Macroscopy:"),
    "micro": ("MICROSCOPIC DESCRIPTION:", "Microscopic:", "MICROSCOPY:", "HISTOLOGY", "Microscopic examination:"),
    "diagnosis": (
        "FINAL DIAGNOSIS:",
        "DIAGNOSIS:",
        "Final Pathologic Diagnosis:",
        "PATHOLOGICAL DIAGNOSIS",
        "Conclusion:",
    ),
    "comment": ("COMMENT:", "Comment:", "NOTE:", "Remarks:", "Comments"),
    "synoptic": ("SYNOPTIC REPORT:", "CANCER CHECKLIST:", "Tumor Summary:", "CAP SYNOPTIC", "Data set:"),
    "addendum": ("ADDENDUM:", "Addendum Report:", "SUPPLEMENTARY REPORT:", "Procedures/Addenda:", "Addendum"),
    "frozen": ("INTRAOPERATIVE CONSULTATION:", "Frozen section:", "OPERATIVE CALL", "Intraoperative diagnosis:", "FS:"),
}
ORDERS = (
    ("specimen", "history", "diagnosis", "synoptic", "comment", "frozen", "gross", "micro", "addendum"),
    ("diagnosis", "synoptic", "comment", "history", "specimen", "frozen", "gross", "micro", "addendum"),
    ("history", "specimen", "gross", "frozen", "micro", "diagnosis", "synoptic", "comment", "addendum"),
    ("specimen", "diagnosis", "comment", "history", "gross", "micro", "frozen", "synoptic", "addendum"),
    ("history", "gross", "micro", "comment", "diagnosis", "addendum", "specimen", "synoptic", "frozen"),
    ("addendum", "diagnosis", "comment", "specimen", "history", "gross", "frozen", "micro", "synoptic"),
)
PARTS = ("{}. ", "{}) ", "Part {}: ", "({}) ", "{}: ")
RECORDS = ("########", "MR-#######", "###-##-##", "M0#####", "#### ####", "H######", "000######")
ACCESSIONS = (
    "S{yy}-#####",
    "SP-{yyyy}-0####",
    "{yy}:S####",
    "{yy}SP#####",
    "H{yy}/####",
    "SU{yy}-#####",
    "{yy}-S-#####",
)
PHONES = ("(###) 555-####", "###-555-####", "###.555.####", "01### 555###")
ADDRESSES = (
    "{number} {street}, {town} {code}",
    "{number} {street}, {town}, {code}",
    "{number} {street} {town}",
    "Apt {number}, {street}, {town} {code}",
)
CODES = ("#####", "#####-####", "####", "Q# #XQ")
# Dimensions as laboratories write them.
DIMENSIONS = (
    (" x ", "cm", " cm"),
    ("x", "cm", "cm"),
    (" x ", "mm", " mm"),
    (" by ", "cm", " cm"),
    (" X ", "cm", " cms"),
)


def dimensions(style: tuple[str, str, str]) -> dict[str, list[str]]:
    """Rules for one, two and three dimensions, of a fragment (s), of a part, and of a big resection.

    >>> dimensions(DIMENSIONS[1])["sdim3"]
    ['{scm}x{scm}x{scm0}cm']
    """
    between, unit, after = style
    small, large, thin = f"{{s{unit}}}", f"{{{unit}}}", f"{{s{unit}0}}"
    return {
        "sdim1": [small + after],
        "sdim2": [small + between + thin + after],
        "sdim3": [small + between + small + between + thin + after],
        "dim1": [large + after],
        "dim2": [large + between + large + after],
        "dim3": [large + between + large + between + small + after],
        "dim3big": [f"{{big{unit}}}{between}{{big{unit}}}{between}{large}{after}"],
    }


def tenths(low: int, high: int, step: int = 1) -> Table:
    """Numbers with one decimal, given in tenths.

    >>> tenths(9, 11)
    ('0.9', '1.0', '1.1')
    """
    return Table(f"{number / 10:.1f}" for number in range(low, high + 1, step))


def whole(low: int, high: int, step: int = 1) -> Table:
    return Table(str(number) for number in range(low, high + 1, step))


# Measurements that sentences ask for, by the name of their slot.
NUMBERS: dict[str, Table] = {
    # lengths in centimeters and millimeters, from small fragments to large resections
    "scm": tenths(2, 19), "scm0": tenths(1, 5), "cm": tenths(12, 64), "bigcm": tenths(40, 210, 5),
    "smm": whole(2, 19), "smm0": whole(1, 5), "mm": whole(12, 64), "bigmm": whole(40, 210, 5),
    "cm1": tenths(4, 49), "cm2": tenths(30, 160, 5), "cm3": tenths(60, 280, 5), "cmlen": tenths(6, 25),
    "dist": tenths(1, 60), "depth": whole(4, 42), "mm1": whole(3, 28), "mm1d": tenths(2, 69),
    # counts
    "few": whole(2, 9), "tens": whole(5, 24), "weeks": whole(2, 30), "pack": whole(15, 90), "mits": whole(1, 38),
    "one3": whole(1, 3), "one4": whole(1, 4), "one5": whole(2, 5), "sbr": whole(3, 9), "clock": whole(1, 12),
    "count": Table(("two", "three", "four", "five", "six", "several", "multiple", "2", "3", "4", "5", "6", "8")),
    # laboratory values
    "pct": whole(5, 95, 5), "high": whole(60, 95, 5), "psa": tenths(31, 240), "ca": whole(36, 1900, 7),
    "suv": tenths(25, 180),
    "wbc": tenths(12, 480, 3), "hgb": tenths(62, 148), "platelets": whole(12, 980, 4), "ml": whole(1, 60),
    "grams": whole(12, 980, 3), "days": Table(("14", "21", "28", "100")),
    # grades, stages and scales
    "roman": Table(("I", "II", "III", "IV")), "clark": Table(("II", "III", "IV", "V")),
    "birads": Table(("4", "4B", "4C", "5", "V", "VI")), "ink": Table(("black", "blue", "green", "in several colors")),
    "dcis": Table(("nuclear grade 1", "nuclear grade 2", "nuclear grade 3", "solid type", "with comedonecrosis")),
}  # fmt: skip
