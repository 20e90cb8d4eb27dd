"""Stores a model's linear layers and adapters as the products of fused.py need them, and takes their gradients.

The frozen weights are kept once: those of the model's layers are views of the joint matrices, unless they are
quantised: then their values exist during a product. Adapters stay PEFT's
parameters, in f32; the products have a copy in their own type, which is renewed when a parameter has changed.
"""

from itertools import accumulate, pairwise
from typing import Any

import torch

from .fused import Products, Weights
from .memory import give_back
from .quantised import kinds_of, type_of_products

ALIGNED = 8
"""Columns of B are padded to a multiple: tensor cores read 16 bytes at a time."""
ADAPTER = "default"
"""PEFT's name for it."""


def adapted(model: torch.nn.Module) -> list[tuple[str, Any]]:
    """Layers with the adapter, by name. PyTorch's own walk looks into them, and asking a module for a part that it has
    not is an error: both take as long as reading a file."""
    found: list[tuple[str, Any]] = []
    left: list[tuple[str, torch.nn.Module]] = [("", model)]
    while left:
        name, module = left.pop()
        parts = module._modules
        if ADAPTER in parts.get("lora_A", ()):
            found.append((name, module))
            continue
        children = [(f"{name}.{child}" if name else child, one) for child, one in parts.items() if one is not None]
        left += reversed(children)
    return found


