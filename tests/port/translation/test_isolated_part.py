"""A part of a model, constructed and called on its own as the model does; None where that is impossible."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from port.translation.both_modes import both_runs
from port.translation.frontend.construction import constructed
from port.translation.frontend.construction.moved_settings import moved_alone
from port.translation.isolated_part import isolated_part
from port.translation.requested_models import program_at
from port.translation.source_difference import source_of

from .odd_constructors import Once, Window, Windows


def test_it_is_what_the_model_constructs_and_calls() -> None:
    model = Windows()
    captured = both_runs(model, torch.randn(3, 8), None, free=(), check=False)
    construction = constructed(model, Windows)
    assert construction is not None
    found = isolated_part("other", captured, construction)
    assert found is not None
    assert found.model.cls is Window and dict(found.model.settings()) == {("dim",): 16, ("heads",): 4}
    assert tuple(found.model.calls[0][0][0].shape) == (3, 16)
    text = source_of(found.model_program.program)
    assert "class Window(nnx.Module):" in text and "self.heads, 4)" in text
    # Moved by itself, it is not what it was where both move.
    other = next(moved_alone(found.model, ("heads",), model))
    there = program_at(other, found.model_program)
    assert there is not None and source_of(there) != text


def test_one_that_cannot_be_constructed_again_is_none() -> None:
    Once.made = 0
    model = torch.nn.Sequential(Once(8))
    captured = both_runs(model, torch.randn(3, 8), None, free=(), check=False)
    construction: Any = SimpleNamespace(arguments={"0": {"dim": 8}})
    assert isolated_part("0", captured, construction) is None
