"""A training checkpoint with its optimizer: over to Flax through a file, and on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import optax
import pytest
import torch
from flax import nnx

import port
from models.recorded import FlaxConvNet, Recorded, TorchConvNet, convnet, distance, flax_steps, torch_step
from port.cli import main
from port.errors import WeightsMismatch
from port.optim import load_opt_state


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    with jax.enable_x64(True):
        return convnet()


def trained(recorded: Recorded, cls: Any = torch.optim.AdamW, steps: int = 20, **options: Any) -> Any:
    module = recorded.fresh()
    optimizer = cls(module.parameters(), **options)
    for gradients in recorded.gradients[:steps]:
        torch_step(module, optimizer, gradients)
    return module, optimizer


def write(path: Path, module: Any, optimizer: Any, **beside: Any) -> list[str]:
    torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(), **beside}, path)
    return ["convert", str(path), "--torch", "models.recorded:TorchConvNet", "--flax", "models.recorded:FlaxConvNet"]


@pytest.mark.parametrize("format", ["safetensors", "orbax"])
def test_training_goes_on_from_the_file(
    format: str, recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, optimizer = trained(recorded, lr=1e-2)
    arguments = write(tmp_path / "last.pt", module, optimizer, epoch=3)
    out = tmp_path / "out"
    options = ["--optimizer", "torch.optim:AdamW", "-o", str(out), "--format", format]
    assert main([*arguments, *options]) == 0
    told = capsys.readouterr().out
    assert "after 20 steps" in told
    assert "optimizer = optax.adamw(0.01, weight_decay=0.01)" in told
    assert "left out:\n  epoch: beside" in told

    model = FlaxConvNet()
    port.load(model, out)
    params = nnx.state(model, nnx.Param)
    transformation = optax.adamw(0.01, weight_decay=0.01)
    state = load_opt_state(transformation.init(params), out)
    step = flax_steps(transformation)
    for gradients in recorded.gradients[20:]:
        torch_step(module, optimizer, gradients)
        params, state = step(recorded.to_flax(gradients), state, params)
    assert distance(recorded.to_torch(params), module) <= 1e-10


def test_a_state_of_another_transformation_is_refused(recorded: Recorded, tmp_path: Path) -> None:
    arguments = write(tmp_path / "last.pt", *trained(recorded))
    assert main([*arguments, "--optimizer", "torch.optim:AdamW", "-o", str(tmp_path / "out")]) == 0
    fresh = optax.sgd(0.1, momentum=0.9).init(recorded.params)
    with pytest.raises(WeightsMismatch, match=r"missing: 0\.trace\.conv\.kernel(.|\n)*unexpected: 0\.count"):
        load_opt_state(fresh, tmp_path / "out")


def test_without_a_name_for_the_step_the_optimizers_is_taken_and_groups_are_told_by_names(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = recorded.fresh()
    named = dict(module.named_parameters())
    first = [(name, p) for name, p in named.items() if p.ndim > 1]
    second = [(name, p) for name, p in named.items() if p.ndim == 1]
    optimizer = torch.optim.SGD([{"params": second}, {"params": first, "lr": 0.1}], lr=0.01, momentum=0.9)
    torch_step(module, optimizer, recorded.gradients[0])
    arguments = write(tmp_path / "last.pt", module, optimizer, global_step=17)
    assert main([*arguments, "--optimizer", "torch.optim:SGD", "-o", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "after 17 steps" in told
    assert "optax.sgd(0.1, momentum=0.9)" in told
    assert '"norm.scale"' in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--optimizer", "torch.optim:SGD"], "is the state of another class"),
        (["--optimizer", "torch.optim:Adm"], "Adm"),
        (["--optimizer", "torch.optim:AdamW", "--optimizer-key", "opt"], "no optimizer's state dict at 'opt'"),
        (["--optimizer-key", "optimizer"], "pass its class too"),
    ],
)
def test_bad_input_writes_nothing(
    options: list[str], message: str, recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = write(tmp_path / "last.pt", *trained(recorded, steps=1))
    assert main([*arguments, *options, "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_without_an_optimizer(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"model": recorded.module.state_dict()}, tmp_path / "last.pt")
    options = ["--torch", "models.recorded:TorchConvNet", "--optimizer", "torch.optim:AdamW"]
    assert main(["convert", str(tmp_path / "last.pt"), *options, "-o", str(tmp_path / "out")]) == 2
    assert "has no optimizer's state dict" in capsys.readouterr().err


def test_the_state_of_another_model(recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = TorchConvNet()
    other.out = torch.nn.Linear(6, 4)
    optimizer = torch.optim.AdamW(other.parameters())
    torch_step(other, optimizer, {name: torch.ones_like(p) for name, p in other.named_parameters()})
    arguments = write(tmp_path / "last.pt", recorded.module, optimizer)
    assert main([*arguments, "--optimizer", "torch.optim:AdamW", "-o", str(tmp_path / "out")]) == 2
    assert "out.weight has shape (4, 6), the model's parameter (3, 6)" in capsys.readouterr().err
