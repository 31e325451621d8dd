"""What a pair is: one thing said twice, and how to get from either to the other."""

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
        torch: its name in the torch layer, dotted where a sub-layer holds it (``"out_proj.weight"``); several names
            where one Flax parameter is made of several of torch's.
        flax: its name in the twin, dotted the same way; several names where torch keeps in one what Flax keeps apart.
        moves: from torch's arrays, in the order of ``torch``, to Flax's, in the order of ``flax``.
        collection: the kind of variable in Flax: ``"params"``, ``"batch_stats"``, or a name of its own.
        optional: whether a checkpoint may lack it, as those made before torch 0.4.1 lack ``num_batches_tracked``.
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

    Where a torch class has several pairs, the first one that fits is its twin; the others say how its weights move to
    other Flax classes, for models that were written apart.

    Attributes:
        torch: torch's class, by its public name (``"torch.nn.Linear"``), so that reading a pair imports neither
            library; or the class itself, for one that has no public name (a notebook's).
        flax: the twin's class in the same way; or a function. A function is called with the layer's inputs and with
            ``arguments`` as keywords; what ``params`` names (a loss's class weights) is given to it as keywords too.
        params: parameters and buffers. One that a module does not have (a layer without bias) is left out. Where
            their moves depend on how the layer was built: a function of the facts, called with them as keywords.
        facts_of_torch: what ``params`` has to know of a layer, from torch's.
        facts_of_flax: the same, from Flax's.
        fits_torch: where the torch class has several twins: whether this module of it is this pair's.
        fits_flax: where the Flax class stands for several of torch's: whether this module of it is this pair's.
        arguments: the twin's constructor arguments, from the torch layer; without ``rngs``, ``dtype``, ``param_dtype``.
            A torch layer among them stands for its own twin.
        initializers: constructor argument → the jax initializer that draws as torch does, as an expression; where the
            twin's own does not.
        channels: the axis of torch's inputs and outputs that the twin has last (1, or counted from the end: −3 for
            (…, C, H, W)); None where both sides take the same layout.
        channel_inputs: positions of the inputs that have it; None for all of them.
        channel_outputs: whether the outputs have it too.
        axes: how the twin treats axes where ``channels`` is None: what `port.pairs.ops.axes` says of operators, its
            variables being names of ``arguments``; `Last` for layers that work on the last axes, whatever the order of
            those before; `First` for those that work on the first. None where it needs them in torch's order.
        torch_only: buffers of torch's that the twin has no home for; kept on the side for the way back.
        parametrized: speaks of a layer whose weight is computed (``torch.nn.utils.parametrizations``).
        unfit: why a torch layer cannot be moved, if it cannot; the reason is what the user is told.
        lacks: what a torch layer was told to do and this Flax class cannot, a sentence each; for models that were
            written apart.
        notes: ids of the differences that a reader should know of.
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
        """The parameter pairs of a torch layer."""
        return self.params(**self.facts_of_torch(module)) if callable(self.params) else self.params

    def params_of_flax(self, module: Any) -> tuple[ParamPair, ...]:
        """The parameter pairs of a Flax layer."""
        return self.params(**self.facts_of_flax(module)) if callable(self.params) else self.params

    def __str__(self) -> str:
        return f"{name_of(self.torch)} ⇄ {name_of(self.flax)}"


def name_of(thing: Any) -> str:
    """The public name of a class or function, as pairs write it."""
    return thing if isinstance(thing, str) else f"{thing.__module__}.{thing.__qualname__}"


def is_class(cls: type, named: Any) -> bool:
    """Whether a class is the one that a pair names. Imports nothing: a class whose library is not loaded has no
    instances."""
    return cls is (_loaded(named) if isinstance(named, str) else named)


def same(*names: str, collection: str = "params") -> tuple[ParamPair, ...]:
    """Parameters that have the same name and layout on both sides."""
    return tuple(ParamPair(name, name, collection=collection) for name in names)


def _loaded(name: str) -> Any:
    """What a dotted name means among the modules that are loaded; None if nothing."""
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
