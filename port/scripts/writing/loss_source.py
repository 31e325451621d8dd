"""The path from a batch to its loss, as the source of a torch module: what the script calls, under its own names.

What is computed from a batch alone is part of it. What comes from elsewhere (a slice of a tensor that the script
holds, numbers that it draws) is an input, as a batch's own tensors are.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from port.errors import UsageError
from port.scripts.observing.graph import Computation
from port.scripts.wording import place_of
from port.scripts.writing.capture import FilledTensor, LossPath, PathTensor, given_in
from port.scripts.writing.followed import needed_calls, outside
from port.scripts.writing.number_names import common, numbers_in, tensor_of_length
from port.scripts.writing.said_in_source import attribute, defaults_of, index_of, part_of, said_number, target_of

CLASS = "FromBatchToLoss"
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "__pow__": "**"}
REFLECTED = {"__rsub__": "-", "__rtruediv__": "/", "__rdiv__": "/", "__rpow__": "**"}
MOVES = {"torch.Tensor.to", "torch.Tensor.cuda", "torch.Tensor.cpu", "torch.amp.GradScaler.scale"}
"""Calls that only take a batch to its device, or scale a loss for its gradients' sake, are left out."""

RESERVED = {
    *("self", "F", "nn", "torch", "graphdef", "graphdefs", "masks", "model", "params", "rest", "state", "jax", "optax"),
    *("evaluated", "gradients", "joined", "moved", "only", "opt_state", "trained", "updates"),
}
"""Names that the module, or train_step around it, has for something else."""

Varying = frozenset[tuple[int, int]]
Said = Mapping[tuple[int, int], str]
NOTHING: Said = {}


@dataclass(frozen=True)
class LossSource:
    """A torch module's source, and what to give it.

    Attributes:
        text: the source.
        inputs: the names of its inputs.
        modules: the names of the script's modules that its constructor takes.
        told: where each input is from, as the account says it.
        states: those of the inputs that are carried over; in their order they are what it gives behind the loss.
    """

    text: str
    inputs: tuple[str, ...]
    modules: tuple[str, ...]
    told: tuple[dict[str, Any], ...]
    states: tuple[str, ...] = ()


def loss_source(path: LossPath, script: str, varying: Varying = frozenset(), said: Said = NOTHING) -> LossSource:
    """The source of the module.

    Args:
        path: of a loss.
        varying: numbers that are inputs, as `varying_numbers` gives them.
        script: the script's name, for the docstring.
        said: what the script calls them, as `names_of_numbers` gives it.

    Raises:
        UsageError: a call has an argument that no source says.
    """
    writer = PathWriter(path, varying, said=said)
    lines = writer.statements()
    inputs, modules = tuple(writer.inputs), tuple(writer.modules)
    left = [part_of(writer.name(call), output) for call, output in path.states.values()]
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
            f"        return {', '.join([writer.part(writer.calls[-1].number, _output(path)), *left])}",
            "",
        ]
    )
    return LossSource(text, inputs, modules, tuple(writer.told.get(name, {}) for name in inputs), tuple(path.states))


def _output(path: LossPath) -> str | None:
    """Which output of the last call that is written is the loss, as in ``logits, loss = model(x, y)``."""
    output = path.output
    for call in reversed(path.calls):
        if call.name not in MOVES:
            break
        output = next((given.told.get("output") for given in given_in(call.live)), None)
    return output


def inputs_of(path: LossPath, varying: Varying = frozenset(), said: Said = NOTHING) -> dict[str, torch.Tensor]:
    """What the module is given for a path of the same kind."""
    writer = PathWriter(path, varying, said=said)
    writer.statements()
    return writer.inputs


