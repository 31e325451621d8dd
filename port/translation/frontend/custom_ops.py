"""Operators of our own in an exported graph: a layer kept whole, a mark that takes note of values, a given gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

_fakes: dict[str, Callable[[list[Any]], list[Any]]] = {}


@cache
def _library() -> torch.library.Library:
    library = torch.library.Library("port_translation", "DEF")
    library.define("layer(str key, Tensor[] tensors, SymInt[] sizes) -> Tensor[]")
    library.define("mark(str key, Tensor[] tensors, SymInt[] sizes) -> Tensor")
    library.define("sloped(Tensor y, Tensor x, Tensor slope) -> Tensor")
    torch.library.register_fake("port_translation::layer", _fake_layer, lib=library)
    torch.library.register_fake("port_translation::mark", _fake_mark, lib=library)
    torch.library.register_fake("port_translation::sloped", _fake_sloped, lib=library)
    return library


def layer(key: str, fake: Callable[[list[Any]], list[Any]], tensors: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    """One node in the graph for a whole layer; ``fake`` gives the outputs' shapes from fake tensors."""
    _library()
    _fakes[key] = fake
    return list(torch.ops.port_translation.layer(key, list(tensors), list(sizes)))


def mark(key: str, tensors: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """A node that takes values and gives a tensor which nobody needs: it stays only if the graph returns that."""
    _library()
    return torch.ops.port_translation.mark(key, list(tensors), list(sizes))


def sloped(y: Any, x: Any, slope: Any) -> Any:
    """A node for y, whose gradient by x is ``slope`` besides its own: `port.nn.functional.sloped`."""
    _library()
    return torch.ops.port_translation.sloped(y, x, slope)


def forget(prefix: str) -> None:
    """Forget the layers of one capture."""
    for key in [key for key in _fakes if key.startswith(prefix)]:
        del _fakes[key]


def _fake_layer(key: str, tensors: list[Any], sizes: list[Any]) -> list[Any]:
    return _fakes[key](tensors)


def _fake_mark(key: str, tensors: list[Any], sizes: list[Any]) -> Any:
    return torch.empty(())


def _fake_sloped(y: Any, x: Any, slope: Any) -> Any:
    return torch.empty_like(y)
