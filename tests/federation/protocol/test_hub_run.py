"""Hub and sites by messages give the embedded numbers, go on after a kill, and refuse what is not right."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from pathveil.errors import FederationError
from pathveil.federation import embedded, wire
from pathveil.federation.noise import epsilon
from pathveil.federation.protocol.hub_run import HubRun
from pathveil.federation.protocol.message import KINDS, Message, outgoing, read, write
from pathveil.federation.protocol.plan import Plan, fitted
from pathveil.federation.protocol.site_run import SiteRun
from pathveil.federation.settings import FederationSettings
from pathveil.vocabulary.encoded import EncodedCorpus

SMALL = {"dim": 6, "filters": 4, "epochs": 2, "batch_size": 12}
SETTINGS = {
    "adversarial": FederationSettings(**SMALL),
    "strong": FederationSettings.strong(**SMALL, discriminator_steps=2, hidden=5),
    "fedavg": FederationSettings(**SMALL),
    "cyclic": FederationSettings(**SMALL),
}
pytestmark = pytest.mark.usefixtures("one_thread")


def plan_of(mode: str, *, sites: int = 3, **changes) -> Plan:
    settings = SETTINGS[mode].model_copy(update=changes)
    return Plan(
        mode=mode,
        sites=("A", "B", "C")[:sites],
        classes={"site": ("a", "b", "c"), "side": ("l", "r")},
        vocabulary="ab" * 32,
        vocabulary_size=40,
        settings=settings,
        seed=5,
    )


def reports(plan: Plan, name: str) -> EncodedCorpus:
    """Random documents; a label in nine is outside the agreed classes."""
    number = plan.sites.index(name)
    rng = np.random.default_rng(number)
    documents = 20 + 8 * number
    lengths = rng.integers(0, 15, documents)
    own = EncodedCorpus(
        ids=rng.integers(2, 40, lengths.sum()).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        cases=np.arange(documents) // 2,
        registries=np.zeros(documents, np.int32),
        registry_names=("somewhere",),
        labels={"site": rng.integers(0, 4, documents), "side": rng.integers(-1, 2, documents)},
        classes={"site": ("a", "b", "c", "not agreed"), "side": ("l", "r")},
        vocabulary_size=40,
    )
    taken, dropped = fitted(own, plan, name)
    assert dropped == (np.asarray(own.labels["site"]) == 3).sum() > 0
    return taken


def site_run(plan: Plan, name: str, folder: Path) -> SiteRun:
    return SiteRun(plan, reports(plan, name), name=name, session="ab12", folder=folder / name)


class Cut(Exception):
    """Everything was killed."""


def drive(
    plan: Plan, folder: Path, *, pause: float = 0.0, cut: int | None = None, asked: list[Message] | None = None
) -> HubRun:
    """All sites in turn, one message each; killed after ``cut`` messages. The hub's questions are left in ``asked``."""
    hub_run = HubRun(plan, folder=folder / "hub", pause=pause)
    site_runs = {name: site_run(plan, name, folder) for name in plan.sites}
    pending = {name: one.hello() for name, one in site_runs.items()}
    sent = 0
    while pending:
        for name in list(pending):
            if sent == cut:
                raise Cut
            sent += 1
            question = read(hub_run.exchange(name, pending[name], wait=0), sender="hub")
            if question.facts.get("end"):
                del pending[name]
            elif question.facts.get("wait"):
                pending[name] = site_runs[name].say({"waiting": True})
            else:
                assert "refused" not in question.facts
                if asked is not None:
                    asked.append(question)
                pending[name] = site_runs[name].answer(question)
    return hub_run


def best(hub_run: HubRun) -> dict[str, np.ndarray]:
    return dict(hub_run.course.arrays(hub_run.exchanges[-1]))


