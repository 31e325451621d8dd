"""A scheduler in a training checkpoint, by the command line: over to Flax with its optimizer, and on from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from torch.optim import lr_scheduler as L

from models.recorded import Recorded, distance, flax_steps, torch_step
from port.cli import main
from port.optim import load_opt_state
from port.weights import torch_files

STEPS = 20
SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "CosineAnnealingLR": lambda o: L.CosineAnnealingLR(o, 33, 1e-4),
    "OneCycleLR": lambda o: L.OneCycleLR(o, 0.05, 70),
    "ReduceLROnPlateau": lambda o: L.ReduceLROnPlateau(o, factor=0.5, patience=3),
}


def step(scheduler: Any, metric: float) -> None:
    scheduler.step(*([metric] if isinstance(scheduler, L.ReduceLROnPlateau) else []))


def trained(recorded: Recorded, make: Callable[[Any], Any], cls: Any = torch.optim.AdamW, every: int = 1) -> Any:
    module = recorded.fresh()
    optimizer = cls(module.parameters(), lr=1e-2)
    scheduler = make(optimizer)
    for place, gradients in enumerate(recorded.gradients[:STEPS], 1):
        torch_step(module, optimizer, gradients)
        if place % every == 0:
            step(scheduler, 1.0)
    return module, optimizer, scheduler


def write(folder: Path, module: Any, optimizer: Any, scheduler: Any, **beside: Any) -> list[str]:
    states = {"model": module, "optimizer": optimizer, "scheduler": scheduler}
    torch.save({**{name: thing.state_dict() for name, thing in states.items()}, **beside}, folder / "last.pt")
    cls = f"torch.optim:{type(optimizer).__name__}"
    models = ["--torch", "models.recorded:TorchMlp", "--flax", "models.recorded:FlaxMlp"]
    return ["convert", str(folder / "last.pt"), *models, "--optimizer", cls, "-o", str(folder / "out")]


def source(told: str) -> dict[str, Any]:
    """What the printed lines make."""
    made: dict[str, Any] = {}
    exec("import optax\n" + told.partition("import optax\n")[2], made)
    return made


def goes_on(recorded: Recorded, folder: Path, told: str, held: Any, every: int = 1) -> list[float]:
    """The distance behind each of the steps to come."""
    module, optimizer, scheduler = held
    params = recorded.to_flax({name: p.detach() for name, p in module.named_parameters()})
    transformation = source(told)["optimizer"]
    state, update = load_opt_state(transformation.init(params), folder / "out"), flax_steps(transformation)
    found = []
    for place, gradients in enumerate(recorded.gradients[STEPS:], STEPS + 1):
        torch_step(module, optimizer, gradients)
        if place % every == 0:
            step(scheduler, 1.0)
        metric = {"value": jnp.asarray(1.0)} if isinstance(scheduler, L.ReduceLROnPlateau) else {}
        params, state = update(recorded.to_flax(gradients), state, params, **metric)
        found.append(distance(recorded.to_torch(params), module))
    return found


@pytest.mark.parametrize("name", SCHEDULERS)
def test_training_goes_on_with_the_schedule(
    name: str, recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = trained(recorded, SCHEDULERS[name])
    arguments = write(tmp_path, *held, epoch=3)
    assert main([*arguments, "--scheduler", f"torch.optim.lr_scheduler:{name}"]) == 0
    told = capsys.readouterr().out
    assert "left out:\n  epoch: beside" in told
    assert "look:" not in told
    assert max(goes_on(recorded, tmp_path, told, held)) <= 1e-10


def test_the_checkpoint_is_opened_once(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the weights, the optimizer and its scheduler."""
    opened: list[Path] = []
    look_through = torch_files.look_through
    monkeypatch.setattr(torch_files, "look_through", lambda path: (opened.append(path), look_through(path))[1])
    arguments = write(tmp_path, *trained(recorded, SCHEDULERS["CosineAnnealingLR"]))
    assert main([*arguments, "--scheduler", "torch.optim.lr_scheduler:CosineAnnealingLR"]) == 0
    assert "The optimizer after 20 steps" in capsys.readouterr().out
    assert opened == [tmp_path / "last.pt"]


