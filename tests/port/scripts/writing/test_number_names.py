"""Numbers by the script's own expressions, tried in each step; what does something is not tried."""

from __future__ import annotations

import linecache
import sys
from types import FrameType, SimpleNamespace
from typing import Any

import torch

from port.scripts.writing.number_names import common, expressions_of, numbers_in, tensor_of_length

SOURCE = "loss = lam * one(x) + (1 - lam) * one(y) + args.weight * drawn()\nhere()\n"


def frame_with(**given: Any) -> FrameType:
    kept: list[FrameType] = []
    linecache.cache["<numbers>"] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), "<numbers>")
    names = {"here": lambda: kept.append(sys._getframe(1)), "one": lambda z: z, "x": 1.0, "y": 2.0, **given}
    exec(compile(SOURCE, "<numbers>", "exec"), names)
    return kept[0]


def call_of(*numbers: float) -> Any:
    where = {"file": "<numbers>", "line": 1, "function": "<module>", "text": ""}
    return SimpleNamespace(live=(numbers, {}), where=where)


def test_expressions_that_are_the_number_in_all_steps() -> None:
    drawn: list[int] = []
    rows = []
    for lam, weight in ((0.25, 0.25), (0.5, 3.0)):
        frame = frame_with(lam=lam, args=SimpleNamespace(weight=weight), drawn=lambda: drawn.append(1) or 0.1)
        rows.append(expressions_of(call_of(lam, 1 - lam, weight, 17.0), [frame]))
    assert len(drawn) == 2  # by the script itself alone
    assert [common(rows, place) for place in range(4)] == ["lam", "1 - lam", "args.weight", None]
    assert rows[0][0] == {"lam", "args.weight"}  # which of both it is, the next step says
    assert expressions_of(call_of(1.0), []) == {}


def test_numbers_in_their_order() -> None:
    assert numbers_in((1, True, [2.5, slice(None, 3)], {"alpha": 4})) == [1.0, 2.5, 3.0, 4.0]


LENGTHS = """
def step(images, labels):
    batch, width = images.shape
    count = labels.size(0)
    again = len(labels)
    again = 3
    loss = total / batch + total / len(images) * count + 5 * again
    return here()
"""


def test_the_lengths_of_tensors_that_a_line_reads() -> None:
    kept: list[FrameType] = []
    linecache.cache["<lengths>"] = (len(LENGTHS), None, LENGTHS.splitlines(keepends=True), "<lengths>")
    names: dict[str, Any] = {"here": lambda: kept.append(sys._getframe(1)), "total": 2.0}
    exec(compile(LENGTHS, "<lengths>", "exec"), names)
    names["step"](torch.zeros(4, 5), torch.zeros(4))
    call = SimpleNamespace(
        live=((4.0, 5, 3), {}), where={"file": "<lengths>", "line": 7, "function": "step", "text": ""}
    )
    found = expressions_of(call, kept)
    assert found[0] == {"batch", "count", "images.shape[0]", "labels.size(0)", "len(images)"}
    assert found[1] == found[2] - {"again"} == frozenset()  # the 5 of the line is that one; a name may be set twice
    assert [tensor_of_length(text) for text in ("len(x)", "y.size(0)", "z.shape[1]", "x", "f(x)")] == [
        "x",
        "y",
        "z",
        None,
        None,
    ]
