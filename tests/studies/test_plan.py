"""What ``study run --plan`` counts beside what training is measured to cost."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from conftest import ROOT
from pathveil.errors import UsageError
from pathveil.studies import plan
from pathveil.studies.vocabulary import VocabularySettings
from studies.test_study_file import STUDY, TRAINING


def test_an_attack_on_few_answers_costs_a_fit_all_the_same(monkeypatch):
    """A fit takes 0.2 s and a microsecond an answer, a measured score 0.1 s: two numbers of shadows and six scores."""
    clock = [0.0]

    def fit(features, labels, member, **_):
        clock[0] += 0.2 + 1e-6 * len(labels)

    def measure(scores, records, **_):
        clock[0] += 0.1
        return []

    monkeypatch.setattr(plan, "perf_counter", lambda: clock[0])
    monkeypatch.setattr("pathveil.auditing.shokri.fit", fit)
    monkeypatch.setattr("pathveil.auditing.evidence.measure", measure)
    corpus = SimpleNamespace(
        classes={"site": ("C1", "C2")}, documents=30, cases=np.arange(30), registries=np.zeros(30, int)
    )
    corpus.labels = {"site": np.zeros(30, int)}
    corpus.take = lambda rows: corpus
    settings = VocabularySettings(shadows=3, counts=(1,))
    study = SimpleNamespace(corpus=corpus, attacked="site", settings=settings)
    speed = plan._attack_speed(study, "cpu", scale=1.0)
    assert speed.fixed == pytest.approx(2 * 0.2 + 6 * 0.1) and speed.document == pytest.approx(1e-6)


def test_what_a_run_takes_however_few_its_cells_is_counted(small_corpus, tmp_path, monkeypatch):
    (tmp_path / "study.toml").write_text(STUDY.format(corpus=small_corpus, training=TRAINING))
    monkeypatch.setattr(plan, "_speed", lambda *_: plan.Speed(0.0, 0.0, first=2.0))
    monkeypatch.setattr(plan, "_attack_speed", lambda *_, **__: plan.Speed(0.0, 0.0))
    monkeypatch.setattr(plan, "starting", lambda workers: 3.0 * (1 + (workers > 1)))
    monkeypatch.setattr(plan, "_choosing", lambda study: 5.0)
    made = plan.plan(tmp_path / "study.toml", out=tmp_path / "run", workers=2)
    # Shadows are trained as targets are, and the combined study's models as one of the distribution study's.
    kinds = ["targets", "single", "centralized", "adversarial"]
    counted = 2 * 3.0 + 3 * 5.0 + plan.REPORT + 2.0 * len(kinds)
    rest = made.work[-1]
    assert rest.study == "the run" and rest.seconds > counted  # and the reading of the corpus
    assert made.low < made.seconds < made.high and "between" in str(made)


def test_workers_share_the_cores_and_the_work(small_corpus, tmp_path, monkeypatch):
    (tmp_path / "study.toml").write_text(STUDY.format(corpus=small_corpus, training=TRAINING))
    threads: list[int] = []

    def speed(*_):
        threads.append(torch.get_num_threads())
        return plan.Speed(0.0, 0.001)

    monkeypatch.setattr(plan, "_speed", speed)
    monkeypatch.setattr(plan, "_attack_speed", lambda *_, **__: plan.Speed(0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    before = torch.get_num_threads()
    one, two = (plan.plan(tmp_path / "study.toml", out=tmp_path / "run", workers=number).work for number in (1, 2))
    assert set(threads) == {4, 2} and torch.get_num_threads() == before
    for alone, shared in zip(one, two, strict=True):
        if alone.documents:
            assert shared.seconds == pytest.approx(alone.seconds / min(2, alone.cells))


@pytest.mark.parametrize("name", ["vocabulary-paper", "distribution-paper"])
def test_the_papers_files_can_be_planned_before_their_corpus_is_made(name, tmp_path, monkeypatch):
    """A sample of the synthetic corpus has not the 20,000 words that the vocabulary paper ranks."""
    monkeypatch.setattr(plan, "SAMPLE", 400)
    monkeypatch.setattr(plan, "_speed", lambda *_: plan.Speed(0.0, 0.001))
    monkeypatch.setattr(plan, "_attack_speed", lambda *_, **__: plan.Speed(0.1, 0.0))
    monkeypatch.setattr(plan, "starting", lambda workers: 1.0)
    made = plan.plan(ROOT / "studies" / f"{name}.toml", out=tmp_path / "run")
    cells = 7 * 10 * (1 + 100 + 1) if name == "vocabulary-paper" else 3
    assert made.scaled_from_sample and made.left == made.cells == cells and made.seconds > 1e3
    assert not (tmp_path / "run").exists()


def test_what_the_corpus_does_not_allow_is_named_with_file_and_section(small_corpus, tmp_path):
    text = STUDY.format(corpus=small_corpus, training=TRAINING).replace("[vocabulary]", '[vocabulary]\nfolds = ["R7"]')
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        plan.plan(tmp_path / "study.toml", out=tmp_path / "run")
    assert str(error.value).startswith(f"{tmp_path / 'study.toml'}: [vocabulary]: 'folds': there is no registry 'R7'")
