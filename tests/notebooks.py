"""The examples as notebooks: ``make notebooks`` writes them, and a test holds them against the examples.

An example is a plain Python file whose cells begin with ``# %%`` (text: ``# %% [markdown]``), as editors know them.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


def cells(example: Path) -> Iterator[tuple[str, str]]:
    """The kind and the text of each of an example's cells."""
    for part in re.split(r"^# %%", example.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        text = body.strip("\n")
        if "[markdown]" in head:
            yield "markdown", "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
        else:
            yield "code", text


def notebook(example: Path) -> str:
    """An example as a notebook without outputs."""
    made = []
    for number, (kind, text) in enumerate(cells(example)):
        empty = {"execution_count": None, "outputs": []} if kind == "code" else {}
        lines = text.splitlines(keepends=True)
        made.append({"cell_type": kind, "id": f"cell-{number}", "metadata": {}, **empty, "source": lines})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for example in EXAMPLES:
        example.with_suffix(".ipynb").write_text(notebook(example), encoding="utf-8")
