"""Templates for the arguments at hand: numbers are worked out, what needs an array is left."""

from __future__ import annotations

from typing import Any

import pytest

from port.translation.lowering.templates import Array, Length, Other, Source, specialised

X = Array(3)


@pytest.mark.parametrize(
    ("template", "variables", "text"),
    [
        ("input[*(slice(None),) * (dim % input.ndim), start:end:step]", {"dim": -1, "end": 4}, "input[:, :, :4]"),
        ("input[*(slice(None),) * (dim % input.ndim), index]", {"dim": 1, "index": -1}, "input[:, -1]"),
        ("input[*(slice(None),) * (dim % input.ndim), index]", {"dim": 0, "index": Length()}, "input[index]"),
        ("jnp.split(input, [*range(2, 7, 2)])", {}, "jnp.split(input, [2, 4, 6])"),
        ("[sum(sizes[:k]) for k in range(1, len(sizes))]", {"sizes": (1, 2, 4)}, "[1, 3]"),
        (
            "[sum(sizes[:k]) for k in range(1, len(sizes))]",
            {"sizes": (Length(), 2, Length())},
            "[sizes_0, sizes_0 + 2]",
        ),
        (
            "jnp.concatenate([*tensors], axis=dim)",
            {"tensors": (X, X), "dim": -1},
            "jnp.concatenate([tensors_0, tensors_1], axis=-1)",
        ),
        ("beta * input + alpha * other", {"alpha": 1, "beta": 2, "other": X}, "2 * input + other"),
        ("input.at[i].add(v) if accumulate else input.at[i].set(v)", {"accumulate": True}, "input.at[i].add(v)"),
        ("f(input, value or 0, a and b)", {"value": None, "a": True, "b": False}, "f(input, 0, False)"),
        ("f(input, value or 0)", {"value": Other()}, "f(input, value or 0)"),
        (
            "jnp.pad(input, [(0, 0)] * (input.ndim - 1) + [*zip(pad[::2], pad[1::2])][::-1])",
            {"pad": (1, 2)},
            "jnp.pad(input, [(0, 0), (0, 0), (1, 2)])",
        ),
        ("input.reshape(*shape)", {"shape": (Source("*input.shape[:2]"), -1)}, "input.reshape(*input.shape[:2], -1)"),
        ("input.shape[dim] // 2", {"dim": 1}, "input.shape[1] // 2"),
        ("indices[0].ndim + input.ndim", {"indices": (X,)}, "6"),
        ("input + 0", {}, "input + 0"),
        ("-input", {}, "-input"),
        ("input == 0", {}, "input == 0"),
    ],
)
def test_what_is_left(template: str, variables: dict[str, Any], text: str) -> None:
    given = {"input": X, "start": None, "step": 1, **variables}
    found, numbers = specialised(template, given)
    assert found == text and numbers == {}


def test_lengths_are_numbers_where_they_are_told() -> None:
    assert specialised("tensor.shape[dim] // size", {"tensor": Array(2, (6, None)), "dim": 0, "size": 2})[0] == "3"
    text = specialised("tensor.shape[dim] // size", {"tensor": Array(2, (6, None)), "dim": 1, "size": 2})[0]
    assert text == "tensor.shape[1] // 2"


def test_floats_have_names_of_their_own() -> None:
    text, numbers = specialised("jnp.where(input > low, input, high)", {"input": X, "low": float("-inf"), "high": 0.5})
    assert text == "jnp.where(input > number_0, input, number_1)"
    assert numbers == {"number_0": float("-inf"), "number_1": 0.5}
