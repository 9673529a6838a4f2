"""Word lists and code lists that come along: text files of one layout, read from a package's ``data`` folder.

A file holds blocks; a block starts with ``@name`` (and perhaps more words) and lasts until the next. Lines that start
with ``#`` are remarks.

>>> [name for name, _, _ in blocks("corpus.synth", "people.txt")][:3]
['female', 'male', 'surnames']
"""

from importlib.resources import files


def lines(package: str, name: str) -> list[str]:
    """The lines of a list, without remarks and empty lines."""
    text = (files(f"pathveil.{package}") / "data" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def blocks(package: str, name: str) -> list[tuple[str, list[str], list[str]]]:
    """Each block's name, the words after its name, and its lines."""
    found: list[tuple[str, list[str], list[str]]] = []
    for line in lines(package, name):
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
