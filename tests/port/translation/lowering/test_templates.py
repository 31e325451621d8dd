"""Templates for the arguments at hand: numbers are worked out, what needs an array is left."""

from __future__ import annotations

from typing import Any

import pytest

from port.translation.ir import syntax
from port.translation.lowering.templates import Array, Length, Other, Source, specialised

X = Array(3)


def shown(made: syntax.Expr) -> str:
    """The text, its holes by their names."""
    return syntax.source(
        syntax.transformed(made, lambda node: syntax.Name(node.name) if isinstance(node, syntax.Hole) else node)
    )


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
    assert shown(specialised(template, given)) == text


def test_lengths_are_numbers_where_they_are_told() -> None:
    tensor = Array(2, (6, None))
    for dim, text in ((0, "3"), (1, "tensor.shape[1] // 2")):
        assert shown(specialised("tensor.shape[dim] // size", {"tensor": tensor, "dim": dim, "size": 2})) == text


def test_floats_without_a_literal_are_said() -> None:
    made = specialised("jnp.where(input > low, input, high)", {"input": X, "low": float("-inf"), "high": 0.5})
    assert shown(made) == "jnp.where(input > -jnp.inf, input, 0.5)"
