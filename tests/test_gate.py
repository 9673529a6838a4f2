"""The gate: who is closed when there are too many, and who stays too long."""

import socket
from contextlib import ExitStack

import pytest

from pathveil import gate as module
from pathveil.gate import Gate


@pytest.fixture
def opened(monkeypatch):
    """A gate with a clock that stands still, and a way to come through it from an address."""
    monkeypatch.setattr(module, "AN_ADDRESS", 4)
    monkeypatch.setattr(module, "ALL", 6)
    monkeypatch.setattr(module, "A_SITE", 2)
    now = [0.0]
    with ExitStack() as stack:
        gate = stack.enter_context(Gate(("127.0.0.1", 0), clock=lambda: now[0]))
        gate.settimeout(10)

        def come(address="127.0.0.1"):
            client = stack.enter_context(socket.socket())
            client.bind((address, 0))
            client.connect(gate.getsockname())
            client.settimeout(10)
            return client, stack.enter_context(gate.accept()[0])

        yield gate, come, now


def closed(client) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_an_address_gives_way_to_itself(opened):
    gate, come, _ = opened
    other = come("127.0.0.2")[0]
    crowd = [come()[0] for _ in range(12)]
    assert gate.unknown == 5 and sum(map(closed, crowd)) == 8
    assert not closed(crowd[-1]) and not closed(other)  # the newest is in, and who came from elsewhere


def test_where_all_are_full_the_greediest_address_gives_way(opened):
    gate, come, _ = opened
    crowd = [come("127.0.0.2")[0] for _ in range(4)]
    few = [come(f"127.0.0.{last}")[0] for last in (3, 4, 5)]
    assert gate.unknown == 6 and sum(map(closed, crowd)) == 1 and not any(map(closed, few))


def test_a_site_that_is_known_is_not_counted_with_strangers(opened):
    gate, come, _ = opened
    site = come()[0]
    gate.admit(site.getsockname(), "R1")
    for _ in range(20):
        come()
    assert not closed(site) and (gate.unknown, gate.known) == (4, 1)
    for _ in range(2):
        gate.admit(come()[0].getsockname(), "R1")
    assert closed(site) and gate.known == 2  # its own third
    gate.admit(None, "R1")
    gate.admit(("192.0.2.1", 1), "R1")  # one that is gone


def test_who_stays_too_long_is_closed(opened):
    gate, come, now = opened
    stranger, site = come()[0], come()[0]
    gate.admit(site.getsockname(), "R1")
    now[0] = module.SHOW + 1
    late = come()[0]
    gate.sweep()
    assert closed(stranger) and not closed(site) and not closed(late)
    now[0] = module.IDLE + 1
    gate.sweep()
    assert closed(site) and closed(late) and (gate.unknown, gate.known) == (0, 0)


def test_a_closed_connection_is_forgotten(opened):
    gate, come, _ = opened
    _, connection = come()
    connection.close()
    assert gate.unknown == 0
