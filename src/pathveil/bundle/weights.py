"""Between a model and the named arrays a bundle keeps."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from pathveil.model import MTCNN
from pathveil.training.ensemble import Ensemble, LinearView

if TYPE_CHECKING:
    from pathveil.bundle.folder import Bundle


def to_arrays(model: Ensemble) -> dict[str, np.ndarray]:
    """A model's parameters by the names a bundle gives them, float32."""
    arrays = {
        f"member-{number}.{name}": tensor.detach().float().cpu().numpy()
        for number, member in enumerate(model.members)
        for name, tensor in member.state_dict().items()
    }
    if model.linear:
        arrays["linear.idf"] = model.linear.idf
        for task, weight in model.linear.weights.items():
            arrays[f"linear.{task}.weight"] = weight
            arrays[f"linear.{task}.bias"] = model.linear.biases[task]
    arrays |= {f"lift.{task}": lift for task, lift in model.lift.items()}
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def architecture_of(model: Ensemble) -> dict[str, object]:
    """What a bundle needs to build the model again."""
    shape = model.members[0].architecture
    del shape["classes"]
    return shape | {"members": len(model.members), "linear": model.linear is not None}


def to_model(bundle: "Bundle") -> Ensemble:
    """The model of a bundle, on the CPU; its arrays are used as they are, not copied."""
    shape = {name: bundle.architecture[name] for name in ("vocabulary_size", "dim", "windows", "filters", "dropout")}
    members = []
    for number in range(bundle.architecture["members"]):
        with torch.device("meta"):
            member = MTCNN(**shape, classes={task: len(names) for task, names in bundle.labels.items()})
        prefix = f"member-{number}."
        state = {
            name.removeprefix(prefix): torch.from_numpy(array)
            for name, array in bundle.tensors.items()
            if name.startswith(prefix)
        }
        member.load_state_dict(state, assign=True)
        members.append(member.eval())
    linear = None
    if bundle.architecture["linear"]:
        linear = LinearView(
            idf=bundle.tensors["linear.idf"],
            weights={task: bundle.tensors[f"linear.{task}.weight"] for task in bundle.tasks},
            biases={task: bundle.tensors[f"linear.{task}.bias"] for task in bundle.tasks},
        )
    lift = {task: bundle.tensors[f"lift.{task}"] for task in bundle.tasks}
    return Ensemble(members=tuple(members), linear=linear, blend=bundle.blend, lift=lift)
