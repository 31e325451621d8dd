"""Record how each tensor was computed: by which module or function call, from which other tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from port.scripts.observing.described import described, tensor_kind, tensors_in
from port.scripts.observing.known_models import KnownModels
from port.scripts.observing.lines import name_of, user_frames

MOST_CALLS = 20_000
"""The most calls kept at once: an endless evaluation must not fill the memory."""


@dataclass
class Computation:
    """A call that returned tensors.

    Attributes:
        number: the call's index.
        name: of the function, "torch.nn.functional.nll_loss"; or of the module, "model.fc1".
        kind: "module" or "function".
        arguments: as data; tensors are represented by their sources.
        outputs: its return value, as data.
        sources: the numbers of the calls that returned its arguments.
        where: the user's line.
        iteration: the iteration of the call.
        more: further facts: a module's class, whether it was in training mode.
        live: the arguments themselves, positional and keyword, with a `TensorSource` for each tensor; if kept.
    """

    number: int
    name: str
    kind: str
    arguments: Any
    outputs: Any
    sources: set[int]
    where: dict[str, Any] | None
    iteration: int
    more: dict[str, Any] = field(default_factory=dict)
    live: tuple[Any, Any] | None = None

    def as_data(self) -> dict[str, Any]:
        """The call as JSON data."""
        return {
            "number": self.number,
            "kind": self.kind,
            "name": self.name,
            "arguments": self.arguments,
            "outputs": self.outputs,
            "where": self.where,
            **self.more,
        }


@dataclass(frozen=True)
class TensorSource:
    """Where a tensor comes from: a call's output, or something else by name; with the tensor, if kept.

    Attributes:
        description: the tensor as described in the observation.
        call: the number of the call that returned it in this iteration.
        iteration: the iteration in which it was made.
        of_gradient: whether it was computed from a parameter's gradient.
        tensor: the tensor itself.
        origin: for a tensor of an earlier iteration: the call that returned it, and the index of the output.
        variable: the script's variable for it at the time of the call, if kept.
    """

    description: dict[str, Any]
    call: int | None = None
    iteration: int = 0
    of_gradient: bool = False
    tensor: torch.Tensor | None = None
    origin: tuple[int, str] | None = None
    variable: str | None = None


class Computations:
    """The calls of the last iterations, and the tensors they returned.

    Attributes:
        count: the number of calls so far.
        keeps: whether to keep the arguments themselves, for writing them as source.
        at_call: called with each call, while the calling function is still running.
    """

    def __init__(self, models: KnownModels) -> None:
        self._models = models
        self._sources = WeakTensorKeyDictionary()
        self._calls: dict[int, Computation] = {}
        self.count = 0
        self.keeps = False
        self.at_call: Callable[[Computation], object] = lambda call: None
        self._iteration = 0

    def begin_iteration(self, number: int) -> None:
        """Drop the calls of all iterations except the last."""
        self._iteration = number
        self._calls = {n: call for n, call in self._calls.items() if call.iteration >= number - 1}

    def note(
        self,
        name: str,
        kind: str,
        arguments: tuple[Any, ...],
        by_name: dict[str, Any],
        result: Any,
        where: dict[str, Any] | None,
        **more: Any,
    ) -> Computation:
        """Record a call with its inputs and outputs."""
        used: set[int] = set()
        of_gradient = False

        def source(tensor: torch.Tensor) -> Any:
            nonlocal of_gradient
            found = self._source(tensor)
            of_gradient |= found.of_gradient
            if found.call is not None:
                used.add(found.call)
            return found.description

        positional = [described(value, source) for value in arguments]
        named = {key: described(value, source) for key, value in by_name.items()}
        self.count += 1
        number = self.count
        outputs = described(result)
        description = {"positional": positional, "named": named}
        live = self._live((arguments, by_name)) if self.keeps else None
        call = Computation(number, name, kind, description, outputs, used, where, self._iteration, more, live)
        self._calls[number] = call
        if len(self._calls) > MOST_CALLS:
            del self._calls[next(iter(self._calls))]
        for path, tensor in tensors_in(result):
            place = {"call": number, **({"output": path} if path else {}), "tensor": tensor_kind(tensor)}
            self._sources[tensor] = TensorSource(place, number, self._iteration, of_gradient)
        self.at_call(call)
        return call

    def _live(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return replace(self._source(value), tensor=value, variable=name_of(value, user_frames()))
        if isinstance(value, dict):
            return {key: self._live(item) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self._live(item) for item in value)
        if isinstance(value, slice):
            return slice(*map(self._live, (value.start, value.stop, value.step)))
        return value

    def name(self, tensor: torch.Tensor, description: dict[str, Any]) -> None:
        """Describe a tensor that no call returned: a part of a batch."""
        description = {**description, "tensor": tensor_kind(tensor)}
        self._sources[tensor] = TensorSource(description, None, self._iteration, "gradient" in description)

    def is_of_gradient(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a parameter's gradient, or was computed from one."""
        source = self._sources.get(tensor)
        return source is not None and source.of_gradient

    def gradient_of(self, tensor: torch.Tensor) -> str | None:
        """The name of the parameter whose gradient a tensor is, itself and not computed from it."""
        source = self._sources.get(tensor)
        return source.description.get("gradient") if source is not None else None

    def follow(self, tensor: torch.Tensor, of: torch.Tensor) -> None:
        """Record that a tensor is another's data, or its detached copy."""
        if (parameter := self._models.parameter_name(of)) is not None:
            self._sources[tensor] = TensorSource({"parameter": parameter, "tensor": tensor_kind(tensor), "alias": True})
        elif (source := self._sources.get(of)) is not None:
            self._sources[tensor] = source

    def parameter(self, tensor: torch.Tensor) -> str | None:
        """The name of the parameter or buffer that a tensor is, or is the data of."""
        direct = self._models.parameter_name(tensor)
        if direct is None and (source := self._sources.get(tensor)) is not None:
            return source.description.get("parameter")
        return direct

    def comes_from_a_call(self, tensor: torch.Tensor) -> bool:
        """Whether a known call returned it."""
        source = self._sources.get(tensor)
        return source is not None and source.call is not None

    def path_to(self, tensor: torch.Tensor) -> tuple[list[Computation], Any]:
        """The calls of this iteration that computed a tensor, in order; and the description of the tensor itself."""
        root = self._source(tensor)
        found: dict[int, Computation] = {}
        pending = [] if root.call is None else [root.call]
        while pending:
            number = pending.pop()
            call = self._calls.get(number)
            if call is None or number in found or call.iteration < self._iteration:
                continue
            found[number] = call
            pending += call.sources
        return [found[number] for number in sorted(found)], root.description

    def descends(self, call: Computation, ancestors: set[int]) -> bool:
        """Whether a call depends on the output of one of ``ancestors``, directly or indirectly."""
        pending, seen = [call.number], set[int]()
        while pending:
            number = pending.pop()
            if number in ancestors:
                return True
            if number not in seen and (found := self._calls.get(number)) is not None:
                seen.add(number)
                pending += found.sources
        return False

    def source_of(self, tensor: torch.Tensor) -> TensorSource:
        """A tensor's source, including the tensor itself."""
        return replace(self._source(tensor), tensor=tensor)

    def _source(self, tensor: torch.Tensor) -> TensorSource:
        parameter = self._models.parameter_name(tensor)
        if parameter is not None:
            return TensorSource({"parameter": parameter, "tensor": tensor_kind(tensor)})
        found = self._sources.get(tensor)
        if found is None:
            name = name_of(tensor, user_frames())
            return TensorSource({"variable": name, "tensor": tensor_kind(tensor)}, None, self._iteration)
        if found.call is not None and found.iteration < self._iteration:
            name = name_of(tensor, user_frames())
            call = self._calls.get(found.call)
            earlier = {"carried": name, "tensor": tensor_kind(tensor), "where": call.where if call else None}
            origin = found.call, found.description.get("output", "")
            return TensorSource(earlier, None, found.iteration, found.of_gradient, origin=origin)
        return found
