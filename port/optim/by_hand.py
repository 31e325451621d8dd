"""A learning rate that the training loop itself sets at each step: ``for group in optimizer.param_groups: …``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import StepsNeeded, UsageError, described
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
        function: the user's function.
        optimizer: the torch optimizer in whose groups the loop sets the rate.

    Raises:
        UsageError: ``function`` is not callable.
    """

    function: Callable[[int], float]
    optimizer: torch.optim.Optimizer

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise UsageError(
                f"schedule= takes a function from the step to the learning rate, got {described(self.function)}"
            )

    def scheduled(self, group: int, *, steps: int | None, step: int | None) -> Scheduled:
        """Make a group's schedule, and its position.

        Args:
            group: the group's number.
            steps: for how many steps to call the function, if JAX cannot trace it.
            step: the number of updates so far; None to use the optimizer's count.

        Raises:
            UsageError: the number of updates is not known; a function that needs ``steps``; a group whose rate does
                not match the function.
        """
        # For an optimizer that keeps no count, nothing shows whether it was stepped: no scheduler has marked it.
        counts = pair_of_optimizer(self.optimizer).counts
        count = step if step is not None or not counts else counted_updates(self.optimizer, 0)
        if count is None:
            raise UsageError(
                f"{name_of(type(self.optimizer))} does not count its updates: pass step=, the number of them so far, "
                "0 before the first, which is the next step to evaluate the schedule at"
            )
        self._check_group_count(group, count)
        return Scheduled(self._expression(steps, count), None, count)

    def _expression(self, steps: int | None, count: int) -> Expression:
        name = getattr(self.function, "__name__", "schedule")
        if steps is not None and steps <= count:
            raise UsageError(f"steps={steps}, but there were {count} updates already: pass the whole training's steps")
        made = expression_of("by_function", self.function, steps)
        if made is not None:
            return made
        if steps is None:
            if spelled_function(self.function) is None:
                raise StepsNeeded(
                    f"{name} is not a module-level function, so its values are written out",
                    "give steps=, the number of steps in the whole training",
                )
            raise StepsNeeded(
                f"{name} cannot be traced by JAX (an if on the step, or math)",
                "give steps=, the number of steps in the whole training, for which it is then called beforehand; or "
                "write it with jnp.where and jnp",
            )
        if name.isidentifier():  # a nested function is in scope where it is used
            return Expression("port.transforms.by_function", (Given(self.function, name),), {"steps": steps})
        return Expression("port.transforms.tabulated", (np.array([self._rate(n) for n in range(steps)]),))

    def _check_group_count(self, group: int, count: int) -> None:
        """Check that a rate set by hand is that of the last step, or already of the next."""
        present = float(self.optimizer.param_groups[group]["lr"])
        rates = [self._rate(step) for step in (count - 1, count) if step >= 0]
        if count and not any(math.isclose(present, rate, rel_tol=1e-6) for rate in rates):
            name = getattr(self.function, "__name__", "the schedule")
            raise UsageError(
                f"group {group} has the rate {present:.9g} after {count} updates; {name} returns {rates[0]:.9g} at "
                f"step {count - 1} and {rates[-1]:.9g} at step {count}: pass the function by which the loop sets every "
                "group's rate, and step= if it counts differently from the optimizer"
            )

    def _rate(self, step: int) -> float:
        try:
            return float(self.function(step))
        except Exception as error:
            name = getattr(self.function, "__name__", "the schedule")
            raise UsageError(f"{name} fails at step {step}: {type(error).__name__}: {error}") from error


def with_function(schedulers: list[Any], optimizers: list[Any], function: Any) -> list[Any]:
    """Combine each optimizer's scheduler with the function, if one is passed.

    Raises:
        UsageError: both a function and a scheduler are passed.
    """
    if function is None:
        return schedulers
    if any(scheduler is not None for scheduler in schedulers):
        raise UsageError("schedule= and scheduler= both set the learning rate: pass only the one that sets it")
    return [ByHand(function, optimizer) for optimizer in optimizers]
