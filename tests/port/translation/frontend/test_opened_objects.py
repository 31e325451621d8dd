"""Objects become dicts of their tensors; objects without tensors, and torch's own, stay as they are."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from port.translation.frontend.opened_objects import opened

X, Y = torch.randn(2, 3), torch.randn(3)


@dataclass
class Outputs:
    first: Tensor
    other: Any = None


class Held:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Kept(OrderedDict[str, Tensor]):
    pass


def test_dataclasses_and_mappings() -> None:
    tree = ({"a": Outputs(X, [Outputs(Y)])}, Kept(z=Y))
    expected = ({"a": {"first": X, "other": [{"first": Y, "other": None}]}}, {"z": Y})
    assert opened(tree) == opened(tree, objects=False) == expected


def test_objects_by_their_public_names_first() -> None:
    held = Held(_again=X, mean=X, name="normal", _hidden=Y, inner=Held(deep=X * 2))
    assert list(opened([held])[0]) == ["mean", "inner", "_hidden"]
    assert opened([held], objects=False) == [held]


def test_what_holds_no_tensor_stays() -> None:
    layer, empty = nn.Linear(2, 2), Held(name="x", count=3)
    tree = [layer, empty, 3, "text", None, torch.float32, torch.Size([2]), Tensor]
    assert opened(tree) == tree


def test_python_modules_and_functions_are_not_looked_into() -> None:
    held = Held(x=X, arrays=np, logger=logging.getLogger(), function=torch.sin)
    assert opened([held]) == [{"x": X}]
    assert opened([Held(arrays=np)])[0].arrays is np


def test_what_is_shared_is_looked_at_once() -> None:
    shared: Any = Held(x=X)
    for _ in range(64):
        shared = Held(one=shared, other=shared)
    assert opened([shared]) != [shared]


def test_what_holds_itself_ends() -> None:
    held = Held(x=X)
    held.itself = held
    assert opened([held]) == [{"x": X}]
