"""Values to whole numbers and back, each in one pass: scaled, rounded to the nearest, clipped; with how many were, and
the largest.

>>> whole = np.empty(4, np.int32)
>>> rounded(np.array([0.5, -1.5, 9.0, 0.2], np.float32), 2.0, 7, whole)
(1, 18.0)
>>> whole.tolist()
[1, -3, 7, 0]
>>> mean = np.empty(4, np.float32)
>>> averaged(whole, 0.5, 2, mean), mean.tolist()
(7.0, [0.25, -0.75, 1.75, 0.0])
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})  # a largest value may be looked for in any order
def rounded(values, factor, most, out):
    """Fill ``out`` with values times a factor, halves to the even neighbour, none beyond ``most`` on either side; how
    many were beyond, and the largest size before rounding."""
    clipped, largest, end = 0, 0.0, float(most)
    for place in range(len(values)):
        step = np.float64(values[place]) * factor
        largest = max(largest, abs(step))
        whole = np.rint(step)
        clipped += abs(whole) > end
        out[place] = int(min(max(whole, -end), end))
    return clipped, largest


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def averaged(whole, factor, weight, out):
    """Fill ``out`` with whole numbers times a factor, divided by a weight; the largest size of a whole number."""
    largest = 0.0
    for place in range(len(whole)):
        number = np.float64(whole[place])
        largest = max(largest, abs(number))
        out[place] = number * factor / weight
    return largest
