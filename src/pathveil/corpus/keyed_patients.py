"""Rows about patients to the case ids that an import of messages made of the same patients' numbers.

Case ids are keyed hashes, so a table of record numbers finds its reports only with the key of the import. A number is
told by whoever gave it (PID-3's authority, else the sender): the row says who that is, or all who may be are tried. A
row that then finds several patients is left to the caller, who sees it under each of them. Spreadsheets drop leading
zeros and registries' systems add some, so numbers are tried with as many of them as there may be.

>>> import polars as pl
>>> key = b"a secret of the registry"
>>> rows = pl.DataFrame({"patient": ["466144", "7"], "row": [0, 1]})
>>> known = {case_id(key, "number", "HOSPITAL", "00466144")}
>>> with_case_ids(rows, cases=known, key=key, authorities=["Hospital"]).rows()
[(0, 'case-04420d5c18021641da54cfbe', True), (1, 'no case of the reports', False)]
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from pathveil.corpus.messages.naaccr import patient_number
from pathveil.corpus.messages.patient import case_id

if TYPE_CHECKING:
    import polars as pl

PATIENT, AUTHORITY = "patient", "authority"  # columns of the table
PADDED = "found with other zeros before its number"  # a column of the answer
NO_CASE = "no case of the reports"
WIDEST = 12  # digits of a number, with zeros before it


def with_case_ids(
    rows: "pl.DataFrame", *, cases: Collection[str], key: bytes, authorities: Sequence[str]
) -> "pl.DataFrame":
    """The rows with ``case_id`` in the place of ``patient`` and ``authority``: under each case of the reports whose
    patient has the number. A row without a number has none, one whose number no case has ``NO_CASE``."""
    import polars as pl

    givers = rows[AUTHORITY].to_list() if AUTHORITY in rows.columns else [None] * rows.height
    places, found, padded = [], [], []
    for place, (number, giver) in enumerate(zip(rows[PATIENT].to_list(), givers, strict=True)):
        answers = cases_of(number or "", [giver] if giver else authorities, cases=cases, key=key)
        for case, is_padded in answers or [(NO_CASE if number else None, False)]:
            places.append(place)
            found.append(case)
            padded.append(is_padded)
    return (
        rows[places]
        .drop(PATIENT, AUTHORITY, strict=False)
        .with_columns(pl.Series("case_id", found, pl.String), pl.Series(PADDED, padded, pl.Boolean))
    )


def cases_of(number: str, authorities: Sequence[str], *, cases: Collection[str], key: bytes) -> list[tuple[str, bool]]:
    """The cases of patients with this number, as it is written; where there are none, with other zeros before it."""
    bare = patient_number(number)
    for some in ([bare] if bare else [], list(with_zeros(bare))):
        tried = [("number", giver.strip().upper(), one) for one in some for giver in dict.fromkeys(authorities)]
        tried += [("SS", "", one) for one in some]
        found = [case for identity in tried if (case := case_id(key, *identity)) in cases]
        if found:
            return [(case, some != [bare]) for case in dict.fromkeys(found)]
    return []


def with_zeros(number: str) -> Iterator[str]:
    """A number with all other counts of zeros before it.

    >>> list(with_zeros("0123456789")), list(with_zeros("A1"))
    (['123456789', '00123456789', '000123456789'], [])
    """
    if number.isdecimal():
        bare = number.lstrip("0")
        yield from (bare.zfill(width) for width in range(len(bare), WIDEST + 1) if width != len(number))
