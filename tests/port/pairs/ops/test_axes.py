"""What the pairs say of axes, on torch's own samples: the result for permuted arrays is the permuted result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from operator_cases import CASES
from port.pairs.ops import GIVEN, OPERATORS, OperatorPair
from port.pairs.ops.axes import Along, Each, Inserted, Over, Spatial

pytestmark = pytest.mark.filterwarnings("ignore")

Values = dict[str, Any]
Moved = Callable[[np.ndarray], np.ndarray]
# What the others say of axes is proved where they are lowered: tests/port/translation/lowering/axes.
DECLARED = [
    pair for pair in OPERATORS if isinstance(pair.axes, Each | Along | Over | Spatial | Inserted) and pair.draws is None
]
given: Values = {}
exec(GIVEN, given)


def name_of(pair: OperatorPair) -> str:
    return pair.torch.removeprefix("torch.").removeprefix("nn.functional.")


def another_order(rank: int) -> tuple[int, ...]:
    """One in which no axis stays where it is."""
    random = np.random.default_rng(rank)
    while True:
        order = tuple(map(int, random.permutation(rank)))
        if rank < 2 or all(place != axis for place, axis in enumerate(order)):
            return order


def permuted(pair: OperatorPair, values: Values) -> tuple[Values, Moved]:
    """The variables for arrays with other axes, and what becomes of a result."""
    if isinstance(pair.axes, Spatial):
        channels = 1 if pair.axes.axes is None else -1 - pair.axes.axes
        of_result = channels if pair.axes.results is None else -1 - pair.axes.results
        image = jnp.moveaxis(values["input"], channels, -1)
        return {**values, "input": image}, lambda result: np.moveaxis(result, of_result, -1)
    arrays = [x for x in jax.tree.leaves(list(values.values())) if isinstance(x, jax.Array)]
    rank = arrays[0].ndim if isinstance(pair.axes, Along) else max(x.ndim for x in arrays)
    order = another_order(rank)

    def without(value: Any, dim: int) -> Any:
        left = [axis for axis in range(rank) if axis != dim % rank]
        return value.transpose([left.index(axis) for axis in order if axis != dim % rank])

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(moved, value))
        if not isinstance(value, jax.Array) or not value.ndim:
            return value
        if not isinstance(pair.axes, Along):
            value = value.reshape((1,) * (rank - value.ndim) + value.shape)
        return value.transpose(order) if value.ndim == rank else value

    def renumbered(axis: Any) -> Any:
        return tuple(map(renumbered, axis)) if isinstance(axis, tuple) else order.index(axis % rank)

    other = {name: moved(value) for name, value in values.items()}
    match pair.axes:
        case Along(variables):
            named = variables
        case Over(variable) if variable is not None:
            named = (variable,)
        case Inserted(variable):
            # It goes behind the axis that torch has before it.
            dim = values[variable] % (rank + 1)
            place = order.index(dim - 1) + 1 if dim else 0
            longer = [axis + (axis >= dim) for axis in order]
            longer.insert(place, dim)
            return other | {variable: place}, lambda result: result.transpose(longer)
        case _:
            named = ()
    if isinstance(pair.axes, Along):
        other |= {name: without(values[name], values[named[0]]) for name in pair.axes.without}
    other |= {name: renumbered(values[name]) for name in named if values[name] is not None}

    def result_of(result: np.ndarray) -> np.ndarray:
        if result.ndim == rank:
            return result.transpose(order)
        assert isinstance(pair.axes, Over), result.shape
        reduced = values[named[0]] if named else None
        if reduced is None:
            return result
        gone = {axis % rank for axis in (reduced if isinstance(reduced, tuple) else (reduced,))}
        left = sorted(set(range(rank)) - gone)
        return result.transpose([left.index(axis) for axis in order if axis not in gone])

    return other, result_of


def apart(pair: OperatorPair, values: Values, sides: Any) -> float:
    """How far the result for permuted arrays is from torch's, permuted."""
    other, moved = permuted(pair, {name: sides.in_jax(value) for name, value in values.items()})
    source = pair.axes.last if isinstance(pair.axes, Spatial) else pair.jax
    got = [np.asarray(x) for x in jax.tree.leaves(eval(source, {**given, **other}))]
    got = [x.astype(np.float32) if x.dtype == jnp.bfloat16 else x for x in got]
    return sides.difference(got, [moved(x) for x in sides.in_torch(pair, values, False)[0]])


@pytest.fixture
def tried(samples: Any, sides: Any, complete: Any, fits: Any) -> Callable[..., list[float]]:
    """The differences for a pair's samples that have axes to permute; the first few."""

    def of(pair: OperatorPair, declared: Any = None, number: int = 3) -> list[float]:
        own = (complete(pair, values) for name, values in CASES if name in (pair.torch, pair.says))
        found = [values for values in own if values is not None and fits(pair, values)]
        for dtype in (torch.float64, torch.int64, torch.complex128):
            found += (
                [] if found else list(filter(has_axes, (table(pair, v) for _, v in islice(samples(pair, dtype), 60))))
            )
        chosen = found[:: math.ceil(len(found) / number) or 1]
        pair = replace(pair, axes=declared or pair.axes)
        return [apart(pair, values, sides) for values in chosen]

    return of


def table(pair: OperatorPair, values: Values) -> Values:
    """Rows as tables, where torch's samples of a function of one number are rows."""
    if not isinstance(pair.axes, Each) or has_axes(values):
        return values
    return {
        name: value.reshape(2, -1) if isinstance(value, torch.Tensor) and value.numel() % 4 == 0 else value
        for name, value in values.items()
    }


def has_axes(values: Values) -> bool:
    arrays = [x for value in values.values() for x in (value if isinstance(value, list | tuple) else [value])]
    return any(isinstance(x, torch.Tensor) and sum(n > 1 for n in x.shape) > 1 for x in arrays)


@pytest.mark.thin(180)
@pytest.mark.parametrize("pair", DECLARED, ids=name_of)
def test_what_is_declared_holds(pair: OperatorPair, tried: Any) -> None:
    differences = tried(pair)
    assert differences, "no sample has axes to permute"
    assert max(differences) <= 1e-12


FALSE = [
    ("torch.fliplr", Each()),
    ("torch.cumsum", Each()),
    ("torch.argmax", Over(None)),
    ("torch.sum", Along("dim")),
    ("torch.nn.functional.prelu", Spatial(None, "jnp.where(input > 0, input, weight[..., None] * input)")),
]


@pytest.mark.thin(3)
@pytest.mark.parametrize(("name", "declared"), FALSE, ids=lambda case: str(case)[:20])
def test_a_false_declaration_is_seen(name: str, declared: Any, tried: Any) -> None:
    pair = next(pair for pair in OPERATORS if pair.torch == name)
    try:
        differences = tried(pair, declared)
    except (AssertionError, TypeError, ValueError):
        return  # the shapes do not even fit
    assert max(differences) > 1e-3


def test_the_expression_for_images_is_made_of_that_with_the_channels_last() -> None:
    for pair in OPERATORS:
        if isinstance(pair.axes, Spatial):
            assert pair.jax == pair.axes.first
            assert "input=" not in pair.axes.last


def test_only_variables_are_named() -> None:
    for pair in DECLARED:
        match pair.axes:
            case Along(named):
                assert named
            case Over(variable, keepdim):
                named = tuple(name for name in (variable, keepdim) if name is not None)
            case _:
                named = ()
        said = pair.says.replace("(", " ").replace(")", " ").replace(",", " ").replace("=", " ").split()
        assert set(named) <= set(said), pair.says
