"""`port.load` and `port.save`: load a torch or an nnx module from files, and save it in torch's names and layouts."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Tree
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError, described
from port.mapping import TORCH_ONLY, Mapping, rules_of
from port.mapping.nnx_guide import nnx_guide
from port.mapping.torch_guide import unwrapped
from port.weights.adapter_files import opened_adapter
from port.weights.adapters import adapted
from port.weights.driver import find, torch_names
from port.weights.files import write_arrays
from port.weights.options import Options, Rename, Shapes
from port.weights.sources import Source, is_nnx, is_torch, opened
from port.weights.variables import to_torch
from port.weights.widening import blocks_said_beside, widened

if TYPE_CHECKING:
    from flax import nnx
    from jax.sharding import Mesh

    from port.weights.placing import PlacedWeights
    from port.weights.shardings import Shardings


def load(
    module: Any,
    source: Path | str | Tree[str, Any] | Any,
    *,
    rename: Rename = None,
    fold: Shapes | None = None,
    key: str | None = None,
    adapter: Path | str | None = None,
    merge: bool = True,
    widen: str | None = None,
    mesh: Mesh | None = None,
    sharding: Shardings = None,
    dtype: str | None = None,
    rngs: nnx.Rngs | None = None,
) -> PlacedWeights | None:
    """Load weights into a module, in place.

    With ``mesh`` or ``sharding`` an nnx module's tensors go directly onto the mesh, one after the other, and each
    process reads no more of the file than its devices need. The module may be abstract (`nnx.eval_shape`).

    Args:
        module: an nnx module (a safetensors file then needs no torch), or a torch module.
        source: a checkpoint file of torch's or Flax's, a state dict of arrays or tensors, a tree of Flax variables, or
            a module. The values are converted to the module's dtypes.
        rename: where names differ, from torch's names to Flax's: see `port.mapping.between`; or the mapping itself.
            A Flax file from `port convert` or `port translate` stores how it goes into a torch module.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        key: the key of the state dict in a training checkpoint, if it has several.
        adapter: a PEFT folder of a LoRA adapter of the model, or the file that `port convert` made from one.
        merge: merge the adapter into the weights, W + scaling · B A. Otherwise it is kept beside an nnx module's linear
            layers, to be trained alone by ``nnx.Optimizer(module, tx, wrt=nnx.LoRAParam)``: a module without `nnx.LoRA`
            gets `port.nn.LoRA` around each layer that the adapter covers.
        mesh: the devices that an nnx module's tensors go to.
        sharding: how they are sharded: a `PartitionSpec` or a `NamedSharding` for all, a function (path, shape) → one,
        a
            table of regular expressions, each with one (the first match of a path counts); by default from the module's
            own variables (``nnx.with_partitioning``, ``out_sharding``), otherwise replicated on every device.
        dtype: on a mesh, the dtype that floating tensors are cast to; by default each keeps the file's dtype.
        widen: the dtype that eight-bit weights are widened to, by the scales beside them (``weight_scale_inv``,
            ``weight_scale``, ``SCB``); by default both are ordinary tensors, and the module has a parameter for each.
        rngs: draws the masks of an adapter's dropout, if it is kept beside and has one.

    Returns:
        What was read and placed, on a mesh; otherwise None.

    Raises:
        BrokenWeights: the file cannot be read.
        UsageError: a mesh for a torch module, or something that is no mesh of devices; a dtype without a mesh.
        WeightsMismatch: missing, unexpected or mis-shaped keys, all in one message, or a tensor that does not come back
            as it was converted; the module is then unchanged.
        NoPair: the module has a layer whose torch twin is not known.
    """
    Options(widen=widen)  # rejects an invalid dtype
    if not merge:
        if adapter is None or not is_nnx(module):
            raise UsageError("merge=False keeps an adapter beside an nnx module's weights: pass both, or leave it out")
        where = {"mesh": mesh, "sharding": sharding, "dtype": dtype}
        names = {"rename": rename, "fold": fold}
        return _load_beside(module, source, adapter, names, (key, widen), where, rngs)
    if mesh is not None or sharding is not None:
        if not is_nnx(module):
            raise UsageError(f"mesh and sharding are for an nnx module; got {described(module)}")
        with ExitStack() as files:
            return _onto_mesh(
                module,
                lambda: _found(module, _opened(source, (key, widen), adapter, files), source, rename, fold),
                {"mesh": mesh, "sharding": sharding, "dtype": dtype},
            )
    _refuse_dtype(dtype)
    with ExitStack() as files:
        tensors = _opened(source, (key, widen), adapter, files)
        if is_nnx(module):
            _load_nnx(module, tensors, source, rename, fold)
        elif is_torch(module):
            _load_torch(module, tensors, source if is_nnx(source) else None, rename, fold)
        else:
            raise _neither(module)
    return None


def _refuse_dtype(dtype: str | None) -> None:
    if dtype is not None:
        raise UsageError("dtype needs a mesh: otherwise the values are converted to the module's dtypes")


def _load_beside(
    module: nnx.Module,
    source: Any,
    adapter: Path | str,
    names: dict[str, Any],
    how: tuple[str | None, str | None],
    where: dict[str, Any],
    rngs: nnx.Rngs | None,
) -> PlacedWeights | None:
    """Load weights and their adapter; a module without LoRA modules has none after an error."""
    from port.weights.flax import fill
    from port.weights.lora_loading import beside
    from port.weights.lora_places import lora_places, take_off

    on_mesh = where["mesh"] is not None or where["sharding"] is not None
    if not on_mesh:
        _refuse_dtype(where["dtype"])
    had_places = bool(lora_places(module))
    try:
        with ExitStack() as files:
            found: tuple[Source, Mapping] | Exception
            try:
                tensors = _opened(source, how, None, files)
                found = beside(module, tensors, files.enter_context(opened_adapter(adapter)), source, names, rngs)
            except Exception as error:
                if not on_mesh:
                    raise
                found = error  # the other processes must learn of it
            if on_mesh:
                return _onto_mesh(module, lambda: _or_raise(found), where)
            fill(module, *_or_raise(found))
    except BaseException:
        if not had_places:
            take_off(module)
        raise
    return None


def _or_raise(found: tuple[Source, Mapping] | Exception) -> tuple[Source, Mapping]:
    if isinstance(found, Exception):
        raise found
    return found


def _opened(source: Any, how: tuple[str | None, str | None], adapter: Path | str | None, files: ExitStack) -> Source:
    """Open what is at a key, widened if a dtype is passed, with an adapter merged if one is."""
    key, widen = how
    tensors = files.enter_context(opened(source, key=key))
    if widen is not None:
        tensors = widened(tensors, widen, blocks_said_beside(tensors))
    return adapted(tensors, adapter, files)


def save(module: Any, path: Path | str, *, mapping: Mapping | Path | str | None = None) -> None:
    """Save a module's weights as a safetensors file with the keys and layouts of a torch state dict.

    Args:
        module: an nnx module (no torch is imported), a torch module, or the state dict of one, such as FSDP's ranks
            gather.
        path: the file, written atomically.
        mapping: from torch's keys to an nnx module's paths, if the module itself does not define them; or its file.
    """
    write_arrays(path, arrays_of(module, mapping=mapping))


def arrays_of(module: Any, *, mapping: Mapping | Path | str | None = None) -> dict[str, np.ndarray]:
    """Return a module's weights as numpy arrays, with the keys and layouts of a torch state dict.

    Args:
        module: an nnx module, a torch module, or the state dict of one.
        mapping: from torch's keys to an nnx module's paths, if the module itself does not define them; or its file.
    """
    if is_torch(module) or _is_state_dict(module):
        import port.weights.torch

        return port.weights.torch.arrays_of(module)
    if is_nnx(module):
        import port.weights.flax

        whole = None if mapping is None else rules_of(mapping)
        if whole is not None and not isinstance(whole, Mapping):
            raise UsageError(f"{mapping} has rules, but the whole mapping is needed here")
        return port.weights.flax.arrays_of(module, whole)
    raise _neither(module)


def _load_nnx(module: Any, tensors: Source, source: Any, rename: Rename, fold: Shapes | None) -> None:
    from port.weights.flax import fill

    fill(module, *_found(module, tensors, source, rename, fold))


def _onto_mesh(module: Any, found: Callable[[], tuple[Source, Mapping]], how: dict[str, Any]) -> PlacedWeights:
    from port.nn.logical_axes import check_mesh
    from port.weights.placing import place

    if how["mesh"] is not None:
        check_mesh(how["mesh"])
    Options(dtype=how["dtype"])  # rejects an invalid dtype
    return place(module, found, **how)


def _found(module: Any, tensors: Source, source: Any, rename: Rename, fold: Shapes | None) -> tuple[Source, Mapping]:
    """The tensors under the names that the mapping uses, and the mapping to an nnx module."""
    from port.weights.flax import only_in_torch, own_mapping

    torch = source if is_torch(source) else None
    guide = nnx_guide(module)
    own = own_mapping(guide)
    variables = tensors.in_collections(lambda collection: collection != TORCH_ONLY)
    variables = variables.without(only_in_torch(guide), "no place in this module")
    paths = {entry.sources[0] for entry in own.entries}
    options = Options(torch=torch, flax=module, rename=rename, fold=fold)
    torch_paths = torch_names(options.guides[1])
    # By names: Flax's own if they cannot be torch's. A module that cannot be read does not define torch's names.
    if tensors.is_flax or (rename is None and torch_paths and set(variables) == paths != torch_paths):
        return variables, own
    found = find(tensors, options)
    return found.tensors, found.mapping


def _load_torch(module: Any, tensors: Source, flax: Any, rename: Rename, fold: Shapes | None) -> None:
    from port.weights.torch import fill

    module = unwrapped(module)
    if tensors.is_flax:
        state = to_torch(flax if flax is not None else tensors, like=module, rename=rename, fold=fold)
        with opened(state) as tensors:
            fill(module, tensors)
    else:
        fill(module, tensors.without_prefixes(tuple(module.state_dict())))


def _is_state_dict(thing: Any) -> bool:
    return isinstance(thing, Tree) and bool(thing) and all(hasattr(value, "detach") for value in thing.values())


def _neither(module: Any) -> UsageError:
    if any(f"{cls.__module__}.{cls.__qualname__}" == "flax.linen.module.Module" for cls in type(module).__mro__):
        return UsageError(
            f"{type(module).__qualname__} is a Linen module, which holds no weights: its variables are what "
            "port.to_flax(file, target=module, inputs=…) gives"
        )
    return UsageError(f"expected a torch.nn.Module or a flax.nnx.Module, got {described(module)}")
