"""Batch norm on statistics that the model keeps by hand, as functional.batch_norm does it in either mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.errors import NoPair
from port.translation.ir.expr import code, literal
from port.translation.ir.graph import Operation, Value
from port.translation.ir.layout import channels_last, torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _batch_norm(stage: LoweringContext, operation: Operation) -> None:
    """The normalised input, the batch's own statistics, and the running ones after it."""
    given = operation.arguments
    value: Value = given["input"]
    if not given["training"]:
        raise NoPair("running statistics that are written to in evaluation")
    result, *batch, mean, variance = operation.results
    layout = channels_last(value.rank, 1)
    x, axes = stage.need(value, layout), tuple(range(value.rank - 1))
    affine = [literal(None) if given[name] is None else stage.need(given[name]) for name in ("weight", "bias")]
    normalised = code("F.batch_norm(x, weight, bias, eps)", x=x, weight=affine[0], bias=affine[1], eps=given["eps"])
    follows = value if stage.layout(value) == layout else None
    stage.note("W10", "W11")
    stage.give(result, normalised, layout, follows=follows)
    own = (
        code("x.mean(axes)", x=x, axes=axes),
        code("jax.lax.rsqrt(x.var(axes) + eps)", x=x, axes=axes, eps=given["eps"]),
    )
    for statistic, expression in zip(batch, own, strict=True):
        if stage.is_read(statistic):
            stage.give(statistic, code("jax.lax.stop_gradient(y)", y=expression), torchs(1))
    momentum = given["momentum"]
    new = (code("x.mean(axes)", x=x, axes=axes), code("x.var(axes, ddof=1)", x=x, axes=axes))
    for running, before, expression in zip((mean, variance), ("running_mean", "running_var"), new, strict=True):
        updated = code(
            "kept * before + momentum * jax.lax.stop_gradient(new)",
            kept=1 - momentum,
            before=stage.need(given[before]),
            momentum=momentum,
            new=expression,
        )
        stage.give(running, updated, torchs(1))


def _with_running_statistics(stage: LoweringContext, operation: Operation) -> None:
    """The input normalised by running statistics, as in evaluation."""
    given = operation.arguments
    value: Value = given["input"]
    result, *batch = operation.results
    if any(stage.is_read(statistic) for statistic in batch):
        raise NoPair("a batch's statistics are read where there are none")
    layout = channels_last(value.rank, 1)
    expression = code(
        "(x - mean) * jax.lax.rsqrt(var + eps)",
        x=stage.need(value, layout),
        mean=stage.need(given["running_mean"]),
        var=stage.need(given["running_var"]),
        eps=given["eps"],
    )
    if given["weight"] is not None:
        expression = code("y * weight", y=expression, weight=stage.need(given["weight"]))
    if given["bias"] is not None:
        expression = code("y + bias", y=expression, bias=stage.need(given["bias"]))
    stage.note("W10")
    stage.give(result, expression, layout, follows=value if stage.layout(value) == layout else None)


RULES = {
    "aten._native_batch_norm_legit_functional": _batch_norm,
    "aten._native_batch_norm_legit_no_training": _with_running_statistics,
}
