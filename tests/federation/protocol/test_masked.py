"""Masked answers: the hub's numbers are those of embedded training, what it gets is random, and what does not fit is
refused or named: another key, another round's masks, a replay, nonsense."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from federation.protocol.test_hub_run import Cut, best, changed, drive, plan_of, reports, site_run
from federation.test_identity import identities
from pathveil.errors import FederationError
from pathveil.federation import embedded, wire
from pathveil.federation.fixed_point import FixedPoint
from pathveil.federation.masking import Masks, SessionKey
from pathveil.federation.noise import epsilon
from pathveil.federation.protocol.hub_run import HubRun
from pathveil.federation.protocol.message import Message, read, write
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.protocol.site_run import SiteRun

pytestmark = pytest.mark.usefixtures("one_thread")


def embedded_best(plan: Plan) -> tuple[dict[str, np.ndarray], object]:
    data = {name: reports(plan, name) for name in plan.sites}
    if plan.plain:
        sites = [plan.plain_site(own, name) for name, own in data.items()]
        history = embedded.train_plain(sites, stage="")
        return wire.arrays_of(sites[0].model), history
    sites = [plan.site(own, name) for name, own in data.items()]
    hub, history = embedded.train(sites, plan.shared(), settings=plan.settings)
    return hub.best, history


@pytest.mark.parametrize(
    ("mode", "bits", "changes"),
    [
        ("adversarial", 32, {}),
        ("adversarial", 24, {"local_steps": 3, "largest_weight": 1.2}),
        ("strong", 16, {"local_steps": 3}),
        ("fedavg", 32, {}),
    ],
)
def test_masked_messages_give_the_embedded_numbers_to_the_bit(mode, bits, changes, tmp_path):
    plan = plan_of(mode, bits=bits, **changes)
    hub_run = drive(plan, tmp_path)
    expected, history = embedded_best(plan)
    for name, array in expected.items():
        np.testing.assert_array_equal(best(hub_run)[name], array, err_msg=name)
    told = hub_run.course.history
    assert told.validation_loss == history.validation_loss and told.feature_norm == history.feature_norm
    assert (told.rounds, told.sent, told.received) == (history.rounds, history.sent, history.received)
    assert told.clipped == history.clipped and hub_run.finished and not told.refused
    left = hub_run.result()
    assert left.bits == bits and f"masked sums of {bits} bits a number" in str(left)


def masked_run(folder: Path, *, identity: bool = False, **changes) -> tuple[HubRun, dict[str, SiteRun]]:
    """A hub and three sites that have greeted it."""
    plan = plan_of("adversarial", bits=32, **changes)
    known = identities(*plan.sites) if identity else {}
    trust = known["A"].trust if identity else None
    hub_run = HubRun(plan, folder=folder / "hub", pause=1000, trust=trust)
    site_runs = {
        name: SiteRun(
            plan,
            reports(plan, name),
            name=name,
            session=f"ab{number}",
            folder=folder / name,
            identity=known.get(name),
        )
        for number, name in enumerate(plan.sites)
    }
    for name, one in site_runs.items():
        hub_run.exchange(name, one.hello(), wait=0)
    return hub_run, site_runs


def questions(hub_run: HubRun, site_runs: dict[str, SiteRun]) -> dict[str, Message]:
    return {
        name: read(hub_run.exchange(name, one.say({"waiting": True}), wait=0), sender="hub")
        for name, one in site_runs.items()
    }


def answers(hub_run: HubRun, site_runs: dict[str, SiteRun]) -> dict[str, Message]:
    """Each site's answer to the running round."""
    asked = questions(hub_run, site_runs)
    return {name: read(site_runs[name].answer(question), sender=name) for name, question in asked.items()}


def take(hub_run: HubRun, messages: dict[str, Message]) -> Message:
    for name, message in messages.items():
        reply = hub_run.exchange(name, write(message), wait=0)
    return read(reply, sender="hub")


