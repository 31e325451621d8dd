"""Layers that require real bools get them, and their attributes keep the origin."""

from __future__ import annotations

import pytest
from torch import nn

from port.translation.frontend.construction.true_bools import with_true_bools
from port.translation.ir.origin import AttributeOf
from port.translation.ir.origin_numbers import OriginBool, OriginInt, origin_of

SWITCH = AttributeOf("", "first")


def test_it_is_held_with_its_origin() -> None:
    width, first = OriginInt(4, AttributeOf("", "width")), OriginBool(True, SWITCH)
    layer = with_true_bools(nn.GRU, 3, width, batch_first=first, bidirectional=OriginBool(False, SWITCH))
    assert layer.batch_first == 1 and origin_of(layer.batch_first) == SWITCH
    assert origin_of(layer.hidden_size) == AttributeOf("", "width")


def test_one_that_does_not_ask_is_given_it_as_it_is() -> None:
    given = []
    with_true_bools(lambda bias: given.append(bias), OriginBool(True, SWITCH))
    assert origin_of(given[0]) == SWITCH


def test_another_mistake_is_raised() -> None:
    with pytest.raises(TypeError, match="nothing"):
        with_true_bools(nn.GRU, 3, 4, nothing=OriginBool(True, SWITCH))
    with pytest.raises(TypeError):
        with_true_bools(nn.GRU, 3, "4")
