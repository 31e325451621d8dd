"""Numbers in constructor arguments remember their position there."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
import torch

from port.translation.frontend.construction.arguments import TrackedArguments, is_configuration
from port.translation.ir.origin import ConstructorArgument
from port.translation.ir.origin_numbers import origin_of


@dataclass(frozen=True)
class Inner:
    width: int = 3


@dataclass
class Settings:
    dim: int = 4
    name: str = "net"
    sizes: tuple[int, ...] = (5, 6)
    inner: Inner = field(default_factory=Inner)


class NetConfig:
    def __init__(self, dim: int) -> None:
        self.dim = dim


class Derived(NetConfig):
    pass


@dataclass(slots=True)
class Slotted:
    dim: int = 4


def known(value: Any) -> Any:
    return TrackedArguments().known(value, 7, "given")


def argument(number: Any) -> str | None:
    origin = origin_of(number)
    assert origin is None or (isinstance(origin, ConstructorArgument) and origin.constructor == 7)
    return None if origin is None else origin.argument


def test_numbers() -> None:
    for value in (3, 0.5, True, False):
        assert argument(known(value)) == "given"
        assert known(value) == value
    assert known("text") == "text"
    assert known(None) is None
    layer = torch.nn.ReLU()
    assert known(layer) is layer


def test_a_number_of_another_constructor_is_now_this_ones() -> None:
    before = TrackedArguments().known(3, 2, "other")
    assert argument(known(before)) == "given"


def test_within_others() -> None:
    assert [argument(item) for item in known((3, "text", 5))] == ["given[0]", None, "given[2]"]
    assert type(known([3])) is list
    assert argument(known({"dim": [2, 3]})["dim"][1]) == "given['dim'][1]"
    assert argument(known({1: 2})[1]) is None
    assert argument(known((((3,),),))[0][0][0]) == "given[0][0][0]"
    assert argument(known(((((3,),),),))[0][0][0][0]) is None
    long = tuple(range(65))
    assert known(long) is long


class Kind(Enum):
    RELU = "relu"


@pytest.mark.parametrize("odd", [Kind.RELU, Inner(), torch.float32, {3}, object()])
def test_a_container_that_source_cannot_hold_is_left(odd: Any) -> None:
    for container in ((3, odd), [3, odd], {"a": 3, "b": odd}, ((3, odd),)):
        assert known(container) is container
    held = Settings(sizes=(3, odd))
    assert argument(known(held).sizes[0]) is None
    assert argument(known(held).dim) == "given.dim"


def test_a_configuration_is_copied() -> None:
    given = Settings()
    made = known(given)
    assert made == given and made is not given
    assert argument(made.dim) == "given.dim"
    assert argument(made.sizes[1]) == "given.sizes[1]"
    assert argument(made.inner.width) == "given.inner.width"
    assert type(given.dim) is type(given.inner.width) is int


def test_which_argument_a_configuration_is() -> None:
    arguments = TrackedArguments()
    made = arguments.known(Settings(), 7, "config")
    assert arguments.origin_of_object(made) == ConstructorArgument(7, "config")
    assert arguments.origin_of_object(made.inner) == ConstructorArgument(7, "config.inner")
    assert arguments.origin_of_object(Settings()) is None
    # A module inside is given the same: it is that one's argument, then.
    passed = arguments.known(made.inner, 8, "inner")
    assert arguments.origin_of_object(passed) == ConstructorArgument(8, "inner")
    assert arguments.origin_of_object(made.inner) == ConstructorArgument(7, "config.inner")


@pytest.mark.parametrize("value", [Settings(), Inner(), argparse.Namespace(dim=3), NetConfig(3), Derived(3)])
def test_what_holds_settings(value: Any) -> None:
    assert is_configuration(value)


@pytest.mark.parametrize("value", [Settings, NetConfig, {"dim": 3}, 3, torch.nn.ReLU(), Slotted(), object()])
def test_what_does_not(value: Any) -> None:
    assert not is_configuration(value)
