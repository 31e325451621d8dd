"""Batch norm with explicit running statistics, as ``torch.nn.functional.batch_norm`` in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.errors import NoPair
from port.translation.ir.expr import code
from port.translation.ir.graph import Operation, Value
from port.translation.ir.layout import channels_last, torchs
from port.translation.lowering.axes import lower
from port.translation.lowering.paired import pair_of
from port.translation.lowering.rules.rewrites import normalised

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _batch_norm(stage: LoweringContext, operation: Operation) -> None:
    """Assign the normalised input, the batch's statistics, and the updated running statistics."""
    arguments = operation.arguments
    value: Value = arguments["input"]
    if not arguments["training"]:
        raise NoPair("it updates running statistics in evaluation")
    result, *batch, mean, variance = operation.results
    lower(stage, pair_of(normalised(operation, result, training=True)))
    x, axes = stage.need(value, channels_last(value.rank, 1)), tuple(range(value.rank - 1))
    own = (
        code("x.mean(axes)", x=x, axes=axes),
        code("jax.lax.rsqrt(x.var(axes) + eps)", x=x, axes=axes, eps=arguments["eps"]),
    )
    for statistic, expression in zip(batch, own, strict=True):
        if stage.is_read(statistic):
            stage.give(statistic, code("jax.lax.stop_gradient(y)", y=expression), torchs(1))
    momentum = arguments["momentum"]
    new = (code("x.mean(axes)", x=x, axes=axes), code("x.var(axes, ddof=1)", x=x, axes=axes))
    for running, before, expression in zip((mean, variance), ("running_mean", "running_var"), new, strict=True):
        updated = code(
            "kept * before + momentum * jax.lax.stop_gradient(new)",
            kept=1 - momentum,
            before=stage.need(arguments[before]),
            momentum=momentum,
            new=expression,
        )
        stage.give(running, updated, torchs(1))


RULES = {"aten._native_batch_norm_legit_functional": _batch_norm}
