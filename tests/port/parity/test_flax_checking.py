"""`port.check_flax`: two Flax modules that are the same agree, and every planted fault is found where it is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import port
from port.errors import UsageError, WeightsMismatch
from port.judging import Status

X = np.random.default_rng(0).normal(size=(4, 7, 5, 3))


class Net(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 6, (3, 2), rngs=rngs)
        self.norm = nnx.BatchNorm(6, rngs=rngs)
        self.drop = nnx.Dropout(0.3, rngs=rngs)
        self.fc = nnx.Linear(6, 5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.fc(self.drop(nnx.gelu(self.norm(self.conv(x)), approximate=False)).mean((1, 2)))


class Again(nnx.Module):
    """The same, written otherwise, with room for faults."""

    def __init__(self, *, fault: str = "", width: int = 5, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(3, 6, (3, 2), rngs=rngs)
        epsilon = 1e-3 if fault == "epsilon" else 1e-5
        self.norm = nnx.BatchNorm(6, epsilon=epsilon, momentum=0.9 if fault == "momentum" else 0.99, rngs=rngs)
        self.fc = nnx.Linear(6, width, rngs=rngs)
        self.fault = fault

    def __call__(self, x: Any) -> Any:
        y = nnx.gelu(self.norm(self.first(x)), approximate=self.fault == "gelu")
        y = jnp.einsum("nhwc->nc", y) / (y.shape[1] * y.shape[2])
        if self.fault == "stopped":
            y = jax.lax.stop_gradient(y) + 0 * y
        return (self.fc(y), y) if self.fault == "outputs" else self.fc(y)


def checked(second: nnx.Module, **options: Any) -> port.CheckReport:
    given = {"rename": {"^conv": "first"}, "weights": "first"} | options
    return port.check_flax(Net(rngs=nnx.Rngs(0)), second, X, **given)


@pytest.mark.sweep
def test_the_same_model_agrees() -> None:
    report = checked(Again(rngs=nnx.Rngs(1)))
    assert report and "agree in float64" in report.sentence
    assert report.compared == {"outputs": 2, "gradients": 12, "gradients of the inputs": 2, "buffers": 2}
    assert report.remarks == ("dropout was off in drop",)


@pytest.mark.parametrize(
    ("fault", "found", "layer"),
    [
        ("epsilon", {"forward", "backward", "input gradient"}, "norm"),
        ("gelu", {"forward", "backward", "input gradient"}, "fc"),
        ("momentum", {"buffers"}, ""),
        ("stopped", {"backward", "input gradient"}, "norm"),
        ("outputs", {"forward"}, ""),
    ],
)
@pytest.mark.sweep
def test_a_fault_is_found_where_it_is(fault: str, found: set[str], layer: str) -> None:
    report = checked(Again(fault=fault, rngs=nnx.Rngs(1)))
    assert report.status is Status.DIFFER
    assert {finding.what for finding in report.findings} >= found
    assert (report.first.layer if report.first else "") == layer


@pytest.mark.sweep
def test_own_weights_are_compared_bit_for_bit() -> None:
    first, second = Net(rngs=nnx.Rngs(0)), Net(rngs=nnx.Rngs(0))
    assert port.check_flax(first, second, X)
    second.fc.bias[...] = second.fc.bias[...].at[2].set(1e-30)
    report = port.check_flax(first, second, X)
    assert [finding.what for finding in report.findings] == ["weights"]
    assert "fc.bias → fc.bias" in str(report)


def test_variables_without_a_twin_are_named_in_one_message() -> None:
    with pytest.raises(WeightsMismatch) as error:
        checked(Again(width=4, rngs=nnx.Rngs(1)), rename=None)
    said = str(error.value)
    assert "only the first has conv.kernel" in said and "only the second has first.kernel" in said
    assert "fc.kernel has shape (6, 5), but fc.kernel has (6, 4)" in said
    with pytest.raises(WeightsMismatch, match=r"conv\.kernel and others are renamed to first\.kernel"):
        checked(Again(rngs=nnx.Rngs(1)), rename={"^conv": "first", "bias": "kernel"})


class Centred(nnx.Module):
    """A mean that is zero but for rounding, taken in one order or in another."""

    def __init__(self, *, backwards: bool = False, shift: float = 0.0, rngs: nnx.Rngs) -> None:
        self.fc, self.backwards, self.shift = nnx.Linear(3, 64, rngs=rngs), backwards, shift

    def __call__(self, x: Any) -> Any:
        y = self.fc(x)
        y = y - y.mean(-1, keepdims=True)
        return (y[..., ::-1].cumsum(-1) if self.backwards else y.cumsum(-1))[..., -1] + self.shift


@pytest.mark.sweep
def test_what_is_rounding_alone_is_not_judged() -> None:
    def report(**options: Any) -> port.CheckReport:
        modules = Centred(rngs=nnx.Rngs(0)), Centred(rngs=nnx.Rngs(0), **options)
        return port.check_flax(*modules, X[:, 0, :, :])

    assert report(backwards=True).status is Status.CANNOT_JUDGE
    assert report(shift=1e-9).status is Status.DIFFER


@pytest.mark.sweep
def test_a_linen_module_against_an_nnx_one() -> None:
    class Linen(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return linen.Dense(5, name="fc")(linen.tanh(linen.Dense(6, name="hidden")(x)))

    class Nnx(nnx.Module):
        def __init__(self, *, rngs: nnx.Rngs) -> None:
            self.hidden, self.fc = nnx.Linear(3, 6, rngs=rngs), nnx.Linear(6, 5, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.fc(jnp.tanh(self.hidden(x)))

    variables = Linen().init(jax.random.key(0), X)
    assert port.check_flax((Linen(), variables), Nnx(rngs=nnx.Rngs(0)), X, weights="first")
    assert not port.check_flax((Linen(), variables), Nnx(rngs=nnx.Rngs(0)), X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "torch"}, "unknown weights 'torch'"),
        ({"precision": "float16"}, "unknown precision"),
        ({"rtol": -1.0}, "rtol is a finite number"),
        ({"steps": 0}, "steps is an integer"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checked(Again(rngs=nnx.Rngs(1)), **options)


def test_what_is_no_flax_module() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UsageError, match=r"port\.check takes torch's"):
        port.check_flax(torch.nn.Linear(3, 5), Net(rngs=nnx.Rngs(0)), X)
    with pytest.raises(UsageError, match=r"expected a flax\.nnx\.Module"):
        port.check_flax(Net(rngs=nnx.Rngs(0)), np.zeros(3), X)
    with pytest.raises(UsageError, match="there is nothing to compare"):
        port.check_flax(Net(rngs=nnx.Rngs(0)), Net(rngs=nnx.Rngs(0)), X[:0])
