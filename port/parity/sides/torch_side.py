"""torch's side: a copy of the model, its layers' inputs and outputs, and its gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from port.errors import UsageError, explained
from port.mapping.torch_guide import torch_guide, unwrapped
from port.parity.sides.calls import Arrays, RecordedCall
from port.parity.sides.copies import copied
from port.parity.sides.cost import Cost, cost_of
from port.parity.sides.inputs import Inputs
from port.parity.sides.moved import moved
from port.parity.sides.precision import default_dtype
from port.parity.sides.run import Cotangents, Run
from port.parity.sides.structure import leaves, rebuilt
from port.parity.sides.torch_pass import Tensors, torch_pass
from port.weights.torch import arrays_of
from port.weights.torch_arrays import as_numpy, as_torch

_RANDOM = (nn.modules.dropout._DropoutNd, nn.RReLU)


class TorchSide:
    """A copy of a torch model in one precision, on the CPU, without randomness.

    Args:
        module: the model; it is not changed.
        precision: the dtype's name that the copy is cast to.

    Raises:
        UsageError: the model cannot be copied.

    Attributes:
        guide: its layers and tensors.
        precision: the dtype's name.
        weights: its state dict, in the original dtypes.
        modules: the copy's modules by path.
        silenced: layers with active dropout in training mode; it is off in the copy.
        frozen: names of the parameters that are not trained; in the copy they have gradients.
    """

    def __init__(self, module: nn.Module, precision: str) -> None:
        module = unwrapped(module)
        self.guide = torch_guide(module)
        self.weights = arrays_of(module)
        self.precision = precision
        try:
            self._module = copied(module, lambda tensor: _cast(tensor.cpu(), getattr(torch, precision)))
        except Exception as error:
            raise UsageError(f"the torch model cannot be copied: {type(error).__name__}: {error}") from error
        self.modules = dict(self._module.named_modules())
        named = self._module.named_parameters(remove_duplicate=False)
        self.frozen = frozenset(name for name, parameter in named if not parameter.requires_grad)
        for parameter in self._module.parameters():
            parameter.grad = None
            parameter.requires_grad_(parameter.is_floating_point())
        self.silenced = tuple(path for path, layer in self.modules.items() if silence(layer))

    def run(
        self,
        inputs: Inputs,
        cotangents: Cotangents | None,
        *,
        training: bool,
        loss: Any = None,
        part: Collection[str] | None = None,
    ) -> Run:
        """Run a fresh copy forward and backward; without cotangents, only forward.

        Gradients are kept for some parameters, selected by name; by default for all.

        Raises:
            UsageError: the model does not take the inputs; quotes its error.
        """
        calls: list[RecordedCall] = []

        def fresh() -> nn.Module:
            module = self.fresh(training)
            calls[:] = []
            _watch(module, calls)
            return module

        def call(module: nn.Module, tensors: Tensors) -> Tensors:
            output = _called(module, rebuilt(inputs.tree, lambda name, _: tensors[name]))
            if loss is None:
                return leaves(output)
            with explained("the loss does not take the torch model's output"):
                return {"loss": loss(output)}

        with self._alone(inputs):
            run = torch_pass(fresh, call, leaves(self.tensors(inputs)), cotangents, part)
        run.calls = calls
        return run

    @property
    def parameter_sizes(self) -> dict[str, int]:
        """Return the parameters' sizes in bytes, a tied one under each of its names."""
        return {name: tensor.nbytes for name, tensor in self._module.named_parameters(remove_duplicate=False)}

    def moved(self, inputs: Inputs, seed: int) -> tuple[TorchSide, Inputs]:
        """Return the side and inputs with their numbers moved in their last places, for a control."""
        other = copy(self)
        other._module, (args, kwargs) = moved(self._module, (inputs.args, inputs.kwargs), seed)
        return other, Inputs(args, kwargs)

    def cost(self, inputs: Inputs) -> Cost:
        """Return the cost of a forward pass with these inputs."""
        *args, kwargs = self.tensors(inputs)
        return cost_of(self._module, (args, kwargs))

    def is_random(self, inputs: Inputs) -> bool:
        """Whether two runs in training mode differ: something other than dropout layers draws random numbers."""
        with self._alone(inputs):
            first, second = (leaves(_called(self.fresh(training=True), self.tensors(inputs))) for _ in range(2))
        return any(not torch.equal(first[name].nan_to_num(), second[name].nan_to_num()) for name in first)

    def narrowed(self, inputs: Inputs) -> bool:
        """Whether the model computes in float32 on the way, as a softmax with an explicit dtype does."""
        seen = _Narrowing()
        with torch.no_grad(), seen:
            self._forward(self.fresh(False), inputs)
        return seen.found

    def widened(self, inputs: Inputs) -> bool:
        """Whether the model brings in float32 numbers, such as a table of sines that it computes."""
        seen = _Narrowing()
        with torch.no_grad(), seen:
            self._forward(self.fresh(False), inputs)
        return seen.widened

    def buffers_after(self, inputs: Inputs, steps: int) -> Arrays:
        """Return the state dict after some forward passes in training mode."""
        module = self.fresh(training=True)
        for _ in range(steps):
            self._forward(module, inputs)
        return arrays_of(module)

    def outputs_with(self, weights: Mapping[str, float], inputs: Inputs, *, training: bool) -> Arrays:
        """Return the outputs if each of these tensors is filled with one number."""
        module = self.fresh(training)
        named = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
        with torch.no_grad():
            for name, number in weights.items():
                named[name].fill_(number)
            return {name: as_numpy(leaf) for name, leaf in leaves(self._forward(module, inputs)).items()}

    def run_layer(self, call: RecordedCall, *, training: bool) -> Run:
        """Run one layer alone, as it was called in a run, and pull that call's cotangents back."""

        def fresh() -> nn.Module:
            layer = copied(self.modules[call.path])
            _set_mode(layer, training)
            return layer

        def called(layer: nn.Module, tensors: Tensors) -> Tensors:
            *args, kwargs = rebuilt((*call.args, call.kwargs), lambda name, _: tensors[name])
            return leaves(layer(*args, **kwargs))

        with self.in_precision():
            return torch_pass(fresh, called, leaves((*call.args, call.kwargs)), lambda outputs: call.cotangents)

    def fresh(self, training: bool) -> nn.Module:
        """Return a copy of the copy, set to a mode."""
        module = copied(self._module)
        _set_mode(module, training)
        return module

    def _forward(self, module: nn.Module, inputs: Inputs) -> Any:
        with self._alone(inputs):
            return _called(module, self.tensors(inputs))

    def tensors(self, inputs: Inputs) -> tuple[Any, ...]:
        """Return the inputs as new tensors: positional arguments, with the dict of keyword arguments last."""
        return rebuilt(inputs.tree, lambda name, array: as_torch(array))

    @contextmanager
    def _alone(self, inputs: Inputs) -> Iterator[None]:
        """Run the model in this context: the caller's random state is restored, and errors name the inputs."""
        with (
            explained(f"the torch model does not take the inputs ({inputs.described})"),
            torch.random.fork_rng(devices=[]),
            self.in_precision(),
        ):
            yield

    def in_precision(self) -> AbstractContextManager[None]:
        """Make tensors without a dtype, such as the model's masks, in the copy's precision in this context.

        The lowest float64, used to fill masks, does not fit into float32.
        """
        return default_dtype(self.precision)


