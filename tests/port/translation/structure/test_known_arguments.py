"""Origins of the arguments of a layer's twin, from the reconstructed layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from port.pairs.twin import twin_pair
from port.translation.ir.origin import ConstructorArgument, said
from port.translation.ir.origin_numbers import origin_of, with_origin
from port.translation.structure.known_arguments import known_arguments


def number(name: str, value: Any) -> Any:
    return with_origin(value, ConstructorArgument(0, name))


def arguments(layer: nn.Module, make: Callable[..., nn.Module], **given: Any) -> dict[str, Any]:
    """Those of a layer's twin; one like it is made anew."""
    made = known_arguments(twin_pair(layer), layer, make(**given), given)
    assert made == twin_pair(layer).arguments(layer)
    return made


def texts(made: dict[str, Any]) -> dict[str, Any]:
    """What is said of those that know where they come from."""

    def text(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(text, value)) if any(map(text, value)) else None
        origin = origin_of(value)
        return None if origin is None else said(origin)

    return {name: text(value) for name, value in made.items() if text(value) is not None}


def test_numbers_and_tuples() -> None:
    dim, kernel = number("dim", 6), number("kernel", 3)
    made = arguments(nn.Linear(6, 12), nn.Linear, in_features=dim, out_features=dim * 2)
    assert texts(made) == {"in_features": "dim", "out_features": "dim * 2"}
    made = arguments(nn.Conv2d(6, 5, (3, 1)), nn.Conv2d, in_channels=dim, out_channels=5, kernel_size=(kernel, 1))
    assert texts(made) == {"in_features": "dim", "kernel_size": ("kernel", None)}
    assert texts(arguments(nn.Dropout(0.25), nn.Dropout, p=number("p", 0.25))) == {"rate": "p"}


def test_another_number_stays_as_it_is() -> None:
    """The layer was changed behind its construction."""
    made = arguments(nn.Dropout(0.5), nn.Dropout, p=number("p", 0.25))
    assert made["rate"] == 0.5 and texts(made) == {}
    made = arguments(nn.Linear(6, 7), nn.Linear, in_features=number("dim", 6), out_features=number("hidden", 12))
    assert texts(made) == {"in_features": "dim"}


def test_switches() -> None:
    flag = number("bias", False)
    made = arguments(nn.Linear(6, 7, bias=False), nn.Linear, in_features=6, out_features=7, bias=flag)
    assert texts(made) == {"use_bias": "bias"}
    made = arguments(nn.Linear(6, 7, bias=True), nn.Linear, in_features=6, out_features=7, bias=number("bias", True))
    assert texts(made) == {"use_bias": "bias"}


def test_without_one_made_anew_nothing_is_known() -> None:
    layer = nn.Linear(6, 7)
    assert texts(known_arguments(twin_pair(layer), layer, None, {})) == {}


class Doubling(nn.Linear):
    """Its constructor takes less than that of torch's layer, which is given what the arguments tell of."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__(width, 2 * width, bias=bias)


def test_switches_of_the_constructor_that_a_layers_own_calls() -> None:
    layer, flag = Doubling(3, bias=True), number("bias", True)
    given = {"in_features": 3, "out_features": 6, "bias": flag}
    assert texts(known_arguments(twin_pair(layer), layer, Doubling(3, flag), given)) == {"use_bias": "bias"}
