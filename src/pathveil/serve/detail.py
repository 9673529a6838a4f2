"""How much an answer tells: what a release allows, and never more than the operator wants.

A probability of many digits tells an attacker whether a report was in the training text; a code alone tells much less.
A release says in which form its model may be used (``release.json``): with the weights given away anyway, every detail
is allowed; ``labels`` allows codes, and whether the model is sure of them, and nothing else.

>>> allowed("weights", None), allowed("weights", "bands"), allowed("labels", None)
('probabilities', 'bands', 'labels')
>>> allowed("labels", "probabilities")
Traceback (most recent call last):
pathveil.errors.UsageError: the release is of the form 'labels', so answers tell no probabilities
>>> shown_probability(0.8731, "rounded"), shown_probability(0.8731, "bands"), shown_probability(0.8731, "labels")
(0.9, 'likely', None)
"""

from pathveil.errors import BundleError, UsageError
from pathveil.serve.settings import DETAILS, Detail

BANDS = ((0.95, "very likely"), (0.8, "likely"), (0.5, "more likely than not"), (0.0, "unsure"))  # from which on
FORMS = {"weights": "probabilities", "labels": "labels"}  # of a release: the most that its answers may tell


def allowed(form: str, wanted: str | None) -> Detail:
    """The detail of answers for a release's form, where the operator may want less."""
    if form not in FORMS:
        raise BundleError(
            f"a release of the form '{form}' codes no reports; expected {' or '.join(FORMS)}, or a bundle of one's own"
        )
    most: Detail = FORMS[form]  # ty: ignore[invalid-assignment]
    if wanted is None:
        return most
    if wanted not in DETAILS:
        raise UsageError(f"--detail {wanted} is not known; expected {', '.join(DETAILS)}")
    if DETAILS.index(wanted) < DETAILS.index(most):
        raise UsageError(f"the release is of the form '{form}', so answers tell no {wanted}")
    return wanted


def shown_probability(probability: float, detail: Detail) -> float | str | None:
    """A probability as the detail allows it to be told: a number, a band's name, or nothing."""
    if detail == "labels":
        return None
    if detail == "bands":
        return next(name for least, name in BANDS if probability >= least)
    return round(probability, 1) if detail == "rounded" else round(probability, 4)
