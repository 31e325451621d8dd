"""Pairs of layers and their parameters: torch's side, Flax's side, and the conversion between them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from port.moves import Move
from port.pairs.expression import Expression
from port.pairs.ops.axes import Axes, First, Last

Names = str | tuple[str, ...]


@dataclass(frozen=True)
class ParamPair:
    """A parameter or buffer of a layer: torch's name, Flax's name, and the moves from torch's layout to Flax's.

    Attributes:
        torch: its name in the torch layer, dotted if a sub-layer holds it (``"out_proj.weight"``); several names if one
            Flax parameter combines several of torch's.
        flax: its name in the twin, likewise dotted; several names if Flax splits one of torch's parameters.
        moves: from torch's arrays, in the order of ``torch``, to Flax's, in the order of ``flax``.
        collection: the Flax collection: ``"params"``, ``"batch_stats"``, or another name.
        optional: whether a checkpoint may lack it, as those from before torch 0.4.1 lack ``num_batches_tracked``.
    """

    torch: Names
    flax: Names
    moves: tuple[Move, ...] = ()
    collection: str = "params"
    optional: bool = False

    @property
    def torch_names(self) -> tuple[str, ...]:
        return (self.torch,) if isinstance(self.torch, str) else self.torch

    @property
    def flax_names(self) -> tuple[str, ...]:
        return (self.flax,) if isinstance(self.flax, str) else self.flax


Facts = dict[str, Any]


def _any(module: Any) -> bool:
    return True


def _none(module: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class LayerPair:
    """A torch layer and its Flax twin.

    If a torch class has several pairs, the first that fits is its twin; the others convert its weights to other Flax
    classes, for hand-written models.

    Attributes:
        torch: torch's class, by its public name (``"torch.nn.Linear"``), so that reading a pair imports neither
            library; or the class itself, if it has no public name (as in a notebook).
        flax: the twin's class, likewise; or a function, which is called with the layer's inputs, and with
            ``arguments`` and what ``params`` names (a loss's class weights) as keywords.
        params: parameters and buffers; those that a module lacks (a layer without bias) are skipped. If their moves
            depend on how the layer was built: a function, called with the facts as keywords.
        facts_of_torch: reads the facts that ``params`` needs from a torch layer.
        facts_of_flax: reads them from a Flax layer.
        fits_torch: if the torch class has several pairs: whether a torch module belongs to this one.
        fits_flax: if the Flax class has several pairs: whether a Flax module belongs to this one.
        arguments: the twin's constructor arguments, from the torch layer; without ``rngs``, ``dtype``, ``param_dtype``.
            A torch layer among them is replaced by its twin.
        initializers: constructor argument → expression of the jax initializer that matches torch's, where the twin's
            default does not.
        channels: the axis of torch's inputs and outputs that is last in the twin (1, or counted from the end: −3 for
            (…, C, H, W)); None if both sides take the same layout.
        channel_inputs: positions of the inputs that have it; None for all of them.
        channel_outputs: whether the outputs have it too.
        axes: how the twin treats axes if ``channels`` is None, as `port.pairs.ops.axes` describes operators, with names
            of ``arguments`` as variables; `Last` for layers that work on the last axes, with leading axes in any order;
            `First` for those that work on the first. None if it needs torch's order.
        torch_only: torch's buffers without a counterpart in the twin; stored separately to convert back.
        parametrized: whether the layer's weight is computed (``torch.nn.utils.parametrizations``).
        unfit: why a torch layer cannot be converted, for the error message; None if it can.
        lacks: describes a torch layer's options that this Flax class lacks, a sentence each; for hand-written models.
        notes: ids of the relevant notes.
    """

    torch: str | type
    flax: str | type | Callable[..., Any]
    params: tuple[ParamPair, ...] | Callable[..., tuple[ParamPair, ...]] = ()
    facts_of_torch: Callable[[Any], Facts] = _none
    facts_of_flax: Callable[[Any], Facts] = _none
    fits_torch: Callable[[Any], bool] = _any
    fits_flax: Callable[[Any], bool] = _any
    arguments: Callable[[Any], dict[str, Any]] = _none
    initializers: Callable[[Any], dict[str, Expression]] = _none
    channels: int | None = None
    channel_inputs: tuple[int, ...] | None = None
    channel_outputs: bool = True
    axes: Axes | First | Last | None = None
    torch_only: tuple[str, ...] = ()
    parametrized: bool = False
    unfit: Callable[[Any], str | None] = lambda module: None
    lacks: Callable[[Any], tuple[str, ...]] = lambda module: ()
    notes: tuple[str, ...] = ()

    def params_of_torch(self, module: Any) -> tuple[ParamPair, ...]:
        """Return the parameter pairs of a torch layer."""
        return self.params(**self.facts_of_torch(module)) if callable(self.params) else self.params

    def params_of_flax(self, module: Any) -> tuple[ParamPair, ...]:
        """Return the parameter pairs of a Flax layer."""
        return self.params(**self.facts_of_flax(module)) if callable(self.params) else self.params

    def __str__(self) -> str:
        return f"{name_of(self.torch)} ⇄ {name_of(self.flax)}"


def name_of(thing: Any) -> str:
    """Return the public name of a class or function, as written in pairs."""
    return thing if isinstance(thing, str) else f"{thing.__module__}.{thing.__qualname__}"


def is_class(cls: type, named: Any) -> bool:
    """Whether a class is the one that a pair names.

    Imports nothing: a class whose library is not loaded has no instances.
    """
    return cls is (_loaded(named) if isinstance(named, str) else named)


def same(*names: str, collection: str = "params") -> tuple[ParamPair, ...]:
    """Return parameter pairs with the same name and layout on both sides."""
    return tuple(ParamPair(name, name, collection=collection) for name in names)


def _loaded(name: str) -> Any:
    """Look up a dotted name in the loaded modules; None if it is not there."""
    for module, attributes in _readings(name):
        found: Any = sys.modules.get(module)
        for attribute in attributes:
            found = getattr(found, attribute, None)
        if found is not None:
            return found
    return None


@cache
def _readings(name: str) -> tuple[tuple[str, list[str]], ...]:
    parts = name.split(".")
    return tuple((".".join(parts[:length]), parts[length:]) for length in range(len(parts) - 1, 0, -1))