@pytest.mark.parametrize("mode", SETTINGS)
def test_messages_give_the_embedded_numbers(mode, tmp_path):
    plan, asked = plan_of(mode), list[Message]()
    hub_run = drive(plan, tmp_path, asked=asked)
    data = [reports(plan, name) for name in plan.sites]
    if plan.plain:
        sites = [plan.plain_site(own, name) for own, name in zip(data, plan.sites, strict=True)]
        history = embedded.train_plain(sites, cyclic=mode == "cyclic", stage="")
        expected = wire.arrays_of(sites[0].model)
    else:
        sites = [plan.site(own, name) for own, name in zip(data, plan.sites, strict=True)]
        hub, history = embedded.train(sites, plan.shared(), settings=plan.settings, joint=False)
        expected = hub.best
    for name, array in expected.items():
        np.testing.assert_array_equal(best(hub_run)[name], array, err_msg=name)
    told = hub_run.course.history
    assert told.validation_loss == history.validation_loss and told.feature_norm == history.feature_norm
    assert (told.rounds, told.sent, told.received) == (history.rounds, history.sent, history.received)
    if not plan.plain:  # a site that has the encoder is not sent it again
        assert sum(wire.size(one.arrays) for one in asked if one.facts["do"] == "round") == told.sent
        again = [one for one in asked if one.facts["do"] == "round" and one.facts["turns"][0]["again"]]
        assert bool(again) == (mode == "strong")
        assert all(name.startswith("discriminator.") for one in again for name in one.arrays)
    assert hub_run.finished and not told.refused
    left = json.loads((tmp_path / "hub" / plan.run / "result" / "history.json").read_text())
    assert left["validation_loss"] == told.validation_loss
    for name in plan.sites:
        own = {path.name for path in (tmp_path / name / plan.run / "model").iterdir()}
        assert own == {"shared.safetensors", "plan.json", "scores.json"} | (
            set() if plan.plain else {"private.safetensors"}
        )


def test_several_local_steps_equal_the_embedded_ones(tmp_path):
    plan = plan_of("adversarial", local_steps=3)
    hub_run = drive(plan, tmp_path)
    sites = [plan.site(reports(plan, name), name) for name in plan.sites]
    hub, _ = embedded.train(sites, plan.shared(), settings=plan.settings, joint=False)
    for name, array in hub.best.items():
        np.testing.assert_array_equal(best(hub_run)[name], array, err_msg=name)


@pytest.mark.parametrize(("mode", "local"), [*((mode, 1) for mode in SETTINGS), ("strong", 3)])
def test_a_kill_at_any_moment_changes_nothing(mode, local, tmp_path):
    plan = plan_of(mode, sites=2, epochs=6 if mode in ("fedavg", "cyclic") else 2, local_steps=local)
    whole = drive(plan, tmp_path / "whole")
    # Cut again and again, at moments that fall between a site's save and the hub's too.
    for number, cuts in enumerate([(3,), (8, 5), (11, 12, 2), (15, 3), (21,)]):
        folder = tmp_path / str(number)
        for cut in cuts:
            with pytest.raises(Cut):
                drive(plan, folder, cut=cut)
        hub_run = drive(plan, folder)
        assert hub_run.resumed >= 0 or max(cuts) < 21
        for name, array in best(whole).items():
            np.testing.assert_array_equal(best(hub_run)[name], array, err_msg=f"{cuts} {name}")
        assert hub_run.course.history.validation_loss == whole.course.history.validation_loss
    for name in plan.sites:
        assert len(list((tmp_path / "0" / name / plan.run).glob("state-*"))) <= 2


def test_rounds_that_a_restart_repeats_count_for_the_privacy_loss(tmp_path, monkeypatch):
    """What left each site is counted at its gate here; the account has to be of that, and not of the rounds."""
    plan = plan_of("adversarial", sites=2, clip=1.0, noise=1.0, epochs=3)
    left, answer = dict.fromkeys(plan.sites, 0), SiteRun.answer

    def counted(self, question):
        data = answer(self, question)
        left[self.name] += bool(read(data, sender=self.name).arrays)
        return data

    monkeypatch.setattr(SiteRun, "answer", counted)
    with pytest.raises(Cut):
        drive(plan, tmp_path, pause=1000, cut=15)
    before = dict(left)
    hub_run = drive(plan, tmp_path, pause=1000)
    history = hub_run.course.history
    assert min(before.values()) > 2 and hub_run.resumed == -1  # nothing was saved: all of it was repeated
    assert max(left.values()) == history.updates == history.rounds + max(before.values()) == hub_run.result().updates
    assert history.epsilon[-1] == epsilon(multiplier=1.0, updates=max(left.values()), delta=1e-5)
    assert history.epsilon[-1] > epsilon(multiplier=1.0, updates=history.rounds, delta=1e-5)


