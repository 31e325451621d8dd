"""Find parts of a model in evaluation mode while the rest trains: a teacher, a trunk with fixed statistics."""

from __future__ import annotations

from torch import nn
from torch.nn.modules import batchnorm, dropout

from port.errors import UsageError
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.ir.module_tree import ModuleTree

DIFFERENT = (batchnorm._NormBase, dropout._DropoutNd)
"""Layers that compute something different in evaluation mode."""


def in_evaluation(module: nn.Module) -> list[str]:
    """The outermost parts in evaluation mode for which the mode matters, by Flax path: ``model.trunk.layers[1]``.

    Raises:
        UsageError: one is a part of what is a single layer in Flax.
    """
    found: list[str] = []
    for path, one in module.named_modules():
        is_inner = any(path == outer or path.startswith(f"{outer}.") for outer in found)
        if path and not one.training and not is_inner and any(isinstance(layer, DIFFERENT) for layer in one.modules()):
            found.append(path)
    if not found:
        return []
    tree = ModuleTree(module, kept_layers(module))
    for path in found:
        parts = path.split(".")
        wholes = [above for n in range(1, len(parts)) if (above := ".".join(parts[:n])) in tree.layers]
        if wholes:
            raise UsageError(
                f"{path} is in evaluation mode while the rest of {wholes[0]} trains, but that is a single layer here: "
                f"switch {wholes[0]} as a whole, or write its class yourself"
            )
    return ["model" + "".join(map(_accessor, tree.steps(path))) for path in found]


def _accessor(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f"[{step[1:-1]!r}]" if step.startswith("[") else f".{step}"
