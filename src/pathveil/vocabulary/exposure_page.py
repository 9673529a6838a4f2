"""Draw the exposure of several vocabularies side by side: a figure, and a page without other files.

>>> from pathveil.vocabulary.exposure import VocabularyExposure
>>> row = VocabularyExposure(name="B", method="occurrences >= 5", sha256="", words=9, not_in_corpus=0, coverage=0.9,
...                          by_cases={"1": 2, "50+": 7}, cases_with_own_word=2, suspects={"name": 1})
>>> svg = draw(ExposureResult(corpus={}, reports=5, cases=5, registries=["R1"], words=12, vocabularies=[row]))
>>> svg[:4], "words kept" in svg
('<svg', True)
"""

import io
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pathveil.files import check_file, check_writable, write_text
from pathveil.vocabulary.exposure import ExposureResult

# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#999999", "#F0E442")
RARE = {"1": "#D55E00", "2–4": "#E69F00", "5–9": "#F0E442", "10–49": "#56B4E9", "50+": "#0072B2"}
MARKERS = "os^Dv<>pP*Xh"
PAGE, FIGURE = "exposure.html", "exposure.svg"
TITLE = "<title>What is left of people in these words"  # of the page


def draw(result: ExposureResult) -> str:
    """Draw small charts beside each other, a row for each vocabulary, as an SVG element."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = result.vocabularies
    planted = [row for row in rows if row.planted]
    scored = [row for row in rows if row.scores]
    panels = [draw_sizes, draw_shares, draw_planted if planted else draw_suspects, *([draw_scores] if scored else [])]
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "pathveil", "font.size": 9}):
        widths = [3, 2.4, 4.8 if planted else 3.4, *([2.2] if scored else [])]
        figure = Figure(figsize=(sum(widths) + 0.8, 1.8 + 0.32 * len(rows)), layout="constrained")
        charts = figure.subplots(1, len(panels), sharey=True, squeeze=False, width_ratios=widths)[0]
        for axes, panel in zip(charts, panels, strict=True):
            axes.spines[["top", "right"]].set_visible(False)
            if panel not in (draw_planted, draw_suspects):
                axes.grid(axis="x", alpha=0.3)
            panel(axes, result)
        charts[0].set_yticks(range(len(rows)), labels=[row.name for row in rows])
        charts[0].set_ylim(len(rows) - 0.5, -0.5)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    content = written.getvalue()
    return content[content.index("<svg") :]


def draw_sizes(axes: Any, result: ExposureResult) -> None:
    rows = result.vocabularies
    left = [0] * len(rows)
    for bucket, colour in RARE.items():
        widths = [row.by_cases.get(bucket, 0) for row in rows]
        axes.barh(range(len(rows)), widths, left=left, height=0.7, color=colour, label=bucket)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_xlabel("words kept, by how many cases hold them")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    legend_below(axes, columns=5)


def draw_shares(axes: Any, result: ExposureResult) -> None:
    rows = result.vocabularies
    few = [sum(row.by_cases.get(bucket, 0) for bucket in ("1", "2–4")) for row in rows]
    shares = [100 * number / max(1, row.words) for number, row in zip(few, rows, strict=True)]
    axes.plot([100 * row.coverage for row in rows], range(len(rows)), "o", color=COLOURS[0])
    axes.plot(shares, range(len(rows)), "D", color=COLOURS[3], markersize=5)
    axes.set_xlim(-4, 104)
    axes.set_xlabel("%")
    labels = ["of running text covered", "of the words are in fewer than 5 cases"]
    legend_below(axes, columns=1, labels=labels)


def draw_planted(axes: Any, result: ExposureResult) -> None:
    kinds = [kind for kind in result.vocabularies[0].planted or {} if kind != "any"]
    shares = [[row.planted[kind].share for kind in kinds] for row in result.vocabularies if row.planted]
    draw_grid(axes, [kind.replace("_", " ") for kind in kinds], shares, shares, "{:.0%}")
    axes.set_title("planted personal words kept", fontsize=9)


def draw_suspects(axes: Any, result: ExposureResult) -> None:
    kinds = list(result.vocabularies[0].suspects)
    numbers = [[row.suspects[kind] for kind in kinds] for row in result.vocabularies]
    most = [max(1, *column) for column in zip(*numbers, strict=True)]
    shades = [[number / top for number, top in zip(line, most, strict=True)] for line in numbers]
    draw_grid(axes, kinds, numbers, shades, "{:,}")
    axes.set_title("words that look like a …", fontsize=9)


def draw_grid(
    axes: Any, names: list[str], numbers: Sequence[Sequence[float]], shades: list[list[float]], form: str
) -> None:
    """Draw numbers in cells, the larger the darker."""
    axes.imshow(shades, cmap="Oranges", vmin=0, vmax=1.4, aspect="auto")
    for down, line in enumerate(numbers):
        for across, number in enumerate(line):
            axes.text(across, down, form.format(number), ha="center", va="center", fontsize=7, color="#1a1a1a")
    axes.set_xticks(range(len(names)), labels=names, rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
    axes.tick_params(length=0)


def draw_scores(axes: Any, result: ExposureResult) -> None:
    for average, marker, colour in (("micro", "o", COLOURS[0]), ("macro", "s", COLOURS[2])):
        points = [(getattr(row.scores, average), n) for n, row in enumerate(result.vocabularies) if row.scores]
        axes.plot(*zip(*points, strict=True), marker, color=colour, label=f"{average} F1")
    axes.set_xlabel("mean F1 over the tasks")
    legend_below(axes, columns=2)


def legend_below(axes: Any, *, columns: int, labels: list[str] | None = None) -> None:
    look: dict[str, Any] = {"frameon": False, "fontsize": 8, "handlelength": 1, "columnspacing": 0.8}
    handles, own = axes.get_legend_handles_labels()
    axes.legend(
        handles or axes.lines, labels or own, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=columns, **look
    )


def render(result: ExposureResult) -> str:
    """Render one HTML file with the figure and the tables; it loads nothing."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("pathveil.vocabulary") / "exposure.html").read_text(encoding="utf-8"))
    return template.render(result=result, rows=result.vocabularies, figure=Markup(draw(result)))


def check_places(folder: Path) -> None:
    """Refuse, before any work, a folder with other files of these names; an earlier page may be replaced."""
    check_writable(folder)
    check_file(folder / PAGE, renews=[TITLE.encode()])
    check_file(folder / FIGURE, renews=[b"<svg"])


def write_page(result: ExposureResult, folder: Path) -> list[Path]:
    """Write exposure.html and exposure.svg."""
    contents = {PAGE: render(result), FIGURE: draw(result)}
    for name, content in contents.items():
        write_text(folder / name, content)
    return [folder / name for name in contents]
