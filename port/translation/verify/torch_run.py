"""The original's side of the proof: a run with supplied random numbers."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from port.parity.sides.copies import copied
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.run import Run, numbered
from port.parity.sides.torch_pass import Tensors, torch_pass
from port.parity.sides.torch_side import silence
from port.translation.frontend.drawn_branches import select_drawn_branches
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.frontend.opened_objects import opened
from port.translation.frontend.random_layers import draws_once
from port.translation.verify.checked_classes import checked_classes
from port.translation.verify.draws import torch_draws
from port.weights.torch_arrays import as_numpy

if TYPE_CHECKING:
    import torch
    from torch import nn

OUTPUT, INPUT = "output", "input"
"""Inputs and outputs are named by these and their numbers, in the order of torch's leaves."""


def torch_run(
    module: torch.nn.Module, call: Any, training: bool, seed: int, part: Collection[str] | None = None
) -> Run:
    """Run the original, forward and backward.

    Args:
        module: the original; not modified.
        call: (args, kwargs).
        training: the mode.
        seed: seeds the cotangents and the numbers that both sides draw.
        part: names of the parameters whose gradients are kept; by default all are.

    Returns:
        The run, with ``output 0``, ``input 0`` and so on in the order of torch's leaves.
    """
    import torch
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten(call)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    silenced: tuple[str, ...] = ()

    def called(fresh: nn.Module, inputs: Tensors) -> Tensors:
        nonlocal silenced
        filled = iter(inputs.values())
        args, kwargs = pytree.tree_unflatten(
            [next(filled) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec
        )
        results, silenced = _results(fresh, args, kwargs, seed)
        return numbered(OUTPUT, results)

    fresh, inputs = partial(_fresh, module, training), numbered(INPUT, tensors)
    differentiated = partial(torch_pass, fresh, called, inputs, RandomCotangents(seed), part)
    run = differentiated()
    if run.no_gradient:
        # Perhaps the inputs must not require gradients, as in a module that sets requires_grad itself.
        alone = differentiated(by_inputs=False)
        if alone.cotangents and not alone.no_gradient:
            alone.refused_inputs, run = run.no_gradient, alone
    run.silenced = silenced
    if not run.cotangents and not run.no_gradient:
        run.no_gradient = "no output of the original depends smoothly on anything"
    return run


def _fresh(module: nn.Module, training: bool) -> nn.Module:
    made: nn.Module = copied(module).train(training)
    select_drawn_branches(made, numbers=True)
    return made


def torch_outputs(module: torch.nn.Module, call: Any, training: bool, seed: int) -> list[np.ndarray]:
    """Return the original's outputs, without a backward pass; for the arguments see `torch_run`."""
    import torch

    args, kwargs = call
    with torch.no_grad():
        return [as_numpy(result) for result in _results(_fresh(module, training), args, kwargs, seed)[0]]


def _results(module: nn.Module, args: Any, kwargs: Any, seed: int) -> tuple[list[torch.Tensor], tuple[str, ...]]:
    """Return a module's output tensors, and the layers whose dropout was off."""
    import torch
    from torch.utils import _pytree as pytree

    within, silenced = _silenced(module)
    torch.manual_seed(seed)
    with torch_draws(seed, without_dropout=within), checked_classes():
        results = pytree.tree_leaves(opened(module(*args, **kwargs), objects=False))
    return [leaf for leaf in results if isinstance(leaf, torch.Tensor)], silenced


def _silenced(module: nn.Module) -> tuple[list[nn.Module], tuple[str, ...]]:
    """Switch off dropout inside leaf layers, where the layout of its mask is unknown.

    Returns:
        The leaf layers, in which functional dropouts have to be switched off too, and the names of those that had a
        dropout.
    """
    within, names = [], []
    for path, layer in kept_layers(module).items():
        if not draws_once(layer):
            within.append(layer)
            had_any = [silence(inner) for inner in layer.modules()]
            names += [path] if any(had_any) else []
    return within, tuple(names)
