"""What an expression builds is what its source says."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from port.pairs.expression import Expression, Function, Reference


def evaluated(expression: Expression, source: str | None = None) -> Any:
    """What a person gets who pastes the imports and the source."""
    names: dict[str, Any] = {}
    exec("\n".join([*expression.imports(), f"result = {source or expression.source(width=40)}"]), names)
    return names["result"]


def of(value: Any) -> Expression:
    """Any value inside an expression that gives it back as it is."""
    return Expression(Function(("value",), Reference("value")), (value,))


VALUES = [
    *[0.1, 1e-5, 1e300, 1e16, 1e-300, -2.5, float("inf"), float("-inf"), 3, True, None, np.float64(0.1), np.int32(4)],
    *["cos", 'a "quoted" one', "it's", "a\\b\n"],
    *[[], [1, [2.0]], (), (1,), (1, 2), {}, {"a": (1, "b"), 2: None}],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_written_as_they_are(value: Any) -> None:
    built, read = of(value).build(), evaluated(of(value))
    assert built == read == value
    assert type(read) is type(value.item() if isinstance(value, np.generic) else value)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_])
def test_tables_are_written_as_numpy_arrays(dtype: Any) -> None:
    table = np.random.default_rng(0).normal(size=(3, 5)).astype(dtype)
    built, read = of(table).build(), evaluated(of(table))
    np.testing.assert_array_equal(built, read)
    assert read.dtype == dtype
    assert of(table).imports() == ["import numpy as np"]


def test_numbers_are_written_as_a_person_writes_them() -> None:
    assert of([1e-5, 1e16, 0.25]).source() == "(lambda value: value)([1e-5, 1e16, 0.25])"


def test_functions_of_names_around_them() -> None:
    scale = Function(("a",), Function(("b",), Expression("operator.sub", (Reference("a"), Reference("b")))))
    expression = Expression(Expression(scale, (7,)), (), {"b": 2})
    assert expression.source() == "(lambda a: lambda b: operator.sub(a, b))(7)(b=2)"
    assert expression.build() == evaluated(expression) == 5
    assert scale.source() == "lambda a: lambda b: operator.sub(a, b)"
    assert Function((), 3).source() == "lambda: 3"
    # An inner name hides an outer one.
    assert Expression(Expression(Function(("a",), Function(("a",), Reference("a"))), (7,)), (2,)).build() == 2


def test_a_closure_has_the_parameters_of_its_lambda() -> None:
    """`optax.inject_hyperparams` reads them."""
    import optax

    expression = Expression(
        Expression(
            "optax.inject_hyperparams",
            (Function(("rate", "b1"), Expression("optax.sgd", (Reference("rate"), Reference("b1")))),),
        ),
        (),
        {"rate": 0.5, "b1": 0.25},
    )
    for transformation in (expression.build(), evaluated(expression)):
        assert set(transformation.init({"w": np.ones(2)}).hyperparams) == {"rate", "b1"}
    assert expression.imports() == ["import optax"]
    assert list(inspect.signature(optax.sgd).parameters)[:2] == ["learning_rate", "momentum"]


def test_imports_are_those_of_every_name_once() -> None:
    inner = Expression("port.transforms.step_lr", (0.1,), {"step_size": 3})
    expression = Expression("optax.chain", (Expression("optax.scale", (Reference("math.pi"),)), [inner, {"a": inner}]))
    assert expression.imports() == ["from port import transforms", "import math", "import optax"]
    assert "transforms.step_lr(0.1, step_size=3)" in expression.source()
    assert "optax.scale(math.pi)" in expression.source()


def test_a_name_that_nothing_gives_is_an_error() -> None:
    with pytest.raises(NameError, match="'b1'"):
        Expression("operator.neg", (Reference("b1"),)).build()


def test_equal_where_written_alike() -> None:
    first = Expression("operator.neg", (np.arange(3.0),))
    assert first == Expression("operator.neg", (np.arange(3.0),))
    assert hash(first) == hash(Expression("operator.neg", (np.arange(3.0),)))
    assert first != Expression("operator.neg", (np.arange(4.0),))
    assert first != "operator.neg"


def test_a_notebooks_own_needs_no_import() -> None:
    call = Expression("optax.chain", (Expression("__main__.scale_by_own", (0.9,)),))
    assert call.source() == "optax.chain(scale_by_own(0.9))"
    assert call.imports() == ["import optax"]
