"""The settings of a federated training, with the paper's and a stronger adversary as named presets.

>>> FederationSettings().adversary, FederationSettings.strong().adversary
(0.05, 0.3)
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from pathveil.federation.fixed_point import BITS
from pathveil.training.settings import NetworkSettings

Scale = Literal["mean", "sum", "raw"]  # of the orthogonality loss


class FederationSettings(NetworkSettings):
    """How sites train together; the defaults are the paper's setting with the small network.

    The network's shape is that of each encoder.
    """

    epochs: int = Field(15, ge=1, description="passes over every site's training reports; the best one is kept")
    validation_share: float = Field(0.1, gt=0, lt=1, description="of the training cases, held out to choose the epoch")
    keep_from: float = Field(
        0.0, ge=0, lt=1, description="share of the epochs before any is kept: while λ rises none is"
    )
    batch_size: int = Field(64, ge=1, description="reports a step, over all sites together")
    optimiser: Literal["adadelta", "adam"] = Field("adadelta", description="adam or adadelta")
    learning_rate: float | None = Field(
        None, gt=0, description="None is the optimiser's own: 1 for Adadelta, 0.001 for Adam"
    )
    falling: bool = Field(
        False, description="it falls to 0 over training, but for the discriminator, which then catches up"
    )

    # The adversary: a discriminator that names a document's registry from its shared features.
    adversary: float = Field(0.05, ge=0, description="λ, the weight of the registry discriminator")
    rising: bool = Field(False, description="λ rises from 0 over training")
    hidden: int = Field(0, ge=0, description="units of the discriminator's hidden layer; 0 is a plain softmax")
    discriminator_steps: int = Field(1, ge=1, description="of the discriminator for each exchange of the encoders")
    flatness: float = Field(
        0.0, ge=0, description="weight of the discriminator's squared slope, which keeps the game at rest"
    )
    alternating: bool = Field(
        False, description="the discriminator steps first and the encoders answer it, instead of one reversed pass"
    )

    # What the two encoders have to do with each other, and who reads them.
    orthogonality: float = Field(0.01, ge=0, description="γ, the weight of ‖SᵀH‖²")
    scale: Scale = Field("mean", description="of ‖SᵀH‖²: see losses.orthogonality")
    positions: bool = Field(
        False, description="‖SᵀH‖² over each document's positions instead of a batch's pooled features; slow"
    )
    common_heads: bool = Field(False, description="heads on the shared features alone, trained beside the sites' own")
    added_heads: bool = Field(
        False, description="a site's answer is the common heads' plus its own, which learn what the former miss"
    )

    # The pace: who steps how often.
    private_every: int | None = Field(
        None,
        ge=1,
        description="steps whose gradients a private part gathers for one step of its own; None: as many as there are "
        "sites, so that a step of either part learns from about as many reports",
    )
    local_steps: int = Field(
        1, ge=1, description="of a site between two exchanges; 1 is exact, more is an approximation"
    )

    # What the sites learn from.
    teachers: int = Field(
        0,
        ge=0,
        description="models that a site trains at home, to teach it codes in the place of its labels; 0: its labels",
    )

    # What bounds a site's part, and what others can learn from one update of it.
    smallest_batch: int = Field(
        1, ge=1, description="cases whose reports a site takes in a step at least; 8 over a network"
    )
    largest_weight: float | None = Field(
        None, ge=1, description="of a site, in multiples of the others' median; None: any; 3 over a network"
    )

    # What leaves a site, and noise on it.
    bits: int = Field(
        0, description="of a number in sums over sites: 16, 24 or 32, as masked updates need; 0 is floats, site by site"
    )
    clip: float | None = Field(None, gt=0, description="largest norm of a site's update; None: as it is")
    noise: float = Field(
        0.0, ge=0, description="standard deviation of Gaussian noise on a site's update, in units of clip"
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="at which the privacy loss of the noise is told")

    @model_validator(mode="after")
    def settings_fit_together(self) -> "FederationSettings":
        if self.added_heads and not self.common_heads:
            raise ValueError("added_heads adds to the common heads: set common_heads as well")
        if self.bits not in (0, *BITS):
            raise ValueError(f"bits is one of 0, {', '.join(map(str, BITS))}")
        if self.teachers in (1, 2):
            raise ValueError("teachers is 0, or at least 3: two answer for what the others saw")
        if self.noise and self.clip is None:
            raise ValueError("noise is measured in units of clip: set clip as well")
        return self

    def may_keep(self, epoch: int) -> bool:
        """Whether an epoch, from 0, may be kept.

        >>> [epoch for epoch in range(4) if FederationSettings(epochs=4, keep_from=0.5).may_keep(epoch)]
        [2, 3]
        """
        return epoch >= int(self.keep_from * self.epochs)

    @classmethod
    def strong(cls, **changes: Any) -> "FederationSettings":
        """An adversary that hides the registry, with changes."""
        return cls(**strong_with(changes))


# An adversary that hides the registry: λ rises and the learning rate falls; the discriminator has a hidden layer, is
# kept flat and takes three steps for one of the encoders'; common heads keep the shared features useful; and the end is
# kept, when both sides have come to rest. Chosen on validation cases (docs/findings.md).
STRONG: dict[str, Any] = {
    "adversary": 0.3,
    "rising": True,
    "falling": True,
    "hidden": 256,
    "flatness": 1.0,
    "discriminator_steps": 3,
    "keep_from": 0.9,
    "common_heads": True,
    "added_heads": True,
    "optimiser": "adam",
}

# Between two exchanges the encoders take several steps and the discriminator none: before the next ones it has to catch
# up. Its rounds are small, for the encoder is not sent again.
CATCHING_UP = {"discriminator_steps": 12}


def strong_with(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The strong adversary's settings with changes, as they may stand on a command line.

    >>> strong_with({"local_steps": 8})["discriminator_steps"], strong_with({"dim": 9})["discriminator_steps"]
    (12, 3)
    """
    several = str(changes.get("local_steps", 1)) != "1"
    return {**STRONG, **(CATCHING_UP if several else {}), **changes}


def settings_for(mode: str, changes: Mapping[str, Any]) -> FederationSettings:
    """The settings of a mode of training with changes, as they may stand on a command line; a mistake is one sentence.

    >>> settings_for("strong", {"epochs": "3"}).hidden, settings_for("fedavg", {"epochs": "3"}).epochs
    (256, 3)
    """
    return FederationSettings().changed(**(strong_with(changes) if mode == "strong" else changes))
