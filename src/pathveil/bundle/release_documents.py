"""A release described for people and for other tools: our card, a Hugging Face card, a CycloneDX ML-BOM, exposure.

All say the same: what the model is, how it was judged, by whom, until when, and, where a refusal was overridden, why.
Names from a corpus (registries, tasks) are data: what a Markdown or YAML reader could take for markup is escaped.
"""

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pathveil.bundle.release import FORMS, Release
from pathveil.corpus.schema import Paths
from pathveil.disclosure import TOO_FEW, may_be_told
from pathveil.formatting import counted, listed
from pathveil.progress import Progress, silent
from pathveil.vocabulary.exposure import measure_exposure

if TYPE_CHECKING:
    from pathveil.bundle.model import Model

NAMESPACE = uuid.UUID("5a0c7f0e-3d0b-5a52-9d0e-6f1d5d6a3c11")  # of a BOM's serial number, which its model decides


def plain(text: str) -> str:
    """Free text as one line that no Markdown or HTML reader takes for markup.

    >>> plain("<b>North</b>\\n# x")
    '&lt;b&gt;North&lt;/b&gt; # x'
    """
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")


def release_lines(release: Release) -> list[str]:
    """The section of the card that says how the model came to be released."""
    lines = ["## Release", ""]
    if release.override is not None:
        lines += [
            f"**Released against a refusal.** Reason given by {plain(release.signer)}: "
            f"{plain(release.override.reason)}",
            "",
            *(f"- refused because {plain(refusal)}" for refusal in release.override.refusals),
            "",
        ]
    lines.append(f"- Form: **{release.form}**, {FORMS[release.form]}.")
    if release.words == "hashed":
        lines.append(
            "- Its words are hashed: whoever codes with it needs the key, and can then try any name they know."
        )
    lines.append(f"- Released {release.released} by {plain(release.signer)}; key sha256 `{release.key[:16]}…`.")
    if release.judgement is not None:
        lines.append(f"- Audited {release.judgement.audited}: {release.judgement.sentence}")
    if release.appetite is not None:
        one = release.appetite
        lines.append(
            f"- Held against the risk appetite of {plain(one.name)}, {plain(one.organisation)}, {one.date} "
            f"(sha256 `{one.sha256[:16]}…`)."
        )
    lines.append(f"- The verdict is good until {release.expires}. A new audit is asked for when")
    lines += [f"  - {reason}" for reason in release.ask_again]
    lines += ["", "Check it: `pathveil verify RELEASE --key PUBLIC`.", ""]
    return lines


def release_card(card: str, release: Release) -> str:
    """The model's card with the release before all else."""
    title, _, rest = card.partition("\n\n")
    return "\n".join([title, "", *release_lines(release)]) + "\n" + rest


def encoder_card(model: "Model") -> str:
    """The card of an encoder alone: it has no labels, thresholds or scores to tell of."""
    shape = model.architecture
    return "\n".join(
        [
            "# Encoder card",
            "",
            f"Turns cancer pathology reports into {shape['members'] * len(shape['windows']) * shape['filters']:,} "
            f"features: {counted(shape['members'], 'network')} with windows of "
            f"{listed([str(window) for window in shape['windows']])} words, {shape['filters']} filters each. It has no "
            "heads and no labels: it codes nothing.",
            "",
            f"- learned on {counted(model.provenance.get('reports', 0), 'report')} of "
            f"{counted(model.provenance.get('cases', 0), 'case')}",
            f"- {len(model.vocabulary.words):,} words, chosen by: {model.vocabulary.method}",
            f"- a part of the model with sha256 `{model.model_sha256}`",
            "- `pathveil.bundle.encoder.load_encoder(folder).features(texts)` gives the features",
            "",
        ]
    )


def hugging_face_card(card: str, model: "Model", release: Release) -> str:
    """The card with the front matter that model hubs read. It is JSON, which every YAML reader reads."""
    results = [
        {
            "task": {"type": "text-classification", "name": task},
            "dataset": {"name": "held-out cases of the training corpus", "type": "private"},
            "metrics": [
                {"type": "f1", "name": "micro F1", "value": round(score.micro.value, 4)},
                {"type": "f1", "name": "macro F1", "value": round(score.macro.value, 4)},
            ],
        }
        for task, score in model.scores.items()
        if release.form != "encoder"
    ]
    matter: dict[str, Any] = {
        "language": "en",
        "library_name": "pathveil",
        "pipeline_tag": "feature-extraction" if release.form == "encoder" else "text-classification",
        "tags": ["pathology", "cancer-registry", "icd-o-3", "membership-audit", f"release-{release.form}"],
        "pathveil": {
            "form": release.form,
            "model_sha256": release.model_sha256,
            "verdict": None if release.judgement is None else release.judgement.answer,
            "expires": release.expires,
            "override": None if release.override is None else release.override.reason,
        },
    }
    if results:
        matter["model-index"] = [{"name": release.name, "results": results}]
    lines = [f"{name}: {json.dumps(value, ensure_ascii=True)}" for name, value in matter.items()]
    return "\n".join(["---", *lines, "---", "", card])


