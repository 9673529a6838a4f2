"""What a site may say, and the word that the hub is told when a site fails."""

import numpy as np
import pytest

from federation.protocol.test_hub_run import plan_of, site_run
from pathveil.errors import CorpusError, FederationError, VocabularyError
from pathveil.federation import wire
from pathveil.federation.protocol.course import course_of
from pathveil.federation.protocol.message import FAULT_OF, FAULTS, Message, fault_of, outgoing


def test_faults_are_told_by_the_kind_of_error_and_not_by_its_words():
    """A sentence that says "nothing was sent" is not the gate's for that."""
    unsound = {"w": np.full(2, np.nan, np.float32)}
    for facts, arrays, manifest in (({"label": "C50"}, {}, {}), ({}, unsound, {"w": (2,)})):
        with pytest.raises(wire.GateError) as raised:
            outgoing(facts, arrays, manifest=manifest, sender="north")
        assert fault_of(raised.value) == "gate"
    assert fault_of(FederationError("the state is gone; nothing was sent")) == "state"
    assert fault_of(VocabularyError("other words; nothing was read")) == "words"
    assert fault_of(CorpusError("nothing was found")) == "corpus"
    assert fault_of(ValueError("nothing was sent")) == "defect"
    assert set(FAULT_OF.values()) == FAULTS.keys()


@pytest.mark.parametrize("mode", ["adversarial", "fedavg"])
def test_a_site_that_gets_other_arrays_than_the_plans_blames_the_hub(mode, tmp_path):
    plan = plan_of(mode)
    one, course = site_run(plan, "A", tmp_path), course_of(plan)
    counts = [one.work.documents, 24, 30]
    first = course.exchanges(counts)[0]
    arrays = {name: array for name, array in course.arrays(first).items() if "convolution.bias" not in name}
    with pytest.raises(wire.QuestionError, match="the hub: 1 shared parameters are missing") as raised:
        one.answer(Message({"round": 0, "counts": counts} | first.facts(), arrays))
    assert fault_of(raised.value) == "hub"
