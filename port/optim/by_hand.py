"""A learning rate that the training loop sets itself, each step: ``for group in optimizer.param_groups: …``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError, described
from port.optim.epochs import counted_updates
from port.pairs.expression import Expression, Given
from port.pairs.optimizers import pair_of_optimizer
from port.pairs.pair import name_of
from port.pairs.schedules import Scheduled
from port.pairs.schedules.functions import expression_of, spelled_function

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ByHand:
    """A function from the step, counted from 0, to the learning rate of every group.

    Attributes:
        function: the user's.
        optimizer: torch's, whose groups it is set in.

    Raises:
        UsageError: no function.
    """

    function: Callable[[int], float]
    optimizer: torch.optim.Optimizer

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise UsageError(
                f"schedule= takes a function from the step to the learning rate, got {described(self.function)}"
            )

    def scheduled(self, group: int, *, steps: int | None, step: int | None) -> Scheduled:
        """The schedule of a group, and where it stands.

        Args:
            group: its number.
            steps: for how many steps the function is called, where JAX cannot trace it.
            step: the number of updates so far; None: as the optimizer counts them.

        Raises:
            UsageError: the number of updates is not known; a function that needs ``steps``; a group whose rate is not
                the function's.
        """
        # Whether one that keeps no count was stepped at all, nothing tells: no scheduler has marked it.
        counts = pair_of_optimizer(self.optimizer).counts
        count = step if step is not None or not counts else counted_updates(self.optimizer, 0)
        if count is None:
            raise UsageError(
                f"{name_of(type(self.optimizer))} does not count its updates: give step=, the number of them so far, "
                "0 before the first, which is the step that the schedule is asked for next"
            )
        self._check_group_count(group, count)
        return Scheduled(self._expression(steps, count), None, count)

    def _expression(self, steps: int | None, count: int) -> Expression:
        name = getattr(self.function, "__name__", "schedule")
        if steps is not None and steps <= count:
            raise UsageError(f"steps={steps}, but there were {count} updates already: give those of the whole training")
        made = expression_of("by_function", self.function, steps)
        if made is not None:
            return made
        if steps is None:
            if spelled_function(self.function) is None:
                raise UsageError(
                    f"{name} is no function of a module's own, so its values are written out: give steps=, the number "
                    "of steps in the whole training"
                )
            raise UsageError(
                f"{name} cannot be traced by JAX (an if on the step, or math): give steps=, the number of steps in the "
                "whole training, for which it is then called beforehand; or write it with jnp.where and jnp"
            )
        if name.isidentifier():  # one that is defined within another: it is at hand where it is used
            return Expression("port.transforms.by_function", (Given(self.function, name),), {"steps": steps})
        return Expression("port.transforms.tabulated", (np.array([self._rate(n) for n in range(steps)]),))

    def _check_group_count(self, group: int, count: int) -> None:
        """A rate that is set by hand is that of the last step, or already of the next."""
        present = float(self.optimizer.param_groups[group]["lr"])
        told = [self._rate(step) for step in (count - 1, count) if step >= 0]
        if count and not any(math.isclose(present, rate, rel_tol=1e-6) for rate in told):
            name = getattr(self.function, "__name__", "the schedule")
            raise UsageError(
                f"group {group} has the rate {present:.9g} after {count} updates; {name} gives {told[0]:.9g} at "
                f"step {count - 1} and {told[-1]:.9g} at step {count}: give the function that the loop sets every "
                "group's rate by, and step= where it counts otherwise than the optimizer"
            )

    def _rate(self, step: int) -> float:
        try:
            return float(self.function(step))
        except Exception as error:
            name = getattr(self.function, "__name__", "the schedule")
            raise UsageError(f"{name} fails at step {step}: {type(error).__name__}: {error}") from error


def with_function(schedulers: list[Any], optimizers: list[Any], function: Any) -> list[Any]:
    """Each optimizer's scheduler: the function's, where one is given.

    Raises:
        UsageError: both a function and a scheduler.
    """
    if function is None:
        return schedulers
    if any(scheduler is not None for scheduler in schedulers):
        raise UsageError("schedule= and scheduler= both say the learning rate: give the one that sets it")
    return [ByHand(function, optimizer) for optimizer in optimizers]
