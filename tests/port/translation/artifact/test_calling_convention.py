"""The calling convention: arguments and results are converted between torch and the written module."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import torch

from port.errors import UsageError
from port.translation.artifact.calling_convention import Boundary, outputs_of
from port.translation.ir.layout import Layout, channels_last, torchs
from port.translation.ir.syntax import Const, Use

IMAGE = channels_last(4, 1)


class Found(NamedTuple):
    boxes: Any
    scores: Any


def boundary(
    forward: Any,
    parameters: tuple[str, ...],
    layouts: dict[str, tuple[Layout, ...]],
    outputs: Any = None,
    training: Any = None,
    **options: Any,
) -> Boundary:
    inputs = tuple(layout for several in layouts.values() for layout in several)
    results = {False: outputs, True: training or outputs}
    return Boundary(inspect.signature(forward), parameters, inputs, results, layouts=layouts, **options)


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)


def test_an_image_goes_in_with_its_channels_last() -> None:
    made = boundary(lambda x: ..., ("x",), {"x": (IMAGE,)})
    image = numbers(2, 3, 4, 5)
    for given in (image, (image,), [image]):
        (taken,) = made.to_flax(given, {})
        assert isinstance(taken, jax.Array)
        assert np.array_equal(taken, image.permute(0, 2, 3, 1))
    (taken,) = made.to_flax((), {"x": image.requires_grad_()})
    assert taken.shape == (2, 4, 5, 3)


def test_arguments_by_name_by_default_and_those_that_nobody_reads() -> None:
    def forward(x: Any, mask: Any = None, scale: float = 2.0, unread: Any = None) -> None: ...

    made = boundary(forward, ("x", "scale", "mask"), {"x": (torchs(2),), "mask": (torchs(1),)})
    x, scale, mask = made.to_flax((numbers(2, 3),), {"mask": numbers(3)})
    assert x.shape == (2, 3) and scale == 2.0 and mask.shape == (3,)


def test_trees_and_stars() -> None:
    def forward(batch: dict[str, Any], *rest: Any) -> None: ...

    made = boundary(forward, ("batch", "*rest"), {"batch": (IMAGE, torchs(1)), "rest": (torchs(1), torchs(1))})
    batch, first, second = made.to_flax(({"image": numbers(1, 2, 3, 4), "n": numbers(2)}, numbers(3), numbers(4)), {})
    assert batch["image"].shape == (1, 3, 4, 2) and batch["n"].shape == (2,)
    assert (first.shape, second.shape) == ((3,), (4,))


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ((numbers(2, 3),), "translated with a tensor of 1 axes as y, got no tensor"),
        ((numbers(2, 3), numbers(2), numbers(2)), "translated with no tensor as z, got a tensor of 1 axes"),
        ((numbers(2, 3, 4), numbers(2)), "translated with a tensor of 2 axes as x, got a tensor of 3 axes"),
    ],
)
def test_other_tensors_than_it_was_translated_with(args: tuple[Any, ...], sentence: str) -> None:
    made = boundary(lambda x, y=None, z=None: ..., ("x", "y"), {"x": (torchs(2),), "y": (torchs(1),)})
    with pytest.raises(UsageError, match=sentence):
        made.to_flax(args, {})


def test_options_that_are_left_out_are_left_to_their_defaults() -> None:
    def forward(x: Any, mask: Any = None, mode: str = "mean") -> None: ...

    made = boundary(
        forward,
        ("x", "mask", "mode"),
        {"x": (torchs(2),), "mask": (torchs(1),)},
        options=("mask", "mode"),
        static={"mode": "mean"},
    )
    assert made.needed == ("x", "mask")
    assert len(made.to_flax((numbers(2, 3),), {})) == 1
    assert len(made.to_flax((numbers(2, 3), numbers(3)), {})) == 2
    assert made.to_flax((numbers(2, 3),), {"mode": "max"})[1:] == (None, "max")
    assert made.takes((numbers(2, 3), numbers(3)), {})
    assert not made.takes((numbers(2, 3),), {}) and not made.takes((numbers(2, 3), numbers(3)), {"mode": "max"})


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)])
def test_what_goes_in_and_comes_out_is_the_same(order: tuple[int, ...]) -> None:
    layout = Layout(order)
    made = boundary(lambda x: ..., ("x",), {"x": (layout,)}, layout)
    x = numbers(2, 3, 4)
    back = made.to_torch(made.to_flax(x, {})[0])
    assert torch.equal(back, x)
    back += 1  # memory of its own


def test_results_come_in_the_originals_trees() -> None:
    made = boundary(lambda: ..., (), {}, {"found": Found(IMAGE, [torchs(1), None]), "n": (3,)})
    image, scores = np.ones((1, 4, 5, 3)), np.ones(2)
    results = made.to_torch({"found": (image, [scores, None]), "n": (3,)})
    assert isinstance(results["found"], Found)
    assert results["found"].boxes.shape == (1, 3, 4, 5)
    assert isinstance(results["found"].scores, list) and results["found"].scores[1] is None
    assert results["n"] == (3,)


def test_the_mode_is_seen_by_the_tree() -> None:
    made = boundary(lambda: ..., (), {}, torchs(1), (torchs(1), torchs(2)))
    assert made.to_torch(np.ones(3)).shape == (3,)
    logits, auxiliary = made.to_torch((np.ones(3), np.ones((3, 2))))
    assert logits.shape == (3,) and auxiliary.shape == (3, 2)


def test_the_tree_of_a_calls_results() -> None:
    results = {"a": Use("x"), "b": [Const(3), None], "c": Found(Use("y"), 2)}
    layouts = {"x": IMAGE, "y": torchs(1)}
    found = outputs_of(OrderedDict(results), lambda use: layouts[use.name])
    assert found == OrderedDict(a=IMAGE, b=[3, None], c=Found(torchs(1), 2))
    assert type(found) is OrderedDict
