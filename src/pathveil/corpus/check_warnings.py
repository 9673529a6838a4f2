"""What ``check`` warns of: each warning has an id, a sentence, how many reports or classes it concerns, and examples.

The rules see a table of facts (one row a report, no text), as ``check.facts_of`` makes it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pathveil.corpus.schema import SHOWN, clipped, shortened
from pathveil.formatting import counted
from pathveil.icdo.codes import check_labels, showable_label
from pathveil.icdo.combinations import contradicts_pair, is_implausible
from pathveil.results import Part

if TYPE_CHECKING:
    import polars as pl

SHORT = 10  # words; less is rarely a report
RARE = 5  # reports; a class below cannot be learnt, scored or hidden
CONSTANT = 0.95  # share of one class from which a task measures nothing
EARLIEST = 1950  # a report dated before is a slip


class CorpusWarning(Part):
    """One thing to mend or to know."""

    id: str
    count: int
    sentence: str
    reports: list[str]  # ids of the first ones concerned


class Warnings:
    """Collects warnings about the reports of one corpus."""

    def __init__(self, facts: "pl.DataFrame"):
        self.facts = facts
        self.found: list[CorpusWarning] = []

    def add(self, name: str, sentence: str, count: int, where: "pl.Series | None" = None) -> None:
        """Add a warning, unless its count is zero; ``where`` marks the reports concerned."""
        if count:
            ids = [] if where is None else [clipped(report) for report in self.facts["report_id"].filter(where)[:SHOWN]]
            self.found.append(CorpusWarning(id=name, count=count, sentence=sentence, reports=ids))

    def add_reports(
        self, name: str, where: "pl.Series", verb: str, what: str, *, examples: "pl.Series | None" = None
    ) -> None:
        """Add a warning about the reports that ``where`` marks: how many they are, and what they hold, have or are."""
        count, reports = int(where.sum()), self.facts.height
        share = f" ({count / reports:.1%})" if count >= reports / 1000 else ""
        verb = verb if count != 1 else {"have": "has", "are": "is"}.get(verb, f"{verb}s")
        sentence = f"{count:,} of {reports:,} reports{share} {verb} {what}"
        self.add(name, sentence, count, where if examples is None else examples)


def warnings_of(facts: "pl.DataFrame", tasks: Sequence[str], *, year: int) -> list[CorpusWarning]:
    """Collect what to mend or to know, the gravest first; ``year`` is the present one."""
    warnings = Warnings(facts)
    if not any(facts[f"task {task}"].count() for task in tasks):
        sentence = "no report has a label, so nothing can be trained: add codes with 'pathveil corpus label'"
        warnings.add("no-labels", sentence, facts.height)
    warn_of_leaks(warnings)
    for task in tasks:
        warn_of_task(warnings, task)
    warn_of_codes(warnings, tasks)
    warn_of_dates(warnings, year)
    warn_of_texts(warnings)
    return warnings.found


def warn_of_leaks(warnings: Warnings) -> None:
    """Warn of what a text should not hold, and of what two cases should not share."""
    import polars as pl

    facts = warnings.facts
    own = int(facts["own code"].sum())
    of_them = f"; in {own:,} it is the report's own label" if own else ""
    warnings.add_reports(
        "leaked-labels",
        facts["code"],
        "hold",
        f"a literal ICD-O-3 code{of_them}: a model may read the label instead of the report",
        examples=facts["own code"] if own else None,
    )
    rounded = "a case_id such as 1.23E+11, a long number that a spreadsheet rounded: patients may have become one"
    warnings.add_reports("rounded-cases", facts["rounded"], "have", rounded)
    several = facts.select((pl.col("registry").n_unique().over("case") > 1).alias("x"))["x"]
    count = facts["case"].filter(several).n_unique()
    sentence = f"{counted(count, 'case')} in more than one registry: a split by registry is not apart"
    warnings.add("shared-cases", sentence, count, several)
    again = facts.select((pl.col("case").n_unique().over("content") > 1).alias("x"))["x"]
    warnings.add_reports("repeated-texts", again, "have", "word for word the text of another case")
    looks = "what looks like a record number, birth date, phone or e-mail"
    warnings.add_reports("identifiers", facts["identifier"], "hold", looks)


def warn_of_task(warnings: Warnings, task: str) -> None:
    """Warn of what is unusual about one task's labels."""
    import polars as pl

    facts = warnings.facts
    column = facts[f"task {task}"]
    labels = column.drop_nulls().cast(pl.String)
    if not len(labels):
        warnings.add("empty-task", f"task {task} has no label at all", facts.height)
        return
    counts = labels.value_counts().sort("count", labels.name, descending=[True, False])
    largest, reports = counts.row(0)
    if round(reports / len(labels), 4) >= CONSTANT and len(labels) > 1:
        named = showable_label(task, largest)
        sentence = f"task {task} is nearly constant: {named} is {reports / len(labels):.1%} of its labels"
        warnings.add("constant-task", sentence, len(labels))
    rare = counts["count"].filter(counts["count"] < RARE)
    sentence = (
        f"task {task} has {len(rare):,} of {counts.height:,} classes with fewer than {RARE} reports "
        f"({int((rare == 1).sum()):,} with one), {counted(int(rare.sum()), 'report')} in all: hardly learnt, "
        "and easily recognised"
    )
    warnings.add("rare-classes", sentence, len(rare))
    missing = facts.height - len(labels)
    if missing > facts.height / 2:
        sentence = f"task {task} has no label in {missing / facts.height:.0%} of reports"
        warnings.add("missing-labels", sentence, missing)
    registries = facts["registry"].cast(pl.String)
    without = sorted(set(registries) - set(registries.filter(column.is_not_null())))
    sentence = f"task {task} has no label in {shortened(without)}"
    warnings.add("registry-without-task", sentence, len(without))
    spelt = labels.unique()
    doubled = len(spelt) - spelt.str.to_uppercase().str.replace_all(r"[\s._-]", "").n_unique()
    sentence = f"task {task} has {counted(doubled, 'label')} unlike another only in case or punctuation"
    warnings.add("spelling", sentence, doubled)
    pairs = facts.select(pl.col("case"), column.alias("label")).drop_nulls()
    unlike = pairs.group_by("case").agg(pl.col("label").n_unique().alias("n")).filter(pl.col("n") > 1)["case"]
    where = facts["case"].is_in(unlike.implode()) if len(unlike) else None
    sentence = f"task {task} has more than one label within {counted(len(unlike), 'case')}"
    warnings.add("differing-labels", sentence, len(unlike), where)


