"""Which pair speaks of a module: the project's own, and those that users register."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from port.errors import UsageError
from port.pairs.layers import DERIVED, LAYERS
from port.pairs.pair import LayerPair, is_class, name_of

_registered: list[LayerPair] = []


def register(pair: LayerPair) -> None:
    """Make a pair of one's own known; it goes before the project's, and before those registered earlier.

    Raises:
        UsageError: not a LayerPair.
    """
    if not isinstance(pair, LayerPair):
        raise UsageError(f"port.register takes a port.pairs.LayerPair, got {type(pair).__qualname__}")
    if pair not in _registered:
        _registered.insert(0, pair)


def all_pairs() -> tuple[LayerPair, ...]:
    """Every layer pair there is, the registered ones first."""
    return (*_registered, *LAYERS)


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


def _speaking_of(cls: type, side: str) -> tuple[LayerPair, ...]:
    """The pairs that name a class. A model has many layers of few classes, so they are looked up once; but again when
    a pair has been registered, or a module loaded that gives a name its meaning."""
    return _looked_up(cls, side, tuple(map(id, _registered)), len(sys.modules))


@lru_cache(maxsize=1024)
def _looked_up(cls: type, side: str, registered: tuple[int, ...], modules: int) -> tuple[LayerPair, ...]:
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
