"""The networks of a run as they are at its start: the same wherever they are made, in one process or at every site."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pathveil.federation.settings import FederationSettings
from pathveil.model import MTCNN
from pathveil.model.shared_private import Private, Shared
from pathveil.rng import Seed, child


@dataclass(frozen=True)
class Networks:
    """What determines the networks of a run."""

    settings: FederationSettings
    vocabulary_size: int
    classes: Mapping[str, int]  # task: how many
    seed: int
    device: torch.device | str = "cpu"

    def shape(self) -> dict[str, Any]:
        """What every network takes. On a GPU a pass over the embedding costs less than finding the touched rows."""
        settings = self.settings
        return {
            "vocabulary_size": self.vocabulary_size,
            "classes": self.classes,
            "dim": settings.dim,
            "windows": settings.windows,
            "filters": settings.filters,
            "sparse": torch.device(self.device).type == "cpu" and not settings.positions,
        }

    def shared(self, *, registries: int) -> Shared:
        """The part that travels, with a discriminator of so many registries."""
        hidden, heads = self.settings.hidden, self.settings.common_heads
        shape = self.shape()
        return Shared(registries=registries, hidden=hidden, common_heads=heads, seed=self.seed, **shape).to(self.device)

    def private(self, registry: int, *, secret: Seed | None = None) -> Private:
        """The part of a registry, by its number, that stays there; where the registry has a secret, only it knows how
        the part begins."""
        seed = self.seed * 1000 + registry + 1 if secret is None else child(secret, 1)
        return Private(seed=seed, **self.shape()).to(self.device)

    def plain(self) -> MTCNN:
        """One network for everybody."""
        return MTCNN(dropout=self.settings.dropout, seed=self.seed, **self.shape()).to(self.device)
