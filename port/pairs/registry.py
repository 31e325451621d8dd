"""The pairs of a module, built-in or registered by users; and `register`, for all kinds of pairs."""

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
"""Libraries that generated source imports by itself."""


def register(pair: Pair) -> None:
    """Register a pair; it takes precedence over built-in pairs and those registered earlier.

    Args:
        pair: for a layer or a loss (`LayerPair`), an operator (`OperatorPair`), an optimizer (`OptimizerPair`) or a
            schedule (`SchedulePair`).

    Raises:
        UsageError: not a pair, or an invalid one.
    """
    refuse_unsound(pair)
    add(pair)


def all_pairs() -> tuple[LayerPair, ...]:
    """Return all layer pairs, registered ones first."""
    return (*registered(LayerPair), *LAYERS)


def pairs_of_torch(module: Any) -> list[LayerPair]:
    """Return the pairs of a torch module, its twin's first; none if a subclass overrides ``forward``."""
    derived = [pair for derive in DERIVED if (pair := derive.of_torch(module, pairs_of_torch)) is not None]
    parametrized = hasattr(module, "parametrizations")
    return derived + [
        pair
        for cls in _classes(module, "forward")
        for pair in _speaking_of(cls, "torch")
        if pair.parametrized == parametrized and pair.fits_torch(module)
    ]


def pairs_of_flax(module: Any) -> list[LayerPair]:
    """Return the pairs of an nnx or Linen module; none if a subclass overrides ``__call__``."""
    derived = [pair for derive in DERIVED if (pair := derive.of_flax(module, pairs_of_flax)) is not None]
    return derived + [
        pair for cls in _classes(module, "__call__") for pair in _speaking_of(cls, "flax") if pair.fits_flax(module)
    ]


def resolve(thing: str | type | Callable[..., Any]) -> Any:
    """Return the class or function that a pair names, importing its module."""
    if not isinstance(thing, str):
        return thing
    module, _, attribute = thing.rpartition(".")
    return getattr(import_module(module), attribute)


def imports_of_registered() -> dict[str, str]:
    """Return the user's names in registered pairs: name in source → import line."""
    found: dict[str, str] = {}
    for operator in reversed(registered(OperatorPair)):
        found |= names_of_imports(operator.imports)
    for layer in reversed(registered(LayerPair)):
        module = name_of(layer.flax).rpartition(".")[0]
        if module.partition(".")[0] not in _LIBRARIES:
            found[module] = f"import {module}"
    return found


def _speaking_of(cls: type, side: str) -> tuple[LayerPair, ...]:
    """Return the pairs that name a class.

    Cached, as a model has many layers of few classes; looked up again after a pair was registered or a module loaded,
    which may resolve more names.
    """
    return _looked_up(cls, side, tuple(map(id, registered(LayerPair))), len(sys.modules))


@lru_cache(maxsize=1024)
def _looked_up(cls: type, side: str, known: tuple[int, ...], modules: int) -> tuple[LayerPair, ...]:
    return tuple(pair for pair in all_pairs() if is_class(cls, getattr(pair, side)))


def _classes(module: Any, method: str) -> list[type]:
    """Return a module's class and the bases whose method it inherits.

    A subclass that overrides the method is a different layer.
    """
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
