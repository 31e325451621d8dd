"""How two trainers begin with the same numbers, and how a control begins some last places away."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import port
from port.errors import BrokenWeights, NoLauncher, WeightsMismatch
from port.weights import arrays_of, find_initial_weights, read_arrays
from port.weights.torch import CONTROL_UNITS, move_last_places

VARIABLES = ("PORT_INITIAL_WEIGHTS", "PORT_FINAL_WEIGHTS", "PORT_CONTROL")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def model(seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = torch.nn.Sequential(torch.nn.Conv1d(3, 4, 2), torch.nn.BatchNorm1d(4), torch.nn.Linear(6, 5))
    return made.to(dtype)


def equal(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(x, b.state_dict()[name]) for name, x in a.state_dict().items())


# %% Sharing


def test_a_second_model_gets_the_first_ones_numbers(tmp_path: Path) -> None:
    first, second = model(0), model(1)
    before = arrays_of(first)
    port.share_initial_weights(first, tmp_path / "w")
    assert all((array == before[name]).all() for name, array in arrays_of(first).items())
    assert not equal(first, second)
    port.share_initial_weights(second, tmp_path / "w")
    assert equal(first, second)


def test_another_precision_begins_with_the_same_numbers(tmp_path: Path) -> None:
    first, second = model(0), model(1, torch.float64)
    port.share_initial_weights(first, tmp_path / "w")
    port.share_initial_weights(second, tmp_path / "w")
    assert second[0].weight.dtype == torch.float64
    assert torch.equal(first[0].weight.double(), second[0].weight)


def test_jax_loads_what_torch_shared(tmp_path: Path) -> None:
    linear = torch.nn.Linear(6, 5)
    port.share_initial_weights(linear, tmp_path / "w")
    twin = nnx.Linear(6, 5, rngs=nnx.Rngs(0))
    port.load(twin, port.initial_weights(tmp_path / "w"))
    np.testing.assert_array_equal(twin.kernel[...], linear.weight.detach().numpy().T)


def test_another_models_weights_are_refused(tmp_path: Path) -> None:
    port.share_initial_weights(torch.nn.Linear(6, 5), tmp_path / "w")
    with pytest.raises(WeightsMismatch):
        port.share_initial_weights(torch.nn.Linear(6, 4), tmp_path / "w")


def test_sharing_draws_nothing_from_torchs_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT_CONTROL", "3")
    made = model()
    before = torch.get_rng_state()
    for _ in range(2):  # writes, then loads
        port.share_initial_weights(made, tmp_path / "w")
    port.save_final_weights(made, tmp_path / "final")
    assert torch.equal(torch.get_rng_state(), before)


# %% Controls


def control(k: str | None, path: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> torch.nn.Module:
    if k is None:
        monkeypatch.delenv("PORT_CONTROL", raising=False)
    else:
        monkeypatch.setenv("PORT_CONTROL", k)
    made = model(1, dtype)
    port.share_initial_weights(made, path)
    return made


def units_moved(before: torch.nn.Module, after: torch.nn.Module) -> torch.Tensor:
    """By how many units in the last place each element of each parameter has moved."""
    units = []
    for name, parameter in before.named_parameters():
        magnitude = parameter.detach().abs()
        unit = torch.nextafter(magnitude, torch.full_like(magnitude, torch.inf)).double() - magnitude.double()
        units.append(((after.get_parameter(name).double() - parameter.double()) / unit).flatten())
    return torch.cat(units).detach()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float32, CONTROL_UNITS), (torch.float64, CONTROL_UNITS), (torch.bfloat16, 1), (torch.float16, 1)],
)
def test_a_control_moves_every_parameter_in_its_last_places(
    tmp_path: Path, dtype: torch.dtype, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = model(0, dtype)
    port.share_initial_weights(shared, tmp_path / "w")
    moved = control("2", tmp_path / "w", monkeypatch, dtype)
    units = units_moved(shared, moved)
    # Beyond a power of two the units are twice as large, and the sum is rounded to them.
    assert ((units.abs() - expected).abs() <= (expected > 1)).all()
    assert 0.25 < (units > 0).double().mean() < 0.75
    assert all(torch.equal(buffer, moved.get_buffer(name)) for name, buffer in shared.named_buffers())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_unit_is_the_next_number_there_is(dtype: torch.dtype) -> None:
    before, after = model(0, dtype), model(0, dtype)
    for made in (before, after):
        with torch.no_grad():
            made[2].bias[0] = 0.0  # the next number to zero is the smallest there is
    move_last_places(after, seed=1, units=1)
    for name, parameter in before.named_parameters():
        up, down = (torch.nextafter(parameter, torch.full_like(parameter, end)) for end in (torch.inf, -torch.inf))
        now = after.get_parameter(name)
        away_from_two = parameter.abs().log2() % 1 != 0  # just below a power of two the units are half as large
        assert ((now == up) ^ (now == down))[away_from_two].all(), name
        assert (now != parameter).all(), name


def test_controls_differ_and_each_repeats_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port.share_initial_weights(model(0), tmp_path / "w")
    written = (tmp_path / "w").read_bytes()
    plain, zero, one, two, two_again = (
        control(k, tmp_path / "w", monkeypatch, torch.float32) for k in (None, "0", "1", "2", "2")
    )
    assert equal(plain, model(0))
    assert equal(plain, zero)
    assert equal(two, two_again)
    assert not any(equal(a, b) for a, b in ((plain, one), (plain, two), (one, two)))
    assert (tmp_path / "w").read_bytes() == written


def test_a_control_that_comes_first_shares_the_weights_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = control("1", tmp_path / "w", monkeypatch, torch.float32)
    plain = control(None, tmp_path / "w", monkeypatch, torch.float32)
    assert equal(plain, model(1))
    assert not equal(moved, plain)


# %% Waiting


def test_it_waits_for_weights_that_come_later(tmp_path: Path) -> None:
    made = torch.nn.Linear(6, 5)
    later = threading.Timer(0.3, port.share_initial_weights, (made, tmp_path / "w"))
    started = time.monotonic()
    later.start()
    found = port.initial_weights(tmp_path / "w", wait=30)
    waited = time.monotonic() - started
    later.join()
    assert found == tmp_path / "w"
    assert 0.3 <= waited < 20
    assert set(read_arrays(found)) == {"weight", "bias"}  # whole at the moment that it is there


def test_it_does_not_wait_for_ever(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(BrokenWeights, match=rf"{tmp_path / 'w'}.*share_initial_weights"):
        port.initial_weights(tmp_path / "w", wait=0.1)
    assert 0.1 <= time.monotonic() - started < 10


def test_alone_the_weights_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_initial_weights(tmp_path / "w") is None
    port.save(torch.nn.Linear(2, 3), tmp_path / "w")
    assert find_initial_weights(str(tmp_path / "w")) == tmp_path / "w"
    port.save(torch.nn.Linear(2, 3), tmp_path / "launched")
    monkeypatch.setenv("PORT_INITIAL_WEIGHTS", str(tmp_path / "launched"))
    assert find_initial_weights(tmp_path / "w") == tmp_path / "launched"


# %% Where


def test_nobody_said_where() -> None:
    made = torch.nn.Linear(2, 3)
    for call in (
        lambda: port.share_initial_weights(made),
        lambda: port.initial_weights(wait=0),
        lambda: port.save_final_weights(made),
    ):
        with pytest.raises(NoLauncher, match=r"port train.*or pass one"):
            call()


def test_the_launcher_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT_INITIAL_WEIGHTS", str(tmp_path / "launched"))
    monkeypatch.setenv("PORT_FINAL_WEIGHTS", str(tmp_path / "launched-final"))
    made = torch.nn.Linear(2, 3)
    port.share_initial_weights(made, tmp_path / "mine")
    assert port.initial_weights(tmp_path / "mine", wait=0) == tmp_path / "launched"
    port.save_final_weights(made, tmp_path / "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["launched", "launched-final"]


def test_final_weights_of_either_side_are_alike(tmp_path: Path) -> None:
    linear, twin = torch.nn.Linear(6, 5), nnx.Linear(6, 5, rngs=nnx.Rngs(0))
    port.load(twin, arrays_of(linear))
    twin.kernel[...] = jnp.asarray(twin.kernel[...]) + 1
    with torch.no_grad():
        linear.weight += 1
    port.save_final_weights(linear, tmp_path / "torch")
    port.save_final_weights(twin, tmp_path / "jax")
    assert (tmp_path / "torch").read_bytes() == (tmp_path / "jax").read_bytes()
