"""The optimizer in a training checkpoint, and what may stand in it in place of what belongs there."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as L

from models.recorded import Recorded, TorchMlp, torch_step
from port.errors import BrokenWeights, PortError, UsageError, WeightsMismatch
from port.mapping import Mapping
from port.optim.moving import MovedOptimizer
from port.optim.saved import read_optimizer

O = torch.optim  # noqa: E741
CLASSES: dict[str, Callable[..., Any]] = {
    "AdamW": O.AdamW,
    "SGD": lambda p: O.SGD(p, momentum=0.9),
    "NAdam": O.NAdam,
    "Adafactor": O.Adafactor,
    "LBFGS": lambda p: O.LBFGS([parameter for _, parameter in p]),
}
SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "CosineAnnealingLR": lambda o: L.CosineAnnealingLR(o, 33, 1e-4),
    "MultiStepLR": lambda o: L.MultiStepLR(o, [2, 4, 4]),
    "OneCycleLR": lambda o: L.OneCycleLR(o, 0.05, 70),
    "CyclicLR": lambda o: L.CyclicLR(o, 0.01, 0.2, 5, 3),
    "CosineAnnealingWarmRestarts": lambda o: L.CosineAnnealingWarmRestarts(o, 5, 2),
    "ReduceLROnPlateau": lambda o: L.ReduceLROnPlateau(o, patience=3),
}


@pytest.fixture
def mapping(recorded: Recorded) -> Mapping:
    return recorded.mapping


def trained(recorded: Recorded, make: Callable[..., Any], scheduler: Any = None, steps: int = 3) -> dict[str, Any]:
    module = recorded.fresh()
    optimizer = make(module.named_parameters())
    held = scheduler(optimizer) if scheduler is not None else None
    for place, gradients in enumerate(recorded.gradients[:steps]):
        if isinstance(optimizer, torch.optim.LBFGS):
            optimizer.step(lambda: loss(module))
        else:
            torch_step(module, optimizer, gradients)
        if held is not None:
            held.step(*([1.0 + place] if isinstance(held, L.ReduceLROnPlateau) else []))
    return {"optimizer": optimizer.state_dict(), **({"scheduler": held.state_dict()} if held is not None else {})}


def loss(module: torch.nn.Module) -> torch.Tensor:
    module.zero_grad()
    value = sum((parameter**2).sum() + parameter.sum().sin() for parameter in module.parameters())
    value.backward()  # type: ignore[union-attr]
    return value  # type: ignore[return-value]


def move(path: Path, content: Any, cls: Any, mapping: Mapping, **options: Any) -> MovedOptimizer:
    torch.save(content, path)
    moved = MovedOptimizer(path, cls, TorchMlp(), **options)
    moved(mapping)
    return moved


# %% What is refused, and where it says that it is


def group(**options: Any) -> Callable[[Any], None]:
    return lambda saved: saved["param_groups"][0].update(options)


def state(**values: Any) -> Callable[[Any], None]:
    return lambda saved: saved["state"][0].update(values)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda s: s.update(param_groups=3), r"param_groups must be a list of groups, got 3"),
        (lambda s: s.update(param_groups=[3]), r"param_groups\[0\] must be a group's options, got 3"),
        (lambda s: s.update(param_groups=[]), r"param_groups must be a list of groups, got \[\]"),
        (lambda s: s["param_groups"][0].pop("params"), r"param_groups\[0\] does not list its parameters"),
        (group(params=[0, 1, 2, "x"]), r"params must be a list of the parameters' numbers, got \[0, 1, 2, 'x'\]"),
        (group(params=[0, 1, 2, 2]), r"a parameter is in them twice"),
        (group(param_names=["fc1.weight"]), r"param_names must be a name for each of 4 parameters"),
        (group(lr="a"), r"param_groups\[0\]: lr: expected a number of at least 0, got 'a'"),
        (group(lr=-0.1), r"param_groups\[0\]: lr: expected a number of at least 0, got -0\.1"),
        (group(betas=0.9), r"betas: expected two numbers from 0 to below 1, got 0\.9"),
        (lambda s: s["param_groups"][0].pop("betas"), r"param_groups\[0\] has no betas, which torch\.optim\.AdamW"),
        (lambda s: s.update(state=[]), r"state must be the states by the parameters' numbers, got \[\]"),
        (lambda s: s["state"].update({0: 5}), r"state\[0\] must be a parameter's state by torch's keys, got 5"),
        (lambda s: s["state"].update({9: {}}), r"state\[9\] is the state of a parameter that is in no group"),
        (state(step="a"), r"state\[0\], of fc1\.weight: step must be a number of steps, got 'a'"),
        (state(step=torch.tensor(math.nan)), r"step must be a number of steps, got a tensor of shape \(\)"),
        (lambda s: s["state"][0].pop("step"), r"state\[0\], of fc1\.weight has no step, only exp_avg, exp_avg_sq"),
        (state(exp_avg=5), r"exp_avg must be a tensor of floating-point numbers, got 5"),
        (state(exp_avg=torch.ones(7, 5, dtype=torch.int32)), r"exp_avg must be .*, got a tensor of shape \(7, 5\)"),
    ],
)
def test_a_malformed_part_is_named(
    spoil: Callable[[Any], Any], message: str, recorded: Recorded, mapping: Mapping, tmp_path: Path
) -> None:
    content = trained(recorded, O.AdamW)
    move(tmp_path / "whole.pt", content, O.AdamW, mapping)
    spoil(content["optimizer"])
    with pytest.raises(BrokenWeights, match=rf"last\.pt: optimizer: .*{message}"):
        move(tmp_path / "last.pt", content, O.AdamW, mapping)


def test_a_number_of_updates_that_cannot_be(recorded: Recorded, tmp_path: Path, mapping: Mapping) -> None:
    for step in (-1, 10**30):
        with pytest.raises(BrokenWeights, match="global_step must be a number of updates"):
            move(tmp_path / "last.pt", {**trained(recorded, O.SGD), "global_step": step}, O.SGD, mapping)


def test_a_moment_without_a_dimension_is_another_models(recorded: Recorded, tmp_path: Path, mapping: Mapping) -> None:
    content = trained(recorded, O.AdamW)
    content["optimizer"]["state"][1]["exp_avg"] = torch.tensor(1.0)
    with pytest.raises(WeightsMismatch, match=r"exp_avg of fc1\.bias has shape \(\), the model's parameter \(7,\)"):
        move(tmp_path / "last.pt", content, O.AdamW, mapping)


def test_an_option_that_older_versions_did_not_write_has_its_default(
    recorded: Recorded, tmp_path: Path, mapping: Mapping
) -> None:
    content = trained(recorded, O.Adam)
    for option in ("maximize", "amsgrad", "decoupled_weight_decay", "foreach"):
        del content["optimizer"]["param_groups"][0][option]
    assert "optax.adam(0.001)" in move(tmp_path / "last.pt", content, O.Adam, mapping).source


def test_a_class_that_is_none_or_has_no_counterpart(recorded: Recorded, tmp_path: Path, mapping: Mapping) -> None:
    content = trained(recorded, O.AdamW)
    with pytest.raises(UsageError, match="updates only the rows in a sparse gradient"):
        move(tmp_path / "last.pt", content, O.SparseAdam, mapping)
    with pytest.raises(UsageError, match=r"is chosen by its class, as torch\.optim\.AdamW; got function"):
        move(tmp_path / "last.pt", content, torch.nn.functional.relu, mapping)
    with pytest.raises(BrokenWeights, match=r"no torch\.optim\.Muon can be made of it: ValueError: Muon only supports"):
        move(tmp_path / "last.pt", trained(recorded, O.SGD, steps=0), O.Muon, mapping)


def test_adam_and_adamw_are_told_apart_by_the_groups(recorded: Recorded, tmp_path: Path, mapping: Mapping) -> None:
    adamw = move(tmp_path / "last.pt", trained(recorded, O.AdamW), O.Adam, mapping)
    assert "optax.adamw(0.001, weight_decay=0.01)" in adamw.source
    assert adamw.remarks == [
        "optimizer: its groups have decoupled_weight_decay=True, which makes torch.optim.Adam a torch.optim.AdamW: it "
        "is moved as one"
    ]
    assert move(tmp_path / "last.pt", trained(recorded, O.AdamW), O.AdamW, mapping).remarks == []
    assert move(tmp_path / "last.pt", trained(recorded, O.Adam), O.Adam, mapping).remarks == []
    with pytest.raises(WeightsMismatch, match=r"decoupled_weight_decay=False.* the state of torch\.optim\.Adam"):
        move(tmp_path / "last.pt", trained(recorded, O.Adam), O.AdamW, mapping)


def test_groups_of_rows_and_columns_are_told_by_their_shapes(recorded: Recorded, tmp_path: Path) -> None:
    module = recorded.fresh()
    groups = [{"params": [module.fc2.weight, module.fc1.bias]}, {"params": [module.fc1.weight, module.fc2.bias]}]  # type: ignore[union-attr]
    optimizer = O.Adafactor(groups)
    torch_step(module, optimizer, recorded.gradients[0])
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "last.pt")
    read = read_optimizer(tmp_path / "last.pt", O.Adafactor, TorchMlp()).optimizer
    assert [one["param_names"] for one in read.param_groups] == [["fc2.weight", "fc1.bias"], ["fc1.weight", "fc2.bias"]]
    optimizer.state[module.fc1.bias]["variance"] = torch.ones(4)  # type: ignore[union-attr]
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "last.pt")
    with pytest.raises(WeightsMismatch, match=r"has shape \(4,\), and the model has no such parameter"):
        read_optimizer(tmp_path / "last.pt", O.Adafactor, TorchMlp())


# %% Anything in the place of anything


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all that is in a state dict."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = [path] if path else []
    for key, part in parts:
        found += places(part, (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same with another value at a place, or without it where the new one is `DROPPED`."""
    if not path:
        return new
    held = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    held[path[0]] = replaced(held[path[0]], path[1:], new)
    if held[path[0]] is DROPPED:
        del held[path[0]]
    return held if isinstance(value, dict) else type(value)(held.values())


