"""Unrolled loops become `lax.scan`, of any length; other steps stay unrolled and correct."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

import port
from port.translation import Translation
from port.translation.verify import prove

from ..loops import MODELS, ByHand, Dropping, Gated, Model, Translator, TwoBack

OTHER = (4, 11)  # no length at which a loop is captured


@cache
def translated(name: str) -> tuple[Any, Translation]:
    torch.manual_seed(0)
    module = MODELS[name].made()
    return module, port.translate(module, torch.randn(MODELS[name].shape), check=False)


def at_length(model: Model, length: int) -> torch.Tensor:
    torch.manual_seed(length)
    shape = list(model.shape)
    if model.time is not None:
        shape[model.time] = length
    return torch.randn(shape)


def proved(module: Any, done: Translation, x: torch.Tensor) -> bool:
    proof = prove(module, done, (x,), {})
    assert proof.precision == "float64"
    return proof.agrees


@pytest.mark.sweep
def test_a_loop_of_any_length() -> None:
    module, done = translated("gated")
    assert "h, _ = lax.scan(step, h, jnp.swapaxes(x, 0, 1))" in done.source
    assert isinstance(done.lengths.shapes[0][1], str), "free"
    assert proved(module, done, at_length(MODELS["gated"], 7))


@pytest.mark.sweep
@pytest.mark.daily(3)
@pytest.mark.parametrize("name", [name for name in MODELS if name != "gated"])
def test_loops(name: str) -> None:
    """Outputs, gradients and buffers in both modes, at the length that was given and at others."""
    module, done = translated(name)
    model = MODELS[name]
    assert "lax.scan(" in done.source or "@nnx.scan(" in done.source
    assert "unstack" not in done.source
    for length in (6, *(OTHER if model.time is not None else ())):
        assert proved(module, done, at_length(model, length)), f"{length}\n{done.source}"


@pytest.mark.sweep
def test_two_inputs_of_their_own_lengths() -> None:
    torch.manual_seed(0)
    module = Translator()
    done = port.translate(module, (torch.randn(2, 8, 3), torch.randn(2, 5, 5)))
    assert done.proof is not None and done.proof.agrees, str(done.proof)
    assert prove(module, done, (torch.randn(3, 4, 3), torch.randn(3, 12, 5)), {}).agrees, done.source


@pytest.mark.sweep
@pytest.mark.daily(2)
def test_images_keep_their_channels_last() -> None:
    _, done = translated("images")
    body = done.source.partition("def step(")[2].partition("return")[0]
    assert "transpose" not in body and "moveaxis" not in body, body


@pytest.mark.sweep
def test_a_long_one_is_written_as_a_short_one_is() -> None:
    torch.manual_seed(0)
    module = ByHand()
    long = port.translate(module, torch.randn(2, 60, 3))
    assert long.proof is not None and long.proof.agrees, str(long.proof)
    assert long.source == port.translate(module, torch.randn(2, 5, 3)).source


FAULTS = {
    "the states in another order": ("by hand", "return (h, c), h", "return (c, h), h"),
    "another state given": ("by hand", "return (h, c), h", "return (h, c), c"),
    "the steps backwards": ("gated", "jnp.swapaxes(x, 0, 1))", "jnp.swapaxes(x, 0, 1), reverse=True)"),
    "along another axis": ("filled", "jnp.swapaxes(x, 0, 1)", "x"),
    "one step too late": ("called", "x[:, 1:]", "jnp.roll(x, 1, 1)[:, 1:]"),
    "one step too few": ("gated", "jnp.swapaxes(x, 0, 1)", "jnp.swapaxes(x, 0, 1)[:-1]"),
    "outputs on another axis": ("decoder", "jnp.swapaxes(ys, 0, 1)", "ys.reshape(ys.shape[1], ys.shape[0], -1)"),
    "one step too many": ("decoder", "length=7", "length=8"),
    "forwards for backwards": ("bidirectional", ", reverse=True", ""),
    "the first state for the last": ("two layers", "hs[-1]", "hs[0]"),
    "no mask": ("dropping", "h = self.cell(self.drop(x_t), h)", "h = self.cell(x_t, h)"),
    "statistics of no step": ("normalised", "nnx.Param: None, ...: nnx.Carry", "...: None"),
    "the number of another step": ("counted", "jnp.arange(1, x.shape[1], 1)", "jnp.arange(x.shape[1] - 1)"),
}


@pytest.mark.sweep
@pytest.mark.daily(4)
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_fault_shows(fault: str) -> None:
    name, right, wrong = FAULTS[fault]
    module, done = translated(name)
    assert right in done.source, done.source
    faulty = replace(done, source=done.source.replace(right, wrong))
    assert not proved(module, faulty, at_length(MODELS[name], 7))


@pytest.mark.sweep
def test_what_is_no_loop_stays_as_it_is() -> None:
    torch.manual_seed(0)
    done = port.translate(TwoBack(), torch.randn(4, 6, 3))
    assert "scan" not in done.source
    assert done.proof is not None and done.proof.agrees, str(done.proof)


@pytest.mark.sweep
@pytest.mark.parametrize("model", [ByHand, Dropping])
def test_a_checkpointed_cell_in_a_loop(model: Any) -> None:
    torch.manual_seed(0)
    cell = "Cell" if model is ByHand else "Dropping"
    done = port.translate(model(), torch.randn(2, 6, 3), remat=cell)
    assert "@nnx.remat" in done.source and "@nnx.scan(" in done.source
    assert done.proof is not None and done.proof.agrees, str(done.proof)


@pytest.mark.sweep
def test_a_loop_beside_what_is_drawn() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Dropout(0.4), Gated())
    done = port.translate(module, torch.randn(2, 6, 3))
    assert "lax.scan(" in done.source
    assert done.proof is not None and done.proof.agrees, str(done.proof)


class Repeated(torch.nn.Module):
    """One layer, called as often as an argument of the constructor says."""

    def __init__(self, width: int = 6, depth: int = 5) -> None:
        super().__init__()
        self.depth, self.layer = depth, torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.depth):
            x = x + torch.tanh(self.layer(x))
        return x


@pytest.mark.sweep
def test_rounds_are_as_many_as_the_constructor_is_told() -> None:
    module = Repeated()
    done = port.translate(module, torch.randn(3, 6), construct=Repeated, at={"depth": 9, "width": 5}, sizes_limit=0)
    assert "length=self.depth" in done.source
    assert done.proof is not None and done.proof.agrees, done.proof
    assert not done.settings.fixed
