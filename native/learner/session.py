"""A model being trained: opened once, updated on request. __main__.py calls its methods."""

import functools
import platform
import time
from importlib.metadata import version
from typing import Any

import torch
from peft import PeftModel

from . import checkpoint, choice
from .backend import Backend, PeftBackend
from .batch import Batch, read_batch
from .check_clock import Spent
from .errors import Refused
from .hardware import cuda_of, name_of
from .heap import Heap
from .in_use import InForce
from .memory import PeakMemory, forget
from .optimizer import POLICY, SUPERVISED, Optimizer
from .products import choose_products
from .protocol import Progress, Telling
from .quantised import has_blocks, weights_in
from .ranks import ALONE, Ranks
from .rehearsal import Rehearsals
from .request import OpenRequest, SftRequest, StepRequest, TrainingRequest
from .residence import Residence
from .scaling import LossScale
from .sft import supervised
from .update import policy_update
from .update_check import check_adapter, check_asked, check_scaled


def _backend(settings: OpenRequest, progress: Progress, ranks: int) -> Backend:
    if choice.chosen(settings, ranks) == "unsloth":
        from .unsloth_backend import UnslothBackend

        return UnslothBackend(settings, progress)
    return PeftBackend(settings, progress)


class Session:
    """All methods raise Refused for requests that cannot be carried out."""

    def __init__(self, settings: OpenRequest, progress: Progress, ranks: Ranks = ALONE) -> None:
        """`ranks`: this process, and others that compute updates with it and are asked the same."""
        started = time.monotonic()
        self._ranks = ranks
        self._notes = choice.notes(settings)
        # Before PyTorch starts its threads, which inherit it. In a trained model's sharp attention most probabilities
        # are nearly zero; computing with numbers below 1.2e-38 made the backward pass of attention ten times slower.
        torch.set_flush_denormal(True)
        torch.set_num_threads(max(1, settings.threads // ranks.local_world))
        # The initial weights of an adapter depend on the seed alone.
        torch.manual_seed(settings.seed)
        if settings.device == "cpu":
            choose_products()
        # Before the ranks tell each other of ways of computing, of which one without a model has none.
        self._backend = ranks.together("loaded", lambda: _backend(settings, progress, ranks.world))
        ranks.attach(self._backend)
        parameters = self._backend.trainable()
        scale = LossScale(self._backend.precision)
        self._optimizer = Optimizer(parameters, settings.optimizer, self._backend.device, scale)
        self._heap = Heap(self._backend.device, ranks.local_world)
        self._optimizer.updated = self._heap.updated
        if settings.resume:
            if settings.lora is None:
                raise Refused("training of all weights cannot be resumed; start from the model it wrote")
            checkpoint.resume(settings.resume, self._backend, self._optimizer, settings.lora)
        if settings.lora is not None:
            check_scaled(self._backend.model, settings.lora)
        self._adapter = checkpoint.digest(settings.resume) if settings.resume else None
        """Of the checkpoint whose state the first rank has."""
        self._in_force = self._see(settings.resume)
        self._rehearsals = Rehearsals()
        self._residence = Residence(self._backend, self._optimizer, self._backend.away)
        device = self._backend.device if self._backend.away else self._backend.placed()
        packages = ["torch", "transformers", "peft", "safetensors", "gguf"]
        packages += ["unsloth"] if self._backend.name == "unsloth" else []
        self.info = {
            "backend": self._backend.name,
            "device": name_of(device),
            "offloaded": settings.lifetime == "offload",
            "cuda": cuda_of(device),
            "precision": self._backend.precision,
            "architecture": self._backend.base.architecture,
            "weights": self._backend.base.weights,
            "blocks": has_blocks(self._backend.model),
            "parameters": {
                "total": weights_in(self._backend.model),
                "trainable": sum(parameter.numel() for parameter in parameters),
            },
            "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
            "updates": self._optimizer.updates,
            "ranks": ranks.world,
            "seconds": time.monotonic() - started,
        }

    def _see(self, checkpoint_folder: str | None) -> InForce | None:
        """None where all weights are trained, on ranks behind the first, which have its adapter, and on a card: how it
        rounds has not been measured."""
        model = self._backend.model
        if not (self._ranks.first and isinstance(model, PeftModel) and self._backend.device.type == "cpu"):
            return None
        return InForce(model, checkpoint_folder, self._optimizer.updates)

    def step(self, request: StepRequest, progress: Progress) -> dict[str, Any]:
        """A policy-gradient update and its checkpoint."""
        update = functools.partial(policy_update, in_force=self._in_force)
        return self._ranks.together("step", lambda: self._run(update, POLICY, request, progress))

    def sft(self, request: SftRequest, progress: Progress) -> dict[str, Any]:
        """Supervised epochs and their checkpoint."""
        return self._ranks.together("sft", lambda: self._run(supervised, SUPERVISED, request, progress))

    def _check_asked(self, batch: Batch, request: StepRequest) -> None:
        check_asked(batch, request)
        if self._ranks.first:
            check_adapter(self._adapter, request.adapter)

    def _run(self, work: Any, objective: str, request: TrainingRequest, progress: Progress) -> dict[str, Any]:
        started, checks = time.monotonic(), Spent.seconds
        batch = read_batch(request.batch, self._backend.vocabulary)
        if isinstance(request, StepRequest):
            self._ranks.together("asked", functools.partial(self._check_asked, batch, request))
        with self._residence.at_work():
            memory = PeakMemory(self._backend.device)
            self._heap.begin()
            self._optimizer.begin(objective)
            telling = Telling(progress)
            self._backend.at_work = telling.again
            if isinstance(request, StepRequest):
                rehearsed = functools.partial(self._rehearsals.before, self._backend, self._optimizer, batch, request)
                self._ranks.together("rehearsed", rehearsed)
            metrics = work(self._backend, self._optimizer, batch, request, telling, self._ranks)
            probe, before = metrics.pop("probe", None), metrics.pop("before", None)
            saving = time.monotonic()
            stood = self._adapter, self._in_force
            try:
                if metrics.get("applied", True) and self._ranks.first:
                    progress("saving", 0, 1)
                    checkpoint.write(request.into, self._backend, self._optimizer, probe)
                    self._adapter = checkpoint.digest(request.into)
                    self._in_force = self._see(request.into)
                metrics["seconds"]["save"] = time.monotonic() - saving
                # After this the checkpoint is written, for all ranks.
                reports = self._ranks.gather(
                    self._ranks.together("saved", lambda: (memory.report(), self._backend.notes()))
                )
            except BaseException as error:
                # hone may ask for the step again, for lack of memory: it must not be made on top of this one.
                if before is not None:
                    forget(error)
                    self._optimizer.restore(before)
                    self._adapter, self._in_force = stood
                raise
            finally:
                # On a card nothing of it is left when the learner goes to rest.
                before = None
            metrics["memory"] = _of_all([memory for memory, _ in reports], self._backend.device)
            said, self._notes = self._notes, []
            said += metrics.pop("notes", [])
            metrics["notes"] = list(dict.fromkeys(said + [note for _, notes in reports for note in notes]))
            metrics |= {"device": name_of(self._backend.placed()), "precision": self._backend.precision}
        metrics["seconds"]["checks"] = Spent.seconds - checks
        metrics["seconds"]["total"] = time.monotonic() - started
        self._rehearsals.worked(metrics["seconds"]["total"])
        return metrics


def _of_all(reports: list[dict[str, int]], device: torch.device) -> dict[str, int]:
    """Memory of all ranks: on a CPU their sum, of cards, of which each rank has its own, that of the fullest."""
    whole = max if device.type == "cuda" else sum
    return {name: whole(report[name] for report in reports) for name in reports[0]}
