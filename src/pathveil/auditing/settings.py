"""Settings of an audit: how many shadows of which kind, how the paper's attack is fitted, which buckets, which seed.

>>> AuditSettings(shadows=8).edges
(100, 1000, 10000)
>>> AuditSettings().changed(edges=(100, 10))
Traceback (most recent call last):
pathveil.errors.UsageError: audit settings: 'edges': expected rising numbers above 0, such as 100,1000,10000
"""

from pydantic import Field, field_validator

from pathveil.auditing.evidence import EDGES
from pathveil.auditing.shadows import Sampling
from pathveil.auditing.shokri import Features, Kind
from pathveil.settings import Settings

FEWEST_CANARIES = 20


class AuditSettings(Settings):
    """The settings of an audit; those about shadows are idle where there are only predictions."""

    shadows: int = Field(default=20, ge=2)  # models in each family, the attacker's and the auditor's
    networks: int = Field(default=1, ge=1)  # that a shadow averages, as the model may do
    teachers: int | None = Field(default=None, ge=2)  # of a shadow, where the model has more; none: as many as it has
    sampling: Sampling = "split"  # what the attacker's shadows train on
    attack_model: Kind = "mlp"  # of the paper's attack
    attack_features: Features = "sorted"  # that it sees
    edges: tuple[int, ...] = Field(default=EDGES, min_length=1)  # of the buckets of class rarity, in training samples
    canaries: int = Field(default=0, ge=0)  # of each kind, planted once each in as many models more; none by default
    seed: int = Field(default=0, ge=0)

    @field_validator("canaries")
    @classmethod
    def _enough(cls, canaries: int) -> int:
        if 0 < canaries < FEWEST_CANARIES:
            raise ValueError(f"expected none or at least {FEWEST_CANARIES}: fewer tell nothing")
        return canaries

    @field_validator("edges")
    @classmethod
    def _rising(cls, edges: tuple[int, ...]) -> tuple[int, ...]:
        if list(edges) != sorted(set(edges)) or edges[0] < 1:
            raise ValueError("expected rising numbers above 0, such as 100,1000,10000")
        return edges
