"""Which device models are trained and asked on."""

from pathveil.errors import UsageError


def choose_device(device: str, *, here: bool = True) -> str:
    """The device that a user asks for: auto, cpu, cuda or one card, as cuda:1; auto takes a GPU where there is one.

    On machines elsewhere (not ``here``) it is for them to have it, and nothing can be found out for auto.

    >>> choose_device("cpu")
    'cpu'
    """
    kind, _, card = device.partition(":")
    if device not in ("auto", "cpu", "cuda") and not (kind == "cuda" and card.isdecimal()):
        raise UsageError(f"--device: '{device}' is not one of auto, cpu, cuda (or one card, as cuda:1)")
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
