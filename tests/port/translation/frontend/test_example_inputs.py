"""Example inputs: drawn from shapes, returned by a callable, or intercepted on their way into a part."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from port.errors import UnknownChoice, UsageError
from port.translation.frontend.example_inputs import arguments, drawn, inside


def test_shapes_and_dtypes() -> None:
    args, kwargs = drawn("2,3", "4:int64", "int32:1,2", ":bool", "2:bfloat16", "2:complex64", "5:float64")
    assert kwargs == {}
    assert [(tuple(tensor.shape), tensor.dtype) for tensor in args] == [
        ((2, 3), torch.float32),
        ((4,), torch.int64),
        ((1, 2), torch.int32),
        ((), torch.bool),
        ((2,), torch.bfloat16),
        ((2,), torch.complex64),
        ((5,), torch.float64),
    ]
    assert set(drawn("100:int64")[0][0].tolist()) == {0, 1}, "indices into any table of two rows"


def test_the_same_numbers_each_time_and_others_with_another_seed() -> None:
    before = torch.get_rng_state()
    (first,), _ = drawn("50")
    (again,), _ = drawn("50")
    (other,), _ = drawn("50", seed=1)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state()), "nobody else's generator is drawn from"


@pytest.mark.parametrize("text", ["", "a", "2,", "-1", "2;3", "2:linear", "2:nn", "2.5"])
def test_what_is_no_shape(text: str) -> None:
    with pytest.raises(UsageError, match="an input is a shape"):
        drawn(text)


def test_what_cannot_be_drawn_and_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="torch draws no numbers of int7; make the inputs in a function"):
        drawn("2:int7")
    with pytest.raises(UsageError, match=r"1,3,99999999,99999999 does not fit into the memory here: it has 29,99"):
        drawn("1,3,99999999,99999999")
    with pytest.raises(UsageError, match="5,99999999999999999999 does not fit into the memory here"):
        drawn("2", "5,99999999999999999999")


def test_what_a_callable_may_give() -> None:
    x, y = torch.ones(1), torch.zeros(1)
    assert arguments(x) == ((x,), {})
    assert arguments((x, y)) == ((x, y), {})
    assert arguments([x]) == ((x,), {})
    assert arguments({"x": x}) == ((), {"x": x})
    assert arguments(((x,), {"y": y})) == ((x,), {"y": y})


class Part(nn.Module):
    def forward(self, x: Any, scale: Any = None) -> Any:
        return x if scale is None else x * scale


class Whole(nn.Module):
    """Calls its part twice, changes its inputs in between, and then fails."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Part()
        self.drop = nn.Dropout(0.5)
        self.parts = nn.ModuleList([Part()])

    def forward(self, x: Any) -> Any:
        x = self.part(self.drop(x) + 1, scale=x)
        x.zero_()
        raise RuntimeError("behind the part")


def test_a_part_s_first_inputs_are_caught() -> None:
    whole = Whole()
    x = torch.arange(4.0)
    part, args, kwargs = inside(whole, "part", (x,), {})
    assert part is whole.part
    assert torch.equal(args[0], x + 1), "in evaluation"
    assert torch.equal(kwargs["scale"], x) and kwargs["scale"] is not x
    assert whole.training and not whole.part._forward_pre_hooks, "the model stays as it is"


def test_a_part_that_is_not_there_or_not_called() -> None:
    with pytest.raises(UnknownChoice, match=r"unknown part of Whole 'prat'; there are: part"):
        inside(Whole(), "prat", (torch.ones(2),), {})
    whole = Whole()
    whole.forward = lambda x: x  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="does not call its part parts"):
        inside(whole, "parts", (torch.ones(2),), {})
    with pytest.raises(UsageError, match="does not take the example inputs: TypeError"):
        inside(Whole(), "part", (), {})
    with pytest.raises(UsageError, match="RuntimeError: behind the part"):
        inside(Whole(), "parts.0", (torch.ones(2),), {})
