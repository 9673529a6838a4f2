"""A way in for each who reads a report: who decides whether a model may leave, who runs the coding, who reviews the
method. Each has a short part of the page with what they ask first; the details stand behind it."""

from dataclasses import dataclass

from pathveil.auditing.worlds import Estimate as WorldsEstimate
from pathveil.formatting import counted, listed
from pathveil.studies.report.defences import small_worlds
from pathveil.studies.report.figures import VERDICTS
from pathveil.studies.report.opening import (
    MODELS,
    chosen_of,
    deciding_study,
    defence_point,
    found_of_hundred,
    hundredths,
)
from pathveil.studies.report.tables import (
    Cell,
    Section,
    Table,
    appetite_tables,
    mean_estimate,
    mean_of,
    number,
    with_interval,
)
from pathveil.studies.result import Studies, StudyResult
from pathveil.studies.rows import Estimate
from pathveil.studies.tables import AnyResult, DefencesResult, DistributionResult, VocabularyResult


@dataclass(frozen=True)
class Reader:
    """A way in: who it is for, what they find there, and where that is."""

    who: str
    asks: str
    place: str


READERS = (
    Reader("I decide whether it may leave", "What an attacker learns from each, held against the limit", "leave"),
    Reader("I run the coding", "How many codes are right, in which task, and what joining is worth", "coding"),
    Reader("I review the method", "Tests, intervals, what is undecided and what size would decide it", "method"),
)


def reader_sections(result: StudyResult, *, audit_page: str = "") -> list[Section]:
    """The parts of the first two readers; the third's is the page's account of its methods."""
    part = deciding_study(result.studies)
    if part is None:
        return []
    return [leave_section(part, audit_page), coding_section(part, result.studies)]


def leave_section(part: AnyResult, audit_page: str) -> Section:
    """May it leave? Every candidate under the limit, what other limits lead to, then what this page cannot tell."""
    tolerated, found = part.settings["tolerated"], part.recommendation
    verdicts: list[str] = [one.verdict for one in found.candidates]
    told = []
    for verdict, (name, _, _) in VERDICTS.items():
        if many := verdicts.count(verdict):
            told.append(f"{many} {name if many == 1 else name.replace('s ', ' ', 1)}")  # one keeps, two keep
    text = f"The limit of this study is an attacker's AUC of {tolerated:g}, where 0.5 is guessing and 1 is certainty. "
    text += f"Of {counted(len(verdicts), 'candidate')} {listed(told)}. The limit is a setting of the study: your own "
    text += "is written down with 'pathveil appetite new', and what other limits lead to stands in the second table."
    points = [
        "This compares ways to make a model. The model that is to leave needs an audit of its own, held against a "
        "limit that somebody signed: 'pathveil audit', then 'pathveil release'.",
        "Attacks are the strongest we know how to run; a stronger one may exist. What they find is a lower bound.",
        "Intervals say how models drawn like these vary on this corpus, not what other reports would give.",
    ]
    return Section(
        id="leave",
        title="May it leave?",
        text=text,
        points=[*exposed(part), *points],
        link=(audit_page, "The audit page of the model made in this run: to read, and to sign") if audit_page else None,
        tables=[leave_table(part), *appetite_tables(found, "leave-appetites")],
    )


def exposed(part: AnyResult) -> list[str]:
    """What is to be said of the most exposed reports, where a study has planted some."""
    point = defence_point(part)
    worst = max((one.value for one in point.canaries.values() if one is not None), default=None) if point else None
    if point is None or worst is None:
        return []
    told = f"The most exposed reports (canaries: strange ones, planted) are told with an AUC of {worst:.2f} where all "
    return [f"{told}reports together are with {point.auc.value:.2f}: an average hides who is rare."]


def leave_table(part: AnyResult) -> Table:
    """Every candidate: its verdict in plain words, and what it rests on."""
    rows = []
    points = {point.name: point for point in part.points} if isinstance(part, DefencesResult) else {}
    chosen = part.recommendation.use
    for one in part.recommendation.candidates:
        mark = " (recommended)" if one.name == chosen and part.recommendation.within else ""
        point = points.get(one.name)
        found = [Cell(found_of_hundred(point), point.tpr_at_1.value)] if point is not None else []
        rows.append([f"{one.name}{mark}", VERDICTS[one.verdict][0], *found, with_interval(one.auc), number(one.macro)])
    heads = ["candidate", "under the limit", *(["found of 100 people"] if points else [])]
    several = MODELS.get(part.study)
    heads += [f"attacker's AUC ({'lowest, highest end' if several else '95 %'})", "macro F1"]
    note = "“Keeps to the limit”: the whole interval does. “Breaks”: none of it does. Else it cannot be told yet."
    if several:
        note = (
            f"Each was tried with several models, {several}. “Keeps to the limit”: every model's whole interval does. "
        )
        note += "“Breaks”: there is a model of whose interval nothing does. Else it cannot be told yet."
    note += " Found at one false accusation in a hundred." if points else ""
    return Table("leave-table", "Each under the limit", heads, rows, note=note)


