"""`port.to_flax` and `port.to_torch`: a model's weights as the other framework keeps them, in memory."""

from __future__ import annotations

from collections.abc import Mapping as Tree
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError, WeightsMismatch
from port.mapping import TORCH_ONLY, Mapping, Rules, between
from port.mapping.entry import gather
from port.weights.sources import Source, is_nnx, is_torch, opened

if TYPE_CHECKING:
    import torch

Rename = Tree[str, str] | Rules | Mapping | Path | str | None
Shapes = Tree[str, tuple[int, ...]]
Variables = dict[str, Any]


def to_flax(
    source: Any, *, target: Any = None, rename: Rename = None, fold: Shapes | None = None, inputs: Any = None
) -> Variables:
    """A torch model's weights as Flax variables.

    Args:
        source: a torch module, its state dict, or a checkpoint file.
        target: the Flax model that they are for: an nnx module, a Linen module (with ``inputs``), or its variables;
            by default the twins of the module's layers, under torch's names. A state dict or a file needs it.
        rename: where names differ: see `port.mapping.between`; or the mapping itself.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        inputs: an example input of a Linen module, or a tuple of its arguments.

    Returns:
        ``{"params": {…}, "batch_stats": {…}, …}``, nested dicts of numpy arrays in the source's dtypes, bit for bit
        (a jax array would lose a float64's last bits unless ``jax_enable_x64`` is set). What Flax has no home for
        (``num_batches_tracked`` with flax's own BatchNorm) is under ``"torch_only"``, for the way back.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message.
        NoPair: layers that no pair speaks of.
        BrokenWeights: a file that cannot be read.
    """
    with opened(source) as arrays:
        known = source if is_torch(source) else arrays.guide("torch")
        mapping = between(known, target, rename=rename, fold=fold, inputs=inputs)
        mapping.check(arrays.shapes)
        variables: Variables = {}
        for entry in mapping.present(arrays):
            for path, array in zip(entry.targets, entry(gather(entry, arrays)), strict=True):
                _put(variables, (entry.collection, *path.split(".")), array)
    return variables


def to_torch(
    source: Any,
    *,
    like: Any = None,
    model: Any = None,
    rename: Rename = None,
    fold: Shapes | None = None,
    inputs: Any = None,
) -> dict[str, torch.Tensor]:
    """A Flax model's weights as a torch state dict.

    Args:
        source: an nnx module, a tree of variables, or a file of them.
        like: the torch module that they are for; with it the result loads there with ``strict=True``. What the Flax
            model has no home for is taken from it.
        model: the Flax module that a tree of variables belongs to, where there is no ``like``, or with it two readings.
        rename: where names differ: from torch's names to Flax's, as for `to_flax`; or the mapping itself.
        fold: as for `to_flax`.
        inputs: an example input of a Linen ``model``.

    Returns:
        torch's keys → tensors, in the source's dtypes; integers in those of ``like``.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message.
        NoPair: layers that no pair speaks of.
        UsageError: a tree of variables, and nothing that tells its layout.
    """
    with opened(source) as given:
        variables = given.in_collections(lambda collection: collection != TORCH_ONLY)
        kept = given.in_collections(lambda collection: collection == TORCH_ONLY)
        flax = source if is_nnx(source) else model
        if flax is None and like is None and not isinstance(rename, Mapping):
            raise UsageError("variables alone do not tell their layout: give the torch module (like=…) or model=…")
        known = flax if flax is not None else variables.guide("flax")
        mapping = between(like, known, rename=rename, fold=fold, inputs=inputs)
        state = _state_dict(mapping, variables, kept)
    return state if like is None else _as_in(like, state)


def _state_dict(mapping: Mapping, variables: Source, kept: Source) -> dict[str, torch.Tensor]:
    from port.weights.torch import as_torch

    carried = Mapping(tuple(entry for entry in mapping.entries if entry.collection != TORCH_ONLY)).inverse()
    carried.check(variables.shapes)
    state = {
        key: as_torch(array)
        for entry in carried.present(variables)
        for key, array in zip(entry.targets, entry(gather(entry, variables)), strict=True)
    }
    return state | {key: as_torch(kept[key]) for key in kept}


def _as_in(module: torch.nn.Module, state: dict[str, torch.Tensor]) -> dict[str, Any]:
    """A state dict with the keys of a module, in its order, its integers in the module's dtypes."""
    from port.mapping.torch_guide import unwrapped
    from port.weights.torch import with_versions

    module = unwrapped(module)
    own = module.state_dict()
    if strange := sorted(set(state) - set(own)):
        raise WeightsMismatch(f"the torch module has no {', '.join(strange)}")
    result = {}
    for key, value in own.items():
        if key not in state:
            # What Flax has no home for, or no tensor at all.
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
