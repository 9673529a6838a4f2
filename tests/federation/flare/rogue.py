"""A site that changed its own software: a kit and a corpus like any other's, but what leaves it was tampered with.

``python -m rogue`` is the process of a job at such a site: all of it is the product's, but what its gate let through is
changed on its way to the transport, once a round. The site's own ``local/resources.json`` names ``rogue.Launcher``.
"""

import numpy as np

from pathveil.federation.flare.launcher import SiteLauncher, main
from pathveil.federation.protocol.message import Message, read, write
from pathveil.federation.protocol.site_run import SiteRun
from pathveil.federation.site import shared_features

WORDS, JUDGE, SPREAD = "encoder.embedding.weight", "discriminator.1.weight", "discriminator.0.spread"
# What the hub has to say to each fault, by the round in which it happens. Of a `strong` training with two exchanges an
# epoch: rounds 3, 7, 12 and 16 are of the encoder, 8 and 17 close an epoch, the others are the discriminator's own.
REFUSED = {
    0: "times the usual",
    1: "holds values that are not finite",
    2: f"'{SPREAD}' is not a shared parameter of this round",
    3: f"'{SPREAD}' is not a shared parameter of this round",
    4: "has shape (3, 2)",
    5: "has type float64",
    6: "is not a shared parameter of this round",
    8: "its 'feature_norm' is not a number",
    9: "answered round 0, but round 9 is running; refused as stale",
    10: "says more than was asked for",
    11: "shared parameters are missing",
    12: "times the usual",
    13: "over 100 times the usual",
    14: f"'{WORDS}' is not a shared parameter of this round",
    15: "does not tell its 'updates'",
}


MASKED = "masked"  # the name of a run with masks in which it replays; in others with masks it is honest
LYING = "lying"  # the name of a run in which it lies about its size, and sends nothing else that is wrong


def lied(site_run: SiteRun, message: Message) -> list[Message]:
    """What the rogue sends in a run in which it claims to have more documents than anyone."""
    if "saved" not in message.facts:
        return [message]
    site_run.guard.documents = 10**9  # its own software must not refuse to believe it
    return [Message({**message.facts, "documents": 10**9})]


_sent: dict[int, Message] = {}


def replayed(site_run: SiteRun, message: Message) -> list[Message]:
    """What the rogue sends in a masked run: in round 5 an answer to round 0 first, and in round 9 the masked numbers of
    round 6, which moves the same arrays."""
    number = message.facts.get("round")
    if number is None:
        return [message]
    _sent[number] = message
    if number == 5:
        return [Message({**message.facts, "round": 0}, message.arrays), message]
    return [Message(message.facts, _sent[6].arrays)] if number == 9 else [message]


def faults_of(site_run: SiteRun):
    """What the rogue does in a run."""
    known = {LYING: lied, MASKED: replayed}
    if site_run.plan.name in known:
        return known[site_run.plan.name]
    return (lambda _, message: [message]) if site_run.plan.masked else tampered


def tampered(site_run: SiteRun, message: Message) -> list[Message]:
    """What the rogue sends in place of a message."""
    facts, arrays, site = dict(message.facts), dict(message.arrays), site_run.work.site
    match facts.get("round"):
        case 0 | 13:
            arrays = {name: array * np.float32(1e25) for name, array in arrays.items()}
        case 1:
            arrays[JUDGE] = np.full_like(arrays[JUDGE], np.nan)
        case 2 | 3:  # what only the hub sets
            arrays[SPREAD] = -2 * site_run.work.shared.discriminator[0].spread.detach().numpy()
        case 4:
            arrays[JUDGE] = np.zeros((3, 2), np.float32)
        case 5:
            arrays[JUDGE] = arrays[JUDGE].astype(np.float64)
        case 6:  # its own private part and the features of its reports
            arrays |= {f"private.{name}": p.detach().numpy() for name, p in site.private.named_parameters()}
            (features,) = shared_features(site_run.work.shared, [site.validation_reports], device=site.device)
            arrays["features"] = features.numpy()
        case 8:
            facts["feature_norm"] = "abc"
        case 9:
            return [Message(facts | {"round": 0}, arrays), message]
        case 10:
            facts["documents"] = site_run.work.documents + 1  # it would weigh more
        case 11:
            arrays = {JUDGE: arrays[JUDGE]}
        case 12:
            arrays = {name: array * np.float32(1e4) for name, array in arrays.items()}
        case 14:
            arrays[WORDS] = np.zeros(site_run.work.manifest[WORDS], np.float32)
        case 15:
            del facts["updates"]
    return [Message(facts, arrays)]


class Launcher(SiteLauncher):
    """Starts this module in place of the product's."""

    def get_command(self, job_meta: dict, fl_ctx) -> str:
        return super().get_command(job_meta, fl_ctx).replace("pathveil.federation.flare.launcher", "rogue", 1)


def turn() -> None:
    """From now on this process's messages are tampered with."""
    from pathveil.federation.flare import executor

    honest = executor.work

    def work(site_run: SiteRun, hub: executor.HubConnection) -> None:
        ask = hub.ask

        def dishonest(data: bytes) -> Message:
            *before, last = faults_of(site_run)(site_run, read(data, sender=site_run.name))
            for message in before:
                ask(write(message))
            return ask(write(last))

        hub.ask = dishonest
        honest(site_run, hub)

    executor.work = work


if __name__ == "__main__":
    turn()
    main()
