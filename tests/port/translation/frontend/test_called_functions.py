"""Calls of the original's own functions are recorded during a capture, with arguments and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from port.translation.both_modes import both_runs
from port.translation.frontend.called_functions import noted_functions
from port.translation.frontend.instrument import Notes
from port.translation.frontend.mode_reads import ModeReads
from port.translation.frontend.origins.argument_origins import ArgumentOrigins
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Value
from port.translation.ir.origin import AttributeOf
from port.translation.ir.printer import print_graph
from port.translation.result import Translation
from port.translation.translating import translate
from tests.port.translation import function_helpers, function_nets
from tests.port.translation.function_nets import Attention, Llama, Windowed


def _notes(module: nn.Module) -> Notes:
    return Notes("test/", ModeReads(module), ArgumentOrigins(module))


def _known() -> list[Callable[..., object]]:
    return [function_nets.apply_rotary_pos_emb, function_helpers.rotate_half, function_helpers.window_partition]


def test_the_originals_functions_are_put_back() -> None:
    module, before = nn.ModuleList([Llama(), Windowed()]), _known()
    with pytest.raises(RuntimeError, match="within"), noted_functions(module, _notes(module)):
        with noted_functions(module, _notes(module)):
            assert all(new is not old for new, old in zip(_known(), before, strict=True))
        raise RuntimeError("within")
    assert all(new is old for new, old in zip(_known(), before, strict=True))


def test_a_call_is_marked_with_its_arguments_and_results() -> None:
    graph = both_runs(Attention(), torch.randn(2, 5, 12), None).graphs[False]
    marks = [step for step in graph.steps if isinstance(step, FunctionEnter | FunctionExit)]
    names = [step.function.__name__ for step in marks if isinstance(step, FunctionEnter)]
    assert names == ["rms_norm", "apply_rotary_pos_emb", "rotate_half", "rotate_half"]
    norm, left, rotary, *_, end = marks
    assert isinstance(norm, FunctionEnter) and isinstance(left, FunctionExit) and isinstance(end, FunctionExit)
    assert norm.positional == ("x", "weight", "eps") and norm.named == ()
    assert norm.numbers["eps",].origin == AttributeOf("", "eps")
    assert isinstance(rotary, FunctionEnter) and rotary.positional == ("q", "k", "cos", "sin")
    assert rotary.arguments["unsqueeze_dim"] == 1 and rotary.arguments["position_ids"] is None
    assert isinstance(end.results, tuple) and all(isinstance(value, Value) for value in end.results)
    printed = print_graph(graph)
    assert "enter rms_norm (function): x=%tensors_0" in printed and "leave rotate_half → " in printed


def test_a_function_that_raises_leaves_no_mark() -> None:
    graph = both_runs(Tried(), torch.randn(4, 3), None).graphs[False]
    marked = [step.function.__name__ for step in graph.steps if isinstance(step, FunctionEnter)]
    assert marked == ["doubled"]


def test_a_function_that_makes_a_number_of_sizes_is_marked_like_any_other() -> None:
    """Torch knows the value of what it returns, and runs every operator on such values."""
    torch.manual_seed(0)
    made = translate(Scaled(), torch.randn(4, 3), sizes_limit=0)
    assert "s = root_of_width(3)" in made.source and "def root_of_width(factor: int)" in made.source
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    faulty = replace(made, source=made.source.replace("root_of_width(3)", "root_of_width(2)"))
    x = torch.randn(4, 3)
    assert _apart(made, x) < 1e-6 < 1e-2 < _apart(faulty, x)


def root_of_width(x: Tensor, factor: int) -> Tensor:
    """A scale, as a tensor."""
    return torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * factor)


class Scaled(nn.Module):
    """Divides by a number that one of its functions makes."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        s = root_of_width(x, 3)
        y: Tensor = self.up(x) / s.to(x.dtype)
        return y


def _apart(made: Translation, x: Tensor) -> float:
    torch.manual_seed(0)
    original = Scaled()
    ours = np.asarray(made.build()(jnp.asarray(x.numpy())))
    return float(np.abs(ours - original(x).detach().numpy()).max())


def test_what_is_no_plain_function_or_not_the_originals_is_left_alone() -> None:
    graph = both_runs(Others(), torch.randn(4, 3), None).graphs[False]
    assert not any(isinstance(step, FunctionEnter) for step in graph.steps)


def failing(x: Tensor) -> Tensor:
    raise ValueError(doubled(x))


def doubled(x: Tensor) -> Tensor:
    return x * 2


class Tried(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            return failing(x)
        except ValueError:
            return x.exp()


def halves(x: Tensor):  # type: ignore[no-untyped-def]
    yield x[:, :1]
    yield x[:, 1:]


@torch.no_grad()  # type: ignore[untyped-decorator]
def decorated(x: Tensor) -> Tensor:
    return x.sin()


class Others(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(torch.cat([*halves(x)], 1)) + decorated(x)
