"""Gradients stop exactly where a step with gradients reads a value computed under ``torch.no_grad()``."""

from __future__ import annotations

from dataclasses import replace

from port.translation.lowering.stopped_gradients import read_past_no_grad

from ..ir.graphs import H, W, X, Y, operation, straight, value

LINEAR = operation("aten.linear.default", H, input=X, weight=W)
RELU = operation("aten.relu.default", Y, self=H)


def test_nothing_is_cut_where_all_has_gradients() -> None:
    assert read_past_no_grad(straight()) == set()


def test_what_crosses_the_border_is_cut() -> None:
    assert read_past_no_grad(straight(replace(LINEAR, detached=True), RELU)) == {H}


def test_within_it_nothing_is_cut_but_what_is_given() -> None:
    detached = straight(replace(LINEAR, detached=True), replace(RELU, detached=True))
    assert read_past_no_grad(detached) == {Y}, "the whole module gives it"


def test_a_length_has_no_gradient() -> None:
    size = replace(value("size", dtype="size"), shape=None)
    asked = replace(operation("aten.sym_size.int", size, self=X, dim=0), detached=True)
    read = operation("aten.mul.Tensor", Y, self=X, other=size)
    assert read_past_no_grad(straight(asked, read)) == set()
