"""Numbers of the optimizer that options give are arguments; what only depends on one, or is read elsewhere, is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

import port
from port.scripts import Observation
from port.scripts.writing.free_numbers import FreeNumbers, free_numbers

GIVEN = {"lr": 0.1, "decay": 0.02, "epochs": 3, "beta": 0.8, "warm": 2}
LOADERS = [{"name": "loader", "batches": 14}]


def found(folder: Path, lines: str, **constructed: Any) -> FreeNumbers:
    """Of a script that makes an optimizer, and schedulers after it, each in a line of its own.

    Args:
        folder: for the script.
        lines: of it.
        constructed: what is known of what its last scheduler was constructed with.
    """
    file = folder / "train.py"
    file.write_text(lines)
    made: dict[str, Any] = {
        "torch": torch,
        "args": type("Options", (), GIVEN),
        "loader": range(14),
        "model": torch.nn.Linear(3, 2),
        "lr_scheduler": lr_scheduler,
    }
    exec(compile(lines, str(file), "exec"), made)
    events = []
    for number, line in enumerate(lines.splitlines(), start=1):
        thing = made.get(line.partition(" = ")[0])
        if isinstance(thing, torch.optim.Optimizer | lr_scheduler.LRScheduler):
            events.append(
                (
                    thing,
                    {"constructed": {"where": {"file": str(file), "line": number}}},
                    ((), constructed) if constructed else None,
                )
            )
    schedulers = [one for one, *_ in events if isinstance(one, lr_scheduler.LRScheduler)]
    within = {id(inner) for one in schedulers for inner in getattr(one, "_schedulers", ())}
    options = [{"name": name, "given": value} for name, value in GIVEN.items()]
    return free_numbers(
        Observation({}, options=options, loaders=LOADERS),
        made["optimizer"],
        schedulers,
        events,
        lambda: port.optax_source(
            made["optimizer"], scheduler=[one for one in schedulers if id(one) not in within] or None
        ),
    )


def said(numbers: FreeNumbers) -> dict[str, str]:
    return {one.name: one.expression.said({"loader": "training"}) for one in numbers.numbers}


def test_the_rate_alone_is_named(tmp_path: Path) -> None:
    rate = found(tmp_path, "optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, weight_decay=0.1)")
    assert said(rate) == {"lr": "args.lr"}
    assert "optax.sgd(lr" in rate.optax and "add_decayed_weights(0.1)" in rate.optax


def test_a_schedule_counts_the_updates_of_the_options(tmp_path: Path) -> None:
    lines = """\
optimizer = torch.optim.AdamW(model.parameters(), args.lr, betas=(args.beta, 0.99), weight_decay=args.decay)
total = args.epochs * len(loader)
schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=total - 1, eta_min=args.lr / 10)
"""
    numbers = found(tmp_path, lines)
    assert said(numbers) == {
        "lr": "args.lr",
        "betas": "args.beta",
        "weight_decay": "args.decay",
        "T_max": "args.epochs * len(training) - 1",
        "eta_min": "args.lr / 10",
    }
    for text in ("cosine_annealing_lr(lr, T_max=T_max, eta_min=eta_min)", "b1=betas", "weight_decay=weight_decay"):
        assert text in numbers.optax


def test_warm_up_and_decay_one_behind_the_other(tmp_path: Path) -> None:
    lines = """\
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
first = lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=args.warm)
second = lr_scheduler.StepLR(optimizer, step_size=args.epochs, gamma=0.5)
schedule = lr_scheduler.SequentialLR(optimizer, [first, second], milestones=[args.warm])
"""
    numbers = found(tmp_path, lines)
    assert {"args.warm", "args.epochs"} <= set(said(numbers).values())
    assert numbers.optax.count("2") == 0, "no number of the options is left"


def test_a_schedule_that_computes_from_its_arguments(tmp_path: Path) -> None:
    lines = """\
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=len(loader))
"""
    numbers = found(tmp_path, lines, max_lr=0.1, epochs=3, steps_per_epoch=14)
    assert said(numbers) == {"max_lr": "args.lr", "total_steps": "args.epochs * len(training)"}
    assert "one_cycle_lr(max_lr, total_steps=total_steps)" in numbers.optax
    assert {expression.options for _, expression in numbers.covered} == {frozenset({"lr"}), frozenset({"epochs"})}
    assert len(numbers.covered) == 3, "the optimizer's own rate is covered too: nothing depends on it"
    once_more = found(tmp_path, lines, max_lr=0.1, epochs=3, steps_per_epoch=14)
    assert numbers.optax == once_more.optax


def test_a_rate_that_warms_up_is_the_options(tmp_path: Path) -> None:
    lines = """\
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
schedule = lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=args.warm)
"""
    numbers = found(tmp_path, lines)
    assert said(numbers) == {"lr": "args.lr", "total_iters": "args.warm"}


def test_groups_with_settings_of_their_own(tmp_path: Path) -> None:
    lines = """\
groups = [{"params": [model.weight], "weight_decay": args.decay, "lr": args.lr}, {"params": [model.bias]}]
optimizer = torch.optim.AdamW(groups, lr=args.lr * 10, weight_decay=0.02)
"""
    file = tmp_path / "train.py"
    file.write_text(lines)
    model = torch.nn.Linear(3, 2)
    groups = [{"params": [model.weight], "weight_decay": 0.02, "lr": 0.1}, {"params": [model.bias]}]
    optimizer = torch.optim.AdamW(groups, lr=1.0, weight_decay=0.02)
    mapping = port.to_flax(model)
    assert mapping
    event = {"constructed": {"where": {"file": str(file), "line": 2}}}
    options = [{"name": name, "given": value} for name, value in GIVEN.items()]

    def write() -> str:
        return "\n".join(f"{group['lr']!r}, {group['weight_decay']!r}" for group in optimizer.param_groups)

    numbers = free_numbers(Observation({}, options=options), optimizer, [], [(optimizer, event, None)], write)
    assert numbers.optax == "lr2, weight_decay\nlr, 0.02"
    assert said(numbers) == {"lr": "args.lr * 10", "weight_decay": "args.decay", "lr2": "args.lr"}


@pytest.mark.parametrize(
    "lines",
    [
        "lr = args.lr\nlr = 0.1\noptimizer = torch.optim.SGD(model.parameters(), lr=lr)",
        "optimizer = torch.optim.SGD(model.parameters(), lr=float(str(args.lr)))",
        "lr = 0.1\noptimizer = torch.optim.SGD(model.parameters(), lr=lr)",
    ],
)
def test_what_is_no_plain_expression_of_options_keeps_its_value(lines: str, tmp_path: Path) -> None:
    assert found(tmp_path, lines).numbers == ()


def test_a_number_that_something_else_depends_on_keeps_its_value(tmp_path: Path) -> None:
    lines = "optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)"
    file = tmp_path / "train.py"
    file.write_text(lines)
    optimizer = torch.optim.SGD(torch.nn.Linear(3, 2).parameters(), lr=0.1)
    event = {"constructed": {"where": {"file": str(file), "line": 1}}}
    seen = Observation({}, options=[{"name": "lr", "given": 0.1}])

    def write() -> str:
        rate = optimizer.param_groups[0]["lr"]
        return f"optimizer = sgd({rate!r}, floor={rate / 10!r})"

    assert free_numbers(seen, optimizer, [], [(optimizer, event, None)], write).numbers == ()


def test_copies_hold_what_they_held(tmp_path: Path) -> None:
    lines = "optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(args.beta, 0.9))"
    first, second = found(tmp_path, lines), found(tmp_path, lines)
    assert first.optax == second.optax and len(first.numbers) == 2
