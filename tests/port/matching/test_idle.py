"""Idle parameters: what may hold any numbers, in both modes; what a choice hides in one of them is in use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from port.matching.idle import FEW, idle

X = np.array([1.0, -2.0])


def model(weights: dict[str, float], training: bool) -> dict[str, np.ndarray]:
    """``scale`` is always used, ``mask`` in training, ``gate`` compared with, ``spare`` not at all."""
    held = {"scale": 2.0, "mask": 0.5, "gate": 0.1, "spare": 3.0} | weights
    out = X * held["scale"] + (held["mask"] if training else 0.0)
    return {"out": np.where(held["gate"] > X, out, 0.0), "count": np.array([2])}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["spare"], {"spare"}),
        (["mask"], set()),
        (["gate"], set()),
        (["scale", "spare"], {"spare"}),
        ([], set()),
    ],
)
def test_what_can_hold_any_numbers_is_idle(names: list[str], found: set[str]) -> None:
    assert idle(model, names) == found


def test_a_choice_that_nan_falls_out_of_is_seen_by_the_other_number() -> None:
    def chosen(weights: dict[str, float], training: bool) -> dict[str, np.ndarray]:
        return {"out": np.maximum(np.nan_to_num(weights.get("least", -9.0), nan=-9.0), X)}

    assert idle(chosen, ["least"]) == frozenset()


def test_of_many_all_or_none_are_asked_after() -> None:
    asked: list[Any] = []

    def counted(weights: dict[str, float], training: bool) -> dict[str, np.ndarray]:
        asked.append(weights)
        return model({name: number for name, number in weights.items() if name == "scale"}, training)

    names = [f"spare{number}" for number in range(FEW)]
    assert idle(counted, names) == frozenset(names)
    asked.clear()
    assert idle(counted, ["scale", *names]) == frozenset() and len(asked) < 5
