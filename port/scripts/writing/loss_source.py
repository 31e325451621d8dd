"""The path from a batch to its loss, as the source of a torch module: what the script calls, under its own names.

What is computed from a batch alone is part of it. What comes from elsewhere (a slice of a tensor that the script
holds, numbers that it draws) is an input, as a batch's own tensors are.
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from port.errors import UsageError
from port.scripts.observing.graph import Computation
from port.scripts.wording import place_of
from port.scripts.writing.capture import LossPath, PathTensor, given_in
from port.scripts.writing.said_in_source import attribute, defaults_of, part_of, target_of

CLASS = "FromBatchToLoss"
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "__pow__": "**"}
REFLECTED = {"__rsub__": "-", "__rtruediv__": "/", "__rdiv__": "/", "__rpow__": "**"}
MOVES = {"torch.Tensor.to", "torch.Tensor.cuda", "torch.Tensor.cpu", "torch.amp.GradScaler.scale"}
"""Calls that only take a batch to its device, or scale a loss for its gradients' sake, are left out."""

RESERVED = {"self", "F", "nn", "torch", "graphdef", "masks", "model", "params", "rest", "state"}
"""Names that the module, or train_step around it, has for something else."""

Varying = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class LossSource:
    """A torch module's source, and what to give it.

    Attributes:
        text: the source.
        inputs: the names of its inputs.
        modules: the names of the script's modules that its constructor takes.
        told: where each input is from, as the account says it.
    """

    text: str
    inputs: tuple[str, ...]
    modules: tuple[str, ...]
    told: tuple[dict[str, Any], ...]


def loss_source(path: LossPath, script: str, varying: Varying = frozenset()) -> LossSource:
    """The source of the module.

    Args:
        path: of a loss.
        varying: numbers that are inputs, as `varying_numbers` gives them.
        script: the script's name, for the docstring.

    Raises:
        UsageError: a call has an argument that no source says.
    """
    writer = _Writer(path, varying)
    lines = [writer.statement(call) for call in writer.calls]
    inputs, modules = tuple(writer.inputs), tuple(writer.modules)
    constructor = [f"        self.{name} = {name}" for name in modules]
    text = "\n".join(
        [
            f'"""The path from a batch to its loss, as {script} has it: written by port script."""',
            "",
            "import torch",
            "from torch import nn",
            "from torch.nn import functional as F",
            "",
            "",
            f"class {CLASS}(nn.Module):",
            f'    """What {script} computes of a batch, up to its loss."""',
            "",
            f"    def __init__(self, {', '.join(modules)}):",
            "        super().__init__()",
            *constructor,
            "",
            f"    def forward(self, {', '.join(inputs)}):",
            *[f"        {line}" for line in lines],
            f"        return {writer.name(writer.calls[-1].number)}",
            "",
        ]
    )
    return LossSource(text, inputs, modules, tuple(writer.told.get(name, {}) for name in inputs))


def inputs_of(path: LossPath, varying: Varying = frozenset()) -> dict[str, torch.Tensor]:
    """What the module is given for a path of the same kind."""
    writer = _Writer(path, varying)
    for call in writer.calls:
        writer.statement(call)
    return writer.inputs


def varying_numbers(paths: Sequence[LossPath]) -> Varying:
    """Which numbers among the arguments are not the same in all paths: for each, its call's place and its own there."""
    outside = _outside(paths[0].calls)
    found = set()
    for place, calls in enumerate(zip(*(path.calls for path in paths), strict=True)):
        rows = [_numbers(call.live) for call in calls]
        for number, values in enumerate(zip(*rows, strict=False)):
            if len(set(values)) > 1 and calls[0].number not in outside:
                found.add((place, number))
    return frozenset(found)


