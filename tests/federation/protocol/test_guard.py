"""A hub that asks for more than the plan says gets nothing, and a site that lies about its size gains nothing."""

import json

import numpy as np
import pytest

from federation.protocol.test_hub_run import plan_of, reports, site_run
from pathveil.federation import embedded
from pathveil.federation.protocol.course import course_of, exchanges_of
from pathveil.federation.protocol.hub_run import HubRun
from pathveil.federation.protocol.message import Message, fault_of, read, write
from pathveil.federation.protocol.plan import Plan, plan_run
from pathveil.federation.protocol.site_run import SiteRun
from pathveil.federation.wire import PlanError
from pathveil.vocabulary.words import Vocabulary

pytestmark = pytest.mark.usefixtures("one_thread")


class Asked:
    """A site, and the questions that an honest hub would put to it."""

    def __init__(self, plan: Plan, folder, name: str = "A"):
        self.plan, self.site, self.course = plan, site_run(plan, name, folder), course_of(plan)
        others = [len(site_run(plan, other, folder).work.site.train) for other in plan.sites]
        self.counts = others
        self.exchanges = self.course.exchanges(others)

    def question(self, number: int, **changes) -> Message:
        exchange = self.exchanges[number]
        facts = {"round": number, "keep": False, "save": False, "counts": self.counts, **exchange.facts()}
        return Message(facts | changes, self.course.arrays(exchange))


@pytest.fixture
def asked(tmp_path):
    return Asked(plan_of("strong"), tmp_path)


def turned(asked: Asked, number: int = 0, **changes) -> list[dict]:
    return [turn | changes for turn in asked.exchanges[number].facts()["turns"]]


OTHER_WORK = {
    "one report a step": lambda a: {"turns": turned(a, steps=a.site.work.documents)},
    "another step": lambda a: {"turns": turned(a, step=1)},
    "another epoch": lambda a: {"turns": turned(a, epoch=1)},
    "more epochs": lambda a: {"turns": turned(a, epochs=99)},
    "the encoder's gradient instead of the discriminator's": lambda a: {"turns": turned(a, discriminator_only=False)},
    "two steps together": lambda a: {"turns": turned(a) * 2},
    "none": lambda a: {"turns": []},
    "a turn of another form": lambda a: {"turns": [{"step": 0}]},
    "the validation loss": lambda a: {"do": "close", "turns": []},
    "something unknown": lambda a: {"do": "features"},
    "nothing": lambda a: {"do": None},
    "the epoch": lambda a: {"epoch": 1},
}


@pytest.mark.parametrize("what", OTHER_WORK)
def test_malicious_hub_that_asks_for_other_work_gets_nothing(asked, what):
    with pytest.raises(PlanError, match="in round 0 the hub asks for other work than the plan says") as refused:
        asked.site.answer(asked.question(0, **OTHER_WORK[what](asked)))
    assert fault_of(refused.value) == "plan"
    assert not (asked.site.folder / "updates.json").exists()  # nothing has left
    assert asked.site.answer(asked.question(0))  # the right question is still answered


WRONG_COUNTS = {
    "does not tell how many": lambda counts: None,
    "does not tell how many documents": lambda counts: counts[:2],
    "not whole numbers": lambda counts: [*counts[:2], 0],
    "not whole numbers from": lambda counts: [*counts[:2], 1e3],
    "another document count of this site": lambda counts: [1, *counts[1:]],
}


@pytest.mark.parametrize("sentence", WRONG_COUNTS)
def test_malicious_hub_cannot_make_up_document_counts(asked, sentence):
    with pytest.raises(PlanError, match=sentence):
        asked.site.answer(asked.question(0, counts=WRONG_COUNTS[sentence](asked.counts)))
    assert not (asked.site.folder / "agreed.json").exists()


