"""What an attacker who only asks the service finds about who was in the training text, at each detail of its answers.

The attacker has reports with their codes, asks `/v1/code`, and suspects those whose right code the model holds for most
probable: by the number, its rounding or its band where the answer has one, else by whether the code is right at all.
The figure is the chance (AUC) that a training report is suspected more than one the model never saw; 0.5 is guessing.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from pathveil.progress import Progress

TOKEN = "a-token-of-the-benchmark-0123456789"
BATCH = 200


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, default=Path("demo/model"), help="a bundle or a release")
    parser.add_argument("--members", type=Path, default=Path("demo/parts/train.parquet"), help="what it was trained on")
    parser.add_argument("--others", type=Path, default=Path("demo/parts/test.parquet"), help="what it never saw")


def run(options: argparse.Namespace, *, progress: Progress) -> dict[str, Any]:
    import polars as pl
    from starlette.testclient import TestClient

    from pathveil.bundle import Model
    from pathveil.serve.app import Service, make_app
    from pathveil.serve.coding import Answerer
    from pathveil.serve.detail import allowed
    from pathveil.serve.pool import Pool
    from pathveil.serve.settings import DETAILS, ServeSettings
    from pathveil.serve.tokens import Clients, digest_of

    model, settings = Model.load(options.model), ServeSettings()
    tables = {name: pl.read_parquet(path) for name, path in (("in", options.members), ("out", options.others))}
    rows = []
    details = DETAILS[DETAILS.index(allowed(model.form, None)) :]  # a release's form may allow less
    for place, detail in enumerate(details):
        pool = Pool(Answerer(model, detail=detail), waiting=8, seconds=600)
        clients = Clients({"attacker": digest_of(TOKEN)})
        with TestClient(make_app(Service(pool=pool, clients=clients, settings=settings, key=b"k" * 32))) as client:
            found = {name: suspicion(client, table, model.tasks, detail) for name, table in tables.items()}
        aucs = {task: auc(found["in"][task], found["out"][task]) for task in model.tasks}
        rows.append({"detail": detail, "auc": float(np.mean(list(aucs.values()))), "worst_task": max(aucs.values())})
        progress("details", place + 1, len(details))
    return {"members": len(tables["in"]), "others": len(tables["out"]), "rows": rows}


def suspicion(client: Any, table: Any, tasks: tuple[str, ...], detail: str) -> dict[str, np.ndarray]:
    """By task, how much the right code of each report that has one is believed, from the answers alone."""
    from pathveil.serve.detail import BANDS

    worth = {name: least for least, name in BANDS}
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    scores: dict[str, list[float]] = {task: [] for task in tasks}
    for first in range(0, len(table), BATCH):
        part = table[first : first + BATCH]
        body = json.dumps({"reports": [{"text": text} for text in part["text"]]})
        results = client.post("/v1/code", content=body, headers=headers).json()["results"]
        for row, result in zip(part.iter_rows(named=True), results, strict=True):
            for task in tasks:
                answer = result["codes"][task]
                told = {one["code"]: one.get("probability", 1.0) for one in (*answer["alternatives"], answer)}
                value = told.get(row[task], -1.0)
                if row[task] is not None:
                    scores[task].append(worth[value] if isinstance(value, str) else value)
    return {task: np.array(found) for task, found in scores.items()}


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """The chance that a member's score is the larger, ties counted half."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(members, others).statistic / (len(members) * len(others)))


def describe(result: dict[str, Any]) -> str:
    lines = [
        f"{result['members']:,} training reports, {result['others']:,} others",
        "",
        f"{'detail':<16}AUC    worst task",
    ]
    return "\n".join(
        lines + [f"{row['detail']:<16}{row['auc']:.3f}  {row['worst_task']:.3f}" for row in result["rows"]]
    )