def test_a_scheduler_that_counts_epochs(recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = trained(recorded, lambda o: L.StepLR(o, 2, 0.6), every=4)
    arguments = [*write(tmp_path, *held), "--scheduler", "torch.optim.lr_scheduler:StepLR"]
    assert main(arguments) == 2
    assert "there were 20 updates and 5 steps of the StepLR" in (told := capsys.readouterr().err)
    assert "--steps-per-epoch 4; or 1 if it is" in told
    assert not (tmp_path / "out").exists()
    assert main([*arguments, "--steps-per-epoch", "4"]) == 0
    told = capsys.readouterr().out
    assert "transforms.per_epoch(transforms.step_lr(0.01, step_size=2, gamma=0.6), 4)" in told
    assert max(goes_on(recorded, tmp_path, told, held, every=4)) <= 1e-10


def test_another_number_of_updates_to_an_epoch_is_seen(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = trained(recorded, lambda o: L.StepLR(o, 2, 0.6), every=4)
    options = ["--scheduler", "torch.optim.lr_scheduler:StepLR", "--steps-per-epoch"]
    assert main([*write(tmp_path, *held), *options, "5"]) == 2
    told = capsys.readouterr().err
    assert "last.pt: the optimizer counts 20 updates, and the StepLR has taken 5 steps of 5 updates each" in told
    assert main([*write(tmp_path, *held), *options, "4"]) == 0
    assert max(goes_on(recorded, tmp_path, capsys.readouterr().out, held, every=5)) > 1e-4, "the planted fault"


def test_where_nothing_tells_how_many_updates_there_were(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = trained(recorded, lambda o: L.StepLR(o, 2, 0.6), torch.optim.SGD, every=4)
    arguments = [*write(tmp_path, *held), "--scheduler", "torch.optim.lr_scheduler:StepLR"]
    assert main(arguments) == 0
    assert "says how many updates there were: assuming that the StepLR is" in capsys.readouterr().out
    assert main([*arguments, "--steps-per-epoch", "4", "--overwrite"]) == 0
    told = capsys.readouterr().out
    assert "assuming the 20 of 5 whole epochs; if it was saved within one, pass those since the" in told
    assert max(goes_on(recorded, tmp_path, told, held, every=4)) <= 1e-10


@pytest.mark.parametrize("said", [[], ["--step", "22"]])
def test_an_optimizer_without_a_count_within_an_epoch(
    said: list[str], recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, optimizer, scheduler = trained(recorded, lambda o: L.StepLR(o, 2, 0.6), torch.optim.SGD, every=4)
    later = recorded.gradients[STEPS : STEPS + 2]
    for gradients in later:
        torch_step(module, optimizer, gradients)
    arguments = write(tmp_path, module, optimizer, scheduler, **({} if said else {"global_step": 22}))
    options = ["--scheduler", "torch.optim.lr_scheduler:StepLR", "--steps-per-epoch", "4"]
    assert main([*arguments, *options, *said]) == 0
    told = capsys.readouterr().out
    assert "look:" not in told
    state = load_opt_state(source(told)["optimizer"].init(recorded.params), tmp_path / "out")
    assert [int(leaf) for leaf in jax.tree.leaves(state) if leaf.dtype == jnp.int32] == [22]


def test_a_scheduler_that_nobody_asked_for_is_told_of(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = trained(recorded, SCHEDULERS["CosineAnnealingLR"])
    assert main(write(tmp_path, *held)) == 0
    rate = f"{held[1].param_groups[0]['lr']:.6g}"
    assert (
        f"look: scheduler: the state of a scheduler, which is not converted: the rate stays at {rate}. Pass its class: "
        "--scheduler torch.optim.lr_scheduler:CosineAnnealingLR\n"
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scheduler", "torch.optim.lr_scheduler:StepLR"], "is the state of torch.optim.lr_scheduler.Cosine"),
        (["--scheduler", "torch.optim.lr_scheduler:StepsLR"], "StepLR"),
        (["--scheduler", "torch.optim.lr_scheduler:LambdaLR"], "not contain the scheduler's functions"),
        (["--scheduler", "torch.optim:AdamW"], "no scheduler is known for torch.optim.adamw.AdamW"),
        (["--scheduler", "COSINE", "--scheduler-key", "sched"], "no scheduler's state dict at 'sched'"),
        (["--scheduler", "COSINE", "--steps-per-epoch", "0"], "must be at least 1, got 0"),
        (["--scheduler", "COSINE", "--steps-per-epoch", "999999999"], "are too many"),
        (["--scheduler-key", "scheduler"], "pass its class, with --scheduler"),
        (["--steps-per-epoch", "3"], "pass its class, with --scheduler"),
        (["--step", "3"], "pass its class, with --scheduler"),
        (["--scheduler", "COSINE", "--step", "-1"], "--step must be at least 0, got -1"),
        (["--scheduler", "COSINE", "--step", "7"], "step is 7, and the CosineAnnealingLR has taken 20 steps"),
    ],
)
def test_bad_input_writes_nothing(
    options: list[str], message: str, recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = write(tmp_path, *trained(recorded, SCHEDULERS["CosineAnnealingLR"]))
    cosine = "torch.optim.lr_scheduler:CosineAnnealingLR"
    assert main([*arguments, *(cosine if option == "COSINE" else option for option in options)]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_scheduler_without_its_optimizer(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = write(tmp_path, *trained(recorded, SCHEDULERS["OneCycleLR"]))
    place = arguments.index("--optimizer")
    arguments = [*arguments[:place], *arguments[place + 2 :]]
    assert main([*arguments, "--scheduler", "torch.optim.lr_scheduler:OneCycleLR"]) == 2
    assert "pass the optimizer's class too, with --optimizer" in capsys.readouterr().err
