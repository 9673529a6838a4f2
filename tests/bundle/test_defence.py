"""What a defended model's bundle and card promise, and what they leave out."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bundle.conftest import KINDS, TINY
from pathveil.bundle import Model
from pathveil.bundle.defence import card_lines, dp_statement, shadow_settings
from pathveil.bundle.train import read_public_classes, train_model, training_summary
from pathveil.errors import UsageError
from pathveil.training.accounting import Privacy
from pathveil.training.defences import DPSettings, OwnDefence, TeacherSettings
from pathveil.training.settings import TrainingSettings
from pathveil.vocabulary.lexicon import public_words
from pathveil.vocabulary.words import Vocabulary

PRIVATE = TrainingSettings(
    dim=16, filters=8, batch_size=30, learning_rate=0.01, epochs=4, patience=None, dropout=0, validation_share=0.3,
    defence=DPSettings(epsilon=20.0, delta=1e-3),
)  # fmt: skip
PRIVACY = Privacy(
    epsilon=7.5, delta=1e-5, noise=1.25, clip=0.5, steps=300, sampling_rate=0.05, embeddings="trained", accountant="rdp"
)


@pytest.fixture(scope="module")
def model(corpus):
    return train_model(corpus, PRIVATE, preset="private", seed=3)


@pytest.fixture(scope="module")
def covered(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    (folder / "words.txt").write_text("\n".join(kind[4] for kind in KINDS))
    codes = {"site": ["C50", "C18", "C61", "C34"], "behavior": ["2", "3"]}
    (folder / "classes.json").write_text(json.dumps(codes))
    return train_model(
        corpus, PRIVATE.changed(validation_share=0), preset="private", seed=3,
        vocabulary=public_words(folder / "words.txt"), public_classes=read_public_classes(folder / "classes.json"),
    )  # fmt: skip


def test_the_bundle_says_which_defence_with_its_numbers(model, tmp_path):
    saved = model.save(tmp_path / "model")
    content = json.loads((tmp_path / "model" / "bundle.json").read_text())
    said = content["provenance"]["defence"]
    assert said["kind"] == "dp" and said["unit"] == "case" and 19 < said["epsilon"] <= 20 and said["delta"] == 1e-3
    cases = 80 - said["held_out_cases"]  # 160 reports, two a case; about three tenths are held out
    training = said["training"]
    assert (
        40 < cases < 70
        and training["steps"] == 4 * -(-cases // 30)
        and training["sampling_rate"] == pytest.approx(30 / cases)
    )
    assert training["clip"] == 1.0 and training["noise"] > 0.3 and training["accountant"] == "rdp"
    assert content["provenance"]["settings"]["defence"]["epsilon"] == 20.0
    card = (tmp_path / "model" / "card.md").read_text()
    for wanted in ("**Differentially private**: ε = ", "δ = 0.001", "for a case with all its reports",
                   "not covered by ε", "the list of words, chosen from the training text",
                   "cases held out of training", "the hash of the corpus", "**Not audited.**"):  # fmt: skip
        assert wanted in card, wanted
    assert Model.load(tmp_path / "model").folder_sha256 == saved.folder_sha256


def test_training_cases_leave_no_number_beside_the_weights(model):
    assert all("loss" not in entry for member in model.history for entry in member)
    assert set(model.scores) and set(model.thresholds)


def test_with_public_words_and_codes_and_no_held_out_cases_it_covers_the_whole_bundle(covered, tmp_path):
    said = covered.provenance["defence"]
    assert said["not_covered"] == [] and said["words"] == "public" and said["classes"] == "public"
    assert covered.provenance["corpus_sha256"] is None and "ε covers all that this bundle holds" in covered.card
    assert covered.labels == {"site": ("C50", "C18", "C61", "C34"), "behavior": ("2", "3")}
    assert covered.scores == {} and covered.thresholds == {}
    assert covered.blend == {"site": (1.0,), "behavior": (1.0,)} and not any(
        lift.any() for lift in covered.lift.values()
    )
    assert covered.history == (tuple({"epoch": epoch} for epoch in range(1, 5)),)
    covered.save(tmp_path / "model")
    answers = Model.load(tmp_path / "model").predict(["invasive ductal carcinoma of the left breast"])
    assert "Always" in covered.card and answers.to_frame()["site_abstained"].to_list() == [True]


def test_labels_outside_the_public_codes_are_missing_and_nothing_tells_of_them(corpus, covered):
    fewer = {"site": ["C50"], "behavior": ["3"]}
    model = train_model(
        corpus,
        PRIVATE.changed(validation_share=0),
        preset="private",
        vocabulary=covered.vocabulary,
        public_classes=fewer,
    )
    assert model.labels == {"site": ("C50",), "behavior": ("3",)}


def test_what_words_and_training_give_away_adds_up():
    chosen = Vocabulary(
        words=("a",), method="m", parameters={"mechanism": "policy Gaussian", "epsilon": 1.0, "delta": 1e-6}
    )
    found = dp_statement(PRIVACY, chosen, public_classes=True, held_out_cases=0)
    assert found.epsilon == 8.5 and found.delta == pytest.approx(1.1e-5) and found.not_covered == []
    assert found.words == "private set union"
    plain = dp_statement(PRIVACY, Vocabulary(words=("a",), method="m"), public_classes=False, held_out_cases=1)
    assert plain.epsilon == 7.5 and len(plain.not_covered) == 4 and "1 case held out" in plain.not_covered[2]


def test_without_noise_nothing_is_promised():
    found = dp_statement(PRIVACY.model_copy(update={"epsilon": None, "noise": 0.0}),
                         Vocabulary(words=("a",), method="m"), public_classes=False, held_out_cases=0)  # fmt: skip
    assert "nothing is promised" in card_lines({"defence": found.to_dict()})[0]
    assert card_lines({}) == []


def test_shadows_are_trained_with_the_models_own_noise(model):
    settings = shadow_settings(model.provenance)
    assert settings.defence.epsilon is None
    assert settings.defence.noise == model.provenance["defence"]["training"]["noise"]
    undefended = {"settings": TrainingSettings().model_dump(mode="json")}
    assert shadow_settings(undefended) == TrainingSettings()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"site": "C50"}', "task 'site' needs a list of codes"),
        ('{"site": []}', "task 'site' needs a list of codes"),
        ('{"site": ["C50", "C50"]}', "names a code twice"),
        ("[]", "expected a JSON object"),
    ],
)
def test_public_classes_that_cannot_be_read_are_one_sentence(tmp_path, content, said):
    (tmp_path / "classes.json").write_text(content)
    with pytest.raises(UsageError, match=said):
        read_public_classes(tmp_path / "classes.json")


def test_public_classes_without_the_defence_or_without_a_tasks_codes_are_refused(corpus):
    with pytest.raises(UsageError, match="are for differentially private training"):
        train_model(corpus, TrainingSettings(), public_classes={"site": ["C50"]})
    with pytest.raises(UsageError, match="name no code of task 'histology'"):
        train_model(corpus, PRIVATE, tasks=["site", "histology"], public_classes={"site": ["C50"]})


TAUGHT = TINY.changed(
    members=1, linear=False, word_dropout=0.5, defence=TeacherSettings(teachers=3, unseen=1, sure=0.3)
)


def test_a_taught_models_bundle_and_card_say_what_teachers_kept_from_it(corpus, tmp_path):
    model = train_model(corpus, TAUGHT, preset="release", seed=3, out=tmp_path / "model")
    said = json.loads((tmp_path / "model" / "bundle.json").read_text())["provenance"]["defence"]
    assert (said["kind"], said["teachers"], said["unseen"], said["word_dropout"]) == ("teachers", 3, 1, 0.5)
    assert 10 < said["held_out_cases"] < 40
    for wanted in ("**Taught by 3 teachers**", "was kept from 1 of the teachers", "less than 30% sure",
                   "50% of the words hidden", f"on {said['held_out_cases']} cases that the networks did not learn from",
                   "only an audit tells", "**Not audited.**"):  # fmt: skip
        assert wanted in model.card, wanted
    assert "Taught by 3 teachers" in str(training_summary(model, tmp_path / "model"))
    assert shadow_settings(model.provenance) == TAUGHT


def nobody_is_sure(corpus, settings, seed):
    """A defence as a user writes one: no label of an odd report is learnt."""
    odd = np.arange(corpus.documents) % 2 == 1
    return replace(corpus, labels={task: np.where(odd, -1, label) for task, label in corpus.labels.items()})


def test_a_model_with_a_defence_of_ones_own_names_it_and_its_audit_needs_it(corpus):
    model = train_model(corpus, TINY, defence=nobody_is_sure, seed=3)
    name = f"{__name__}:nobody_is_sure"
    assert model.provenance["defence"] == {"kind": "own", "function": name}
    assert f"`{name}`" in model.card
    for given in (None, "teachers", "json:loads"):
        with pytest.raises(UsageError, match=f"shadows need the same one: --defence {name}"):
            shadow_settings(model.provenance, defence=given)
    for given in (nobody_is_sure, name):
        assert shadow_settings(model.provenance, defence=given).defence == OwnDefence(function=name)
    undefended = {"settings": TrainingSettings().model_dump(mode="json")}
    with pytest.raises(UsageError, match="was not defended by json:loads"):
        shadow_settings(undefended, defence="json:loads")
