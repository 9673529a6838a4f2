"""A site's guard: it holds every question of the hub against the plan, and refuses the others with a sentence.

A hub that asked for other batches, other steps or the same round again could learn more from a site than the plan gives
away: with as many steps as documents each update is of one report. So a site works out by itself what it will be asked.
From the plan and the sites' document counts, which the hub passes on once, follow all exchanges of the run in their
order; a question must be the next of them, to the letter. The counts are kept on disk at the first question: no later
process of the run is told others. A run that goes on after a kill begins at a round that the site has saved, and in all
no more updates leave than ``REPEATS`` times those of the plan.

What a site cannot hold against the plan are the parameters that come with a question: a hub may send any, and crafted
ones can draw single reports out of a batch; see "A malicious hub" in docs/distribution.md.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pathveil.federation.protocol.course import Exchange, exchanges_of
from pathveil.federation.protocol.message import MOST, UPDATES
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.shares import bounded
from pathveil.federation.wire import PlanError
from pathveil.files import read_json, write_json
from pathveil.formatting import counted

REPEATS = 4  # how often all of a plan's updates may leave: a run that is killed again and again repeats rounds
FILE = "agreed.json"


class Guard:
    """One site's guard in one run; ``folder`` is the run's at the site."""

    def __init__(self, plan: Plan, name: str, *, documents: int, folder: Path):
        self.plan, self.place, self.documents, self.path = plan, plan.sites.index(name), documents, folder / FILE
        self.exchanges: list[Exchange] = []
        self.weight = 0  # this site's documents as they count, bounded by the others'
        self.last = -1  # the last round that was asked for; before the first question none

    def passed(self, facts: Mapping[str, Any], *, saved: Sequence[int]) -> Exchange:
        """The exchange that a question is for, if it is the next one of the plan's; ``saved``: rounds on disk."""
        self.agree(facts.get("counts"))
        number = facts.get("round")
        if type(number) is not int or number != self.next_round(facts, saved=saved):
            raise PlanError("the hub asks for a round that is not the next one of the plan; refused")
        expected = self.exchanges[number]
        if {name: facts.get(name) for name in ("do", "epoch", "turns")} != expected.facts():
            raise PlanError(
                f"in round {number} the hub asks for other work than the plan says (which documents, which steps, how "
                "many); refused"
            )
        after_close = number > 0 and self.exchanges[number - 1].kind == "close"
        if facts.get("keep") and not after_close:
            raise PlanError(f"in round {number} the hub calls an epoch the best that is not closed; refused")
        self.last = number
        return expected

    def next_round(self, facts: Mapping[str, Any], *, saved: Sequence[int]) -> int | None:
        """The number of the next exchange that this site has a part in; None where there is none."""
        start = self.last + 1
        if facts.get("resume"):
            start = facts.get("from")
            if self.last >= 0 or type(start) is not int or start not in saved:
                raise PlanError("the hub wants to go on from a round that this site has not saved; refused")
        mine = (number for number in range(start, len(self.exchanges)) if self.place in self.exchanges[number].who)
        return next(mine, None)

    def agree(self, counts: Any) -> None:
        """Hold the sites' document counts against the plan, this site's own and those of before."""
        if not isinstance(counts, list) or len(counts) != len(self.plan.sites):
            raise PlanError("the hub does not tell how many documents the sites of the plan have; refused")
        if not all(type(count) is int and 0 < count <= MOST for count in counts):
            raise PlanError(f"the hub tells document counts that are not whole numbers from 1 to {MOST:g}; refused")
        if counts[self.place] != self.documents:
            raise PlanError(f"the hub has another document count of this site than {self.documents}; refused")
        for name, count in zip(self.plan.sites, counts, strict=True):
            if count > self.plan.documents.get(name, count):
                raise PlanError(f"the hub tells more documents of {name} than the plan agreed on; refused")
        if self.path.exists():
            if read_json(self.path, error=PlanError).get("counts") != counts:
                raise PlanError("the hub tells other document counts than when the run began; refused")
        else:
            write_json(self.path, {"counts": counts})
        if not self.exchanges:
            self.exchanges = exchanges_of(self.plan, counts)
            self.weight = bounded(counts, largest_weight=self.plan.settings.largest_weight)[self.place]

    def may_leave(self, updates: int) -> None:
        """Refuse an update that would be one more than a run of this plan can need."""
        planned = sum(self.place in exchange.who for exchange in self.exchanges if exchange.kind in UPDATES)
        if updates > REPEATS * planned:
            raise PlanError(
                f"the run's plan has {counted(planned, 'update')} of this site, and {REPEATS} times as many have left; "
                "no more leave in this run"
            )
