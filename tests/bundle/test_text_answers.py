"""Answers: codes with terms and alternatives, contradictions, places in the text as given."""

from dataclasses import replace

import numpy as np
import pytest

from pathveil.bundle.coder import Code, Coder, decide
from pathveil.bundle.joint import Rules
from pathveil.bundle.text_answers import answer, answer_of

TEXT = "Final diagnosis:\n  invasive ductal carcinoma of the LEFT breast."


def test_answers_have_the_top_three_with_terms(bundle):
    said, _ = Coder(bundle).read([TEXT])
    (told,) = answer(Coder(bundle), [TEXT])
    for task, code in told.codes.items():
        chances = np.exp(said[task][0].astype(float))
        order = [bundle.labels[task][label] for label in np.argsort(-chances)]
        named = {code.code: code.probability} | {one.code: one.probability for one in code.alternatives}
        assert set(named) == set(order[:3]) or code.lifted
        assert len(code.alternatives) == min(2, len(order) - 1)
        for label, probability in named.items():
            assert probability == pytest.approx(chances[bundle.labels[task].index(label)], rel=1e-5)
        assert [one.probability for one in code.alternatives] == sorted(
            (one.probability for one in code.alternatives), reverse=True
        )
    assert told.codes["site"].term == "breast" and told.codes["laterality"].term == "left"
    assert told.to_dict()["codes"]["site"]["alternatives"][0]["term"] in ("colon", "prostate gland")


def test_names_of_any_length_stay_apart(bundle):
    codes = {"tumour_grade": Code("University Hospital", 0.5, False), "site": Code("C61", 0.9, False)}
    assert [line.split() for line in answer_of(codes).summary().splitlines()] == [
        ["tumour_grade", "University", "Hospital", "0.500"],
        ["site", "C61", "0.900"],
    ]


def test_a_text_that_nothing_is_read_of_is_told(bundle):
    unread, read = answer(Coder(bundle), ["乳腺癌", TEXT])
    assert unread.unread and "! the model can read nothing of this text" in repr(unread)
    assert unread.shown_in("乳腺癌") == unread.summary() and "read nothing" not in repr(read)


def test_a_histology_is_named_with_its_behavior(bundle):
    labels = {"behavior": ("3", "2"), "histology": ("8140", "8500")}
    lifts = {f"lift.{task}": np.zeros(2, np.float32) for task in labels}
    two = replace(bundle, labels=labels, tensors=dict(bundle.tensors) | lifts)
    logs = {"behavior": np.log([[0.1, 0.9], [0.9, 0.1]]), "histology": np.log([[0.2, 0.8], [0.2, 0.8]])}
    in_situ, invasive = decide(two, logs, empty=np.zeros(2, bool))
    assert in_situ["histology"].term == "ductal carcinoma in situ"
    assert in_situ["histology"].alternatives[0].term == "adenocarcinoma in situ"
    assert invasive["histology"].term == "infiltrating duct carcinoma"


def test_contradictions_are_flagged_and_joint_codes_have_none(bundle):
    labels = bundle.labels
    logs = {task: np.log(np.full((2, len(names)), 0.02)) for task, names in labels.items()}
    for task, code in (("site", "C18"), ("subsite", "C50.4"), ("laterality", "left"), ("histology", "8520")):
        logs[task][:, labels[task].index(code)] = np.log(0.6)
    logs["site"][:, labels["site"].index("C50")] = np.log(0.3)
    bare = replace(
        bundle, tensors=dict(bundle.tensors) | {f"lift.{task}": np.zeros(len(n)) for task, n in labels.items()}
    )

    (alone, _) = map(answer_of, decide(bare, logs, empty=np.zeros(2, bool)))
    assert [one.tasks for one in alone.contradictions] == [("site", "subsite")]
    (joint, _) = map(answer_of, decide(bare, logs, empty=np.zeros(2, bool), joint=Rules.of(labels)))
    assert joint.contradictions == () and joint.codes["site"].code == "C50" and joint.codes["site"].adjusted
    assert not joint.codes["site"].lifted and joint.codes["site"].probability == pytest.approx(0.3)
    assert joint.codes["site"].alternatives[0].code == "C18" and not joint.codes["subsite"].adjusted


def test_places_lie_in_the_text_as_given(bundle):
    texts = [TEXT, f"\u00a0\u00a0{TEXT}", TEXT.replace("LEFT", "L\u00adEFT"), ""]
    answers = answer(Coder(bundle), texts, joint=("subsite",), explain=4)
    for text, told in zip(texts, answers, strict=True):
        assert told.explanation is not None
        for reasons in told.explanation.tasks.values():
            assert all(0 <= place.start < place.end <= len(text) for place in reasons.places)
    where = [place for place in answers[1].explanation.tasks["laterality"].places if place.weight > 0]
    assert any("LEFT" in texts[1][place.start : place.end] for place in where)
    assert answer(Coder(bundle), [TEXT])[0].explanation is None
