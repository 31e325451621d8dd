"""Watchers of passes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import port
from port.translation.both_modes import both_runs
from port.translation.ir.instrumentation import PASSES, after, printing, verifying, watching_passes
from port.translation.ir.verifier import BrokenGraph

from .graphs import Y, operation, straight


def test_every_pass_is_seen_in_its_order_and_mode() -> None:
    seen: list[tuple[str, bool | None]] = []
    with watching_passes(lambda name, training, _: seen.append((name, training))):
        both_runs(nn.Tanh(), torch.randn(2, 3), None, free=(), remat=True)
    assert {name for name, _ in seen} == set(PASSES) - {"generalize-lengths"}
    for training in (False, True):
        order = [PASSES.index(name) for name, mode in seen if mode == training]
        assert order == sorted(order)
    both_runs(nn.Tanh(), torch.randn(2, 3), None, free=())
    assert seen.count(("layout", None)) == 1, "one for both modes"
    assert len(seen) == 2 * 8 + 1, "nothing is seen outside of it"


def test_the_printer_takes_the_passes_that_it_is_asked_for() -> None:
    texts: list[str] = []
    with watching_passes(printing(("lower",), texts.append)):
        both_runs(nn.Tanh(), torch.randn(2, 3), None, free=())
    assert [text.splitlines()[0] for text in texts] == ["after lower, evaluation", "after lower, training"]
    assert "float64[2, 3]" in texts[0]


def test_what_the_layouts_are_is_said_with_the_reason() -> None:
    texts: list[str] = []
    with watching_passes(printing(("layout",), texts.append)):
        both_runs(nn.Sequential(nn.Tanh(), nn.Conv2d(3, 4, 1)), torch.randn(2, 3, 5, 6), None, free=())
    (text,) = texts
    first, decision, left = text.strip().splitlines()
    assert first == "after layout, both modes"
    assert decision.startswith("%tensors_0: float64[2, 3, 5, 6] as (0, 2, 3, 1)")
    assert decision.endswith("saves 2 transposes and the move of 360 elements")
    assert left == "left: 0 transposes of 0 elements in both modes"


def test_the_verifier_names_the_pass_and_the_mode() -> None:
    broken = straight(operation("aten.relu.default", Y, self=Y))
    with watching_passes(verifying), pytest.raises(BrokenGraph, match=r"after reroll-loops, training: .* reads %y"):
        after("reroll-loops", broken, training=True)


def test_a_layers_size_at_a_call_does_not_outlast_the_translation() -> None:
    """A transposed convolution whose call gives an output_size has another twin, for that translation alone."""
    from port.pairs import pairs_of_torch

    class Up(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(3, 4, 3, stride=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.up(x, output_size=(9, 10))

    model = Up()
    before = pairs_of_torch(model.up)[0].flax
    made = port.translate(model, torch.randn(2, 3, 4, 4), check=False)
    assert "port.nn.ConvTranspose" in made.source or "ConvTranspose(3, 4" in made.source
    assert "output_size=(9, 10)" in made.source
    assert pairs_of_torch(model.up)[0].flax == before == "flax.nnx.ConvTranspose"
