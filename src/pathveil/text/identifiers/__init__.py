"""What a report says of people and days, found by its form, and hidden before a text becomes tokens."""

from pathveil.text.identifiers.finding import (
    SIGN,
    TOKENS,
    VERSION,
    Hiding,
    encoded,
    hide,
    hide_all,
    hide_stretches,
    stretches,
    version_of,
)

__all__ = [
    "SIGN",
    "TOKENS",
    "VERSION",
    "Hiding",
    "encoded",
    "hide",
    "hide_all",
    "hide_stretches",
    "stretches",
    "version_of",
]
