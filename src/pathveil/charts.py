"""Figures as inline SVG: no scripts, no fonts to fetch, colours from the style sheet of the page they stand on.

A figure is at most 440 wide, so that it keeps its size on a phone; colours are classes ``c0``, ``c1``, … that a page
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
class Series:
    """Points of one kind, or a curve, with their intervals where they are known and names where they have any;
    ``strong`` draws a curve thick."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    labels: Sequence[str] = ()
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


def key(line: Series) -> str:
    """A short piece of a line, for a legend."""
    return f'<svg class="key" viewBox="0 0 30 8" aria-hidden="true"><path {look(line)} d="M0 4H30"/></svg>'


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
    row, written = 26, tick or as_share
    plot = Plot(left=label, top=6, width=WIDTH - label - 22, height=row * len(marks), bottom=36)
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
    return figure(parts, plot.total, title)


@dataclass(frozen=True)
class Plot:
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


def as_share(value: float) -> str:
    return f"{round(100 * value, 6):g} %"


def path_through(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) if points else ""


def stroke(line: Series, points: Sequence[tuple[float, float]]) -> str:
    title = f"<title>{escape(line.name)}</title>"
    return f'<path {look(line)} d="{path_through(points)}">{title}</path>'


def look(line: Series) -> str:
    dash = DASHES[line.colour % len(DASHES)] if not line.strong else ""
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'class="line {"strong" if line.strong else "thin"} c{line.colour}"{style}'


def figure(parts: Sequence[str], height: int, title: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">'
    return head + "".join(parts) + "</svg>"


def curves(
    lines: Sequence[Series],
    *,
    title: str,
    x_title: str,
    y_title: str,
    bottom: float = 0.0,
    diagonal: bool = False,
    limit: float | None = None,
) -> str:
    """Shares against shares, both from 0 to 1 but for y's ``bottom``; ``diagonal`` is where they are equal, and
    ``limit`` a line across."""
    plot = Plot(left=52, top=10, width=WIDTH - 74, height=260, bottom=44)

    def x(value: float) -> float:
        return plot.left + plot.width * value

    def y(value: float) -> float:
        return plot.top + plot.height * (1 - (max(value, bottom) - bottom) / (1 - bottom))

    parts = [plot.frame()]
    parts += [plot.vertical(x(number / 5), as_share(number / 5)) for number in range(6)]
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2) if 1 - bottom <= 6.01 * step or step == 0.2)
    for number in range(int((1 - bottom) / step + 1e-9) + 1):
        parts.append(plot.horizontal(y(1 - step * number), as_share(1 - step * number)))
    if diagonal:
        parts.append(f'<path class="chance" d="M{x(bottom):.1f} {y(bottom):.1f}L{x(1):.1f} {y(1):.1f}"/>')
    if limit is not None:
        parts.append(f'<path class="limit" d="M{plot.left} {y(limit):.1f}H{plot.left + plot.width}"/>')
    for line in lines:
        points = [(x(a), y(b)) for a, b in zip(line.x, line.y, strict=True)]
        parts.append(stroke(line, points))
        if len(points) <= 12:
            parts += [f'<circle class="dot c{line.colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points]
    parts += [plot.x_title(x_title), plot.y_title(y_title)]
    return figure(parts, plot.total, title)
