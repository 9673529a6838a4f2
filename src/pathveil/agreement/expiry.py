"""When an agreement is over by the clock: what a server may still answer, and when it may erase by itself.

A clock that was set wrong must not cost an agreement its key. A server refuses as soon as its clock says that the
agreement has expired, but erases by itself only if it was started before the end and has itself run past it, by a clock
that nobody can set. In every other case a person is asked.

>>> from datetime import timedelta
>>> wall, running = [datetime(2026, 1, 1, tzinfo=UTC)], [0.0]
>>> expiry = Expiry(wall[0] + timedelta(days=1), now=lambda: wall[0], running=lambda: running[0])
>>> wall[0] += timedelta(days=2)   # somebody sets the clock
>>> expiry.passed, expiry.certain
(True, False)
>>> running[0] += 86_400
>>> expiry.passed, expiry.certain
(True, True)
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Now = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def running_seconds() -> float:
    """Seconds on a clock that is never set; it runs on while the machine sleeps, where the system has such a clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Expiry:
    """The end of an agreement as a server sees it from its start on."""

    def __init__(self, end: datetime, *, now: Now = utc_now, running: Callable[[], float] = running_seconds):
        self.end, self.now, self.running = end, now, running
        self._started, self._mark = now(), running()

    @property
    def passed(self) -> bool:
        """Whether either clock says that the agreement has expired: nothing is answered then."""
        return self.now() >= self.end or self._ran_past

    @property
    def certain(self) -> bool:
        """Whether both clocks say so: the server may erase by itself."""
        return self.now() >= self.end and self._ran_past

    @property
    def _ran_past(self) -> bool:
        """Whether it was started before the end and has run past it."""
        return self._started < self.end <= self._started + timedelta(seconds=self.running() - self._mark)

    def sentence(self) -> str:
        """What the clock says, for whoever must decide whether it is right."""
        return f"by this machine's clock ({self.now():%Y-%m-%d %H:%M} UTC) it expired at {self.end:%Y-%m-%d %H:%M} UTC"
