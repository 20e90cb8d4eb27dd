"""The optimizer, with a state that can be written, read, and put back when a step goes wrong."""

import copy
from typing import Any

import torch

DEFAULT_BETAS = (0.9, 0.99)
DEFAULT_WEIGHT_DECAY = 0.1


class Optimizer:
    """AdamW over some parameters, and the random state, which belongs to the same transaction."""

    def __init__(self, parameters: list[torch.nn.Parameter], settings: dict[str, Any]) -> None:
        self.parameters = parameters
        betas = settings.get("betas", DEFAULT_BETAS)
        decay = settings.get("weightDecay", DEFAULT_WEIGHT_DECAY)
        self._adam = torch.optim.AdamW(parameters, lr=0.0, betas=tuple(betas), weight_decay=decay)
        self.updates = 0

    def clip(self, max_norm: float) -> float:
        """Scales the gradients down to a norm; returns the norm before, which may be infinite or NaN."""
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, max_norm))

    def update(self, learning_rate: float) -> None:
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        self._adam.step()
        self.updates += 1

    def clear(self) -> None:
        self._adam.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Any]:
        """Tensors and plain data only, so that it can be read back without running code from the file."""
        return {
            "adam": self._adam.state_dict(),
            "updates": self.updates,
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Settings stay those of now; moments, counts and random state are the file's."""
        now = self._adam.state_dict()["param_groups"]
        self._adam.load_state_dict({"state": state["adam"]["state"], "param_groups": now})
        self.updates = state["updates"]
        torch.set_rng_state(state["random"])
        if torch.cuda.is_available() and len(state["random_cuda"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(state["random_cuda"])

    def snapshot(self) -> dict[str, Any]:
        """A copy of state and weights in memory, for `restore`."""
        weights = [parameter.detach().clone() for parameter in self.parameters]
        return {"weights": weights, "state": copy.deepcopy(self.state())}

    @torch.no_grad()
    def restore(self, snapshot: dict[str, Any]) -> None:
        for parameter, weight in zip(self.parameters, snapshot["weights"], strict=True):
            parameter.copy_(weight)
        self.load(snapshot["state"])