def warn_of_codes(warnings: Warnings, tasks: Sequence[str]) -> None:
    """Warn of codes that nobody knows, and of those that contradict each other."""
    import polars as pl

    counts = {
        task: dict(warnings.facts[f"task {task}"].drop_nulls().cast(pl.String).value_counts().iter_rows())
        for task in tasks
    }
    unknown, otherwise = check_labels(counts)
    for codes in unknown:
        sentence = f"task {codes.sentence()} of codes that ICD-O-3 does not have"
        warnings.add("unknown-codes", sentence, codes.reports)
    if otherwise:
        count, named = sum(otherwise.values()), ", ".join(f"{task} {labels:,}" for task, labels in otherwise.items())
        sentence = f"{counted(count, 'label')} written otherwise than here ({named}), such as C504 for C50.4; "
        warnings.add("another-form", f"{sentence}'pathveil corpus import' puts them into one form", count)
    if {"site", "subsite"} <= set(tasks):
        site, subsite = (warnings.facts[f"task {task}"].cast(pl.String) for task in ("site", "subsite"))
        outside = (site != subsite.str.slice(0, 3)).fill_null(False) & subsite.str.contains(r"^C\d\d").fill_null(False)
        warnings.add_reports("subsite-outside-site", outside, "have", "a subsite that is not within its site")
    if {"subsite", "histology"} <= set(tasks):
        names = ["subsite", "histology", *(["behavior"] if "behavior" in tasks else [])]
        where = marked(warnings.facts, names, is_implausible)
        warnings.add_reports(
            "implausible-histology", where, "have", "a histology that SEER does not list at their subsite"
        )
    if {"subsite", "laterality"} <= set(tasks):
        where = marked(warnings.facts, ["subsite", "laterality"], contradicts_pair)
        what = "a side where the subsite is not one of a pair, or none where it is"
        warnings.add_reports("side-of-unpaired-site", where, "have", what)


def marked(facts: "pl.DataFrame", tasks: Sequence[str], strange: Callable[..., bool]) -> "pl.Series":
    """Mark the reports whose labels of these tasks are strange together; the first two must be there, a third may."""
    import polars as pl

    labels = facts.select(pl.col(f"task {task}").cast(pl.String).alias(task) for task in tasks)
    rows = labels.drop_nulls(tasks[:2]).unique().rows()
    found = pl.DataFrame([row for row in rows if strange(*row)], schema=labels.schema, orient="row")
    found = found.with_columns(pl.lit(True).alias("strange"))
    joined = labels.join(found, on=list(tasks), how="left", nulls_equal=True, maintain_order="left")
    return joined["strange"].fill_null(False)


def warn_of_dates(warnings: Warnings, year: int) -> None:
    when = warnings.facts["when"]
    odd = ((when < EARLIEST) | (when > year)).fill_null(False)
    warnings.add_reports("undated", when.is_null(), "have", "neither a date nor a year")
    warnings.add_reports("odd-years", odd, "are", f"dated before {EARLIEST} or after {year}")
    warnings.add_reports("years-differ", warnings.facts["years differ"], "have", "a date and a year that differ")


def warn_of_texts(warnings: Warnings) -> None:
    """Warn of texts that are hardly a report, or damaged."""
    facts = warnings.facts
    damage = "control or replacement characters, or Ã¶ for ö: an encoding went wrong"
    warnings.add_reports("short-texts", facts["words"] < SHORT, "have", f"fewer than {SHORT} words")
    warnings.add_reports("damaged-texts", facts["damage"], "hold", damage)
    warnings.add_reports("markup", facts["markup"], "hold", "RTF or HTML markup")
