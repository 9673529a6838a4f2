"""The training figure: loss and accuracy by epoch as a small SVG, written by hand so that its bytes never change.

>>> history = [[{"epoch": 1, "loss": 2.0, "validation_losses": {"site": 2.2}, "validation_accuracy": {"site": 0.4}},
...             {"epoch": 2, "loss": 1.0, "validation_losses": {"site": 1.5}, "validation_accuracy": {"site": 0.7}}]]
>>> picture = draw_history(history)
>>> picture.startswith("<svg"), picture.count("<polyline")
(True, 3)
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT = 800, 300
LEFT, TOP, PANEL, TALL, GAP = 52, 34, 270, 210, 124
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")

Curve = tuple[str, str, str, list[tuple[float, float]]]  # name, colour, dash pattern, points


def draw_history(history: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Left: the training and the validation loss (mean over tasks). Right: each task's validation accuracy.

    Every member of an ensemble is one thin curve in the colour of what it shows.
    """
    losses: list[Curve] = []
    shares: list[Curve] = []
    tasks = list(dict.fromkeys(task for member in history for entry in member for task in accuracy(entry)))
    for member in history:
        trained = [(entry["epoch"], entry["loss"]) for entry in member if "loss" in entry]  # none where it is private
        losses.append(("training", COLOURS[0], "4 3", trained))
        held = [entry for entry in member if entry.get("validation_losses")]
        means = [(entry["epoch"], mean(entry["validation_losses"].values())) for entry in held]
        losses.append(("validation", COLOURS[1], "", means))
        for number, task in enumerate(tasks):
            points = [(entry["epoch"], accuracy(entry)[task]) for entry in member if task in accuracy(entry)]
            shares.append((task, COLOURS[number % len(COLOURS)], "", points))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="Loss and accuracy by epoch">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *panel(losses, left=LEFT, title="Loss (mean over tasks)", ends=None),
        *panel(shares, left=LEFT + PANEL + GAP, title="Accuracy on validation cases", ends=(0.0, 1.0)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def accuracy(entry: Mapping[str, Any]) -> Mapping[str, float]:
    return entry.get("validation_accuracy", {})


def mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def panel(curves: Sequence[Curve], *, left: int, title: str, ends: tuple[float, float] | None) -> list[str]:
    """One set of axes with its curves and a key."""
    points = [point for *_, drawn in curves for point in drawn]
    last = max((x for x, _ in points), default=1)
    low, high = ends or (0.0, max((y for _, y in points), default=1.0) * 1.05 or 1.0)

    def at(x: float, y: float) -> tuple[float, float]:
        across = left + PANEL * (x - 1) / max(last - 1, 1)
        return round(across, 1), round(TOP + TALL * (1 - (y - low) / (high - low)), 1)

    parts = [f'<text x="{left}" y="{TOP - 14}" font-weight="bold">{title}</text>']
    for step in range(5):
        y = low + (high - low) * step / 4
        _, down = at(1, y)
        parts.append(f'<line x1="{left}" x2="{left + PANEL}" y1="{down}" y2="{down}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{down + 4}" text-anchor="end" fill="#555">{y:.2f}</text>')
    for x in sorted({1, round((1 + last) / 2), int(last)}):
        across, _ = at(x, low)
        parts.append(f'<text x="{across}" y="{TOP + TALL + 18}" text-anchor="middle" fill="#555">{x}</text>')
    parts.append(f'<text x="{left + PANEL / 2:g}" y="{TOP + TALL + 36}" text-anchor="middle">epoch</text>')
    named: dict[str, str] = {}
    for name, colour, dash, drawn in curves:
        if not drawn:
            continue
        line = " ".join(f"{x:g},{y:g}" for x, y in (at(*point) for point in drawn))
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"{dashed}/>')
        named[name] = colour
    for number, (name, colour) in enumerate(named.items()):
        down = TOP + 10 + 17 * number
        parts.append(f'<rect x="{left + PANEL + 8}" y="{down - 8}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{left + PANEL + 22}" y="{down + 1}">{escape(name)}</text>')
    return parts
