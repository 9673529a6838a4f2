"""A site that changed its own software: a kit and a corpus like any other's, but what leaves it was tampered with.

``python -m rogue`` is the process of a job at such a site: all of it is the product's, but what its gate let through is
changed on its way to the transport, once a round. The site's own ``local/resources.json`` names ``rogue.Launcher``.
"""

import numpy as np

from pathveil.federation.embedded import shared_features
from pathveil.federation.flare.launcher import SiteLauncher, main
from pathveil.federation.flare.message import Message, read, write
from pathveil.federation.flare.station import Station

WORDS = "encoder.embedding.weight"
# What the hub has to say to each fault, by the round in which it happens; 3 and 7 close an epoch.
REFUSED = {
    1: "holds values that are not finite",
    2: "has shape (3, 2)",
    4: "has type float64",
    5: "is not a shared parameter",
    6: "times the usual",
    8: "answered round 0, but round 8 is running; refused as stale",
    9: "claims more documents than the site has",
    10: "shared parameters are missing",
}


def tampered(station: Station, message: Message) -> list[Message]:
    """What the rogue sends in place of a message."""
    facts, arrays = dict(message.facts), dict(message.arrays)
    match facts.get("round"):
        case 1:
            arrays[WORDS] = np.full_like(arrays[WORDS], np.nan)
        case 2:
            arrays[WORDS] = np.zeros((3, 2), np.float32)
        case 4:
            arrays[WORDS] = arrays[WORDS].astype(np.float64)
        case 5:  # its own private part and the features of its reports
            arrays |= {
                f"private.{name}": p.detach().numpy() for name, p in station.work.site.private.named_parameters()
            }
            site = station.work.site
            (features,) = shared_features(station.work.shared, [site.held], device=site.device)
            arrays["features"] = features.numpy()
        case 6:
            arrays = {name: array * np.float32(1e4) for name, array in arrays.items()}
        case 8:
            return [Message(facts | {"round": 0}, arrays), message]
        case 9:
            facts["documents"] = station.work.documents + 1
        case 10:
            arrays = {name: array for name, array in arrays.items() if name == WORDS}
    return [Message(facts, arrays)]


class Launcher(SiteLauncher):
    """Starts this module in place of the product's."""

    def get_command(self, job_meta: dict, fl_ctx) -> str:
        return super().get_command(job_meta, fl_ctx).replace("pathveil.federation.flare.launcher", "rogue", 1)


def turn() -> None:
    """From now on this process's messages are tampered with."""
    from pathveil.federation.flare import executor

    honest = executor.work

    def work(station: Station, hub: executor.Hub) -> None:
        ask = hub.ask

        def dishonest(data: bytes) -> Message:
            *before, last = tampered(station, read(data, sender=station.name))
            for message in before:
                ask(write(message))
            return ask(write(last))

        hub.ask = dishonest
        honest(station, hub)

    executor.work = work


if __name__ == "__main__":
    turn()
    main()
