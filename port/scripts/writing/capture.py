"""What is kept of the watched steps: copies of models, optimizers and schedulers, and the path to each loss."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler

from port.scripts.observing.graph import Computation, TensorSource
from port.scripts.observing.lines import name_of, user_frames
from port.scripts.observing.session import Session
from port.scripts.observing.updates import Updates


@dataclass(frozen=True)
class PathTensor:
    """A tensor among the arguments of a call.

    Attributes:
        told: where it is from, as the account says it.
        call: the number of the call that gave it; None where none did.
        variable: the script's name for it, if it has one.
        value: its value when the loss was computed; None for what autograd goes through, which is computed again.
    """

    told: dict[str, Any]
    call: int | None
    variable: str | None
    value: torch.Tensor | None


@dataclass
class LossPath:
    """One call of backward.

    Attributes:
        iteration: in which it was.
        calls: by which the loss came about; in their arguments a `PathTensor` stands for each tensor.
        value: the loss.
    """

    iteration: int
    calls: list[Computation]
    value: float


@dataclass
class Copies:
    """The script's modules, optimizers and schedulers as they were before the first update, copied together."""

    models: dict[str, nn.Module]
    optimizers: dict[str, Optimizer]
    schedulers: dict[str, Any]


class Capture:
    """Keeps them while the script runs.

    Attributes:
        paths: to the losses of the first steps.
        copies: of what is trained; None before the first update.
        failure: why there are none.
        loaders: the DataLoaders that the script went through, by name.

    Args:
        session: the script's.
        updates: what it knows of optimizers.
        steps: how many iterations are kept.
    """

    def __init__(self, session: Session, updates: Updates, steps: int) -> None:
        self._session, self._updates, self._steps = session, updates, steps
        self.paths: list[LossPath] = []
        self.copies: Copies | None = None
        self.failure = ""  # why there are no copies
        self.loaders: dict[str, Any] = {}
        session.computations.keeps = True
        session.at_loader = self.loaders.__setitem__
        session.at_backward = self._at_backward

    def _at_backward(self, calls: list[Computation], loss: Any) -> None:
        if self.copies is None and not self.failure:
            try:
                self.copies = self._copied([call.number for call in calls])
            except Exception as error:  # deepcopy runs the user's code
                self.failure = f"its models cannot be copied: {type(error).__name__}: {error}"
        if self._session.iteration >= self._steps:
            self._session.computations.keeps = False
            return
        frames = user_frames()
        kept = []
        for call in calls:
            one = copy.copy(call)
            one.live = mapped(call.live, lambda source: _given(source, frames))
            kept.append(one)
        self.paths.append(LossPath(self._session.iteration, kept, float(loss.detach())))

    def _copied(self, calls: list[int]) -> Copies:
        copies = self._copied_now()
        before = self._session.statistics.before(calls)  # its own calls change them
        for name, model in self._session.models.roots():
            for buffer, twin in zip(model.buffers(), copies.models[name].buffers(), strict=True):
                if id(buffer) in before:
                    twin.copy_(before[id(buffer)])
        return copies

    def _copied_now(self) -> Copies:
        models = dict(self._session.models.roots())
        optimizers = {self._updates.name(one): one for one in self._updates.of(Optimizer)}
        schedulers = {self._updates.name(one): one for one in self._updates.of(lr_scheduler.LRScheduler)}
        return copy.deepcopy(Copies(models, optimizers, schedulers))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Arguments with something else in the place of each tensor's source."""
    if isinstance(value, TensorSource | PathTensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(item, change) for item in value)
    if isinstance(value, slice):
        return slice(*(mapped(item, change) for item in (value.start, value.stop, value.step)))
    return value


def given_in(value: Any) -> list[PathTensor]:
    """Every tensor among arguments."""
    found: list[PathTensor] = []
    mapped(value, found.append)
    return found


def _given(source: TensorSource, frames: list[FrameType]) -> PathTensor:
    assert source.tensor is not None
    name = name_of(source.tensor, frames)
    is_computed_again = source.tensor.requires_grad and source.call is not None
    value = None if is_computed_again else source.tensor.detach().clone()
    return PathTensor(source.told, source.call, name if name is not None and name.isidentifier() else None, value)
