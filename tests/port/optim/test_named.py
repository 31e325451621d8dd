"""Optimizers by name: torch's defaults, and no torch."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator

import jax
import pytest
import torch

from models.recorded import Recorded, convnet, distance, flax_steps, torch_step
from port import transforms
from port.errors import UnknownChoice, UsageError
from port.optim import NAMES, by_name, default_options
from port.pairs.optimizers import OPTIMIZERS

CLASSES = {name.lower(): getattr(torch.optim, name) for name in torch.optim.__all__}


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    with jax.enable_x64(True):
        return convnet()


def test_every_class_of_torch_has_a_pair() -> None:
    classes = {
        f"torch.optim.{name}"
        for name, cls in vars(torch.optim).items()
        if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
    }
    assert classes == {pair.torch for pair in OPTIMIZERS}
    assert set(NAMES) == {pair.name for pair in OPTIMIZERS} - {"sparseadam"}


@pytest.mark.parametrize("name", [pair.name for pair in OPTIMIZERS])
def test_the_defaults_are_torchs(name: str) -> None:
    parameters = inspect.signature(CLASSES[name]).parameters
    changes_nothing = {"params", "foreach", "fused", "capturable", "differentiable"}
    theirs = {key: value.default for key, value in parameters.items() if key not in changes_nothing}
    ours = default_options(name)
    if name == "muon":  # three numbers and a name in the signature, one option in the group
        theirs = {key: value for key, value in theirs.items() if key in ours}
    assert ours == theirs


@pytest.mark.parametrize("name", ["adafactor", "nadam", "rmsprop"])
def test_a_scheduled_optimizer_is_torchs(name: str, recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = CLASSES[name](module.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    ours = by_name(name, model=recorded.model, lr=transforms.exponential_lr(0.02, gamma=0.9))
    step, params, state = flax_steps(ours), recorded.params, ours.init(recorded.params)
    for gradients in recorded.gradients[:20]:
        torch_step(module, optimizer, gradients)
        scheduler.step()
        params, state = step(recorded.to_flax(gradients), state, params)
    assert distance(recorded.to_torch(params), module) <= 1e-10


def test_adafactor_without_the_layout_is_another(recorded: Recorded) -> None:
    module = recorded.fresh()
    optimizer = torch.optim.Adafactor(module.parameters(), lr=0.02)
    ours = by_name("adafactor", lr=0.02)
    state = ours.init(recorded.params)
    torch_step(module, optimizer, recorded.gradients[0])
    params, _ = flax_steps(ours)(recorded.to_flax(recorded.gradients[0]), state, recorded.params)
    assert distance(recorded.to_torch(params), module) > 1e-6


def test_what_there_is_not_is_named() -> None:
    with pytest.raises(UnknownChoice, match="unknown optimizer 'adamv'; there are: adam"):
        by_name("adamv")
    with pytest.raises(UnknownChoice, match="unknown option of adam 'beta'; there are: betas"):
        by_name("adam", beta=0.9)
    with pytest.raises(UsageError, match="nearest is Adam"):
        by_name("sparseadam")


def test_it_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import port; port.optim.by_name('nadam', lr=0.1)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_names_need_no_jax() -> None:
    code = "import sys; sys.modules['jax'] = None; import port; assert 'adam' in port.optim.NAMES"
    subprocess.run([sys.executable, "-c", code], check=True)