@pytest.mark.parametrize("mode", ["fedavg", "cyclic"])
def test_a_plain_network_is_accounted_for_once_an_epoch(mode, tmp_path):
    plan = plan_of(mode, sites=2, clip=1.0, noise=0.5, epochs=2)
    history = drive(plan, tmp_path).course.history
    assert not history.refused and history.updates == 2
    assert history.epsilon == [epsilon(multiplier=0.5, updates=updates, delta=1e-5) for updates in (1, 2)]


def test_an_update_is_counted_on_disk_before_it_leaves(tmp_path, monkeypatch):
    plan = plan_of("adversarial", sites=2)
    one = site_run(plan, "A", tmp_path)
    path = tmp_path / "A" / plan.run / "updates.json"
    on_disk = []
    monkeypatch.setattr(one, "say", lambda *a, **o: on_disk.append(json.loads(path.read_text())["updates"]))
    course = HubRun(plan, folder=tmp_path / "hub").course
    counts = [one.work.documents, 24]
    for number, exchange in enumerate(course.exchanges(counts)[:3]):
        if number == 2:
            path.write_text("many")
            with pytest.raises(FederationError, match="does not tell how many updates have left; nothing was sent"):
                one.answer(Message({"round": 2, "counts": counts} | exchange.facts(), course.arrays(exchange)))
        else:
            one.answer(Message({"round": number, "counts": counts} | exchange.facts(), course.arrays(exchange)))
    assert on_disk == [1, 2]


def test_a_finished_run_can_be_asked_for_again(tmp_path):
    plan = plan_of("adversarial", sites=2)
    first = drive(plan, tmp_path, pause=1000)
    again = drive(plan, tmp_path, pause=1000)
    assert again.resumed == len(again.exchanges) - 1
    np.testing.assert_array_equal(best(first)["encoder.embedding.weight"], best(again)["encoder.embedding.weight"])


def test_a_site_without_its_part_stops_the_run(tmp_path):
    plan = plan_of("adversarial", sites=2)
    with pytest.raises(Cut):
        drive(plan, tmp_path, cut=14)
    for path in (tmp_path / "B" / plan.run).glob("state-*"):
        path.unlink()
    hub_run = drive(plan, tmp_path)
    assert hub_run.stopped.startswith("B: does not have its part of round")


# What a hub does with a site that is not as it should be. The site's gate is gone round: messages are made by hand.


@pytest.fixture
def begun(tmp_path):
    """A run of three sites at its first round, and each site's right answer to it."""
    plan = plan_of("adversarial")
    hub_run = HubRun(plan, folder=tmp_path / "hub", pause=1000)
    site_runs = {name: site_run(plan, name, tmp_path) for name in plan.sites}
    for name, one in site_runs.items():
        hub_run.exchange(name, one.hello(), wait=0)
    answers = {}
    for name, one in site_runs.items():
        question = read(hub_run.exchange(name, one.say({"waiting": True}), wait=0), sender="hub")
        answers[name] = read(one.answer(question), sender=name)
    return hub_run, site_runs, answers


def changed(message: Message, *, arrays=None, **facts) -> bytes:
    return write(Message(dict(message.facts) | facts, message.arrays if arrays is None else arrays))


