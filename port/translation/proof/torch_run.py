"""torch's side of the proof: one run of the original, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from port.parity.copies import copied
from port.parity.torch_side import silence
from port.translation.drawing import draws_once
from port.translation.keeping import kept_layers
from port.translation.proof.draws import torch_draws
from port.translation.proof.run import Run

if TYPE_CHECKING:
    import torch

_CONSTANT = "is not differentiable with respect to argument"


def torch_run(module: torch.nn.Module, given: Any, training: bool, seed: int) -> Run:
    """Run the original.

    Args:
        module: stays as it is.
        given: (args, kwargs).
        training: the mode.
        seed: of all that is drawn: the cotangents, and the numbers that both sides draw.
    """
    from torch.utils import _pytree as pytree

    def run(by: Callable[[int], bool]) -> Run:
        return _differentiated(module, given, training, seed, by)

    try:
        return run(lambda number: True)
    except RuntimeError as error:  # NotImplementedError is one
        if _CONSTANT not in str(error):
            return _not_differentiated(module, given, training, seed, error)

    def smooth(number: int) -> bool:
        """Whether torch differentiates by this input, if by no other one."""
        try:
            run(lambda other: other == number)
        except RuntimeError as error:
            if _CONSTANT not in str(error):
                raise
            return False
        return True

    by = {number for number in range(len(pytree.tree_leaves(tuple(given)))) if smooth(number)}
    return run(by.__contains__)


def _not_differentiated(module: Any, given: Any, training: bool, seed: int, error: RuntimeError) -> Run:
    """The run of what torch itself cannot differentiate: an operator without a derivative, a change in place.

    Raises:
        RuntimeError: it does not run without gradients either.
    """
    without = copied(module).requires_grad_(False)
    try:
        run = _differentiated(without, given, training, seed, lambda number: False)
    except Exception:
        raise error from None
    run.no_gradient = _first_line(error)
    run.trained = _trained(module)
    # Nothing was trained in this run: its parameters are no buffers for that.
    run.buffers = {name: array for name, array in run.buffers.items() if not run.trained.get(name)}
    return run


def _differentiated(module: Any, given: Any, training: bool, seed: int, by: Callable[[int], bool]) -> Run:
    """The run with the gradients by the inputs of these numbers, among the leaves."""
    import torch
    from torch.utils import _pytree as pytree

    from port.weights.torch import as_numpy

    module = copied(module).train(training)
    leaves, spec = pytree.tree_flatten(given)
    taken = []
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().clone()
            leaf.requires_grad_((leaf.is_floating_point() or leaf.is_complex()) and by(number))
        taken.append(leaf)
    args, kwargs = pytree.tree_unflatten(
        [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in taken], spec
    )
    results, silenced = _results(module, args, kwargs, seed)
    cotangents, total = _total(results, seed)
    no_gradient = "" if total is not None else "no output of the original depends smoothly on anything"
    if total is not None:
        try:
            total.backward()
        except RuntimeError as error:
            # torch itself has no gradient there: nothing to compare with.
            no_gradient = _first_line(error)
            cotangents = [None] * len(results)
    named = dict(module.named_parameters(remove_duplicate=False))
    gradients = {name: as_numpy(_gradient(p)) for name, p in named.items() if p.requires_grad}
    tensors = [leaf for leaf in taken if isinstance(leaf, torch.Tensor)]
    into = {f"input {number}": as_numpy(_gradient(leaf)) for number, leaf in enumerate(tensors) if leaf.requires_grad}
    kept = {**dict(module.named_buffers()), **{name: p.detach() for name, p in named.items() if not p.requires_grad}}
    buffers = {name: as_numpy(tensor) for name, tensor in kept.items()}
    return Run(_arrays(results), cotangents, gradients, into, buffers, _trained(module), no_gradient, silenced)


def _trained(module: Any) -> dict[str, bool]:
    return {name: p.requires_grad for name, p in module.named_parameters(remove_duplicate=False)}


def torch_outputs(module: torch.nn.Module, given: Any, training: bool, seed: int) -> list[np.ndarray]:
    """What the original gives, forward alone; arguments as of `torch_run`."""
    import torch

    args, kwargs = given
    with torch.no_grad():
        return _arrays(_results(copied(module).train(training), args, kwargs, seed)[0])


def _results(module: Any, args: Any, kwargs: Any, seed: int) -> tuple[list[Any], tuple[str, ...]]:
    """The tensors that a module gives, and the layers whose dropout was off."""
    import torch
    from torch.utils import _pytree as pytree

    within, silenced = _silenced(module)
    torch.manual_seed(seed)
    with torch_draws(seed, without_dropout=within):
        results = [leaf for leaf in pytree.tree_leaves(module(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
    return results, silenced


def _arrays(results: list[Any]) -> list[np.ndarray]:
    from port.weights.torch import as_numpy

    return [as_numpy(result.detach().resolve_conj().resolve_neg()) for result in results]


def _silenced(module: Any) -> tuple[list[Any], tuple[str, ...]]:
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


def _total(results: list[Any], seed: int) -> tuple[list[np.ndarray | None], Any]:
    """Random cotangents, and the sum of the results times them; None where nothing can be differentiated."""
    import torch

    from port.weights.torch import as_numpy

    generator = torch.Generator().manual_seed(seed)
    cotangents: list[np.ndarray | None] = []
    total = None
    for result in results:
        if not (result.is_floating_point() or result.is_complex()) or not result.requires_grad:
            cotangents.append(None)
            continue
        cotangent = torch.randn(result.shape, generator=generator, dtype=torch.float64).to(result.dtype)
        cotangents.append(as_numpy(cotangent))
        term = (
            (result * cotangent).sum()
            if not result.is_complex()
            else (torch.view_as_real(result.resolve_conj()).sum(-1) * cotangent.real).sum()
        )
        total = term if total is None else total + term
    return cotangents, total


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's gradient; zeros where it has none, or one that torch knows to be zero and keeps without numbers."""
    gradient = tensor.grad
    if gradient is None or gradient._is_zerotensor():
        import torch

        return torch.zeros_like(tensor)
    # That of an embedding with `sparse=True` has only the rows that were looked up.
    return gradient.to_dense() if gradient.is_sparse else gradient


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
