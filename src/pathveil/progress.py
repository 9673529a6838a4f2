"""The one way a long step says how far it is: a callback, which the command line turns into a bar.

A step calls ``progress(stage, done, total)`` as it goes; ``total`` is 0 where it is not known. Stages are short phrases
("reading reports"); calls may come often, so a receiver must be quick. The library never prints.

>>> seen = []
>>> def note(stage: str, done: int, total: int) -> None:
...     seen.append(f"{stage} {done}/{total}")
>>> note("reading reports", 1, 2)
>>> seen
['reading reports 1/2']
"""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """The default: nobody is watching."""
