"""Operators without effect are removed, and their readers read the operand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation.ir.graph import Graph, Loop, Operation, Value
from port.translation.ir.module_calls import ScopeExit
from port.translation.ir.verifier import verify_graph
from port.translation.passes.identities import without_identities

from ..ir.graphs import H, W, X, Y, looped, operation, straight, value

LINEAR = operation("aten.linear.default", H, input=X, weight=W)
RELU = operation("aten.relu.default", Y, self=H)


def operators(graph: Graph) -> list[str]:
    return [step.operator for step in graph.steps if isinstance(step, Operation)]


def between(operator: str, other: Any, *, dtype: str = "float32", result: Any = None, **more: Any) -> Graph:
    """A model that does something with the linear layer's output before it goes on."""
    taken = replace(H, dtype=dtype)
    made = result or replace(value("same", "n", 5), dtype=dtype)
    return straight(
        replace(LINEAR, results=(taken,)),
        replace(operation(operator, made, self=taken, other=other), **more),
        operation("aten.relu.default", Y, self=made),
    )


@pytest.mark.parametrize(
    ("operator", "other", "dtype"),
    [
        ("aten.mul.Tensor", 1.0, "float32"),
        ("aten.mul.Tensor", 1, "bfloat16"),
        ("aten.div.Tensor", 1.0, "float64"),
        ("aten.add.Tensor", 0, "int64"),
        ("aten.sub.Scalar", 0, "int32"),
    ],
)
def test_what_changes_nothing_is_left_out(operator: str, other: Any, dtype: str) -> None:
    made = without_identities(between(operator, other, dtype=dtype))
    verify_graph(made)
    assert operators(made) == ["aten.linear.default", "aten.relu.default"]


@pytest.mark.parametrize(
    ("operator", "other", "more"),
    [
        ("aten.mul.Tensor", 2.0, {}),
        ("aten.mul.Tensor", True, {}),
        ("aten.mul.Tensor", 1.0, {"detached": True}),  # it stops a gradient
        ("aten.mul.Tensor", 1.0, {"dtype": "int64", "result": value("same", "n", 5)}),  # it makes floats
        ("aten.add.Tensor", 0, {}),  # -0.0 + 0 is 0.0
        ("aten.add.Tensor", 1, {"dtype": "int64"}),
        ("aten.sub.Tensor", 1, {"dtype": "int64"}),
        ("aten.pow.Tensor_Scalar", 1, {}),
    ],
)
def test_what_changes_something_stays(operator: str, other: Any, more: dict[str, Any]) -> None:
    graph = between(operator, other, **more)
    assert without_identities(graph) is graph


@pytest.mark.parametrize(
    ("pad", "kept"), [([0, 0, 0, 0], False), ([0, 0, 0, 1], True), ([0, Value("width", None, "size", "n")], True)]
)
def test_a_pad_of_no_width_is_left_out(pad: list[Any], kept: bool) -> None:
    padded = value("same", "n", 5)
    steps = (LINEAR, operation("aten.pad.default", padded, self=H, pad=pad))
    made = without_identities(straight(*steps, operation("aten.relu.default", Y, self=padded)))
    assert ("aten.pad.default" in operators(made)) == kept


def test_a_parameter_stays_what_it_is() -> None:
    same = value("same", 5, 3)
    graph = straight(
        operation("aten.mul.Tensor", same, self=W, other=1.0),
        operation("aten.linear.default", Y, input=X, weight=same),
    )
    assert without_identities(graph) is graph


def test_one_behind_another_what_is_given_and_what_is_written() -> None:
    first, second = value("first", "n", 5), value("second", "n", 5)
    graph = straight(
        LINEAR,
        operation("aten.mul.Tensor", first, self=H, other=1.0),
        operation("aten.div.Tensor", second, self=first, other=1),
    )
    graph = replace(graph, steps=(*graph.steps[:-1], ScopeExit("", 0, (second, first))), written={"weight": second})
    made = without_identities(graph)
    verify_graph(made)
    last = made.steps[-1]
    assert isinstance(last, ScopeExit) and last.results == (H, H)
    assert made.written == {"weight": H}


def test_within_a_loop() -> None:
    graph = looped()
    before, loop, behind = graph.steps
    assert isinstance(loop, Loop)
    same = value("same", "n", 5)
    (step,) = loop.steps
    assert isinstance(step, Operation)
    scaled = operation("aten.mul.Tensor", same, self=step.results[0], other=1.0)
    carried = tuple(replace(each, next=same) for each in loop.carried)
    stacked = tuple(replace(each, inside=same) for each in loop.stacked)
    graph = replace(
        graph, steps=(before, replace(loop, steps=(step, scaled), carried=carried, stacked=stacked), behind)
    )
    verify_graph(graph)
    made = without_identities(graph)
    verify_graph(made)
    assert made.steps == looped_like(made, loop)


def looped_like(graph: Graph, loop: Loop) -> tuple[Any, ...]:
    """The steps of a graph with another loop in the middle."""
    before, _, behind = graph.steps
    return before, loop, behind


class Block(nn.Module):
    """An option of a class: on in one instance, off in the other."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.mix, self.scale = nn.Linear(3, 3), scale

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.mix(x)


@pytest.mark.sweep
def test_instances_of_which_one_uses_an_option_are_one_class() -> None:
    made = port.translate(nn.Sequential(Block(0.5), Block()), torch.randn(2, 3))
    assert made.proof is not None and made.proof.agrees
    assert made.source.count("class Block") == 1 and "self.scale * self.mix(x)" in made.source
    assert "self.scale" not in port.translate(nn.Sequential(Block(), Block()), torch.randn(2, 3)).source


class Scaled(nn.Module):
    """Its options are turned off."""

    def __init__(self, past: int = 0, scaling: float = 1.0) -> None:
        super().__init__()
        self.past, self.scaling = past, scaling
        self.positions = nn.Embedding(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1]) + self.past
        scaled: Tensor = (x + self.positions(places)).cos() * self.scaling
        return scaled


@pytest.mark.parametrize(("past", "scaling"), [(0, 1.0), (2, 1.5)])
@pytest.mark.sweep
def test_options_that_are_off_are_not_written(past: int, scaling: float) -> None:
    made = port.translate(Scaled(past, scaling), torch.randn(2, 5, 3))
    assert made.proof is not None and made.proof.agrees
    assert ("+ self.past" in made.source, "* self.scaling" in made.source) == (past == 2,) * 2
    assert "+ 0" not in made.source and "* 1.0" not in made.source
