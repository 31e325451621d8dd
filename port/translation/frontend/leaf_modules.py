"""Decide which modules are kept whole, as leaves: those that have a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from port.errors import NoPair
from port.pairs import LayerPair, name_of, pairs_of_torch
from port.pairs.registry import resolve
from port.translation.ir.graph import LayerCall

# These are a single operator each, whose lowering handles the layout.
_TRACED = ("torch.nn.Flatten", "torch.nn.Unflatten")


def kept_layers(root: Any) -> dict[str, Any]:
    """Return the layers kept whole, path → torch layer: the topmost modules that have a pair.

    A layer that shares a parameter with an earlier one is traced instead, and reads the earlier one's.
    """
    found: dict[str, Any] = {}
    owners: dict[int, str] = {}
    seen: set[int] = set()

    def walk(path: str, module: Any) -> None:
        if id(module) in seen:
            return
        seen.add(id(module))
        if path and is_kept(module):
            mine = {id(parameter) for parameter in module.parameters()}
            if not any(name in owners for name in mine):
                found[path] = module
                owners.update(dict.fromkeys(mine, path))
                return
        for name, child in module.named_children():
            walk(f"{path}.{name}" if path else name, child)

    walk("", root)
    return found


def shared_layers(root: Any, layers: dict[str, Any]) -> set[str]:
    """Return the paths of kept layers whose parameters other modules hold too."""
    holders = Counter(id(parameter) for module in root.modules() for parameter in vars(module)["_parameters"].values())
    return {
        path for path, layer in layers.items() if any(holders[id(parameter)] > 1 for parameter in layer.parameters())
    }


def is_kept(module: Any) -> bool:
    """Whether a module has a pair and its twin can replace it.

    Raises:
        NoPair: the twin cannot be imported by the written source.
    """
    pairs = pairs_of_torch(module)
    if not pairs or any(pair.torch in _TRACED for pair in pairs[:1]):
        return False
    if module.state_dict() and not isinstance(resolve(pairs[0].flax), type):
        return False  # a function holds no weights; a loss's class weights are state
    if pairs[0].unfit(module) is not None:
        return False
    _check_importable(pairs[0])
    return True


def _check_importable(pair: LayerPair) -> None:
    name = name_of(pair.flax)
    if name.startswith("__main__.") or "<" in name:
        raise NoPair(
            f"{name_of(pair.torch)}: the written source cannot import its twin {name}: define it at the top level of a "
            "module"
        )


def calls_of(steps: Iterable[Any]) -> Counter[str]:
    """Count the calls of each layer."""
    return Counter(step.path for step in steps if isinstance(step, LayerCall))
