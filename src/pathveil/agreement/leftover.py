"""What is left of people in agreed words: how many planted personal words pass, for every k and m.

The synthetic corpus's truth file says which stretches of text name a patient, a physician, an address and so on. A word
is personal here if it stands nowhere else: the street of an address and the "Dr" before a name are ordinary words,
counted apart. Whether a word passes is plain counting, which an agreement is proved to equal; no cryptography is run.

>>> cases = np.array([[9, 9, 1], [9, 5, 0], [9, 0, 0]])   # three registries, three words
>>> passing(cases, threshold=2, min_cases=5).tolist()
[True, True, False]
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from pathveil.errors import UsageError
from pathveil.files import new_file, write_text
from pathveil.results import Part, Result
from pathveil.vocabulary.planted import PlantedWords

THRESHOLDS, MIN_CASES = range(2, 8), range(1, 11)


def passing(cases: np.ndarray, *, threshold: int, min_cases: int) -> np.ndarray:
    """Which words (columns of registries × words) are in enough cases at enough registries."""
    return np.sum(cases >= min_cases, axis=0) >= threshold


class LeftoverRow(Part):
    """What passes at one k and m."""

    k: int
    m: int
    cases_at_least: int  # that hold any word which passes
    words: int
    personal: int
    share_of_planted: float
    also_ordinary: int  # planted words that stand elsewhere too
    by_kind: dict[str, int]


class LeftoverResult(Result):
    """How many planted personal words pass, for every k and m; numbers, never words."""

    registries: int
    words: int
    planted: int
    planted_by_kind: dict[str, int]
    cells: list[LeftoverRow] = Field(serialization_alias="rows")

    def rows(self) -> list[dict[str, Any]]:
        return [row.to_dict() for row in self.cells]

    def summary(self) -> str:
        head = (
            f"Personal words that pass / words that pass. {self.registries} registries, {self.words:,} words, "
            f"{self.planted:,} of them personal.\n\n"
        )
        return head + self.table()

    def table(self) -> str:
        """Personal words that pass, k down and m across, in Markdown."""
        least = sorted({row.m for row in self.cells})
        cell = {(row.k, row.m): f"{row.personal:,} / {row.words:,}" for row in self.cells}
        lines = ["| k | " + " | ".join(f"m = {m}" for m in least) + " |", "|---" * (len(least) + 1) + "|"]
        for threshold in sorted({row.k for row in self.cells}):
            lines.append(f"| {threshold} | " + " | ".join(cell[threshold, m] for m in least) + " |")
        return "\n".join(lines)


def measure_leftover(
    words: Sequence[str],
    cases: np.ndarray,  # (registries, words)
    planted: PlantedWords,
    *,
    thresholds: Sequence[int] = THRESHOLDS,
    min_cases: Sequence[int] = MIN_CASES,
) -> LeftoverResult:
    """For every k and m: words that pass, personal words among them by kind, and the share of personal words left."""
    if cases.shape[0] < max(thresholds):
        raise UsageError(f"k up to {max(thresholds)} needs as many registries; the corpus has {cases.shape[0]}")
    number = {word: place for place, word in enumerate(words)}

    def mask(chosen: frozenset[str]) -> np.ndarray:
        marked = np.zeros(len(words), bool)
        marked[[number[word] for word in chosen if word in number]] = True
        return marked

    personal = {kind: mask(chosen) for kind, chosen in planted.only.items()}
    anyone = np.any(list(personal.values()), axis=0)
    shared = np.any([mask(chosen) for chosen in planted.also.values()], axis=0) & ~anyone
    cells = []
    for threshold in thresholds:
        for least in min_cases:
            passed = passing(cases, threshold=threshold, min_cases=least)
            left = int(np.sum(passed & anyone))
            cells.append(
                LeftoverRow(
                    k=threshold,
                    m=least,
                    cases_at_least=threshold * least,
                    words=int(passed.sum()),
                    personal=left,
                    share_of_planted=left / max(int(anyone.sum()), 1),
                    also_ordinary=int(np.sum(passed & shared)),
                    by_kind={kind: int(np.sum(passed & chosen)) for kind, chosen in personal.items()},
                )
            )
    return LeftoverResult(
        registries=int(cases.shape[0]),
        words=len(words),
        planted=int(anyone.sum()),
        planted_by_kind={kind: int(chosen.sum()) for kind, chosen in personal.items()},
        cells=cells,
    )


def write_leftover(result: LeftoverResult, folder: Path) -> list[Path]:
    """leftover.json, leftover.md and leftover.svg."""
    paths = [folder / f"leftover.{kind}" for kind in ("json", "md", "svg")]
    result.to_json(paths[0])
    write_text(paths[1], result.summary() + "\n")
    with new_file(paths[2]) as part:
        _draw(result, part)
    return paths


def _draw(result: LeftoverResult, path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    thresholds = sorted({row.k for row in result.cells})
    for place, threshold in enumerate(thresholds):
        rows = sorted((row for row in result.cells if row.k == threshold), key=lambda row: row.m)
        look = {"color": COLOURS[place % len(COLOURS)], "marker": "os^Dv<>p"[place % 8], "markersize": 4}
        least = [row.m for row in rows]
        left.plot(least, [row.personal for row in rows], label=f"k = {threshold}", **look)
        right.plot(least, [row.words for row in rows], **look)
    left.set_yscale("symlog", linthresh=1)
    most, least_left = (find(row.personal for row in result.cells) for find in (max, min))
    ticks = [0, *(digit * 10**power for power in range(8) for digit in (1, 2, 5))]
    inner = [tick for tick in ticks if least_left / 2 <= tick <= 2 * most]
    left.set_yticks(inner, labels=[f"{tick:,}" for tick in inner])
    left.minorticks_off()
    right.yaxis.set_major_formatter("{x:,.0f}")
    right.set_ylim(bottom=0)
    left.set_ylabel(f"personal words that pass (of {result.planted:,})")
    right.set_ylabel("words that pass")
    for axes in (left, right):
        axes.set_xlabel("m: cases a registry must have a word in")
        axes.set_xticks(sorted({row.m for row in result.cells}))
        axes.grid(alpha=0.3)
    left.legend(frameon=False, ncols=2)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "leftover"}):  # small, and the same every time
        figure.savefig(path, format="svg", metadata={"Date": None})


# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
