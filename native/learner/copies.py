"""Copies of many tensors at once: one by one would take Python's time, and a card's launches, hundreds of times."""

from collections.abc import Iterable, Sequence

import torch

HOST = "cpu"


def copies(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """With the same values, on the same devices."""
    given = [one.detach() for one in tensors]
    made = [torch.empty_like(one) for one in given]
    put(made, given)
    return made


@torch.no_grad()
def put(into: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """The values of each tensor become those of its partner, which may be on another device."""
    if len(into) != len(values):
        raise ValueError(f"{len(values)} tensors cannot be put into {len(into)}")
    # PyTorch copies those of one device and one type together.
    together: dict[object, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    for target, value in zip(into, values, strict=True):
        targets, given = together.setdefault((target.device, target.dtype, value.device, value.dtype), ([], []))
        targets.append(target)
        given.append(value)
    for targets, given in together.values():
        torch._foreach_copy_(targets, given)


def on_host(tensors: Iterable[torch.Tensor], joined: bool = False) -> list[torch.Tensor]:
    """The tensors on the CPU. The host waits once for all those of a card and of one type, which have one buffer;
    `joined`: copies of those on the CPU have one too."""
    given = [one.detach() for one in tensors]
    found = list(given)
    away: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for number, one in enumerate(given):
        if joined or one.device.type != HOST:
            away.setdefault((one.device, one.dtype), []).append(number)
    for (device, dtype), numbers in away.items():
        sizes = [given[number].numel() for number in numbers]
        whole = torch.empty(sum(sizes), dtype=dtype, pin_memory=device.type == "cuda")
        for number, part in zip(numbers, whole.split(sizes), strict=True):
            found[number] = part.view(given[number].shape).copy_(given[number], non_blocking=True)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return found
