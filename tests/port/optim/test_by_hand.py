"""A learning rate that the training loop sets by hand, from torch to optax: ``schedule=``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx

import port
from port.cli import main
from port.errors import UsageError


def get_lr(step: int) -> float:
    """Warm-up and a cosine, as they are written in training loops."""
    if step < 5:
        return 6e-3 * (step + 1) / 6
    if step > 40:
        return 6e-4
    return 6e-4 + 0.5 * (1 + math.cos(math.pi * (step - 5) / 35)) * 5.4e-3


def decay(step: Any) -> Any:
    return 0.02 * 0.9**step


class Constant:
    def __call__(self, step: int) -> float:
        return 0.01


def update(module: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, schedule: Any) -> torch.Tensor:
    for group in optimizer.param_groups:
        group["lr"] = schedule(step)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    optimizer.zero_grad()
    module(x).square().sum().backward()
    optimizer.step()
    return x


def trained(schedule: Any, updates: int, cls: Any = torch.optim.AdamW) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    module = torch.nn.Linear(3, 2).double()
    optimizer = cls(module.parameters(), lr=1.0)
    for step in range(updates):
        update(module, optimizer, step, schedule)
    flax = nnx.Linear(3, 2, param_dtype=jnp.float64, rngs=nnx.Rngs(0))
    port.load(flax, module.state_dict())
    return module, optimizer, flax


@pytest.mark.parametrize(
    ("schedule", "options", "cls"),
    [
        (get_lr, {"steps": 60}, torch.optim.AdamW),
        (decay, {}, torch.optim.AdamW),
        (get_lr, {"steps": 60, "step": 12}, torch.optim.SGD),
    ],
)
@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.thin(3)
def test_training_goes_on(schedule: Any, options: Any, cls: Any, fault: bool) -> None:
    with jax.enable_x64(True):
        module, optimizer, flax = trained(schedule, 12, cls)
        mapping, params = port.mapping.between(module, flax), nnx.state(flax, nnx.Param)
        shifted = {**options, "step": 11} if fault else options  # the planted fault: the step before
        given = {"params": params, "mapping": mapping, "schedule": schedule, **shifted}
        transformation, state = port.to_optax(optimizer, **given)
        graphdef = nnx.graphdef(flax)
        for step in range(12, 20):
            x = jnp.asarray(update(module, optimizer, step, schedule).numpy())
            gradients = jax.grad(lambda p, x=x: jnp.square(nnx.merge(graphdef, p)(x)).sum())(params)
            updates, state = transformation.update(gradients, state, params)
            params = optax.apply_updates(params, updates)
        nnx.update(flax, params)
        apart = np.abs(np.asarray(flax.kernel[...]).T - module.weight.detach().numpy()).max()
    assert apart > 1e-4 if fault else apart < 1e-14


def test_the_source_calls_the_function() -> None:
    _, optimizer, _ = trained(get_lr, 3)
    source = port.optax_source(optimizer, schedule=get_lr, steps=60)
    assert f"optax.adamw(transforms.by_function({__name__}.get_lr, steps=60), weight_decay=0.01)" in source
    assert f"import {__name__}" in source
    _, optimizer, _ = trained(decay, 3)
    assert f"transforms.by_function({__name__}.decay)" in port.optax_source(optimizer, schedule=decay)


REFUSED: dict[str, tuple[Any, int, Any, dict[str, Any], str]] = {
    "no function": (get_lr, 3, 0.1, {}, "takes a function from the step"),
    "an if": (get_lr, 3, get_lr, {}, "get_lr cannot be traced by JAX .* give steps="),
    "steps behind": (get_lr, 9, get_lr, {"steps": 9}, "steps=9, but there were 9 updates already"),
    "another function": (get_lr, 9, decay, {}, "group 0 has the rate .* after 9 updates; decay returns"),
    "another count": (get_lr, 9, get_lr, {"steps": 60, "step": 30}, "at step 29 and"),
    "an object": (Constant(), 3, Constant(), {}, "not a module-level function"),
    "one that fails": (get_lr, 3, lambda step: 1 / 0, {"steps": 9}, "fails at step 2: ZeroDivisionError"),
    "epochs": (get_lr, 3, get_lr, {"steps": 60, "steps_per_epoch": 3}, "leave it out"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be(case: str) -> None:
    by, updates, schedule, options, told = REFUSED[case]
    _, optimizer, _ = trained(by, updates)
    with pytest.raises(UsageError, match=told):
        port.optax_source(optimizer, schedule=schedule, **options)


def test_beside_a_scheduler_and_without_a_count() -> None:
    _, optimizer, _ = trained(get_lr, 3, torch.optim.SGD)
    with pytest.raises(UsageError, match=r"SGD does not count its updates: pass step="):
        port.optax_source(optimizer, schedule=get_lr, steps=60)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    with pytest.raises(UsageError, match="both set the learning rate"):
        port.optax_source(optimizer, schedule=get_lr, scheduler=scheduler)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "by_hand_things.py").write_text(
        "from torch import nn\n\n\ndef net():\n    return nn.Linear(3, 2)\n\n\n"
        "def get_lr(step):\n    return 0.1 if step < 5 else 0.02\n"
    )
    module, optimizer, _ = trained(lambda step: 0.1 if step < 5 else 0.02, 8)
    torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
    command = ["convert", "ckpt.pt", "--torch", "by_hand_things:net", "--key", "model", "--format", "orbax"]
    command += ["--optimizer", "torch.optim:AdamW", "-o", "out"]
    assert main([*command, "--schedule", "by_hand_things:get_lr", "--steps", "20"]) == 0
    assert "transforms.by_function(by_hand_things.get_lr, steps=20)" in capsys.readouterr().out
    for wrong, told in (
        (["--schedule", "by_hand_things:get_lr"], "give steps="),
        (["--steps", "20"], "--steps is how many updates"),
        (["--schedule", "by_hand_things:gone", "--steps", "20"], "unknown name in by_hand_things"),
        (["--schedule", "by_hand_things:get_lr", "--scheduler", "torch.optim.lr_scheduler:StepLR"], "place"),
    ):
        assert main([*command, "--overwrite", *wrong]) == 2
        assert told in capsys.readouterr().err
