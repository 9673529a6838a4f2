"""Killed at every moment at which something is written, before and after the writing, and started again."""

import gc
import json
from contextlib import contextmanager

import pytest

from agreement.parties import key_holder, make_counts, plain_intersection, terms
from pathveil.agreement import client
from pathveil.agreement.hub import Hub
from pathveil.agreement.simulate import submit
from pathveil.agreement.site import Site
from pathveil.agreement.store import Store
from pathveil.vocabulary import Vocabulary

COUNTS = make_counts(3, 24, 4)


class Killed(BaseException):
    """What no code catches by mistake."""


class Parties:
    """All roles on their folders; ``Server`` stands in for the network and calls them directly."""

    def __init__(self, agreement, folder):
        self.agreement, self.folder = agreement, folder
        self.open()

    def open(self):
        self.roles = {name: key_holder(self.agreement, name, folder=self.folder / name) for name in ("north", "south")}
        self.roles["hub"] = Hub(self.agreement, folder=self.folder / "hub")

    def close(self):
        for role in self.roles.values():
            role.store.close()

    def server(self, agreement, name, *, token):
        role = self.roles[name]

        class Server:
            def call(self, method, path, body=b"", **_):
                what, _, number = path.partition("/")
                if what == "points":
                    return 200, role.answer(token, int(number), body)
                if what == "set":
                    return 200, json.dumps({"missing": role.begin(token, **json.loads(body))}).encode()
                if what == "tags":
                    return 200, role.put(token, int(number), body) or b""
                if what == "result":
                    return 200, role.result(token)
                return 200, getattr(role, what)(token) or b""

            def close(self):
                pass

        return Server()


def others(agreement, parties):
    """The other two sites are through already and wait for R1."""
    for name in ("R2", "R3"):
        site = Site(agreement, name, COUNTS[name])
        for number in site.pending():
            points = site.points(number)
            for holder in ("north", "south"):
                points = site.check(holder, number, points, parties.roles[holder].answer(name, number, points))
            site.finish(number, points)
        for holder in ("north", "south"):
            parties.roles[holder].done(name)
        submit(site, parties.roles["hub"])


def take_part(agreement, folder) -> Vocabulary:
    """What the command does."""
    tokens = dict.fromkeys(("hub", "north", "south"), "R1")
    done = client.already_done(agreement, "R1", out=folder / "R1.json", folder=folder / "R1", tokens=tokens)
    if done:
        return done
    site = Site(agreement, "R1", COUNTS["R1"], folder=folder / "R1")
    try:
        return client.take_part(site, out=folder / "R1.json", tokens=tokens, workers=1)
    finally:
        site.store.close()


class Writes:
    """Counts what anyone writes, and kills before or after the given write."""

    def __init__(self, monkeypatch):
        self.at, self.after, self.count = 0, False, 0
        transaction, set_value = Store.transaction, Store.set_value

        @contextmanager
        def watched_transaction(store):
            number = self.next()
            with transaction(store) as database:
                yield database
                self.kill(number, after=False)  # takes it all back
            self.kill(number, after=True)

        def watched_set_value(store, key, value):
            if store.database.in_transaction:
                return set_value(store, key, value)
            number = self.next()
            self.kill(number, after=False)
            set_value(store, key, value)
            self.kill(number, after=True)

        monkeypatch.setattr(Store, "transaction", watched_transaction)
        monkeypatch.setattr(Store, "set_value", watched_set_value)

    def next(self) -> int:
        self.count += 1
        return self.count

    def kill(self, number: int, *, after: bool) -> None:
        if (number, after) == (self.at, self.after):
            raise Killed


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_every_write(tmp_path, monkeypatch, after):
    writes = Writes(monkeypatch)
    expected = plain_intersection(COUNTS, threshold=3, min_cases=6)
    moment, total = 0, 1
    while moment <= total:
        folder = tmp_path / str(moment)
        agreement = terms(batch=8, cap=16, min_cases=6)
        parties = Parties(agreement, folder)
        monkeypatch.setattr(client, "Server", parties.server)
        others(agreement, parties)
        writes.count, writes.at, writes.after = 0, moment, after
        killed = False
        try:
            vocabulary = take_part(agreement, folder)
        except Killed:
            killed = True
        if killed:
            writes.at = 0
            parties.close()
            gc.collect()  # a process that is gone has no files open
            parties.open()
            vocabulary = take_part(agreement, folder)
        if moment == 0:  # nobody was killed; so many moments there are
            total = writes.count
        assert killed == (moment > 0), moment
        assert set(vocabulary.words) == expected, moment
        for name in ("R2", "R3"):
            parties.roles["hub"].received(name)
        assert all(role.finished for role in parties.roles.values()), moment
        assert not any((folder / name / "key").exists() for name in parties.roles), moment
        assert list((folder / "R1").iterdir()) == [], moment
        parties.close()
        moment += 1
    assert total > 10