def adapter_of(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """The parameters of PEFT's adapter, by their names in its files."""
    return {name: one for layer in adapted(model) for name, one in factors_of(*layer).items()}


def factors_of(name: str, module: Any) -> dict[str, torch.nn.Parameter]:
    """The same of one layer that `adapted` gives: A and B."""
    return {f"{name}.{part}.weight": module._modules[part][ADAPTER].weight for part in ("lora_A", "lora_B")}


class _Adapter:
    """Of one linear layer: which rows of A and of `out` are its own."""

    def __init__(self, module: Any, first: int, rows: slice) -> None:
        self.a = module.lora_A[ADAPTER].weight
        self.b = module.lora_B[ADAPTER].weight
        self.scaling = float(module.scaling[ADAPTER])
        self.ranks = slice(first, first + len(self.a))
        self.rows = rows


class _Joint:
    """The linear layers of one input."""

    def __init__(self, modules: list[Any]) -> None:
        self.linears = [getattr(module, "base_layer", module) for module in modules]
        bounds = list(pairwise(accumulate((len(linear.weight) for linear in self.linears), initial=0)))
        self.rows = [slice(*bound) for bound in bounds]
        self.adapters: list[_Adapter] = []
        ranks = 0
        for module, rows in zip(modules, self.rows, strict=True):
            if hasattr(module, "lora_A"):
                self.adapters.append(_Adapter(module, ranks, rows))
                ranks = self.adapters[-1].ranks.stop
        self.out, self.width = bounds[-1][1], self.linears[0].in_features
        self.kinds = kinds_of(self.linears)
        self.ranks = -(-ranks // ALIGNED) * ALIGNED
        self.scaling = self.adapters[0].scaling if self.adapters else 1.0
        self.drop()

    def drop(self) -> None:
        """B is a view that holds the whole matrix's storage: all of them go together."""
        self.matrix: torch.Tensor | None = None
        self.bias: torch.Tensor | None = None
        self.a: torch.Tensor | None = None
        self.b: torch.Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        return type_of_products(self.linears[0])

    def kept(self) -> bool:
        """Whether the layers' weights are views of the matrix: moving or converting a model replaces them. Of quantised
        ones B alone is kept."""
        if self.kinds is not None:
            return self.b is not None and (self.b.dtype, self.b.device) == (self.dtype, self.linears[0].weight.device)
        matrix = self.matrix
        return matrix is not None and all(
            linear.weight.dtype == matrix.dtype and linear.weight.data_ptr() == matrix[rows].data_ptr()
            for linear, rows in zip(self.linears, self.rows, strict=True)
        )

    @torch.no_grad()
    def join(self) -> None:
        first = torch.empty(0, dtype=self.dtype, device=self.linears[0].weight.device)
        width = self.width if self.kinds is None else 0
        matrix = first.new_zeros(self.out, width + self.ranks)
        if self.kinds is None:
            for linear, rows in zip(self.linears, self.rows, strict=True):
                own = matrix[rows, :width]
                own.copy_(linear.weight)
                linear.weight.data = own
            self.matrix = matrix
        biases = [linear.bias for linear in self.linears]
        # All three of q, k and v have one, or none has.
        self.bias = None if biases[0] is None else torch.cat(biases).to(first.dtype)
        self.a = first.new_zeros(self.ranks, self.width)
        # No view to autograd: PyTorch's compiler looks at the whole of a view too, and a layer compiled with gradients
        # could then not be compiled without them: the whole's sizes are those of no input (PyTorch 2.13).
        self.b = matrix[:, width:].data

    def products(self, factors: tuple[torch.Tensor, torch.Tensor] | None) -> Products:
        blocks = [] if self.kinds is None else [linear.weight.data for linear in self.linears]
        a, b = factors or (None, None)
        # As B, no view to autograd.
        joint = self.matrix if factors or self.matrix is None else self.matrix[:, : self.width].data
        return Products(joint, blocks, self.kinds, self.bias, a, b, self.scaling)


class Joints:
    """Of a whole model with adapters."""

    def __init__(self, layers: Any, inputs: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
        """`inputs` has the linear layers of each input, in the order of Weights."""
        self._layers = [
            [_Joint([getattr(getattr(layer, part), name) for name in names]) for part, names in inputs]
            for layer in layers
        ]
        # Those of one input after the other, so that gradients of all layers are one tensor (_taken).
        self._adapted = [joint for of_input in zip(*self._layers, strict=True) for joint in of_input if joint.adapters]
        self.parameters = [factor for joint in self._adapted for one in joint.adapters for factor in (one.a, one.b)]
        self._version = -1
        self._sums: tuple[torch.Tensor, list[torch.Tensor]] | None = None
        """The gradients that the parameters have views of."""

    @property
    def dtype(self) -> torch.dtype:
        return self._layers[0][0].dtype

    def drop(self) -> None:
        """The matrices are made again when they are needed: the model's weights have left them, or are about to."""
        self._sums = None
        for layer in self._layers:
            for joint in layer:
                joint.drop()

    def _renew(self) -> None:
        joined = [joint for layer in self._layers for joint in layer if not joint.kept()]
        for joint in joined:
            joint.join()
        if joined:
            # PyTorch keeps the blocks of the separate weights, as many bytes again, of sizes that nothing else needs.
            give_back(joined[0].b.device)
        version = sum(parameter._version for parameter in self.parameters)
        if joined or version != self._version:
            self._copy()
            self._version = version
        if self.parameters[0].grad is None:
            self._sums = None

    @torch.no_grad()
    def _copy(self) -> None:
        """The adapters to the products' factors. All A take few launches, the B of one input one for each layer, since
        they are columns of its matrix: a copy for each linear layer would be as many launches as its products."""
        pairs = [(joint, one) for joint in self._adapted for one in joint.adapters]
        torch._foreach_copy_([joint.a[one.ranks] for joint, one in pairs], [one.a for _, one in pairs])
        for joints in self._inputs():
            first = joints[0]
            blocks = first.b.new_zeros(len(joints), first.out, first.ranks)
            for number, one in enumerate(first.adapters):
                factors = torch.stack([joint.adapters[number].b for joint in joints])
                torch.mul(factors, one.scaling, out=blocks[:, one.rows, one.ranks])
            for joint, block in zip(joints, blocks, strict=True):
                joint.b.copy_(block)

    def weights(self, adapted: bool) -> list[Weights]:
        """Of each layer; without `adapted` of the base model."""
        self._renew()
        factors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        if adapted:
            if torch.is_grad_enabled():
                flat = _Factors.apply(self, *self.parameters)
            else:
                flat = [factor for joint in self._adapted for factor in (joint.a, joint.b)]
            pairs = zip(flat[::2], flat[1::2], strict=True)
            factors = {id(joint): pair for joint, pair in zip(self._adapted, pairs, strict=True)}
        return [
            Weights(*(joint.products(factors.get(id(joint))) for joint in layer), self.dtype) for layer in self._layers
        ]

    def given(self) -> tuple[torch.Tensor, ...]:
        return tuple(factor.detach() for joint in self._adapted for factor in (joint.a, joint.b))

    def taken(self, gradients: tuple[torch.Tensor, ...]) -> list[torch.Tensor | None]:
        """The parameters' gradients, views of few tensors; None for all where they were added to those of earlier
        rows.

        Adding each of hundreds of gradients to its parameter's would take as many launches.
        """
        all_a = torch.cat([gradient.flatten() for gradient in gradients[::2]])
        all_b = torch.cat([gradient.flatten() for gradient in gradients[1::2]])
        parts = self._parts(all_b)
        if self._sums is not None and self._are_sums():
            whole, sums = self._sums
            whole.add_(all_a)
            for one, part in zip(sums, parts, strict=True):
                one.add_(part)
            return [None] * len(self.parameters)
        whole = all_a.float()
        sums = [part.to(torch.float32, memory_format=torch.contiguous_format, copy=True) for part in parts]
        self._sums = whole, sums
        return self._views(whole, sums)

    def _parts(self, all_b: torch.Tensor) -> list[torch.Tensor]:
        """The blocks of B on the diagonal: [layers, rows, rank] for each linear layer of each input."""
        parts, at = [], 0
        for joints in self._inputs():
            end = at + len(joints) * joints[0].out * joints[0].ranks
            of_layers = all_b[at:end].view(len(joints), joints[0].out, joints[0].ranks)
            parts += [of_layers[:, one.rows, one.ranks] for one in joints[0].adapters]
            at = end
        return parts

    def _views(self, whole: torch.Tensor, sums: list[torch.Tensor]) -> list[torch.Tensor]:
        """In the order of the parameters."""
        views, at, number = [], 0, 0
        for joints in self._inputs():
            for layer, joint in enumerate(joints):
                of_a = whole[at : at + joint.a.numel()].view_as(joint.a)
                at += joint.a.numel()
                for which, one in enumerate(joint.adapters):
                    views += [of_a[one.ranks], sums[number + which][layer]]
            number += len(joints[0].adapters)
        return views

    def _inputs(self) -> list[list[_Joint]]:
        """The joints with adapters, of all layers for each input."""
        return [list(joints) for joints in zip(*self._layers, strict=True) if joints[0].adapters]

    def _are_sums(self) -> bool:
        """Whether the parameters' gradients are still those views."""
        views = self._views(*self._sums)
        return all(
            parameter.grad is not None and parameter.grad.data_ptr() == view.data_ptr()
            for parameter, view in zip(self.parameters, views, strict=True)
        )


class _Factors(torch.autograd.Function):
    """From PEFT's parameters to the factors of the products."""

    @staticmethod
    def forward(context: Any, joints: Joints, *_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        context.joints = joints
        return joints.given()

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        return None, *context.joints.taken(gradients)
