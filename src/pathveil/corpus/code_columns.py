"""The columns of a corpus that hold codes, put into this project's form (``icdo.codes``), with an account of it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pathveil.corpus.recurring import Recurring
from pathveil.corpus.schema import TASKS, given
from pathveil.icdo.codes import PARSERS, CodeCounts, ParsedCode, count_unknown

if TYPE_CHECKING:
    import polars as pl


class CodeReader:
    """Codes put into this project's form, some rows at a time, with an account of what was done to all of them.

    A column that says more than it may hold fills the other task where that has no label: 8500/3 the behavior, C50.4
    the site and the subsite. Where both are there and contradict each other, both stay. Each value is read once.
    With ``keep_unknown``, a column of sites may have classes of its own, so its blanks stay blank.
    """

    def __init__(self, present: Iterable[str], *, keep_unknown: bool = False):
        self.columns = sorted(present, key=lambda task: task in ("site", "histology"))
        self.keep_unknown = keep_unknown
        self.values = {column: Recurring() for column in self.columns}
        # The values without blanks around, none for words such as NULL.
        self.bare: dict[str, list[str | None]] = {column: [] for column in self.columns}
        self.codes: dict[str, dict[str, ParsedCode]] = {column: {} for column in self.columns}  # of bare values
        self.said: dict[str, dict[str, list[str | None]]] = {column: {} for column in self.columns}  # of all values

    def add(self, batch: "pl.DataFrame") -> None:
        """Read the codes of a batch that no batch before it had."""
        import polars as pl

        for column in self.columns:
            if new := self.values[column].add(batch[column]):
                bare = pl.select(given(pl.lit(pl.Series(new))).str.strip_chars()).to_series().to_list()
                reader, said, known = PARSERS[column], self.said[column], len(self.bare[column])
                codes = {value: reader(value) for value in bare if value}
                self.codes[column].update(codes)
                self.bare[column] += bare
                for task, labels in self._answers(column, codes).items():
                    said.setdefault(task, [None] * known).extend(labels.get(value) for value in bare)
                for labels in said.values():
                    labels += [None] * (len(self.bare[column]) - len(labels))

    def others(self) -> list[str]:
        """The tasks without a column of which others speak."""
        said = dict.fromkeys(task for column in self.columns for task in self.said[column])
        return [task for task in said if task not in self.columns]

    def labels(self) -> dict[str, "pl.Series"]:
        """What the codes of the last batch say of each task, its own column first."""
        import polars as pl

        found: dict[str, list[pl.Series]] = {}
        for column in self.columns:
            for task, labels in self.said[column].items():
                answers = found.setdefault(task, [])
                answers.insert(0 if task == column else len(answers), self.values[column].answers(labels))
        return {task: pl.select(pl.coalesce(answers)).to_series().alias(task) for task, answers in found.items()}

    def changes(self) -> dict[str, list["pl.Expr"]]:
        """What columns say of each task, its own column first."""
        import polars as pl

        said: dict[str, list[pl.Expr]] = {}
        for column in self.columns:
            codes = self.codes[column]
            for task, labels in self._answers(column, codes).items():
                same = task == column and all(labels.get(value) == value for value in codes)
                answer = pl.col(column) if same else translated(column, labels)
                said.setdefault(task, []).insert(0 if task == column else len(said.get(task, ())), answer)
        return said

    def _answers(self, column: str, codes: Mapping[str, ParsedCode]) -> dict[str, dict[str, str]]:
        """What values of a column say of each task."""
        answers: dict[str, dict[str, str]] = {column: {}}
        for value, (labels, unknown) in codes.items():
            if unknown:
                if self.keep_unknown:
                    answers[column][value] = labels.get(column, value)
                continue
            for task, label in labels.items():
                answers.setdefault(task, {})[value] = label
        if column == "subsite" and "site" in self.columns and self.keep_unknown:
            answers.pop("site", None)
        return answers

    def account(self) -> CodeCounts:
        """What was done to all codes."""
        rewritten, unknown = {}, []
        for column in self.columns:
            counts: Counter[str | None] = Counter()
            for value, times in zip(self.bare[column], self.values[column].times.tolist(), strict=True):
                counts[value] += times
            codes = self.codes[column]
            strange = sorted(value for value, code in codes.items() if code.unknown)
            if strange:
                unknown.append(count_unknown(column, {value: counts[value] for value in strange}))
            answers = self._answers(column, codes)[column]
            if changed := sum(counts[value] for value, label in answers.items() if label != value):
                rewritten[column] = changed
        unknown.sort(key=lambda one: TASKS.index(one.task))
        return CodeCounts(rewritten=rewritten, unknown=unknown, kept_unknown=self.keep_unknown)


def normalise_codes(frame: "pl.LazyFrame", *, keep_unknown: bool = False) -> tuple["pl.LazyFrame", CodeCounts]:
    """The frame with its codes in this project's form, and what was done to them.

    The codes are read once to learn which there are, so ``frame`` should be cheap to read.
    """
    import polars as pl

    reader = CodeReader([task for task in TASKS if task in frame.collect_schema()], keep_unknown=keep_unknown)
    if not reader.columns:
        return frame, reader.account()
    for batch in frame.select(reader.columns).collect_batches(engine="streaming"):
        reader.add(batch)
    changes = [pl.coalesce(answers).alias(task) for task, answers in reader.changes().items()]
    return frame.with_columns(changes), reader.account()


def translated(column: str, labels: Mapping[str, str]) -> "pl.Expr":
    """A column's values as others, missing where there is none.

    A batch at a time: given to polars as an expression, a replacement holds the whole frame in memory, texts included.
    """
    import polars as pl

    def replaced(values: pl.Series) -> pl.Series:
        return values.replace_strict(list(labels), list(labels.values()), default=None, return_dtype=pl.String)

    return pl.col(column).map_batches(replaced, return_dtype=pl.String, is_elementwise=True)
