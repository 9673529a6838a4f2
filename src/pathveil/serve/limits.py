"""How much a client may ask for: requests a minute, the size of a body, and the time it takes to come.

>>> clock = [0.0]
>>> bucket = Buckets(2, clock=lambda: clock[0])
>>> bucket.take("lab"), bucket.take("lab"), bucket.take("lab")
(True, True, False)
>>> bucket.give_back("lab")
>>> bucket.take("lab", "other"), bucket.take("other", "lab"), bucket.take("other"), bucket.take("other")
(True, False, True, False)
>>> clock[0] = 30.0
>>> bucket.take("lab")
True
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from starlette.requests import Request

from pathveil.serve.faults import Fault
from pathveil.untrusted.body import read_body

REMEMBERED = 10_000  # names whose use is remembered; of more, those that came longest ago are forgotten


class Buckets:
    """So many a minute for each name: a bucket that fills evenly and can be emptied at once."""

    def __init__(self, a_minute: int, *, clock: Callable[[], float] = time.monotonic):
        self.size, self.clock = float(a_minute), clock
        self.left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, *names: str) -> bool:
        """Whether one more is allowed for each of the names; if so, it is counted for each."""
        if any(self.level(name) < 1 for name in names):
            return False
        self.add(-1, names)
        return True

    def give_back(self, *names: str) -> None:
        """Count one less: it was none of those that are limited."""
        self.add(1, names)

    def add(self, number: float, names: Iterable[str]) -> None:
        for name in names:
            level = self.level(name)
            self.left[name] = (min(self.size, level + number), self.left[name][1])

    def level(self, name: str) -> float:
        """How many are allowed now."""
        now = self.clock()
        level, since = self.left.pop(name, (self.size, now))
        level = min(self.size, level + (now - since) * self.size / 60)
        self.left[name] = (level, now)
        while len(self.left) > REMEMBERED:
            self.left.popitem(last=False)
        return level


async def read_limited(request: Request, *, most: int, seconds: float) -> bytes:
    """A request's body, if it is not too large and comes in time."""
    announced = request.headers.get("content-length", "0")
    return await read_body(request.stream(), announced=announced, most=most, seconds=seconds, refuse=Fault)
