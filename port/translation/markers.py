"""Two operators of our own in an exported graph: a layer kept whole, and a mark that takes note of values."""

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
    torch.library.register_fake("port_translation::layer", _fake_layer, lib=library)
    torch.library.register_fake("port_translation::mark", _fake_mark, lib=library)
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


def forget(prefix: str) -> None:
    """Forget the layers of one capture."""
    for key in [key for key in _fakes if key.startswith(prefix)]:
        del _fakes[key]


def _fake_layer(key: str, tensors: list[Any], sizes: list[Any]) -> list[Any]:
    return _fakes[key](tensors)


def _fake_mark(key: str, tensors: list[Any], sizes: list[Any]) -> Any:
    return torch.empty(())
