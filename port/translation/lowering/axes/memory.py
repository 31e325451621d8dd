"""Memory that numbers are drawn into: its own length and dtype say what is drawn, and it is not made."""

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
    """The operator with the size of its ``input`` in the place of that, if it is memory that was made to be filled."""
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
    """What it is as long as."""
    return None if "size" in made.arguments else made.arguments["self"]
