"""Counting and mutual information: growth with the corpus, memory, and scikit-learn beside it.

The corpus is drawn at the papers' sizes: reports of 600 words from 58,000 Zipf-distributed ones, 70 + 326 + 639 + 7 + 4
classes, seven registries. Growth times the same work on 1/8, 1/4, 1/2 and all of it. scikit-learn's CountVectorizer and
mutual_info_classif (once a class, as the paper's definition needs) are timed on a part of the same reports as text; a
few classes are run and the time of all 1,046 is worked out from them. Answers are compared on those classes. Times are
CPU seconds over all cores, so that a busy machine does no harm; growth is shown by the clock too.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np
from scipy import sparse

from _timing import peak_rss
from pathveil.progress import Progress
from pathveil.text.bulk import BulkTokenizer, Numbers
from pathveil.vocabulary.counting import count
from pathveil.vocabulary.counts import WordCounts
from pathveil.vocabulary.mutual_information import mutual_information, scores
from pathveil.vocabulary.tokens import Tokens

CLASSES = {"site": 70, "subsite": 326, "histology": 639, "laterality": 7, "behavior": 4}
BLOCK = 2000  # reports drawn at a time


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reports", type=int, default=100_000, help="reports (default 100000)")
    parser.add_argument("--length", type=int, default=600, help="words a report (default 600)")
    parser.add_argument("--distinct", type=int, default=58_000, help="distinct words (default 58000)")
    parser.add_argument("--sklearn-reports", type=int, default=1000, help="reports scikit-learn is timed on")
    parser.add_argument("--sample", type=int, default=1, help="classes scikit-learn is run for (0: leave it away)")
    parser.add_argument("--seed", type=int, default=1, help="of the drawn corpus")


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    store, labels, classes = drawn(options, progress=progress)
    warm_up(store, labels, classes)
    before = peak_rss()
    growth = []
    for part in (8, 4, 2, 1):
        rows = np.arange(options.reports // part)
        start, busy = time.perf_counter(), time.process_time()
        counts = count(store, labels, classes, rows=rows, progress=progress)
        counted = time.process_time()
        mutual_information(counts)
        growth.append(
            {
                "reports": len(rows),
                "count_cpu_seconds": round(counted - busy, 3),
                "information_cpu_seconds": round(time.process_time() - counted, 3),
                "seconds": round(time.perf_counter() - start, 3),
            }
        )
    return {
        "reports": options.reports,
        "words": len(store.ids),
        "distinct_words": len(store.words),
        "classes": sum(CLASSES.values()),
        "growth": growth,
        "peak_mb": round(peak_rss() / 2**20),
        "peak_mb_of_the_corpus_itself": round(before / 2**20),
        "scikit_learn": beside_sklearn(store, labels, classes, options, progress=progress),
    }


def drawn(options: argparse.Namespace, *, progress: Progress) -> tuple[Tokens, dict, dict]:
    """A token store with labels, as `tokens` and `read_labels` would give them for such reports."""
    random = np.random.default_rng(options.seed)
    shares = np.cumsum(1 / (np.arange(options.distinct) + 2.7) ** 1.05)
    names = [f"w{number:05d}" for number in range(options.distinct)]
    ranks = random.permutation(options.distinct).astype(
        np.int32
    )  # a word's place in the alphabet says nothing of its rank
    ids = np.empty(options.reports * options.length, np.int32)
    for start in range(0, options.reports, BLOCK):
        size = (min(start + BLOCK, options.reports) - start) * options.length
        drawn_ranks = np.searchsorted(shares, random.random(size) * shares[-1])
        ids[start * options.length : start * options.length + size] = ranks[drawn_ranks]
        progress("drawing reports", start + BLOCK, options.reports)
    labels, classes = {}, {}
    for task, kinds in CLASSES.items():
        weights = 1 / np.arange(1, kinds + 1)
        labels[task] = random.choice(kinds, options.reports, p=weights / weights.sum()).astype(np.int32)
        # Some signal: a report's first words tell its label, so that scores are not all noise.
        ids[:: options.length] = labels["site"]
        classes[task] = tuple(f"{task}{number:03d}" for number in range(kinds))
    store = Tokens(
        words=tuple(names),
        ids=ids,
        offsets=np.arange(options.reports + 1, dtype=np.int64) * options.length,
        cases=np.arange(options.reports, dtype=np.int64) // 2,
        registries=random.integers(0, 7, options.reports).astype(np.int32),
        registry_names=tuple(f"R{number}" for number in range(1, 8)),
        provenance={"corpus_sha256": "", "text": ""},
    )
    return store, labels, classes


def warm_up(store: Tokens, labels: dict, classes: dict) -> None:
    """Compile, so that no compilation is timed."""
    mutual_information(count(store, labels, classes, rows=np.arange(20)))
    BulkTokenizer(Numbers().__getitem__).add(["warm up"])


def beside_sklearn(
    store: Tokens, labels: dict, classes: dict, options: argparse.Namespace, *, progress: Progress
) -> dict[str, Any] | None:
    try:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.feature_selection import mutual_info_classif
    except ImportError:
        return None
    if not options.sample:
        return None
    rows = np.arange(min(options.sklearn_reports, options.reports))
    names = np.array(store.words)
    texts = [" ".join(names[store.ids[store.offsets[row] : store.offsets[row + 1]]]) for row in rows]

    progress("ours", 0, 0)
    start = time.process_time()
    numbers = Numbers()
    ids, offsets = BulkTokenizer(numbers.__getitem__).add(texts)
    part = Tokens(
        words=tuple(numbers),
        ids=ids,
        offsets=offsets,
        cases=store.cases[rows],
        registries=store.registries[rows],
        registry_names=store.registry_names,
        provenance=store.provenance,
    )
    counts = count(part, {task: label[rows] for task, label in labels.items()}, classes)
    mutual_information(counts)
    ours = time.process_time() - start

    start = time.process_time()
    vectorizer = CountVectorizer(binary=True, token_pattern=r"\S+")
    matrix = vectorizer.fit_transform(texts)
    vectorized = time.process_time() - start
    seconds, difference = [], 0.0
    random = np.random.default_rng(options.seed)
    for number, kind in enumerate(random.choice(CLASSES["site"], options.sample, replace=False)):
        progress("scikit-learn, class by class", number, options.sample)
        y = labels["site"][rows] == kind
        start = time.process_time()
        theirs = mutual_info_classif(matrix, y, discrete_features=True)
        seconds.append(time.process_time() - start)
        share = y.mean()
        theirs /= -(share * np.log(share) + (1 - share) * np.log(1 - share))
        found = one_class(counts, classes, int(kind), len(rows))
        place = {word: at for at, word in enumerate(counts.words)}
        same = np.array([found[place[word]] for word in vectorizer.get_feature_names_out()])
        difference = max(difference, float(np.abs(same - theirs).max()))
    all_classes = vectorized + sum(CLASSES.values()) * statistics.median(seconds)
    return {
        "reports": len(rows),
        "words": len(counts.words),
        "classes_run": options.sample,
        "ours_cpu_seconds_all_classes": round(ours, 3),
        "theirs_cpu_seconds_a_class": round(statistics.median(seconds), 2),
        "theirs_cpu_seconds_all_classes_worked_out": round(all_classes, 1),
        "ratio": round(all_classes / ours),
        "largest_difference": difference,
    }


def one_class(counts: WordCounts, classes: dict, kind: int, reports: int) -> np.ndarray:
    """Each word's score for one class against the rest."""
    joint = counts.joint[0]
    for table in counts.joint[1:]:
        joint = joint + table
    both = joint[:, [kind]].toarray().ravel()
    held = counts.reports.sum(axis=0)
    members = int(counts.labels.sum(axis=0)[kind])
    table = sparse.csr_array(np.stack([both, held - both], axis=1))
    return scores(table, np.array([members, reports - members]), np.array([0, 0]))


