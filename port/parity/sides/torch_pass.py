"""One forward and backward pass of a torch module, also if torch can differentiate it only in part or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from port.parity.sides.calls import Arrays, largest
from port.parity.sides.run import Cotangents, Run
from port.weights.torch_arrays import as_numpy, as_torch

Tensors = dict[str, torch.Tensor]
_CONSTANT = "is not differentiable with respect to argument"


def torch_pass(
    fresh: Callable[[], nn.Module],
    call: Callable[[nn.Module, Tensors], Tensors],
    inputs: Mapping[str, torch.Tensor],
    cotangents: Cotangents | None,
    part: Collection[str] | None = None,
    *,
    by_inputs: bool = True,
) -> Run:
    """Run a module forward and backward, or only forward.

    If torch has no gradient, as after an operator without a derivative, or after an in-place change of a value that the
    backward pass needs, ``no_gradient`` of the run gives the reason, and the run has only outputs.

    Args:
        fresh: returns a copy of the module in its mode; called for each attempt.
        call: the module, and fresh tensors by the inputs' names → its output tensors by name.
        inputs: the inputs; they are not changed.
        cotangents: outputs → the cotangent of each; None to run only forward.
        part: names of the parameters whose gradients are kept, by default all; the others' are freed as they arrive.
        by_inputs: whether to take the inputs' gradients too.

    Raises:
        Exception: whatever the module raises, also without gradients.
    """
    if cotangents is None:
        with torch.no_grad():
            outputs = call(fresh(), {name: tensor.clone() for name, tensor in inputs.items()})
        return Run({name: as_numpy(tensor) for name, tensor in outputs.items()})

    def run(by: Callable[[str], bool]) -> Run:
        with torch.enable_grad():  # also if the caller has disabled gradients
            return _differentiated(fresh(), call, inputs, cotangents, by, part)

    try:
        return run(lambda name: by_inputs)
    except RuntimeError as error:  # NotImplementedError is one
        if _CONSTANT not in str(error) or not by_inputs:
            return _not_differentiated(fresh, call, inputs, cotangents, error)

    def is_smooth(name: str) -> bool:
        """Whether torch differentiates with respect to this input alone."""
        try:
            run(name.__eq__)
        except RuntimeError as error:
            if _CONSTANT not in str(error):
                raise
            return False
        return True

    return run({name for name in inputs if is_smooth(name)}.__contains__)


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's gradient; zeros if it has none, or if torch stores a zero gradient without values."""
    gradient = tensor.grad
    if gradient is None or gradient._is_zerotensor():
        return torch.zeros_like(tensor)
    # The gradient of an embedding with `sparse=True` has only the rows that were looked up.
    return gradient.to_dense() if gradient.is_sparse else gradient


def pull_back(outputs: Tensors, wanted: Mapping[str, Any]) -> Tensors:
    """Pull cotangents back through the outputs that have a gradient, and return those outputs' cotangents."""
    pulled = {
        name: as_torch(wanted[name]).to(tensor.dtype)
        for name, tensor in outputs.items()
        if name in wanted and tensor.requires_grad
    }
    if pulled:
        torch.autograd.backward([outputs[name] for name in pulled], list(pulled.values()))
    return pulled


def _differentiated(
    module: nn.Module,
    call: Any,
    inputs: Mapping[str, torch.Tensor],
    cotangents: Cotangents,
    by: Callable[[str], bool],
    part: Collection[str] | None = None,
) -> Run:
    """Run with the gradients of the named inputs."""
    leaves = {name: tensor.detach().clone() for name, tensor in inputs.items()}
    for name, leaf in leaves.items():
        leaf.requires_grad_((leaf.is_floating_point() or leaf.is_complex()) and by(name))
    # Clones: a leaf cannot be changed in place, as ReLU(inplace=True) would.
    outputs = call(module, {name: leaf.clone() for name, leaf in leaves.items()})
    named = dict(module.named_parameters(remove_duplicate=False))
    kept_in = set(named) if part is None else set(part)
    run = Run({name: as_numpy(tensor) for name, tensor in outputs.items()}, let_go=_let_go(named, kept_in))
    try:
        pulled = pull_back(outputs, cotangents(run.outputs))
        run.cotangents = {name: as_numpy(tensor) for name, tensor in pulled.items()}
    except RuntimeError as error:
        # torch has no gradient there, so there is nothing to compare.
        run.no_gradient = _first_line(error)
    run.trained = _trained(module)
    run.gradients = {name: as_numpy(gradient_of(p)) for name, p in named.items() if p.requires_grad and name in kept_in}
    run.input_gradients = {name: as_numpy(gradient_of(leaf)) for name, leaf in leaves.items() if leaf.requires_grad}
    kept = {**dict(module.named_buffers()), **{name: p for name, p in named.items() if not p.requires_grad}}
    run.buffers = {name: as_numpy(tensor) for name, tensor in kept.items()}
    return run


def _let_go(named: Mapping[str, nn.Parameter], kept: Collection[str]) -> Arrays:
    """Free the gradients of all parameters but some as they arrive, and record their largest magnitudes."""
    sizes: Arrays = {}
    stay = {id(named[name]) for name in kept if name in named}

    def arrived(name: str, parameter: torch.Tensor) -> None:
        # A nested backward pass, as in torch's reentrant checkpoints, calls this several times.
        before = float(sizes.get(name, 0.0))
        sizes[name] = np.array(max(before, largest({name: as_numpy(gradient_of(parameter))})))
        parameter.grad = None

    for name, parameter in named.items():
        if parameter.requires_grad and parameter.is_leaf and id(parameter) not in stay:
            parameter.register_post_accumulate_grad_hook(partial(arrived, name))
            stay.add(id(parameter))
    return sizes


def _not_differentiated(fresh: Any, call: Any, inputs: Any, cotangents: Cotangents, error: RuntimeError) -> Run:
    """Run what torch cannot differentiate: an operator without a derivative, or a change in place.

    Raises:
        RuntimeError: it does not run without gradients either.
    """
    module = fresh()
    trained = _trained(module)
    try:
        run = _differentiated(module.requires_grad_(False), call, inputs, cotangents, lambda name: False)
    except Exception:
        raise error from None
    run.no_gradient, run.trained = _first_line(error), trained
    # This run trains nothing, but its parameters are not buffers because of that.
    run.buffers = {name: array for name, array in run.buffers.items() if not trained.get(name)}
    return run


def _trained(module: nn.Module) -> dict[str, bool]:
    return {name: p.requires_grad for name, p in module.named_parameters(remove_duplicate=False)}


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