DROPPED = object()


def thing(draw: random.Random) -> Any:
    generator = torch.Generator().manual_seed(draw.randrange(2**30))
    tensors = [
        torch.randn(shape, generator=generator).double() for shape in ((), (1,), (7, 5), (5, 7), (2, 3, 4), (0,))
    ]
    numbers = [0, 1, -3, 2**40, 10**400, 0.5, -0.25, math.nan, math.inf, True]
    others = [None, "a", "", [], {}, [1, 2], [None], ["x"] * 4, {0: 3}, {"a": 1}, (0.5, 0.7), 1j, b"b", {1, 2}]
    whole = [torch.tensor([1, 2]), torch.tensor(True), torch.ones(7, 5, dtype=torch.int8), torch.tensor(3)]
    return draw.choice([DROPPED, draw.choice(tensors), draw.choice(numbers), draw.choice(others), draw.choice(whole)])


def works_or_is_refused(
    content: dict[str, Any], part: str, times: int, seed: int, path: Path, cls: Any, mapping: Mapping, **options: Any
) -> list[str]:
    """What was refused; anything but a PortError goes through."""
    draw, refused = random.Random(seed), []
    for _ in range(times):
        changed, at = copy.deepcopy(content[part]), draw.choice(places(content[part]))
        new = thing(draw)
        try:
            move(path, {**content, part: replaced(changed, at, new)}, cls, mapping, **options)
        except PortError as error:
            refused.append(str(error))
        except Exception as error:
            raise AssertionError(f"{part}: {at} was replaced by {new!r}") from error
    return refused


