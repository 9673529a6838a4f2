"""Which device models are trained and asked on, and which several a study's workers share."""

import os

from pathveil.errors import UsageError


def choose_device(device: str, *, here: bool = True, several: bool = False) -> str:
    """The device that a user asks for: auto, cpu, cuda or one card, as cuda:1; auto takes a GPU where there is one.
    Where ``several`` may share the work also a list of them of one kind, as cuda:0,cuda:1.

    On machines elsewhere (not ``here``) it is for them to have it, and nothing can be found out for auto.

    >>> choose_device("cpu"), choose_device("cpu, cpu", several=True)
    ('cpu', 'cpu,cpu')
    >>> choose_device("cuda:0,cpu", several=True)
    Traceback (most recent call last):
    pathveil.errors.UsageError: --device: 'cuda:0,cpu' mixes kinds; name cards, as cuda:0,cuda:1
    """
    if not isinstance(device, str):
        raise UsageError(f"--device: expected auto, cpu or cuda; got {type(device).__name__}")
    if several and "," in device:
        return _several(device, here=here)
    kind, _, card = device.partition(":")
    if device not in ("auto", "cpu", "cuda") and not (kind == "cuda" and card.isdecimal()):
        more = ", or several, as cuda:0,cuda:1" if several else ""
        raise UsageError(f"--device: '{device}' is not one of auto, cpu, cuda (or one card, as cuda:1{more})")
    if device == "cpu":
        return device
    if not here:
        if device == "auto":
            raise UsageError("--device auto: the workers are other machines; say cpu or cuda")
        return device
    import torch

    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if cards else "cpu"
    if not cards:
        raise UsageError(f"--device {device}: this machine has no GPU that PyTorch can use")
    if card and int(card) >= cards:
        raise UsageError(f"--device {device}: this machine has {cards} GPU{'s' if cards > 1 else ''}, from cuda:0 on")
    return device


def _several(devices: str, *, here: bool) -> str:
    names = [name.strip() for name in devices.split(",")]
    if not here:
        raise UsageError(
            f"--device {devices}: a Dask worker trains on one GPU; start a worker for each (CUDA_VISIBLE_DEVICES says "
            "which is whose) and say --device cuda"
        )
    kinds = {name.partition(":")[0] for name in names}
    for name in names:
        if name not in ("cpu", "cuda") and not (name.startswith("cuda:") and name[5:].isdecimal()):
            raise UsageError(f"--device: '{name}' in '{devices}' is no card; name cards, as cuda:0,cuda:1")
    if len(kinds) > 1:
        raise UsageError(f"--device: '{devices}' mixes kinds; name cards, as cuda:0,cuda:1")
    if kinds == {"cuda"}:
        if "cuda" in names:
            raise UsageError(f"--device: '{devices}' must say which cards, as cuda:0,cuda:1")
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"--device: '{devices}' names {name} twice; --workers says how many share a card")
            choose_device(name)
    return ",".join(names)


def kind_of(devices: str) -> str:
    """The device as a worker that was given one of several calls its own.

    >>> kind_of("cuda:0,cuda:1"), kind_of("cpu,cpu"), kind_of("cuda:1"), kind_of("cpu")
    ('cuda', 'cpu', 'cuda:1', 'cpu')
    """
    return devices.partition(":")[0].partition(",")[0] if "," in devices else devices


SHARE = "PATHVEIL_GPU_SHARE"  # of a card's memory that is this process's, where several work on it
DIVIDED = 0.9  # of a card's memory: the driver keeps some for each process besides


def take_device(devices: str, number: int, *, workers: int = 1) -> None:
    """Make one of several devices this process's own, before anything has asked for a GPU: ``cuda`` then means it. What
    ``workers`` share of its memory is divided among them.

    >>> take_device("cpu,cpu", 1)
    """
    on_one = -(-workers // (devices.count(",") + 1))
    if kind_of(devices).startswith("cuda") and on_one > 1:
        os.environ[SHARE] = str(DIVIDED / on_one)
    card = devices.split(",")[number % (devices.count(",") + 1)].partition(":")[2]
    if card and "," in devices:  # one card by name stays what it is called
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        cards = [one.strip() for one in visible.split(",") if one.strip()]
        os.environ["CUDA_VISIBLE_DEVICES"] = cards[int(card)] if cards else card


def memory_share() -> float:
    """How much of a card's memory this process may take; all of it, unless several processes work on the card."""
    return float(os.environ.get(SHARE, "1"))
