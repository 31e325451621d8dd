"""Steps that depend on more than their operands, or change more than their results."""

from __future__ import annotations

from typing import Any

from port.translation.ir.graph import LayerCall, Loop, Operation, Step


def is_stateful(step: Step, training: bool) -> bool:
    """Whether a step draws random numbers, or writes to the module.

    Args:
        step: of a run.
        training: the run's mode.
    """
    match step:
        case Operation():
            return _draws(step)
        case LayerCall():
            return training and _has_state(step.module)
        case Loop():
            return step.stateful
    return False


def _draws(operation: Operation) -> bool:
    from port.translation.lowering.rules.rng import RULES

    name = operation.operator
    if name in ("aten.dropout.default", "aten.native_dropout.default"):
        return bool(operation.arguments["train"]) and operation.arguments["p"] != 0
    if name == "aten.scaled_dot_product_attention.default":
        return bool(operation.arguments["dropout_p"])
    return (name in RULES or name.rpartition(".")[0] in RULES) and "empty" not in name


def _has_state(layer: Any) -> bool:
    """Whether a layer has buffers, which training may write to, or drops something."""
    from torch import nn

    drops = (nn.modules.dropout._DropoutNd, nn.RReLU)
    return any(True for _ in layer.buffers()) or any(
        isinstance(inner, drops)
        or type(inner).__name__ == "StochasticDepth"
        or (isinstance(getattr(inner, "dropout", None), float) and inner.dropout > 0)
        for inner in layer.modules()
    )
