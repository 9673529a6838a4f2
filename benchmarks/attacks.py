"""How strong each attack is with few and with many shadow models, on a public toy set: the published orderings.

Small perceptrons on scikit-learn's digits, some of whose labels are replaced at random so that there is something to
memorise. Models train on random halves; each is attacked in turn with the help of the others; means over targets and
their standard error. Published (Carlini et al. 2022; Zarifzadeh et al. 2024): attacks that compare with shadows beat
the loss at low FPR, one variance for all beats one a record while shadows are few, RMIA needs the fewest.
"""

import argparse
from typing import Any

import numpy as np

from pathveil.progress import Progress, silent

FPRS = (0.01, 0.001)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models", type=int, default=34, help="models, each a target and a shadow of others (default 34)"
    )
    parser.add_argument("--noise", type=float, default=0.2, help="share of labels replaced at random (default 0.2)")
    parser.add_argument("--hidden", type=int, default=64, help="hidden units (default 64)")
    parser.add_argument("--epochs", type=int, default=60, help="epochs of each model (default 60)")
    parser.add_argument(
        "--counts", type=int, nargs="+", default=[2, 4, 8, 32], help="numbers of shadows (default 2 4 8 32)"
    )


def run(options: argparse.Namespace, *, progress: Progress = silent) -> dict[str, Any]:
    logits, inside, labels = models_of(options, progress)
    rows: dict[tuple[str, int], list[list[float]]] = {}
    for target in range(options.models):
        progress("attacking", target, options.models)
        for (attack, count), scores in attacks_on(target, logits, inside, labels, options.counts).items():
            rows.setdefault((attack, count), []).append(figures(scores, inside[target]))
    found = []
    for (attack, count), values in rows.items():
        array = np.array(values)
        error = array.std(0, ddof=1) / np.sqrt(len(array))
        names = ("auc", *(f"{fpr:g}" for fpr in FPRS))
        shown = {name: {"mean": array[:, i].mean(), "error": error[i]} for i, name in enumerate(names)}
        found.append({"attack": attack, "shadows": count, **shown})
    return {"records": len(labels), "models": options.models, "noise": options.noise, "rows": found}


def models_of(options: argparse.Namespace, progress: Progress) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits (models, records, classes), who trained on what, and the labels."""
    import warnings

    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    from pathveil.auditing.shadows import shadow_rows

    rng = np.random.default_rng(0)
    x, y = load_digits(return_X_y=True)
    y = np.where(rng.random(len(y)) < options.noise, rng.integers(0, 10, len(y)), y)
    logits, inside = [], np.zeros((options.models, len(y)), bool)
    for number in range(options.models):
        progress("training models", number, options.models)
        inside[number, shadow_rows(np.arange(len(y)), number=number, seed=0)] = True
        model = MLPClassifier(
            (options.hidden,), max_iter=options.epochs, random_state=number, n_iter_no_change=options.epochs
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged is meant
            model.fit(x[inside[number]] / 16, y[inside[number]])
        logits.append(model.predict_log_proba(x / 16))
    return np.stack(logits), inside, y


def attacks_on(
    target: int, logits: np.ndarray, inside: np.ndarray, labels: np.ndarray, counts: list[int]
) -> dict[tuple[str, int], np.ndarray]:
    from pathveil.auditing import shokri
    from pathveil.auditing.attacks import confidence_margin, log_softmax, of_label
    from pathveil.auditing.lira import lira
    from pathveil.auditing.rmia import log_ratio, rmia

    # Its twin trained on exactly the other half: no attacker has that.
    others = np.array([number for number in range(len(logits)) if number // 2 != target // 2])
    log_p, margin = of_label(log_softmax(logits), labels), confidence_margin(logits, labels)
    probabilities = np.exp(log_softmax(logits))
    found = {("loss", 0): log_p[target]}
    for count in counts:
        chosen = others[:count]
        for variance in ("record", "global", "shrunk"):
            if count > 2 or variance != "record":
                scores = lira(margin[target], margin[chosen], inside[chosen], variance=variance)
                found[f"LiRA, {variance} variance", count] = scores
        for name, offline in (("RMIA online", False), ("RMIA offline", True)):
            ratio = log_ratio(log_p[target], log_p[chosen], inside[chosen], offline=offline)
            found[name, count] = rmia(ratio, population=ratio[~inside[target]])
    chosen = others[:8]
    x, y, member = shokri.pooled(
        shokri.attack_features(probabilities[chosen], labels), labels, inside[chosen], shadows=8
    )
    attack = shokri.fit(x, y, member, classes=10, steps=150)
    found["shadow classifiers", 8] = attack.predict(shokri.attack_features(probabilities[target], labels), labels)
    return found


def figures(scores: np.ndarray, member: np.ndarray) -> list[float]:
    from pathveil.auditing import metrics

    kept = ~np.isnan(scores)
    curve = metrics.roc(scores[kept], member[kept])
    return [float(metrics.auc(scores[kept], member[kept])), *(metrics.tpr_at(curve, fpr) for fpr in FPRS)]


def describe(result: dict[str, Any]) -> str:
    lines = [
        f"{result['records']} digits, {result['noise']:.0%} of labels replaced; mean over {result['models']} targets "
        "± its standard error",
        f"{'attack':<24}{'shadows':>8}  {'AUC':<16}{'TPR at 1 %':<16}{'TPR at 0.1 %':<16}",
    ]
    for row in result["rows"]:
        cells = "".join(f"{row[key]['mean']:.3f} ± {row[key]['error']:.3f}   " for key in ("auc", "0.01", "0.001"))
        lines.append(f"{row['attack']:<24}{row['shadows'] or '':>8}  {cells}")
    return "\n".join(lines)
