"""What is zero but for rounding is no difference, and a fault in it is one."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import Tensor, nn

import port
from port.judging import TENSORS, Status
from port.nn import BatchNorm
from port.parity.compare.control import Control, Kinds
from port.parity.compare.judge import Judge
from port.parity.sides.moved import moved
from port.parity.sides.random_rounding import random_rounding
from port.parity.sides.run import GRADIENTS, OUTPUTS

X = torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.fixture
def control() -> Control:
    """Of a run whose outputs are 2 and almost 0, rounded by 1e-15 and 1e-17."""

    def run(seed: int) -> Kinds:
        sign = 1 - 2 * (seed % 2)
        return {"outputs": {name: array * (1 + sign * 1e-15) + sign * 1e-17 for name, array in REFERENCE.items()}}

    made = Control(run, {"outputs": REFERENCE})
    assert made.strayed("outputs", "two") > 0
    made._runs = (made._runs[0], 2.0)
    return made


REFERENCE = {"two": np.array([2.0, -1.5]), "zero": np.array([3e-18, 0.0])}


@pytest.mark.parametrize(
    ("name", "ours", "is_rounding"),
    [
        ("zero", [-2e-17, 5e-18], True),
        ("zero", [1e-12, 0.0], False),
        ("zero", [float("nan"), 0.0], False),
        ("zero", [0.0, 0.0, 0.0], False),
        ("two", [2.0 + 4e-15, -1.5], True),
        ("two", [2.0 + 1e-12, -1.5], False),
        ("nothing", [1.0], False),
    ],
)
def test_rounding_is_known_by_its_size(control: Control, name: str, ours: list[float], is_rounding: bool) -> None:
    judged = control.judge("outputs", name, np.array(ours), 1e-9)
    assert (judged.is_rounding, judged.why) == (is_rounding, "")


def test_what_the_original_does_not_repeat_cannot_be_judged() -> None:
    reference = {"outputs": {"lost": np.array([1.0, 2.0])}}
    control = Control(lambda seed: {"outputs": {"lost": np.array([1.0 + 0.1 * (seed + 1), 2.0])}}, reference)
    judged = control.judge("outputs", "lost", np.array([1.2, 2.0]), 1e-9)
    assert not judged.is_rounding and "lost differs by 2.0e-01, and the original strays by 3.0e-01" in judged.why
    assert control.judge("outputs", "lost", np.array([9.0, 2.0]), 1e-9).why == "", "that far it does not stray"


@pytest.mark.parametrize(
    ("ours", "judged"),
    [
        (3e-8, "zero because rounding errors cancel, and they are as large as 1.0e-06"),
        (2e-6, ""),  # so large they are not
    ],
)
@pytest.mark.parametrize("noise", [1e-6, 1e-12])
def test_errors_that_cancel_in_one_place_need_not_in_another(ours: float, judged: str, noise: float) -> None:
    # The gradient of a scale before a BatchNorm, where what flows back is rounding alone.
    reference = {GRADIENTS: {"shift": np.array([4e-8, -1e-8]), "scale": np.array([6e-13, 0.0])}}

    def run(seed: int) -> Kinds:
        return {GRADIENTS: {"shift": reference[GRADIENTS]["shift"] + noise, "scale": np.array([6e-13, 4e-12])}}

    control = Control(run, reference)
    control._runs = (control._runs[0], 1.0)
    why = control.judge(GRADIENTS, "scale", np.array([ours, 0.0]), 1e-7).why
    assert judged in why if noise > 1e-7 and judged else why == ""
    # What is not zero is compared for itself.
    assert control.judge(GRADIENTS, "shift", np.array([2e-4, 0.0]), 1e-7).why == ""


def test_a_control_that_fails_excuses_nothing() -> None:
    def run(seed: int) -> Kinds:
        raise RuntimeError("an index is out of range")

    assert not Control(run, {"outputs": REFERENCE}).judge("outputs", "zero", np.array([1e-16, 0.0]), 1e-9).is_rounding


# %% Rounding at random


@pytest.mark.parametrize(
    ("function", "cancels"),
    [
        (lambda x: x.softmax(-1).sum(-1) - 1, True),
        (lambda x: (x - x.mean(-1, keepdim=True)).sum(-1), True),
        (lambda x: nn.functional.gelu(x - 8), True),
        (lambda x: torch.fft.ifft(torch.fft.fft(x)).real - x, True),
        (lambda x: torch.fft.irfft2(torch.fft.rfft2(x)) - x, True),
        (lambda x: torch.polar(x.abs(), x).abs() - x.abs(), True),
        (lambda x: torch.view_as_real(torch.complex(x, x).conj_physical()).flip(-1), False),
        (lambda x: torch.floor(x.round() / 2) + torch.arange(6), False),
        (lambda x: torch.relu(x) - torch.relu(x), False),
        (lambda x: (x > 0).to(x.dtype).cumsum(-1), False),
    ],
)
def test_results_are_rounded_and_copies_and_whole_numbers_are_not(
    function: Callable[[Tensor], Tensor], cancels: bool
) -> None:
    exact = function(X)
    with random_rounding(0, units=4):
        rounded = function(X)
    strayed = (exact - rounded).abs().max().item()
    assert (strayed > 0) == cancels and strayed < 1e-13


def test_gradients_and_changes_in_place_are_rounded_too() -> None:
    def run() -> tuple[Tensor, Tensor]:
        x = X.clone().requires_grad_()
        y = (x * 1.1).sin_().mul_(3)
        y.sum().backward()
        assert x.grad is not None
        return y.detach(), x.grad

    exact = run()
    with random_rounding(0, units=4):
        rounded = run()
    for a, b in zip(exact, rounded, strict=True):
        assert 0 < (a - b).abs().max() < 1e-13


def test_whole_numbers_of_a_models_own_are_exact_as_masks_are() -> None:
    model = nn.BatchNorm1d(3)
    model.register_buffer("window", torch.ones(1, 1, 1))
    model.register_buffer("table", torch.tensor([0.5, 1.0]))
    other, given = moved(model, {"x": X, "mask": torch.ones(2)}, 0)
    assert torch.equal(other.window, model.window) and torch.equal(given["mask"], torch.ones(2))
    assert not torch.equal(other.table, model.table) and not torch.equal(other.running_var, model.running_var)
    assert not torch.equal(other.weight, model.weight) and not torch.equal(given["x"], X)


@pytest.mark.parametrize("function", [torch.expm1, nn.functional.elu, nn.functional.celu])
def test_the_derivative_of_what_has_reached_its_end_is_rounding(function: Callable[[Tensor], Tensor]) -> None:
    def derivative() -> Tensor:
        x = torch.full((64,), -37.0, dtype=torch.float64, requires_grad=True)
        function(x).sum().backward()
        assert x.grad is not None
        return x.grad

    exact = derivative()
    with random_rounding(0, units=4):
        rounded = derivative()
    assert 1e-16 < (rounded - exact).abs().max() < 2e-15


def test_a_transform_is_rounded_by_the_size_of_all_that_it_gives() -> None:
    wave = torch.cos(torch.arange(64, dtype=torch.float64) * 2 * torch.pi * 5 / 64)
    with random_rounding(0, units=4):
        spectrum = torch.fft.fft(wave)
    silent = torch.cat([spectrum[:5], spectrum[6:59], spectrum[60:]])
    assert 1e-15 < silent.abs().max() < 1e-13, "of a pure wave all others are zero but for rounding"
    with random_rounding(0, units=4):
        assert not torch.fft.fft(0 * wave).any()


# %% In a check


class Mean(nn.Module):
    """A mean behind a LayerNorm: zero in exact arithmetic; and its bias has a gradient, the scalar before it none."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(0.7))
        self.norm = nn.LayerNorm(6, elementwise_affine=False)
        self.linear = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(x + self.shift)
        return self.linear(y), y.mean(-1)