def describe(result: dict[str, Any]) -> str:
    lines = [
        f"{result['reports']:,} reports, {result['words']:,} words running, {result['distinct_words']:,} distinct, "
        f"{result['classes']:,} classes",
        f"{'reports':>10}{'counting':>12}{'information':>13}{'CPU':>9}{'against half':>14}{'by the clock':>14}",
    ]
    last = None
    for row in result["growth"]:
        total = row["count_cpu_seconds"] + row["information_cpu_seconds"]
        ratio = f"{total / last:.2f}×" if last else ""
        lines.append(
            f"{row['reports']:>10,}{row['count_cpu_seconds']:>11.2f}s{row['information_cpu_seconds']:>12.2f}s"
            f"{total:>8.2f}s{ratio:>14}{row['seconds']:>13.2f}s"
        )
        last = total
    lines.append(
        f"peak memory {result['peak_mb']:,} MB, of which the corpus {result['peak_mb_of_the_corpus_itself']:,} MB"
    )
    peer = result["scikit_learn"]
    if peer:
        lines += [
            f"scikit-learn on {peer['reports']:,} of them ({peer['words']:,} words): "
            f"{peer['theirs_cpu_seconds_a_class']} s a class ({peer['classes_run']} run), so "
            f"{peer['theirs_cpu_seconds_all_classes_worked_out']:,} s for all; ours from the same text "
            f"{peer['ours_cpu_seconds_all_classes']} s (CPU)",
            f"  {peer['ratio']:,}× faster, largest difference {peer['largest_difference']:.1e}",
        ]
    return "\n".join(lines)
