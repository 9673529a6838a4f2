"""What an audit of a bundle will train, and about how long that takes; no model is kept.

The time is one network's time for one pass over half of the reports, measured here, times all passes of all networks.
Teachers are taken to need as many passes as the model did.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.auditing.bundle_audit import read_audited_model
from pathveil.auditing.model_audit import CANARY_BASE, FEWEST_TO_TRAIN, AuditedModel
from pathveil.auditing.settings import AuditSettings
from pathveil.auditing.shadows import Job, jobs_of, train_here
from pathveil.bundle import Model
from pathveil.corpus.tables.files import Paths
from pathveil.formatting import counted, duration
from pathveil.progress import Progress, silent
from pathveil.results import Part, Result
from pathveil.training.defences import TeacherSettings
from pathveil.training.settings import TrainingSettings

STACK = 16  # models that a GPU trains at once
WARM_UP = 64  # documents that are read once before the clock runs
TIMED = 1_000  # documents of which a CPU is timed on half


class PlannedFamily(Part):
    """Models of one kind that an audit trains."""

    name: str
    models: int
    networks: int  # that a model averages
    teachers: int  # that each network has of its own
    reports: int  # that a model learns from

    @property
    def trained(self) -> int:
        """Networks in all, teachers among them."""
        return self.models * self.networks * (1 + self.teachers)


class AuditPlan(Result):
    """What an audit will train, before it does."""

    bundle: str
    device: str
    families: tuple[PlannedFamily, ...]
    epochs: int  # passes of a network over its reports
    epoch_seconds: float  # of one network, as measured
    seconds: float  # in all, about

    def rows(self) -> list[dict[str, object]]:
        return [{**family.to_dict(), "trained": family.trained} for family in self.families]

    def summary(self) -> str:
        lines = [f"An audit of {self.bundle} trains:"]
        for family in self.families:
            averaged = f" of {counted(family.networks, 'network')}" if family.networks > 1 else ""
            taught = f", each network with {counted(family.teachers, 'teacher')} of its own" if family.teachers else ""
            lines.append(
                f"  {family.name}: {counted(family.models, 'model')}{averaged} on {family.reports:,} reports{taught}"
            )
        networks = sum(family.trained for family in self.families)
        lines.append(
            f"{counted(networks, 'network')} in all, about {duration(self.seconds)} on {self.device} (a pass of one "
            f"network took {self.epoch_seconds:.2g} s here, and each has about {self.epochs}). No audit was written."
        )
        return "\n".join(lines)


def plan_audit(
    bundle: str | Path,
    *,
    members: Paths,
    non_members: Paths,
    attacker: Paths | None = None,
    defence: str | Callable[..., Any] | None = None,
    settings: AuditSettings | None = None,
    device: str = "cpu",
    processes: int = 1,
    unbound: bool = False,
    progress: Progress = silent,
) -> AuditPlan:
    """What ``audit_bundle`` with the same arguments will train; mistakes in them are found here too."""
    settings = settings or AuditSettings()
    model = read_audited_model(
        Model.load(Path(bundle)),
        members=members,
        non_members=non_members,
        attacker=attacker,
        defence=defence,
        settings=settings,
        unbound=unbound,
        device=device,
        progress=progress,
    ).model
    model.check(canaries=settings.canaries)
    trained_by = model.shadow_settings
    assert isinstance(trained_by, TrainingSettings), "a bundle's settings are a network's"
    families = planned_families(model, settings)
    half = len(model.rows) // 2
    seconds = time_an_epoch(model, trained_by, settings, device=device)
    reports = sum(family.trained * family.reports for family in families)
    return AuditPlan(
        bundle=str(bundle),
        device=device,
        families=tuple(families),
        epochs=trained_by.epochs,
        epoch_seconds=round(seconds, 4),
        seconds=round(seconds * trained_by.epochs * reports / max(half, 1) / processes, 1),
    )


def planned_families(model: AuditedModel, settings: AuditSettings) -> list[PlannedFamily]:
    """Every family of models, in the order of training."""
    trained_by = model.settings
    defence = trained_by.defence if isinstance(trained_by, TrainingSettings) else None
    each = {
        "networks": settings.networks,
        "teachers": defence.teachers if isinstance(defence, TeacherSettings) else 0,
    }
    cases, half = model.corpus.cases, len(model.rows) // 2
    attacked = len(np.unique(cases[model.attacker])) >= FEWEST_TO_TRAIN
    families = []
    if attacked:
        own = len(model.attacker) // (2 if settings.sampling == "split" else 1)
        families.append(PlannedFamily(name="the attacker's shadows", models=settings.shadows, reports=own, **each))
    families.append(PlannedFamily(name="the auditor's shadows", models=settings.shadows, reports=half, **each))
    if not attacked:
        families.append(PlannedFamily(name="the null control", models=1, reports=len(model.non_members) // 2, **each))
    base = min(len(model.attacker) or len(model.non_members), CANARY_BASE)
    families.append(
        PlannedFamily(name="the planted leak", models=1, reports=base, networks=settings.networks, teachers=0)
    )
    if settings.canaries:
        families.append(PlannedFamily(name="models with canaries", models=settings.shadows, reports=half, **each))
    return families


def time_an_epoch(model: AuditedModel, trained_by: TrainingSettings, settings: AuditSettings, *, device: str) -> float:
    """Seconds that one network takes for one pass over half of the reports, in a stack where the device stacks; on a
    CPU measured on some of them."""
    plain = None if isinstance(trained_by.defence, TeacherSettings) else trained_by.defence
    once = trained_by.changed(epochs=1, defence=plain, vectors=0.0)
    count = 1 if device == "cpu" else min(STACK, settings.shadows)
    rows = np.sort(model.rows)
    some = model.corpus.take(rows[:: max(1, len(rows) // TIMED)] if device == "cpu" else rows)
    jobs = jobs_of(some, np.arange(some.documents), count=count, seed=settings.seed)
    small = model.corpus.take(rows[:WARM_UP])
    list(train_here(small, [Job(0, np.arange(small.documents), seed=0)], once, silent, "", device=device))
    began = time.perf_counter()
    list(train_here(some, jobs, once, silent, "", device=device))
    return (time.perf_counter() - began) / count * len(rows) / some.documents
