"""Between an ensemble and the named arrays that a bundle keeps."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from pathveil.model import MTCNN
from pathveil.training.ensemble import Ensemble
from pathveil.training.linear_view import LinearView

if TYPE_CHECKING:
    from pathveil.bundle.model import Model


def to_arrays(ensemble: Ensemble) -> dict[str, np.ndarray]:
    """An ensemble's parameters by the names a bundle gives them, float32."""
    arrays = {
        f"member-{number}.{name}": tensor.detach().float().cpu().numpy()
        for number, member in enumerate(ensemble.members)
        for name, tensor in member.state_dict().items()
    }
    if ensemble.linear:
        arrays["linear.idf"] = ensemble.linear.idf
        for task, weight in ensemble.linear.weights.items():
            arrays[f"linear.{task}.weight"] = weight
            arrays[f"linear.{task}.bias"] = ensemble.linear.biases[task]
    arrays |= {f"lift.{task}": lift for task, lift in ensemble.lift.items()}
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def architecture_of(ensemble: Ensemble) -> dict[str, object]:
    """What a bundle needs to build the ensemble again."""
    shape = ensemble.members[0].architecture
    del shape["classes"]
    return shape | {"members": len(ensemble.members), "linear": ensemble.linear is not None}


def to_ensemble(model: "Model", device: str = "cpu") -> Ensemble:
    """A model's networks on a device, and its linear view; on the CPU its arrays are used as they are, not copied."""
    shape = {name: model.architecture[name] for name in ("vocabulary_size", "dim", "windows", "filters", "dropout")}
    members = []
    for number in range(model.architecture["members"]):
        with torch.device("meta"):
            member = MTCNN(**shape, classes={task: len(names) for task, names in model.labels.items()})
        prefix = f"member-{number}."
        state = {
            name.removeprefix(prefix): torch.from_numpy(array)
            for name, array in model.tensors.items()
            if name.startswith(prefix)
        }
        member.load_state_dict(state, assign=True)
        members.append(member.eval().to(device))
    linear = None
    if model.architecture["linear"]:
        linear = LinearView(
            idf=model.tensors["linear.idf"],
            weights={task: model.tensors[f"linear.{task}.weight"] for task in model.tasks},
            biases={task: model.tensors[f"linear.{task}.bias"] for task in model.tasks},
        )
    lift = {task: model.tensors[f"lift.{task}"] for task in model.tasks}
    return Ensemble(members=tuple(members), linear=linear, blend=model.blend, lift=lift)
