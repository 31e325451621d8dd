"""Source forms of element-wise operators, as constructors call them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from port.pairs.ops import elementwise, special
from port.translation.ir import syntax
from port.translation.ir.expr import code

_TWO = {
    "add": "input + other",
    "sub": "input - other",
    "mul": "input * other",
    "div": "input / other",
    "floor_divide": "input // other",
    "pow": "input**other",
    "abs": "jnp.abs(input)",
}


def operator_expression(name: str, operands: Sequence[syntax.Expr]) -> syntax.Expr | None:
    """An operator's expression; None where it has no simple one.

    Args:
        name: torch's name, without ``aten.``.
        operands: one or two expressions.
    """
    template = _TWO.get(name) or _of_one().get(f"aten.{name}")
    return None if template is None else code(template, **dict(zip(("input", "other"), operands, strict=False)))


@cache
def _of_one() -> dict[str, str]:
    """Unary operators → their templates in JAX."""
    pairs = (*elementwise.PAIRS, *special.PAIRS)
    return {pair.aten: pair.jax for pair in pairs if pair.says == f"{pair.torch}(input)" and not pair.only_if}