def varying_numbers(paths: Sequence[LossPath]) -> Varying:
    """Which numbers among the arguments are not the same in all paths: for each, its call's place and its own there."""
    beyond = outside(paths[0].calls, paths[0].lengths)
    found = set()
    for place, calls in enumerate(zip(*(path.calls for path in paths), strict=True)):
        rows = [numbers_in(call.live) for call in calls]
        for number, values in enumerate(zip(*rows, strict=False)):
            if len(set(values)) > 1 and calls[0].number not in beyond:
                found.add((place, number))
    return frozenset(found)


def names_of_numbers(paths: Sequence[LossPath], varying: Varying) -> dict[tuple[int, int], str]:
    """What the script calls the numbers that vary, by their places; those that have an expression in all paths."""
    found = {}
    for place, number in varying:
        rows = [path.numbers.get(path.calls[place].number, {}) for path in paths]
        if (said := common(rows, number)) is not None:
            found[place, number] = said
    return found


class PathWriter:
    """Names for what the calls of a path give and are given.

    Attributes:
        calls: those that are written, in their order.
        inputs: name → value.
        told: name → where it is from.
        modules: names of the script's modules.

    Args:
        path: of a loss.
        varying: numbers that are inputs.
        ends: the numbers of the calls whose results are wanted; the last one's, if not given.
        said: what the script calls these numbers, by their places.
        trains: whether gradients go through all but what the script computes without them.
    """

    def __init__(
        self,
        path: LossPath,
        varying: Varying,
        ends: Sequence[int] = (),
        said: Said = NOTHING,
        *,
        trains: bool = True,
    ) -> None:
        self._varying, self._trains = varying, trains
        self._said = said
        self._numbers, self._lengths = path.numbers, path.lengths
        self._states = tuple(path.states)
        self._places = {call.number: place for place, call in enumerate(path.calls)}
        self._count = 0  # numbers among the arguments of the call that is being written
        self._all = {call.number: call for call in path.calls}
        needed = needed_calls(path.calls, outside(path.calls, path.lengths), ends)
        self.calls = [call for call in path.calls if call.number in needed and call.name not in MOVES]
        self.inputs: dict[str, torch.Tensor] = {}
        self.told: dict[str, dict[str, Any]] = {}
        self.modules: list[str] = []
        self._names: dict[int, str] = {}
        self._input_names: dict[Any, str] = {}

    def statements(self) -> list[str]:
        """All of them, in their order; numbers, and then what is carried over, stand last among the inputs."""
        written = [self.statement(call) for call in self.calls]
        others = [name for name in self.inputs if name not in self._states]
        others.sort(key=lambda name: bool(self.told[name].get("number")))
        self.inputs = {name: self.inputs[name] for name in [*others, *self._states]}
        return written

    def statement(self, call: Computation) -> str:
        """``output = self.model(data)``"""
        self._count = 0
        written = self._expression(call)
        self._names[call.number] = self._free(target_of(call) or f"x{len(self._names) + 1}")
        return f"{self._names[call.number]} = {written}"

    def name(self, number: int) -> str:
        """The variable that holds what a call gave."""
        return self._names[number]

    def part(self, number: int, path: str | None) -> str:
        """A part of what a call gave."""
        return part_of(self._names[number], path)

    def _expression(self, call: Computation) -> str:
        positional, named = call.live if call.live is not None else ((), {})
        given = [self._value(one, call) for one in positional]
        defaults = defaults_of(call.name)
        written = {key: self._value(one, call) for key, one in named.items()}  # all are counted
        written = {key: said for key, said in written.items() if not isinstance(named[key], torch.device)}
        options = [f"{key}={said}" for key, said in written.items() if key not in defaults or said != defaults[key]]
        method = call.name.rpartition(".")[2]
        if call.kind == "module":
            root, *rest = call.name.split(".")
            if root not in self.modules:
                self.modules.append(root)
            written_call = f"{attribute(['self', root, *rest])}({', '.join([*given, *options])})"
            is_cut = self._trains and call.more.get("has_parameters") and not call.more.get("grad")
            return f"{written_call}.detach()" if is_cut else written_call
        if method in INFIX and len(given) == 2 and not options:
            return f"{given[0]} {INFIX[method]} {given[1]}"
        if method in REFLECTED and len(given) == 2:
            return f"{given[1]} {REFLECTED[method]} {given[0]}"
        if method == "neg":
            return f"-{given[0]}"
        if method == "__getitem__":
            return f"{given[0]}[{index_of(given[1], list(positional)[1])}]"
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
        if isinstance(value, FilledTensor):
            return f"torch.full_like({self._tensor(value.like)}, {said_number(value.value)})"
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
            if (length := self._length(call, self._count - 1)) is not None:
                return length
            if (self._places[call.number], self._count - 1) in self._varying:
                said = self._said.get((self._places[call.number], self._count - 1))
                name = self._free(said if said is not None and said.isidentifier() else "number")
                self.inputs[name] = torch.tensor(float(value))
                self.told[name] = {"number": True, "expression": said}
                return name
            return said_number(value)
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self._value(one, call)}' for key, one in value.items())}}}"
        if value is None or isinstance(value, bool | str | torch.dtype):
            return repr(value)
        if isinstance(value, torch.device):
            return repr(str(value))
        raise UsageError(
            f"{place_of(call.where)}: an argument of {call.name} is {type(value).__name__}, and no source says it"
        )

    def _length(self, call: Computation, place: int) -> str | None:
        """A number that the script's line reads off a tensor: of another batch it is another one."""
        known = {*self._names.values(), *self.inputs}
        texts = self._numbers.get(call.number, {}).get(place, frozenset())
        said = min((text for text in texts if tensor_of_length(text) in known), key=len, default=None)
        axis = self._lengths.get(call.number, {}).get(place)
        tensor = self._before_moves(axis.tensor) if axis is not None else None
        is_known = tensor is not None and (tensor.call in self._names or _key(tensor) in self._input_names)
        return f"{self._tensor(axis.tensor)}.size({axis.number})" if said is None and axis and is_known else said

    def _tensor(self, given: PathTensor) -> str:
        if "parameter" in given.told:
            root, *rest = given.told["parameter"].split(".")
            if root not in self.modules:
                self.modules.append(root)
            return attribute(["self", root, *rest])
        given = self._before_moves(given)
        if given.call is not None and given.call in self._names:
            return part_of(self._names[given.call], given.told.get("output"))
        return self._input(given)

    def _before_moves(self, given: PathTensor) -> PathTensor:
        """A tensor as it was before it was moved to a device."""
        while given.call is not None and (call := self._all.get(given.call)) is not None and call.name in MOVES:
            (given,) = given_in(call.live)[:1]
        return given

    def _input(self, given: PathTensor) -> str:
        key = _key(given)
        if given.told.get("state") in self._states:
            assert given.value is not None
            self.inputs[given.told["state"]], self.told[given.told["state"]] = given.value, given.told
            return str(given.told["state"])
        if key not in self._input_names:
            name = given.variable or given.told.get("variable") or given.told.get("part") or ""
            kind = "batch" if "batch" in given.told else "given"
            self._input_names[key] = self._free(name if name.isidentifier() else f"{kind}_{len(self.inputs)}")
            assert given.value is not None
            self.inputs[self._input_names[key]] = given.value
            self.told[self._input_names[key]] = {**given.told, "expression": given.expression}
        return self._input_names[key]

    def _free(self, name: str) -> str:
        taken = {*self._names.values(), *self.inputs, *self._states, *RESERVED}
        candidate, number = name, 2
        while candidate in taken or keyword.iskeyword(candidate):
            candidate, number = f"{name}_{number}", number + 1
        return candidate


def _key(given: PathTensor) -> tuple[Any, ...]:
    """What an input is known by."""
    return given.call, given.told.get("output"), given.told.get("batch"), given.told.get("part"), given.variable
