"""Between a model's networks and the arrays of its bundle: nothing is lost, copied or left on another device."""

from dataclasses import replace

import numpy as np
import pytest

from pathveil.bundle.folder import shapes
from pathveil.bundle.weights import architecture_of, to_arrays, to_ensemble


def test_there_and_back_every_bit(made):
    ensemble = to_ensemble(made)
    arrays = to_arrays(ensemble)
    assert set(arrays) == set(made.tensors) and architecture_of(ensemble) == made.architecture
    for name, array in made.tensors.items():
        assert arrays[name].dtype == np.float32 and np.array_equal(arrays[name], array), name
    assert {name: array.shape for name, array in arrays.items()} == shapes(made.architecture, made.labels)


def test_on_the_cpu_the_arrays_themselves_are_used(made):
    embedding = next(name for name in made.tensors if name.startswith("member-0.") and "embed" in name)
    parameter = to_ensemble(made).members[0].state_dict()[embedding.removeprefix("member-0.")]
    assert np.shares_memory(parameter.numpy(), made.tensors[embedding])


def test_networks_are_built_on_the_device_that_is_asked_for_and_do_not_drop(made):
    for member in to_ensemble(made, "meta").members:  # no GPU is needed to see where parameters are
        assert {parameter.device.type for parameter in member.parameters()} == {"meta"} and not member.training
    assert made.ensemble("cpu") is made.ensemble("cpu")


def test_an_array_of_another_network_is_refused_by_torch(made):
    fewer = {name: array for name, array in made.tensors.items() if not name.startswith("member-1.")}
    with pytest.raises(RuntimeError, match="Missing key"):
        to_ensemble(replace(made, tensors=fewer))
