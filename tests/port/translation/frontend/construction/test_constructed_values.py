"""The calls that make the modules among a constructor's arguments."""

from __future__ import annotations

from typing import Any

from torch import nn

from port.translation.frontend.construction.constructed_values import (
    ConstructedPart,
    ConstructedValue,
    made_anew,
    with_constructed_values,
)


class Base(nn.Module):
    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(width, width))


class Gathering(nn.Module):
    def __init__(self, *args: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(*args))


class Root(nn.Module):
    def __init__(self, part: nn.Module, whole: nn.Module) -> None:
        super().__init__()
        self.part, self.whole = part, whole


def test_a_part_is_an_attribute_of_what_is_made() -> None:
    def construct() -> Root:
        return Root(Base(3, dilated=True).features, Base(2))

    made = construct()
    given = with_constructed_values({"part": made.part, "whole": made.whole}, construct)
    part, whole = given["part"], given["whole"]
    assert isinstance(part, ConstructedPart) and part.name == "features"
    assert part.of.made_by is Base
    assert part.of.arguments == {"width": 3, "dilated": True}
    assert isinstance(whole, ConstructedValue) and whole.arguments == {"width": 2}
    calls = []
    assert made_anew(part, lambda called, **given: calls.append((called, given)) or called(**given))[0].in_features == 3
    assert calls == [(Base, {"width": 3, "dilated": True})]


def test_what_gathers_arguments_by_their_places_is_not_made_anew() -> None:
    def construct() -> Root:
        return Root(Gathering(3, 2).features, Gathering(2, 2))

    made = construct()
    given = {"part": made.part, "whole": made.whole}
    assert with_constructed_values(given, construct).keys() == given.keys()
    assert not any(
        isinstance(each, ConstructedValue | ConstructedPart)
        for each in with_constructed_values(given, construct).values()
    )
