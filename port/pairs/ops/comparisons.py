"""Comparisons, logical and bitwise operators, and selection by a condition."""

from __future__ import annotations

from port.pairs.ops.axes import Each, Over
from port.pairs.ops.operator_pair import OperatorPair, elementwise_of_two, of_two

_OPERATORS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_left_shift": "<<",
    "bitwise_right_shift": ">>",
}

PAIRS: tuple[OperatorPair, ...] = (
    *(elementwise_of_two(name, f"input {operator} other") for name, operator in _OPERATORS.items()),
    elementwise_of_two("logical_and", "jnp.logical_and(input, other)"),
    elementwise_of_two("logical_or", "jnp.logical_or(input, other)"),
    elementwise_of_two("logical_xor", "jnp.logical_xor(input, other)"),
    of_two("equal", "jnp.array_equal(input, other)", axes=Over(None)),
    OperatorPair(
        "torch.isclose",
        "aten.isclose",
        "torch.isclose(input, other, rtol, atol, equal_nan=equal_nan)",
        "jnp.isclose(input, other, rtol, atol, equal_nan=equal_nan)",
        left_out={"rtol": 1e-5, "atol": 1e-8, "equal_nan": False},
        axes=Each(),
    ),
    OperatorPair(
        "torch.allclose",
        "aten.allclose",
        "torch.allclose(input, other, rtol, atol, equal_nan=equal_nan)",
        "jnp.allclose(input, other, rtol, atol, equal_nan=equal_nan)",
        left_out={"rtol": 1e-5, "atol": 1e-8, "equal_nan": False},
        axes=Over(None),
    ),
    OperatorPair(
        "torch.isin",
        "aten.isin",
        "torch.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)",
        "jnp.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)",
        left_out={"assume_unique": False, "invert": False},
    ),
    OperatorPair(
        "torch.where",
        "aten.where",
        "torch.where(condition, input, other)",
        "jnp.where(condition, input, other)",
        axes=Each(),
    ),
    OperatorPair(
        "torch.masked_fill",
        "aten.masked_fill",
        "torch.masked_fill(input, mask, value)",
        "jnp.where(mask, jnp.asarray(value, input.dtype), input)",
        axes=Each(),
    ),
)