def bill_of_materials(model: "Model", release: Release, files: Mapping[str, str]) -> dict[str, Any]:
    """The release as a CycloneDX 1.6 ML-BOM: the model with its card, its files with their hashes, what made it."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, release.model_sha256 + release.released)}",
        "version": 1,
        "metadata": {
            "timestamp": release.released,
            "authors": [{"name": release.signer}],
            "component": {
                "type": "machine-learning-model",
                "bom-ref": "model",
                "name": release.name,
                "version": release.released[:10],
                "description": FORMS[release.form],
                "modelCard": model_card(model, release),
                "properties": properties(release),
            },
        },
        "components": [
            {"type": "library", "bom-ref": "pathveil", "name": "pathveil", "version": release.pathveil},
            *(
                {
                    "type": "file",
                    "bom-ref": f"file:{name}",
                    "name": name,
                    "hashes": [{"alg": "SHA-256", "content": digest}],
                }
                for name, digest in sorted(files.items())
            ),
        ],
        "dependencies": [{"ref": "model", "dependsOn": ["pathveil", *(f"file:{name}" for name in sorted(files))]}],
    }


def model_card(model: "Model", release: Release) -> dict[str, Any]:
    """The BOM's own form of a card."""
    metrics = [
        {
            "type": f"{kind} F1",
            "value": f"{interval.value:.4f}",
            "slice": task,
            "confidenceInterval": {"lowerBound": f"{interval.low:.4f}", "upperBound": f"{interval.high:.4f}"},
        }
        for task, score in model.scores.items()
        for kind, interval in (("micro", score.micro), ("macro", score.macro))
    ]
    outputs = {
        "weights": "a code for each task, with its probability",
        "encoder": "features",
        "labels": "a code for each task",
    }
    card: dict[str, Any] = {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": "feature extraction" if release.form == "encoder" else "text classification",
            "architectureFamily": "convolutional neural network",
            "modelArchitecture": "MTCNN",
            "inputs": [{"format": "text of a pathology report"}],
            "outputs": [{"format": outputs[release.form]}],
        },
        "considerations": {
            "users": ["cancer registries"],
            "useCases": ["proposing ICD-O-3 codes to registrars"],
            "technicalLimitations": [
                "It knows the labels it was trained on and no others.",
                "Reports of other laboratories, years or languages may be coded worse.",
            ],
            "ethicalConsiderations": [
                {
                    "name": "membership inference: whether a person's report was in the training data",
                    "mitigationStrategy": "not audited" if release.judgement is None else release.judgement.sentence,
                }
            ],
        },
    }
    if metrics and release.form != "encoder":
        card["quantitativeAnalysis"] = {"performanceMetrics": metrics}
    return card


def properties(release: Release) -> list[dict[str, str]]:
    """What CycloneDX has no field for."""
    told = {
        "form": release.form,
        "words": release.words,
        "expires": release.expires,
        "key sha256": release.key,
        "model sha256": release.model_sha256,
        "verdict": "none" if release.judgement is None else release.judgement.answer,
        "audit sha256": "" if release.judgement is None else release.judgement.audit_sha256,
        "appetite sha256": "" if release.appetite is None else release.appetite.sha256,
        "override": "" if release.override is None else release.override.reason,
    }
    return [{"name": f"pathveil:{name}", "value": value} for name, value in told.items() if value]


def exposure_summary(
    model: "Model", *, words: str, reports: Paths | None, progress: Progress = silent
) -> dict[str, Any]:
    """How much of people the words keep, in numbers: no word is told, nor a number of fewer than ten cases."""
    told: dict[str, Any] = {"words": len(model.vocabulary.words), "method": model.vocabulary.method, "are": words}
    if reports is None:
        return told | {"measured": None, "note": "no reports were given to measure it in (--reports)"}
    (row,) = measure_exposure({"released": model.vocabulary}, reports, progress=progress).vocabularies
    own = row.cases_with_own_word
    return told | {
        "measured": {
            "coverage": round(row.coverage, 4),
            "words_by_cases_that_hold_them": row.by_cases,
            "cases_with_a_word_of_their_own": own if own == 0 or may_be_told(own) else TOO_FEW,
            "words_that_look_like": row.suspects,
        }
    }