def _numbers(value: Any) -> list[float]:
    """The numbers among arguments, in the order in which they are written."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, slice):
        return _numbers([value.start, value.stop, value.step])
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [one for item in items for one in _numbers(item)]


class _Writer:
    """Names for what the calls of a path give and are given.

    Attributes:
        calls: those that are written, in their order.
        inputs: name → value.
        modules: names of the script's modules.
    """

    def __init__(self, path: LossPath, varying: Varying) -> None:
        self._varying = varying
        self._places = {call.number: place for place, call in enumerate(path.calls)}
        self._count = 0  # numbers among the arguments of the call that is being written
        self._all = {call.number: call for call in path.calls}
        self._outside = _outside(path.calls)
        needed = _needed(path.calls, self._outside)
        self.calls = [call for call in path.calls if call.number in needed and call.name not in MOVES]
        self.inputs: dict[str, torch.Tensor] = {}
        self.told: dict[str, dict[str, Any]] = {}
        self.modules: list[str] = []
        self._names: dict[int, str] = {}
        self._input_names: dict[Any, str] = {}

    def statement(self, call: Computation) -> str:
        """``output = self.model(data)``"""
        self._count = 0
        written = self._expression(call)
        self._names[call.number] = self._free(target_of(call) or f"x{len(self._names) + 1}")
        return f"{self._names[call.number]} = {written}"

    def name(self, number: int) -> str:
        """The variable that holds what a call gave."""
        return self._names[number]

    def _expression(self, call: Computation) -> str:
        positional, named = call.live if call.live is not None else ((), {})
        given = [self._value(one, call) for one in positional]
        defaults = defaults_of(call.name)
        written = {key: self._value(one, call) for key, one in named.items()}  # all are counted
        options = [f"{key}={said}" for key, said in written.items() if key not in defaults or said != defaults[key]]
        method = call.name.rpartition(".")[2]
        if call.kind == "module":
            root, *rest = call.name.split(".")
            if root not in self.modules:
                self.modules.append(root)
            written_call = f"{attribute(['self', root, *rest])}({', '.join([*given, *options])})"
            is_cut = call.more.get("has_parameters") and not call.more.get("grad")
            return f"{written_call}.detach()" if is_cut else written_call
        if method in INFIX and len(given) == 2 and not options:
            return f"{given[0]} {INFIX[method]} {given[1]}"
        if method in REFLECTED and len(given) == 2:
            return f"{given[1]} {REFLECTED[method]} {given[0]}"
        if method == "neg":
            return f"-{given[0]}"
        if method == "__getitem__":
            return f"{given[0]}[{given[1]}]"
        if call.name.startswith("torch.Tensor."):
            return f"{given[0]}.{method}({', '.join([*given[1:], *options])})"
        if not call.name.startswith("torch."):
            raise UsageError(
                f"{place_of(call.where)}: {call.name} is a function of the script's own, and is not written"
            )
        function = call.name.replace("torch.nn.functional.", "F.")
        return f"{function}({', '.join([*given, *options])})"

    def _value(self, value: Any, call: Computation) -> str:
        if isinstance(value, PathTensor):
            return self._tensor(value)
        if isinstance(value, list | tuple):
            inside = ", ".join(self._value(one, call) for one in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
        if isinstance(value, slice):
            parts = ["" if one is None else self._value(one, call) for one in (value.start, value.stop)]
            return ":".join(parts if value.step is None else [*parts, self._value(value.step, call)])
        if value is Ellipsis:
            return "..."
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._count += 1
            if (self._places[call.number], self._count - 1) in self._varying:
                name = self._free("number")
                self.inputs[name] = torch.tensor(float(value))
                return name
        if value is None or isinstance(value, bool | int | float | str | torch.dtype):
            return repr(value)
        raise UsageError(
            f"{place_of(call.where)}: an argument of {call.name} is {type(value).__name__}, and no source says it"
        )

    def _tensor(self, given: PathTensor) -> str:
        if "parameter" in given.told:
            root, *rest = given.told["parameter"].split(".")
            if root not in self.modules:
                self.modules.append(root)
            return attribute(["self", root, *rest])
        number = given.call
        while number is not None and (call := self._all.get(number)) is not None and call.name in MOVES:
            (given,) = given_in(call.live)[:1]
            number = given.call
        if number is not None and number in self._names:
            return part_of(self._names[number], given.told.get("output"))
        return self._input(given)

    def _input(self, given: PathTensor) -> str:
        key = given.call, given.told.get("output"), given.told.get("batch"), given.told.get("part"), given.variable
        if key not in self._input_names:
            name = given.variable or given.told.get("variable") or given.told.get("part") or ""
            self._input_names[key] = self._free(name if name.isidentifier() else f"batch_{len(self.inputs)}")
            assert given.value is not None
            self.inputs[self._input_names[key]] = given.value
            self.told[self._input_names[key]] = given.told
        return self._input_names[key]

    def _free(self, name: str) -> str:
        taken = {*self._names.values(), *self.inputs, *RESERVED}
        candidate, number = name, 2
        while candidate in taken or keyword.iskeyword(candidate):
            candidate, number = f"{name}_{number}", number + 1
        return candidate


def _outside(calls: Sequence[Computation]) -> set[int]:
    """Calls that compute from neither a model nor a batch alone: their results are inputs."""
    found: set[int] = set()
    models: set[int] = set()
    for call in calls:
        given = given_in(call.live)
        is_model = bool(call.more.get("has_parameters")) or any(
            "parameter" in one.told or one.call in models for one in given
        )
        if is_model:
            models.add(call.number)
        elif not given or any(one.call in found or (one.call is None and "batch" not in one.told) for one in given):
            found.add(call.number)
    return found


def _needed(calls: Sequence[Computation], outside: set[int]) -> set[int]:
    by_number = {call.number: call for call in calls}
    pending, found = [calls[-1].number], set[int]()
    while pending:
        number = pending.pop()
        if number not in found and number not in outside and number in by_number:
            found.add(number)
            pending += [one.call for one in given_in(by_number[number].live) if one.call is not None]
    return found
