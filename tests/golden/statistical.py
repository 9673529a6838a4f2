"""F1 and the attacks' AUC on real reports, by seed and split: trained by hand, too long for every change.

    python tests/golden/statistical.py --corpus tcga_reports.parquet --out before.json
    (change the package)
    python tests/golden/statistical.py --corpus tcga_reports.parquet --out after.json --against before.json

A figure differs if the mean of its paired differences lies beyond two standard errors; the exit code is then 1. The
files hold figures only. A run that was stopped goes on.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from adapter import run, train_and_audit
from compare import statistical_differences


def part_of(corpus: Path, reports: int, out: Path) -> None:
    """Whole cases of about so many reports, by their ids read backwards: the same ones in any order of the corpus."""
    frame = pl.read_parquet(corpus)
    sizes = frame.group_by("case_id").len().sort(pl.col("case_id").cast(pl.String).str.reverse(), "case_id")
    cases = sizes.filter(pl.col("len").cum_sum() <= reports)["case_id"]
    frame.filter(pl.col("case_id").is_in(cases.implode())).sort("case_id", "report_id").write_parquet(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="labelled reports, a .parquet file")
    parser.add_argument("--out", type=Path, required=True, help="the figures, a .json file")
    parser.add_argument("--against", type=Path, help="figures of another run, to compare with")
    parser.add_argument("--reports", type=int, default=2_500, help="of the corpus to take")
    parser.add_argument("--splits", type=int, default=3, help="how many splits")
    parser.add_argument("--seeds", type=int, default=3, help="how many models a split")
    parser.add_argument("--shadows", type=int, default=2, help="of an audit")
    parser.add_argument("--epochs", type=int, default=15, help="of every model")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(options.out.read_text()) if options.out.exists() else []
    finished = {(row["split"], row["seed"]) for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "reports.parquet"
        part_of(options.corpus, options.reports, corpus)
        for split in range(options.splits):
            parts = Path(folder) / f"split-{split}"
            code, _, errors = run("corpus", "split", corpus, "--seed", split, "--test", 0.4, "--out", parts)
            if code:
                sys.exit(errors)
            for seed in range(options.seeds):
                if (split, seed) in finished:
                    continue
                figures = train_and_audit(parts, seed=seed, shadows=options.shadows, epochs=options.epochs)
                rows.append({"split": split, "seed": seed, "figures": {k: round(v, 6) for k, v in figures.items()}})
                lines = ",\n ".join(json.dumps(row) for row in rows)
                options.out.write_text(f"[\n {lines}\n]\n")
                print(f"split {split}, seed {seed}: {len(figures)} figures", flush=True)
    if options.against is None:
        return 0
    lines = statistical_differences(json.loads(options.against.read_text()), rows)
    print("\n".join(lines) or "no figure differs by more than two standard errors")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
