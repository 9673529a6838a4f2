"""Which model an audit is about, as its page says it: name, hash, date, and what it was trained on."""

from datetime import UTC, datetime

from pathveil.bundle import Model
from pathveil.bundle.defence import defence_name
from pathveil.files import MANIFEST
from pathveil.formatting import counted, listed
from pathveil.results import Part
from pathveil.training.settings import TrainingSettings


class ModelStatement(Part):
    """The audited model in a few words."""

    name: str  # of its folder; empty where it was never saved
    model_sha256: str
    written: str  # on which day its folder was written; empty where it was never saved
    tasks: tuple[str, ...]
    reports: int
    cases: int
    registries: tuple[str, ...]
    words: int
    words_by: str  # how they were chosen
    preset: str
    defence: str | None
    rarest_code: int | None = None  # cases below which codes were not learned

    def __str__(self) -> str:
        floor = f"; codes of fewer than {self.rarest_code} cases not learned" if self.rarest_code else ""
        return (
            f"{counted(self.reports, 'report')} of {counted(self.cases, 'case')} from "
            f"{counted(len(self.registries), 'registry', 'registries')} ({listed(self.registries)}); "
            f"{counted(self.words, 'word')}, chosen by: {self.words_by}; tasks {listed(self.tasks)}; preset "
            f"{self.preset}, {'no defence' if self.defence is None else f'defence {self.defence}'}{floor}"
        )


def describe_model(model: Model) -> ModelStatement:
    """What a model's bundle says of it."""
    source = model.provenance
    defence = TrainingSettings.model_validate(source["settings"]).defence
    manifest = None if model.folder is None else model.folder / MANIFEST
    day = ""
    if manifest is not None and manifest.is_file():
        day = datetime.fromtimestamp(manifest.stat().st_mtime, UTC).date().isoformat()
    return ModelStatement(
        name="" if model.folder is None else model.folder.resolve().name,
        model_sha256=model.model_sha256,
        written=day,
        tasks=model.tasks,
        reports=source.get("reports", 0),
        cases=source.get("cases", 0),
        registries=tuple(source.get("registries", ())),
        words=len(model.words),
        words_by=model.vocabulary.method,
        preset=str(source.get("preset", "")),
        defence=None if defence is None else defence_name(defence),
        rarest_code=(source.get("class_floor") or {}).get("fewest_cases"),
    )
