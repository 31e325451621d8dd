"""Variables and attributes are looked up without running the user's code."""

from __future__ import annotations

import math
import sys
from collections import namedtuple
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from port.translation.frontend.mode_reads import ModeReads
from port.translation.frontend.origins.frame_objects import MISSING, ModulePaths, attribute, code_of, variable

GLOBAL = 7


class Net(nn.Module):
    expansion = 4

    def __init__(self) -> None:
        super().__init__()
        self.heads = 3
        self.inner = nn.ModuleList([nn.Linear(5, 3)])

    @property
    def dim(self) -> int:
        raise AssertionError("it is run")

    def method(self) -> int:
        return 5


def test_modules_have_paths() -> None:
    net = Net()
    paths = ModulePaths(net)
    assert [paths.of(each) for each in (net, net.inner[0], nn.Linear(5, 3), 3)] == ["", "inner.0", None, None]
    net.register_module("again", net.inner[0])
    assert ModulePaths(net).of(net.again) == "inner.0"


def test_variables_of_a_frame() -> None:
    local = 5
    frame = sys._getframe()
    assert [variable(frame, name) for name in ("local", "GLOBAL", "len", "nothing")] == [local, 7, len, MISSING]


def test_attributes_of_a_module_lie_in_it() -> None:
    net = Net()
    assert attribute(net, "heads") == 3 and attribute(net, "expansion") == 4
    assert attribute(net, "inner") is net.inner and attribute(net.inner[0], "weight") is net.inner[0].weight
    assert attribute(net, "method")() == 5
    assert attribute(net, "dim") is MISSING and attribute(net, "nothing") is MISSING


def test_whether_it_trains_is_looked_up_and_not_asked() -> None:
    net = Net()
    reads = ModeReads(net)
    with reads.watched():
        assert attribute(net, "training") is True
    assert not reads.found


class Renaming:
    """Maps attribute names, as a configuration of ``transformers`` does."""

    def __getattr__(self, name: str) -> int:
        if name == "n_head":
            return 3
        raise AttributeError(name)


class Working:
    @cached_property
    def heads(self) -> int:
        raise AssertionError("it is run")


@dataclass
class Options:
    heads: int = 3


@pytest.mark.parametrize(
    ("held", "name", "value"),
    [
        (Options(), "heads", 3),
        (SimpleNamespace(heads=3), "heads", 3),
        (namedtuple("Pair", "heads dim")(3, 5), "dim", 5),
        (Renaming(), "n_head", 3),
        (Renaming(), "dim", MISSING),
        (Working(), "heads", MISSING),
        (math, "pi", math.pi),
        (torch.zeros(3), "ndim", MISSING),
        (MISSING, "heads", MISSING),
    ],
)
def test_attributes_of_other_objects(held: Any, name: str, value: Any) -> None:
    assert attribute(held, name) is value or attribute(held, name) == value


def test_what_runs_when_something_is_called() -> None:
    net = Net()
    assert code_of(Net.method) == (Net.method, ())
    assert code_of(net.method) == (Net.method, (net,))
    assert code_of(net) == (nn.Module.__call__, (net,))
    assert code_of(len) is None and code_of(Net) is None and code_of(MISSING) is None
