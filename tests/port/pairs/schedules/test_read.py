"""Every torch scheduler, live, beside the schedule that is read from it: each step, well past its horizon."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.optim import lr_scheduler as L
from torch.optim.swa_utils import SWALR

from port.errors import UsageError
from port.pairs.expression import Expression
from port.pairs.schedules import SCHEDULES, factor_of, plateau_of, schedule_of

STEPS = 36

FORMULAS: dict[str, Callable[[Any], Any]] = {
    "step": lambda o: L.StepLR(o, 3, 0.7),
    "step to zero": lambda o: L.StepLR(o, 5, 0.0),
    "milestones": lambda o: L.MultiStepLR(o, [0, 4, 4, 9, 2.5, -3], 0.5),
    "constant": lambda o: L.ConstantLR(o, 0.2, 6),
    "constant for ever": lambda o: L.ConstantLR(o, 0.2, 0),
    "linear": lambda o: L.LinearLR(o, 0.3, 0.0, 7),
    "exponential": lambda o: L.ExponentialLR(o, 0.93),
    "polynomial": lambda o: L.PolynomialLR(o, 8, 1.7),
    "cosine": lambda o: L.CosineAnnealingLR(o, 7, 0.01),
    "restarts": lambda o: L.CosineAnnealingWarmRestarts(o, 3, 2, 1e-3),
    "cyclic": lambda o: L.CyclicLR(o, 0.01, [0.2, 0.4], 5, 3),
    "cyclic halving": lambda o: L.CyclicLR(o, [0.01, 0.02], 0.4, 5, mode="triangular2", cycle_momentum=False),
    "cyclic decaying": lambda o: L.CyclicLR(o, 0.01, 0.4, 2.5, 3, mode="exp_range", gamma=0.9),
    "one cycle": lambda o: L.OneCycleLR(o, [0.3, 0.5], 34),
    "one cycle, three phases": lambda o: L.OneCycleLR(
        o, 0.5, 37, pct_start=0.4, anneal_strategy="linear", three_phase=True, div_factor=10, final_div_factor=50
    ),
    "one cycle of epochs": lambda o: L.OneCycleLR(o, 0.5, epochs=4, steps_per_epoch=9, cycle_momentum=False),
    "swa": lambda o: SWALR(o, 0.05, 6),
    "swa, linear": lambda o: SWALR(o, [0.05, 0.4], 13, "linear"),
    "swa at once": lambda o: SWALR(o, 0.05, 0),
    "warm-up": lambda o: L.SequentialLR(
        o, [L.LinearLR(o, 0.1, 1.0, 5), L.CosineAnnealingLR(o, 9, 1e-3), L.ConstantLR(o, 0.5, 4)], [5, 16]
    ),
    "sequence into restarts": lambda o: L.SequentialLR(
        o, [L.ConstantLR(o, 0.0, 5), L.CosineAnnealingWarmRestarts(o, 3, 2)], [5]
    ),
    "sequence out of one cycle": lambda o: L.SequentialLR(
        o, [L.OneCycleLR(o, 0.4, 20, cycle_momentum=False), L.ExponentialLR(o, 0.9)], [15]
    ),
    "product": lambda o: L.ChainedScheduler(
        [L.ConstantLR(o, 0.1, 4), L.ExponentialLR(o, 0.9), L.LinearLR(o, 0.5, 1.0, 3)]
    ),
    "chain that is set last": lambda o: L.ChainedScheduler(
        [L.ExponentialLR(o, 0.9), L.CosineAnnealingWarmRestarts(o, 6)]
    ),
    "chain of one": lambda o: L.ChainedScheduler([L.OneCycleLR(o, 0.4, 40)]),
}
# What JAX can trace is a formula; the others are called beforehand.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "lambda": (
        lambda o: L.LambdaLR(o, [lambda epoch: 1 / (1 + epoch), lambda epoch: 0.9**epoch]),
        "lambda_lr(0.07, lambda epoch: 0.9 ** epoch)",
    ),
    "lambda with math": (
        lambda o: L.LambdaLR(o, lambda epoch: 0.5 * (1 + math.cos(math.pi * epoch / 36))),
        "lambda_lr(0.07, lambda epoch: 0.5 * (1 + math.cos(math.pi * epoch / 36)), steps=",
    ),
    "a function of a module": (lambda o: L.LambdaLR(o, warm_up), f"lambda_lr(0.07, {__name__}.warm_up, steps="),
    "multiplicative": (
        lambda o: L.MultiplicativeLR(o, lambda epoch: 1 - 0.1 / epoch),
        "multiplicative_lr(0.07, lambda epoch: 1 - 0.1 / epoch, steps=",
    ),
}
TABLES: dict[str, Callable[[Any], Any]] = {
    "a lambda that reads a number around it": lambda o: L.LambdaLR(o, made_by(0.9)),
    "cyclic by a function": lambda o: L.CyclicLR(o, 0.01, 0.3, 4, scale_fn=lambda x: 1 / x),
    # Its first rate is what the group began with.
    "chain into a cycle": lambda o: L.ChainedScheduler(
        [L.StepLR(o, 2, 0.5), L.CyclicLR(o, 0.05, 0.5, 3, cycle_momentum=False)]
    ),
    "sequence into one cycle": lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1.0, 5), L.OneCycleLR(o, 0.4, 20)], [5]),
    "sequence into a product": lambda o: L.SequentialLR(
        o, [L.LinearLR(o, 0.1, 1.0, 5), L.MultiplicativeLR(o, lambda epoch: 0.9)], [5]
    ),
    "sequence into swa": lambda o: L.SequentialLR(o, [L.ExponentialLR(o, 0.8), SWALR(o, 0.05, 4)], [6]),
    # torch's inner sequence comes to its milestone a step early, and an inner chain takes a step at the very start.
    "sequence of a sequence": lambda o: L.SequentialLR(
        o,
        [L.SequentialLR(o, [L.ExponentialLR(o, 0.9), L.ConstantLR(o, 0.1, 2)], [3]), L.ExponentialLR(o, 0.9)],
        [7],
    ),
    "sequence of a chain": lambda o: L.SequentialLR(
        o, [L.ChainedScheduler([L.ExponentialLR(o, 0.9)]), L.ExponentialLR(o, 0.8)], [7]
    ),
    "chain with a cosine": lambda o: L.ChainedScheduler([L.ExponentialLR(o, 0.95), L.CosineAnnealingLR(o, 6, 1e-3)]),
    "chain with one cycle": lambda o: L.ChainedScheduler([L.OneCycleLR(o, 0.4, 20), L.ExponentialLR(o, 0.9)]),
    "product by a closure": lambda o: L.MultiplicativeLR(o, made_by(0.9)),
    "steps that are no whole number": lambda o: L.StepLR(o, 2.5, 0.7),  # type: ignore[arg-type]
}


def warm_up(epoch: int) -> float:
    return (epoch + 1) / 5 if epoch < 5 else 0.5


def made_by(number: float) -> Callable[[int], float]:
    return lambda epoch: number if epoch > 3 else 1.0


def check(make: Callable[[Any], Any], optimizer: str, middle: int, live: Any, run: Any, values: Any) -> Any:
    """Both groups, read from a fresh scheduler and from one in the middle of its run."""
    rates, momenta = run(live(make, optimizer=optimizer), STEPS)
    steps = len(rates)
    scheduled = None
    for group in (0, 1):
        scheduled = schedule_of(live(make, optimizer=optimizer), group, steps=STEPS)
        # Where the fresh one and the later one say the same, its values are those of the fresh one.
        later = schedule_of(live(make, middle, optimizer), group, steps=STEPS)
        assert (scheduled.count, later.count) == (0, middle)
        assert (later.learning_rate, later.momentum) == (scheduled.learning_rate, scheduled.momentum)
        if optimizer == "SGD" or group == 0:
            got = values(scheduled.learning_rate, steps)
            assert np.abs(got - rates[:, group]).max() <= 1e-12 * np.abs(rates[:, group]).max()
        if scheduled.momentum is None:
            assert (momenta == momenta[0]).all()
        else:
            assert np.abs(values(scheduled.momentum, steps) - momenta[:, group]).max() <= 1e-12
    assert scheduled is not None
    return scheduled


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.thin(6)
def test_formulas(name: str, live: Any, run: Any, values: Any) -> None:
    optimizer = "AdamW" if name in ("cyclic", "one cycle, three phases") else "SGD"
    scheduled = check(FORMULAS[name], optimizer, 11, live, run, values)
    assert "tabulated" not in scheduled.learning_rate.source()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_called_by_name(name: str, live: Any, run: Any, values: Any) -> None:
    make, source = FUNCTIONS[name]
    scheduled = check(make, "SGD", 11, live, run, values)
    assert source in scheduled.learning_rate.source(width=1000)
    if "steps=" in source:
        with pytest.raises(UsageError, match="give steps="):
            schedule_of(live(make), 0)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.thin(2)
def test_tables(name: str, live: Any, run: Any, values: Any) -> None:
    scheduled = check(TABLES[name], "SGD", 11, live, run, values)
    assert scheduled.learning_rate.function == "port.transforms.tabulated"
    with pytest.raises(UsageError, match=r"has no formula, so its rates must be tabulated: give steps="):
        schedule_of(live(TABLES[name]), 0)
    with pytest.raises(UsageError, match=r"steps=11, but the \w+ has taken 11 already"):
        schedule_of(live(TABLES[name], 11), 0, steps=11)


def test_every_pair_is_among_them(live: Any) -> None:
    seen = {type(live(make)).__name__ for make in {**FORMULAS, **TABLES}.values()}
    assert {pair.torch.rpartition(".")[2] for pair in SCHEDULES} | {"SequentialLR", "ChainedScheduler"} == seen
    theirs = {name for name in L.__all__ if name != "LRScheduler"} | {"SWALR"}
    assert seen | {"ReduceLROnPlateau"} == theirs


def test_the_comparison_sees_an_option_that_is_off(live: Any, run: Any, values: Any) -> None:
    rates, _ = run(live(FORMULAS["one cycle"]), STEPS)
    read = schedule_of(live(FORMULAS["one cycle"]), 1).learning_rate
    assert isinstance(read, Expression)
    for options in ({"total_steps": 35}, {"pct_start": 0.31}, {"div_factor": 24.0}):
        off = values(Expression(read.function, read.arguments, {**read.options, **options}), 35)
        assert np.abs(off - rates[:, 1]).max() > 1e-4


def test_numbers_come_back_as_they_were_given(live: Any) -> None:
    source = "transforms.one_cycle_lr(0.5, total_steps=34)"
    assert schedule_of(live(FORMULAS["one cycle"], 9), 1).learning_rate.source() == source
    uneven = live(lambda o: L.OneCycleLR(o, 0.1, 77, pct_start=0.13, div_factor=7.0, final_div_factor=30.0), 9)
    assert schedule_of(uneven, 0).learning_rate.source() == (
        "transforms.one_cycle_lr(0.1, total_steps=77, pct_start=0.13, div_factor=7.0, final_div_factor=30.0)"
    )
    cyclic = live(lambda o: L.CyclicLR(o, 0.01, 0.4, 7, 4), 9)
    assert schedule_of(cyclic, 0).learning_rate.source() == (
        "transforms.cyclic_lr(0.01, 0.4, step_size_up=7, step_size_down=4)"
    )


def test_a_run_that_is_loaded(live: Any, run: Any, values: Any) -> None:
    """A state dict brings both to their place; the optimizer's alone, or the scheduler's, does not."""
    for make in (FORMULAS["warm-up"], FORMULAS["product"], FORMULAS["swa"], FORMULAS["cyclic"]):
        before = live(make, 13)
        after = live(make)
        after.load_state_dict(before.state_dict())
        with pytest.raises(UsageError, match="something else has changed it"):
            schedule_of(after, 0)
        after.optimizer.load_state_dict(before.optimizer.state_dict())
        assert schedule_of(after, 0) == schedule_of(before, 0)
        assert schedule_of(after, 0).count == 13


def test_swa_begins_from_wherever_the_rate_is(live: Any, run: Any, values: Any) -> None:
    def later(optimizer: Any) -> Any:
        scheduler, swa = L.ExponentialLR(optimizer, 0.8), SWALR(optimizer, 0.05, 6)
        optimizer.step()
        for _ in range(4):
            scheduler.step()
        return swa

    rates, _ = run(live(later), 12)
    read = schedule_of(live(later, 3), 0)
    assert read.count == 3
    assert np.abs(values(read.learning_rate, 12) - rates[:, 0]).max() < 1e-14
    assert read.learning_rate.arguments[0] == pytest.approx(0.3 * 0.8**4, rel=1e-14)  # type: ignore[union-attr]


def test_tensors_as_rates(live: Any) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=torch.tensor(0.25, dtype=torch.float64))
    scheduler = L.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert schedule_of(scheduler, 0).learning_rate.source() == "transforms.exponential_lr(0.25, gamma=0.5)"


def test_a_rate_that_something_else_has_changed(live: Any) -> None:
    scheduler = live(FORMULAS["exponential"], 3)
    scheduler.optimizer.param_groups[1]["lr"] *= 0.5
    assert schedule_of(scheduler, 0).count == 3
    message = r"group 1 has the rate 0.0281\d*, but ExponentialLR alone would have brought it to 0.0563\d* at step 3"
    with pytest.raises(UsageError, match=message):
        schedule_of(scheduler, 1)


def test_a_momentum_that_something_else_has_changed(live: Any) -> None:
    scheduler = live(FORMULAS["one cycle"], 3)
    scheduler.optimizer.param_groups[1]["momentum"] = 0.5
    with pytest.raises(UsageError, match=r"group 1 has the momentum 0\.5, but OneCycleLR"):
        schedule_of(scheduler, 1)


def test_a_chain_whose_schedulers_have_parted(live: Any) -> None:
    scheduler = live(FORMULAS["product"], 3)
    scheduler._schedulers[0].step()
    with pytest.raises(UsageError, match=re.escape("have taken [3, 4] steps")):
        schedule_of(scheduler, 0)


class Own(L.StepLR):
    """May do anything."""


def test_what_is_not_known(live: Any) -> None:
    for make in (lambda o: Own(o, 3), lambda o: L.ChainedScheduler([L.ExponentialLR(o, 0.9), Own(o, 3)])):
        with pytest.raises(
            UsageError,
            match=r"no schedule is known for .*\.Own, .*StepLR, .*Register a pair .* tabulate its",
        ):
            schedule_of(live(make), 0, steps=9)
    plateau = L.ReduceLROnPlateau(live(FORMULAS["step"]).optimizer)
    with pytest.raises(UsageError, match="see plateau_of"):
        schedule_of(plateau, 0)
    with pytest.raises(UsageError, match=r"got torch\.optim\.lr_scheduler\.StepLR: see schedule_of"):
        plateau_of(live(FORMULAS["step"]), 0)


def test_the_live_scheduler_is_left_alone(live: Any, run: Any) -> None:
    for make in (*FORMULAS.values(), *TABLES.values()):
        scheduler, untouched = live(make, 5), live(make, 5)
        schedule_of(scheduler, 0, steps=20)
        for got, want in zip(run(scheduler, 10), run(untouched, 10), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_plateau(live: Any) -> None:
    def make(optimizer: Any) -> Any:
        return L.ReduceLROnPlateau(optimizer, "max", 0.5, 1, cooldown=2, min_lr=[0.0, 0.06], threshold_mode="abs")

    scheduler = make(live(FORMULAS["step"]).optimizer)
    for value in (1.0, 2.0, 1.5, 1.0, 0.5):
        scheduler.step(value)
    read = [plateau_of(scheduler, group) for group in (0, 1)]
    assert [plateau.learning_rate for plateau in read] == [0.15, 0.06]
    assert (read[0].best, read[0].num_bad_epochs, read[0].cooldown_counter) == (2.0, 0, 1)
    options = {"mode": "max", "factor": 0.5, "patience": 1, "threshold_mode": "abs", "cooldown": 2}
    assert read[0].options == options
    assert read[1].options == {**options, "min_lr": 0.06}
    assert plateau_of(L.ReduceLROnPlateau(scheduler.optimizer), 0).options == {}


def test_a_factor_of_a_rate_that_something_else_moves(live: Any, run: Any, values: Any) -> None:
    for name in ("product", "milestones", "polynomial"):
        rates, _ = run(live(FORMULAS[name]), STEPS)
        moved = live(FORMULAS[name], 9)
        moved.optimizer.param_groups[1]["lr"] *= 0.5
        factor = factor_of(moved, 1)
        assert (factor.count, factor.momentum) == (9, None)
        np.testing.assert_allclose(values(factor.learning_rate, STEPS) * 0.07, rates[:, 1], rtol=1e-12)
    for name in ("cosine", "cyclic", "warm-up", "chain that is set last", "swa"):
        with pytest.raises(UsageError, match=r"does not only multiply .* use one of StepLR, MultiStepLR, .*Poly"):
            factor_of(live(FORMULAS[name]), 0)
    with pytest.raises(UsageError, match="StepLR with ReduceLROnPlateau needs whole numbers of steps"):
        factor_of(live(TABLES["steps that are no whole number"]), 0)


small = st.floats(0.05, 0.95).map(lambda value: round(value, 3))
whole = st.integers(1, 12)
multiplying = [
    st.builds(lambda size, gamma: lambda o: L.StepLR(o, size, gamma), whole, small),
    st.builds(lambda steps, gamma: lambda o: L.MultiStepLR(o, steps, gamma), st.lists(whole, max_size=4), small),
    st.builds(lambda factor, steps: lambda o: L.ConstantLR(o, factor, steps), small, whole),
    st.builds(lambda start, end, steps: lambda o: L.LinearLR(o, start, end, steps), small, small, whole),
    st.builds(lambda gamma: lambda o: L.ExponentialLR(o, gamma), small),
    st.builds(lambda steps, power: lambda o: L.PolynomialLR(o, steps, power), whole, small),
]
others = [
    st.builds(lambda steps, end: lambda o: L.CosineAnnealingLR(o, steps, end / 50), whole, small),
    st.builds(
        lambda steps, times, end: lambda o: L.CosineAnnealingWarmRestarts(o, steps, times, end / 50),
        whole,
        st.integers(1, 3),
        small,
    ),
    st.builds(
        lambda low, high, up, down: lambda o: L.CyclicLR(o, low / 9, high, up, down, cycle_momentum=False),
        small,
        small,
        whole,
        whole,
    ),
    st.builds(
        lambda high, start, three: (
            lambda o: L.OneCycleLR(o, high, STEPS, pct_start=start / 2.1, three_phase=three, cycle_momentum=False)
        ),
        small,
        small,
        st.booleans(),
    ),
]
single = st.one_of(*multiplying, *others)
sequences = st.builds(
    lambda held, milestones: (
        lambda o: L.SequentialLR(o, [make(o) for make in held], sorted(milestones)[: len(held) - 1])
    ),
    st.lists(single, min_size=1, max_size=4),
    st.lists(st.integers(1, STEPS), min_size=3, max_size=3),
)
chains = st.builds(
    lambda held: lambda o: L.ChainedScheduler([make(o) for make in held]), st.lists(single, min_size=1, max_size=3)
)
anything = st.one_of(single, sequences, chains)


def property_of(examples: int) -> Any:
    @settings(
        derandomize=True, max_examples=examples, deadline=None, suppress_health_check=[*HealthCheck], database=None
    )
    @given(make=anything, middle=st.integers(0, 20))
    def holds(live: Any, run: Any, values: Any, make: Any, middle: int) -> None:
        rates, _ = run(live(make), STEPS)
        read = schedule_of(live(make, min(middle, len(rates) - 1)), 1, steps=STEPS)
        got = values(read.learning_rate, len(rates))
        assert np.abs(got - rates[:, 1]).max() <= 1e-12 * np.abs(rates[:, 1]).max()

    return holds


def test_any_settings(live: Any, run: Any, values: Any) -> None:
    property_of(8)(live, run, values)


@pytest.mark.sweep
def test_any_settings_many_times(live: Any, run: Any, values: Any) -> None:
    property_of(150)(live, run, values)


def test_a_rate_that_is_a_float32_tensor_is_written_out_as_torch_rounds_it(values: Any) -> None:
    def made() -> Any:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=torch.tensor(0.3))
        return L.ChainedScheduler([L.LinearLR(optimizer, 0.3, 1.0, 4), L.ExponentialLR(optimizer, 0.93)])

    live, walked = made(), made()
    group = walked.optimizer.param_groups[0]
    rates = []
    walked.optimizer.step()
    for _ in range(12):
        rates.append(float(group["lr"]))
        walked.step()
    written = schedule_of(live, 0, steps=12).learning_rate
    assert (values(written, 12) == rates).all()
    formula = values(schedule_of(live, 0).learning_rate, 12)
    assert 1e-9 < np.abs(formula / rates - 1).max() <= 12 * 6e-8
    # The live one is as it was.
    assert float(live.optimizer.param_groups[0]["lr"]) == rates[0]


def test_a_plateau_of_ones_own_is_refused() -> None:
    class Own(L.ReduceLROnPlateau):
        pass

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.3)
    with pytest.raises(UsageError, match=r"Own is derived from ReduceLROnPlateau, and may lower"):
        plateau_of(Own(optimizer), 0)
