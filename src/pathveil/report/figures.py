"""The report's figures as inline SVG, drawn by matplotlib: labelled axes, intervals, a palette that survives colour
blindness (Okabe and Ito's), a marker of its own for every series. Text stays text, so that it can be searched and read.

>>> drawing = lines([Series("B", (1, 10), (0.5, 0.6))], x_title="shadow models", y_title="attack accuracy")
>>> drawing.startswith("<svg") and "attack accuracy" in drawing
True
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#6b4c9a", "#444444", "#8c6d31", "#888888")
MARKERS = "osD^vP*X<>"
TICKS = [digit * 10**power for power in range(1, 7) for digit in (1, 2, 5)]
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pathveil",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
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


def drawn(draw: Callable[["Axes"], None], *, width: float = 5.4, height: float = 3.6) -> str:
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
    series: Sequence[Series], *, x_title: str, y_title: str, chance: float | None = None, logarithmic: bool = False
) -> str:
    """Curves with their intervals; ``chance`` is a dashed line across."""

    def draw(axes: "Axes") -> None:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        reach = max((max(one.x) for one in series), default=1.0)
        for number, one in enumerate(series):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            # Intervals of several curves at one place stand side by side.
            aside = (number - (len(series) - 1) / 2) * reach * 0.006
            x = [place * (1 + 0.012 * number) if logarithmic else place + aside for place in one.x]
            error = _errors(one.y, one.low, one.high)
            style: Any = {"marker": marker, "markersize": 5, "color": colour, "elinewidth": 0.9, "capsize": 2}
            axes.errorbar(x, one.y, yerr=error, label=one.name, **style)
        if chance is not None:
            axes.axhline(chance, color="#777777", linestyle="--", linewidth=1)
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
            _legend(axes)

    return drawn(draw)


def _errors(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Any:
    """Lengths of the lines below and above each value; none where no interval is known."""
    if not low:
        return None
    below = [max(0.0, value - end) for value, end in zip(values, low, strict=True)]
    above = [max(0.0, end - value) for value, end in zip(values, high, strict=True)]
    return [below, above]


def _name_points(axes: "Axes", points: Sequence[tuple[float, float, str]]) -> None:
    """Write each point's name beside it; of two that lie close, the second one's goes below."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    named: list[tuple[float, float]] = []
    for x, y, name in points:
        place = (x - left) / (right - left), (y - bottom) / (top - bottom)
        near = [other for other in named if abs(other[0] - place[0]) < 0.08 and abs(other[1] - place[1]) < 0.05]
        beside = [(5, 4), (5, -11), (-5, 4), (-5, -11)][len(near) % 4]
        aligned = "left" if beside[0] > 0 else "right"
        axes.annotate(name, (x, y), textcoords="offset points", xytext=beside, fontsize=8, ha=aligned)
        named.append(place)


def _legend(axes: "Axes") -> None:
    """Above the axes, where it hides nothing."""
    axes.legend(fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, columnspacing=1.2, handletextpad=0.4)


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
        _name_points(axes, [point for one in series for point in zip(one.x, one.y, one.labels, strict=False)])
        if limit is not None:
            axes.axvline(limit[0], color="#555555", linestyle=":", linewidth=1.2, label=limit[1])
        axes.set(xlabel=x_title, ylabel=y_title)
        _legend(axes)

    return drawn(draw, height=4.4)


def bars(
    series: Sequence[Series], *, names: Sequence[str], x_title: str, marks: Sequence[tuple[str, float]] = ()
) -> str:
    """Grouped horizontal bars with intervals, one group a name; ``marks`` are labelled lines across."""

    def draw(axes: "Axes") -> None:
        thick = 0.8 / max(len(series), 1)
        for number, one in enumerate(series):
            places = [place + thick * (number - (len(series) - 1) / 2) for place in one.x]
            error = _errors(one.y, one.low, one.high)
            colour = COLOURS[number % len(COLOURS)]
            axes.barh(
                places, one.y, height=thick, xerr=error, color=colour, label=one.name, error_kw={"linewidth": 0.8}
            )
        for number, (name, value) in enumerate(marks):
            axes.axvline(value, color="#555555", linestyle=(":", "--", "-.")[number % 3], linewidth=1.2, label=name)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlabel=x_title)
        axes.grid(axis="y", visible=False)
        if len(series) > 1 or marks:
            _legend(axes)

        axes.margins(y=0.02)

    return drawn(draw, height=1.1 + 0.24 * len(names) * max(1, len(series) * 0.55))
