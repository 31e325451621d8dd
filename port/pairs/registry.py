"""Which pair speaks of a module: the project's own, and those that users register; and `register`, for every kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from port.pairs.layers import DERIVED, LAYERS
from port.pairs.ops.imports import names_of_imports
from port.pairs.ops.operator_pair import OperatorPair
from port.pairs.pair import LayerPair, is_class, name_of
from port.pairs.refusals import Pair, refuse_unsound
from port.pairs.registered import add, registered

_LIBRARIES = ("jax", "flax", "port")
"""Those that written source knows how to import."""


def register(pair: Pair) -> None:
    """Make a pair of one's own known; it goes before the project's, and before those registered earlier.

    Args:
        pair: of a layer or a loss (`LayerPair`), an operator (`OperatorPair`), an optimizer (`OptimizerPair`) or a
            schedule (`SchedulePair`).

    Raises:
        UsageError: no pair, or one that cannot be right.
    """
    refuse_unsound(pair)
    add(pair)


def all_pairs() -> tuple[LayerPair, ...]:
    """Every layer pair there is, the registered ones first."""
    return (*registered(LayerPair), *LAYERS)


def pairs_of_torch(module: Any) -> list[LayerPair]:
    """The pairs that speak of a torch module, its twin's first; none where its ``forward`` is its own."""
    derived = [pair for derive in DERIVED if (pair := derive.of_torch(module, pairs_of_torch)) is not None]
    parametrized = hasattr(module, "parametrizations")
    return derived + [
        pair
        for cls in _classes(module, "forward")
        for pair in _speaking_of(cls, "torch")
        if pair.parametrized == parametrized and pair.fits_torch(module)
    ]


def pairs_of_flax(module: Any) -> list[LayerPair]:
    """The pairs that speak of an nnx or Linen module; none where its ``__call__`` is its own."""
    derived = [pair for derive in DERIVED if (pair := derive.of_flax(module, pairs_of_flax)) is not None]
    return derived + [
        pair for cls in _classes(module, "__call__") for pair in _speaking_of(cls, "flax") if pair.fits_flax(module)
    ]


def resolve(thing: str | type | Callable[..., Any]) -> Any:
    """The class or function that a pair names; imports its module."""
    if not isinstance(thing, str):
        return thing
    module, _, attribute = thing.rpartition(".")
    return getattr(import_module(module), attribute)


def imports_of_registered() -> dict[str, str]:
    """What the registered pairs write of the user's own: its name in source → the line that imports it."""
    found: dict[str, str] = {}
    for operator in reversed(registered(OperatorPair)):
        found |= names_of_imports(operator.imports)
    for layer in reversed(registered(LayerPair)):
        module = name_of(layer.flax).rpartition(".")[0]
        if module.partition(".")[0] not in _LIBRARIES:
            found[module] = f"import {module}"
    return found


def _speaking_of(cls: type, side: str) -> tuple[LayerPair, ...]:
    """The pairs that name a class. A model has many layers of few classes, so they are looked up once; but again when
    a pair has been registered, or a module loaded that gives a name its meaning."""
    return _looked_up(cls, side, tuple(map(id, registered(LayerPair))), len(sys.modules))


@lru_cache(maxsize=1024)
def _looked_up(cls: type, side: str, known: tuple[int, ...], modules: int) -> tuple[LayerPair, ...]:
    return tuple(pair for pair in all_pairs() if is_class(cls, getattr(pair, side)))


def _classes(module: Any, method: str) -> list[type]:
    """A module's class and those that it inherits the method from: a subclass that is called otherwise is another
    layer."""
    mro = type(module).__mro__
    called = _method(mro[0], method)
    classes = []
    for cls in mro:
        if _method(cls, method) is not called:
            break
        classes.append(cls)
    return classes


def _method(cls: type, name: str) -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


__all__ = ["all_pairs", "name_of", "pairs_of_flax", "pairs_of_torch", "register", "resolve"]
