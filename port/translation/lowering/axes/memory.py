"""In-place draws into ``torch.empty(…)``: use the buffer's shape and dtype, and do not allocate it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from port.pairs.ops.draws import Key
from port.translation.ir.expr import code
from port.translation.ir.graph import Operation, Value
from port.translation.lowering.paired import Paired, jax_dtype

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def of_memory(stage: LoweringContext, paired: Paired) -> Paired:
    """Replace an ``input`` that comes from ``torch.empty`` by its size and dtype; return other operators unchanged."""
    value = paired.variables.get("input")
    if not isinstance(value, Value) or not isinstance(paired.pair.draws, Key):
        return paired
    made = stage.producers.get(value)
    if made is None or "empty" not in made.operator:
        return paired
    rest = {name: variable for name, variable in paired.variables.items() if name != "input"}
    dtype = code(f"jnp.{jax_dtype(value.dtype)}")
    template = paired.pair.jax.replace("input.dtype", "dtype")
    like = _like(made)
    if like is not None:
        pair = replace(paired.pair, jax=template)
        return of_memory(stage, replace(paired, pair=pair, variables={"input": like, **rest, "dtype": dtype}))
    pair = replace(paired.pair, jax=template.replace("input.shape", "size"), axes=None)
    return replace(paired, pair=pair, variables={"size": tuple(made.arguments["size"]), **rest, "dtype": dtype})


def _like(made: Operation) -> Value | None:
    """Return the tensor whose shape ``empty_like`` copies; None for an explicit size."""
    return None if "size" in made.arguments else made.arguments["self"]
