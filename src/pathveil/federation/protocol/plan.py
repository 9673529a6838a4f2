"""What hub and sites agree on before a run: sites, words, classes, settings, seed. No word and no report is in it.

The plan travels in the job. A site checks it against its own vocabulary file before it reads a report, and both ends
name a run by the plan's hash: submitting the same plan again goes on where the run stopped.

>>> plan = Plan(mode="adversarial", sites=("north", "south"), classes={"site": ("C18", "C50")}, vocabulary="ab" * 32,
...             vocabulary_size=900, seed=1)
>>> len(plan.run), plan.run == plan.model_copy(update={"seed": 2}).run
(16, False)
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from pathveil.errors import FederationError, UsageError, VocabularyError, explained, meant
from pathveil.federation.settings import FederationSettings, settings_for
from pathveil.files import read_json
from pathveil.rng import Seed
from pathveil.settings import Settings
from pathveil.text import tokenizer as text
from pathveil.untrusted.tensors import read_tensors
from pathveil.vocabulary.encoded import MISSING, EncodedCorpus
from pathveil.vocabulary.words import Vocabulary

if TYPE_CHECKING:  # a hub and a site that wait, and who submits, need no networks
    import torch

    from pathveil.federation.networks import Networks
    from pathveil.federation.plain import PlainSite
    from pathveil.federation.site import Site
    from pathveil.model.shared_private import Shared

Mode = Literal["adversarial", "strong", "fedavg", "cyclic"]
MODES: tuple[Mode, ...] = ("adversarial", "strong", "fedavg", "cyclic")
LOCAL_STEPS = 8  # where none are given: an exchange costs about as much as several steps
SMALLEST_BATCH = 8  # cases in a step of a site, which no plan of a run over a network goes below unless it says so
LARGEST_WEIGHT = 3.0  # of a site, in multiples of the others' median, where the plan does not bound each site's count
MOST_DOCUMENTS = 10**9
LARGEST = {"dim": 1 << 14, "filters": 1 << 14, "hidden": 1 << 16, "epochs": 10_000, "discriminator_steps": 1_000}
LARGEST |= {"teachers": 1_000}  # settings of a plan that a site begins
MOST_WINDOWS, MOST_NUMBERS, MOST_SITES = 64, 1 << 30, 1_000
MASKED_BITS = 32  # of a number in the sums over sites
TWO = (
    "with two sites masks hide nothing from the other: each can subtract its own part from the sum and has the other's "
    "(and so has a hub that one of them helps)"
)
PLAIN = ("fedavg", "cyclic")  # one network for everybody, instead of a shared and a private part


class Plan(Settings):
    """One training, fully determined but for the reports."""

    name: str = ""  # another name makes another run of the same settings
    mode: Mode
    sites: tuple[str, ...] = Field(min_length=2)  # a site's place in it is its registry number
    classes: Mapping[str, tuple[str, ...]] = Field(min_length=1)  # task: the labels agreed on
    vocabulary: str  # the id space of the words agreed on, a sha256
    vocabulary_size: int = Field(ge=3)
    settings: FederationSettings = FederationSettings()
    seed: int  # of the start and the split; the order of a site's batches is the site's secret
    documents: Mapping[str, int] = {}  # site: the most documents that it may say it has; none is given: any number

    @property
    def run(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @property
    def masked(self) -> bool:
        """Whether the hub gets sums over sites only, from masked answers."""
        return self.settings.bits > 0

    @property
    def plain(self) -> bool:
        return self.mode in PLAIN

    def networks(self, device: "torch.device | str" = "cpu") -> "Networks":
        """The networks at their start, the same everywhere."""
        from pathveil.federation.networks import Networks

        classes = {task: len(names) for task, names in self.classes.items()}
        return Networks(self.settings, self.vocabulary_size, classes, self.seed, device)

    def shared(self, device: "torch.device | str" = "cpu") -> "Shared":
        """The shared part at its start."""
        return self.networks(device).shared(registries=len(self.sites))

    def site(
        self, reports: EncodedCorpus, name: str, device: "torch.device | str" = "cpu", *, secret: Seed | None = None
    ) -> "Site":
        """A site with its private part at its start; without a ``secret`` the seed decides about its batches."""
        from pathveil.federation.site import Site

        number = self.sites.index(name)
        private = self.networks(device).private(number, secret=secret)
        return Site(
            reports,
            name=name,
            registry=number,
            private=private,
            settings=self.settings,
            seed=self.seed,
            secret=secret,
        )

    def plain_site(
        self, reports: EncodedCorpus, name: str, device: "torch.device | str" = "cpu", *, secret: Seed | None = None
    ) -> "PlainSite":
        """A site with the whole network at its start."""
        from pathveil.federation.plain import PlainSite

        return PlainSite(
            reports,
            name=name,
            registry=self.sites.index(name),
            settings=self.settings,
            seed=self.seed,
            device=device,
            secret=secret,
        )


def read_plan(path: Path) -> Plan:
    """A plan in a file: one that came with a job, or that a site was given to agree to."""
    try:
        plan = Plan.model_validate(read_json(path, error=FederationError))
    except ValidationError as error:
        raise FederationError(f"{path}: is not a plan: {explained(error, Plan)}") from None
    check_size(plan, path)
    return plan


def check_size(plan: Plan, path: Path) -> None:
    """Refuse a plan that a site could not even begin: whoever makes plans would fill its memory with a few numbers."""
    settings = plan.settings
    for name, most in LARGEST.items():
        if getattr(settings, name) > most:
            raise FederationError(f"{path}: plans a '{name}' of more than {most:,}; refused")
    windows = settings.windows
    numbers = settings.dim * (plan.vocabulary_size + sum(windows) * settings.filters)
    if len(windows) > MOST_WINDOWS or numbers > MOST_NUMBERS or len(plan.sites) > MOST_SITES:
        raise FederationError(
            f"{path}: plans more than {MOST_WINDOWS} windows, {MOST_NUMBERS:,} numbers of a network or {MOST_SITES:,} "
            "sites; refused"
        )


def plan_run(
    mode: str,
    *,
    sites: Sequence[str],
    vocabulary: Vocabulary,
    classes: Mapping[str, tuple[str, ...]],
    seed: int,
    name: str = "",
    documents: Mapping[str, int] | None = None,  # site: the most that it may say it has
    changes: Mapping[str, Any] | None = None,  # to the mode's settings
) -> Plan:
    """The plan of a run over a network, where sites take several steps between exchanges, of no less than a few cases,
    no site outweighs the others, and the hub gets masked sums, unless told otherwise."""
    changes = dict(changes or {})
    known = next((known for known in MODES if known == mode), None)
    if known is None:
        raise UsageError(f"--mode: '{mode}' is not one of {', '.join(MODES)}{meant(mode, MODES)}")
    if len(set(sites)) < 2 or len(set(sites)) != len(sites):
        raise UsageError("--site: name at least two sites, each once")
    if mode in PLAIN and "local_steps" in changes:
        raise UsageError(f"--local-steps: {mode} exchanges once an epoch; leave it out, or choose another --mode")
    for site, most in (documents or {}).items():
        if site not in sites or not 0 < most <= MOST_DOCUMENTS:
            raise UsageError(f"--site: {site}={most} is not a site with at most 1 to {MOST_DOCUMENTS:,} documents")
    if mode not in PLAIN:
        changes = {"local_steps": LOCAL_STEPS} | changes
    bits = 0 if mode == "cyclic" else MASKED_BITS  # one network that goes round is no sum
    bounds = {"bits": bits, "smallest_batch": SMALLEST_BATCH, "largest_weight": None if documents else LARGEST_WEIGHT}
    return Plan(
        name=name,
        mode=known,
        sites=tuple(sorted(sites)),
        classes=classes,
        vocabulary=vocabulary.id_space,
        vocabulary_size=vocabulary.size,
        settings=settings_for(mode, bounds | changes),
        seed=seed,
        documents=dict(documents or {}),
    )


def write_release(plan: Plan, words: Vocabulary, *, folder: Path) -> None:
    """Make a finished run's shared encoder a folder to give away (``shared``); a plain network has none."""
    if plan.plain:
        return
    from pathveil.federation.release import KEPT, Release

    settings = plan.settings
    arrays, _ = read_tensors(folder / "parameters.safetensors")
    Release(
        tensors={name: array for name, array in arrays.items() if name.startswith(KEPT)},
        shape={"dim": settings.dim, "windows": list(settings.windows), "filters": settings.filters},
        classes=plan.classes,
        text=text.settings(words=text.WORDS),
        vocabulary=words,
        provenance={"mode": plan.mode, "seed": plan.seed, "run": plan.run, "registries": list(plan.sites)}
        | {"config": settings.model_dump(mode="json")},
    ).save(folder / "shared")


