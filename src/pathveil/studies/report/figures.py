"""The report's figures as inline SVG, drawn by matplotlib: labelled axes, intervals, a palette that survives colour
blindness (Okabe and Ito's), a marker of its own for every series. Text stays text, so that it can be searched and read,
and colours are those of the page's style sheet (light, dark, paper), each with its own for an SVG that leaves the page.

>>> drawing = lines([Series("B", (1, 10), (0.5, 0.6))], x_title="shadow models", y_title="attack accuracy")
>>> drawing.startswith("<svg") and "attack accuracy" in drawing
True
"""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

from pathveil.charts import Series
from pathveil.studies.report.labels import name_points
from pathveil.studies.rows import RatedCandidate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#6b4c9a", "#444444", "#8c6d31", "#888888")
MARKERS = "osD^vP*X<>"
TICKS = [digit * 10**power for power in range(1, 7) for digit in (1, 2, 5)]
WIDTH, ANSWER_WIDTH = 4.8, 5.4  # inches: on a phone's screen its letters are still read
CHARACTER = 0.07  # inches, of a legend's letters
# Colours that a page may change, by the name of its style sheet; c0, c1 … are the series'.
THEMED = {"#000000": "ink", "#b0b0b0": "grid", "#777777": "soft", "#999999": "soft", "#555555": "soft"}
THEMED |= {"#14703c": "good", "#b3261e": "bad", "#8a5a00": "open"}
LEAK = "how well an attacker knows whose report was learnt"
RINGED = {True: "recommended", False: "leaks least"}
VERDICTS = {  # of candidates: how a reader is told, and how a point is drawn
    "pass": ("keeps to the limit", "o", "#14703c"),
    "not enough evidence": ("cannot be told", "D", "#8a5a00"),
    "fail": ("breaks the limit", "X", "#b3261e"),
}
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


class Drawing(str):
    """An SVG element, with the numbers that it shows: a heading and rows, which can be saved as a CSV file."""

    rows: list[list[Any]]

    def __new__(cls, svg: str, rows: Sequence[Sequence[Any]] = ()) -> "Drawing":
        made = super().__new__(cls, svg)
        made.rows = [[round(one, 6) if isinstance(one, float) else one for one in row] for row in rows]
        return made


