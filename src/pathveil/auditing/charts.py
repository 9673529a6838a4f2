"""The audit page's own figures, drawn with ``pathveil.charts``: an attack's ROC, and a figure against shadow models.

>>> roc([Series("loss", (0.01, 1.0), (0.02, 1.0))], title="ROC").startswith("<svg")
True
"""

import math
from collections.abc import Sequence

from pathveil.charts import WIDTH, Plot, Series, as_share, figure, path_through, stroke


def roc(lines: Sequence[Series], *, title: str) -> str:
    """TPR against FPR, both logarithmic: what matters happens at the left end."""
    floor = min((min(line.x) for line in lines), default=0.01)
    decades = max(1, min(4, math.ceil(-math.log10(floor) - 0.15)))
    smallest = 10.0**-decades
    plot = Plot(left=52, top=10, width=WIDTH - 74, height=300, bottom=44)

    def x(fpr: float) -> float:
        return plot.left + plot.width * (1 + math.log10(max(fpr, smallest)) / decades)

    def y(tpr: float) -> float:
        return plot.top + plot.height * (-math.log10(max(tpr, smallest)) / decades)

    parts = [plot.frame()]
    for power in range(-decades, 1):
        at = 10.0**power
        parts += [plot.vertical(x(at), as_share(at)), plot.horizontal(y(at), as_share(at))]
    parts.append(f'<path class="chance" d="M{x(smallest):.1f} {y(smallest):.1f}L{x(1):.1f} {y(1):.1f}"/>')
    for line in sorted(lines, key=lambda line: line.strong):  # the strong one on top
        inside = [number for number, fpr in enumerate(line.x) if fpr >= smallest * 0.999]
        if line.strong and line.high:
            upper = [(x(line.x[i]), y(line.high[i])) for i in inside]
            lower = [(x(line.x[i]), y(line.low[i])) for i in reversed(inside)]
            parts.append(f'<path class="band c{line.colour}" d="{path_through(upper + lower)}Z"/>')
        points = [(x(line.x[i]), y(line.y[i])) for i in inside if line.y[i] >= smallest]
        parts.append(stroke(line, points))
    parts += [plot.x_title("false accusations (FPR)"), plot.y_title("members found (TPR)")]
    return figure(parts, plot.total, title)


def against_shadows(lines: Sequence[Series], *, title: str, y_title: str, chance: float) -> str:
    """A figure of merit against the number of shadow models, with its bands."""
    plot = Plot(left=52, top=10, width=WIDTH - 74, height=220, bottom=44)
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
            parts.append(f'<path class="band c{line.colour}" d="{path_through(upper + lower[::-1])}Z"/>')
    for line in lines:
        points = [(x(a), y(b)) for a, b in zip(line.x, line.y, strict=True)]
        parts.append(stroke(line, points))
        parts += [f'<circle class="dot c{line.colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points]
    parts += [plot.x_title("shadow models"), plot.y_title(y_title)]
    return figure(parts, plot.total, title)
