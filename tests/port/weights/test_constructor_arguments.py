"""A constructor's arguments as JSON says them: all of them, defaults too; what JSON cannot say is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from port.nn.saved_arguments import ARGUMENTS
from port.weights.constructor_arguments import SaidArguments, said_arguments


@dataclass(frozen=True)
class Config:
    width: int
    act: Callable[..., Any] = abs


class Model:
    def __init__(
        self, config: Any, sizes: tuple[int, ...] = (2, 3), name: str | None = None, *, dtype: Any = None, rngs: Any
    ) -> None: ...


@pytest.mark.parametrize(
    ("given", "values", "unsaid"),
    [
        ({"config": 3}, {"config": 3, "sizes": [2, 3], "name": None}, {}),
        (
            {"config": Config(8), "name": "x"},
            {"config": {"width": 8}, "sizes": [2, 3], "name": "x"},
            {"config.act": "abs"},
        ),
        ({"config": Model}, {"sizes": [2, 3], "name": None}, {"config": "Model"}),
        ({"config": float("inf")}, {"sizes": [2, 3], "name": None}, {"config": "inf"}),
        ({"config": [1, (2, abs)]}, {"sizes": [2, 3], "name": None}, {"config": "[1, (2, <built-in function abs>)]"}),
    ],
)
def test_what_is_said(given: dict[str, Any], values: dict[str, Any], unsaid: dict[str, str]) -> None:
    assert said_arguments(Model, given) == SaidArguments(values, unsaid)


def test_it_is_metadata_of_a_file() -> None:
    assert SaidArguments().metadata() == {}
    assert json.loads(SaidArguments({"name": "ü"}).metadata()[ARGUMENTS]) == {"name": "ü"}
