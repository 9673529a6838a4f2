"""The hub counts right, answers only when all are in, and is not to be moved."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement.parties import digest, tag_set, terms
from pathveil.agreement.hub import HEADER, NOT_PASSED, TAG, Hub, as_array, ascending, count, ranks_of
from pathveil.errors import AgreementError

SETS = {"R1": {1, 2, 3}, "R2": {2, 3, 4}, "R3": {3, 4, 5}}


def refused(call, *arguments, **options) -> AgreementError:
    with pytest.raises(AgreementError) as error:
        call(*arguments, **options)
    return error.value


def send(hub: Hub, site: str, tags: bytes) -> None:
    size = hub.agreement.batch * TAG
    for number in hub.begin(site, commitment=digest(tags), batches=len(tags) // size):
        hub.put(site, number, tags[number * size : (number + 1) * size])


def places_of(hub: Hub, site: str) -> dict[int, int]:
    """Number of a tag: its place, for those of the site that passed."""
    result = hub.result(site)
    tags = tag_set(SETS[site], 8)
    found = np.frombuffer(result[HEADER:], "<u4")
    return {
        int.from_bytes(tags[TAG * row : TAG * row + TAG], "big"): int(place)
        for row, place in enumerate(found)
        if place != NOT_PASSED
    }


@given(
    sets=st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=12), min_size=2, max_size=7),
    threshold=st.integers(1, 7),
)
def test_counting_against_a_counter(sets, threshold):
    times = Counter(number for one in sets for number in one)
    arrays = [as_array(b"".join(number.to_bytes(TAG, "big") for number in sorted(one))) for one in sets]
    passed, histogram = count(arrays, threshold=threshold)
    expected = sorted(number for number, seen in times.items() if seen >= threshold)
    assert [int.from_bytes(row.tobytes(), "big") for row in passed] == expected
    assert histogram == {n: sum(seen == n for seen in times.values()) for n in range(1, len(sets) + 1)}
    for one, array in zip(sets, arrays, strict=True):
        rank = {number: place for place, number in enumerate(expected)}
        assert ranks_of(array, passed).tolist() == [rank.get(number, NOT_PASSED) for number in sorted(one)]


def test_ascending_is_of_bytes():
    low, high = b"\x00" * 15 + b"\xff", b"\x01" + b"\x00" * 15
    assert ascending(as_array(low + high))
    assert not ascending(as_array(high + low)) and not ascending(as_array(low + low))


def test_each_site_learns_the_places_of_its_own_tags():
    hub = Hub(terms())
    for site, numbers in SETS.items():
        send(hub, site, tag_set(numbers, 8))
    assert places_of(hub, "R1") == {3: 0}  # at all three
    assert hub.counts().tags_at_sites == {1: 2 + 3 * 5, 2: 2, 3: 1} and hub.counts().passed == 1
    hub = Hub(terms(threshold=2, allow_small_threshold=True))
    for site, numbers in SETS.items():
        send(hub, site, tag_set(numbers, 8))
    assert [places_of(hub, site) for site in SETS] == [{2: 0, 3: 1}, {2: 0, 3: 1, 4: 2}, {3: 1, 4: 2}]
    results = [hub.result(site) for site in SETS]
    assert len({result[:HEADER] for result in results}) == 1  # one number of words, one id space


def test_nothing_is_answered_before_all_are_in():
    hub = Hub(terms())
    send(hub, "R1", tag_set(SETS["R1"], 8))
    assert hub.result("R1") is None and hub.waiting_for == ["R2", "R3"]
    assert "not sent its whole set" in str(refused(hub.result, "R2"))
    assert "what is not there yet" in str(refused(hub.received, "R1"))


def test_a_site_may_repeat_but_not_change():
    hub = Hub(terms())
    tags = tag_set(SETS["R1"], 16)
    size = 8 * TAG
    bound = {"commitment": digest(tags), "batches": 2}
    assert hub.begin("R1", **bound) == [0, 1]
    hub.put("R1", 0, tags[:size])
    hub.put("R1", 0, tags[:size])  # its answer was lost
    assert hub.begin("R1", **bound) == [1]
    assert "cannot change" in str(refused(hub.put, "R1", 0, tags[size:]))
    hub.put("R1", 1, tags[size:])
    assert hub.begin("R1", **bound) == []
    other = tag_set({1, 2, 9}, 16)
    assert "another set" in str(refused(hub.begin, "R1", commitment=digest(other), batches=2))
    assert "another set" in str(refused(hub.begin, "R1", commitment=digest(tags), batches=1))
    assert "cannot change" in str(refused(hub.put, "R1", 0, other[:size]))


def test_tags_must_be_those_announced_each_once_in_order():
    tags = tag_set(SETS["R1"], 8)
    backwards = b"".join(reversed([tags[at : at + TAG] for at in range(0, len(tags), TAG)]))
    twice = tags[:TAG] + tags[:-TAG]
    for sent, bound in ((tags, digest(b"another")), (backwards, digest(backwards)), (twice, digest(twice))):
        hub = Hub(terms())
        hub.begin("R1", commitment=bound, batches=1)
        error = refused(hub.put, "R1", 0, sent)
        assert error.status == 422 and "they are dropped" in str(error)
        assert hub.waiting_for == ["R1", "R2", "R3"]
        assert hub.store.rows("SELECT COUNT(*) FROM tags") == [(0,)]


def test_sizes():
    hub = Hub(terms(cap=20))
    for batches in (0, 5, 4, -1):  # not on the ladder, or above the quota
        assert refused(hub.begin, "R1", commitment="0" * 64, batches=batches).status == 429
    hub.begin("R1", commitment="0" * 64, batches=3)
    assert refused(hub.put, "R1", 3, bytes(8 * TAG)).status == 429
    assert refused(hub.put, "R1", 0, bytes(9 * TAG)).status == 413
    assert refused(hub.put, "R1", 0, bytes(7 * TAG)).status == 400
    assert "first bind itself" in str(refused(hub.put, "R2", 0, bytes(8 * TAG)))


def test_strangers():
    hub = Hub(terms())
    for call in (hub.result, hub.received):
        assert refused(call, "R9").status == 403
    assert refused(hub.put, "R9", 0, b"").status == 403
    assert refused(hub.begin, "R9", commitment="", batches=1).status == 403


def test_it_resumes_and_forgets(tmp_path):
    agreement = terms()
    hub = Hub(agreement, folder=tmp_path)
    send(hub, "R1", tag_set(SETS["R1"], 8))
    hub.store.close()
    hub = Hub(agreement, folder=tmp_path)
    send(hub, "R1", tag_set(SETS["R1"], 8))
    for site in ("R2", "R3"):
        send(hub, site, tag_set(SETS[site], 8))
    results = {site: hub.result(site) for site in SETS}
    hub.store.close()
    hub = Hub(agreement, folder=tmp_path)
    assert {site: hub.result(site) for site in SETS} == results
    dummy = tag_set(SETS["R1"], 8)[-TAG:]
    assert dummy in (tmp_path / "state.sqlite").read_bytes()
    for site in SETS:
        hub.received(site)
    assert hub.finished
    hub.received("R1")  # its answer was lost
    assert refused(hub.result, "R1").status == 410
    assert hub.counts().passed == 1
    assert [path.name for path in tmp_path.iterdir() if dummy in path.read_bytes()] == []


@pytest.fixture
def clocks():
    """A wall clock that anyone can set, and one that only runs."""
    return {"wall": datetime.now(UTC), "running": 0.0}


def timed(clocks):
    return {"now": lambda: clocks["wall"], "running": lambda: clocks["running"]}


def test_a_server_that_ran_past_the_end_erases(clocks):
    hub = Hub(terms(days=1), **timed(clocks))
    send(hub, "R1", tag_set(SETS["R1"], 8))
    clocks["wall"] += timedelta(days=2)
    clocks["running"] += 2 * 86_400
    assert "it expired at" in str(refused(hub.result, "R1"))
    assert hub.finished and hub.store.rows("SELECT COUNT(*) FROM tags") == [(0,)]


def test_a_clock_that_was_set_erases_nothing(tmp_path, clocks):
    agreement = terms(days=1)
    hub = Hub(agreement, folder=tmp_path, **timed(clocks))
    send(hub, "R1", tag_set(SETS["R1"], 8))
    clocks["wall"] += timedelta(days=365)
    assert refused(hub.result, "R1").status == 410 and hub.expired and not hub.finished
    hub.store.close()
    hub = Hub(agreement, folder=tmp_path, **timed(clocks))  # started again with the wrong clock
    assert refused(hub.result, "R1").status == 410 and hub.expired and not hub.finished
    clocks["wall"] -= timedelta(days=365)  # and set right: nothing is lost
    for site in ("R2", "R3"):
        send(hub, site, tag_set(SETS[site], 8))
    assert hub.result("R1") is not None and not hub.expired
