"""Fusing: several linear layers and one, one after the other or head by head; the moves are run on numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from port.matching.fusing import fusions
from port.matching.options import Option
from port.matching.units import Unit

from .chains import unit

NEVER = (lambda one, other: False, lambda one, other: False)
QKV = np.random.default_rng(0).normal(size=(12, 5))


def parts(*shape: int) -> list[Unit]:
    return [unit(f"attention.{name}", kernel=shape) for name in ("value", "key", "query")]


def run(option: Option, array: np.ndarray) -> dict[str, np.ndarray]:
    (found,) = option.found
    arrays: tuple[np.ndarray, ...] = (array,)
    for move in found.moves:
        arrays = move(arrays)
    return dict(zip(found.flax, arrays, strict=True))


def options(torch: list[Unit], flax: list[Unit]) -> list[Option]:
    return fusions(torch, flax, NEVER, {name: "params" for one in flax for name in one.names.values()})


def test_rows_one_after_the_other_in_the_usual_order_of_names() -> None:
    (option,) = options([unit("attention.qkv", weight=(12, 5))], parts(5, 4))
    given = run(option, QKV)
    for number, name in enumerate(("query", "key", "value")):
        assert np.array_equal(given[f"attention.{name}.kernel"], QKV[4 * number : 4 * number + 4].T)


def test_rows_head_by_head_where_heads_are_known() -> None:
    one, other = options([replace(unit("attention.qkv", weight=(12, 5)), heads=2)], parts(5, 2, 2))
    assert one.note == "split" and other.note == "split head by head (2)"
    keys = QKV.reshape(2, 3, 2, 5)[:, 1].reshape(4, 5).T
    assert np.array_equal(run(other, QKV)["attention.key.kernel"].reshape(5, 4), keys)


def test_several_of_torchs_become_one() -> None:
    torch = [unit(f"mlp.{name}_proj", weight=(3, 5)) for name in ("up", "gate")]
    (option,) = options(torch, [unit("mlp.wi", kernel=(5, 6))])
    (found,) = option.found
    assert found.torch == ("mlp.gate_proj.weight", "mlp.up_proj.weight")


@pytest.mark.parametrize("shape", [(11, 5), (12, 6)])
def test_shapes_that_do_not_add_up(shape: tuple[int, int]) -> None:
    assert options([unit("attention.qkv", weight=shape)], parts(5, 4)) == []