def test_a_sites_messages_are_random_bytes_and_no_distinguisher_tells_what_it_trained_on(tmp_path):
    """B trains on other reports in the second run, as many; A and C are the same. What B sends has the same form, and
    its bytes are even in both. Unmasked, the rows that are not zero name B's words."""
    sent: dict[int, list[Message]] = {}
    for number in range(2):
        hub_run, site_runs = masked_run(tmp_path / str(number), epochs=1)
        if number:
            own = reports(hub_run.plan, "B")
            own.ids[:] = np.random.default_rng(9).integers(2, 40, len(own.ids))
            site_runs["B"] = SiteRun(hub_run.plan, own, name="B", session="ab1", folder=tmp_path / "other")
            hub_run = HubRun(hub_run.plan, folder=tmp_path / "hub again", pause=1000)
            for name in site_runs:
                if name != "B":
                    site_runs[name] = site_run(hub_run.plan, name, tmp_path / "again")
                hub_run.exchange(name, site_runs[name].hello(), wait=0)
        sent[number] = []
        while not hub_run.finished and not hub_run.stopped:
            given = answers(hub_run, site_runs)
            sent[number].append(given["B"])
            take(hub_run, given)
        assert hub_run.finished, hub_run.stopped
    for one, two in zip(sent[0], sent[1], strict=True):
        assert one.facts.keys() == two.facts.keys() and set(one.facts) <= {"run", "session", "round", "updates"}
        assert {name: a.shape for name, a in one.arrays.items()} == {name: a.shape for name, a in two.arrays.items()}
    data = [
        np.concatenate([a.reshape(-1) for message in run for name, a in message.arrays.items() if name != "tags"])
        for run in sent.values()
    ]
    counts = np.array([np.bincount(own, minlength=256) for own in data])
    assert counts.sum() > 10_000
    for own in counts:
        assert chisquare(own).pvalue > 1e-6
    # Two samples of one distribution: each byte value is as common in either run.
    expected = counts.sum(0) * (counts.sum(1) / counts.sum())[:, None]
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < 255 + 6 * np.sqrt(2 * 255)
    zero = [np.concatenate([m.arrays["update"] for m in run if m.arrays]) for run in sent.values()]
    assert abs(np.mean(zero[0][: len(zero[1])] == zero[1]) - 1 / 256) < 0.01  # unmasked, most bytes would be equal


def test_the_sum_is_exactly_that_of_the_parts_and_one_missing_leaves_nothing(tmp_path, monkeypatch):
    parts = {}
    original = SiteRun.masked_answer

    def kept(self, masks, exchange, question):
        words = masks.arrays
        masks.arrays = lambda part, number: parts.setdefault(self.name, deepcopy(part)) and words(part, number)
        return original(self, masks, exchange, question)

    monkeypatch.setattr(SiteRun, "masked_answer", kept)
    hub_run, site_runs = masked_run(tmp_path)
    given = answers(hub_run, site_runs)
    hub_sum = hub_run.sum
    assert hub_sum is not None
    added = hub_sum.added([message.arrays["update"] for message in given.values()], "numbers")
    assert (added == sum(part.update for part in parts.values())).all() and added.any()
    without = hub_sum.added([given[name].arrays["update"] for name in "AC"], "numbers")
    form = FixedPoint(32, 3)
    assert np.count_nonzero(np.abs(without) > form.most) > 0.4 * len(without)