BAD_UPDATES = {
    "not finite": lambda arrays: {name: np.full_like(array, np.nan) for name, array in arrays.items()},
    "has shape": lambda arrays: arrays | {"encoder.embedding.weight": np.zeros((3, 2), np.float32)},
    "has type": lambda arrays: arrays | {"encoder.embedding.weight": np.zeros((40, 6))},
    "is not a shared parameter": lambda arrays: arrays | {"heads.site.weight": np.zeros(2, np.float32)},
    "are missing": lambda arrays: {},
}


@pytest.mark.parametrize("fault", BAD_UPDATES)
def test_a_bad_update_is_left_out_and_named(begun, fault):
    hub_run, _, answers = begun
    bad = BAD_UPDATES[fault](dict(answers["B"].arrays))
    for name in "AC":
        hub_run.exchange(name, changed(answers[name]), wait=0)
    reply = read(hub_run.exchange("B", changed(answers["B"], arrays=bad), wait=0), sender="hub")
    assert reply.facts["round"] == 1  # training goes on
    (line,) = hub_run.course.history.refused
    assert line.startswith("B: ") and fault in line


def test_a_poisoned_update_is_left_out_and_named(begun):
    hub_run, site_runs, answers = begun
    pending = dict(answers)
    for number in range(3):
        for name, message in list(pending.items()):
            if number == 2 and name == "C":
                message = Message(message.facts, {key: array * 1e4 for key, array in message.arrays.items()})
            hub_run.exchange(name, write(message), wait=0)
        if number < 2:
            for name, one in site_runs.items():
                question = read(hub_run.exchange(name, one.say({"waiting": True}), wait=0), sender="hub")
                pending[name] = read(one.answer(question), sender=name)
    assert hub_run.round == 3
    (line,) = hub_run.course.history.refused
    assert line.startswith("C: its update has norm") and "times the usual" in line


WRONG = {
    "stale": {"round": -1},
    "refused as stale": {"round": 7},
    "another run": {"run": "00"},
    "second process": {"session": "99"},
    "does not say which round": {"round": "seven"},
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_message_that_does_not_belong_is_refused_and_named(begun, fault):
    hub_run, _, answers = begun
    hub_run.exchange("A", changed(answers["A"]), wait=0)
    message = answers["B"]
    facts = WRONG[fault]
    if facts.get("round") == -1:  # of a round that is over
        for name in "BC":
            hub_run.exchange(name, changed(answers[name]), wait=0)
        hub_run.exchange("B", write(Message({"run": hub_run.plan.run, "session": "ab12", "waiting": True})), wait=0)
        message, facts = answers["B"], {"round": -5}
    reply = read(hub_run.exchange("B", changed(message, **facts), wait=0), sender="hub")
    assert fault in reply.facts["refused"] and reply.facts["refused"].startswith("B: ")
    assert hub_run.course.history.refused == [reply.facts["refused"]] and not hub_run.stopped


def test_strangers_and_noise_are_refused(begun):
    hub_run, _, answers = begun
    for site, data in (("Z", changed(answers["A"])), ("A", b"\x00" * 50), ("A", b"")):
        assert "refused" in read(hub_run.exchange(site, data, wait=0), sender="hub").facts
    assert hub_run.round == 0 and not hub_run.answers


def test_a_message_sent_twice_counts_once(begun):
    hub_run, _, answers = begun
    for name in "AAB":
        assert read(hub_run.exchange(name, changed(answers[name]), wait=0), sender="hub").facts == {"wait": True}
    reply = read(hub_run.exchange("C", changed(answers["C"]), wait=0), sender="hub")
    again = read(hub_run.exchange("C", changed(answers["C"]), wait=0), sender="hub")
    assert reply.facts == again.facts and reply.facts["round"] == 1
    assert hub_run.course.history.rounds == 1


def say_all(hub_run: HubRun, site_runs: dict[str, SiteRun], change, *, until: str) -> dict[str, Message]:
    """All sites in turn until a kind of question was answered; ``change`` has B's answers to it. The last replies."""
    pending, replies = {name: one.say({"waiting": True}) for name, one in site_runs.items()}, {}
    for _ in range(200):
        for name, one in site_runs.items():
            question = read(hub_run.exchange(name, pending[name], wait=0), sender="hub")
            replies[name] = question
            if question.facts.get("end") or question.facts.get("wait") or "refused" in question.facts:
                pending[name] = one.say({"waiting": True})
                continue
            pending[name] = one.answer(question)
            if name == "B" and question.facts["do"] == until:
                pending[name] = write(change(read(pending[name], sender="B")))
        if hub_run.stopped or len(hub_run.course.history.validation_loss) > 1 or hub_run.course.history.refused:
            return replies
    raise AssertionError(f"everyone waits in round {hub_run.round}")


ODD = {"text": "abc", "list": [1], "nothing": None, "not a number": float("nan"), "below": -1.0, "endless": 10**400}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    ("kind", "fact"),
    [
        ("round", "updates"),
        ("close", "loss"),
        ("close", "feature_norm"),
    ],
)
def test_an_odd_fact_is_refused_and_named_and_the_run_goes_on(kind, fact, odd, tmp_path):
    plan = plan_of("adversarial", sites=2, epochs=1)
    hub_run = HubRun(plan, folder=tmp_path / "hub", pause=1000)
    site_runs = {name: site_run(plan, name, tmp_path) for name in plan.sites}
    for name, one in site_runs.items():
        hub_run.exchange(name, one.hello(), wait=0)

    def change(message: Message) -> Message:
        return Message(dict(message.facts) | {fact: ODD[odd]}, message.arrays)

    say_all(hub_run, site_runs, change, until=kind)
    (line,) = hub_run.course.history.refused
    assert line.startswith(f"B: its '{fact}' is not a ") and not hub_run.stopped


