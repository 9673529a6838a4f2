"""The report's figures as inline SVG, drawn by matplotlib: labelled axes, intervals, a palette that survives colour
blindness (Okabe and Ito's), a marker of its own for every series. Text stays text, so that it can be searched and read.

>>> drawing = lines([Series("B", (1, 10), (0.5, 0.6))], x_title="shadow models", y_title="attack accuracy")
>>> drawing.startswith("<svg") and "attack accuracy" in drawing
True
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, cos, hypot, pi, sin
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#6b4c9a", "#444444", "#8c6d31", "#888888")
MARKERS = "osD^vP*X<>"
TICKS = [digit * 10**power for power in range(1, 7) for digit in (1, 2, 5)]
WIDTH = 4.8  # inches: on a phone's screen its letters are still read
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


def drawn(draw: Callable[["Axes"], None], *, width: float = WIDTH, height: float = 3.4) -> str:
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

    return drawn(draw)


def _errors(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Any:
    """Lengths of the lines below and above each value; none where no interval is known."""
    if not low:
        return None
    below = [max(0.0, value - end) for value, end in zip(values, low, strict=True)]
    above = [max(0.0, end - value) for value, end in zip(values, high, strict=True)]
    return [below, above]


def _name_points(axes: "Axes", series: Sequence[Series]) -> None:
    """Write each point's name where it covers no other name, point or interval, as near as that is; a line leads to one
    that stands apart."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    wide, high = 72 * (WIDTH - 0.8), 72 * 3.2  # points, about what the axes get of the drawing

    def across_of(x: float) -> float:
        return wide * (x - left) / (right - left)

    points = [point for one in series for point in zip(one.x, one.y, one.labels, strict=False)]
    places = [(across_of(x), high * (y - bottom) / (top - bottom)) for x, y, _ in points]
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    ends = [end for one in series for end in zip(one.low, one.high, strict=True)]
    taken += [(across_of(a), y - 1, across_of(b), y + 1) for (a, b), (_, y) in zip(ends, places, strict=False)]
    for (x, y, name), (across, up) in zip(points, places, strict=True):
        size = 4.8 * len(name), 9.0
        found: list[tuple[float, float, tuple[float, float], tuple[float, float, float, float]]] = []
        for far in (7.0, 14.0, 22.0, 32.0, 44.0, 58.0):
            for turn in range(16):
                aside, above = far * cos(pi * (turn + 2) / 8), far * sin(pi * (turn + 2) / 8)
                start = across + aside - (size[0] if aside < -1 else size[0] / 2 if aside < 1 else 0.0)
                floor = up + above - (size[1] if above < -1 else size[1] / 2 if above < 1 else 0.0)
                box = start, floor, start + size[0], floor + size[1]
                outside = max(0.0, -box[0]) + max(0.0, box[2] - wide) + max(0.0, -box[1]) + max(0.0, box[3] - high)
                covered = outside * 10 + sum(_shared(box, other) for other in taken)
                # A name that is nearer to another point would be read as that one's.
                own = _distance(box, (across, up))
                covered += 20 * sum(_distance(box, other) < own for other in places)
                found.append((covered, far, (box[0] - across, box[1] - up), box))
        _, _, offset, box = min(found, key=lambda one: one[:2])
        taken.append(box)
        leader = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        at: Any = {"textcoords": "offset points", "xytext": offset, "fontsize": 8, "ha": "left", "va": "bottom"}
        axes.annotate(name, (x, y), arrowprops=leader if _distance(box, (across, up)) > 8 else None, **at)


def _distance(box: tuple[float, float, float, float], point: tuple[float, float]) -> float:
    """From a point to the nearest of a box.

    >>> _distance((0, 0, 2, 2), (5, 6)), _distance((0, 0, 2, 2), (1, 1))
    (5.0, 0.0)
    """
    aside = max(box[0] - point[0], point[0] - box[2], 0)
    return hypot(aside, max(box[1] - point[1], point[1] - box[3], 0))


def _shared(first: tuple[float, float, float, float], second: tuple[float, float, float, float]) -> float:
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
    names = [*dict.fromkeys([one.name for one in series] + list(named))]
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
    is a labelled line across."""

    def draw(axes: "Axes") -> None:
        if front:
            ordered = sorted(front)
            axes.plot(*zip(*ordered, strict=True), color="#999999", linewidth=1.2, linestyle="--", zorder=0)
        for number, one in enumerate(series):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            error = _errors(one.x, one.low, one.high)
            axes.errorbar(
                one.x, one.y, xerr=error, fmt=marker, color=colour, elinewidth=0.7, markersize=6, label=one.name
            )
        axes.margins(y=0.1)
        _name_points(axes, series)
        if limit is not None:
            axes.axvline(limit[0], color="#555555", linestyle=":", linewidth=1.2, label=limit[1])
        axes.set(xlabel=x_title, ylabel=y_title)
        _legend(axes, series)

    return drawn(draw, height=4.2)


def bars(
    series: Sequence[Series], *, names: Sequence[str], x_title: str, marks: Sequence[tuple[str, float]] = ()
) -> str:
    """Grouped horizontal bars of shares with intervals, one group a name; ``marks`` are labelled lines across."""

    def draw(axes: "Axes") -> None:
        thick = 0.8 / max(len(series), 1)
        for number, one in enumerate(series):
            places = [place + thick * (number - (len(series) - 1) / 2) for place in one.x]
            error = _errors(one.y, one.low, one.high)
            colour = COLOURS[number % len(COLOURS)]
            drawn_as: Any = {"color": colour, "alpha": 0.85, "error_kw": {"linewidth": 0.8}}
            axes.barh(places, one.y, height=thick, xerr=error, label=one.name, **drawn_as)
        for number, (name, value) in enumerate(marks):
            axes.axvline(value, color="#000000", linestyle=(":", "--", "-.")[number % 3], linewidth=1.2, label=name)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlabel=x_title, xlim=(0, 1))
        axes.grid(axis="y", visible=False)
        if len(series) > 1 or marks:
            _legend(axes, series)
        axes.margins(y=0.02)

    return drawn(draw, height=1.1 + 0.24 * len(names) * max(1, len(series) * 0.55))