@pytest.mark.parametrize(
    ("name", "times"),
    [(name, 20) for name in CLASSES] + [pytest.param(name, 400, marks=pytest.mark.sweep) for name in CLASSES],
)
@pytest.mark.thin(3)
def test_whatever_an_optimizers_state_dict_holds(
    name: str, times: int, recorded: Recorded, mapping: Mapping, tmp_path: Path
) -> None:
    content, cls = trained(recorded, CLASSES[name]), getattr(torch.optim, name)
    refused = works_or_is_refused(content, "optimizer", times, 5, tmp_path / "last.pt", cls, mapping)
    assert times / 3 < len(refused) < times
    assert [told for told in refused if "last.pt" not in told or "\n" in told] == []


@pytest.mark.parametrize(
    ("name", "times"),
    [(name, 12) for name in SCHEDULERS] + [pytest.param(name, 400, marks=pytest.mark.sweep) for name in SCHEDULERS],
)
@pytest.mark.thin(3)
def test_whatever_a_schedulers_state_dict_holds(
    name: str, times: int, recorded: Recorded, mapping: Mapping, tmp_path: Path
) -> None:
    content = trained(recorded, lambda p: O.SGD(p, lr=0.05, momentum=0.9), SCHEDULERS[name])
    options = {"scheduler": getattr(L, name), "steps_per_epoch": 1}
    refused = works_or_is_refused(content, "scheduler", times, 7, tmp_path / "last.pt", O.SGD, mapping, **options)
    assert times / 6 < len(refused) < times
    assert all("last.pt" in told for told in refused)


def test_the_planted_fault_a_moment_of_another_run_is_seen_in_what_is_moved(
    recorded: Recorded, mapping: Mapping, tmp_path: Path
) -> None:
    """What is not refused is moved as it is: the sweep does not pass by leaving the state out."""

    def first_moment() -> np.ndarray:
        torch.save(content, tmp_path / "last.pt")
        tensors = MovedOptimizer(tmp_path / "last.pt", O.AdamW, TorchMlp())(mapping)
        return next(tensor.read() for tensor in tensors if tensor.name.endswith("mu.fc1.kernel"))

    content = trained(recorded, O.AdamW)
    held = content["optimizer"]["state"][0]
    np.testing.assert_array_equal(first_moment(), held["exp_avg"].numpy().T)
    held["exp_avg"] = torch.randn(7, 5, generator=torch.Generator().manual_seed(2)).double()
    np.testing.assert_array_equal(first_moment(), held["exp_avg"].numpy().T)
