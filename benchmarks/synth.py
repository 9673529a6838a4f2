"""The synthetic corpus: how fast it is made, in how much memory, and how hard its labels are to find.

Making reports is timed beside cleaning the same reports by plain `re` (`text.tokenizer.tokenize`), alternately, in CPU
seconds: both work on one core. ``--memory`` makes ``--reports`` of them and watches memory; ``--difficulty`` asks a
look-up of class names, a search for literal codes, and TF-IDF with logistic regression, on cases held out (slow).
"""

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _timing import alternate, rss
from pathveil.corpus.synth import SynthSettings, synthesise, write_corpus
from pathveil.icdo.lists import code_lists
from pathveil.progress import Progress
from pathveil.text.tokenizer import tokenize

TASKS = ("site", "subsite", "laterality", "histology", "behavior")
CODE = r"\bC\d\d\.\d\b|\bM-\d{5}\b"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reports", type=int, default=10_000, help="reports to make (default 10,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds (default 3)")
    parser.add_argument("--memory", action="store_true", help="write them to a file, watching memory")
    parser.add_argument("--difficulty", action="store_true", help="measure how hard the labels are")


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    config = SynthSettings(reports=options.reports, seed=options.seed)
    if options.memory:
        return {"memory": memory(config, progress=progress)}
    if options.difficulty:
        return {"difficulty": difficulty(config, progress=progress)}
    texts = [text for reports, _ in synthesise(config) for text in reports["text"]]
    number = count()  # a corpus takes no other file's place
    with TemporaryDirectory() as folder:
        things = {
            "make": lambda: list(synthesise(config)),
            "make and write": lambda: write_corpus(
                config, out=Path(folder) / f"{next(number)}.parquet", truth=Path(folder) / f"{next(number)}.parquet"
            ),
            "clean": lambda: [tokenize(text) for text in texts],
        }
        seconds = alternate(things, rounds=options.rounds, stage="timing", progress=progress, clock=time.process_time)
    return {
        "reports": options.reports,
        "words_a_report": round(sum(len(text.split()) for text in texts) / len(texts)),
        "reports_per_cpu_second": {name: round(options.reports / value) for name, value in seconds.items()},
        "ratio_to_make": {name: round(value / seconds["make"], 2) for name, value in seconds.items()},
    }


def memory(config: SynthSettings, *, progress: Progress) -> dict[str, Any]:
    """Memory held after each tenth of the reports."""
    held: list[int] = []

    def watch(stage: str, done: int, total: int) -> None:
        if done * 10 >= total * (len(held) + 1):
            held.append(rss() // 2**20)
        progress(stage, done, total)

    with TemporaryDirectory() as folder:
        start = time.process_time()
        write_corpus(config, out=Path(folder) / "a.parquet", truth=Path(folder) / "b.parquet", progress=watch)
        seconds = time.process_time() - start
        size = (Path(folder) / "a.parquet").stat().st_size
    return {
        "reports": config.reports,
        "megabytes_held": held,
        "file_megabytes": size // 2**20,
        "reports_per_cpu_second": round(config.reports / seconds),
    }


def difficulty(config: SynthSettings, *, progress: Progress) -> dict[str, Any]:
    """What simple means find on a fifth of the cases."""
    import polars as pl
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score

    corpus = pl.concat(reports for reports, _ in synthesise(config))
    held_out = pl.col("case_id").str.slice(-1).is_in(["3", "7"])
    train, test = corpus.filter(~held_out), corpus.filter(held_out)
    words = TfidfVectorizer(min_df=5, sublinear_tf=True, max_features=12_000)
    known, unseen = words.fit_transform(train["text"]), words.transform(test["text"])
    scores = {}
    for number, task in enumerate((*TASKS, "registry")):
        progress("fitting", number, len(TASKS) + 1)
        there, asked = train[task].is_not_null().to_numpy(), test[task].is_not_null().to_numpy()
        model = LogisticRegression(C=20, max_iter=60, tol=1e-3).fit(known[there], train[task].drop_nulls().to_list())
        truth, found = test[task].drop_nulls().to_list(), model.predict(unseen[asked])
        scores[task] = {
            "classes": corpus[task].drop_nulls().n_unique(),
            "micro": round(float(f1_score(truth, found, average="micro")), 3),
            "macro": round(float(f1_score(truth, found, average="macro", zero_division=0)), 3),
        }
    _, names, terms, _, _ = code_lists()
    by_site: dict[str, list[str]] = {}
    for subsite, said in names.items():
        by_site.setdefault(subsite[:3], []).extend(said)
    by_histology: dict[str, list[str]] = {}
    for morphology, said in terms.items():
        by_histology.setdefault(morphology[:4], []).extend(said)
    sample = test.head(1_000)
    return {
        "reports": corpus.height,
        "linear": scores,
        "look_up": {
            "site": look_up(sample, "site", by_site),
            "subsite": look_up(sample, "subsite", names),
            "histology": look_up(sample, "histology", by_histology),
            "laterality": sides(sample),
        },
        "reports_with_a_literal_code": round(float(corpus["text"].str.contains(CODE).mean()), 3),
    }


def look_up(sample: Any, task: str, names: Mapping[str, Sequence[str]]) -> float:
    """Right answers when the class whose name fills most of the text is taken."""
    plain = {code: [re.sub(r"\[.*?\]", "", name).lower() for name in said] for code, said in names.items()}
    right = []
    for text, label in sample.drop_nulls(task).select("text", task).iter_rows():
        low = text.lower()
        filled = {code: max(len(name) * low.count(name) for name in said) for code, said in plain.items()}
        right.append(max(filled, key=lambda code: filled[code]) == label)
    return round(sum(right) / len(right), 3)


def sides(sample: Any) -> float:
    """Right answers when the side that is named more often is taken, and 'not paired' where none is."""
    right = []
    for text, label in sample.drop_nulls("laterality").select("text", "laterality").iter_rows():
        low = text.lower()
        left, other = len(re.findall(r"\b(?:left|lt)\b", low)), len(re.findall(r"\b(?:right|rt)\b", low))
        right.append(label == ("left" if left > other else "right" if other > left else "not_paired"))
    return round(sum(right) / len(right), 3)


def describe(result: dict[str, Any]) -> str:
    if "memory" in result:
        found = result["memory"]
        held = " ".join(map(str, found["megabytes_held"]))
        return (
            f"{found['reports']:,} reports, {found['file_megabytes']:,} MB on disk, "
            f"{found['reports_per_cpu_second']:,} a CPU second; MB held after each tenth: {held}"
        )
    if "difficulty" in result:
        found = result["difficulty"]
        lines = [f"{found['reports']:,} reports, a fifth of the cases held out; TF-IDF + logistic regression, F1:"]
        for task, score in found["linear"].items():
            asked = found["look_up"].get(task)
            line = (
                f"  {task:<11} {score['classes']:>4} classes  micro F1 {score['micro']:.3f}  macro {score['macro']:.3f}"
            )
            lines.append(line + (f"  look-up {asked:.3f}" if asked is not None else ""))
        return "\n".join([*lines, f"reports that hold a literal code: {found['reports_with_a_literal_code']:.1%}"])
    lines = [f"{result['reports']:,} reports of {result['words_a_report']} words, one core, reports a CPU second:"]
    for name, speed in result["reports_per_cpu_second"].items():
        lines.append(f"  {name:<16} {speed:>7,}   time {result['ratio_to_make'][name]:.2f}× making")
    return "\n".join(lines)
