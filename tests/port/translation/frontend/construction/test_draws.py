"""The parameters of random draws are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.construction.draws import Draws
from port.translation.ir.origin import ConstructorArgument, said
from port.translation.ir.origin_numbers import origin_of, with_origin


def drawn(draw: Callable[[Tensor, Any], Any]) -> list[str] | None:
    """The kind and the numbers of a draw; None where none has an origin."""
    with Draws() as seen:
        tensor = torch.empty(2, 3)
        draw(tensor, with_origin(0.5, ConstructorArgument(0, "std")))
    found = seen.of(tensor)
    if found is None:
        return None
    origins = [origin_of(number) for number in found.numbers]
    shown = [repr(number) if each is None else said(each) for number, each in zip(found.numbers, origins, strict=True)]
    return [found.kind, *shown]


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda x, std: nn.init.normal_(x, std=std), ["normal", "0.0", "std"]),
        (lambda x, std: nn.init.normal_(x, 1.0, 2 * std), ["normal", "1.0", "2 * std"]),
        (lambda x, std: x.normal_(mean=0.0, std=std**-0.5), ["normal", "0.0", "std ** -0.5"]),
        (lambda x, std: nn.init.uniform_(x, -std, std), ["uniform", "-std", "std"]),
        (lambda x, std: nn.init.uniform_(nn.Parameter(x), b=std), ["uniform", "0.0", "std"]),
        (lambda x, std: x.data.uniform_(to=std), ["uniform", "0.0", "std"]),
    ],
)
def test_draws_with_known_numbers(draw: Callable[[Tensor, Any], Any], expected: list[str]) -> None:
    assert drawn(draw) == expected


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, std: nn.init.normal_(x, std=0.5),
        lambda x, std: nn.init.normal_(nn.init.normal_(x, std=std), std=0.5),
        lambda x, std: nn.init.kaiming_uniform_(x),
    ],
)
def test_of_others_nothing_is_known(draw: Callable[[Tensor, Any], Any]) -> None:
    assert drawn(draw) is None
