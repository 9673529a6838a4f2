"""What training will take is said before it is done, and nothing is written."""

from bundle.conftest import TINY
from pathveil.bundle import plan as plans
from pathveil.training.defences import DPSettings, TeacherSettings
from pathveil.training.speed import ASSUMED, Speed


def test_networks_and_teachers_are_counted(corpus, monkeypatch):
    monkeypatch.setattr(plans, "model_speed", lambda *_, **__: Speed(fixed=1.0, document=0.001))
    monkeypatch.setattr(plans, "rest_seconds", lambda *_: 2.0)
    settings = TINY.changed(members=2, validation_share=0.25, patience=5, epochs=50, linear=False)
    settings = settings.changed(defence=TeacherSettings(teachers=8, unseen=2))
    made = plans.plan_training(corpus, settings, workers=2)
    teachers, networks, rest = made.work
    assert (teachers.models, teachers.epochs, teachers.documents) == (8, 20, 8 * 120 * 20)
    assert (networks.models, networks.epochs, networks.documents) == (2, ASSUMED, round(2 * 160 * 0.75 * ASSUMED))
    assert teachers.seconds == 8 + teachers.documents / 1000
    assert networks.seconds == 2 + networks.documents / 1000 and rest.seconds == 2.0
    assert made.low < made.seconds < made.high and "teachers" in str(made) and "this machine's cores" in str(made)
    assert made.reports == 160 and made.cases == 80


def test_it_is_measured_by_training_a_few_batches(corpus):
    made = plans.plan_training(corpus, TINY)
    assert [row.work for row in made.work] == ["networks", "the rest"] and made.work[0].epochs == 8
    assert 0 < made.seconds < 600
    private = TINY.changed(members=1, linear=False, epochs=2, defence=DPSettings(epsilon=8.0, delta=1e-3))
    assert plans.without_target(private.defence).noise == 1.0
