"""Gradients that are compared in parts give what they give at once: the same verdict, the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn

import port
from models.keeping import Keeping, X
from port.judging import Status
from port.judging.compared import Compared, with_row
from port.mapping import Entry
from port.parity import CheckReport
from port.parity.sides import extent
from port.parity.sides.cost import Cost
from port.parity.sides.parts import Part, least_parts, parts_of
from port.parity.sides.run import Run
from port.parity.sides.torch_pass import torch_pass
from port.translation import Translation
from port.translation.verify import Proof, prove, proving

from .test_fitting import FlaxNet

MODULE = Keeping()


# %% Parts


def test_parts_are_about_as_large_and_leave_entries_whole() -> None:
    entries = [Entry(("a", "b"), ("p",)), Entry(("c",), ("q", "r")), Entry(("d",), ("s",)), Entry(("n",), ())]
    sizes = {"a": 3, "b": 3, "c": 5, "d": 1, "spare": 2}
    assert parts_of(entries, sizes, 1) == (Part(frozenset(sizes), frozenset("pqrs")),)
    assert parts_of(entries, sizes, 2) == (
        Part(frozenset("abc"), frozenset("pqr")),
        Part(frozenset(("d", "spare")), frozenset("s")),
    )
    many = parts_of(entries, sizes, 16)
    assert len(many) == 4 and frozenset().union(*(part.torch for part in many)) == sizes.keys()
    named = parts_of(entries, {f"module.{name}": size for name, size in sizes.items()}, 2, prefix="module.")
    assert named[0] == Part(frozenset(("module.a", "module.b", "module.c")), frozenset("pqr"))


def test_as_few_parts_as_fit() -> None:
    assert (least_parts(lambda count: count >= 3), least_parts(lambda count: True)) == (4, 2)
    assert least_parts(lambda count: False) == 0


class Tied(nn.Module):
    """One weight under two names, one layer that is not called, one parameter that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.idle = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.second.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


def passed(part: set[str] | None) -> Run:
    torch.manual_seed(0)
    module, x = Tied().double(), torch.randn(3, 4).double()
    ones = {"output": np.ones((3, 4))}
    return torch_pass(lambda: module, lambda m, t: {"output": m(t["x"])}, {"x": x}, lambda outputs: ones, part)


def test_torchs_gradients_of_parts_are_those_of_all() -> None:
    whole, part = passed(None), passed({"first.bias"})
    assert not whole.let_go and set(part.gradients) == {"first.bias"}
    assert np.array_equal(part.gradients["first.bias"], whole.gradients["first.bias"])
    assert np.array_equal(part.input_gradients["x"], whole.input_gradients["x"])
    largest = {name: float(np.abs(whole.gradients[name]).max()) for name in ("first.weight",)}
    assert {name: float(size) for name, size in part.let_go.items()} == largest
    assert part.trained == whole.trained and part.buffers.keys() == whole.buffers.keys()
    second = passed({"second.weight", "idle.weight"})
    assert np.array_equal(second.gradients["second.weight"], whole.gradients["first.weight"])
    assert not second.gradients["idle.weight"].any() and set(second.let_go) == {"first.bias"}


def test_rows_of_parts_are_one_row() -> None:
    small, large = Compared("gradients", 1e-12, 1e-9, "a", 2, 1), Compared("gradients", 1e-3, 1e-9, "b", 3, 0, "why")
    other = Compared("outputs", 0.0, 1e-10, "", 1)
    joined = Compared("gradients", 1e-3, 1e-9, "b", 5, 1, "why")
    assert with_row([other, small], large) == [other, joined] and with_row([large], small) == [joined]
    assert with_row([other], large) == [other, large], "the first part had none"
    assert with_row([other], Compared("gradients", 0.0, 1e-9, "", 0)) == [other]


# %% port.check


class Shifted(FlaxNet):
    """Its outputs are right, and so are all gradients but the last parameter's."""

    def __init__(self, by: float = 1e-6) -> None:
        super().__init__()
        self.by = by

    def __call__(self, x: Any) -> Any:
        bias = self.norm.bias[...]
        moved = self.norm(self.conv(x)) + self.by * (bias - jax.lax.stop_gradient(bias))
        return nnx.relu(moved).mean((1, 2))