def rows_of(series: Sequence[Series], x_title: str, y_title: str, *, across: bool = False) -> list[list[Any]]:
    """The points of a figure as a table; intervals are of what is drawn up, or ``across``.

    >>> rows_of([Series("B", (1,), (0.5,), (0.4,), (0.6,))], "shadows", "accuracy")
    [['series', 'shadows', 'accuracy', 'accuracy low', 'accuracy high'], ['B', 1, 0.5, 0.4, 0.6]]
    """
    measured = x_title if across else y_title
    named = any(one.labels for one in series)
    rows: list[list[Any]] = [["series", *(["name"] if named else []), x_title, y_title]]
    rows[0] += [f"{measured} low", f"{measured} high"] if any(one.low for one in series) else []
    for one in series:
        for place, point in enumerate(zip(one.x, one.y, strict=True)):
            name = [one.labels[place] if one.labels else ""] if named else []
            ends = [one.low[place], one.high[place]] if one.low else []
            rows.append([one.name, *name, *point, *ends])
    return rows


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
    # What matplotlib says about itself names places on the net.
    return themed(re.sub("<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL))


def themed(svg: str) -> str:
    """An SVG element whose colours are the page's, each with its own where there is no page.

    >>> themed('<path style="stroke: #0072b2"/><text>0.5</text>')
    '<path style="stroke: var(--c0, #0072b2)"/><text>0.5</text>'
    """
    names = THEMED | {colour: f"c{number}" for number, colour in enumerate(COLOURS)}
    return re.sub("|".join(names), lambda found: f"var(--{names[found[0]]}, {found[0]})", svg)


def lines(
    series: Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    chance: float | None = None,
    logarithmic: bool = False,
    reaching: tuple[float, float] | None = None,
) -> Drawing:
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

    return Drawing(svg_of(draw), rows_of(series, x_title, y_title))


def _errors(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Any:
    """Lengths of the lines below and above each value; none where no interval is known."""
    if not low:
        return None
    below = [max(0.0, value - end) for value, end in zip(values, low, strict=True)]
    above = [max(0.0, end - value) for value, end in zip(values, high, strict=True)]
    return [below, above]


def _legend(axes: "Axes", series: Sequence[Series], *, width: float = WIDTH) -> None:
    """Above the axes, where it hides nothing: the series in their order, then what else is named, in as many rows as
    that takes."""
    named = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = [name for name in dict.fromkeys([one.name for one in series] + list(named)) if name in named]
    if not names:
        return
    needed = sum(0.42 + CHARACTER * len(name) for name in names)
    columns = -(-len(names) // ceil(needed / (width - 0.3)))
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
) -> Drawing:
    """Points on a plane with their horizontal intervals, named; the Pareto front is joined by a line, and ``limit``
    is a labelled line across. A series without a name is not in the legend."""

    def draw(axes: "Axes") -> None:
        _front_line(axes, front)
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
        name_points(axes, series, front=joined, limit=None if limit is None else limit[0])

    return Drawing(svg_of(draw, height=4.2), rows_of(series, x_title, y_title, across=True))


def answer_plane(candidates: Sequence[RatedCandidate], *, use: str, within: bool, tolerated: float) -> Drawing:
    """The answer as a picture: F1 against leak, what keeps to the tolerated leak apart from what breaks it, what
    nothing else beats joined by a line, and a ring around what is recommended."""
    series = []
    for verdict, (told, _, _) in VERDICTS.items():
        own = [one for one in candidates if one.verdict == verdict]
        ends = [[getattr(one.auc, end) for one in own] for end in ("value", "low", "high")]
        names = [one.name.replace(" with ", ", ").removesuffix(" training") for one in own]
        series += [Series(told, ends[0], [one.macro for one in own], ends[1], ends[2], names)] if own else []
    front = [(one.auc.value, one.macro) for one in candidates if one.front]
    ringed = [(one.auc.value, one.macro) for one in candidates if one.name == use]
    reach = [end for one in candidates for end in (one.auc.low, one.auc.high)]

    def draw(axes: "Axes") -> None:
        drawn = {told: (marker, colour) for told, marker, colour in VERDICTS.values()}
        _front_line(axes, front)
        for x, y in ringed:
            style: Any = {"markersize": 17, "markerfacecolor": "none", "markeredgewidth": 1.8, "linestyle": "none"}
            axes.plot(x, y, "o", color="#000000", label=RINGED[within], gid="recommended", **style)
        for one in series:
            marker, colour = drawn[one.name]
            drawn_as: Any = {"fmt": marker, "color": colour, "markersize": 7, "capsize": 2.5, "elinewidth": 0.9}
            axes.errorbar(one.x, one.y, xerr=_errors(one.x, one.low, one.high), label=one.name, **drawn_as)
        axes.set_xlim(min([0.48, *reach]) - 0.01, max([tolerated + 0.02, *reach]) + 0.01)
        axes.margins(y=0.22)
        shade: Any = {"color": "#14703c", "alpha": 0.09, "linewidth": 0, "zorder": -1}
        axes.axvspan(axes.get_xlim()[0], tolerated, gid="tolerated", **shade)
        axes.axvline(tolerated, color="#14703c", linewidth=1.2, zorder=0, gid="limit")
        at: Any = {"fontsize": 9, "ha": "center", "transform": axes.get_xaxis_transform()}
        axes.text(tolerated, 1.01, f"tolerated: {tolerated:g}", color="#14703c", **at)
        axes.set(xlabel=f"{LEAK}\n(AUC: 0.5 is guessing; left is more private)", ylabel="F1 (macro)")
        _legend(axes, series, width=ANSWER_WIDTH)
        name_points(axes, series, front=front if len(front) > 1 else (), limit=tolerated, ringed=ringed)

    rows = rows_of(series, "attacker's AUC", "macro F1", across=True)
    return Drawing(svg_of(draw, width=ANSWER_WIDTH, height=3.9), rows)


def _front_line(axes: "Axes", front: Sequence[tuple[float, float]]) -> None:
    """Along what nothing else beats, where that is more than one point."""
    if len(front) > 1:
        axes.plot(*zip(*sorted(front), strict=True), color="#999999", linewidth=1.2, linestyle="--", zorder=0)


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
) -> Drawing:
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

    named = [replace(one, labels=[names[int(place)] for place in one.x]) for one in series]
    rows = [[*row[:2], *row[3:]] for row in rows_of(named, "place", x_title)]
    return Drawing(svg_of(draw, height=1.1 + 0.24 * len(names) * max(1, len(series) * 0.55)), rows)
