"""`port.to_flax` and `port.to_torch`: convert a model's weights to the other framework, in memory."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import WeightsMismatch
from port.extras import naming_extras
from port.mapping.torch_guide import unwrapped
from port.weights.driver import find
from port.weights.options import Options, Rename, Shapes
from port.weights.sources import is_nnx, is_torch, opened

if TYPE_CHECKING:
    import torch

Variables = dict[str, Any]


def to_flax(
    source: Any, *, target: Any = None, rename: Rename = None, fold: Shapes | None = None, inputs: Any = None
) -> Variables:
    """Convert a torch model's weights to Flax variables.

    Args:
        source: a torch module, its state dict, or a checkpoint file.
        target: the Flax model that they are for: an nnx module, a Linen module (with ``inputs``), or its variables;
            by default the twins of the module's layers, under torch's names. Required for a state dict or a file.
        rename: where names differ: see `port.mapping.between`; or the mapping itself.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        inputs: an example input of a Linen module, or a tuple of its arguments.

    Returns:
        ``{"params": {…}, "batch_stats": {…}, …}``, nested dicts of numpy arrays in the source's dtypes, bit for bit
        (a jax array would lose a float64's last bits unless ``jax_enable_x64`` is set). What has no place in Flax
        (``num_batches_tracked`` with flax's own BatchNorm) is under ``"torch_only"``, for the way back. The
        `port.nn.Frozen` variables of ``target`` are under ``"Frozen"``; without a target, frozen parameters are under
        ``"params"`` like all others, and `port.to_optax` does not change them.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message.
        NoPair: layers that no pair covers.
        BrokenWeights: a file cannot be read.
    """
    options = Options(torch=source if is_torch(source) else None, flax=target, rename=rename, fold=fold, inputs=inputs)
    variables: Variables = {}
    with opened(source) as tensors:
        for entry, arrays in find(tensors, options).carried():
            for path, array in zip(entry.targets, arrays, strict=True):
                _put(variables, (entry.collection, *path.split(".")), array)
    return variables


@naming_extras("port.to_torch")
def to_torch(
    source: Any,
    *,
    like: Any = None,
    model: Any = None,
    rename: Rename = None,
    fold: Shapes | None = None,
    inputs: Any = None,
) -> dict[str, torch.Tensor]:
    """Convert a Flax model's weights to a torch state dict.

    Args:
        source: an nnx module, a tree of variables, or a file of them; a file from `port convert` or `port translate`
            stores how it is read, and needs none of the rest.
        like: the torch module that they are for; the result then loads there with ``strict=True``. What has no place in
            the Flax model is copied from it.
        model: the Flax module that a tree of variables belongs to, if there is no ``like``, or if it leaves two
            readings.
        rename: where names differ: from torch's names to Flax's, as for `to_flax`; or the mapping itself.
        fold: as for `to_flax`.
        inputs: an example input of a Linen ``model``.

    Returns:
        torch's keys → tensors, in the source's dtypes; integers in those of ``like``. A state dict does not store what
        is trained: loading it does not change each parameter's ``requires_grad``.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message; or a tensor that does not
            come back as it was converted.
        NoPair: layers that no pair covers.
        UsageError: a tree of variables, and nothing that determines its layout; a model that is not the file's.
    """
    from port.weights.torch_arrays import as_torch

    module = source if is_nnx(source) else model
    options = Options(torch=like, flax=module, rename=rename, fold=fold, inputs=inputs, reverse=True)
    with opened(source) as tensors:
        found = find(tensors, options)
        state = {
            key: as_torch(array)
            for entry, arrays in found.carried(found.accounts())
            for key, array in zip(entry.targets, arrays, strict=True)
        }
    for remark in found.changed():
        warnings.warn(remark, stacklevel=2)
    return state if like is None else _as_in(like, state)


def _as_in(module: torch.nn.Module, state: dict[str, torch.Tensor]) -> dict[str, Any]:
    """A state dict with a module's keys, in its order, with integers in the module's dtypes."""
    from port.weights.torch import with_versions

    module = unwrapped(module)
    own = module.state_dict()
    if strange := sorted(set(state) - set(own)):
        raise WeightsMismatch(f"the torch module has no {', '.join(strange)}")
    result = {}
    for key, value in own.items():
        if key not in state:
            # Without a place in Flax, or not a tensor.
            result[key] = value.clone() if hasattr(value, "clone") else value
        else:
            found = state[key]
            result[key] = found if found.is_floating_point() or found.is_complex() else found.to(value.dtype)
    return with_versions(result, module)


def _put(variables: Variables, path: tuple[str, ...], array: np.ndarray) -> None:
    *above, name = path
    for part in above:
        variables = variables.setdefault(part, {})
    variables[name] = array
