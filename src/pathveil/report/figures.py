"""The report's figures as inline SVG, drawn by matplotlib: labelled axes, intervals, a palette that survives colour
blindness (Okabe and Ito's), a marker of its own for every series. Text stays text, so that it can be searched and read.

>>> drawing = lines([Series("B", (1, 10), (0.5, 0.6))], x_title="shadow models", y_title="attack accuracy")
>>> drawing.startswith("<svg") and "attack accuracy" in drawing
True
"""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, cos, hypot, pi, sin
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#6b4c9a", "#444444", "#8c6d31", "#888888")
MARKERS = "osD^vP*X<>"
TICKS = [digit * 10**power for power in range(1, 7) for digit in (1, 2, 5)]
WIDTH = 4.8  # inches: on a phone's screen its letters are still read
MARKER = 7.0  # points: markers nearer than this hide one another
CHARACTER = 0.07  # inches, of a legend's letters
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pathveil",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Series:
    """Points of one kind, with intervals where they are known."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    labels: Sequence[str] = ()


def svg_of(draw: Callable[["Axes"], None], *, width: float = WIDTH, height: float = 3.4) -> str:
    """An SVG element from a function that draws on axes; the same drawing gives the same text."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.add_subplot())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def lines(
    series: Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    chance: float | None = None,
    logarithmic: bool = False,
    reaching: tuple[float, float] | None = None,
) -> str:
    """Curves with their intervals; ``chance`` is a dashed line across. Figures to be compared share what y is
    ``reaching``."""

    def draw(axes: "Axes") -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

        reach = max((max(one.x) for one in series), default=1.0)
        for number, one in enumerate(series):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            # Intervals of several curves at one place stand side by side.
            aside = (number - (len(series) - 1) / 2) * reach * 0.012
            x = [place * (1 + 0.012 * number) if logarithmic else place + aside for place in one.x]
            error = _errors(one.y, one.low, one.high)
            style: Any = {"marker": marker, "markersize": 5, "color": colour, "elinewidth": 0.9, "capsize": 2}
            if number == 0:  # on top and open: it neither hides another nor is hidden
                style |= {"markersize": 6, "markerfacecolor": "none", "markeredgewidth": 1.3, "zorder": 3}
            axes.errorbar(x, one.y, yerr=error, label=one.name, **style)
        if chance is not None:
            axes.axhline(chance, color="#777777", linestyle="--", linewidth=1)
        if reaching is not None:
            axes.set_ylim(*reaching)
        axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
        if logarithmic:
            axes.set_xscale("log")
            sizes = [place for one in series for place in one.x]
            axes.set_xticks([tick for tick in TICKS if min(sizes) * 0.8 <= tick <= max(sizes) * 1.25])
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        elif len(ticks := sorted({place for one in series for place in one.x})) <= 9:
            axes.set_xticks(ticks)
        axes.set(xlabel=x_title, ylabel=y_title)
        if len(series) > 1:
            _legend(axes, series)

    return svg_of(draw)


def _errors(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Any:
    """Lengths of the lines below and above each value; none where no interval is known."""
    if not low:
        return None
    below = [max(0.0, value - end) for value, end in zip(values, low, strict=True)]
    above = [max(0.0, end - value) for value, end in zip(values, high, strict=True)]
    return [below, above]


Box = tuple[float, float, float, float]  # left, bottom, right, top, in points of the drawing


def _name_points(
    axes: "Axes", series: Sequence[Series], *, front: Sequence[tuple[float, float]] = (), limit: float | None = None
) -> None:
    """Write each point's name where it covers no other name, point, interval or line, as near as that is; a line leads
    to one that stands apart. Points that lie on one another share a label."""
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
    ends = [end for one in series for end in zip(one.low, one.high, strict=True)]
    for (low, top), (_, y, _) in zip(ends, points, strict=False):
        (start, level), (end, _) = place(low, y), place(top, y)
        taken.append(((start, level - 1.5, end, level + 1.5), 1.0))
    if limit is not None:
        across, _ = place(limit, points[0][1] if points else 0.0)
        taken.append(((across - 2, 0.0, across + 2, high), 5.0))
    taken += [(box, 1.0) for box in _along([place(x, y) for x, y in sorted(front)])]
    for group in _near(places):
        name = _together([points[number][2] for number in group])
        across, up = (sum(places[number][axis] for number in group) / len(group) for axis in (0, 1))
        others = [other for number, other in enumerate(places) if number not in group]
        box = _free(name, (across, up), others, taken, wide=wide, high=high)
        taken.append((box, 3.0))
        corner = axes.bbox.min
        x, y = axes.transData.inverted().transform((corner[0] + across / scale, corner[1] + up / scale))
        leader = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        at: Any = {"textcoords": "offset points", "xytext": (box[0] - across, box[1] - up), "fontsize": 8}
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
) -> Box:
    """Where a name stands best beside its point."""
    (across, up), size, found = at, (4.8 * len(name), 9.0), []
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


