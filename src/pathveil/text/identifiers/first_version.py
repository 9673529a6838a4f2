"""The expressions of version 1 that are otherwise since: what was made with them reads text as it did.

>>> [TITLED_FORM.match(text) for text in ("Mrs Smith", "Dr. Müller")]
[None, None]
"""

import re

from pathveil.text.identifiers.expressions import (
    CLOCK,
    DATED_FORM,
    DOMAIN,
    KIN,
    LABELLED_FORM,
    LETTERED_FORM,
    NUMBER_LABEL,
    box_form,
    numeric_form,
)

_STREET = (
    r"(?:Street|Avenue|Road|Lane|Drive|Boulevard|Court|Terrace|Highway|Place|Square|Close|Crescent|Parkway|Circle|Way"
    r"|STREET|AVENUE|ROAD|LANE|DRIVE|BOULEVARD|TERRACE|HIGHWAY|CRESCENT|PARKWAY|St\.|Ave\.?|Rd\.?|Blvd\.?|Ln\.?|Hwy\.?)"
)
_POSTCODE = r"(?:[0-9]{5}(?:-[0-9]{4})?|[0-9]{4}|[A-Z]{1,2}[0-9][A-Z0-9]? [0-9][A-Z]{2})(?![0-9A-Za-z])"
_PLACE = rf"(?:,? [A-Z][a-z]+(?: [A-Z][a-z]+)?(?:,? [A-Z]{{2}}(?![A-Za-z]))?(?:,? {_POSTCODE})?)?"
_ROAD = rf"(?: [A-Z][A-Za-z.'-]*){{1,3}} {_STREET}(?![A-Za-z]){_PLACE}"

NUMERIC_FORM, BOX_FORM = numeric_form(_ROAD), box_form(_ROAD)
_PART = r"[A-Z](?:[a-z]+|['’][A-Z])[A-Za-z'’-]*"
_CAPITALS = r"[A-Z][A-Z'’-]+(?![a-z])"
TITLED_FORM = re.compile(
    r"(?:D(?:rs?\.?|R\.)|M(?:rs?\.|s\.|RS?\.|S\.|iss)|P(?:rof\.?)) "
    rf"(?P<name>(?:[A-Z]\.? ){{1,2}}{_PART}|{_PART}(?: (?:[A-Z]\.? )?{_PART})?|(?:[A-Z]\. ?)?{_CAPITALS})"
)
CANDIDATE = re.compile(
    r"[A-Z](?:"
    rf"\.? (?:[A-Z]\.? )?{_PART}"
    rf"|(?:[a-z]+|['’][A-Z])[A-Za-z'’-]*(?:, {_PART}(?: [A-Z]\.?(?![A-Za-z]))?|(?: [A-Z]\.?)? {_PART}(?: {_PART})?)"
    rf"|[A-Z'’-]+(?:, {_CAPITALS}(?: [A-Z]\.?(?![A-Za-z]))?| (?:[A-Z]\. )?{_CAPITALS}(?=,? M\.?D))"
    r")"
)
BEFORE_NAME = re.compile(
    r"(?i)(?:\b(?:patient(?: name)?|physician(?:\(s\))?|pathologist|surgeon|consultant|provider|clinician"
    r"|requesting|attending|e?-?signed(?: out)?(?: by)?)[ \t]*(?::|\*+)[ \t]*"
    r"|\b(?:signed(?: out)?|dictated|reviewed|reported|ordered|requested|submitted|authori[sz]ed|transcribed"
    r"|called|sent|faxed|given|telephoned|communicated|cop(?:y|ies)) (?:by|to):? "
    r"|\b(?:son|daughter|brother|sister|wife|husband|mother|father|next of kin|contact|per|the name|the label"
    r"|filed under|chart of) |\nname:[ \t]*)$"
)
LICENCE = re.compile(r",? (?:M\.?D|D\.?O|MBBS|Ph\.?D|FCAP|FRCPath)(?![A-Za-z])")
EXPRESSIONS = (
    *(NUMERIC_FORM, LETTERED_FORM, DATED_FORM, LABELLED_FORM, DOMAIN, BOX_FORM, TITLED_FORM, NUMBER_LABEL, CANDIDATE),
    *(KIN, BEFORE_NAME, LICENCE, CLOCK),
)
