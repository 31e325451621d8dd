"""Stateful steps: those that draw random numbers or write to the module."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from port.translation.ir.graph import LayerCall, Operation
from port.translation.passes.stateful import is_stateful


def operation(name: str, **arguments: Any) -> Operation:
    return Operation(name, arguments, (), several=False, place=None)


@pytest.mark.parametrize(
    ("step", "draws"),
    [
        (operation("aten.rand.default", size=[2]), True),
        (operation("aten.normal.Tensor_float"), True),
        (operation("aten.multinomial.default"), True),
        (operation("aten.randperm.default"), True),
        (operation("aten.dropout.default", p=0.5, train=True), True),
        (operation("aten.dropout.default", p=0.0, train=True), False),
        (operation("aten.dropout.default", p=0.5, train=False), False),
        (operation("aten.scaled_dot_product_attention.default", dropout_p=0.1), True),
        (operation("aten.scaled_dot_product_attention.default", dropout_p=0.0), False),
        (operation("aten.rrelu.default", training=True), True),
        (operation("aten.rrelu.default"), False),
        (operation("aten.empty_like.default"), False),
        (operation("aten.add.Tensor"), False),
        (operation("mine.unheard_of.default"), False),
    ],
    ids=lambda value: value.operator if isinstance(value, Operation) else str(value),
)
def test_an_operator_that_draws_is_stateful(step: Operation, draws: bool) -> None:
    assert is_stateful(step, training=True) is draws


@pytest.mark.parametrize(
    ("layer", "in_training"),
    [
        (nn.BatchNorm1d(3), True),
        (nn.Dropout(0.5), True),
        (nn.LSTM(3, 3, 2, dropout=0.2), True),
        (nn.Linear(3, 2), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_layer_is_stateful_in_training_alone(layer: nn.Module, in_training: bool) -> None:
    step = LayerCall("layer", layer, (), {}, (), None)
    assert is_stateful(step, training=True) is in_training
    assert not is_stateful(step, training=False)
