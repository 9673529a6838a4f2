"""Names beside the points of a plane, placed so that none hides another, a point, an interval or a line.

>>> together(["B", "I2", "I3", "I4", "I6", "MI500"])
'B, I2–I4, I6, MI500'
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from math import cos, hypot, pi, sin
from typing import TYPE_CHECKING, Any

from pathveil.charts import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKER = 7.0  # points: markers nearer than this hide one another

Box = tuple[float, float, float, float]  # left, bottom, right, top, in points of the drawing


def name_points(
    axes: "Axes",
    series: Sequence[Series],
    *,
    front: Sequence[tuple[float, float]] = (),
    limit: float | None = None,
    ringed: Sequence[tuple[float, float]] = (),
) -> None:
    """Write each point's name where it covers no other name, point, interval or line, as near as that is; a line leads
    to one that stands apart. Points that lie on one another share a label; that of a ``ringed`` one is bold."""
    figure: Any = axes.get_figure()
    figure.draw_without_rendering()  # only now are the axes as large as they will be
    scale = 72 / figure.dpi
    wide, high = axes.bbox.width * scale, axes.bbox.height * scale

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = (axes.transData.transform((x, y)) - axes.bbox.min) * scale
        return float(across), float(up)

    points = [point for one in series for point in zip(one.x, one.y, one.labels, strict=False)]
    places = [place(x, y) for x, y, _ in points]
    taken: list[tuple[Box, float]] = [((x - 5, y - 5, x + 5, y + 5), 3.0) for x, y in places]
    taken += [((x - 10, y - 10, x + 10, y + 10), 3.0) for x, y in (place(*one) for one in ringed)]
    ends = [end for one in series for end in zip(one.low, one.high, strict=True)]
    for (low, top), (_, y, _) in zip(ends, points, strict=False):
        (start, level), (end, _) = place(low, y), place(top, y)
        taken.append(((start, level - 1.5, end, level + 1.5), 1.0))
    if limit is not None:
        across, _ = place(limit, points[0][1] if points else 0.0)
        taken.append(((across - 2, 0.0, across + 2, high), 5.0))
    taken += [(box, 1.0) for box in _along([place(x, y) for x, y in sorted(front)])]
    for group in _near(places):
        names = [points[number][2] for number in group]
        name, bold = together(names), any(points[number][:2] in ringed for number in group)
        across, up = (sum(places[number][axis] for number in group) / len(group) for axis in (0, 1))
        others = [other for number, other in enumerate(places) if number not in group]
        box = _free(name, (across, up), others, taken, wide=wide, high=high, letter=5.6 if bold else 4.8)
        taken.append((box, 3.0))
        corner = axes.bbox.min
        x, y = axes.transData.inverted().transform((corner[0] + across / scale, corner[1] + up / scale))
        leader = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        at: Any = {"textcoords": "offset points", "xytext": (box[0] - across, box[1] - up)}
        at |= {"fontsize": 9, "fontweight": "bold"} if bold else {"fontsize": 8}
        apart = leader if _distance(box, (across, up)) > 8 else None
        axes.annotate(name, (x, y), ha="left", va="bottom", arrowprops=apart, **at).set_in_layout(False)


def _free(
    name: str,
    at: tuple[float, float],
    others: Sequence[tuple[float, float]],
    taken: Sequence[tuple[Box, float]],
    *,
    wide: float,
    high: float,
    letter: float = 4.8,
) -> Box:
    """Where a name stands best beside its point."""
    (across, up), size, found = at, (letter * len(name), 9.0), []
    for far in (7.0, 10.0, 14.0, 18.0, 22.0, 27.0, 32.0, 44.0, 58.0):
        for turn in range(16):
            aside, above = far * cos(pi * (turn + 2) / 8), far * sin(pi * (turn + 2) / 8)
            start = across + aside - (size[0] if aside < -1 else size[0] / 2 if aside < 1 else 0.0)
            floor = up + above - (size[1] if above < -1 else size[1] / 2 if above < 1 else 0.0)
            box = start, floor, start + size[0], floor + size[1]
            outside = max(0.0, -box[0]) + max(0.0, box[2] - wide) + max(0.0, -box[1]) + max(0.0, box[3] - high)
            covered = outside * 20 + sum(weight * _shared(box, other) for other, weight in taken)
            # A name that is nearer to another point would be read as that one's.
            own = _distance(box, at)
            covered += 20 * sum(_distance(box, other) < own for other in others)
            found.append((covered + far / 2, box))
    return min(found)[1]


def _near(places: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Numbers of the points, those together that lie within a marker's width of one another.

    >>> _near([(0, 0), (50, 0), (3, 4)])
    [[0, 2], [1]]
    """
    groups: list[list[int]] = []
    for number, (x, y) in enumerate(places):
        close = (g for g in groups if all(hypot(x - places[n][0], y - places[n][1]) <= MARKER for n in g))
        group = next(close, None)
        if group is None:
            groups.append([number])
        else:
            group.append(number)
    return groups


def together(names: Sequence[str]) -> str:
    """One label of several points.

    >>> together(["B", "I2", "I3", "I4", "I6", "MI500"]), together(["I2", "I3"]), together(["B", "B"])
    ('B, I2–I4, I6, MI500', 'I2, I3', 'B')
    """
    runs: list[list[str]] = []
    for name in dict.fromkeys(names):
        stem, number = _parted(name)
        last = _parted(runs[-1][-1]) if runs else ("", None)
        if number is not None and last == (stem, number - 1):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def _parted(name: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\D+)(\d+)", name)
    return (found[1], int(found[2])) if found else (name, None)


def _along(places: Sequence[tuple[float, float]]) -> list[Box]:
    """Small boxes along the line that joins these places.

    >>> _along([(0, 0), (0, 8)])
    [(-1.0, -1.0, 1.0, 1.0), (-1.0, 3.0, 1.0, 5.0)]
    """
    boxes = []
    for (x, y), (to_x, to_y) in pairwise(places):
        steps = max(1, int(hypot(to_x - x, to_y - y) / 4))
        for step in range(steps):
            a, b = x + (to_x - x) * step / steps, y + (to_y - y) * step / steps
            boxes.append((a - 1, b - 1, a + 1, b + 1))
    return boxes


def _distance(box: Box, point: tuple[float, float]) -> float:
    """From a point to the nearest of a box.

    >>> _distance((0, 0, 2, 2), (5, 6)), _distance((0, 0, 2, 2), (1, 1))
    (5.0, 0.0)
    """
    aside = max(box[0] - point[0], point[0] - box[2], 0)
    return hypot(aside, max(box[1] - point[1], point[1] - box[3], 0))


def _shared(first: Box, second: Box) -> float:
    """The area that two boxes (left, bottom, right, top) have in common.

    >>> _shared((0, 0, 2, 2), (1, 1, 3, 3)), _shared((0, 0, 1, 1), (2, 0, 3, 1))
    (1, 0)
    """
    across = min(first[2], second[2]) - max(first[0], second[0])
    up = min(first[3], second[3]) - max(first[1], second[1])
    return max(0, across) * max(0, up)
