"""What a report says of people and days, found by its form, and hidden before a text becomes tokens."""

from pathveil.identifiers.finding import TOKENS, VERSION, encoded, hide, hide_all, hide_stretches, stretches

__all__ = ["TOKENS", "VERSION", "encoded", "hide", "hide_all", "hide_stretches", "stretches"]
