"""Builds the guide of a torch module. Values are not read: a module on the meta device works."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import NoPair
from port.mapping.guide import Guide, Layer, Leaf, names_only
from port.pairs import LayerPair, ParamPair, name_of, pairs_of_torch

if TYPE_CHECKING:
    import torch


NO_SHAPE = "{name} has no shape yet: a lazy layer gets it when the model is run; run it once"


def torch_guide(module: torch.nn.Module) -> Guide:
    """Build the guide of a torch module: its layers, and the names, shapes and dtypes of its state dict.

    Raises:
        NoPair: a lazy layer has not been run, so its shapes are not known.
    """
    import torch

    module = unwrapped(module)
    leaves: dict[str, Leaf] = {}
    tied: dict[str, str] = {}
    first: dict[int, str] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if not isinstance(tensor, torch.Tensor):
            continue  # extra state may be anything
        leaves[name] = _leaf(name, tensor)
        if id(tensor) in first:
            tied[name] = first[id(tensor)]
        first.setdefault(id(tensor), name)
    layers = tuple(_layer(path, layer) for path, layer in module.named_modules(remove_duplicate=False))
    hidden = {name for name, _ in module.named_buffers(remove_duplicate=False)} - set(leaves)
    return Guide("torch", leaves, layers, tied, frozenset(hidden))


def state_guide(state: Mapping[str, Any]) -> Guide:
    """Build the guide of a state dict, of tensors or numpy arrays: names, shapes, dtypes, and which tensors are shared.

    Raises:
        NoPair: a lazy layer's tensors, which have no shape.
    """
    for name, value in state.items():
        # By name: a state dict of numpy arrays needs no torch.
        if type(value).__name__ in ("UninitializedParameter", "UninitializedBuffer"):
            raise NoPair(NO_SHAPE.format(name=name))
    tensors = {name: value for name, value in state.items() if hasattr(value, "shape")}
    return names_only("torch", tensors, tied=tied_in(tensors))


def tied_in(tensors: Mapping[str, Any]) -> dict[str, str]:
    """Find tensors of a state dict that share memory: name → the earlier name of the same tensor."""
    first: dict[Any, str] = {}
    tied = {}
    for name, tensor in tensors.items():
        # Without memory (on the meta device, or empty) tensors cannot be told apart.
        if hasattr(tensor, "data_ptr") and tensor.data_ptr():
            place = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
            if place in first:
                tied[name] = first[place]
            first.setdefault(place, name)
    return tied


def unwrapped(module: Any) -> Any:
    """Return the model inside DistributedDataParallel, DataParallel or torch.compile's wrapper."""
    while True:
        name = name_of(type(module))
        if name.endswith(("DistributedDataParallel", "data_parallel.DataParallel")):
            module = module.module
        elif name.endswith("OptimizedModule"):
            module = module._orig_mod
        else:
            return module


def _leaf(name: str, tensor: torch.Tensor) -> Leaf:
    from torch.nn.parameter import is_lazy

    if is_lazy(tensor):
        raise NoPair(NO_SHAPE.format(name=name))
    kind = "params" if type(tensor).__name__ == "Parameter" or tensor.requires_grad else "buffers"
    is_frozen = kind == "params" and not tensor.requires_grad
    return Leaf(name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), kind, is_frozen)


def _layer(path: str, module: torch.nn.Module) -> Layer:
    pairs = tuple(pairs_of_torch(module))
    is_library = not pairs and _is_library(module)
    return Layer(
        path,
        name_of(type(module)),
        pairs,
        partial(_params, module),
        is_library,
        lacks=partial(_lacks, module),
        pools_all=_pools_all(module),
    )


def _pools_all(module: torch.nn.Module) -> bool:
    """Whether a module is an adaptive pooling to one number a channel."""
    if not type(module).__name__.startswith("Adaptive"):
        return False
    size = getattr(module, "output_size", None)
    return size == 1 or (isinstance(size, tuple | list) and all(one == 1 for one in size))


def _params(module: torch.nn.Module, pair: LayerPair) -> tuple[ParamPair, ...]:
    return pair.params_of_torch(module)


def _lacks(module: torch.nn.Module, pair: LayerPair) -> tuple[str, ...]:
    return pair.lacks(module)


def _is_library(module: torch.nn.Module) -> bool:
    """Whether a module is, or inherits from, a layer of torch.nn: its parameters then have that layer's layout."""
    import torch

    bare = (torch.nn.Module, torch.nn.ParameterList, torch.nn.ParameterDict, torch.nn.ModuleList, torch.nn.ModuleDict)
    if isinstance(module, (*bare[1:], torch.nn.Sequential)):
        return False
    return any(cls.__module__.startswith("torch.") and cls not in bare for cls in type(module).__mro__[:-1])
