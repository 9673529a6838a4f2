"""The papers' claims as sentences, the test that each is judged by, and the margins of likeness.

>>> sorted(CLAIMS) == sorted(TESTS)
True
"""

from pathveil.disclosure import FEWEST_CASES_TOLD

MARGIN = {"micro": 0.01, "macro": 0.02, "accuracy": 0.01}
PROBE_MARGIN = 0.02  # above what the label alone gives away

CLAIMS = {
    "A1": "more shadow models raise attack accuracy, which levels off",
    "A2": "rarer classes leak more",
    "A3": "the full intersection leaks less than the baseline",
    "A4": "fewer mutual-information words leak less",
    "A5": "I2 leaks more than the baseline",
    "A6": "intersection keeps F1",
    "A7": "small mutual-information vocabularies lose F1, macro more than micro",
    "B1": "single-registry training is below centralized",
    "B2": "shared/private adversarial training is indistinguishable from centralized",
    "B3": "shared/private adversarial training is above single-registry",
    "B4": "the gain is in rare classes",
    "B5": "a fresh probe cannot tell the registry from the shared features",
}

ATTACK = "of the paper's attack (mean over classes), cross-registry protocol"
OVER = "paired over registries (means over tasks and seeds)"
TESTS = {
    "A1": f"accuracy {ATTACK}, all vocabularies, with the most shadows above that with the fewest, and alike "
    "(±0.01) with the number nearest two thirds of the most; paired over folds",
    "A2": f"accuracy {ATTACK}, all vocabularies, in the rarest bucket above that in the most frequent one; "
    "paired over folds",
    "A3": f"accuracy {ATTACK}, on the baseline above that on the full intersection; paired over folds",
    "A4": f"accuracy {ATTACK}, on the largest mutual-information vocabulary above that on the smallest; "
    "paired over folds",
    "A5": f"accuracy {ATTACK}, on I2 above that on the baseline; paired over folds",
    "A6": "micro F1 (±0.01) and macro F1 (±0.02) of the full intersection alike the baseline's; paired over folds "
    "(means over tasks)",
    "A7": "micro and macro F1 of the smallest mutual-information vocabulary below the baseline's, and the loss larger "
    "in macro F1; paired over folds (means over tasks)",
    "B1": f"micro and macro F1 of centralized above single, {OVER}",
    "B2": f"micro F1 (±0.01) and macro F1 (±0.02) of adversarial alike centralized, {OVER}",
    "B3": f"micro and macro F1 of adversarial above single, {OVER}",
    "B4": "F1 of adversarial above single in the rarer half of the classes, and the gain larger there than in the "
    f"other half, {OVER}; of a registry's classes only those with at least {FEWEST_CASES_TOLD} test cases there are "
    "scored, so the rarest are in neither half",
    "B5": "the better probe's accuracy on unseen reports at most 0.02 above what the true label alone gives away, in "
    "every seed",
}