def test_the_facts_of_all_answers_were_made_odd_above():
    known = {(kind, fact) for kind in ("round", "epoch", "close", "finish") for facts in KINDS[kind] for fact in facts}
    assert {fact for _, fact in known} == {"round", "updates", "loss", "feature_norm"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: Message(dict(m.facts) | {"label": "smith"}, m.arrays), "says more than was asked for"),
        (lambda m: Message({k: v for k, v in m.facts.items() if k != "loss"}), "does not tell its 'loss'"),
        (lambda m: Message(m.facts, {"features": np.ones(3, np.float32)}), "sent arrays where none were asked for"),
        (lambda m: Message(dict(m.facts) | {"documents": 10**9}), "says more than was asked for"),
    ],
)
def test_an_answer_says_what_its_kind_says_and_nothing_else(begun, change, sentence):
    hub_run, site_runs, answers = begun
    for name, message in answers.items():
        hub_run.exchange(name, write(message), wait=0)
    say_all(hub_run, site_runs, change, until="close")
    (line,) = hub_run.course.history.refused
    assert line.startswith("B: ") and sentence in line and "smith" not in line


@pytest.mark.parametrize("saved", ["3", [1, "x"], None, {"0": 1}])
def test_a_site_that_greets_in_an_odd_way_stops_the_run_with_its_name(saved, tmp_path):
    plan = plan_of("adversarial", sites=2)
    with pytest.raises(Cut):
        drive(plan, tmp_path, cut=14)  # there is something to go on from
    hub_run = HubRun(plan, folder=tmp_path / "hub")
    hello = read(site_run(plan, "B", tmp_path).hello(), sender="B")
    reply = read(hub_run.exchange("B", changed(hello, saved=saved), wait=0), sender="hub")
    assert reply.facts["end"] and reply.facts["reason"] == "B: its 'saved' is not a list of rounds; refused"


def test_a_site_cannot_greet_again_with_other_numbers(begun):
    hub_run, site_runs, _ = begun
    hello = read(site_runs["B"].hello(), sender="B")
    assert "refused" not in read(hub_run.exchange("B", write(hello), wait=0), sender="hub").facts
    reply = read(hub_run.exchange("B", changed(hello, documents=10**6), wait=0), sender="hub")
    assert reply.facts["refused"].startswith("B: greeted again with other numbers")


