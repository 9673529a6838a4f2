"""How much a client may ask for: requests a minute, the size of a body, and the time it takes to come.

>>> clock = iter([0.0, 0.0, 0.0, 30.0]).__next__
>>> bucket = Buckets(2, clock=clock)
>>> bucket.take("lab"), bucket.take("lab"), bucket.take("lab"), bucket.take("lab")
(True, True, False, True)
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request

from pathveil.foreign.body import read_body
from pathveil.serve.faults import Fault

REMEMBERED = 10_000  # names whose use is remembered; of more, those that came longest ago are forgotten


class Buckets:
    """So many a minute for each name: a bucket that fills evenly and can be emptied at once."""

    def __init__(self, a_minute: int, *, clock: Callable[[], float] = time.monotonic):
        self.size, self.clock = float(a_minute), clock
        self.left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> bool:
        """Whether one more is allowed; if so, it is counted."""
        level = self.level(name)
        if level < 1:
            return False
        self.left[name] = (level - 1, self.left[name][1])
        return True

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
