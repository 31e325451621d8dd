"""One forward and backward pass of a torch module, also of one that torch cannot differentiate, or only in part."""

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
    """Run a module forward and backward; or forward alone.

    Where torch has no gradient, as behind an operator without a derivative, or for a change in place of what the
    backward pass needs, the run says so in ``no_gradient``, and has the outputs alone.

    Args:
        fresh: gives a copy of the module, in its mode; asked for each attempt.
        call: the module, and tensors of its own by the inputs' names → its output tensors by name.
        inputs: stay as they are.
        cotangents: from the outputs to what is pulled back through each; None of a run that is forward alone.
        part: names of the parameters whose gradients are kept, all by default; the others' are let go as they come.
        by_inputs: whether the inputs have gradients, too.

    Raises:
        Exception: whatever the module raises without gradients, too.
    """
    if cotangents is None:
        with torch.no_grad():
            outputs = call(fresh(), {name: tensor.clone() for name, tensor in inputs.items()})
        return Run({name: as_numpy(tensor) for name, tensor in outputs.items()})

    def run(by: Callable[[str], bool]) -> Run:
        with torch.enable_grad():  # also where the caller has turned gradients off
            return _differentiated(fresh(), call, inputs, cotangents, by, part)

    try:
        return run(lambda name: by_inputs)
    except RuntimeError as error:  # NotImplementedError is one
        if _CONSTANT not in str(error) or not by_inputs:
            return _not_differentiated(fresh, call, inputs, cotangents, error)

    def is_smooth(name: str) -> bool:
        """Whether torch differentiates by this input, if by no other one."""
        try:
            run(name.__eq__)
        except RuntimeError as error:
            if _CONSTANT not in str(error):
                raise
            return False
        return True

    return run({name for name in inputs if is_smooth(name)}.__contains__)


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's gradient; zeros where it has none, or one that torch knows to be zero and keeps without numbers."""
    gradient = tensor.grad
    if gradient is None or gradient._is_zerotensor():
        return torch.zeros_like(tensor)
    # That of an embedding with `sparse=True` has only the rows that were looked up.
    return gradient.to_dense() if gradient.is_sparse else gradient


def pull_back(outputs: Tensors, wanted: Mapping[str, Any]) -> Tensors:
    """Pull cotangents back through the outputs that have a gradient; gives those that were."""
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
    """The run with the gradients by the inputs of these names."""
    leaves = {name: tensor.detach().clone() for name, tensor in inputs.items()}
    for name, leaf in leaves.items():
        leaf.requires_grad_((leaf.is_floating_point() or leaf.is_complex()) and by(name))
    # Clones: a leaf may not be changed in place, as ReLU(inplace=True) does.
    outputs = call(module, {name: leaf.clone() for name, leaf in leaves.items()})
    named = dict(module.named_parameters(remove_duplicate=False))
    kept_in = set(named) if part is None else set(part)
    run = Run({name: as_numpy(tensor) for name, tensor in outputs.items()}, let_go=_let_go(named, kept_in))
    try:
        pulled = pull_back(outputs, cotangents(run.outputs))
        run.cotangents = {name: as_numpy(tensor) for name, tensor in pulled.items()}
    except RuntimeError as error:
        # torch itself has no gradient there: nothing to compare with.
        run.no_gradient = _first_line(error)
    run.trained = _trained(module)
    run.gradients = {name: as_numpy(gradient_of(p)) for name, p in named.items() if p.requires_grad and name in kept_in}
    run.input_gradients = {name: as_numpy(gradient_of(leaf)) for name, leaf in leaves.items() if leaf.requires_grad}
    kept = {**dict(module.named_buffers()), **{name: p for name, p in named.items() if not p.requires_grad}}
    run.buffers = {name: as_numpy(tensor) for name, tensor in kept.items()}
    return run


def _let_go(named: Mapping[str, nn.Parameter], kept: Collection[str]) -> Arrays:
    """Let the gradients of all parameters but some go as soon as they are there; their largest magnitudes come here."""
    sizes: Arrays = {}
    stay = {id(named[name]) for name in kept if name in named}

    def arrived(name: str, parameter: torch.Tensor) -> None:
        # More than once where a part of the backward pass is one of its own, as in torch's reentrant checkpoints.
        before = float(sizes.get(name, 0.0))
        sizes[name] = np.array(max(before, largest({name: as_numpy(gradient_of(parameter))})))
        parameter.grad = None

    for name, parameter in named.items():
        if parameter.requires_grad and parameter.is_leaf and id(parameter) not in stay:
            parameter.register_post_accumulate_grad_hook(partial(arrived, name))
            stay.add(id(parameter))
    return sizes


def _not_differentiated(fresh: Any, call: Any, inputs: Any, cotangents: Cotangents, error: RuntimeError) -> Run:
    """The run of what torch itself cannot differentiate: an operator without a derivative, a change in place.

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
    # Nothing was trained in this run: its parameters are no buffers for that.
    run.buffers = {name: array for name, array in run.buffers.items() if not trained.get(name)}
    return run


def _trained(module: nn.Module) -> dict[str, bool]:
    return {name: p.requires_grad for name, p in module.named_parameters(remove_duplicate=False)}


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
