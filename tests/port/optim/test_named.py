"""Optimizers by name: torch's defaults, and no torch."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from models.recorded import Recorded, convnet, distance, flax_steps, torch_step
from port import transforms
from port.errors import UnknownChoice, UsageError
from port.optim import NAMES, by_name, default_options
from port.pairs.optimizers import OPTIMIZERS

CLASSES = {name.lower(): getattr(torch.optim, name) for name in torch.optim.__all__}


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
@pytest.mark.sweep
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
    for function in (by_name, default_options):
        with pytest.raises(UnknownChoice) as told:
            function("sparseadm")
        assert "there are: " in str(told.value)
        assert "sparseadam" not in str(told.value)
        with pytest.raises(UsageError, match="chosen by its name, as in 'adam'; got NoneType"):
            function(None)  # type: ignore[arg-type]


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("adam", {"lr": -1.0}),
    ("adam", {"lr": math.nan}),
    ("adamw", {"eps": -1e-8}),
    ("nadam", {"betas": (1.5, 0.9)}),
    ("radam", {"betas": (0.9, -0.1)}),
    ("adamax", {"weight_decay": -0.1}),
    ("nadam", {"momentum_decay": -1.0}),
    ("adagrad", {"lr_decay": -0.1}),
    ("adagrad", {"initial_accumulator_value": -0.1}),
    ("adadelta", {"rho": 1.1}),
    ("rmsprop", {"alpha": -0.1}),
    ("rmsprop", {"momentum": -0.1}),
    ("rprop", {"etas": (1.2, 0.5)}),
    ("adafactor", {"beta2_decay": 0.1}),
    ("adafactor", {"eps": (-1.0, 1e-3)}),
    ("adafactor", {"d": 0.5}),
    ("muon", {"adjust_lr_fn": "more"}),
    ("sgd", {"nesterov": True}),
    ("sgd", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
    ("adam", {"lr": "a"}),
    ("adam", {"lr": None}),
    ("adam", {"betas": 0.9}),
    ("adafactor", {"eps": 1e-3}),
]


if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15):
    REFUSED.append(("asgd", {"lambd": -0.1}))  # older ones take it


@pytest.mark.parametrize(("name", "options"), REFUSED)
def test_what_torch_refuses(name: str, options: dict[str, Any]) -> None:
    matrix = torch.nn.Parameter(torch.ones(3, 2))
    with pytest.raises((ValueError, TypeError)):
        CLASSES[name]([matrix], **options)
    with pytest.raises(UsageError, match=rf"{CLASSES[name].__name__}: {next(iter(options))}"):
        by_name(name, **options)


@pytest.mark.parametrize("name", NAMES)
def test_what_torch_takes(name: str) -> None:
    params = {"a": jnp.ones((3, 2))}
    same = {"foreach": False, "capturable": False, "differentiable": False, "fused": None}
    by_name(name, lr=0, **same).init(params)
    by_name(name, lr=jnp.asarray(0.1)).init(params)
    by_name(name, lr=np.float32(0.1)).init(params)
    by_name(name, lr=lambda count: 0.1 / (1 + count)).init(params)
    if "betas" in default_options(name):
        by_name(name, betas=[0.0, 0.5], eps=0).init(params)


def test_a_rate_that_is_traced(recorded: Recorded) -> None:
    def step(rate: Any) -> Any:
        optimizer = by_name("adam", lr=rate)
        return optimizer.update(recorded.params, optimizer.init(recorded.params), recorded.params)[0]

    for eager, traced in zip(jax.tree.leaves(step(0.1)), jax.tree.leaves(jax.jit(step)(0.1)), strict=True):
        np.testing.assert_allclose(traced, eager, rtol=1e-12)


def test_it_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import port; port.optim.by_name('nadam', lr=0.1)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_names_need_no_jax() -> None:
    code = "import sys; sys.modules['jax'] = None; import port; assert 'adam' in port.optim.NAMES"
    subprocess.run([sys.executable, "-c", code], check=True)
