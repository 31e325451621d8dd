"""The arrays in a structure, by name."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import torch

from port.parity.sides.structure import leaves, rebuilt


@dataclass
class Output:
    logits: Any
    states: Any = None


class Pair(NamedTuple):
    first: Any
    second: Any


def test_every_kind_of_structure() -> None:
    array, tensor = np.ones(2), torch.ones(3)
    assert list(leaves(array)) == [""]
    assert list(leaves((array, [tensor, None], {"a": {"b": array}}, 3, "x"))) == ["0", "1.0", "2.a.b"]
    assert list(leaves(Output(array, (tensor,)))) == ["logits", "states.0"]
    assert list(leaves(Pair(array, Pair(tensor, None)))) == ["first", "second.first"]
    assert list(leaves(OrderedDict(z=array, a=tensor))) == ["z", "a"]
    assert leaves(jax.random.key(0)) == {}, "a key is no array of numbers"


class Frozen(OrderedDict):  # type: ignore[type-arg]
    """A mapping and a frozen dataclass in one, as transformers' outputs of Flax models are."""


def test_a_mapping_that_is_a_dataclass_is_built_by_its_fields() -> None:
    given = dataclass(frozen=True)(type("FrozenOutput", (Frozen,), {"__annotations__": {"logits": Any}}))(np.ones(2))
    OrderedDict.__setitem__(given, "logits", given.logits)
    doubled = rebuilt(given, lambda name, array: 2 * array)
    assert type(doubled) is type(given) and doubled.logits.sum() == 4


def test_it_is_built_again_as_it_was() -> None:
    given = (Output(np.ones(2), [np.zeros(1)]), Pair(np.ones(1), None), {"k": (np.ones(3), "text")})
    doubled = rebuilt(given, lambda name, array: 2 * array)
    assert isinstance(doubled[0], Output)
    assert isinstance(doubled[1], Pair)
    assert doubled[2]["k"][1] == "text"
    assert {name: array.sum() for name, array in leaves(doubled).items()} == {
        name: 2 * array.sum() for name, array in leaves(given).items()
    }
