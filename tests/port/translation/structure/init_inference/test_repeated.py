"""Labels by row are views: the same labels, without memory for each element."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from port.translation.structure.init_inference.constructions import merged, numbered, starts_of
from port.translation.structure.init_inference.layers import layer_starts
from port.translation.structure.init_inference.repeated import in_rows, varying
from port.translation.structure.init_inference.stories import Draw, Number

BY_ROWS = np.repeat(np.array([[3], [5], [3], [0]]), 6, axis=1)
ODD = BY_ROWS.copy()
ODD[2, 4] = 5


def test_what_is_the_same_along_each_row_is_a_view() -> None:
    made = in_rows(BY_ROWS)
    np.testing.assert_array_equal(made, BY_ROWS)
    assert made.strides[-1] == 0 and varying(made).shape == (4, 1)
    assert in_rows(ODD) is ODD  # one element of a row is another
    assert varying(ODD) is not made and varying(ODD).shape == ODD.shape


def test_rows_that_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("port.translation.structure.init_inference.repeated._AT_ONCE", 7)
    assert in_rows(BY_ROWS).strides[-1] == 0
    assert in_rows(ODD) is ODD


@pytest.mark.parametrize("labels", [BY_ROWS, ODD, BY_ROWS[0], BY_ROWS[0, 0], BY_ROWS[:0], BY_ROWS * 1000])
def test_numbers_of_views_are_those_of_the_whole(labels: np.ndarray) -> None:
    found, places = numbered(in_rows(np.asarray(labels)))
    np.testing.assert_array_equal(found, np.unique(labels))
    np.testing.assert_array_equal(found[places] if found.size else labels, labels)
    stories = [Number(float(number)) for number in found]
    distinct, own = merged([*stories], places)
    assert own.shape == np.shape(labels)
    np.testing.assert_array_equal(
        [distinct[number] for number in own.flat], [Number(float(x)) for x in np.ravel(labels)]
    )


def test_a_table_with_a_row_of_its_own() -> None:
    def made(row: int = 2, column: slice = slice(None)) -> nn.Module:
        layer = nn.Embedding(7, 5)
        nn.init.normal_(layer.weight, std=0.02)
        with torch.no_grad():
            layer.weight[row, column] = 0
        return layer

    start = starts_of(made)["weight"]
    assert start.labels.strides[-1] == 0
    kinds = [type(start.stories[number]) for number in start.labels[:, 0]]
    assert kinds == [Draw, Draw, Number, Draw, Draw, Draw, Draw]
    # As the twin has it, and as torch's own layer starts where nobody draws it anew.
    ((name, moved),) = layer_starts(made(), {"weight": start}).values()
    assert name == "weight" and moved.labels.strides[-1] == 0 and moved.row_axis == 0
    usual = starts_of(lambda: nn.Embedding(7, 5, padding_idx=2))["weight"]
    assert usual.labels.strides[-1] == 0
    assert not layer_starts(nn.Embedding(7, 5, padding_idx=2), {"weight": usual})
    assert layer_starts(nn.Embedding(7, 5, padding_idx=3), {"weight": usual})  # another row
    # A part of a row is one element after the other.
    part = starts_of(lambda: made(column=slice(3)))["weight"]
    assert part.labels.strides[-1] != 0 and (part.labels[2] != part.labels[1]).tolist() == [True] * 3 + [False] * 2
