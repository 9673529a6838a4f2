"""What a curious hub reads off updates: words, labels, words of one report, phrases, with and without sums over sites.

Sites train together in one process. Every update is attacked as the hub would see it: each site's own, one site's
masked message, the sum over a few sites and over all, and the same with the noise of a masked run: each site clips its
update to the median norm of the round and adds its share of discrete Gaussian noise. One training gives each site a
single report a step, which sites refuse over a network. ``--agreed K,M`` keeps only words that at least K sites have,
each in M cases. Figures of a site are means over its rounds; of one report, over words that only
one of the reports behind what is attacked has.
"""

import argparse
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from _corpus import add_corpus, read_corpus
from pathveil.progress import Progress, silent

FEW = 3  # sites in the smaller sum
NOISED = 6  # rounds in which sums get noise, which is drawn exactly and takes its time
SINGLE = 24  # reports of a site in the training with one a step
TRIED, LOOKED_AT = 4, 20  # rounds, and in each the filters that are taken apart


def add_options(parser: argparse.ArgumentParser) -> None:
    add_corpus(parser)
    parser.add_argument("--sites", type=int, default=7, help="the reports are dealt to so many (default 7)")
    parser.add_argument("--reports", type=int, default=100, help="of a site (default 100)")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the reports (default 4)")
    parser.add_argument("--dim", type=int, default=100, help="length of a word vector (default 100)")
    parser.add_argument("--filters", type=int, default=20, help="filters a window (default 20)")
    parser.add_argument("--noise", type=float, default=1.0, help="on a sum, in units of its clip (default 1)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    parser.add_argument("--local-steps", default="1,8", help="of a site between exchanges, with commas (default 1,8)")
    parser.add_argument("--agreed", help="K,M: keep words that K sites have, each in M cases")


def dealt(options: argparse.Namespace):
    """The corpus dealt to sites by case, and where wanted without words that were not agreed on."""
    corpus = read_corpus(options)
    cases = np.random.default_rng(0).permutation(np.unique(corpus.cases))
    site = dict(zip(cases.tolist(), np.arange(len(cases)) % options.sites, strict=True))
    owner = np.array([site[case] for case in corpus.cases.tolist()])
    rows = np.concatenate([np.flatnonzero(owner == number)[: options.reports] for number in range(options.sites)])
    names = tuple(f"S{number + 1}" for number in range(options.sites))
    corpus = replace(corpus, registries=owner.astype(np.int32), registry_names=names).take(rows)
    return without_others(corpus, *map(int, options.agreed.split(","))) if options.agreed else corpus


def without_others(corpus, sites: int, least: int):
    """Words that fewer sites have in so many cases become unknown."""
    from pathveil.vocabulary.words import UNKNOWN

    held = np.zeros(corpus.vocabulary_size, int)
    for number in np.unique(corpus.registries):
        own = corpus.take(np.flatnonzero(corpus.registries == number))
        held += in_cases(own) >= least
    known = held >= sites
    return replace(corpus, ids=np.where(known[corpus.ids], corpus.ids, UNKNOWN).astype(corpus.ids.dtype))


def in_cases(reports) -> np.ndarray:
    """In how many cases each word stands."""
    case = np.repeat(reports.cases, np.diff(reports.offsets))
    pairs = np.unique(np.stack([case, reports.ids]), axis=1)
    return np.bincount(pairs[1], minlength=reports.vocabulary_size)


def words_in(reports, rows: np.ndarray) -> np.ndarray:
    """Which words stand in some reports, (words,)."""
    found = np.zeros(reports.vocabulary_size, bool)
    for row in rows:
        found[reports.ids[reports.offsets[row] : reports.offsets[row + 1]]] = True
    return found


def owner_of(reports) -> np.ndarray:
    """The report that alone has a word, (words,); −1 where several have it, or none."""
    holders = np.zeros(reports.vocabulary_size, int)
    owner = np.full(reports.vocabulary_size, -1)
    for row in range(reports.documents):
        words = np.unique(reports.ids[reports.offsets[row] : reports.offsets[row + 1]])
        holders[words] += 1
        owner[words] = row
    return np.where(holders == 1, owner, -1)


class Seen:
    """What a hub has seen of one source, a site or a sum of sites, in all rounds of a training."""

    def __init__(self, reports, rows_of) -> None:
        self.reports, self.rows_of = reports, rows_of  # rows_of(turns): the reports behind a round
        self.words: list[np.ndarray] = []
        self.epochs: list[int] = []
        self.rows: list[np.ndarray] = []
        self.found: list[Any] = []
        self.labels: list[Any] = []
        self.ranks: list[float] = []
        self.phrases = [0, 0]  # named, there
        self.before: np.ndarray | None = None

    def look(self, arrays, turns, *, drift: bool, change: bool, embedding: np.ndarray, scores_only: bool) -> None:
        from pathveil.federation import leaks
        from pathveil.federation.site import EMBEDDING

        update = np.asarray(arrays[EMBEDDING])
        words = leaks.touched(update)
        if drift and self.before is not None:
            words = leaks.turned(update, self.before)
        self.before = update
        rows = self.rows_of(turns)
        truth = words_in(self.reports, rows)
        self.found.append(leaks.recovered(words, truth))
        self.ranks.append(leaks.ranking(np.linalg.norm(update, axis=1), truth))
        self.words.append(words)
        self.epochs.append(turns[0].epoch)
        self.rows.append(rows)
        for name, bias in arrays.items():
            if name.startswith("heads.") and name.endswith(".bias"):
                label = np.asarray(self.reports.labels[name.split(".")[1]])[rows]
                there = np.bincount(label[label >= 0], minlength=len(bias)) > 0
                self.labels.append(leaks.recovered(leaks.labels_told(np.asarray(bias), change=change), there))
        if len(self.words) <= TRIED and not change and not scores_only:
            self.read_filters(arrays, np.flatnonzero(words), rows, embedding)

    def read_filters(self, arrays, candidates: np.ndarray, rows: np.ndarray, embedding: np.ndarray) -> None:
        from pathveil.federation import leaks

        weight = np.asarray(arrays["encoder.convolution.weight"])
        texts = [self.reports.ids[self.reports.offsets[row] : self.reports.offsets[row + 1]].tolist() for row in rows]
        there = {tuple(text[at : at + 3]) for text in texts for at in range(len(text) - 2)}
        for number in range(min(LOOKED_AT, weight.shape[1])):
            told = leaks.phrases_told(weight[:3, number], embedding, candidates, most=len(rows))
            self.phrases[0] += len(told)
            self.phrases[1] += sum(phrase in there for phrase in told)

    def account(self, *, known_order: bool) -> dict[str, Any]:
        from pathveil.federation import leaks

        own = owner_of(self.reports)
        pairs = leaks.pairs_recovered(leaks.together(np.stack(self.words)), own)
        row = {
            "reports_behind": int(np.mean([len(rows) for rows in self.rows])),
            "words_recall": float(np.mean([found.recall for found in self.found])),
            "words_precision": float(np.mean([found.precision for found in self.found])),
            "words_ranking": float(np.mean(self.ranks)),
            "labels_recall": float(np.mean([told.recall for told in self.labels])) if self.labels else None,
            "labels_precision": float(np.mean([told.precision for told in self.labels])) if self.labels else None,
            "company": asdict(pairs),
            "phrases_named": self.phrases[0],
            "phrases_right": self.phrases[1],
        }
        if known_order:
            numbers = sorted(set(self.epochs))
            places = [[at for at, epoch in enumerate(self.epochs) if epoch == number] for number in numbers]
            seen = [np.stack([self.words[at] for at in place]) for place in places]
            batches = [[self.rows[at] for at in place] for place in places]
            found = leaks.assigned(seen, batches, documents=self.reports.documents)
            truth = np.zeros_like(found)
            alone = np.flatnonzero(own >= 0)
            truth[own[alone], alone] = True
            row["order"] = asdict(leaks.recovered(found[:, alone], truth[:, alone]))
        return row


def joined_rows(sites, starts):
    """The reports behind a sum of sites, by their numbers in all of those sites' reports together."""
    return lambda turns: np.concatenate(
        [start + np.concatenate([site.rows(turn) for turn in turns]) for site, start in zip(sites, starts, strict=True)]
    )


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    corpus, result = dealt(options), []
    steps = [int(local) for local in options.local_steps.split(",")]
    trainings = [(mode, local, False) for mode in ("adversarial", "strong") for local in steps]
    trainings += [("adversarial", 1, True)] if 1 in steps else []
    for done, (mode, local, single) in enumerate(trainings):
        progress("attacking updates", done, len(trainings))
        result += attacked(corpus, mode, local, options, single=single)
    progress("attacking updates", len(trainings), len(trainings))
    tokens = int(corpus.offsets[-1])
    return {"rows": result, "words": corpus.vocabulary_size, "reports": corpus.documents, "tokens": tokens}


def attacked(corpus, mode: str, local: int, options: argparse.Namespace, *, single: bool) -> list[dict[str, Any]]:
    """One training, attacked in every way; ``single``: of one report a site and step."""
    from pathveil.federation.protocol.course import SharedPrivate, weighed
    from pathveil.federation.protocol.message import Message
    from pathveil.federation.protocol.plan import Plan, fitted
    from pathveil.federation.protocol.site_work import SharedWork
    from pathveil.federation.settings import settings_for
    from pathveil.federation.site import EMBEDDING

    changes = {"epochs": options.epochs, "dim": options.dim, "filters": options.filters, "local_steps": local}
    changes |= {"discriminator_steps": 1, "smallest_batch": 1 if single else 8}
    if single:
        every = range(len(corpus.registry_names))
        corpus = corpus.take(np.concatenate([np.flatnonzero(corpus.registries == n)[:SINGLE] for n in every]))
        changes |= {"batch_size": len(every), "epochs": 1}
    plan = Plan(
        mode=mode,
        sites=corpus.registry_names,
        classes=dict(corpus.classes),
        vocabulary="0" * 64,
        vocabulary_size=corpus.vocabulary_size,
        settings=settings_for(mode, changes),
        seed=1,
    )
    everyone = range(len(plan.sites))
    own = [fitted(corpus.take(np.flatnonzero(corpus.registries == n)), plan, plan.sites[n])[0] for n in everyone]
    sites = [plan.site(reports, name, options.device) for reports, name in zip(own, plan.sites, strict=True)]
    shared = plan.shared(options.device)
    works = [SharedWork(site, deepcopy(shared)) for site in sites]
    course = SharedPrivate(shared, settings=plan.settings, sites=len(sites))
    each = [Seen(site.reports, joined_rows([site], [0])) for site in sites]
    hidden, message = Seen(sites[0].reports, joined_rows(sites[:1], [0])), masked_by(plan.sites)
    sums, noisy = {}, {}
    for number in (FEW, len(sites)):
        rows = np.flatnonzero(corpus.registries < number)
        together = corpus.take(np.concatenate([np.flatnonzero(corpus.registries == n) for n in range(number)]))
        assert len(rows) == together.documents
        starts = np.cumsum([0, *(reports.documents for reports in own[: number - 1])])
        sums[number] = Seen(together, joined_rows(sites[:number], starts))
        noisy[number] = Seen(together, joined_rows(sites[:number], starts))
    rng, drift = np.random.default_rng(5), mode == "strong"
    for exchange in course.exchanges([site.documents for site in sites]):
        arrays = course.arrays(exchange)
        answers = [Message(*work.answer(exchange, arrays)) for work in works]
        if exchange.kind == "round" and EMBEDDING in answers[0].arrays:
            given = {"change": local > 1, "embedding": np.asarray(arrays[EMBEDDING])}
            weights = [weighed(course, exchange, n, answer).facts["documents"] for n, answer in enumerate(answers)]
            for seen, answer in zip(each, answers, strict=True):
                seen.look(answer.arrays, exchange.turns, drift=drift and local > 1, scores_only=False, **given)
            shown = {EMBEDDING: message(answers[0].arrays[EMBEDDING], len(hidden.words))}
            hidden.look(shown, exchange.turns, drift=False, scores_only=True, **given)
            for number in sums:
                total = {
                    name: sum(
                        np.asarray(answer.arrays[name], float) * weight
                        for answer, weight in zip(answers[:number], weights[:number], strict=True)
                    )
                    for name in answers[0].arrays
                }
                sums[number].look(total, exchange.turns, drift=drift and local > 1, scores_only=False, **given)
                if len(noisy[number].words) < NOISED:
                    noised = with_shares([answer.arrays for answer in answers[:number]], noise=options.noise, rng=rng)
                    noisy[number].look(noised, exchange.turns, drift=False, scores_only=True, **given)
        course.take(exchange, [(plan.sites[n], weighed(course, exchange, n, a)) for n, a in enumerate(answers)])
    place = {"mode": mode, "local_steps": local, "single": single}
    alone = [seen.account(known_order=True) for seen in each]
    rows = [place | {"seen": "each site's own update"} | mean_of(alone)]
    rows.append(place | {"seen": "one site's masked message"} | hidden.account(known_order=True))
    for number in sums:
        rows.append(place | {"seen": f"sum of {number} sites"} | sums[number].account(known_order=False))
        rows.append(place | {"seen": f"sum of {number} sites with noise"} | noisy[number].account(known_order=False))
    return rows


def with_shares(updates: list, *, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The mean of some sites' updates as a hub reads it where each clips and adds its share of the noise."""
    from pathveil.federation import wire
    from pathveil.federation.site import EMBEDDING
    from pathveil.federation.sums import Sums

    norms = [wire.norm(update) for update in updates]
    clip = max(float(np.median(norms)), 1e-9)
    sums = Sums(bits=32, sites=len(updates), clip=clip, noise=noise)
    # Every number of an update gets noise; it is drawn for those that the attacks look at.
    names = [name for name in updates[0] if name == EMBEDDING or name.endswith(".bias")]
    parts = []
    for update, norm in zip(updates, norms, strict=True):
        clipped = {name: np.asarray(update[name]) * min(1.0, clip / max(norm, 1e-12)) for name in names}
        parts.append(sums.of_update(clipped, documents=1, exponents={}, rng=rng))
    moving = {name: np.asarray(updates[0][name]).shape for name in names}
    exponents = dict.fromkeys(names, sums.exponent)
    return dict(sums.total("round", parts, moving, exponents, documents=len(updates)).means)


def masked_by(names: tuple[str, ...]):
    """What the first of some sites sends of an array in a round, as the hub would read it without the others'."""
    from pathveil.federation.fixed_point import FixedPoint
    from pathveil.federation.masking import Masks, SessionKey

    keys, form = {name: SessionKey() for name in names}, FixedPoint(bits=32, sites=len(names))
    masks = Masks(names[0], keys[names[0]], {name: key.public for name, key in keys.items()}, run="0")

    def message(array: np.ndarray, number: int) -> np.ndarray:
        whole, *_ = form.encoded(np.asarray(array).ravel(), exponent=3)
        sent = masks.masked(form.words(whole), form, number=number, part="update")
        return form.decoded(form.signed(sent), exponent=3).reshape(array.shape)

    return message


def mean_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The sites' means, of nested rows too; counts are added."""
    first, result = rows[0], {}
    for name, value in first.items():
        values = [row[name] for row in rows]
        if isinstance(value, dict):
            result[name] = mean_of(values)
        elif value is None:
            result[name] = None
        else:
            added = name in ("named", "there", "phrases_named", "phrases_right")
            result[name] = sum(values) if added else float(np.mean(values))
    return result


def describe(result: dict[str, Any]) -> str:
    lines = [f"{result['reports']} reports, {result['words']} words; recall / precision", ""]
    heads = ("words", "ranked", "labels", "by order", "by company")
    lines.append(f"{'training':<18}{'what the hub sees':<28}{''.join(f'{head:>13}' for head in heads)}  phrases")
    for row in result["rows"]:
        found = (
            both(row["words_recall"], row["words_precision"]),
            f"{row['words_ranking']:.2f}",
            both(row["labels_recall"], row["labels_precision"]),
            both(*of_two(row.get("order"))),
            both(*of_two(row["company"])),
        )
        lines.append(
            f"{row['mode'] + ', ' + ('one' if row['single'] else str(row['local_steps'])):<18}{row['seen']:<28}"
            f"{''.join(f'{one:>13}' for one in found)}  {row['phrases_right']} of {row['phrases_named']}"
        )
    return "\n".join(lines)


def of_two(found: dict[str, Any] | None) -> tuple[float | None, float | None]:
    return (found["recall"], found["precision"]) if found else (None, None)


def both(recall: float | None, precision: float | None) -> str:
    return "–" if recall is None else f"{recall:.2f} / {precision:.2f}"
