"""In-place operators become functional ones, node by node; where a view aliases the tensor nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from port.translation.frontend.in_place import replace_in_place_operators

from .test_functional_form import as_torch_does, exported, said


def residual(x: Tensor) -> Tensor:
    y = x * 2
    y += x
    y.relu_().mul_(3)
    return y.sum(0) + y


def composite(x: Tensor) -> Tensor:
    return torch.flatten(x.unsqueeze(0).reshape(2, -1, 3), 1).contiguous().chunk(2, 1)[0]


def a_view_at_last(x: Tensor) -> Tensor:
    y = (x + 1).view(-1)
    return y.add_(1)


def free(x: Tensor) -> Tensor:
    y = x.exp()
    y *= x.sum(-1, keepdim=True)
    return y.reshape(x.shape[0], -1, 2).chunk(2, 1)[0].flatten(0, 1)


def read_after(x: Tensor) -> Tensor:
    y = x * 2
    part = y[0]
    y += 1
    return part


def written_through_a_view(x: Tensor) -> Tensor:
    y = x * 2
    y[0].add_(1)
    return y


def an_input(x: Tensor) -> Tensor:
    return x.add_(1)


def another_precision(x: Tensor) -> Tensor:
    return (x * 2).mul_(torch.tensor([2.0], dtype=torch.float64))


SIMPLE = [residual, composite]
OTHERS = [
    a_view_at_last,
    read_after,
    written_through_a_view,
    an_input,
    another_precision,
    lambda x: torch.nn.functional.dropout(x),
]


@pytest.mark.parametrize("function", SIMPLE)
def test_what_is_made_is_what_torch_makes(function: Callable[..., Any]) -> None:
    program = exported(function, torch.randn(2, 6))
    theirs = as_torch_does(program)
    assert replace_in_place_operators(program)
    assert said(program) == theirs


@pytest.mark.parametrize("function", [*SIMPLE, free])
def test_it_computes_the_same(function: Callable[..., Any]) -> None:
    x = torch.randn(2, 6)
    program = exported(function, x)
    assert replace_in_place_operators(program)
    program.graph_module.recompile()
    (made,) = program.graph_module(x)
    torch.testing.assert_close(made, function(x.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("function", OTHERS)
def test_what_something_else_names_is_left_to_torch(function: Callable[..., Any]) -> None:
    program = exported(function, torch.randn(2, 6))
    before = str(program.graph)
    assert not replace_in_place_operators(program)
    assert str(program.graph) == before


def test_free_lengths_are_those_that_torch_finds() -> None:
    def of(program: Any) -> list[str]:
        return [str(node.meta["val"].shape) for node in program.graph.nodes if isinstance(node.meta.get("val"), Tensor)]

    def captured() -> Any:
        from .test_functional_form import Calls

        shapes = ((({0: torch.export.Dim.AUTO},)),)
        return torch.export.export(Calls(free), (torch.randn(4, 6),), strict=False, dynamic_shapes=shapes)

    program = captured()
    assert replace_in_place_operators(program)
    assert of(program) == of(captured().run_decompositions({}))
    assert any("s" in shape for shape in of(program))
