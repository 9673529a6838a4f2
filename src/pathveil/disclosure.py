"""The one rule on small numbers: what fewer than ten cases say is not told.

A figure about a few people is a figure about people. Every room that tells a count, a score or a share of a group asks
here first, and says "fewer than 10 cases" instead.

>>> may_be_told(10), may_be_told(9), may_be_told(40, 3)
(True, False, False)
"""

FEWEST_CASES_TOLD = 10
TOO_FEW = f"fewer than {FEWEST_CASES_TOLD} cases"
NOT_TOLD = "not told"  # of what has too few, or hides what has


def may_be_told(*cases: int) -> bool:
    """Whether a figure about groups of these numbers of cases may be shown."""
    return min(cases) >= FEWEST_CASES_TOLD
