"""The model's place between updates: the computing device, or main memory while the engine plays."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .backend import Backend
from .errors import Refused, is_out_of_memory
from .memory import forget, give_back, keep
from .optimizer import Optimizer

HOST = torch.device("cpu")


class Residence:
    """The model is where the backend loaded it: in main memory when `away`, else on the backend's device."""

    def __init__(self, backend: Backend, optimizer: Optimizer, away: bool) -> None:
        self._backend = backend
        self._optimizer = optimizer
        self._away = away

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Context in which weights, adapter and optimizer state are on the device.

        Afterwards they are moved back and freed memory is returned, also after an exception. Raises Refused when the
        device has no room for them.
        """
        try:
            if self._away:
                self._bring()
            yield
        except BaseException as error:
            # Its frames hold intermediate results, which would keep their memory.
            forget(error)
            raise
        finally:
            if self._away:
                self._move(HOST)
            give_back(self._backend.device)
        keep(self._backend.device)

    def _bring(self) -> None:
        device = self._backend.device
        try:
            self._move(device)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            raise Refused(
                f"the learner's weights do not fit beside what is on the GPU ({free_text(device)}); give the engine "
                "less while it sleeps (--release-weights), end other programs there, or take a smaller model"
            ) from error

    def _move(self, device: torch.device) -> None:
        self._backend.move(device)
        self._optimizer.move(device)


def free_text(device: torch.device) -> str:
    if device.type != "cuda":
        return str(device)
    free, total = torch.cuda.mem_get_info(device)
    return f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
