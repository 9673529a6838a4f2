"""Settings: fixed once made, and a mistake is one sentence."""

import pytest
from pydantic import ValidationError

from pathveil.errors import UsageError
from pathveil.settings import Settings


class NetworkShape(Settings):
    filters: int = 100
    dropout: float = 0.5


def test_settings_do_not_change_but_give_changed_ones():
    shape = NetworkShape()
    with pytest.raises(ValidationError):
        shape.filters = 3
    assert (shape.changed(filters=3).filters, shape.filters) == (3, 100)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"filter": 3}, "network shape: 'filter': there is no such setting; did you mean 'filters'?"),
        ({"dropout": "nan"}, "network shape: 'dropout': Input should be a finite number"),
    ],
)
def test_a_mistake_is_one_sentence(change, sentence):
    with pytest.raises(UsageError) as told:
        NetworkShape().changed(**change)
    assert str(told.value) == sentence
