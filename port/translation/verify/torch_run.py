"""The original's side of the proof: one run of a torch module that draws the numbers of a seed."""

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
from port.translation.verify.draws import torch_draws
from port.weights.torch_arrays import as_numpy

if TYPE_CHECKING:
    import torch
    from torch import nn

OUTPUT, INPUT = "output", "input"
"""Tensors that go in and come out are called by these and their numbers, in the order of torch's leaves."""


def torch_run(
    module: torch.nn.Module, given: Any, training: bool, seed: int, part: Collection[str] | None = None
) -> Run:
    """Run the original, forward and backward.

    Args:
        module: stays as it is.
        given: (args, kwargs).
        training: the mode.
        seed: of all that is drawn: the cotangents, and the numbers that both sides draw.
        part: names of the parameters whose gradients are kept; by default all are.

    Returns:
        the run: ``output 0``, ``input 0`` and so on in the order of torch's leaves.
    """
    import torch
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten(given)
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
        # It may be the inputs that must not need one, as of a module that says itself what needs a gradient.
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


def torch_outputs(module: torch.nn.Module, given: Any, training: bool, seed: int) -> list[np.ndarray]:
    """What the original gives, forward alone; arguments as of `torch_run`."""
    import torch

    args, kwargs = given
    with torch.no_grad():
        return [as_numpy(result) for result in _results(_fresh(module, training), args, kwargs, seed)[0]]


def _results(module: nn.Module, args: Any, kwargs: Any, seed: int) -> tuple[list[torch.Tensor], tuple[str, ...]]:
    """The tensors that a module gives, and the layers whose dropout was off."""
    import torch
    from torch.utils import _pytree as pytree

    within, silenced = _silenced(module)
    torch.manual_seed(seed)
    with torch_draws(seed, without_dropout=within):
        results = pytree.tree_leaves(opened(module(*args, **kwargs), objects=False))
    return [leaf for leaf in results if isinstance(leaf, torch.Tensor)], silenced


def _silenced(module: nn.Module) -> tuple[list[nn.Module], tuple[str, ...]]:
    """Switch off dropout deep inside layers that are kept whole, where its mask's layout is the layer's own business.

    Returns:
        those layers, within whose code functional dropouts are to be switched off, too; and the names of those that had
        any.
    """
    within, names = [], []
    for path, layer in kept_layers(module).items():
        if not draws_once(layer):
            within.append(layer)
            had_any = [silence(inner) for inner in layer.modules()]
            names += [path] if any(had_any) else []
    return within, tuple(names)
