"""Templates, literals, and queries on expressions."""

from __future__ import annotations

import math
from enum import Enum, IntEnum, StrEnum
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from port.translation.ir import syntax
from port.translation.ir.expr import (
    NoSource,
    code,
    dotted,
    filled,
    held,
    item_of,
    literal,
    names_in,
    ref,
    renamed,
    values_in,
    worth,
)
from port.translation.ir.graph import Value
from port.translation.ir.syntax import parsed, source

X = Value("x", (2, 3), "float32")


def test_holes_are_filled_and_nothing_else() -> None:
    made = code("jnp.sum(x, axis=axis)[x, f(lambda x: y)]", x=X, axis=(0, -1))
    assert source(made) == "jnp.sum(%x, axis=(0, -1))[%x, f(lambda x: y)]"
    assert source(code("f(x)", x=syntax.Name("x"))) == "f(x)"
    assert code("jnp.float32") is code("jnp.float32")


def test_what_fills_a_hole_is_not_filled_again() -> None:
    assert source(code("f(x, y)", x=code("y + 1"), y=code("x"))) == "f(y + 1, x)"


def test_a_hole_that_nothing_is_given_for_stays() -> None:
    tree = parsed("f(a, b)", holes=("a", "b"))
    assert filled(tree, {"a": syntax.Const(1)}) == parsed("f(1, b)", holes=("b",))


NUMBERS = (0, -3, 2.5, -2.5, 1e-30, True, 2j, 3 - 2j, math.inf, -math.inf)
THINGS = (None, "a", b"b", ..., (), (1,), [1, (2, -3)], {"a": [1], 2: None})


@pytest.mark.parametrize("thing", [*NUMBERS, *THINGS])
def test_a_literal_is_worth_what_it_is_of(thing: Any) -> None:
    made = eval(source(literal(thing)), {"jnp": jnp})
    assert made == thing and type(made) is type(thing)


class Level(IntEnum):
    HIGH = 5


class Name(StrEnum):
    FIRST = "a"


def test_members_of_an_enum_are_their_values() -> None:
    assert source(literal((Level.HIGH, Name.FIRST))) == "(5, 'a')"
    with pytest.raises(NoSource):
        literal(Enum("Kind", "RELU").RELU)


def test_literals_that_numbers_do_not_say() -> None:
    assert math.isnan(eval(source(literal(math.nan)), {"jnp": jnp}))
    assert source(literal(np.dtype("bool"))) == "jnp.bool_"
    limits = np.finfo(np.float64)
    assert source(literal(float(-limits.max))) == "-jnp.finfo(jnp.result_type(float)).max"
    assert source(syntax.Subscript(syntax.Name("x"), literal(slice(1, None, 2)))) == "x[1::2]"
    with pytest.raises(NoSource, match="no source for <object"):
        literal(object())


def test_what_constants_are_worth() -> None:
    for thing in (3, -3, "a", (1, [2.5, None]), {"a": (-1,)}):
        assert worth(literal(thing)) == thing
    for text in ("x", "1 + 2", "(1, x)", "-x", "not 1"):
        with pytest.raises(ValueError, match="is not a constant"):
            worth(parsed(text))


def test_a_chain_of_names() -> None:
    assert [dotted(parsed(text)) for text in ("x", "a.b.c", "f(x).y", "x[0].y", "1")] == ["x", "a.b.c", "", "", ""]


def test_what_stands_in_an_expression() -> None:
    made = code("f(x, w, lambda y: y)", x=item_of(ref(X), "key"), w=held("layer", "weight"))
    assert values_in(made) == ["x"] and names_in(made) == {"f", "y"}
    assert values_in(code("x + y * x", x=X, y=Value("y", (), "float32")), None) == ["x", "y", "x"]


def test_values_and_what_is_held_are_renamed() -> None:
    made = code("x + f(w)", x=X, w=held("layer", "weight"))
    names = {ref(X): parsed("images"), held("layer", "weight"): parsed("self.layer.weight")}
    assert source(renamed(made, names.__getitem__)) == "images + f(self.layer.weight)"