def test_malicious_hub_cannot_change_the_counts_later_nor_in_a_later_process(asked, tmp_path):
    asked.site.answer(asked.question(0))
    smaller = [*asked.counts[:2], asked.counts[2] - 9]
    for site in (asked.site, site_run(asked.plan, "A", tmp_path)):
        with pytest.raises(PlanError, match="other document counts than when the run began"):
            site.answer(asked.question(0 if site is not asked.site else 1, counts=smaller))
    (asked.site.folder / "agreed.json").write_text("[]")
    with pytest.raises(PlanError, match="expected a JSON object"):
        site_run(asked.plan, "A", tmp_path).answer(asked.question(0))


def test_malicious_hub_cannot_ask_twice_skip_or_go_back(asked):
    asked.site.answer(asked.question(0))
    for number in (0, 2, len(asked.exchanges) - 1):
        with pytest.raises(PlanError, match="not the next one of the plan"):
            asked.site.answer(asked.question(number))
    for number in ("1", None, True, 1.0, 10**9):
        with pytest.raises(PlanError, match="not the next one of the plan"):
            asked.site.answer(asked.question(1, round=number))
    for start in (0, 0.0, "0", None, [0]):
        with pytest.raises(PlanError, match="go on from a round that this site has not saved"):
            asked.site.answer(asked.question(1, resume=True, **{"from": start}))
    with pytest.raises(PlanError, match="calls an epoch the best that is not closed"):
        asked.site.answer(asked.question(1, keep=True))
    assert asked.site.answer(asked.question(1))


def test_malicious_hub_that_restarts_a_run_for_ever_gets_no_more_updates(tmp_path):
    plan = plan_of("adversarial", sites=2, epochs=1)
    planned = sum(exchange.kind == "round" for exchange in exchanges_of(plan, Asked(plan, tmp_path / "x").counts))
    for times in range(5 * planned):
        one = Asked(plan, tmp_path)
        try:
            one.site.answer(one.question(0))
        except PlanError as error:
            assert "4 times as many have left" in str(error) and times == 4 * planned
            break
    else:
        raise AssertionError("a site went on answering")


def test_a_site_keeps_its_floor_whatever_the_plan_says(tmp_path):
    plan = plan_of("adversarial", sites=2, smallest_batch=4)
    own = reports(plan, "A")
    with pytest.raises(PlanError, match=r"batches of 4 cases, and this site takes part from 6 on \(--smallest-batch\)"):
        SiteRun(plan, own, name="A", session="ab", folder=tmp_path, least=6)
    site = SiteRun(plan, own, name="A", session="ab", folder=tmp_path, least=4).work.site
    (_, *_, last) = (turn for one in exchanges_of(plan, [len(site.train), 9]) for turn in one.turns)
    assert len(np.unique(own.cases[site.rows(last)])) >= 4
    with pytest.raises(PlanError, match=r"trains on .* documents, and the plan says at most 5"):
        SiteRun(plan.model_copy(update={"documents": {"A": 5}}), own, name="A", session="ab", folder=tmp_path)


def claimed(hub_run: HubRun, site_runs: dict[str, SiteRun], liar: str, documents: int) -> None:
    """Everybody greets; the liar's own software believes what it claims."""
    for name, one in site_runs.items():
        hello = read(one.hello(), sender=name)
        told = {"documents": documents} if name == liar else {}
        hub_run.exchange(name, write(Message(hello.facts | told)), wait=0)
    site_runs[liar].guard.documents = documents


