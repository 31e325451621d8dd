"""Labels that are one number all over are said beside the output whose shape they have."""

from __future__ import annotations

import torch

from port.scripts.observing.graph import Computation
from port.scripts.writing.capture import LossPath, PathTensor
from port.scripts.writing.constants import with_constants
from port.scripts.writing.loss_source import loss_source

OUTPUT = torch.zeros(4)


def call(number: int, name: str, *args: object, kind: str = "function", **more: object) -> Computation:
    return Computation(number, name, kind, None, None, set(), None, 0, more, (args, {}))


def given(number: int | None, kind: str = "(4,) float32", **told: object) -> PathTensor:
    return PathTensor({"tensor": kind, **told}, number, None, torch.ones(4))


def path(number: float, maker: str = "torch.full", kind: str = "(4,) float32") -> LossPath:
    calls = [
        call(1, maker, (4,), number),
        call(2, "torch.Tensor.fill_", given(1), number),
        call(3, "model", given(None, batch="loader", part="0"), kind="module", has_parameters=True, grad=True),
        call(4, "criterion", given(3), given(2, kind), kind="module"),
    ]
    return LossPath(0, calls, 0.0)


def test_a_filled_tensor_is_said_beside_the_output() -> None:
    (one, _) = with_constants([path(0.9), path(0.9)])
    source = loss_source(one, "gan.py")
    assert "self.criterion(x1, torch.full_like(x1, 0.9))" in source.text
    assert len(source.inputs) == 1


def test_another_number_in_another_step_is_an_input() -> None:
    (one, _) = with_constants([path(0.9), path(0.8)])
    assert len(loss_source(one, "gan.py").inputs) == 2


def test_another_shape_is_an_input() -> None:
    (one, _) = with_constants([path(1, kind="(4, 1) float32"), path(1, kind="(4, 1) float32")])
    assert len(loss_source(one, "gan.py").inputs) == 2


def test_what_is_drawn_is_an_input() -> None:
    drawn = path(0.5)
    drawn.calls[1] = call(2, "torch.Tensor.uniform_", given(1), 0.5)
    (one,) = with_constants([drawn])
    assert len(loss_source(one, "gan.py").inputs) == 2
