"""Find stateful steps: those that draw random numbers or write to the module."""

from __future__ import annotations

from typing import Any

from port.translation.ir.graph import LayerCall, Loop, Operation, Step


def is_stateful(step: Step, training: bool) -> bool:
    """Whether a step draws random numbers, or writes to the module.

    Args:
        step: a step of a run.
        training: the run's mode.
    """
    match step:
        case Operation():
            return draws(step)
        case LayerCall():
            return training and _has_state(step.module)
        case Loop():
            return step.stateful
    return False


def draws(operation: Operation) -> bool:
    """Whether an operator draws random numbers, by torch's tag; some also have arguments that disable the draw."""
    import torch

    name, arguments = operation.operator, operation.arguments
    if name in ("aten.dropout.default", "aten.native_dropout.default"):
        return bool(arguments["train"]) and arguments["p"] != 0
    if name == "aten.scaled_dot_product_attention.default":
        return bool(arguments["dropout_p"])
    if name.startswith("aten.rrelu"):
        return bool(arguments.get("training"))
    overload: Any = torch.ops
    for part in name.split("."):
        overload = getattr(overload, part, None)
    return torch.Tag.nondeterministic_seeded in getattr(overload, "tags", ())


def _has_state(layer: Any) -> bool:
    """Whether a layer has buffers, which training may write to, or dropout."""
    from torch import nn

    drops = (nn.modules.dropout._DropoutNd, nn.RReLU)
    return any(True for _ in layer.buffers()) or any(
        isinstance(inner, drops)
        or type(inner).__name__ == "StochasticDepth"
        or (isinstance(getattr(inner, "dropout", None), float) and inner.dropout > 0)
        for inner in layer.modules()
    )
