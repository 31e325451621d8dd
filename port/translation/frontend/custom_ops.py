"""Custom operators in an exported graph: a layer kept whole, a mark that records values, a custom gradient."""

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
    library.impl("mark", _fake_mark, "CompositeExplicitAutograd")  # torch runs what it knows the values of: constants
    return library


def layer(key: str, fake: Callable[[list[Any]], list[Any]], tensors: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    """Insert one graph node for a whole layer; ``fake`` computes its outputs from fake tensors."""
    _library()
    _fakes[key] = fake
    return list(torch.ops.port_translation.layer(key, list(tensors), list(sizes)))


def mark(key: str, tensors: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """Insert a node that records values; it stays in the graph only if the graph returns its dummy result."""
    _library()
    return torch.ops.port_translation.mark(key, list(tensors), list(sizes))


def sloped(y: Any, x: Any, slope: Any) -> Any:
    """Insert a node that returns y and adds ``slope`` to its gradient by x: `port.nn.functional.sloped`."""
    _library()
    return torch.ops.port_translation.sloped(y, x, slope)


def forget(prefix: str) -> None:
    """Drop the registered layers of one capture."""
    for key in [key for key in _fakes if key.startswith(prefix)]:
        del _fakes[key]


def _fake_layer(key: str, tensors: list[Any], sizes: list[Any]) -> list[Any]:
    return _fakes[key](tensors)


def _fake_mark(key: str, tensors: list[Any], sizes: list[Any]) -> Any:
    return torch.zeros(())


def _fake_sloped(y: Any, x: Any, slope: Any) -> Any:
    return torch.empty_like(y)
