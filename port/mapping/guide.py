"""A guide: what is known about one side's model, its layers and its tensors, without any values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from port.moves import Shape
from port.pairs import LayerPair, ParamPair


@dataclass(frozen=True)
class Leaf:
    """One tensor: its name in the model, shape, dtype (numpy's name for it), and Flax's kind of variable.

    For torch tensors it also says whether it is a parameter that is not trained.
    """

    name: str
    shape: Shape
    dtype: str
    collection: str = "params"
    is_frozen: bool = False


@dataclass(frozen=True)
class Layer:
    """A module of the model.

    Attributes:
        path: its dotted path; the model itself is at "".
        twin_path: its path in the other side's naming, if the two are known to differ.
        kind: its class's public name.
        pairs: the pairs that cover it, its twin's first.
        params: maps a pair to its parameters for this module.
        is_library: whether it is a torch or Flax class that no pair covers.
        lacks: maps a pair to the configured options of this torch layer that the pair's Flax class does not support.
        pools_all: whether it is a torch layer that leaves one number per channel.
    """

    path: str
    kind: str
    pairs: tuple[LayerPair, ...] = ()
    params: Callable[[LayerPair], tuple[ParamPair, ...]] = field(default=lambda pair: (), compare=False)
    is_library: bool = False
    twin_path: str | None = None
    lacks: Callable[[LayerPair], tuple[str, ...]] = field(default=lambda pair: (), compare=False)
    pools_all: bool = False

    @property
    def path_elsewhere(self) -> str:
        """Its path in the other side's naming."""
        return self.path if self.twin_path is None else self.twin_path


@dataclass(frozen=True)
class Guide:
    """A description of one side's model.

    Attributes:
        side: ``"torch"`` or ``"flax"``.
        leaves: every tensor, in the model's order.
        layers: every module, outer ones first; empty if only names are known (a checkpoint, a tree of arrays).
        tied: name → the earlier name of the same tensor.
        hidden: torch's buffers that are not in its state dict (``persistent=False``).
    """

    side: str
    leaves: dict[str, Leaf]
    layers: tuple[Layer, ...] = ()
    tied: dict[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()

    @cached_property
    def by_path(self) -> dict[str, Layer]:
        """The modules by path."""
        return {layer.path: layer for layer in self.layers}

    def owner(self, name: str) -> Layer | None:
        """The innermost module that holds a tensor; None if no modules are known."""
        path = name
        while path:
            path = path.rpartition(".")[0]
            if path in self.by_path:
                return self.by_path[path]
        return None

    def around(self, names: tuple[str, ...]) -> list[Layer]:
        """The modules around tensors that belong together, innermost first."""
        path, found = names[0], []
        while path:
            path = path.rpartition(".")[0]
            if path in self.by_path and all(name.startswith(f"{path}.") or not path for name in names):
                found.append(self.by_path[path])
        return found


def names_only(side: str, tensors: dict[str, Any], *, tied: dict[str, str] | None = None) -> Guide:
    """Make the guide of a checkpoint or a flat tree: names and shapes, without layers.

    Args:
        side: ``"torch"`` or ``"flax"``.
        tensors: name → anything with a shape and a dtype.
        tied: name → the earlier name of the same tensor.
    """
    leaves = {name: Leaf(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in tensors.items()}
    return Guide(side, leaves, tied=tied or {})
