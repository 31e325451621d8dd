"""Capture the watched steps: copies of models, optimizers and schedulers, and the path to each loss."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler

from port.scripts.observing.autograd import parameters_reached
from port.scripts.observing.graph import Computation, TensorSource
from port.scripts.observing.known_models import unwrapped
from port.scripts.observing.lines import here, name_of, user_frames
from port.scripts.observing.session import Session, is_grad_on
from port.scripts.observing.updates import Updates
from port.scripts.own_draws import SeenDraws
from port.scripts.writing.constructions import Constructions
from port.scripts.writing.evaluated_numbers import EvaluatedNumbers
from port.scripts.writing.number_names import Expressions, expressions_of, lengths_in
from port.scripts.writing.planned import planned
from port.scripts.writing.replaying import copied


@dataclass(frozen=True)
class PathTensor:
    """A tensor among the arguments of a call.

    Attributes:
        description: where it comes from, as described in the observation.
        call: the number of the call that returned it; None if none did.
        variable: the script's name for it, if it has one.
        value: its value when the loss was computed; None for tensors on autograd's path, which are recomputed.
        origin: for a tensor carried over from the previous step: the call that returned it, and the output's index.
        expression: the script's expression for it where the loss is computed.
    """

    description: dict[str, Any]
    call: int | None
    variable: str | None
    value: torch.Tensor | None
    origin: tuple[int, str] | None = None
    expression: str | None = None


@dataclass(frozen=True)
class FilledTensor:
    """A tensor with another's shape and dtype, filled with one number."""

    value: float
    like: PathTensor


@dataclass(frozen=True)
class TensorAxis:
    """An axis of a tensor."""

    tensor: PathTensor
    number: int


@dataclass
class LossPath:
    """One call of backward.

    Attributes:
        iteration: the iteration of the call.
        calls: the calls that computed the loss; their arguments have a `PathTensor` for each tensor.
        value: the loss.
        reached: the names of the parameters that get a gradient.
        output: which output of the last call is the loss; None for a call with one output.
        states: what it carries to the next step: name → the call that returns it, and the output's index.
        goes_on: whether it takes the states of the previous path; if not, its states start from their initial values.
        numbers: a call's number → the expressions, in its line, of the numbers among its arguments.
        lengths: a call's number → the index of a number among its arguments → the axis whose length it is.
    """

    iteration: int
    calls: list[Computation]
    value: float
    reached: frozenset[str] = frozenset()
    output: str | None = None
    states: dict[str, tuple[int, str]] = field(default_factory=dict)
    goes_on: bool = False
    numbers: dict[int, Expressions] = field(default_factory=dict)
    lengths: dict[int, Mapping[int, TensorAxis]] = field(default_factory=dict)


@dataclass
class Copies:
    """The script's modules, optimizers and schedulers from before the first update, copied together.

    Attributes:
        models: by name.
        optimizers: by name.
        schedulers: by name.
        planned: how many losses the script will compute in all; None if not known.
        constructors: by name, a function that constructs each model again, optionally with other arguments.
        arguments: the constructor arguments of each.
        written: how often each of its parameters had been written to, by torch's version counter.
        scheduler_arguments: by name, each scheduler's constructor arguments after its optimizer.
    """

    models: dict[str, nn.Module]
    optimizers: dict[str, Optimizer]
    schedulers: dict[str, Any]
    planned: int | None = None
    constructors: Mapping[str, Callable[..., nn.Module]] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    written: Mapping[str, Sequence[int]] = field(default_factory=dict)
    scheduler_arguments: Mapping[str, tuple[tuple[Any, ...], dict[str, Any]] | None] = field(default_factory=dict)


