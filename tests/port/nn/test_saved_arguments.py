"""A constructor's arguments in a weights file: taken before the source's own, in its forms; refused by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from port.errors import BrokenWeights, WeightsMismatch
from port.nn import saved_arguments
from port.nn.saved_arguments import ARGUMENTS


@dataclass(frozen=True)
class Inner:
    depth: int = 2


@dataclass(frozen=True)
class Config:
    width: int
    window: tuple[int, ...] = (7, 7)
    inner: Inner = Inner()


class Model:
    def __init__(self, config: Config, classes: int = 5, sizes: tuple[int, ...] = (1,), *, rngs: Any) -> None: ...


class Gathering:
    def __init__(self, **given: Any) -> None: ...


OWN = Config(6, inner=Inner(3))


def file(folder: Path, told: str | None) -> Path:
    path = folder / "weights.safetensors"
    save_file({"a": np.zeros(1)}, path, None if told is None else {ARGUMENTS: told})
    return path


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, {"config": OWN}),
        ({}, {"config": OWN}),
        ({"classes": 3, "sizes": [2, 4]}, {"config": OWN, "classes": 3, "sizes": (2, 4)}),
        (
            {"config": {"width": 8, "window": [3, 3], "inner": {"depth": 1}}, "classes": None},
            {"config": Config(8, (3, 3), Inner(1)), "classes": None},
        ),
    ],
)
def test_the_files_arguments_are_taken(tmp_path: Path, told: Any, expected: dict[str, Any]) -> None:
    path = file(tmp_path, None if told is None else json.dumps(told))
    assert saved_arguments(path, Model, {}, config=OWN) == expected


def test_what_the_caller_says_goes_before_both(tmp_path: Path) -> None:
    path = file(tmp_path, '{"classes": 3, "sizes": [2]}')
    assert saved_arguments(path, Model, {"classes": 4}, path="own") == {"path": "own", "classes": 4, "sizes": (2,)}


def test_a_class_that_gathers_takes_any_name(tmp_path: Path) -> None:
    assert saved_arguments(file(tmp_path, '{"depth": 2}'), Gathering, {}) == {"depth": 2}


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        ('{"depht": 3}', WeightsMismatch, "with depht, which the constructor .* it takes config, classes, sizes. Load"),
        ('{"config": {"widht": 3}}', WeightsMismatch, "with widht, which Config of this source does not take"),
        ('{"config": {"inner": {"x": 3}}}', WeightsMismatch, "with x, which Inner of this source does not take"),
        ("[1", BrokenWeights, "are not JSON"),
        ("[1]", BrokenWeights, "are not a JSON object"),
    ],
)
def test_what_is_not_the_constructors_is_refused(tmp_path: Path, told: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        saved_arguments(file(tmp_path, told), Model, {}, config=OWN)
