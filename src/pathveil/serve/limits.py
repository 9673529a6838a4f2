"""How much a client may ask for: requests a minute, the size of a body, and the time it takes to come.

>>> clock = iter([0.0, 0.0, 0.0, 30.0]).__next__
>>> bucket = Buckets(2, clock=clock)
>>> bucket.take("lab"), bucket.take("lab"), bucket.take("lab"), bucket.take("lab")
(True, True, False, True)
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request

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
    too_large = Fault(413, f"the body is too large; at most {most:,} bytes are taken")
    announced = request.headers.get("content-length", "0")
    if not re.fullmatch("[0-9]{1,15}", announced) or int(announced) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise Fault(408, f"the body did not come within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise Fault(400, "the client went away") from None
    return bytes(body)
