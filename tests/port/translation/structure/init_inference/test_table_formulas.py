"""Tables are written as the original computes them, and never as an expression with other values."""

from __future__ import annotations

import numpy as np

from port.translation.frontend.construction.tables import TableFormula
from port.translation.ir import syntax
from port.translation.structure.init_inference.table_formulas import worked_out_table

STEPS = TableFormula("div", (TableFormula("arange", (0, 6, 2)), 6))
FREQUENCIES = TableFormula("div", (1.0, TableFormula("pow", (100.0, STEPS))))
NUMBERS = np.float32(1 / 100 ** (np.arange(0, 6, 2) / 6))


def test_as_its_author_wrote_it() -> None:
    made = worked_out_table(FREQUENCIES, NUMBERS)
    assert made is not None
    assert syntax.source(made) == "1.0 / 100.0 ** (jnp.arange(0, 6, 2) / 6)"


def test_other_numbers_are_not_believed() -> None:
    assert worked_out_table(FREQUENCIES, NUMBERS * np.float32(1.001)) is None
    assert worked_out_table(FREQUENCIES, NUMBERS[:2]) is None


def test_what_no_pair_writes_is_left() -> None:
    assert worked_out_table(TableFormula("digamma", (TableFormula("arange", (1, 4)),)), NUMBERS) is None


def test_a_number_becomes_an_array() -> None:
    number = TableFormula("tensor", (2.5,))
    for formula, text, value in (
        (number, "jnp.array(2.5)", 2.5),
        (TableFormula("mul", (number, 4)), "jnp.array(2.5 * 4)", 10.0),
        (TableFormula("mul", (number, TableFormula("arange", (3,)))), "2.5 * jnp.arange(3)", 2.5 * np.arange(3)),
    ):
        made = worked_out_table(formula, np.asarray(value, np.float32))
        assert made is not None and syntax.source(made) == text
    assert worked_out_table(number, np.asarray(2.6, np.float32)) is None