def coding_section(part: AnyResult, studies: Studies) -> Section:
    """What coding is like with what is recommended, and what joining forces is worth."""
    text = (
        f"What a registrar would see with “{chosen_of(part).name}”: how many of 100 reports that the model never saw "
    )
    text += (
        "get the right code. Macro F1 counts rare codes as much as common ones: it is what matters for cancers seen "
    )
    text += "seldom. Every code comes with a probability, so that sure ones may pass and the others go to a person "
    text += "('pathveil evaluate' tells the shares, 'pathveil serve' is the desk)."
    text += small_worlds(part) if isinstance(part, DefencesResult) else ""
    return Section(
        id="coding",
        title="What will coding be like?",
        text=text,
        tables=[*task_table(part), *joining_table(studies.distribution)],
    )


def task_table(part: AnyResult) -> list[Table]:
    """A row a task: of 100 unseen reports, how many are coded rightly; none where a study does not tell by task."""
    rows = [
        [task, Cell(hundredths(micro.value), micro.value), with_interval(micro), with_interval(macro)]
        for task, micro, macro in task_scores(part)
    ]
    heads = ["task", "right, of 100", "micro F1 (95 %)", "macro F1 (95 %)"]
    return [Table("coding-tasks", f"Right codes by task, {chosen_of(part).name}", heads, rows)] if rows else []


def task_scores(part: AnyResult) -> list[tuple[str, Estimate, Estimate]]:
    """Micro and macro F1 of what a study chose, by task; means over folds, registries or seeds."""
    use = chosen_of(part).name
    pairs: dict[str, list[tuple[Estimate, Estimate]]] = {}
    if isinstance(part, DefencesResult):
        point = defence_point(part)
        for row in part.table:
            if point is not None and (row.way, row.vocabulary) == (point.way, point.vocabulary):
                for task, own in row.tasks.items():
                    pairs.setdefault(task, []).append((as_share(own["micro"]), as_share(own["macro"])))
    elif isinstance(part, VocabularyResult):
        for row in part.table2:
            if row.strategy == use:
                both = [(getattr(row, figure), getattr(row, f"{figure}_ci")) for figure in ("micro", "macro")]
                micro, macro = (Estimate(value=value, low=ends[0], high=ends[1]) for value, ends in both)
                pairs.setdefault(row.task, []).append((micro, macro))
    elif isinstance(part, DistributionResult):
        for row in part.scores:
            if row.mode == use:
                pairs.setdefault(row.task, []).append((row.micro, row.macro))
    return [
        (task, mean_estimate([micro for micro, _ in own]), mean_estimate([macro for _, macro in own]))
        for task, own in pairs.items()
    ]


def as_share(figure: WorldsEstimate) -> Estimate:
    """An estimate of the audit's, whose ends may leave 0 to 1, as one of a study's."""
    ends = {end: min(1.0, max(0.0, getattr(figure, end))) for end in ("value", "low", "high")}
    return Estimate(**ends)


def joining_table(study: DistributionResult | None) -> list[Table]:
    """What a registry gains by joining: its own model, one made together without showing reports, and one of all
    reports in one place."""
    there = {row.mode for row in study.scores} if study is not None else set()
    modes = [] if study is None else [m for m in ("single", study.recommendation.use, "centralized") if m in there]
    if study is None or len(modes) < 2:
        return []
    rows = []
    for registry in dict.fromkeys(row.registry for row in study.scores):
        own = [[r.micro for r in study.scores if (r.registry, r.mode) == (registry, mode)] for mode in modes]
        means = [mean_of(one, "value") for one in own]
        rows.append([registry, *(number(None) if one is None else Cell(hundredths(one), one) for one in means)])
    told = {"single": "alone", "centralized": "all reports in one place"}
    heads = ["registry", *(told.get(str(mode), f"together, no report shown ({mode})") for mode in modes)]
    title = "What joining is worth: right codes of 100 unseen reports, mean of the tasks"
    return [Table("joining", title, heads, rows)]
