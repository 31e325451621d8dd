"""Arguments of a layer's twin with known origins in the original's constructor arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from port.pairs import LayerPair
from port.translation.frontend.meta_device import constructed_on_meta
from port.translation.ir.number import is_same
from port.translation.ir.origin_numbers import OriginBool, origin_of, plain, with_origin


def known_arguments(pair: LayerPair, layer: Any, anew: Any, passed: Mapping[str, Any]) -> dict[str, Any]:
    """Compute a pair's arguments for a layer, with the origins of those numbers that the reconstructed layer provides.

    Args:
        pair: the layer's pair.
        layer: the torch layer to translate.
        anew: the same layer, constructed again; None if it was not.
        passed: the arguments of its constructor.
    """
    arguments = dict(pair.arguments(layer))
    if anew is None:
        return arguments
    known = pair.arguments(anew)
    merged = {name: _merged(value, known.get(name)) for name, value in arguments.items()}
    for name, value in passed.items():
        if isinstance(value, OriginBool):
            merged |= _switched(pair, anew, passed, name, merged)
    return merged


def _merged(value: Any, known: Any) -> Any:
    """A layer's value, with the origins of an equal one."""
    if isinstance(value, tuple | list) and isinstance(known, tuple | list) and len(value) == len(known):
        return type(value)(map(_merged, value, known))
    return known if origin_of(known) is not None and is_same(plain(value), plain(known)) else value


def _class_taking(cls: Any, passed: Mapping[str, Any]) -> Any:
    """The class whose constructor takes these arguments: the layer's own, or a torch base class of it."""
    return next(base for base in cls.__mro__ if passed.keys() <= inspect.signature(base.__init__).parameters.keys())


def _switched(
    pair: LayerPair, anew: Any, passed: Mapping[str, Any], name: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The twin's arguments that follow a switch of the layer, found by constructing it with the switch flipped."""
    flag = passed[name]
    others = {other: plain(value) for other, value in passed.items()}
    try:
        other = constructed_on_meta(lambda: _class_taking(type(anew), others)(**{**others, name: not flag}))()
        changed = pair.arguments(other)
    except Exception:  # torch may reject the combination
        return {}
    return {
        argument: with_origin(value, origin_of(flag))
        for argument, value in arguments.items()
        if isinstance(value, bool) and value is bool(flag) and changed.get(argument) is (not flag)
    }
