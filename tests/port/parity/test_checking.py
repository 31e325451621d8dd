"""`port.check` itself: what it takes, what it leaves alone, what it says of what it cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn

import port
from models.frozen import FlaxBands, FlaxPlain, TorchBands, TorchOpen
from port.errors import UsageError, WeightsMismatch
from port.judging import Status
from port.nn import BatchNorm
from port.weights.nnx_variables import variables_of

WIDTH = 6


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


class Result(NamedTuple):
    logits: Any
    more: Any


class Model(nn.Module):
    """Dropout and BatchNorm: the modes differ."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.drop = nn.Linear(5, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.5)
        self.fc2 = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> Result:
        h = self.drop(self.norm(self.fc1(x)))
        return Result(self.fc2(h if mask is None else h.masked_fill(~mask, 0.0)), {"hidden": h, "top": h.argmax(-1)})


class FlaxModel(nnx.Module):
    def __init__(self, **options: Any) -> None:
        rngs = nnx.Rngs(0)
        self.fc1, self.norm = nnx.Linear(5, WIDTH, rngs=rngs, **options), BatchNorm(WIDTH)
        self.drop, self.fc2 = nnx.Dropout(0.5, rngs=rngs), nnx.Linear(WIDTH, 3, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> Result:
        h = self.drop(self.norm(self.fc1(x)))
        hidden = {"hidden": h, "top": h.argmax(-1)}
        return Result(self.fc2(h if mask is None else jnp.where(mask, h, 0.0)), hidden)


def pair(make: Callable[[], Any] = FlaxModel) -> tuple[Model, Any]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        theirs = Model()
    ours = make()
    port.load(ours, theirs)
    return theirs, ours


X = random(20, 5)

# %% What is left alone


@pytest.mark.sweep
def test_gradients_are_compared_where_the_caller_has_turned_them_off() -> None:
    with torch.no_grad():
        report = port.check(*pair(), X)
    assert report and report.compared["gradients"], str(report)


@pytest.mark.sweep
def test_the_modules_given_stay_as_they_are() -> None:
    theirs, ours = pair()
    theirs.norm.eval()
    theirs.fc1.weight.requires_grad_(False)
    ours.eval()
    before = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    graph, _ = nnx.split(ours)
    kept = variables_of(ours)
    call, generator = FlaxModel.__call__, torch.random.get_rng_state()
    assert port.check(theirs, ours, X)
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert tensor.dtype == before[name].dtype
    assert theirs.training
    assert not theirs.norm.training
    assert not theirs.fc1.weight.requires_grad
    assert theirs.fc2.weight.grad is None
    assert theirs.drop.p == 0.5
    assert not theirs.fc1._forward_hooks
    assert nnx.split(ours)[0] == graph, "flags and all"
    for path, array in variables_of(ours).items():
        assert array.dtype == kept[path].dtype
        assert np.array_equal(array, kept[path])
    assert FlaxModel.__call__ is call
    assert "__call__" not in vars(nnx.Linear) or nnx.Linear.__call__.__qualname__ == "Linear.__call__"
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert not jax.config.jax_enable_x64


@pytest.mark.sweep
def test_dropout_is_off_and_said_to_be() -> None:
    theirs, ours = pair()
    report = port.check(theirs, ours, X)
    assert report
    assert any("dropout was off" in remark and "drop" in remark for remark in report.remarks)
    assert report.compared["outputs"] == 6
    assert report.compared["gradients"] == 12


@pytest.mark.sweep
def test_a_small_batch_is_remarked_on() -> None:
    theirs, ours = pair()
    assert any("4 values a channel" in remark for remark in port.check(theirs, ours, X[:4]).remarks)
    assert not any("values a channel" in remark for remark in port.check(theirs, ours, X).remarks)


# %% What it takes


@pytest.mark.sweep
def test_positional_and_keyword_arguments_and_masks() -> None:
    theirs, ours = pair()
    mask = random(20, WIDTH) > 0
    assert port.check(theirs, ours, (X, mask))
    assert port.check(theirs, ours, {"x": X, "mask": mask})
    report = port.check(theirs, ours, (X, mask), flax_inputs=(X, ~mask))
    assert not report
    assert report.first is not None
    assert report.first.layer == "fc2"


def test_layers_told_their_dtype_are_widened() -> None:
    theirs, ours = pair(lambda: FlaxModel(dtype=jnp.bfloat16))
    assert port.check(theirs, ours, X)


def test_what_a_model_makes_without_a_dtype_is_in_the_precision_too() -> None:
    """As a mask that is filled with the lowest number of the input's dtype, which float32 cannot hold."""

    class Masked(Model):
        def forward(self, x: Any, *args: Any) -> Any:
            mask = torch.full((x.shape[-1],), torch.finfo(x.dtype).min).exp()
            assert mask.dtype == torch.tensor(0.5).dtype == x.dtype
            return super().forward(x + mask, *args)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        theirs, ours = Masked(), FlaxModel()
    port.load(ours, theirs)
    assert port.check(theirs, ours, X)
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.sweep
def test_in_float32() -> None:
    theirs, ours = pair()
    report = port.check(theirs, ours, X, precision="float32")
    assert report, str(report)
    assert report.precision == "float32"
    strict = port.check(theirs, ours, X, precision="float32", rtol=1e-12)
    assert not strict, "float32 does not agree to twelve digits"
    assert port.check(theirs, ours, X, precision="float32", rtol=1e-12, atol=1.0)


def test_a_loss_of_each_side() -> None:
    theirs, ours = pair()
    square = lambda result: (result.logits**2).sum()  # noqa: E731
    assert port.check(theirs, ours, X, loss=(square, square))
    report = port.check(theirs, ours, X, loss=(square, lambda result: 2 * square(result)))
    assert [finding.where for finding in report.findings if finding.what == "forward"] == ["loss", "loss"]


def test_outputs_that_are_not_as_many() -> None:
    class One(FlaxModel):
        def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> Any:
            return super().__call__(x, mask).logits

    theirs, ours = pair(One)
    report = port.check(theirs, ours, X)
    assert "torch gives 3 outputs" in report.findings[0].why


def test_other_names() -> None:
    class Renamed(nnx.Module):
        def __init__(self) -> None:
            self.body = FlaxModel()

        def __call__(self, x: jax.Array) -> Result:
            return self.body(x)

    theirs, ours = Model(), Renamed()
    rename = {r"^": "body."}
    port.load(ours, theirs, rename=rename)
    assert port.check(theirs, ours, X, rename=rename)
    ours.body.fc2.bias[...] += 1.0
    report = port.check(theirs, ours, X, rename=rename)
    assert report.first is not None
    assert (report.first.layer, report.first.path) == ("fc2", "body.fc2")
    with pytest.raises(WeightsMismatch, match=r"fc3|missing|unexpected"):
        port.check(theirs, ours, X, rename={"fc1": "fc3"})


# %% Spatial inputs


class Spatial(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.act, self.conv2 = nn.Conv2d(4, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2(self.act(self.conv1(x)))


class FlaxSpatial(nnx.Module):
    def __init__(self, *, first: bool = False) -> None:
        rngs = nnx.Rngs(0)
        self.conv1, self.conv2 = nnx.Conv(4, 4, (3, 3), padding=1, rngs=rngs), nnx.Conv(4, 4, (1, 1), rngs=rngs)
        self.first = first

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x.transpose(0, 2, 3, 1) if self.first else x
        x = self.conv2(jnp.tanh(self.conv1(x)))
        return x.transpose(0, 3, 1, 2) if self.first else x


@pytest.mark.sweep
def test_a_cube_is_channels_last_by_rule() -> None:
    theirs, ours, first = Spatial(), FlaxSpatial(), FlaxSpatial(first=True)
    port.load(ours, theirs)
    port.load(first, theirs)
    cube = random(2, 4, 4, 4)
    assert port.check(theirs, ours, cube)
    assert not port.check(theirs, ours, cube, channels_last=False)
    assert port.check(theirs, first, cube, channels_last=False)
    assert not port.check(theirs, first, cube)


# %% Linen


class Linen(flax.linen.Module):
    padding: Any = 1
    dtype: Any = jnp.float32

    @flax.linen.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        x = flax.linen.Conv(4, (3, 3), strides=2, padding=self.padding, dtype=self.dtype, name="conv")(x)
        x = flax.linen.GroupNorm(2, epsilon=1e-5, use_fast_variance=False, name="norm")(x)
        x = flax.linen.Dropout(0.5, deterministic=not train)(x)
        return flax.linen.Dense(3, name="fc")(x.reshape(len(x), -1))


class ForLinen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.GroupNorm(2, 4)
        self.drop, self.fc = nn.Dropout(0.5), nn.Linear(48, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.drop(self.norm(self.conv(x))).flatten(1))


@pytest.mark.sweep
def test_a_linen_module_with_its_variables() -> None:
    theirs, fold, images = ForLinen(), {"fc": (4, 4, 3)}, random(2, 3, 8, 6)
    example = (jnp.zeros((2, 8, 6, 3)), False)
    right, wrong = Linen(), Linen(padding="SAME")
    variables = port.to_flax(theirs, target=right, inputs=example, fold=fold)
    report = port.check(theirs, (right, variables), images, fold=fold)
    assert report, str(report)
    assert right.dtype == jnp.float32
    report = port.check(theirs, (wrong, variables), images, fold=fold)
    assert report.first is not None
    assert (report.first.layer, report.first.flax, report.first.itself) == ("conv", "flax.linen.linear.Conv", True)
    rows = {row.layer: row for row in report.layers["evaluation"]}
    assert rows["norm"].alone is not None
    assert rows["norm"].alone < 1e-12 < rows["norm"].output


# %% What it refuses


def test_inputs_that_a_side_does_not_take() -> None:
    theirs, ours = pair()
    with pytest.raises(UsageError, match=r"the torch model does not take the inputs \(float64 \(20, 4\)\)"):
        port.check(theirs, ours, X[:, :4])
    with pytest.raises(UsageError, match="the Flax model does not take the inputs"):
        port.check(theirs, ours, X, flax_inputs=X[:, :4])
    assert FlaxModel.__call__.__qualname__ == "FlaxModel.__call__", "put back after an error too"


def test_what_is_no_model() -> None:
    with pytest.raises(UsageError, match=r"expected a flax\.nnx\.Module or \(Linen module, variables\)"):
        port.check(Model(), object(), X)
    with pytest.raises(UsageError, match="pass \\(module, variables\\)"):
        port.check(Model(), Linen(), X)
    with pytest.raises(UsageError, match="has no values"):
        port.check(Model(), nnx.eval_shape(FlaxModel), X)
    with pytest.raises(UsageError, match="there are: float64"):
        port.check(*pair(), X, precision="float63")  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["rtol", "atol"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "1e-3", True])
def test_a_limit_that_is_none(option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{option} is a finite number of at least 0"):
        port.check(*pair(), X, **{option: value})


@pytest.mark.parametrize("steps", [0, -1, "x", 2.0, True])
def test_steps_that_are_none(steps: Any) -> None:
    with pytest.raises(UsageError, match="steps is an integer of at least 1"):
        port.check(*pair(), X, steps=steps)


def test_a_limit_of_zero_is_one() -> None:
    report = port.check(*pair(), X, rtol=0, single_step=False)
    assert not report, "to the last bit they do not agree"


def test_classes_and_models_the_wrong_way_round() -> None:
    theirs, ours = pair()
    with pytest.raises(UsageError, match=r"expected a torch\.nn\.Module first, got the class Model \(give an instance"):
        port.check(Model, ours, X)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"\(Linen module, variables\), got the class FlaxModel \(give an instance"):
        port.check(theirs, FlaxModel, X)
    with pytest.raises(UsageError, match="the two models are swapped"):
        port.check(ours, theirs, X)
    with pytest.raises(UsageError, match="the two models are swapped"):
        port.check((Linen(), {}), theirs, X)  # type: ignore[arg-type]


def test_folds_and_names_that_are_none() -> None:
    theirs, ours = pair()
    for fold in ({"fc2": 6}, "fc2=6,4,4", {"fc2": "642"}, {"fc2": (6, 0)}, {2: (6, 1)}, {"fc2": ()}):
        with pytest.raises(UsageError, match="fold is a linear layer's path"):
            port.check(theirs, ours, X, fold=fold)  # type: ignore[arg-type]
    for rename in ({1: "b"}, {"a": 1}, 5, [("a", "b")]):
        with pytest.raises(UsageError, match="rename is pattern"):
            port.check(theirs, ours, X, rename=rename)  # type: ignore[arg-type]


def test_an_empty_batch() -> None:
    with pytest.raises(UsageError, match=r"input 0 has shape \(0, 5\)"):
        port.check(*pair(), X[:0])


class Rows(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.linear, self.rows = nn.Linear(5, 3), rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)[: self.rows]  # type: ignore[no-any-return]


class FlaxRows(nnx.Module):
    def __init__(self, rows: int) -> None:
        self.linear, self.rows = nnx.Linear(5, 3, rngs=nnx.Rngs(0)), rows

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.linear(x)[: self.rows]


@pytest.mark.thin(2)
@pytest.mark.parametrize(("rows", "status"), [(0, Status.CANNOT_JUDGE), (1, Status.AGREE)])
def test_outputs_without_numbers_cannot_be_judged(rows: int, status: Status) -> None:
    for report in (
        port.check(Rows(rows), FlaxRows(rows), X, weights="torch"),
        port.check_flax(FlaxRows(rows), FlaxRows(rows), X.numpy()),
    ):
        assert report.status is status, report
        assert ("the outputs hold no numbers" in report.sentence) == (rows == 0)
        remarks = {f"the outputs in {mode} hold no numbers" for mode in ("evaluation", "training")}
        assert remarks & {*report.remarks} == (set() if rows else remarks)


def test_nan_is_called_nan() -> None:
    theirs, ours = pair()
    ours.fc1.bias[...] = ours.fc1.bias[...].at[2].set(jnp.nan)
    report = port.check(theirs, ours, X, weights="own")
    row = next(row for row in report.layers["evaluation"] if row.layer == "fc1")
    assert row.output == float("inf")
    line = next(line for line in str(report).splitlines() if line.strip().startswith("fc1 "))
    assert "NaN" in line
    assert "shape" not in str(report)
    assert any("NaN on one side" in finding.why for finding in report.findings if finding.what == "forward")


def test_a_renaming_with_nothing_to_rename_is_remarked_on() -> None:
    report = port.check(*pair(), X, rename={"head": "fc2", "fc2": "fc2"})
    assert report
    assert [remark for remark in report.remarks if "matches none" in remark] == [
        "rename: 'head' matches none of torch's names"
    ]


class Noisy(Model):
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> Result:
        return super().forward(x + torch.randn_like(x) if self.training else x, mask)


def test_a_model_that_draws_random_numbers_is_not_judged_in_training() -> None:
    theirs, ours = Noisy(), FlaxModel()
    port.load(ours, theirs)
    report = port.check(theirs, ours, X)
    assert report
    assert list(report.layers) == ["evaluation"]
    assert any("random numbers in training mode" in remark for remark in report.remarks)


@pytest.mark.sweep
def test_what_one_side_alone_trains_is_remarked_on_and_all_gradients_are_compared() -> None:
    theirs = TorchBands()
    for cls, said in ((FlaxBands, None), (FlaxPlain, "frozen in torch (requires_grad=False), and nnx.Param in Flax")):
        report = port.check(theirs, cls(rngs=nnx.Rngs(0)), torch.randn(3, 6), weights="torch")
        assert report and report.compared["gradients"] == 2 * 6
        assert [remark for remark in report.remarks if "rozen" in remark and (said is None or said not in remark)] == []
        assert said is None or any(said in remark and "scale, bank.weight" in remark for remark in report.remarks)
    report = port.check(TorchOpen(), FlaxBands(rngs=nnx.Rngs(0)), torch.randn(3, 6), weights="torch")
    assert any("trained in torch, and port.nn.Frozen in Flax: scale, bank.weight" in one for one in report.remarks)


class Stopping:
    """The scale's gradient is stopped."""

    def __call__(self: Any, x: jax.Array) -> jax.Array:
        scale = jax.lax.stop_gradient(self.scale[...])
        return self.head(jnp.tanh(self.mid(self.bank(x) * scale)))


class StoppingBands(Stopping, FlaxBands):
    """Beside being frozen by its kind."""


class StoppingPlain(Stopping, FlaxPlain):
    """This freezes it."""


@pytest.mark.sweep
def test_a_faulty_gradient_of_a_frozen_parameter_is_seen() -> None:
    report = port.check(TorchBands(), StoppingBands(rngs=nnx.Rngs(0)), torch.randn(3, 6), weights="torch")
    assert not report and {finding.where for finding in report.findings} == {"scale → scale"}


@pytest.mark.sweep
def test_a_plain_parameter_is_frozen_by_stopping_its_gradient() -> None:
    report = port.check(TorchBands(), StoppingPlain(rngs=nnx.Rngs(0)), torch.randn(3, 6), weights="torch")
    assert report and report.compared["gradients"] == 2 * 5
    assert any("gradients in evaluation of scale were not compared" in remark for remark in report.remarks)
    # One that torch trains is not.
    report = port.check(TorchOpen(), StoppingPlain(rngs=nnx.Rngs(0)), torch.randn(3, 6), weights="torch")
    assert {finding.where for finding in report.findings} == {"scale → scale"}
