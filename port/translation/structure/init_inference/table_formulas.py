"""Write tables with the expressions by which the original's constructors compute them."""

from __future__ import annotations

import math

import numpy as np

from port.translation.frontend.construction.tables import TableFormula
from port.translation.ir import syntax
from port.translation.ir.expr import code, literal
from port.translation.structure.init_inference.operator_expressions import operator_expression

_CLOSE = 1e-5
"""Tolerance, relative to the number and to the largest number: the original rounds to single precision."""


def worked_out_table(formula: TableFormula, values: np.ndarray) -> syntax.Expr | None:
    """Write the expression for a table; None where there is none, or where it yields other numbers.

    Args:
        formula: what was observed while the table was constructed.
        values: the resulting numbers.
    """
    made = _expression(formula)
    if made is None:
        return None
    if not _has_range(formula):
        made = code("jnp.array(number)", number=made)
    try:
        found = np.asarray(eval(syntax.compiled(made), {"jnp": np, "math": math}))
    except Exception:  # numpy lacks a function of jax's, or refuses these numbers
        return None
    if found.shape != values.shape or not found.size:
        return None
    largest = np.abs(values).max()
    return made if np.allclose(found, values, rtol=_CLOSE, atol=_CLOSE * largest) else None


def _expression(part: TableFormula | float) -> syntax.Expr | None:
    if not isinstance(part, TableFormula):
        return literal(part)
    operands = [made for operand in part.operands if (made := _expression(operand)) is not None]
    if len(operands) < len(part.operands):
        return None
    if part.operator == "tensor":
        return operands[0]
    if part.operator == "arange":
        return syntax.Call(code("jnp.arange"), tuple(operands))
    return operator_expression(part.operator, operands)


def _has_range(part: TableFormula | float) -> bool:
    return isinstance(part, TableFormula) and (part.operator == "arange" or any(map(_has_range, part.operands)))