@pytest.mark.parametrize("way", ["ranges", "parameters", "earlier"])
def test_a_hub_that_has_the_others_answer_with_nothing_does_not_get_one_sites_part(way, tmp_path, monkeypatch):
    """It tells all sites but A ranges in which everything rounds to zero, or parameters under which nothing is learned:
    the sum would be A's part. Or it does so in one round, whose sum it throws away, and asks for the next one as usual,
    where sites go on with what they had. The control: without codes of the question it is A's, to the bit."""

    def isolated(folder: Path) -> tuple[HubRun, dict[str, Message]]:
        hub_run, site_runs = masked_run(folder)
        for _ in range(2 if way == "earlier" else 1):
            asked = questions(hub_run, site_runs)
            number = asked["A"].facts["round"]
            for name in ("B", "C") if number == 0 else ():
                facts, arrays = dict(asked[name].facts), dict(asked[name].arrays)
                if way == "ranges":
                    facts["ranges"] = dict.fromkeys(facts["ranges"], 60)
                else:
                    arrays = {key: np.zeros_like(array) for key, array in arrays.items()}
                asked[name] = Message(facts, arrays)
            given = {name: read(one.answer(asked[name]), sender=name) for name, one in site_runs.items()}
            hub_run.round += 1  # whatever the sum of the last round said
            hub_run.answered = dict.fromkeys(given, number)
        return hub_run, given

    def outcome(folder: Path) -> tuple[np.ndarray, bool]:
        hub_run, given = isolated(folder)
        assert hub_run.sum is not None
        added = hub_run.sum.added([message.arrays["update"] for message in given.values()], "numbers")
        try:
            hub_run.sum.compare_tags({name: message.arrays["tags"] for name, message in given.items()})
        except FederationError:
            return added, False
        return added, True

    form = FixedPoint(32, 3)
    added, alike = outcome(tmp_path / "bound")
    assert not alike and np.count_nonzero(np.abs(added) > form.most) > 0.4 * len(added)  # noise
    monkeypatch.setattr(Masks, "bind", lambda self, number, question: None)
    added, alike = outcome(tmp_path / "free")
    assert alike and np.abs(added).max() <= form.most and added.any()
    if way == "ranges":
        parts = kept_parts(tmp_path / "alone", monkeypatch)
        np.testing.assert_array_equal(added, parts["A"])


def kept_parts(folder: Path, monkeypatch) -> dict[str, np.ndarray]:
    """Each site's numbers in the first round, before masking."""
    parts, original = {}, SiteRun.masked_answer

    def kept(self, masks, exchange, question):
        words = masks.arrays
        masks.arrays = lambda part, number: parts.setdefault(self.name, deepcopy(part)) and words(part, number)
        return original(self, masks, exchange, question)

    monkeypatch.setattr(SiteRun, "masked_answer", kept)
    answers(*masked_run(folder))
    return {name: part.update for name, part in parts.items()}


def test_the_hub_reads_nothing_before_the_last_site_has_answered(tmp_path):
    hub_run, site_runs = masked_run(tmp_path)
    given = answers(hub_run, site_runs)
    before = hub_run.course.arrays(hub_run.exchanges[0])
    for name in "AB":
        hub_run.exchange(name, write(given[name]), wait=0)
    assert hub_run.round == 0
    after = hub_run.course.arrays(hub_run.exchanges[0])
    assert all((after[name] == array).all() for name, array in before.items())
    assert take(hub_run, {"C": given["C"]}).facts["round"] == 1


def test_a_kill_at_any_moment_changes_nothing_and_no_mask_is_used_twice(tmp_path, monkeypatch):
    used, expand = set(), Masks.masked

    def watched(self, words, form, *, number, part):
        for pair in self.pairs.values():
            assert (self.name, pair, number, part) not in used
            used.add((self.name, pair, number, part))
        return expand(self, words, form, number=number, part=part)

    monkeypatch.setattr(Masks, "masked", watched)
    plan = plan_of("adversarial", bits=24, local_steps=3)
    whole = drive(plan, tmp_path / "whole")
    for number, cuts in enumerate([(5,), (11, 16)]):
        folder = tmp_path / str(number)
        for cut in cuts:
            with pytest.raises(Cut):
                drive(plan, folder, cut=cut)
        hub_run = drive(plan, folder)
        for name, array in best(whole).items():
            np.testing.assert_array_equal(best(hub_run)[name], array, err_msg=f"{cuts} {name}")
        assert hub_run.course.history.validation_loss == whole.course.history.validation_loss
    assert len(used) > 150
    for path in tmp_path.rglob("*.json"):  # no key is ever on disk
        assert "key" not in json.loads(path.read_text())


# Sites that are not as they should be.