def test_lying_site_neither_takes_the_average_over_nor_pushes_batches_down(tmp_path):
    plan = plan_of("adversarial", smallest_batch=3, largest_weight=3.0, batch_size=12)
    hub_run = HubRun(plan, folder=tmp_path / "hub", pause=1000)
    site_runs = {name: site_run(plan, name, tmp_path) for name in plan.sites}
    claimed(hub_run, site_runs, "C", 10**9)
    honest = [site_runs[name].work.documents for name in "AB"]
    assert hub_run.course.counts == [*honest, 3 * min(honest)] and not hub_run.stopped
    updates = {}
    for name, one in site_runs.items():
        question = read(hub_run.exchange(name, one.say({"waiting": True}), wait=0), sender="hub")
        updates[name] = read(one.answer(question), sender=name)
        (turn,) = question.facts["turns"]
        assert turn["steps"] <= -(-sum(hub_run.course.counts) // 12)
        if name != "C":
            rows = one.work.site.rows(hub_run.exchanges[0].turns[0])
            assert len(np.unique(one.reports.cases[rows])) >= 3
    shares = []
    take = hub_run.course.take

    def seen(exchange, answers):
        total = sum(message.facts["documents"] for _, message in answers)
        shares.extend(message.facts["documents"] / total for _, message in answers)
        return take(exchange, answers)

    hub_run.course.take = seen
    for name, message in updates.items():
        hub_run.exchange(name, write(message), wait=0)
    assert hub_run.round == 1 and shares[2] <= 3 / 5 + 0.1 and sum(shares) == pytest.approx(1)


def test_lying_site_that_claims_more_than_the_plan_stops_the_run_with_its_name(tmp_path):
    plan = plan_of("adversarial").model_copy(update={"documents": {"C": 40}})
    hub_run = HubRun(plan, folder=tmp_path / "hub")
    site_runs = {name: site_run(plan, name, tmp_path) for name in plan.sites}
    claimed(hub_run, site_runs, "C", 41)
    assert hub_run.stopped == "C: says it has 41 documents, the plan at most 40; refused"
    # And a hub that let it pass is refused by the sites, which hold the counts against the plan themselves.
    with pytest.raises(PlanError, match="more documents of C than the plan agreed on"):
        asked = Asked(plan, tmp_path / "again")
        asked.site.answer(asked.question(0, counts=[*asked.counts[:2], 41]))


def test_plans_over_a_network_bound_batches_and_weights_unless_told_otherwise():
    agreed = {"sites": ["a", "b"], "vocabulary": Vocabulary(("x", "y", "z"), "by hand"), "classes": {"t": ("1",)}}
    usual = plan_run("strong", **agreed, seed=1).settings
    assert (usual.smallest_batch, usual.largest_weight) == (8, 3.0)
    told = plan_run("strong", **agreed, seed=1, documents={"a": 100, "b": 5000})
    assert told.settings.largest_weight is None and told.documents == {"a": 100, "b": 5000}
    assert plan_run("fedavg", **agreed, seed=1, changes={"smallest_batch": "3"}).settings.smallest_batch == 3
    assert json.loads(told.model_dump_json())["documents"] == {"a": 100, "b": 5000}


@pytest.mark.parametrize("mode", ["adversarial", "fedavg"])
def test_with_secrets_floors_and_bounds_messages_give_the_embedded_numbers(mode, tmp_path):
    from federation.protocol.test_hub_run import best

    plan = plan_of(mode, smallest_batch=4, largest_weight=1.0, batch_size=8, epochs=1)
    secrets = {name: [ord(name)] * 8 for name in plan.sites}
    data = {name: reports(plan, name) for name in plan.sites}
    site_runs = {
        name: SiteRun(plan, data[name], name=name, session="ab", folder=tmp_path / name, secret=secret, least=4)
        for name, secret in secrets.items()
    }
    hub_run = HubRun(plan, folder=tmp_path / "hub", pause=1000)
    pending = {name: one.hello() for name, one in site_runs.items()}
    while pending:
        for name in list(pending):
            question = read(hub_run.exchange(name, pending[name], wait=0), sender="hub")
            if question.facts.get("end"):
                del pending[name]
            elif question.facts.get("wait"):
                pending[name] = site_runs[name].say({"waiting": True})
            else:
                assert not set(question.facts) & {"secret", "seed"}
                pending[name] = site_runs[name].answer(question)
    assert hub_run.finished and len(set(hub_run.course.counts)) < 3  # the largest was bounded
    if plan.plain:
        sites = [plan.plain_site(data[name], name, secret=secret) for name, secret in secrets.items()]
        embedded.train_plain(sites, stage="")
        expected = {name: p.detach().numpy() for name, p in sites[0].model.named_parameters()}
    else:
        sites = [plan.site(data[name], name, secret=secret) for name, secret in secrets.items()]
        expected = embedded.train(sites, plan.shared(), settings=plan.settings)[0].best
    for name, array in expected.items():
        np.testing.assert_array_equal(best(hub_run)[name], array, err_msg=name)