class FlaxMean(nnx.Module):
    def __init__(self, fault: str = "", *, rngs: nnx.Rngs) -> None:
        self.shift = nnx.Param(jnp.array(0.1))
        self.norm = nnx.LayerNorm(6, epsilon=1e-5, use_bias=False, use_scale=False, rngs=rngs)
        self.linear = nnx.Linear(6, 5, rngs=rngs)
        self.fault = fault

    def __call__(self, x: jnp.ndarray) -> tuple[jnp.ndarray, jnp.ndarray]:
        y = self.norm(x + self.shift[...])
        mean = y.mean(-1)
        if self.fault == "millionth":
            mean = mean + 1e-6
        if self.fault == "other axis":
            mean = y[..., :4].mean(-1)
        if self.fault == "gradient":
            mean = mean + 1e-6 * (self.shift[...] - self.shift[...] ** 1)
            y = y + 1e-4 * self.shift[...]
        return self.linear(y), mean


@pytest.mark.parametrize("fault", ["", "millionth", "other axis", "gradient"])
def test_a_mean_behind_a_norm(fault: str) -> None:
    report = port.check(Mean(), FlaxMean(fault, rngs=nnx.Rngs(0)), X, weights="torch")
    assert report.status is (Status.DIFFER if fault else Status.AGREE), str(report)
    if not fault:
        assert any("zero but for rounding" in remark and "1" in remark for remark in report.remarks)


class Rounds(nn.Module):
    """A sum whose digits are all lost, made large again."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return (y.softmax(-1).sum(-1) - 1) * 1e16


class FlaxRounds(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(6, 5, rngs=rngs)

    def __call__(self, x: jnp.ndarray) -> jnp.ndarray:
        y = self.linear(x)
        return (nnx.softmax(y).sum(-1) - 1) * 1e16


def test_what_is_all_rounding_cannot_be_judged() -> None:
    report = port.check(Rounds(), FlaxRounds(nnx.Rngs(0)), X, weights="torch")
    assert report.status is Status.CANNOT_JUDGE and not report.agree and not report.findings
    assert "Whether the two models agree cannot be judged in float64" in str(report)
    assert "the original strays by" in report.sentence


class NormConvNorm(nn.Module):
    """LeViT's: the running mean of the second norm is zero in exact arithmetic, its convolution having no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm1d(3)
        self.conv = nn.Conv1d(3, 5, 1, bias=False)
        self.second = nn.BatchNorm1d(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.conv(self.first(x)))


