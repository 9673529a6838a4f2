"""How a site answers the hub's questions, whether they come over a network or from the same process."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from pathveil.federation import wire
from pathveil.federation.hub import load
from pathveil.federation.plain import PlainSite
from pathveil.federation.protocol.course import Exchange, under
from pathveil.federation.shares import steps_of
from pathveil.federation.site import EMBEDDING, Site, shapes_of_update, shared_features
from pathveil.federation.sums import Contribution, Sums
from pathveil.model import MTCNN
from pathveil.model.shared_private import Shared, merged

NOTHING: wire.Manifest = {}


def contribution(
    work: "SiteWork",
    sums: Sums,
    exchange: Exchange,
    arrays: wire.Arrays,
    *,
    documents: int,  # that the answer counts for
    exponents: Mapping[str, int],
) -> Contribution:
    """A site's answer to a question as it goes into the sum over all sites; the gate has looked at it before."""
    facts, update = work.answer(exchange, arrays)
    if exchange.kind == "close":
        norm = facts.get("feature_norm", 0.0)
        return sums.of_close(documents=documents, loss=facts["loss"], feature_norm=norm)
    wire.check(update, work.may_leave(exchange), sender=work.name, error=wire.GateError)
    return sums.of_update(update, documents=documents, exponents=exponents, rng=work.repeated)


class SiteWork(Protocol):
    """One site's part of a course of exchanges."""

    name: str
    documents: int  # that it trains on
    repeated: np.random.Generator | None  # what noise is drawn from where it repeats; None: the system's entropy

    def answer(self, exchange: Exchange, arrays: wire.Arrays) -> tuple[dict[str, Any], wire.Arrays]:
        """Do what is asked, beginning with the hub's arrays: a few numbers and arrays in answer."""
        ...

    def may_leave(self, exchange: Exchange) -> wire.Manifest:
        """The arrays that an answer consists of, by name and shape."""
        ...

    def keep(self) -> None:
        """The epoch that was closed last is the best so far."""
        ...


class SharedWork:
    """A site with a private part: rounds of the distribution paper's training."""

    def __init__(self, site: Site, shared: Shared):
        self.site, self.shared = site, shared  # the shared part is this site's own copy
        self.manifest = wire.manifest_of(shared)
        self.name, self.documents, self.repeated = site.name, site.documents, site.repeated

    def may_leave(self, exchange: Exchange) -> wire.Manifest:
        return (
            shapes_of_update(self.shared, self.site.settings, exchange.turns[0])
            if exchange.kind == "round"
            else NOTHING
        )

    def answer(self, exchange: Exchange, arrays: wire.Arrays) -> tuple[dict[str, Any], wire.Arrays]:
        site, turns = self.site, exchange.turns
        again = bool(turns) and turns[0].again and EMBEDDING not in arrays  # the encoder is here already
        manifest = wire.of_discriminator(self.manifest) if again else self.manifest
        wire.check(arrays, manifest, sender="the hub", error=wire.QuestionError)
        load(self.shared, arrays)
        if not again:
            site.known = None  # was of another encoder
        if exchange.kind == "round":
            return {}, site.update(self.shared, turns)
        if exchange.kind == "close":
            (features,) = shared_features(self.shared, [site.validation_reports], device=site.device)
            return close_answer(site, self.shared, features), {}
        site.restore()
        return {}, {}

    def keep(self) -> None:
        self.site.keep()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"now.{name}": tensor for name, tensor in self.site.private.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.site.best.items()}
        tensors |= {f"steps.{name}": tensor for name, tensor in self.site.optimiser.state().items()}
        if self.site.settings.local_steps > 1:
            local = self.site.local_optimiser(self.shared).encoder.state()
            tensors |= {f"local.{name}": tensor for name, tensor in local.items()}
        return tensors, {}

    def restore(self, tensors: dict[str, Tensor], content: Mapping[str, Any]) -> None:
        self.site.private.load_state_dict(under(tensors, "now."))
        self.site.best = under(tensors, "best.")
        self.site.optimiser.restore(under(tensors, "steps."))
        if self.site.settings.local_steps > 1:
            self.site.local_optimiser(self.shared).encoder.restore(under(tensors, "local."))

    def private_files(self) -> dict[str, wire.Arrays]:
        """What the site keeps of a finished run beside the shared parameters."""
        arrays = {name: tensor.cpu().numpy() for name, tensor in self.site.private.state_dict().items()}
        return {"private.safetensors": arrays}

    def validation_logits(self) -> dict[str, np.ndarray]:
        return self.site.logits(self.shared, self.site.validation_reports)

    def network(self) -> MTCNN:
        """Both parts as one network."""
        settings = self.site.settings
        return merged(self.shared, self.site.private, dropout=settings.dropout, added_heads=settings.added_heads)


def close_answer(site: Site, shared: Shared, features: Tensor) -> dict[str, Any]:
    """What a site tells when an epoch is closed, from the shared features (documents, K·F) of its validation cases."""
    loss, norm = site.validation_loss(shared, features=features), float(features.norm(dim=1).mean())
    return {"loss": loss, "feature_norm": norm}


class PlainWork:
    """A site with the whole network: epochs of federated averaging, or of one network going round."""

    def __init__(self, site: PlainSite):
        self.site = site
        self.manifest = wire.manifest_of(site.model)
        self.name, self.documents, self.repeated = site.name, len(site.train), site.repeated

    def may_leave(self, exchange: Exchange) -> wire.Manifest:
        return self.manifest if exchange.kind == "epoch" else NOTHING

    def answer(self, exchange: Exchange, arrays: wire.Arrays) -> tuple[dict[str, Any], wire.Arrays]:
        wire.check(arrays, self.manifest, sender="the hub", error=wire.QuestionError)
        self.site.load(arrays)
        if exchange.kind == "epoch":
            steps = steps_of([self.documents], self.site.settings.batch_size)
            self.site.epoch(exchange.epoch, steps=steps)
            return {}, self.site.update(arrays)
        if exchange.kind == "close":
            return {"loss": self.site.validation_loss()}, {}
        return {}, {}

    def keep(self) -> None:
        """The hub keeps the network; a site has nothing of its own."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {f"steps.{name}": tensor for name, tensor in self.site.optimiser.state().items()}, {}

    def restore(self, tensors: dict[str, Tensor], content: Mapping[str, Any]) -> None:
        self.site.optimiser.restore(under(tensors, "steps."))

    def private_files(self) -> dict[str, wire.Arrays]:
        return {}

    def validation_logits(self) -> dict[str, np.ndarray]:
        return self.site.logits(self.site.reports.take(self.site.validate))

    def network(self) -> MTCNN:
        return self.site.model