def _called(module: nn.Module, arguments: tuple[Any, ...]) -> Any:
    *args, kwargs = arguments
    return module(*args, **kwargs)


_NARROW = (torch.float32, torch.float16, torch.bfloat16)


class _Narrowing(TorchDispatchMode):
    """Detect operators that narrow float64 to another floating dtype, or widen fractions from such a dtype."""

    found = False
    widened = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        operands, results = leaves((args, kwargs or {})).values(), leaves(output).values()
        if any(tensor.dtype == torch.float64 for tensor in operands):
            self.found |= any(t.dtype in _NARROW for t in results)
        if not self.widened and any(tensor.dtype == torch.float64 for tensor in results):
            # Integers, as in masks, are equal in any dtype.
            self.widened = any(t.dtype in _NARROW and bool((t != t.round()).any()) for t in operands)
        return output


def _watch(module: nn.Module, finished: list[RecordedCall]) -> None:
    """Record every finished call of every layer beneath a model."""
    running: list[RecordedCall] = []
    counts: dict[str, int] = {}

    def before(path: str, layer: nn.Module, args: Any, kwargs: Any) -> None:
        number = counts[path] = counts.get(path, -1) + 1
        # Copies: a later layer may change its input in place.
        *positional, named = rebuilt((*args, kwargs), lambda name, tensor: tensor.detach().clone())
        running.append(RecordedCall(path, number, tuple(positional), named))

    def after(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        call = running.pop()
        call.output = rebuilt(output, lambda name, tensor: tensor.detach().clone())
        for name, tensor in leaves(output).items():
            if tensor.requires_grad:
                tensor.register_hook(partial(_arrived, call, name))
        finished.append(call)

    for path, layer in module.named_modules():
        if path:
            layer.register_forward_pre_hook(partial(before, path), with_kwargs=True)
            layer.register_forward_hook(after, with_kwargs=True)


def _arrived(call: RecordedCall, name: str, gradient: torch.Tensor) -> None:
    call.cotangents[name] = as_numpy(gradient)


def _set_mode(module: nn.Module, training: bool) -> None:
    module.train(training)
    for layer in module.modules():
        if isinstance(layer, _RANDOM):
            layer.eval()


def silence(layer: Any) -> bool:
    """Turn off a layer's dropout, and return whether it was on."""
    kind = f"{type(layer).__module__}.{type(layer).__qualname__}"
    if isinstance(layer, nn.RReLU):
        return layer.lower != layer.upper
    if isinstance(layer, nn.modules.dropout._DropoutNd) or kind == "torchvision.ops.stochastic_depth.StochasticDepth":
        rate, layer.p = layer.p, 0.0
        return bool(rate)
    if isinstance(layer, nn.MultiheadAttention | nn.RNNBase):
        rate, layer.dropout = layer.dropout, 0.0
        return bool(rate)
    return False


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Cast as ``module.to`` does: floating tensors, not integers."""
    return tensor.to(dtype) if tensor.is_floating_point() or tensor.is_complex() else tensor