class FlaxNormConvNorm(nnx.Module):
    """Takes channels last; a fault adds a number to what the second norm sees in training."""

    def __init__(self, fault: float = 0.0, *, rngs: nnx.Rngs) -> None:
        self.first = BatchNorm(3, rngs=rngs)
        self.conv = nnx.Conv(3, 5, kernel_size=(1,), use_bias=False, rngs=rngs)
        self.second = BatchNorm(5, rngs=rngs)
        self.fault = fault

    def __call__(self, x: jnp.ndarray) -> jnp.ndarray:
        y = self.conv(self.first(x))
        return self.second(y + jnp.where(self.second.use_running_average, 0.0, self.fault))


@pytest.mark.parametrize("fault", [0.0, 1e-5, 0.3])
def test_a_running_mean_that_is_zero_in_exact_arithmetic(fault: float) -> None:
    report = port.check(NormConvNorm(), FlaxNormConvNorm(fault, rngs=nnx.Rngs(0)), X, weights="torch")
    assert report.status is (Status.DIFFER if fault else Status.AGREE), str(report)
    found = [finding.where for finding in report.findings]
    assert found == (["second.running_mean → second.mean"] if fault else [])


# %% Behind an output that is NaN


@pytest.mark.parametrize(
    ("outputs", "ours", "status"),
    [
        ([np.nan, 1.0], [0.0, 0.0, 2.0], Status.CANNOT_JUDGE),
        ([np.nan, 1.0], [np.nan, 0.0, 2.0], Status.CANNOT_JUDGE),
        ([np.nan, 1.0], [np.nan, np.nan, 2.0], Status.AGREE),
        ([np.nan, 1.0], [0.0, 0.0, 2.1], Status.DIFFER),
        ([np.nan, 1.0], [np.nan, np.nan, np.nan], Status.DIFFER),
        ([np.nan, 1.0], [0.0, 0.0, np.nan], Status.DIFFER),
        ([np.nan, 1.0], [0.0, 0.0, np.inf], Status.DIFFER),
        ([3.0, 1.0], [0.0, 0.0, 2.0], Status.DIFFER),
        ([np.inf, 1.0], [0.0, 0.0, 2.0], Status.DIFFER),
    ],
)
def test_a_gradient_behind_nan(outputs: list[float], ours: list[float], status: Status) -> None:
    theirs = np.array([np.nan, np.nan, 2.0])
    reference: Kinds = {OUTPUTS: {"output": np.array(outputs)}, GRADIENTS: {"weight": theirs}}
    judge = Judge(Control(lambda seed: reference, reference), TENSORS["float64"])
    tensor = judge.tensor(GRADIENTS, "weight", (theirs, np.array(ours)), most=2.0)
    assert tensor.status is status
    assert ("outputs hold NaN" in tensor.unjudged) is (status is Status.CANNOT_JUDGE)
    row = judge.row("gradients", GRADIENTS, {"weight": (theirs, np.array(ours))}, most=2.0)
    assert row.status is status


def test_an_output_that_is_nan_on_one_side_differs() -> None:
    theirs = np.array([np.nan, 1.0])
    reference: Kinds = {OUTPUTS: {"output": theirs}}
    judge = Judge(Control(lambda seed: reference, reference), TENSORS["float64"])
    assert judge.tensor(OUTPUTS, "output", (theirs, np.array([0.0, 1.0]))).status is Status.DIFFER


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(nn.functional.hardsigmoid(self.a(x)))


class FlaxGate(nnx.Module):
    def __init__(self, gate: Callable[[jax.Array], jax.Array]) -> None:
        rngs = nnx.Rngs(0)
        self.a, self.b, self.gate = nnx.Linear(5, 6, rngs=rngs), nnx.Linear(6, 3, rngs=rngs), gate

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.b(self.gate(self.a(x)))


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        (port.nn.functional.hardsigmoid, Status.AGREE),  # with torch's slope
        (jax.nn.hard_sigmoid, Status.CANNOT_JUDGE),  # with the exact one
        (lambda x: jax.nn.hard_sigmoid(x) + 1e-6 * jax.lax.stop_gradient(x), Status.DIFFER),
        (lambda x: (y := jax.nn.hard_sigmoid(x)) + 1e-6 * (y - jax.lax.stop_gradient(y)), Status.DIFFER),
    ],
    ids=["torch's slope", "the exact slope", "another output", "another gradient"],
)
def test_a_slope_that_torch_has_in_float32(gate: Callable[[jax.Array], jax.Array], status: Status) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs, x = Gate(), torch.randn(7, 5)
    ours = FlaxGate(gate)
    port.load(ours, theirs)
    report = port.check(theirs, ours, x)
    assert report.status is status, str(report)
