"""The only file of the net that knows today's names of the package: each function gives plain values.

What a function is called and what it gives stays when the package is rebuilt; what it calls is changed here. Numbers of
results are those of ``--json``, under neutral names.
"""

import asyncio
import contextlib
import inspect
import io
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import pathveil

TASKS = ("site", "subsite", "laterality", "histology", "behavior")
CORPUS = Path("reports.parquet")
TOKEN = "a-token-of-a-client-0123456789"


def run(*arguments: Any) -> tuple[int, str, str]:
    """A command in this process: exit code, output, errors."""
    from pathveil.cli import main

    out, errors, code, before = io.StringIO(), io.StringIO(), 0, sys.argv
    sys.argv = ["pathveil", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    return code, out.getvalue(), errors.getvalue()


# ------------------------------------------------------------------------------------------------- results of commands


def fields(result: dict[str, Any], names: str) -> dict[str, Any]:
    """Fields by their names, those that say something."""
    return {name: result[name] for name in names.split() if result.get(name)}


def unknown_codes(result: dict[str, Any]) -> list[list[Any]]:
    return [[one["task"], one["reports"]] for one in result["codes"]["unknown"]]


def import_counts(result: dict[str, Any]) -> dict[str, Any]:
    messages, tables = result["hl7"] or {}, result["tables"] or {}
    counts = "messages repeated replaced withdrawn undated masked masked_reports skipped_total"
    skips = [*messages.get("skipped", []), *tables.get("skipped", [])]
    return fields(result, "reports cases registries") | {
        "files": [[Path(one["file"]).name, one["format"], one["encoding"], one["dates"]] for one in result["files"]],
        "passed over": len(result["passed_over"]),
        "codes rewritten": result["codes"]["rewritten"],
        "codes unknown": unknown_codes(result),
        "messages": fields(messages, counts),
        "rows": fields(tables, "rows skipped_total"),
        "skipped": [[Path(one["file"]).name, one.get("line") or one.get("row"), one.get("message")] for one in skips],
    }


def proposal(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("columns", "missing", "dates", "encoding", "delimiter")} | {
        "doubts": sorted(result["doubts"])
    }


def label_counts(result: dict[str, Any]) -> dict[str, Any]:
    counts = "reports matched unmatched ambiguous shared loosely labelled "
    counts += "rows_read skipped_rows empty_rows undated_rows unused_rows"
    return fields(result, counts) | {"codes unknown": unknown_codes(result)}


def check_figures(result: dict[str, Any]) -> dict[str, Any]:
    return fields(result, "reports cases registries years words tasks") | {
        "shared": [[*one["registries"], one["cases"], one["texts"]] for one in result["overlap"]["pairs"]],
        "warnings": [[one["id"], one["count"], one["reports"]] for one in result["warnings"]],
    }


def exposure_figures(result: dict[str, Any]) -> dict[str, Any]:
    one = result["vocabularies"][0]
    planted = {kind: [count["planted"], count["kept"]] for kind, count in one["planted"].items()}
    return fields(one, "words not_in_corpus by_cases cases_with_own_word suspects") | {"planted": planted}


def drift_figures(result: dict[str, Any]) -> dict[str, Any]:
    tasks = {task: fields(one, "abstained probability mix_distance codes") for task, one in result["tasks"].items()}
    return fields(result, "documents cases words_per_report unknown_words") | {"tasks": tasks}


def audit_figures(result: dict[str, Any]) -> dict[str, Any]:
    verdict = result["verdict"]
    names = ("criterion", "fpr", "state", "attack", "task", "value", "low", "high")
    controls = [[one["kind"], one["holds"], [[row["attack"], row["auc"]["value"]] for row in one["attacks"]]]
                for one in result["controls"]]  # fmt: skip
    return {
        "data": result["data"],
        "verdict": [verdict["answer"], verdict["exit_code"]],
        "limits": [[one[name] for name in names] for one in verdict["numbers"]],
        "controls": controls,
        "figures": [
            [one[name] for name in ("attack", "task", "bucket", "unit", "auc", "tpr_at_fpr", "accuracy")]
            for one in result["rows"]
        ],
    }


def answer_line(row: dict[str, Any]) -> str:
    """A line of predict's JSONL, with the codes that come next in probability."""
    codes = [row["codes"][task] for task in TASKS]
    parts = [f"{one['code']}{'?' * one['abstained']} ({' '.join(other['code'] for other in one['alternatives'])})"
            for one in codes]  # fmt: skip
    return " ".join([str(row.get("report_id")), str(row.get("case_id")), *parts])


# ------------------------------------------------------------------------------------------------------ text and words


def tokens(text: str) -> list[str]:
    return pathveil.tokenize(text)


def places(text: str, *, identifiers: bool = True) -> list[tuple[str, int, int]]:
    """Tokens with the places where they stand."""
    from pathveil.text.tokenizer import tokenize_spans

    return tokenize_spans(text, identifiers=identifiers)


def identifiers(text: str) -> list[tuple[int, int, str]]:
    from pathveil.text.identifiers import find_identifiers

    return find_identifiers(text)


def select_words(sentence: str | None = None, **options: Any) -> list[str]:
    """Words chosen from the corpus, in their order."""
    return list(pathveil.select_words(CORPUS, sentence, **options).words)


@cache
def counts() -> Any:
    """``words``, ``registry_names``, ``classes``; tables (registries, words) ``occurrences``, ``reports``, ``cases``;
    ``labels`` (registries, classes) and ``joint``."""
    from pathveil.vocabulary.corpus_counts import count_corpus

    return count_corpus(CORPUS)


def mutual_information() -> dict[str, float]:
    from pathveil.vocabulary.mutual_information import mutual_information

    return dict(zip(counts().words, map(float, mutual_information(counts())), strict=True))


def agree_on_words(sites: dict[str, dict[str, int]], *, threshold: int, least: int) -> dict[str, Any]:
    from pathveil.agreement.simulate import simulate

    outcome = simulate(sites, threshold=threshold, min_cases=least, cap=512, batch=64, seed=b"golden")
    named_at = {site: sum(not word.startswith("agreed word") for word in words.words)
             for site, words in outcome.sites.items()}  # fmt: skip
    return {"words": sorted(outcome.vocabulary.words), "named at": named_at, "left out": dict(outcome.left_out)}


def epsilon_for_noise(noise: float, **steps: Any) -> float:
    from pathveil.training.accounting import spent_epsilon

    return spent_epsilon(noise=noise, **steps)


def noise_for_epsilon(epsilon: float, **steps: Any) -> float:
    from pathveil.training.accounting import needed_noise

    return needed_noise(epsilon=epsilon, **steps)


# ------------------------------------------------------------------------------------------------------ models at work


@cache
def model() -> Any:
    """The stored weights as a model on disk in ``bundle``, in whichever order the package writes its words."""
    from safetensors.numpy import load_file

    from pathveil.bundle import Model
    from pathveil.training.scores import Threshold
    from pathveil.vocabulary.words import Vocabulary

    facts = json.loads(Path("model/model.json").read_text())
    listed_words = Path("model/words.txt").read_text().split()
    words = Vocabulary(words=tuple(listed_words), method="stored")
    place = {word: row for row, word in enumerate(listed_words, start=2)}
    order = [0, 1, *(place[word] for word in words.words)]
    arrays = load_file("model/weights.safetensors")
    for name, array in arrays.items():
        if name.endswith("embedding.weight"):
            arrays[name] = array[order]
        elif name.startswith("linear.") and array.shape[-1] == len(order):
            arrays[name] = array[..., order]
    promise = {"wanted": 0.97, "accuracy": 0.97, "low": 0.9, "abstained": 0.1, "documents": 100}
    new_model = Model(
        architecture=facts["architecture"],
        labels={task: tuple(names) for task, names in facts["labels"].items()},
        text=facts["text"],
        vocabulary=words,
        tensors=arrays,
        blend={task: tuple(numbers) for task, numbers in facts["blend"].items()},
        thresholds={task: Threshold(probability=number, **promise) for task, number in facts["thresholds"].items()},
        scores={},
        provenance={"reports": 222, "cases": 110},
    )
    return new_model.save(Path("bundle"))


WEIGHTS, MANIFEST = "model.safetensors", "MANIFEST.json"  # of a model on disk


def write_passing_audit(bundle: str, appetite: str, out: str) -> None:
    """An audit of a model on disk whose attacks find nothing: their scores are drawn at random."""
    from auditing.made import audit_without_leak
    from pathveil.auditing.appetite import read_appetite
    from pathveil.auditing.result import write_audit

    write_audit(audit_without_leak(pathveil.load(bundle), read_appetite(Path(appetite))), Path(out))


def answers(**options: Any) -> list[dict[str, Any]]:
    """Of each report or tumour: its case, reports, place among the case's tumours; of each task code and probability.

    A mark behind a code: ? is left to a person, + was lifted, ~ was adjusted. ``against``: how many contradictions.
    """
    results = []
    for one in model().predict(pl.read_parquet(CORPUS), **options).results:
        codes = [one.codes[task] for task in TASKS]
        marks = [f"{code.code or '-'}{'?' * code.abstained}{'+' * code.lifted}{'~' * code.adjusted}" for code in codes]
        results.append(
            {
                "case": one.case_id,
                "reports": list(one.report_ids),
                "tumour": f"{one.tumor}/{one.tumors}",
                "codes": marks,
                "terms": [f"{code.code} {code.term}" for code in codes],
                "probabilities": [code.probability for code in codes],
                "against": len(one.contradictions),
            }
        )
    return results


def reasons(text: str) -> dict[str, list[tuple[int, int, float]]]:
    """By task the places that speak most for or against its code, with their weights."""
    results = model().explain(text, top=4).tasks
    return {task: [(one.start, one.end, one.weight) for one in result.places] for task, result in results.items()}


def evaluation() -> dict[str, Any]:
    result = pathveil.evaluate(model(), CORPUS, resamples=200).to_dict()["tasks"]
    return {
        "scores": {task: fields(one, "documents micro macro accuracy coded") for task, one in result.items()},
        "by code": {task: [[row["label"], row["documents"], row["precision"], row["recall"], row["f1"]["value"]]
                           for row in one["details"]["classes"]] for task, one in result.items()},
        "in detail": {task: fields(one["details"], "registries calibration") for task, one in result.items()},
    }  # fmt: skip


def are_two_tumours(one: dict[str, str], other: dict[str, str]) -> bool:
    from pathveil.bundle.tumours import different_tumours

    return bool(different_tumours(one, other))


# ------------------------------------------------------------------------------------------------------------ networks


def encode_corpus(words: int | None = None, tasks: tuple[str, ...] = TASKS, classes: Any = None) -> Any:
    """The corpus as arrays, by the stored words or the first of them."""
    from pathveil.vocabulary.encoding import encode
    from pathveil.vocabulary.words import Vocabulary

    words_in_use = tuple(Path("model/words.txt").read_text().split()[:words])
    return encode(CORPUS, Vocabulary(words=words_in_use, method="stored") if words else model().vocabulary, tasks=tasks,
                  classes=classes)  # fmt: skip


def network_and_batch() -> tuple[Any, Any, dict[str, Any]]:
    """The first stored network without dropout, a batch of 40 reports, and their labels."""
    import torch

    from pathveil.model import MTCNN, TokenBatch

    shape = {name: model().architecture[name] for name in ("vocabulary_size", "dim", "windows", "filters")}
    classes = {task: len(names) for task, names in model().labels.items()}
    network = MTCNN(**shape, classes=classes, dropout=0.0)
    state = {name.removeprefix("member-0."): torch.from_numpy(np.array(array))
             for name, array in model().tensors.items() if name.startswith("member-0.")}  # fmt: skip
    network.load_state_dict(state)
    corpus = encode_corpus(classes=model().labels).take(np.arange(40))
    labels = {task: torch.from_numpy(np.array(corpus.labels[task], dtype=np.int64)) for task in TASKS}
    return network, TokenBatch(ids=corpus.ids, offsets=corpus.offsets), labels


def table_of_words(network: Any) -> Any:
    """A network's parameter with a row for each word."""
    return network.embedding.weight


def pooled(network: Any, batch: Any, kernel: str) -> tuple[Any, tuple[Any, ...]]:
    """A batch's features by a kernel, and the parameters that they come from."""
    from pathveil.model import kernels

    arrays = (network.embedding.weight, network.convolution.weight, network.convolution.bias)
    return kernels.pooled(batch.ids, batch.offsets, *arrays, windows=(3, 4, 5), kernel=kernel), arrays


def optimiser(name: str, network: Any) -> Any:
    from pathveil.training.optimisers import Adadelta, Adam

    kind, rate = {"Adam": (Adam, 0.01), "Adadelta": (Adadelta, 1.0)}[name]
    return kind(dict(network.named_parameters()), lazy=(), learning_rate=rate)


def task_loss(logits: Any, labels: Any, **how: Any) -> Any:
    """``class_weights`` by task, ``smoothing``, ``gce_q``."""
    from pathveil.training.losses import task_loss

    return task_loss(logits, labels, robustness=how.pop("gce_q", 0.0), **how)


def class_weights(labels: np.ndarray, classes: int, power: float) -> np.ndarray:
    from pathveil.training.losses import balanced_weights

    return balanced_weights(labels, classes, power=power)


def threshold(confidence: np.ndarray, right: np.ndarray, cases: np.ndarray, accuracy: float) -> dict[str, float]:
    """From which probability on codes are taken, and what that promises."""
    from pathveil.training.calibration import threshold_for

    result = threshold_for(confidence, right, cases=cases, accuracy=accuracy).to_dict()
    return {name: result[name] for name in ("probability", "accuracy", "low", "abstained", "documents")}


def near_duplicates(corpus: Any) -> list[int]:
    """Of each report a number, equal for cases that near-duplicates join."""
    from pathveil.training.near_duplicates import group_cases

    return group_cases(corpus.cases, corpus.ids, corpus.offsets).tolist()


def shared_and_private() -> tuple[Any, Any]:
    """A federation's two networks."""
    from pathveil.model.shared_private import Private, Shared

    shape = {"vocabulary_size": model().architecture["vocabulary_size"], "dim": 6, "filters": 4, "windows": (3, 4, 5)}
    shared = Shared(**shape, registries=4, classes={"site": 5}, hidden=5, common_heads=True)
    return shared, Private(**shape, classes={"site": 5})


def orthogonality(shared: Any, private: Any, scale: str = "mean") -> Any:
    from pathveil.federation.losses import orthogonality

    return orthogonality(shared, private, scale=scale)


# ------------------------------------------------------------------------------------------------------------- attacks


def attack_scores(log_p: np.ndarray, margin: np.ndarray, inside: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of the first model's records by the others as shadows; arrays (models, records)."""
    from pathveil.auditing.lira import lira, lira_offline
    from pathveil.auditing.rmia import log_ratio, rmia

    target, shadows, membership = margin[0], margin[1:], inside[1:]
    ratio, offline = (log_ratio(log_p[0], log_p[1:], membership, offline=one) for one in (False, True))
    return {
        **{f"LiRA {kind}": lira(target, shadows, membership, variance=kind) for kind in ("record", "global", "shrunk")},
        "LiRA offline": lira_offline(target, shadows, membership),
        "RMIA": rmia(ratio, population=ratio),
        "RMIA offline": rmia(offline, population=offline),
    }


def attack_figures(scores: np.ndarray, member: np.ndarray) -> dict[str, float]:
    from pathveil.auditing.metrics import auc, roc, tpr_at

    return {"AUC": float(auc(scores, member)), "TPR at 10 %": tpr_at(roc(scores, member), 0.1)}


def train_and_audit(folder: Path, *, seed: int, shadows: int, epochs: int) -> dict[str, float]:
    """F1 on the test part and AUC of each attack, of a small model trained on a folder's parts."""
    train, test = folder / "train.parquet", folder / "test.parquet"
    how: dict[str, Any] = {"preset": "small", "epochs": epochs, "patience": None, "seed": seed}
    new_model = pathveil.train(train, validation=folder / "validation.parquet", out=folder / f"model-{seed}", **how)
    result = pathveil.evaluate(new_model, test, resamples=10).to_dict()["tasks"]
    figures = {f"{kind} F1 {task}": one[kind]["value"] for task, one in result.items() for kind in ("micro", "macro")}
    audit = pathveil.audit(folder / f"model-{seed}", members=train, non_members=test, shadows=shadows, seed=seed)
    for row in audit.to_dict()["rows"]:
        if (row["task"], row["bucket"], row["unit"]) == ("all tasks", "all", "report"):
            figures[f"AUC {row['attack']}, {row['shadows']} shadows, {row['protocol']}"] = row["auc"]["value"]
    return figures


# ---------------------------------------------------------------------------------------------- federation and service


def messages_of_sites(mode: str, folder: Path, **changes: Any) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What three sites send in a run of one epoch: site, facts, arrays."""
    from pathveil.federation.protocol.hub_run import HubRun
    from pathveil.federation.protocol.message import read
    from pathveil.federation.protocol.plan import Plan, fitted
    from pathveil.federation.protocol.site_run import SiteRun
    from pathveil.federation.settings import FederationSettings

    corpus = encode_corpus(300, ("site", "laterality"))
    names = corpus.registry_names[:3]
    settings = FederationSettings.strong if mode == "strong" else FederationSettings
    plan = Plan(
        mode=mode,
        sites=names,
        classes=corpus.classes,
        vocabulary=corpus.provenance["id_space"],
        vocabulary_size=corpus.vocabulary_size,
        settings=settings(dim=6, filters=4, epochs=1, batch_size=48, **changes),
        seed=5,
    )
    hub, sites = HubRun(plan, folder=folder / "hub", pause=0.0), {}
    for number, name in enumerate(names):
        reports, _ = fitted(corpus.take(np.flatnonzero(corpus.registries == number)), plan, name)
        sites[name] = SiteRun(plan, reports, name=name, session=f"ab{number}", folder=folder / name)
    messages, pending = [], {name: one.hello() for name, one in sites.items()}
    while pending:
        for name in list(pending):
            message = read(pending[name], sender=name)
            if "waiting" not in message.facts:
                messages.append((name, dict(message.facts), dict(message.arrays)))
            question = read(hub.exchange(name, pending[name], wait=0), sender="hub")
            if question.facts.get("end"):
                del pending[name]
            elif question.facts.get("wait"):
                pending[name] = sites[name].say({"waiting": True})
            else:
                pending[name] = sites[name].answer(question)
    return messages


def service(**limits: Any) -> Any:
    from pathveil.serve.app import Service
    from pathveil.serve.coding import Answerer
    from pathveil.serve.pool import Pool
    from pathveil.serve.settings import ServeSettings
    from pathveil.serve.tokens import Clients, digest_of

    settings = ServeSettings().changed(**limits)
    pool = Pool(Answerer(model(), detail="probabilities"), waiting=settings.waiting_requests, seconds=60)
    return Service(pool=pool, clients=Clients({"lab": digest_of(TOKEN)}), settings=settings, key=b"k" * 32)


@contextlib.contextmanager
def http_client() -> Iterator[Any]:
    """A client of the service, which takes eight reports of 4,000 characters at most."""
    from starlette.testclient import TestClient

    from pathveil.serve.app import make_app

    with TestClient(make_app(service(longest_text=4_000, most_reports=8))) as client:
        yield client


@cache
def points() -> list[bytes]:
    """Blinded words, as a site sends them to a key holder."""
    from pathveil.agreement import oprf

    return [oprf.random_point() for _ in range(24)]


def agreement_party(name: str) -> tuple[Any, str, dict[str, str]]:
    """A server of a private agreement of R1, R2 and R3, in batches of 8 and 20 words at most: a client of key holder
    ``north`` or of ``hub``, the start of its paths, and the tokens of its sites."""
    from starlette.testclient import TestClient

    from agreement.parties import key_holder, terms
    from pathveil.agreement.agreement import new_tokens
    from pathveil.agreement.hub import Hub
    from pathveil.agreement.service import hub_app, keyholder_app

    agreement = terms(cap=20)
    tokens, digests = new_tokens(agreement.sites)
    app = hub_app(Hub(agreement), digests) if name == "hub" else keyholder_app(key_holder(agreement, name), digests)
    return TestClient(app), f"/v1/{agreement.sha256}/", tokens


@contextlib.contextmanager
def browsers(store: Path) -> Iterator[Any]:
    """Of a name, a client that has logged in to a service with a store, and the secret of its forms.

    ``anna`` is an administrator, ``cora`` a coder, ``nora`` a coder of registry North; ``nobody`` has not logged in.
    One case of registry South waits.
    """
    from starlette.testclient import TestClient

    from pathveil.serve.app import make_app
    from pathveil.serve.desk import Desk
    from pathveil.serve.sent import Sent

    one, password = service(failures_a_minute=100_000), "correct horse battery"
    one.desk = desk = Desk(store, one.settings, cheap_passwords=True)
    for name, role, registries in (("anna", "admin", ()), ("cora", "coder", ()), ("nora", "coder", ("North",))):
        desk.accounts.add(name, password, role, registries=registries, by="test")
    desk.setup_token = None
    app = make_app(one)

    @cache
    def log_in(name: str) -> tuple[Any, str]:
        client = TestClient(app, base_url="https://registry.example", follow_redirects=False)
        if name == "nobody":
            return client, ""
        client.post("/login", data={"name": name, "password": password})
        found = re.search('name="csrf" value="([^"]+)"', client.get("/queue").text)
        return client, found[1] if found else ""

    desk.casework.receive([Sent("r1", "Zwertowskaja, left breast", case_id="c1", registry="South")], source="test")
    yield log_in
    desk.base.close()


def acknowledgements(messages: list[bytes], folder: Path) -> list[str]:
    """What a sender gets by MLLP for each message."""
    from pathveil.serve.app import make_app
    from pathveil.serve.desk import Desk
    from pathveil.serve.mllp_feed import MLLPFeed

    async def ask() -> list[str]:
        one, feed, answers, end = service(), MLLPFeed("127.0.0.1", 0), [], b"\x1c\r"
        one.desk = Desk(folder, one.settings, cheap_passwords=True)
        one.desk.feeds = [feed]
        app = make_app(one)
        async with app.router.lifespan_context(app):
            await asyncio.wait_for(feed.listening.wait(), 60)
            reader, writer = await asyncio.open_connection("127.0.0.1", feed.port)
            for message in messages:
                writer.write(b"\x0b" + message + end)
                answers.append((await asyncio.wait_for(reader.readuntil(end), 60)).decode())
            writer.close()
        return answers

    return asyncio.run(ask())


# ------------------------------------------------------------------------------------------------- names of the public


def parameters(function: Any) -> list[str]:
    def describe(one: inspect.Parameter) -> str:
        default = one.default.__name__ if callable(one.default) else repr(one.default)
        return f"{one.kind.description} {one.name}" + ("" if one.default is one.empty else f" = {default}")

    return [describe(one) for one in inspect.signature(function).parameters.values()]


def signatures() -> Iterator[tuple[str, list[str]]]:
    from pathveil.model import MTCNN, TokenBatch

    for name in sorted(pathveil.__all__):
        yield f"pathveil.{name}", parameters(getattr(pathveil, name))
    for name in ("predict", "predict_to_file", "explain", "answer", "evaluate", "save", "load"):
        yield f"model.{name}", parameters(getattr(type(model()), name))
    yield from (("MTCNN", parameters(MTCNN)), ("TokenBatch", parameters(TokenBatch)))


def options() -> Iterator[tuple[str, list[str]]]:
    """Every command's arguments and options: names, type, default."""
    from typer.models import OptionInfo

    from pathveil.cli import app

    def describe(one: inspect.Parameter) -> str:
        info, kind = one.default, inspect.formatannotation(one.annotation).replace("pathlib.", "")
        names = "/".join(getattr(info, "param_decls", None) or [f"{'--' * isinstance(info, OptionInfo)}{one.name}"])
        value = getattr(info, "default", info)
        return f"{names.replace('_', '-')} {kind}" + (" required" if value is ... else f" = {value}")

    def walk(group: Any, path: str) -> Iterator[tuple[str, list[str]]]:
        for command in group.registered_commands:
            name = command.name or command.callback.__name__.replace("_", "-")
            options = inspect.signature(command.callback).parameters.values()
            yield f"{path} {name}".strip(), [re.sub(r"\s+", " ", describe(one)) for one in options]
        for inner in group.registered_groups:
            yield from walk(inner.typer_instance, f"{path} {inner.name or inner.typer_instance.info.name}".strip())

    yield from sorted(walk(app, ""))
