"""One operator of a small graph written by hand: lowered for inputs in any layout, and run beside torch's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch import Tensor, nn

import port.nn.functional as F
from port.translation.ir.graph import Graph, Operation, Step, Value
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.layout_decisions import Layouts
from port.translation.ir.lowered import Assignment, LoweredGraph, each_lowered
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.syntax import source
from port.translation.lowering.context import LoweringContext
from port.translation.lowering.lower_graph import lower_graph
from port.translation.lowering.rules import apply

NAMES = {"jax": jax, "jnp": jnp, "lax": lax, "F": F, "np": np}


@dataclass(frozen=True)
class Lowered:
    """What came of an operator.

    Attributes:
        stage: that it was lowered in.
        results: of the operator.
        texts: what was written, a line an assignment; what a result is under another name is not among them.
        arrays: the results as the source gives them.
    """

    stage: LoweringContext
    results: tuple[Value, ...]
    texts: list[str]
    arrays: list[np.ndarray]

    @property
    def layouts(self) -> list[tuple[int, ...]]:
        return [self.stage.layout(value).order for value in self.results]

    @property
    def transposes(self) -> int:
        return sum(step.is_transpose for step in self.stage.lowered if isinstance(step, Assignment))

    def in_torchs(self) -> list[np.ndarray]:
        """The arrays with their axes as torch has them."""
        orders = (self.stage.layout(value).order for value in self.results)
        return [array.transpose(np.argsort(order)) for array, order in zip(self.arrays, orders, strict=True)]


def orders_of(rank: int) -> list[tuple[int, ...]]:
    """All orders of axes."""
    return list(permutations(range(rank)))


def value_of(name: str, tensor: Tensor) -> Value:
    return Value(name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def lowered(
    operator: str,
    *arguments: Any,
    orders: Sequence[tuple[int, ...] | None] = (),
    wanted: tuple[int, ...] | None = None,
    training: bool = False,
    read: int | None = None,
    **named: Any,
) -> tuple[Lowered, list[np.ndarray]]:
    """An operator of ATen's on tensors, lowered and run; and what torch gives.

    Args:
        operator: with its overload, ``"aten.cat.default"``.
        arguments: in the order of its schema.
        orders: in which the tensors' axes lie, in the order in which they are given; torch's where there is none.
        wanted: the order that the result was given, of a permutation.
        training: the mode.
        read: how many of the results are read; the others are not looked at.
        named: arguments by their names.
    """
    library, name, overload = operator.split(".")
    called = getattr(getattr(getattr(torch.ops, library), name), overload)
    expected = called(*arguments, **named)
    several = isinstance(expected, tuple | list)
    made = list(expected) if several else [expected]
    tensors: dict[Value, Tensor] = {}

    def stood_in(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            tensors[value_of(f"x{len(tensors)}", leaf)] = leaf
            return list(tensors)[-1]
        return [stood_in(item) for item in leaf] if isinstance(leaf, list | tuple) else leaf

    schema = called._schema.arguments
    given = {each.name: each.default_value if each.has_default_value() else None for each in schema}
    given |= {each.name: stood_in(argument) for each, argument in zip(schema, arguments, strict=False)}
    given |= {key: stood_in(argument) for key, argument in named.items()}
    results = tuple(value_of(f"y{number}", tensor) for number, tensor in enumerate(made))
    operation = Operation(operator, given, results, several, None)
    steps = (ScopeEnter("", 0, nn.Identity(), {}), operation, ScopeExit("", 0, results[:read]))
    graph = Graph(tuple(tensors), {}, {}, steps)
    preferred = {} if wanted is None else {results[0].name: Layout(wanted)}
    stage = LoweringContext(graph, nn.Identity(), preferred, training)
    names: dict[str, Any] = {}
    for number, (value, tensor) in enumerate(tensors.items()):
        order = orders[number] if number < len(orders) else None
        stage.layouts[value] = torchs(value.rank) if order is None else Layout(order)
        stage.sources.add(value)
        names[value.name] = jnp.asarray(tensor.numpy()).transpose(stage.layout(value).order)
    apply(stage, operation)
    assert not stage.unwritten, stage.unwritten
    texts = []
    for step in stage.lowered:
        assert isinstance(step, Assignment)
        made_here = ", ".join(
            each.name for each in (step.results if isinstance(step.results, tuple) else [step.results])
        )
        text = f"{made_here}{',' * step.several} = {written(step.expression)}"
        exec(text, {**NAMES}, names)
        texts.append(text)
    arrays = [np.asarray(eval(written(stage.ref(value)), {**NAMES}, names)) for value in results[:read]]
    return Lowered(stage, results[:read], texts, arrays), [tensor.numpy() for tensor in made[:read]]


def written(expression: Any) -> str:
    """An expression as text, values by their names."""
    return source(expression).replace("%", "")


def apart(made: Lowered, expected: list[np.ndarray]) -> float:
    """The largest difference; shapes and dtypes must be torch's."""
    ours = made.in_torchs()
    assert [(x.shape, x.dtype) for x in ours] == [(x.shape, x.dtype) for x in expected]
    numbers = [
        np.abs(x.astype(np.float64) - y.astype(np.float64)).max(initial=0) for x, y in zip(ours, expected, strict=True)
    ]
    return float(max(numbers))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def name_of(case: object) -> str | None:
    """The id of a case: an operator's name, or the text that is expected."""
    return case if isinstance(case, str) else ""


def lowered_graph(
    *steps: Step,
    inputs: Sequence[Value],
    results: Any,
    held: dict[Value, str] | None = None,
    constants: dict[Value, Tensor] | None = None,
    model: nn.Module | None = None,
    training: bool = False,
    chosen: dict[str, Layout] | None = None,
) -> tuple[LoweredGraph, list[str]]:
    """A graph of some steps, lowered; and what is written, a line an assignment."""
    model = model or nn.Identity()
    enter, leave = ScopeEnter("", 0, model, {}), ScopeExit("", 0, results)
    graph = Graph(tuple(inputs), held or {}, constants or {}, (enter, *steps, leave))
    lowered = lower_graph(graph, model, Layouts(chosen or {}), training=training)
    return lowered, [written(step.expression) for step in each_lowered(lowered.steps) if isinstance(step, Assignment)]