@pytest.mark.parametrize("where", ["take", "arrays", "state"])
def test_a_defect_of_the_hub_ends_the_run_for_everybody(begun, monkeypatch, where, caplog):
    hub_run, site_runs, answers = begun
    hub_run.saving = True

    def broken(*arguments, **options):
        raise ValueError("smith")

    monkeypatch.setattr(hub_run.course, where, broken)
    replies = [read(hub_run.exchange(name, write(message), wait=0), sender="hub") for name, message in answers.items()]
    assert replies[-1].facts["end"]
    for name, one in site_runs.items():
        told = read(hub_run.exchange(name, one.say({"waiting": True}), wait=0), sender="hub").facts
        assert told["end"] and "the hub's program failed in round" in told["reason"] and "ValueError" in told["reason"]
    assert hub_run.status()["stopped"] == hub_run.result().stopped == told["reason"] and not hub_run.finished
    assert "test_hub_run.py:" in caplog.text and "smith" not in caplog.text + told["reason"]


def test_a_fault_of_a_site_stops_the_run_with_its_name(begun):
    hub_run, site_runs, _ = begun
    reply = read(hub_run.exchange("B", site_runs["B"].say({"fault": "words"}), wait=0), sender="hub")
    assert reply.facts["end"] and "B: its vocabulary is not the one" in reply.facts["reason"]


def test_a_silent_site_is_named(begun, monkeypatch):
    hub_run, _, _ = begun
    assert not hub_run.silent(5)
    now = time.monotonic()
    monkeypatch.setattr("pathveil.federation.protocol.hub_run.time.monotonic", lambda: now + 6)
    hub_run.alive("B")
    assert hub_run.silent(5) == ["A", "C"]
    late = HubRun(hub_run.plan, folder=hub_run.folder)  # no site has come yet
    monkeypatch.setattr("pathveil.federation.protocol.hub_run.time.monotonic", lambda: now + 60)
    assert not late.silent(5)
    monkeypatch.setattr("pathveil.federation.protocol.hub_run.time.monotonic", lambda: now + 80)
    assert late.silent(5) == ["A", "B", "C"]


def test_without_any_usable_update_the_run_stops(begun):
    hub_run, _, answers = begun
    for name, message in answers.items():
        hub_run.exchange(name, changed(message, arrays={}), wait=0)
    assert "no site sent a usable update" in hub_run.stopped


# The site's gate.


@pytest.mark.parametrize(
    "facts",
    [
        {"label": "C50"},
        {"round": "12"},
        {"documents": 3.5},
        {"run": "smith"},
        {"session": "f" * 65},
        {"saved": ["smith"]},
        {"fault": "patient smith"},
        {"loss": [1.0]},
        {"waiting": 1},
    ],
)
def test_the_gate_lets_only_listed_facts_out(facts):
    with pytest.raises(FederationError, match="nothing was sent"):
        outgoing(facts, {}, manifest={}, sender="A")


def test_the_gate_lets_no_private_parameter_feature_or_label_out(tmp_path):
    plan = plan_of("adversarial")
    one = site_run(plan, "A", tmp_path)
    site = one.work.site
    manifest = one.work.manifest
    shared = {name: np.zeros(shape, np.float32) for name, shape in manifest.items()}
    leaks = {f"private.{name}": p.detach().numpy() for name, p in site.private.named_parameters()}
    leaks |= {"features": np.zeros((3, 12), np.float32), "labels": np.zeros(3, np.int64)}
    leaks |= {name: p.detach().numpy() for name, p in site.private.named_parameters() if name.startswith("heads.")}
    for name, array in leaks.items():
        with pytest.raises(FederationError, match="nothing was"):
            one.say({"round": 0}, shared | {name: array}, manifest=manifest)
    with pytest.raises(FederationError, match="nothing was"):  # nor a shared one, where none was asked for
        one.say({"waiting": True}, shared)
    assert read(one.say({"round": 0}, shared, manifest=manifest), sender="A").arrays.keys() == shared.keys()
