"""Converts torch's AveragedModel, SWA or EMA, in the middle of a run: to `port.transforms`, and back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError, WeightsMismatch, described
from port.mapping import FROZEN, TORCH_ONLY, Entry, Mapping
from port.mapping.entry import gather
from port.mapping.torch_guide import unwrapped
from port.transforms import TorchAverageState
from port.transforms.paths import path_of
from port.weights.sources import opened

if TYPE_CHECKING:
    from torch.optim.swa_utils import AveragedModel


def averaged_state(averaged_model: AveragedModel, *, params: Any, mapping: Mapping) -> TorchAverageState:
    """Convert an AveragedModel to the state that `swa_average` or `ema_average` continues from.

    ::

        state = port.optim.averaged_state(averaged_model, params=params, mapping=mapping)
        average = port.transforms.ema_average(0.999)  # torch's avg_fn is not part of its state
        state = average.update(params, state)  # after each optimizer step

    Without ``use_buffers`` torch does not average the buffers (running statistics), but copies the model's at every
    update: in JAX they belong to the model, and are not part of the average.

    Args:
        averaged_model: torch's AveragedModel, at any step of a run.
        params: the tree that is averaged in JAX: the Flax parameters (a tree of arrays, an `nnx.State`, or variables
            with them under ``params``); with ``use_buffers=True`` also the running statistics, in the same `nnx.State`
            or under ``batch_stats``. Their values do not matter.
        mapping: from torch's names to the Flax paths, as `port.mapping.between` makes it of the model itself.

    Returns:
        The average like ``params``, in their dtypes; ``n_averaged`` in int32.

    Raises:
        UsageError: not an AveragedModel; buffers that only one side averages.
        WeightsMismatch: an average of another model: everything missing, unexpected or mis-shaped, in one message.
    """
    averaged = _averaged_model(averaged_model)
    carried = _carried(averaged, params, mapping)
    with opened(averaged.module) as held:
        leaves = carried({name: held[name] for entry in carried.entries for name in entry.sources})
    average = jax.tree_util.tree_map_with_path(lambda keys, old: jnp.asarray(leaves[path_of(keys)], old.dtype), params)
    return TorchAverageState(jnp.asarray(int(averaged.n_averaged), jnp.int32), average)


def load_averaged_model(averaged_model: AveragedModel, state: TorchAverageState, *, mapping: Mapping) -> None:
    """Fill an AveragedModel with an average made in JAX, in place, keeping each tensor's dtype.

    What is not averaged is not changed: frozen parameters that the average does not contain; without ``use_buffers``
    the buffers, which torch copies from the model with the next update (before that, copy them yourself or call torch's
    ``update_bn``); ``num_batches_tracked``, if Flax does not have it. Of several tensors that are one sum in Flax, the
    first gets all of it.

    Args:
        averaged_model: torch's AveragedModel, of the same model.
        state: the average, as `averaged_state` makes it.
        mapping: from torch's names to the Flax paths, as `port.mapping.between` makes it of the model itself.

    Raises:
        UsageError: not an AveragedModel, not a `TorchAverageState`; buffers that only one side averages.
        WeightsMismatch: an average of another model: everything missing, unexpected or mis-shaped, in one message. The
            AveragedModel is not changed in this case.
    """
    from port.weights.torch import fill

    averaged = _averaged_model(averaged_model)
    if not isinstance(state, TorchAverageState):
        raise UsageError(
            f"expected a port.transforms.TorchAverageState, got {described(state)}; "
            "one is TorchAverageState(n_averaged, average)"
        )
    count = np.asarray(state.n_averaged)
    if count.shape or count.dtype.kind not in "iu":
        raise WeightsMismatch(f"n_averaged must be one whole number, got {count.dtype} of shape {count.shape}")
    carried = _carried(averaged, state.average, mapping).inverse()
    with opened(averaged.module) as held, opened(carried(_leaves(state.average))) as converted:
        staying = held.renamed({name: name for name in held if name not in converted})
        fill(unwrapped(averaged.module), converted.beside(staying))
    averaged.n_averaged.fill_(int(count))


def _averaged_model(model: Any) -> AveragedModel:
    """Unwrap the AveragedModel from DistributedDataParallel or torch.compile."""
    from torch.optim.swa_utils import AveragedModel

    averaged = unwrapped(model)
    if not isinstance(averaged, AveragedModel):
        raise UsageError(
            f"expected a torch.optim.swa_utils.AveragedModel, got {described(model)}; pass the AveragedModel itself, "
            "not the model in it; port.to_flax converts the weights alone"
        )
    return averaged


def _carried(averaged: AveragedModel, tree: Any, mapping: Mapping) -> Mapping:
    """Map the names of what torch averages to paths in the tree, with each tensor's shape.

    Raises:
        UsageError: buffers that only one side averages.
        WeightsMismatch: the module, or the tree, is of another model.
    """
    leaves = {path: leaf.shape for path, leaf in _leaves(tree).items()}
    entries = [
        entry
        for entry in _placed(mapping, leaves)
        if entry.collection not in (TORCH_ONLY, FROZEN) or not leaves.keys().isdisjoint(entry.targets)
    ]
    buffers = {name for name, _ in unwrapped(averaged.module).named_buffers(remove_duplicate=False)}
    of_buffers = [entry for entry in entries if buffers.intersection(entry.sources)]
    _check_averaged(averaged, of_buffers, leaves)
    staying = {source for entry in mapping.entries for source in entry.sources}
    staying -= {source for entry in entries for source in entry.sources}
    if not averaged.use_buffers:
        entries = [entry for entry in entries if entry not in of_buffers]
        staying |= buffers
    with opened(averaged.module) as held:
        shapes = {name: shape for name, shape in held.shapes.items() if name not in staying}
    carried = Mapping(tuple(entries))
    carried.check(shapes)
    carried = Mapping(tuple(replace(entry, shapes=gather(entry, shapes)) for entry in carried.present(shapes)))
    carried.inverse().check(leaves)
    return carried


def _placed(mapping: Mapping, paths: Collection[str]) -> list[Entry]:
    """The entries with their targets' paths in a tree: variables have them under their collections."""
    known = {target for entry in mapping.entries for target in entry.targets}
    collections = {entry.collection for entry in mapping.entries}
    if known.intersection(paths) or not {path.partition(".")[0] for path in paths} <= collections:
        return list(mapping.entries)
    return [
        replace(entry, targets=tuple(f"{entry.collection}.{target}" for target in entry.targets))
        for entry in mapping.entries
    ]


def _check_averaged(averaged: AveragedModel, of_buffers: list[Entry], paths: Collection[str]) -> None:
    """Raise if only one side averages the buffers."""
    targets = [target for entry in of_buffers for target in entry.targets]
    if not targets or averaged.use_buffers == any(target in paths for target in targets):
        return
    names = ", ".join(source for entry in of_buffers for source in entry.sources)
    if averaged.use_buffers:
        raise UsageError(
            f"the AveragedModel averages its buffers too (use_buffers=True: {names}), but the tree has only "
            "parameters: pass the variables with batch_stats, or nnx.state(model, (nnx.Param, nnx.BatchStat))"
        )
    raise UsageError(
        f"the AveragedModel does not average its buffers (use_buffers=False: {names}), it copies them from the model, "
        "but the tree has them: pass the parameters alone, or make it with use_buffers=True"
    )


def _leaves(tree: Any) -> dict[str, Any]:
    return {path_of(keys): leaf for keys, leaf in jax.tree_util.tree_leaves_with_path(tree)}
