"""Whom FHIR reports are about: what tells a patient from others, and a mask of what is said of them and of relatives.

>>> visit, record = ({"type": {"coding": [{"code": kind}]}, "value": f"{kind}77"} for kind in ("VN", "MR"))
>>> identity_of({"identifier": [visit, record]}, {})
('number', '', 'MR77')
>>> mask_of([{"name": [{"family": "McMuffin"}]}], {"identifier": {"value": "00466144"}})("MRN 466144 of Ms. McMuffin")
('MRN [number] of Ms. [patient]', 2)
"""

import re
from operator import itemgetter

from pathveil.corpus.messages.fhir_index import (
    Resource,
    codes_of,
    last_two,
    object_of,
    objects_of,
    text_of,
    texts_of,
    without_history,
)
from pathveil.corpus.messages.naaccr import RECORDS, VISITS, are_placeholders, patient_number
from pathveil.corpus.messages.patient import Mask, phone_number

# What stands beside a name, or for one, and is none.
NO_NAMES = frozenset(
    "mr mrs ms miss mx dr prof sir madam jr sr md phd patient pt name unknown unnamed anonymous none null test "
    "and the of male female man woman dob born mrn ssn id no number".split()
)
SIGNS = ',.;:()[]"/'  # around words
MOST_WORDS = 12  # of a name; each is looked for beside each other
VISIT = 4  # the rank of a number that tells a patient worse than a name does


def identity_of(patient: Resource, subject: Resource) -> tuple[str, ...] | None:
    """What tells a patient from others: a number of an authority, else name and birth date, else the reference.

    Of several numbers a record's comes first, as in HL7, and one that was given up last of those of a patient; that of
    a visit or an account counts only where there is no name: a patient has many.
    """
    given = [*objects_of(patient, "identifier"), object_of(subject, "identifier")]
    ranked = sorted(((rank_of(one), one) for one in given if patient_number(text_of(one, "value"))), key=itemgetter(0))
    numbers = [(rank, number_of(one)) for rank, one in ranked]
    if numbers and numbers[0][0] < VISIT:
        return numbers[0][1]
    birth = text_of(patient, "birthDate").replace("-", "")[:8]
    for name in objects_of(patient, "name"):
        parts = [text_of(name, "family"), *texts_of(name, "given")[:1]]
        if any(parts) and birth:
            return ("name", *(part.upper() for part in parts), birth)
    reference = without_history(text_of(subject, "reference")).lstrip("#")
    return ("reference", reference) if reference else next((number for _, number in numbers), None)


def has_placeholder(patient: Resource, subject: Resource) -> bool:
    """Whether placeholders alone stand in the place of a patient's numbers; those of visits and accounts are none."""
    given = [*objects_of(patient, "identifier"), object_of(subject, "identifier")]
    return are_placeholders(text_of(one, "value") for one in given if rank_of(one) < VISIT)


def number_of(identifier: Resource) -> tuple[str, ...]:
    authority = text_of(object_of(identifier, "assigner"), "display") or text_of(identifier, "system")
    bare = patient_number(text_of(identifier, "value"))
    return ("SS", "", bare) if "SS" in types_of(identifier) else ("number", authority.upper(), bare)


def rank_of(identifier: Resource) -> int:
    """How well a number tells a patient: a record's, any other, one given up, the social security number, a visit's."""
    types = types_of(identifier)
    if types & {"SS", *VISITS}:
        return VISIT if types & {*VISITS} else VISIT - 1
    return 2 if text_of(identifier, "use") == "old" else 0 if types & {*RECORDS} else 1


def types_of(identifier: Resource) -> set[str]:
    kind = object_of(identifier, "type")
    types = {code.upper() for code in (*codes_of(kind), text_of(kind, "text"))}
    return types | ({"SS"} if "us-ssn" in text_of(identifier, "system") else set())


def mask_of(people: list[Resource], subject: Resource | None = None) -> Mask:
    """A mask of all that these resources say about the patient and relatives, and a report of its ``subject``."""
    subject = subject or {}
    shown, known = text_of(subject, "display"), text_of(object_of(subject, "identifier"), "value")
    own = last_two(text_of(subject, "reference")).rpartition("/")[2]  # some servers take the record number for an id
    names, numbers, births, streets = [name_words(shown)], [*number_words(shown), known, own], [], []
    for person in people:
        births.append(text_of(person, "birthDate").replace("-", ""))
        numbers += [text_of(one, "value") for one in objects_of(person, "identifier")]
        for one in (person, *objects_of(person, "contact")):
            called = [*objects_of(one, "name"), object_of(one, "name")]  # of a contact it is no list
            names += [[text_of(name, "family"), *texts_of(name, "given")][:MOST_WORDS] for name in called]
            names += [name_words(text_of(name, "text")) for name in called]
            for place in (*objects_of(one, "address"), object_of(one, "address")):
                streets += [*texts_of(place, "line"), *streets_of(text_of(place, "text"))]
            for line in (text_of(line, "value") for line in objects_of(one, "telecom")):
                (streets if "@" in line else numbers).append(line if "@" in line else phone_number(line))
        maiden = [one for one in objects_of(person, "extension") if "mothersMaidenName" in text_of(one, "url")]
        names += [name_words(text_of(one, "valueString")) for one in maiden]
    return Mask(names=names, numbers=numbers, births=births, streets=streets)


def name_words(text: str) -> list[str]:
    """The parts of a name that is written in one, without titles and what else stands beside names.

    >>> name_words("Mrs. Candy McMuffin-O'Hara (DOB 1957-07-06), MRN 00466144")
    ['Candy', "McMuffin-O'Hara"]
    """
    words = (word.strip(SIGNS) for word in text.split())
    names = [word for word in words if word.lower() not in NO_NAMES and not any(map(str.isdigit, word))]
    return list(filter(None, names))[:MOST_WORDS]


def number_words(text: str) -> list[str]:
    return [word.strip(SIGNS) for word in text.split() if any(map(str.isdigit, word))][:MOST_WORDS]


def streets_of(address: str) -> list[str]:
    """An address that is written in one, and its parts with a number: a town alone may be any word.

    >>> streets_of("495 East Overshoot Drive, New Paltz")
    ['495 East Overshoot Drive, New Paltz', '495 East Overshoot Drive']
    """
    parts = [part.strip() for part in re.split(r"[,;\n]", address) if any(map(str.isdigit, part))]
    return [address, *(part for part in parts[:MOST_WORDS] if part != address)]