def short_of_memory(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    def unfit(cost: Cost, *, gradients: bool, parts: int = 1) -> str:
        return "it is too large" if gradients and parts < least else ""

    monkeypatch.setattr(extent, "unfit", unfit)


def checked(flax: nnx.Module) -> CheckReport:
    return port.check(MODULE, flax, X, weights="torch")


@pytest.mark.sweep
@pytest.mark.parametrize(
    "make", [pytest.param(FlaxNet, id="right"), pytest.param(lambda: FlaxNet(1.5), id="wrong"), Shifted]
)
def test_a_check_in_parts_says_what_it_says_at_once(
    make: Callable[[], nnx.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = checked(make())
    short_of_memory(monkeypatch, 4)
    parts = checked(make())
    assert parts.remarks == (*whole.remarks, "gradients were compared in 2 parts: it is too large")
    assert str(replace(parts, remarks=())) == str(replace(whole, remarks=()))
    assert parts.findings == whole.findings and parts.layers == whole.layers, "to the last bit"
    assert whole.compared["gradients"] == parts.compared["gradients"] == 8


@pytest.mark.sweep
def test_a_check_in_parts_finds_a_fault_of_the_last_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    short_of_memory(monkeypatch, 4)
    assert checked(FlaxNet()).agree
    found = checked(Shifted())
    assert found.status is Status.DIFFER
    assert {finding.where for finding in found.findings} == {"norm.bias → norm.bias"}, found


# %% The proof


@pytest.fixture(scope="module")
def translation() -> Translation:
    return port.translate(MODULE, X, check=False, static=True)


def shifted(translation: Translation) -> Translation:
    """The translation with another gradient of its last parameter."""
    bias = "self.norm.bias[...]"
    source = translation.source.replace("nnx.relu(", f"nnx.relu(1e-6 * ({bias} - jax.lax.stop_gradient({bias})) + ")
    assert source != translation.source
    return replace(translation, source=source.replace("from flax import nnx", "import jax\nfrom flax import nnx", 1))


def proved(translation: Translation) -> Proof:
    return prove(MODULE, translation, (X,), {})


@pytest.mark.sweep
@pytest.mark.parametrize("change", [pytest.param(lambda it: it, id="right"), shifted])
def test_a_proof_in_parts_says_what_it_says_at_once(
    change: Callable[[Translation], Translation], translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = proved(change(translation))
    monkeypatch.setattr(proving, "fits", lambda cost, *, gradients, parts=1: not gradients or parts >= 4)
    parts = proved(change(translation))
    assert parts.remarks[-1].startswith("gradients were compared in 2 parts: about ")
    assert parts.status is whole.status and len(parts.rows) == len(whole.rows)
    assert parts.status is (Status.DIFFER if change is shifted else Status.AGREE), parts
    for theirs, ours in zip(whole.rows, parts.rows, strict=True):
        # XLA rounds otherwise where it computes less; what differs, differs by as much.
        near = max(1e-12, 1e-6 * theirs.difference)
        assert abs(ours.difference - theirs.difference) < near
        assert replace(ours, difference=0.0, where="") == replace(theirs, difference=0.0, where="")
    differ = {row.where for row in parts.rows if not row.agrees}
    assert differ == ({"norm.bias"} if change is shifted else set())


@pytest.mark.sweep
def test_a_proof_whose_memory_runs_out_goes_on_in_parts(
    translation: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = proving.flax_run

    def runs_out(*args: Any) -> Run:
        if args[-1] is None:
            raise MemoryError
        return run(*args)

    monkeypatch.setattr(proving, "flax_run", runs_out)
    found = proved(translation)
    assert found.status is Status.AGREE
    assert "gradients were compared in 2 parts: the run in evaluation did not fit" in found.remarks
    assert proved(shifted(translation)).status is Status.DIFFER
