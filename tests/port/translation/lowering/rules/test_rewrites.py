"""Rewrites: the operator's replacement is lowered by its pair."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from port.pairs.ops import OPERATORS
from port.pairs.ops.aliases import meaning_of
from port.translation.ir.graph import Operation
from port.translation.lowering.rules import REWRITES, RULES

from ...ir.graphs import operation, value
from ..by_hand import apart, lowered, lowered_graph, random

pytestmark = pytest.mark.usefixtures("float64")
X, PART, FILLED, Y = value("x", 4, 3), value("part", 3), value("filled", 3), value("y", 4, 3)


def test_a_part_that_is_filled_is_set_to_a_number() -> None:
    fill = operation("aten.fill.Scalar", FILLED, self=PART, value=0.5)
    put = operation("aten.select_scatter.default", Y, self=X, src=FILLED, dim=0, index=1)
    _, texts = lowered_graph(fill, put, inputs=[X, PART], results=Y)
    assert texts[-1] == "x.at[1].set(0.5)"


def test_a_constant_tensor_of_one_number_fills_as_that_number() -> None:
    number = value("number", dtype="float64")
    fill = operation("aten.fill.Tensor", Y, self=X, value=number)
    _, texts = lowered_graph(fill, inputs=[X], results=Y, constants={number: torch.tensor(0.25)})
    assert texts == ["jnp.full_like(x, 0.25)"]
    _, texts = lowered_graph(fill, inputs=[X, number], results=Y)
    assert texts == ["jnp.full_like(x, number)"]


def test_a_number_that_torch_makes_a_tensor_of_on_the_meta_device_fills_as_that_number() -> None:
    number, seen, stretched = value("number", dtype="float64"), value("seen", 1, dtype="float64"), value("wide", 3)
    made = operation("aten.scalar_tensor.default", number, s=2, dtype=torch.float64)
    view = operation("aten.view.default", seen, self=number, size=[1])
    expand = operation("aten.expand.default", stretched, self=seen, size=[3])
    copy = operation("aten.copy.default", FILLED, self=PART, src=stretched, non_blocking=False)
    put = operation("aten.select_scatter.default", Y, self=X, src=FILLED, dim=0, index=1)
    assert lowered_graph(made, view, expand, copy, put, inputs=[X, PART], results=Y)[1][-1] == "x.at[1].set(2.0)"


def test_what_is_stretched_to_the_shape_of_the_other_operand_is_not_stretched_first() -> None:
    column, wide = value("column", 4, 1), value("wide", 4, 3)
    expand = operation("aten.expand.default", wide, self=column, size=[4, 3])
    divide = operation("aten.div.Tensor", Y, self=X, other=wide)
    assert lowered_graph(expand, divide, inputs=[X, column], results=Y)[1][-1] == "x / column"
    other = value("other", 4, 1)
    divide = operation("aten.div.Tensor", Y, self=other, other=wide)
    assert lowered_graph(expand, divide, inputs=[other, column], results=Y)[1][-1] == "other / wide"


def test_indices_among_whole_axes() -> None:
    rows, columns = torch.tensor([2, 0]), torch.tensor([1, 1])
    for indices, text in (
        ([None, rows], "y0 = x0[:, x1]"),
        ([rows, None, None], "y0 = x0[x1]"),
        ([rows, columns], "y0 = x0[x1, x2]"),
    ):
        made, expected = lowered("aten.index.Tensor", random(3, 4, 5), indices, orders=[(2, 0, 1)])
        assert made.texts[-1].replace("x0_0t", "x0") == text
        assert apart(made, expected) == 0
    made, expected = lowered("aten.index_put.default", random(3, 4), [None, columns], random(3, 2, seed=1), True)
    assert made.texts == ["y0 = x0.at[:, x1].add(x2)"] and apart(made, expected) < 1e-15


def test_masks() -> None:
    mask, number = random(3, 4) > 0, torch.tensor(0.5, dtype=torch.float64)
    made, expected = lowered("aten.index_put.default", random(3, 4, seed=1), [mask], number)
    assert made.texts == ["y0 = jnp.where(x1, x2, x0)"] and apart(made, expected) == 0
    made, expected = lowered("aten.index_put.default", random(3, 4, 2, 2, seed=1), [mask], number)
    assert made.texts == ["y0 = jnp.where(x1[..., None, None], x2, x0)"] and apart(made, expected) == 0
    made, expected = lowered("aten.index_put.default", random(3, 4, seed=1), [mask], number, True)
    assert made.texts == ["y0 = jnp.where(x1, x0 + x2, x0)"] and apart(made, expected) == 0


@pytest.mark.parametrize(
    ("operator", "arguments", "why"),
    [
        ("aten.index.Tensor", {"indices": ["mask"]}, "the number of elements that a mask selects"),
        (
            "aten.index_put.default",
            {"indices": ["mask"], "values": "x", "accumulate": False},
            "as many values",
        ),
        ("aten.index_put.default", {"indices": [None, "mask"], "values": "x", "accumulate": False}, "among other"),
    ],
    ids=["read", "written", "among others"],
)
def test_what_a_masks_values_decide_is_refused(operator: str, arguments: dict, why: str) -> None:
    known = {"mask": value("mask", 4, 3, dtype="bool"), "x": X}

    def filled(tree: object) -> object:
        return [filled(item) for item in tree] if isinstance(tree, list) else known.get(str(tree), tree)

    step = operation(operator, Y, self=X, **{name: filled(argument) for name, argument in arguments.items()})
    lowered, _ = lowered_graph(step, inputs=[X, known["mask"]], results=Y)
    (missing,) = lowered.unwritten
    assert why in missing.why


@pytest.mark.parametrize(("read", "refused"), [(1, 0), (2, 1)])
def test_the_mask_that_a_dropout_draws_cannot_be_read(read: int, refused: int) -> None:
    mask = value("mask", 4, 3, dtype="bool")
    arguments = {"input": X, "p": 0.5, "train": True}
    drop = Operation("aten.native_dropout.default", arguments, (Y, mask), several=True, place=None)
    lowered, texts = lowered_graph(drop, inputs=[X], results=(Y, mask)[:read], training=True)
    assert len(lowered.unwritten) == refused
    if not refused:
        assert texts == ["@|dropout(x)"] and len(lowered.draws) == 1


def test_memory_to_be_written_to_is_zeros() -> None:
    for operator, arguments in (
        ("aten.empty.memory_format", ([2, 3],)),
        ("aten.empty_like.default", (random(2, 3),)),
        ("aten.new_empty.default", (random(4), [2, 3])),
        ("aten.empty_strided.default", ([2, 3], [3, 1])),
    ):
        made, _ = lowered(operator, *arguments)
        assert np.array_equal(made.arrays[0], np.zeros((2, 3)))


def test_every_rewrite_is_of_an_operator_that_nothing_else_writes() -> None:
    spoken_of = {pair.aten for pair in OPERATORS} | {name.rpartition(".default")[0] for name in RULES}
    own = {"aten.native_dropout", "aten._native_batch_norm_legit_no_training"}
    memory = {"aten.empty", "aten.empty_like", "aten.new_empty", "aten.empty_strided"}
    assert {name for name in REWRITES if meaning_of(name) not in spoken_of} == own | memory
