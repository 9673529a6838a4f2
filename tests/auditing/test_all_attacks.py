"""All attacks on one model: names, numbers of shadows, and that each score is its attack's own."""

import numpy as np
import pytest
from scipy.special import log_softmax

from pathveil.auditing import all_attacks, attack_names, model_answers, shokri
from pathveil.auditing.attacks import confidence_margin
from pathveil.auditing.evidence import TOGETHER, Records
from pathveil.auditing.lira import lira
from pathveil.auditing.metrics import auc
from pathveil.auditing.model_answers import answers_of
from pathveil.auditing.rmia import log_ratio, softened, tuned

DOCUMENTS, MODELS = 300, 12
LABELS = {
    "site": np.arange(DOCUMENTS) % 4,
    "side": np.where(np.arange(DOCUMENTS) % 10 == 0, -1, np.arange(DOCUMENTS) % 2),
}
CLASSES = {"site": ("a", "b", "c", "d"), "side": ("left", "right")}


def made(inside: np.ndarray, rng: np.random.Generator, hardness: np.ndarray) -> dict[str, np.ndarray]:
    """A model's logits: higher for the label of what it saw, each document with a hardness of its own."""
    logits = {}
    for task, names in CLASSES.items():
        values = rng.normal(size=(DOCUMENTS, len(names)))
        rows = np.flatnonzero(LABELS[task] >= 0)
        values[rows, LABELS[task][rows]] += (hardness + 1.2 * inside)[rows]
        logits[task] = values
    return logits


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    hardness = rng.normal(1, 2, DOCUMENTS)
    first = rng.random((MODELS // 2, DOCUMENTS)) < 0.5
    inside = np.concatenate([first, ~first])
    models = [(made(mask, rng, hardness), mask) for mask in inside]
    pool = np.arange(DOCUMENTS)
    taught = model_answers.taught_codes(
        (({task: said.argmax(axis=1) for task, said in logits.items()}, mask) for logits, mask in models),
        LABELS,
        CLASSES,
    )
    auditor = answers_of(models, LABELS, main_task="site", pool=pool, taught=taught)
    member = rng.random(DOCUMENTS) < 0.5
    target = made(member, rng, hardness)
    rows = np.arange(50, DOCUMENTS)
    records = Records(member[rows], rows, {task: label[rows] for task, label in LABELS.items()}, CLASSES)
    return auditor, target, records, rows, models, taught


def test_every_attack_on_every_task_and_together(world):
    auditor, target, records, rows, _, taught = world
    scores = all_attacks.all_scores(target, records, rows, auditor=auditor, labels=LABELS, taught=taught)
    full = {(one.attack, one.task) for one in scores if not one.whole_only and one.shadows in (0, MODELS)}
    single = {"loss", "entropy", "modified entropy", "privacy risk", "label only", "RMIA online", "RMIA offline"}
    single |= {"LiRA offline", "label only, with shadows", *attack_names.VARIANCES.values()}
    single |= {attack + ", taught code" for attack in attack_names.ASKED_TWICE}
    assert single <= set(attack_names.ATTACKS)
    wanted = {(attack, task) for attack in single for task in ("site", "side", TOGETHER)}
    assert full == wanted | {("shadow classifiers", "site")}
    steps = {one.shadows for one in scores if one.attack == "RMIA online" and one.task == TOGETHER}
    assert steps == {2, 4, 8, 12}
    assert {one.shadows for one in scores if one.attack == "shadow classifiers"} == {1, 10, 12}
    assert all(not one.decides for one in scores if one.whole_only or one.attack == "shadow classifiers")
    assert {one.attack for one in scores if one.label_only and one.task == "site" and not one.whole_only} == {
        "label only", "label only, with shadows", "label only, with shadows, taught code",
    }  # fmt: skip


def test_scores_are_the_attacks_own(world):
    auditor, target, records, rows, models, _ = world
    found = {(one.attack, one.task): one.values for one in all_attacks.online(
        answers_of([(target, np.zeros(DOCUMENTS, bool))], LABELS, main_task="site", pool=np.arange(0)),
        auditor, records, rows,
    )}  # fmt: skip
    inside = np.stack([mask for _, mask in models])[:, rows]
    margins = {
        task: np.stack([confidence_margin(logits[task], LABELS[task]) for logits, _ in models]) for task in LABELS
    }
    ratios = [
        lira(confidence_margin(target[task], LABELS[task])[rows], margins[task][:, rows], inside) for task in LABELS
    ]
    np.testing.assert_allclose(found["LiRA online", "site"], ratios[0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found["LiRA online", TOGETHER], np.nansum(ratios, axis=0), rtol=1e-3, atol=1e-3)

    def together(logits, temperature):
        site = log_softmax(logits["site"], axis=1)[np.arange(DOCUMENTS), LABELS["site"]]
        side = log_softmax(logits["side"], axis=1)[np.arange(DOCUMENTS), LABELS["side"]]
        return (softened(site, temperature) + np.where(LABELS["side"] < 0, 0, softened(side, temperature)))[rows]

    for one in ("site", "side"):
        assert np.isnan(found["RMIA online", one]).tolist() == (records.labels[one] < 0).tolist()
    log_p = [auditor.log_p[task] for task in LABELS]
    chosen = tuned(log_p, auditor.inside)
    ratio = log_ratio(
        together(target, chosen.temperature),
        np.stack([together(logits, chosen.temperature) for logits, _ in models]),
        inside,
    )
    np.testing.assert_allclose(found["RMIA online", TOGETHER], ratio, atol=1e-4)
    right = {task: target[task].argmax(1) == LABELS[task] for task in LABELS}
    usual = np.mean([logits["site"].argmax(1) == LABELS["site"] for logits, mask in models if not mask[60]], axis=0)[60]
    assert found["label only, with shadows", "site"][10] == pytest.approx(right["site"][60] - usual, abs=1e-6)


def test_a_student_that_was_taught_another_code_is_found_by_that_code():
    """Members answer a code that is not their label, others the label or not: only the taught code tells."""
    rng = np.random.default_rng(0)
    labels = {"site": np.zeros(400, np.int64)}
    first = rng.random((6, 400)) < 0.5
    masks = np.concatenate([first, ~first])
    member = rng.random(400) < 0.5

    def said(mask: np.ndarray) -> dict[str, np.ndarray]:
        logits = rng.normal(size=(400, 3))
        logits[:, 1] += np.where(mask, 4.0, 1.0)
        logits[:, 0] -= 5 + rng.normal(0, 5, 400)  # of the true code there is only noise
        return {"site": logits}

    models = [(said(mask), mask) for mask in masks]
    taught = model_answers.taught_codes(
        (({"site": logits["site"].argmax(axis=1)}, mask) for logits, mask in models), labels, {"site": ("a", "b", "c")}
    )
    assert (taught["site"] == 1).mean() > 0.9
    auditor = answers_of(models, labels, main_task="site", pool=np.arange(400), taught=taught)
    records = Records(member, np.arange(400), labels, {"site": ("a", "b", "c")})
    scores = all_attacks.all_scores(
        said(member), records, np.arange(400), auditor=auditor, labels=labels, taught=taught, curve=False
    )
    area = {one.attack: float(auc(one.values, member)) for one in scores if one.attack.split(",")[0] == "LiRA online"}
    assert area["LiRA online, taught code"] > 0.85 > area["LiRA online"] + 0.1


def test_comparing_with_shadows_beats_the_plain_loss(world):
    auditor, target, records, rows, _, _ = world
    scores = all_attacks.all_scores(target, records, rows, auditor=auditor, labels=LABELS, curve=False)
    area = {}
    for one in scores:
        kept = ~np.isnan(one.values)
        area[one.attack, one.task] = float(auc(one.values[kept], records.member[kept]))
    assert area["RMIA online", TOGETHER] > area["loss", TOGETHER] + 0.05
    assert area["LiRA online", TOGETHER] > area["loss", TOGETHER] + 0.05
    assert area["RMIA online", TOGETHER] > area["RMIA online", "site"] > area["loss", "site"]


def test_shadows_that_saw_no_attacked_record_serve_the_offline_attacks(world):
    _, target, records, rows, models, _ = world
    pool = np.arange(50)
    blind = [(logits, np.where(np.arange(DOCUMENTS) < 50, mask, False)) for logits, mask in models]
    attacker = answers_of(blind, LABELS, main_task="site", pool=pool)
    scores = all_attacks.all_scores(target, records, rows, attacker=attacker, labels=LABELS, curve=False)
    names = {one.attack for one in scores}
    assert "RMIA offline" in names and "shadow classifiers" in names and "RMIA online" not in names
    assert all(not np.isnan(one.values).any() for one in scores if one.task == "site")


def test_the_papers_attack_is_fitted_on_the_first_shadows(world):
    auditor, target, records, rows, models, _ = world
    from pathveil.auditing.attacks import log_softmax as ours

    probabilities = np.exp(ours(target["site"]))[rows]
    seen = shokri.attack_features(probabilities, records.labels["site"])
    found = {
        one.shadows: one
        for one in all_attacks.classifiers(seen, auditor, records, LABELS["site"], counts=(1, 10), kind="logistic")
    }
    p = np.stack([np.exp(log_softmax(logits["site"], axis=1)) for logits, _ in models[:10]])
    x = shokri.attack_features(p, LABELS["site"]).reshape(10 * DOCUMENTS, -1)
    member = np.concatenate([mask for _, mask in models[:10]])
    fitted = shokri.fit(x, np.tile(LABELS["site"], 10), member, classes=4, kind="logistic")
    want = fitted.predict(seen, records.labels["site"])
    np.testing.assert_allclose(found[10].values, want, atol=1e-4)


def test_the_spread_is_over_shadows_in_the_targets_place(world):
    auditor, _, records, rows, _, _ = world
    found = {row.attack: row for row in all_attacks.spread(auditor, records, rows, (0.1,))}
    assert set(found) == {"LiRA online", "RMIA online", "loss"}
    assert found["loss"].targets == MODELS
    own = []
    for number in range(MODELS):
        loss = np.nansum([auditor.log_p[task][number, rows] for task in LABELS], axis=0)
        own.append(auc(loss, auditor.inside[number, rows]))
    assert found["loss"].auc.mean == pytest.approx(np.mean(own), abs=1e-5)
    assert found["loss"].auc.sd == pytest.approx(np.std(own, ddof=1), abs=1e-5)
    assert found["RMIA online"].auc.mean > found["loss"].auc.mean
