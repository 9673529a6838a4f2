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
    """Curves with their bands; ``chance`` is a dashed line across."""

    def draw(axes: "Axes") -> None:
        for number, one in enumerate(series):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            axes.plot(one.x, one.y, marker=marker, markersize=5, color=colour, label=one.name)
            if one.low:
                axes.fill_between(one.x, one.low, one.high, color=colour, alpha=0.15, linewidth=0)
        if chance is not None:
            axes.axhline(chance, color="#777777", linestyle="--", linewidth=1)
        if logarithmic:
            axes.set_xscale("log")
        axes.set(xlabel=x_title, ylabel=y_title)
        if len(series) > 1:
            axes.legend(fontsize=9)

    return drawn(draw)


def plane(series: Sequence[Series], *, x_title: str, y_title: str, front: Sequence[tuple[float, float]] = ()) -> str:
    """Points on a plane with their horizontal intervals, named; the Pareto front is joined by a line."""

    def draw(axes: "Axes") -> None:
        if front:
            ordered = sorted(front)
            axes.plot(*zip(*ordered, strict=True), color="#999999", linewidth=1.2, linestyle="--", zorder=0)
        for number, one in enumerate(series):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            error: Any = None
            if one.low:
                error = [
                    [x - low for x, low in zip(one.x, one.low, strict=True)],
                    [high - x for x, high in zip(one.x, one.high, strict=True)],
                ]
            axes.errorbar(
                one.x, one.y, xerr=error, fmt=marker, color=colour, elinewidth=0.8, markersize=6, label=one.name
            )
            for x, y, label in zip(one.x, one.y, one.labels, strict=False):
                axes.annotate(label, (x, y), textcoords="offset points", xytext=(5, 4), fontsize=8)
        axes.set(xlabel=x_title, ylabel=y_title)
        axes.legend(fontsize=9)

    return drawn(draw, height=4.2)


def bars(
    series: Sequence[Series], *, names: Sequence[str], x_title: str, marks: Sequence[tuple[str, float]] = ()
) -> str:
    """Grouped horizontal bars with intervals, one group a name; ``marks`` are labelled lines across."""

    def draw(axes: "Axes") -> None:
        thick = 0.8 / max(len(series), 1)
        for number, one in enumerate(series):
            places = [place + thick * (number - (len(series) - 1) / 2) for place in one.x]
            error: Any = None
            if one.low:
                error = [
                    [max(0.0, y - low) for y, low in zip(one.y, one.low, strict=True)],
                    [max(0.0, high - y) for y, high in zip(one.y, one.high, strict=True)],
                ]
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
            axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)

    return drawn(draw, height=1.2 + 0.26 * len(names) * max(1, len(series) * 0.6))