class Capture:
    """Captures paths and copies while the script runs.

    Attributes:
        paths: the paths to the losses of the first steps.
        copies: copies of what is trained; None before the first update.
        failure: why there are no copies.
        loaders: the DataLoaders that the script iterated over, by name.
        evaluated: the numbers of its first evaluation.
        draws: the states of its generators.

    Args:
        session: the script's session.
        updates: the session's record of the optimizers.
        steps: how many iterations to keep.
    """

    def __init__(self, session: Session, updates: Updates, steps: int) -> None:
        self._session, self._updates, self._steps = session, updates, steps
        self.paths: list[LossPath] = []
        self.copies: Copies | None = None
        self.failure = ""  # why there are no copies
        self.loaders: dict[str, Any] = {}
        self.draws = SeenDraws()
        self._lengths: dict[int, dict[int, tuple[TensorSource, int]]] = {}
        session.computations.keeps = True
        session.computations.at_call = self._at_call
        session.at_loader = self.loaders.__setitem__
        self._unset: dict[nn.Module, set[str]] = {}
        """Attributes that were None before a module's first call: the module itself makes what it stores there."""
        self._constructions = Constructions()
        session.at_construction = self._constructions.note
        session.before_call = self._before_call
        self.evaluated = EvaluatedNumbers(
            lambda live, calls: mapped(
                live, partial(_path_tensor, frames=user_frames(), calls={c.number: c for c in calls})
            )
        )
        session.at_batch, session.at_number, session.at_sum = self._at_batch, self._at_number, self._at_sum
        session.at_backward = self._at_backward

    def _before_call(self, module: nn.Module) -> None:
        if self.copies is None:
            for one in module.modules():
                self._unset.setdefault(one, {name for name, value in vars(one).items() if value is None})

    def _at_batch(self, name: str, batch: Any) -> Any:
        models = {name: unwrapped(model) for name, model in self._session.models.roots()}
        trained = [model for model in models.values() if any(True for _ in model.parameters())]
        is_evaluated = bool(trained) and (not is_grad_on() or not any(model.training for model in trained))
        if is_evaluated:
            with self._session.inside():
                keeps = self.evaluated.begin(name, models, here())
        else:
            keeps = False
            self.evaluated.end()
        self._session.computations.keeps = keeps or self._session.iteration < self._steps
        return batch

    def _at_number(self, calls: list[Computation], description: Any, value: Any) -> None:
        if self.evaluated.is_in_one:
            with self._session.inside():
                self.evaluated.take(calls, description, value, here(), self._lengths_of(calls, user_frames()))

    def _at_sum(self, calls: list[Computation], description: Any, value: Any, where: dict[str, Any]) -> None:
        if self.evaluated.is_in_one:
            self.evaluated.take(calls, description, value, where, self._lengths_of(calls, user_frames()), is_added=True)

    def _lengths_of(self, calls: list[Computation], frames: list[FrameType]) -> dict[int, dict[int, TensorAxis]]:
        """The numbers among the arguments of a path's calls that are lengths of tensors."""
        by_number = {call.number: call for call in calls}
        return {
            number: {
                place: TensorAxis(_path_tensor(source, frames, by_number), axis)
                for place, (source, axis) in found.items()
            }
            for number, found in self._lengths.items()
            if number in by_number
        }

    def _at_call(self, call: Computation) -> None:
        computations = self._session.computations
        if computations.keeps:
            with self._session.inside():
                self.draws.see(call.number)
                found = lengths_in(call, user_frames())
            if found:
                self._lengths[call.number] = {
                    place: (computations.source_of(tensor), axis) for place, (tensor, axis) in found.items()
                }

    def _at_backward(self, calls: list[Computation], loss: Any) -> None:
        if self.copies is None and not self.failure:
            try:
                self.copies = self._copied([call.number for call in calls])
                self.copies.planned = planned(user_frames())
            except Exception as error:  # deepcopy runs the user's code
                self.failure = f"its models cannot be copied: {type(error).__name__}: {error}"
        if self._session.iteration >= self._steps:
            self._session.computations.keeps = False
            return
        frames = user_frames()
        kept = []
        by_number = {call.number: call for call in calls}
        for call in calls:
            one = copy.copy(call)
            one.live = mapped(call.live, lambda source: _path_tensor(source, frames, by_number))
            kept.append(one)
        reached = frozenset(parameters_reached(loss, self._session.models))
        output = self._session.computations.source_of(loss).description.get("output")
        path = LossPath(self._session.iteration, kept, float(loss.detach()), reached, output)
        with self._session.inside():
            path.numbers = {call.number: found for call in calls if (found := expressions_of(call, frames))}
        path.lengths = dict(self._lengths_of(calls, frames))
        self._lengths.clear()
        self.paths.append(path)

    def _copied(self, calls: list[int]) -> Copies:
        copies = self._copied_now()
        for name, model in self._session.models.roots():
            for module, copy_of_it in zip(unwrapped(model).modules(), copies.models[name].modules(), strict=True):
                for attribute in self._unset.get(module, ()):
                    if isinstance(getattr(copy_of_it, attribute, None), torch.Tensor):
                        setattr(copy_of_it, attribute, None)
        before = self._session.statistics.before(calls)  # the update's calls change them
        for name, model in self._session.models.roots():
            for buffer, twin in zip(model.buffers(), copies.models[name].buffers(), strict=True):
                if id(buffer) in before:
                    twin.copy_(before[id(buffer)])
        return copies

    def _copied_now(self) -> Copies:
        models = {name: unwrapped(model) for name, model in self._session.models.roots()}
        optimizers = {self._updates.name(one): one for one in self._updates.of(Optimizer)}
        schedulers = {self._updates.name(one): one for one in self._updates.of(lr_scheduler.LRScheduler)}
        with self._session.journal.unwritten():  # copies are not the script's models
            copies = copied(Copies(models, optimizers, schedulers))
        copies.constructors = {name: self._constructions.constructor_of(model) for name, model in models.items()}
        copies.arguments = {name: self._constructions.arguments_of(model) for name, model in models.items()}
        copies.written = {name: [one._version for one in model.parameters()] for name, model in models.items()}
        copies.scheduler_arguments = {
            name: self._updates.constructor_arguments_of(one) for name, one in schedulers.items()
        }
        return copies


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Arguments with each tensor's source replaced."""
    if isinstance(value, TensorSource | PathTensor):
        return change(value)
    if isinstance(value, FilledTensor):
        return FilledTensor(value.value, change(value.like))
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(item, change) for item in value)
    if isinstance(value, slice):
        return slice(*(mapped(item, change) for item in (value.start, value.stop, value.step)))
    return value


def path_tensors(value: Any) -> list[PathTensor]:
    """All tensors among arguments."""
    found: list[PathTensor] = []
    mapped(value, found.append)
    return found


def _path_tensor(source: TensorSource, frames: list[FrameType], calls: dict[int, Computation]) -> PathTensor:
    assert source.tensor is not None
    name = name_of(source.tensor, frames) or source.variable  # its name may already belong to the next batch
    name = name if name is not None and name.isidentifier() else None
    is_computed_again = source.tensor.requires_grad and source.call is not None
    value = None if is_computed_again else source.tensor.detach().clone()
    made = calls.get(source.call) if source.call is not None else None
    expression = name or (made.where["text"] if made is not None and made.where is not None else None)
    return PathTensor(source.description, source.call, name, value, source.origin, expression)
