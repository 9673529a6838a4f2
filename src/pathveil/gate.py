"""The door of a server: a listening socket that knows its connections and closes those that only take up room.

Anybody can open connections, so what counts is how long and how many before a good token was shown. A connection has a
few seconds to show one. Of those that have not yet, an address may hold a few and all addresses together some hundred;
one more closes another, drawn at random, so that a newcomer is always let in: a site needs some milliseconds to show
its token, and whoever sits idle gives way to it, however many they are and however fast they come. A site that is
known may hold a few connections, and an idle one is closed in time.

asyncio takes connections from ``Gate.accept`` and closes them with ``Connection.close``: the only two moments that the
count hangs on.

>>> gate = Gate(("127.0.0.1", 0), clock=lambda: 0.0)
>>> clients = [socket.create_connection(gate.getsockname()) for _ in range(3)]
>>> kept = [gate.accept()[0] for _ in clients]
>>> gate.unknown, gate.known
(3, 0)
>>> gate.admit(clients[0].getsockname(), "R1")
>>> gate.unknown, gate.known
(2, 1)
>>> for one in (*clients, *kept, gate):
...     one.close()
"""

import ipaddress
import random
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

SHOW = 10.0  # seconds from the first byte of TCP to a good token: handshake, headers and all
IDLE = 120.0  # seconds a known site's connection may go without a request
AN_ADDRESS = 64  # connections of one address without a token yet
ALL = 256  # connections without a token yet
A_SITE = 32  # connections of a site
WAITING = 1_024  # connections that the system holds for us


class Limits(NamedTuple):
    """What a gate allows; a server with other needs has a gate with other ones."""

    show: float  # seconds for a stranger to become known
    idle: float  # seconds that one who is known may be silent
    an_address: int  # strangers of an address
    strangers: int  # of all addresses
    a_site: int  # connections of one who is known


class Connection(socket.socket):
    """A connection that tells its gate when it is closed."""

    gate: "Gate"
    place: tuple[str, int]  # the other end
    address: str  # what is counted together
    since: float  # accepted, or last asked for something
    site: str | None

    def close(self) -> None:
        self.gate.forget(self)
        super().close()

    def drop(self) -> None:
        """End it from both sides; the server's loop then closes it as if the other end had gone."""
        self.gate.forget(self)
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)


class Gate(socket.socket):
    """A listening socket with limits; OSError where the address cannot be listened on."""

    @property
    def limits(self) -> Limits:
        return Limits(SHOW, IDLE, AN_ADDRESS, ALL, A_SITE)

    def __init__(self, place: tuple[str, int], *, clock: Callable[[], float] = time.monotonic):
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        super().__init__(family, socket.SOCK_STREAM)
        self.clock = clock
        self._connections: dict[tuple[str, int], Connection] = {}  # oldest first
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind(place)
            self.listen()
        except OSError:
            self.close()
            raise

    def listen(self, backlog: int = WAITING, /) -> None:
        """Have the system hold many, whatever number the loop takes from it at a time."""
        super().listen(max(backlog, WAITING))

    def accept(self) -> tuple[Connection, Any]:
        taken, place = super().accept()
        connection = Connection(fileno=taken.detach())
        connection.gate, connection.site, connection.since = self, None, self.clock()
        connection.place, connection.address = place[:2], _address(place[0])
        self._connections[connection.place] = connection
        self._make_room(connection.address)
        return connection, place

    def _make_room(self, address: str) -> None:
        """Close one of an address that has too many, or of the address that has most where all have too many; never
        the newest, and no certain one: whoever opens connections fast could else push others out before their turn."""
        waiting = [one for one in self._connections.values() if one.site is None]
        mine = [one for one in waiting if one.address == address]
        if len(mine) > self.limits.an_address:
            random.choice(mine[:-1]).drop()
        elif len(waiting) > self.limits.strangers:
            held: dict[str, list[Connection]] = {}
            for one in waiting:
                held.setdefault(one.address, []).append(one)
            most = max(held.values(), key=len)
            random.choice(most[:-1] or most).drop()

    def admit(self, place: tuple[str, int] | None, site: str) -> None:
        """A good token came over this connection."""
        connection = self._connections.pop(tuple(place or ())[:2], None)
        if connection is None:
            return
        connection.site, connection.since = site, self.clock()
        self._connections[connection.place] = connection  # the youngest
        mine = [one for one in self._connections.values() if one.site == site]
        if len(mine) > self.limits.a_site:
            mine[0].drop()

    def sweep(self) -> None:
        """Close what has stayed too long without a token, or without asking for anything."""
        now, limits = self.clock(), self.limits
        for one in list(self._connections.values()):
            if now - one.since > (limits.show if one.site is None else limits.idle):
                one.drop()

    def forget(self, connection: Connection) -> None:
        if self._connections.get(connection.place) is connection:
            del self._connections[connection.place]

    @property
    def unknown(self) -> int:
        return sum(one.site is None for one in self._connections.values())

    @property
    def known(self) -> int:
        return len(self._connections) - self.unknown


def _address(host: str) -> str:
    """What counts as one address: an IPv4 address, or the network that a single user of IPv6 is given.

    >>> _address("192.0.2.7"), _address("2001:db8::1:2:3:4"), _address("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