def nonsense(message: Message, name: str) -> Message:
    arrays = dict(message.arrays)
    arrays[name] = np.random.default_rng(0).integers(0, 256, arrays[name].shape).astype(np.uint8)
    return Message(message.facts, arrays)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: nonsense(m, "facts"), "the sum over all sites cannot be read: .*masks hide which one"),
        (lambda m: nonsense(m, "update"), "cannot be read: it has numbers that are larger than .*masks hide which one"),
        (lambda m: nonsense(m, "tags"), "^B: its masks are of another key or another round than the others'"),
        (lambda m: Message(m.facts, {**m.arrays, "update": m.arrays["update"][:-4]}), "^B: 'update' has shape"),
        (lambda m: Message(m.facts, {**m.arrays, "update": m.arrays["update"].astype(np.float32)}), "^B: .* has type"),
        (lambda m: Message(m.facts, {**m.arrays, "more": m.arrays["tags"]}), "^B: 'more' is not a shared parameter"),
        (lambda m: Message(m.facts, {"tags": m.arrays["tags"]}), "^B: 2 shared parameters are missing"),
        (lambda m: Message({**m.facts, "loss": 1.0}, m.arrays), "^B: its message says more than was asked for"),
    ],
)
def test_a_part_that_is_not_right_ends_the_run_with_a_name_where_there_is_one(change, sentence, tmp_path):
    hub_run, site_runs = masked_run(tmp_path)
    given = answers(hub_run, site_runs)
    reply = take(hub_run, {"A": given["A"], "C": given["C"], "B": change(given["B"])})
    assert reply.facts["end"] and not hub_run.finished
    with pytest.raises(FederationError, match=sentence):
        raise FederationError(hub_run.stopped)
    assert hub_run.stopped.startswith(hub_run.course.history.refused[-1])


def test_a_replayed_round_and_masks_of_another_round_or_key_are_named(tmp_path):
    hub_run, site_runs = masked_run(tmp_path)
    first = answers(hub_run, site_runs)
    take(hub_run, first)
    second = answers(hub_run, site_runs)
    stale = read(hub_run.exchange("B", changed(first["B"], round=7), wait=0), sender="hub")
    assert "refused as stale" in stale.facts["refused"] and not hub_run.stopped
    replayed = Message(second["B"].facts, first["B"].arrays)  # the round before in this round's name
    take(hub_run, {"A": second["A"], "C": second["C"], "B": replayed})
    assert hub_run.stopped.startswith("B: its masks are of another key or another round")
    hub_run, site_runs = masked_run(tmp_path / "key")
    asked = questions(hub_run, site_runs)
    masks = site_runs["B"].masks
    assert masks is not None
    masks.agree(asked["B"].facts["keys"])
    other = SessionKey()
    public = {name: bytes.fromhex(offer["key"]) for name, offer in asked["B"].facts["keys"].items()}
    masks.masks = Masks("B", other, public | {"B": other.public}, run=hub_run.plan.run)
    asked["B"].facts.pop("keys")
    given = {name: read(one.answer(asked[name]), sender=name) for name, one in site_runs.items()}
    take(hub_run, given)
    assert hub_run.stopped.startswith("B: its masks are of another key")


def test_numbers_beyond_the_range_move_the_sum_no_farther_than_the_range(tmp_path):
    """A site without a gate adds the largest numbers there are: the others' parts bound what that does."""
    hub_run, site_runs = masked_run(tmp_path)
    given = answers(hub_run, site_runs)
    arrays, form = dict(given["B"].arrays), FixedPoint(32, 3)
    arrays["update"] = form.packed(form.unpacked(arrays["update"]) + np.uint32(2**30))
    exchange = hub_run.exchanges[0]
    before = hub_run.course.arrays(exchange)
    take(hub_run, {"A": given["A"], "C": given["C"], "B": Message(given["B"].facts, arrays)})
    (line,) = hub_run.course.history.refused
    assert line.startswith("all sites together: its update has norm") and not hub_run.stopped and hub_run.round == 1
    after = hub_run.course.arrays(exchange)
    assert all((after[name] == array).all() for name, array in before.items())


