"""The card: what a model is, was trained on, reaches and must not be used for, for a person to read.

It holds numbers, hashes and names of tasks; never a word of the vocabulary, a label's reports, or text.
"""

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pathveil.bundle.class_floor import floor_lines
from pathveil.bundle.defence import card_lines
from pathveil.formatting import counted, listed
from pathveil.untrusted import printable

if TYPE_CHECKING:
    from pathveil.bundle.model import Model


def write_card(model: "Model") -> str:
    """The card as Markdown."""
    source, shape = model.provenance, model.architecture
    networks = f"{shape['members']} networks, averaged" if shape["members"] > 1 else "one network"
    beside = ", beside a logistic regression on word counts" if shape["linear"] else ""
    lines = [
        "# Model card",
        "",
        f"Codes cancer pathology reports for {listed(model.tasks)}: a multitask CNN ({networks}; windows of "
        f"{listed([str(window) for window in shape['windows']])} words, {shape['filters']} filters each){beside}.",
        "",
        f"Model sha256 `{model.model_sha256}`: of its weights, words, labels and thresholds. Its audits, releases, "
        "scores and answers name it so.",
        "",
        "## What it was trained on",
        "",
        f"- {source.get('reports', '?'):,} reports of {source.get('cases', '?'):,} cases from "
        f"{registries(source.get('registries', []))}; " + corpus_hash(source.get("corpus_sha256")),
        f"- {len(model.vocabulary.words):,} words, chosen by: {model.vocabulary.method}; "
        f"sha256 `{model.vocabulary.sha256[:16]}…`",
        f"- preset `{source.get('preset', '?')}`, seed {source.get('seed', 'not told')}, "
        f"Pathveil {source.get('pathveil', '?')}",
        f"- text settings: `{model.text}`",
        "",
        "## How well it does",
        "",
        *scores(model),
        "",
        "## When it leaves a report to a person",
        "",
        *thresholds(model),
        *floor_lines(source),
        "",
        "## What it may give away",
        "",
        *card_lines(source),
        *privacy(model),
        "",
        "## Use and limits",
        "",
        "- Meant to propose codes to registrars, or to take those above its thresholds where a registry has checked",
        "  them on reports of its own; not for the care of patients.",
        "- It knows the labels it was trained on and no others: a report of any other kind gets one of these all the",
        "  same, often, but not always, below the threshold.",
        "- Reports of other laboratories, years or languages than the training reports may be coded worse; measure it",
        "  with `pathveil evaluate` before use.",
        "- The folder holds no report text. `vocabulary.json` holds the words the model knows: judge them with",
        "  `pathveil vocab exposure` before release.",
    ]
    return "\n".join(lines) + "\n"


def registries(names: Sequence[str]) -> str:
    return counted(len(names), "registry", "registries") + (f" ({', '.join(map(plain, names))})" if names else "")


def plain(name: str) -> str:
    """A name as Markdown shows it and does not obey it: no tag, no link, no table, no line of its own.

    >>> plain("R1 <img src=x> [a](b)")
    'R1 &lt;img src=x&gt; \\\\[a\\\\](b)'
    """
    return re.sub(r"([\\`\[\]|])", r"\\\1", html.escape(" ".join(printable(name).split()), quote=False))


def corpus_hash(sha256: str | None) -> str:
    return f"corpus sha256 `{sha256[:16]}…`" if sha256 else "the corpus's hash is not told"


def scores(model: "Model") -> list[str]:
    if not model.scores:
        return ["Not measured: no cases were held out. Run `pathveil evaluate` on reports it has not seen."]
    rows = [
        "On cases that neither taught the network that codes them nor chose how its answers are weighed, with 95 %",
        "intervals by case; an average of several networks usually does a little better. `pathveil evaluate` tells on",
        "reports of your own.",
        "",
        "| task | classes | reports | micro F1 | macro F1 |",
        "|---|---|---|---|---|",
    ]
    for task, score in model.scores.items():
        rows.append(f"| {task} | {len(model.labels[task])} | {score.documents:,} | {score.micro} | {score.macro} |")
    return rows


def thresholds(model: "Model") -> list[str]:
    if not model.thresholds:
        return ["Always: no cases were held out to set thresholds by. Treat every code as a proposal."]
    wanted = next(iter(model.thresholds.values())).wanted
    rows = [
        f"Below these probabilities, set so that {wanted:.1%} of the codes above them are right. The accuracy is that",
        "of held-out cases above thresholds that other cases had chosen; in brackets what it is at least, with 95 %",
        "confidence.",
        "",
        "| task | probability | accuracy above it (at least) | left to a person |",
        "|---|---|---|---|",
    ]
    for task, found in model.thresholds.items():
        if found.probability > 1:
            rows.append(f"| {task} | never reached | – | 100 % |")
        else:
            rows.append(
                f"| {task} | {found.probability:.3f} | {found.accuracy:.1%} ({found.low:.1%}) | {found.abstained:.1%} |"
            )
    lifted = [task for task in model.tasks if model.lift[task].any()]
    if lifted:
        rows += [
            "",
            f"A rare code of {listed(lifted)} may be preferred to a more probable common one, because held-out cases",
            "gained by it; such a code is marked as lifted, and its probability is still the chance that it is right.",
        ]
    return rows


def privacy(model: "Model") -> list[str]:
    if model.audit is None:
        return ["**Not audited.** Nobody has measured what this model gives away about its training cases; run",
                "`pathveil audit` before it leaves the registry."]  # fmt: skip
    return [f"Audited for membership inference: {model.audit['verdict']['sentence']} Details in `audit.json`."]
