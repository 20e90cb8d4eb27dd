"""The optimizer, with a state that can be written, read, and restored after a failed step."""

from collections.abc import Callable
from typing import Any

import torch

from .adam import make_adam
from .copies import copies, on_host, put
from .errors import Refused
from .request import AdamSettings
from .scaling import LossScale
from .written_check import AdamStep, check_kept

POLICY = "policy"
SUPERVISED = "supervised"


class Optimizer:
    """AdamW over some parameters, and the random state, which belongs to the same transaction."""

    def __init__(
        self,
        parameters: list[torch.nn.Parameter],
        settings: AdamSettings,
        device: torch.device | None = None,
        scale: LossScale | None = None,
    ) -> None:
        """`device` is where updates are computed, if the parameters are not there yet."""
        self.parameters = parameters
        self.scale = scale or LossScale("f32")
        """Factor of the gradients until `clip`."""
        self._settings = settings
        self._adam = make_adam(parameters, settings)
        self._device = device or parameters[0].device
        self.updates = 0
        self.updated: Callable[[], None] = lambda: None
        """Called after each update."""
        self.objective: str | None = None
        """The objective of the updates so far; None before the first."""
        self._kept: tuple[str | None, int, dict[str, Any]] | None = None
        """After the last update, or as loaded: its objective, and a parameter's number and a copy of its moments."""
        self._first_random = self._random()

    def begin(self, objective: str) -> None:
        """Must be called before an update for an objective (POLICY, SUPERVISED).

        Moments are estimates of one loss's gradients; another loss's differ in direction and by orders of magnitude. So
        Adam then starts as with a new adapter: no moments, update count 0, the seed's random state.
        """
        if self.objective not in (None, objective):
            self._adam.state.clear()
            self.updates = 0
            self._set_random(self._first_random)
        self.objective = objective

    def move(self, device: torch.device) -> None:
        """Moves the moments to their parameters. Adam's step counts are always on the CPU."""
        for state in self._adam.state.values():
            for name, value in state.items():
                if name != "step" and torch.is_tensor(value):
                    state[name] = value.to(device)

    def clip(self, max_norm: float) -> float:
        """Scales the gradients down to a norm; returns the norm before, which may be infinite or NaN."""
        if self.scale.value != 1:
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad.div_(self.scale.value)
        return float(torch.nn.utils.clip_grad_norm_(self.parameters, max_norm))

    def update(self, learning_rate: float) -> None:
        """Raises Refused when the step is not AdamW's, or does not go on from the moments of the one before."""
        if self._kept is not None and self._kept[0] == self.objective:
            _, number, kept = self._kept
            check_kept(kept, self._adam.state.get(self.parameters[number], {}))
        again = AdamStep(self._adam, self.parameters, self.updates, self._settings)
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        self._adam.step()
        again.check(learning_rate)
        self.updates += 1
        # In each update another one.
        number = self.updates % len(self.parameters)
        self._keep(number, self._adam.state.get(self.parameters[number], {}))
        self.updated()

    def _keep(self, number: int, moments: dict[str, Any]) -> None:
        """On a card nothing is kept beside what it needs."""
        if self._device.type == "cpu":
            kept = {name: value.clone() for name, value in moments.items()}
            self._kept = self.objective, number, kept

    def tensors(self) -> list[torch.Tensor]:
        """All that updates depend on: weights, Adam's state and the random state of the CPU."""
        states = [value for state in self._adam.state.values() for value in state.values() if torch.is_tensor(value)]
        return [*self.parameters, *states, torch.get_rng_state()]

    def clear(self) -> None:
        self._adam.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Any]:
        """Tensors and plain data only, so that it can be read without running code from the file."""
        return {
            "adam": self._adam.state_dict(),
            "updates": self.updates,
            "objective": self.objective,
            "loss_scale": self.scale.state(),
        } | self._random()

    def written(self) -> dict[str, Any]:
        """As `state`, for a file: moments of one type share a buffer, which is one record there. A thousand records
        take three times as long to read."""
        state = self.state()
        moments = state["adam"]["state"]
        parts = iter(on_host((value for one in moments.values() for value in one.values()), joined=True))
        buffered = {number: {name: next(parts) for name in one} for number, one in moments.items()}
        return state | {"adam": state["adam"] | {"state": buffered}}

    def held(self) -> dict[str, Any]:
        """As `state`, with the tensors that Adam itself goes on with: what is written is compared with them."""
        state, adam = self.state(), self._adam.state
        own = {number: adam[one] for number, one in enumerate(self.parameters) if one in adam}
        return state | {"adam": state["adam"] | {"state": own}}

    def load(self, state: dict[str, Any]) -> None:
        """Settings are the current ones; moments, counts, loss scale and random state are the file's.

        Raises Refused when the moments are those of 8 bits, which earlier versions of hone could keep.
        """
        if state.get("bits", 32) != 32:
            raise Refused("the checkpoint has Adam's moments in 8 bits, which hone no longer reads")
        self._set(state)
        number = self.updates % len(self.parameters)
        self._keep(number, state["adam"]["state"].get(number, {}))

    def _set(self, state: dict[str, Any]) -> None:
        now = self._adam.state_dict()["param_groups"]
        self._adam.load_state_dict({"state": state["adam"]["state"], "param_groups": now})
        self.updates = state["updates"]
        self.objective = state["objective"]
        self.scale.load(state["loss_scale"])
        self._set_random(state)

    def snapshot(self) -> dict[str, Any]:
        """A copy of state and weights in memory, for `restore`."""
        state = self.state()
        adam = state["adam"]
        # All else in the state is made for each call.
        own = {id(value): value for one in adam["state"].values() for value in one.values() if torch.is_tensor(value)}
        copied = dict(zip(own, copies(own.values()), strict=True))
        moments = {
            number: {name: copied.get(id(value), value) for name, value in one.items()}
            for number, one in adam["state"].items()
        }
        state |= {"adam": adam | {"state": moments}}
        return {"weights": copies(self.parameters), "state": state, "kept": self._kept}

    def restore(self, snapshot: dict[str, Any]) -> None:
        put(self.parameters, snapshot["weights"])
        # Knowledge about the loss scale gained since then is kept.
        self._set(snapshot["state"] | {"loss_scale": self.scale.state()})
        self._kept = snapshot["kept"]

    def _random(self) -> dict[str, Any]:
        """For the CPU and the current device: querying another GPU for its state would take memory there."""
        cuda = [torch.cuda.get_rng_state(self._device)] if self._device.type == "cuda" else []
        return {"random": torch.get_rng_state(), "random_cuda": cuda}

    def _set_random(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["random"])
        if self._device.type == "cuda" and state["random_cuda"]:
            torch.cuda.set_rng_state(state["random_cuda"][0], self._device)
