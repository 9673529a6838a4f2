"""The generator's word lists: text files of one layout, read from the package.

A file holds blocks; a block starts with ``@name`` (and perhaps more words) and lasts until the next. Lines that start
with ``#`` are remarks.

>>> [name for name, _, _ in blocks("people.txt")][:3]
['female', 'male', 'surnames']
"""

from importlib.resources import files


def lines(name: str) -> list[str]:
    """The lines of a word list, without remarks and empty lines."""
    text = (files("pathveil.corpus.synth") / "data" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def blocks(name: str) -> list[tuple[str, list[str], list[str]]]:
    """Each block's name, the words after its name, and its lines."""
    found: list[tuple[str, list[str], list[str]]] = []
    for line in lines(name):
        if line.startswith("@"):
            first, *rest = line[1:].split()
            found.append((first, rest, []))
        else:
            found[-1][2].append(line)
    return found


def options(line: str) -> tuple[str, list[str]]:
    """A line ``key: option; option`` taken apart."""
    key, _, rest = line.partition(": ")
    return key, rest.split("; ")
