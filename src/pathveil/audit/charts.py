"""The audit page's figures as inline SVG: no scripts, no fonts to fetch, colours from the page's style sheet.

A figure is at most 440 wide, so that it keeps its size on a phone; colours are classes ``c0``, ``c1``, … that the page
defines for light, dark and print (Okabe and Ito's palette, which survives colour blindness), and every line also has
its own dash pattern.

>>> chart = intervals([Mark("site", 0.3, 0.2, 0.4)], limit=0.2, chance=0.1)
>>> chart.startswith("<svg") and "site" in chart
True
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 440
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 4", "6 2 1 2")


@dataclass(frozen=True)
class Line:
    """A curve with its band; ``strong`` draws it thick."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    colour: int = 0
    strong: bool = False


@dataclass(frozen=True)
class Mark:
    """A labelled value with its interval; no value where it cannot be measured."""

    name: str
    value: float | None
    low: float
    high: float
    colour: int = 0


def roc(lines: Sequence[Line], *, title: str) -> str:
    """TPR against FPR, both logarithmic: what matters happens at the left end."""
    floor = min((min(line.x) for line in lines), default=0.01)
    decades = max(1, min(4, math.ceil(-math.log10(floor) - 0.15)))
    smallest = 10.0**-decades
    plot = _Plot(left=52, top=10, width=WIDTH - 74, height=300, bottom=44)

    def x(fpr: float) -> float:
        return plot.left + plot.width * (1 + math.log10(max(fpr, smallest)) / decades)

    def y(tpr: float) -> float:
        return plot.top + plot.height * (-math.log10(max(tpr, smallest)) / decades)

    parts = [plot.frame()]
    for power in range(-decades, 1):
        at = 10.0**power
        parts += [plot.vertical(x(at), _share(at)), plot.horizontal(y(at), _share(at))]
    parts.append(f'<path class="chance" d="M{x(smallest):.1f} {y(smallest):.1f}L{x(1):.1f} {y(1):.1f}"/>')
    for line in sorted(lines, key=lambda line: line.strong):  # the strong one on top
        inside = [number for number, fpr in enumerate(line.x) if fpr >= smallest * 0.999]
        if line.strong and line.high:
            upper = [(x(line.x[i]), y(line.high[i])) for i in inside]
            lower = [(x(line.x[i]), y(line.low[i])) for i in reversed(inside)]
            parts.append(f'<path class="band c{line.colour}" d="{_path(upper + lower)}Z"/>')
        points = [(x(line.x[i]), y(line.y[i])) for i in inside if line.y[i] >= smallest]
        parts.append(_stroke(line, points))
    parts += [plot.x_title("false accusations (FPR)"), plot.y_title("members found (TPR)")]
    return _svg(parts, plot.total, title)