def read_reports(
    plan: Plan, name: str, *, corpus: Sequence[Path], vocabulary: Path, registries: Sequence[str] = ()
) -> tuple[EncodedCorpus, int]:
    """A site's own reports in the agreed words and classes, and how many labels are outside the agreed ones.

    Labels that the plan does not know count as missing. ``registries`` chooses reports where the file holds several.
    """
    from pathveil.vocabulary.encoding import encode

    words = Vocabulary.load(vocabulary)
    if words.id_space != plan.vocabulary or words.size != plan.vocabulary_size:
        raise VocabularyError(
            f"{vocabulary}: its id space is {words.id_space[:12]}…, the run agreed on {plan.vocabulary[:12]}…; "
            "use the vocabulary that all sites agreed on"
        )
    read = encode(list(corpus), words, tasks=tuple(plan.classes), classes=plan.classes)
    rows = np.arange(read.documents)
    if registries:
        unknown = [registry for registry in registries if registry not in read.registry_names]
        if unknown:
            raise FederationError(f"the corpus has no registry '{unknown[0]}'; it has {', '.join(read.registry_names)}")
        numbers = [read.registry_names.index(registry) for registry in registries]
        rows = np.flatnonzero(np.isin(read.registries, numbers))
    return fitted(read.take(rows), plan, name)


def fitted(reports: EncodedCorpus, plan: Plan, name: str) -> tuple[EncodedCorpus, int]:
    """Reports with the plan's classes and the site's number as registry; and how many labels had to be dropped."""
    if name not in plan.sites:
        raise FederationError(f"this site is '{name}', and the run is for {', '.join(plan.sites)}")
    labels, dropped = {}, 0
    for task, names in plan.classes.items():
        known = np.asarray(reports.labels[task])
        outside = known >= len(names)
        dropped += int(outside.sum())
        labels[task] = np.where(outside, MISSING, known).astype(np.int32)
    return (
        EncodedCorpus(
            ids=reports.ids,
            offsets=reports.offsets,
            cases=reports.cases,
            registries=np.full(reports.documents, plan.sites.index(name), np.int32),
            registry_names=plan.sites,
            labels=labels,
            classes=plan.classes,
            vocabulary_size=reports.vocabulary_size,
            provenance=reports.provenance,
        ),
        dropped,
    )
