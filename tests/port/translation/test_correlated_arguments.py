"""Arguments of a class whose values are correlated over all instances."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from port.translation.correlated_arguments import correlated_arguments
from port.translation.ir import syntax


class Layer: ...


def program(*instances: tuple[Any, ...]) -> Any:
    """The program of a model with these instances of a layer, given by their arguments a, b and c."""
    given = {f"layers.{number}": values for number, values in enumerate(instances)}
    arguments = [
        SimpleNamespace(
            name=name, is_said=True, values={path: syntax.Const(values[at]) for path, values in given.items()}
        )
        for at, name in enumerate("abc")
    ]
    layer = SimpleNamespace(original=Layer, arguments=arguments, members=tuple(given))
    return SimpleNamespace(classes=[layer, SimpleNamespace(original=object, arguments=[], members=("",))])


@pytest.mark.parametrize(
    ("programs", "found"),
    [
        ([program((8, 2, 1), (16, 4, 1))], "ab"),
        ([program((8, 2, 1), (16, 2, 1))], ""),
        ([program((8, 2, 1), (16, 4, 1), (16, 2, 1))], ""),
        ([program((8, 2, 1), (16, 4, 3), (24, 6, 5))], "abc"),
        ([program((8, 2, 1)), program((16, 2, 1)), program((8, 4, 1))], ""),  # the model's own settings moved them
        ([program((8, 2, 1)), program((16, 4, 1))], "ab"),
        ([program((8, 2, True), (16, 4, 1))], "abc"),  # True is not 1
    ],
)
def test_what_moves_together(programs: list[Any], found: str) -> None:
    expected = {"layers.0": frozenset((Layer, name) for name in found)} if found else {}
    assert correlated_arguments(programs, frozenset()) == expected


def test_what_is_out_of_the_question() -> None:
    assert correlated_arguments([program((8, 2, 1), (16, 4, 1))], {(Layer, "a")}) == {}