def against_shadows(lines: Sequence[Line], *, title: str, y_title: str, chance: float) -> str:
    """A figure of merit against the number of shadow models, with its bands."""
    plot = _Plot(left=52, top=10, width=WIDTH - 74, height=220, bottom=44)
    most = max(max(line.x) for line in lines)
    values = [value for line in lines for value in (*line.y, *line.low, *line.high)] + [chance]
    reach = max(max(values) - min(values), 0.04)
    step = next(step for step in (0.02, 0.05, 0.1, 0.2) if reach <= 5 * step or step == 0.2)
    bottom, top = step * math.floor(min(values) / step + 1e-9), step * math.ceil(max(values) / step - 1e-9)

    def x(count: float) -> float:
        return plot.left + plot.width * count / most

    def y(value: float) -> float:
        return plot.top + plot.height * (top - value) / (top - bottom)

    parts = [plot.frame()]
    for number in range(round((top - bottom) / step) + 1):
        parts.append(plot.horizontal(y(bottom + step * number), f"{bottom + step * number:.2f}"))
    for count in sorted({int(count) for line in lines for count in line.x}):
        parts.append(plot.vertical(x(count), str(count)))
    parts.append(f'<path class="chance" d="M{plot.left} {y(chance):.1f}H{plot.left + plot.width}"/>')
    for line in lines:
        if line.high:
            upper = [(x(a), y(b)) for a, b in zip(line.x, line.high, strict=True)]
            lower = [(x(a), y(b)) for a, b in zip(line.x, line.low, strict=True)]
            parts.append(f'<path class="band c{line.colour}" d="{_path(upper + lower[::-1])}Z"/>')
    for line in lines:
        points = [(x(a), y(b)) for a, b in zip(line.x, line.y, strict=True)]
        parts.append(_stroke(line, points))
        parts += [f'<circle class="dot c{line.colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points]
    parts += [plot.x_title("shadow models"), plot.y_title(y_title)]
    return _svg(parts, plot.total, title)


def key(line: Line) -> str:
    """A short piece of a line, for a legend."""
    return f'<svg class="key" viewBox="0 0 30 8" aria-hidden="true"><path {_look(line)} d="M0 4H30"/></svg>'


def intervals(
    marks: Sequence[Mark],
    *,
    limit: float | None = None,
    chance: float | None = None,
    title: str = "",
    label: int = 150,
    tick: Callable[[float], str] | None = None,
) -> str:
    """One row a value: its interval as a bar, the value as a dot, the limit and chance as lines across.

    ``label``: room for the names; ``tick`` writes a number on the axis, else as per cent.
    """
    row, written = 26, tick or _share
    plot = _Plot(left=label, top=6, width=WIDTH - label - 22, height=row * len(marks), bottom=36)
    largest = max([mark.high for mark in marks] + [limit or 0.0, 0.1])
    step = next(step for step in (0.05, 0.1, 0.2) if largest <= 5 * step or step == 0.2)
    top = step * math.ceil(largest / step - 1e-9)

    def x(value: float) -> float:
        return plot.left + plot.width * min(value, top) / top

    parts = [plot.frame()]
    for number in range(round(top / step) + 1):
        parts.append(plot.vertical(x(step * number), written(step * number)))
    height = plot.top + plot.height
    if chance is not None:
        parts.append(f'<path class="chance" d="M{x(chance):.1f} {plot.top}V{height}"/>')
    if limit is not None:
        parts.append(f'<path class="limit" d="M{x(limit):.1f} {plot.top}V{height}"/>')
    for number, mark in enumerate(marks):
        middle = plot.top + row * (number + 0.5)
        parts.append(
            f'<text class="label" x="{label - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(mark.name)}</text>'
        )
        bar = (
            f'x="{x(mark.low):.1f}" y="{middle - 4:.1f}" width="{max(x(mark.high) - x(mark.low), 1.5):.1f}" height="8"'
        )
        parts.append(f'<rect class="bar c{mark.colour}" {bar} rx="3"/>')
        if mark.value is not None:
            parts.append(f'<circle class="dot c{mark.colour}" cx="{x(mark.value):.1f}" cy="{middle:.1f}" r="4.5"/>')
    return _svg(parts, plot.total, title)


@dataclass(frozen=True)
class _Plot:
    left: int
    top: int
    width: int
    height: int
    bottom: int  # room below for tick labels and the title

    @property
    def total(self) -> int:
        return self.top + self.height + self.bottom

    def frame(self) -> str:
        return f'<rect class="frame" x="{self.left}" y="{self.top}" width="{self.width}" height="{self.height}"/>'

    def vertical(self, x: float, text: str) -> str:
        bottom = self.top + self.height
        return (
            f'<path class="grid" d="M{x:.1f} {self.top}V{bottom}"/>'
            f'<text class="tick" x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{text}</text>'
        )

    def horizontal(self, y: float, text: str) -> str:
        return (
            f'<path class="grid" d="M{self.left} {y:.1f}H{self.left + self.width}"/>'
            f'<text class="tick" x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        )

    def x_title(self, text: str) -> str:
        middle = self.left + self.width / 2
        return f'<text class="axis" x="{middle:.0f}" y="{self.total - 8}" text-anchor="middle">{escape(text)}</text>'

    def y_title(self, text: str) -> str:
        middle = self.top + self.height / 2
        return (
            f'<text class="axis" transform="translate(12 {middle:.0f}) rotate(-90)" text-anchor="middle">'
            f"{escape(text)}</text>"
        )


def _share(value: float) -> str:
    return f"{round(100 * value, 6):g} %"


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) if points else ""


def _stroke(line: Line, points: Sequence[tuple[float, float]]) -> str:
    title = f"<title>{escape(line.name)}</title>"
    return f'<path {_look(line)} d="{_path(points)}">{title}</path>'


def _look(line: Line) -> str:
    dash = DASHES[line.colour % len(DASHES)] if not line.strong else ""
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'class="line {"strong" if line.strong else "thin"} c{line.colour}"{style}'


def _svg(parts: Sequence[str], height: int, title: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">'
    return head + "".join(parts) + "</svg>"