def _together(names: Sequence[str]) -> str:
    """One label of several points.

    >>> _together(["B", "I2", "I3", "I4", "I6", "MI500"]), _together(["I2", "I3"]), _together(["B", "B"])
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


def _legend(axes: "Axes", series: Sequence[Series]) -> None:
    """Above the axes, where it hides nothing: the series in their order, then what else is named, in as many rows as
    that takes."""
    named = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = [name for name in dict.fromkeys([one.name for one in series] + list(named)) if name in named]
    if not names:
        return
    width = sum(0.42 + CHARACTER * len(name) for name in names)
    columns = -(-len(names) // ceil(width / (WIDTH - 0.3)))
    place: Any = {"loc": "outside upper center", "ncols": columns}
    handles = [named[name] for name in names]
    figure: Any = axes.get_figure()
    figure.legend(handles, names, fontsize=9, columnspacing=1.2, handletextpad=0.4, **place)


def plane(
    series: Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    front: Sequence[tuple[float, float]] = (),
    limit: tuple[float, str] | None = None,
) -> str:
    """Points on a plane with their horizontal intervals, named; the Pareto front is joined by a line, and ``limit``
    is a labelled line across. A series without a name is not in the legend."""

    def draw(axes: "Axes") -> None:
        if len(front) > 1:
            axes.plot(*zip(*sorted(front), strict=True), color="#999999", linewidth=1.2, linestyle="--", zorder=0)
        for number, one in enumerate(series):
            # Open markers: one that lies on another does not hide it.
            style: Any = {"markersize": 6, "markerfacecolor": "none", "markeredgewidth": 1.4, "capsize": 2.5}
            style |= {"fmt": MARKERS[number % len(MARKERS)], "color": COLOURS[number % len(COLOURS)]}
            error = _errors(one.x, one.low, one.high)
            axes.errorbar(one.x, one.y, xerr=error, elinewidth=0.8, label=one.name or "_", **style)
        axes.margins(y=0.1)
        if limit is not None:
            axes.axvline(limit[0], color="#555555", linestyle=":", linewidth=1.2, label=limit[1], zorder=0, gid="limit")
        axes.set(xlabel=x_title, ylabel=y_title)
        _legend(axes, series)
        joined = front if len(front) > 1 else ()
        _name_points(axes, series, front=joined, limit=None if limit is None else limit[0])

    return svg_of(draw, height=4.2)


def front_caption(front: Sequence[tuple[float, float]]) -> str:
    """What a caption says of the line along a front; nothing where there is none."""
    return " The dashed line joins what nothing else beats." if len(front) > 1 else ""


def bars(
    series: Sequence[Series],
    *,
    names: Sequence[str],
    x_title: str,
    marks: Sequence[tuple[str, float]] = (),
    marked: bool = False,
) -> str:
    """Grouped horizontal bars of shares with intervals, one group a name; ``marks`` are labelled lines across. Bars
    that are ``marked`` have their value marked, so that nought is seen."""

    def draw(axes: "Axes") -> None:
        thick = 0.8 / max(len(series), 1)
        for number, one in enumerate(series):
            places = [place + thick * (number - (len(series) - 1) / 2) for place in one.x]
            error = _errors(one.y, one.low, one.high)
            colour = COLOURS[number % len(COLOURS)]
            drawn_as: Any = {"color": colour, "alpha": 0.85, "error_kw": {"linewidth": 0.8}}
            axes.barh(places, one.y, height=thick, xerr=error, label=one.name, **drawn_as)
            if marked:
                # A bar of no length is seen by its marker; where nothing was measured there is none.
                at: Any = {"markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.5, "clip_on": False}
                axes.plot(
                    one.y, places, MARKERS[number % len(MARKERS)], color=colour, zorder=4, gid=f"values-{number}", **at
                )
        for number, (name, value) in enumerate(marks):
            axes.axvline(value, color="#000000", linestyle=(":", "--", "-.")[number % 3], linewidth=1.2, label=name)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlabel=x_title, xlim=(0, 1))
        axes.grid(axis="y", visible=False)
        if len(series) > 1 or marks:
            _legend(axes, series)
        axes.margins(y=0.02)

    return svg_of(draw, height=1.1 + 0.24 * len(names) * max(1, len(series) * 0.55))