# Keys and who vouches for them.


def test_with_kits_every_key_is_signed_and_a_wrong_one_is_refused_by_hub_and_sites(tmp_path):
    hub_run, site_runs = masked_run(tmp_path, identity=True)
    asked = questions(hub_run, site_runs)
    offers = asked["A"].facts["keys"]
    assert set(offers) == {"A", "B", "C"} and all(len(offer["key"]) == 64 for offer in offers.values())
    masks = site_runs["A"].masks
    assert masks is not None
    own = SessionKey().public.hex()
    for wrong, sentence in (
        (
            {**offers, "B": {**offers["B"], "key": own}},
            "B: the signature of its key does not hold",
        ),  # the hub's own key
        ({**offers, "B": offers["C"]}, "B: its key is signed by another participant"),
        ({**offers, "B": {**offers["B"], "session": "cd"}}, "B: the signature of its key does not hold"),
        ({**offers, "B": {"key": own}}, "B: its key does not come with a signature"),
        ({"A": offers["A"], "B": offers["B"]}, "does not show a key of every site"),
        ({**offers, "D": offers["C"]}, "does not show a key of every site"),
        ({**offers, "B": None}, "B: its key is not there"),
        (None, "does not show a key of every site"),
    ):
        with pytest.raises(wire.PlanError, match=sentence):
            masks.agree(wrong)
    # B's kit was stolen and its certificate revoked; the hub still lets it in, and site A knows better.
    assert masks.identity is not None and site_runs["B"].masks is not None
    stolen, known = site_runs["B"].masks.identity, masks.identity
    assert stolen is not None
    listed = frozenset({stolen.certificate.serial_number})
    masks.identity = replace(known, trust=replace(known.trust, revoked=listed))
    with pytest.raises(wire.PlanError, match="B: its certificate was revoked; refused"):
        site_runs["A"].answer(asked["A"])
    assert masks.masks is None and not (site_runs["A"].folder / "updates.json").exists()
    masks.identity = known
    masks.agree(offers)
    with pytest.raises(wire.PlanError, match="shows the sites' keys a second time"):
        masks.agree(offers)
    # A site whose own greeting is not signed as it should be does not get as far.
    late = HubRun(hub_run.plan, folder=tmp_path / "late", trust=masks.identity.trust if masks.identity else None)
    hello = read(site_runs["B"].hello(), sender="B")
    reply = read(late.exchange("B", changed(hello, key=own), wait=0), sender="hub")
    assert reply.facts["end"] and reply.facts["reason"].startswith("B: the signature of its key does not hold")


def test_a_site_answers_nothing_without_keys_and_ranges(tmp_path):
    hub_run, site_runs = masked_run(tmp_path)
    (question, *_) = questions(hub_run, site_runs).values()
    one = site_runs["A"]
    facts = {name: value for name, value in question.facts.items() if name != "keys"}
    with pytest.raises(wire.PlanError, match="before it has shown the sites' keys"):
        one.answer(Message(facts, question.arrays))
    assert one.masks is not None
    some = next(iter(facts["ranges"]))
    for ranges in (None, {}, {some: 0}, {**facts["ranges"], some: 1.5}, {**facts["ranges"], some: 10**6}):
        with pytest.raises(wire.PlanError, match=r"the hub (does not tell the range|tells ranges)"):
            one.masks.exponents(ranges, one.work.may_leave(hub_run.exchanges[0]))


def test_noise_in_shares_is_accounted_for_as_the_noise_of_the_sum(tmp_path):
    plan = plan_of("adversarial", bits=32, clip=1.0, noise=2.0, epochs=1, local_steps=3)
    hub_run = drive(plan, tmp_path)
    history = hub_run.course.history
    assert not history.refused and history.updates == history.rounds > 1 and not history.clipped
    assert history.epsilon == [epsilon(multiplier=2.0, updates=history.rounds, delta=1e-5)]
    assert hub_run.course.ranges.known == {}  # no site's largest value was told
