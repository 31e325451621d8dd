"""Calls that take different branches give one function with the original's conditions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

import port
from port.translation import Translation
from port.translation.frontend.meta_device import built_on_meta
from port.translation.verify import prove
from tests.port.translation.agreeing import translated
from tests.port.translation.branched_function_nets import ByLength, DecidedOtherwise, Shifting

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.linspace(-1, 1, 96).reshape(2, 12, 4)


@pytest.fixture(scope="module")
def shifting() -> tuple[Shifting, Translation]:
    torch.manual_seed(0)
    module = Shifting()
    return module, translated(
        module, X, construct=Shifting, static=True, at=[partial(Shifting, 4, 4, 4)], sizes_limit=0.0
    )


@pytest.mark.sweep
def test_what_some_calls_do_stands_behind_the_originals_condition(shifting: tuple[Shifting, Translation]) -> None:
    _, made = shifting
    before = "    shift = shift.copy()\n    # one window needs no shift\n    if window[0] >= T:\n        shift[0] = 0\n"
    assert before + "    if sum(shift) > 0:\n        x = jnp.roll(x, (-shift[0],), axis=(1,))\n" in made.source
    assert made.source.count("if sum(shift) > 0:") == 2 and made.source.count("class Windows") == 1
    assert "faded = faded.at[-window[0] : -shift[0]].set(2.0)" in made.source
    given = "x, self.proj.kernel[...], self.proj.bias[...], self.window, shift=self.shift"
    assert f"return shifted_windows({given})\n" in made.source


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("said", "wrong"),
    [("if sum(shift) > 0:", "if sum(shift) > 1:"), ("if window[0] >= T:", "if window[0] < T:")],
)
def test_a_fault_in_a_condition_is_found(shifting: tuple[Shifting, Translation], said: str, wrong: str) -> None:
    module, made = shifting
    assert prove(module, made, (X,), {}).agrees
    other = replace(made, source=made.source.replace(said, wrong))
    assert other.source != made.source
    assert not prove(module, other, (X,), {}).agrees


@pytest.mark.sweep
def test_on_the_meta_device_it_is_the_same_source(shifting: tuple[Shifting, Translation]) -> None:
    _, made = shifting
    there = port.translate(built_on_meta(Shifting), X, construct=Shifting, static=True, sizes_limit=0.0)
    function = made.source.partition("def shifted_windows")[2].partition("class ")[0]
    assert function in there.source and "broadcast_to" not in function


@pytest.mark.sweep
def test_branches_of_lengths_that_exclude_each_other() -> None:
    made = translated(ByLength(), torch.randn(2, 7, 5), static=True)
    assert made.source.count("def by_length") == 1
    assert "if length > most:\n        x = jnp.tanh(x)\n" in made.source


@pytest.mark.sweep
def test_what_no_condition_of_numbers_tells_apart_is_written_out() -> None:
    made = translated(DecidedOtherwise(), torch.randn(2, 7, 5), static=True)
    assert "by_numbers_within" not in made.source
